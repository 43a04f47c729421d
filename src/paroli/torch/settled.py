"""What is the same in every step while nobody changes anything: found once, then only compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import eq, is_
from typing import Any, TypeAlias

import torch

from paroli.torch.leaves import Leaf
from paroli.torch.space import TorchSpace

Unit: TypeAlias = list[tuple[torch.Tensor, dict[str, Any]]]
"""Parameters that share a wealth, each with its group."""


class Settled:
    """Units of parameters that are stored as whole leaves.

    A step that looks up each of a thousand parameters anew takes longer for that than for its
    arithmetic.  Whether all is as it was takes no look-up: only comparisons of what is where.

    Args:
        groups: the optimizer's.
        state: the optimizer's.
        units: all of them.
        leaves: of each unit, when all its parameters have gradients.
        spaces: where each unit's sums go.
    """

    def __init__(
        self,
        groups: Sequence[dict[str, Any]],
        state: Mapping[torch.Tensor, dict[str, Any]],
        units: list[Unit],
        leaves: list[list[Leaf]],
        spaces: list[TorchSpace],
    ) -> None:
        self.units, self.leaves, self.spaces = units, leaves, spaces
        self.groups = list(groups)
        self.params = [list(group["params"]) for group in groups]
        self.states = list(state.values())
        views = [view for some in leaves for leaf in some for view in leaf.views.items()]
        marks = {p: leaf.mark for some in leaves for leaf in some for p in leaf.params}
        self.owners = [state[p] for p, _ in views]
        self.marks = [marks[p] for p, _ in views]
        self.views = [view for _, view in views]
        self.points = [p for p, _ in views]
        self.strides = [p.stride() for p in self.points]

    def holds(
        self, groups: Sequence[dict[str, Any]], state: Mapping[torch.Tensor, dict[str, Any]]
    ) -> bool:
        """Whether groups, parameters and their states are what and how they were."""
        return (
            _same(groups, self.groups)
            and all(
                _same(group["params"], params)
                for group, params in zip(groups, self.params, strict=True)
            )
            and _same(list(state.values()), self.states)
            and all(map(is_, map(dict.get, self.owners, self.marks), self.views))
            and all(map(eq, map(torch.Tensor.stride, self.points), self.strides))
        )


def _same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))
