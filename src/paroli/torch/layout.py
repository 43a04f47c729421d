"""From a learner's nested state to ``optimizer.state[p]`` and back.

In a state, a plain tuple has one entry for each leaf and everything else is a global number (see
`paroli.core.learner`).  PyTorch wants a flat dict for each parameter.  So the parts that belong to
a leaf go to its parameter's dict, and the global numbers go to everybody's, as the very same tensor
of shape (1,): whatever saves, loads, moves or shards optimizer state then takes them along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from paroli.core.learner import Learner, State
from paroli.torch.space import TorchSpace


class Layout:
    """The names under which the parts of a learner's state are kept."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        space = TorchSpace(torch.device("cpu"))
        self.template = learner.init(space, [torch.zeros(2, dtype=torch.float64)])
        paths: list[tuple[tuple[str, ...], bool]] = []

        def note(path: tuple[str, ...], leaf: int | None, part: Any) -> None:
            if leaf is None and part.numel() != 1:
                raise ValueError(
                    f"{learner!r} keeps {path[-1]}, an array over all coordinates together; "
                    f"PyTorch's optimizers keep state by parameter: take a learner that treats "
                    f"coordinates or parameters alone, such as scinol() or perleaf(...)"
                )
            paths.append((path, leaf is not None))

        _walk(self.template, (), None, note)
        last = [path[-1] if path else "state" for path, _ in paths]
        self.keys = {
            path: name if last.count(name) == 1 else ".".join(path)
            for (path, _), name in zip(paths, last, strict=True)
        }
        self.numbers = [self.keys[path] for path, of_leaf in paths if not of_leaf]

    def init_numbers(self, space: TorchSpace) -> dict[str, torch.Tensor]:
        """The global numbers before the first round."""
        state = self.learner.init(space, [torch.zeros(1, dtype=torch.float32, device=space.device)])
        found: dict[str, torch.Tensor] = {}

        def keep(path: tuple[str, ...], leaf: int | None, part: Any) -> None:
            if leaf is None:
                found[self.keys[path]] = part.reshape(1).clone()

        _walk(state, (), None, keep)
        return found

    def init_leaf(self, space: TorchSpace, leaf: torch.Tensor) -> dict[str, torch.Tensor]:
        """The parts of one leaf before its first round."""
        found: dict[str, torch.Tensor] = {}

        def keep(path: tuple[str, ...], index: int | None, part: Any) -> None:
            if index is not None:
                found[self.keys[path]] = part

        _walk(self.learner.init(space, [leaf]), (), None, keep)
        return found

    def gather(self, own: list[dict[str, Any]]) -> State:
        """The nested state of the leaves whose dicts are given."""

        def build(node: Any, path: tuple[str, ...], leaf: dict[str, Any] | None) -> Any:
            if not isinstance(node, tuple):
                if leaf is None:
                    return own[0][self.keys[path]].reshape(())
                return _local(leaf[self.keys[path]])
            if hasattr(node, "_fields"):
                parts = (build(getattr(node, f), (*path, f), leaf) for f in node._fields)
                return type(node)(*parts)
            if leaf is not None:  # what a copy of a learner for this leaf alone keeps for it
                return (build(node[0], path, leaf),)
            return tuple(build(node[0], path, mine) for mine in own)

        return build(self.template, (), None)

    def scatter(
        self,
        own: list[dict[str, Any]],
        old: State,
        new: State,
        finite: torch.Tensor,
        everything: bool,
    ) -> None:
        """Write a new state in place; where the round does not count, the old values stay.

        A lazy learner's arrays stay by themselves, since it was told a zero gradient.
        """
        olds: dict[tuple[tuple[str, ...], int | None], Any] = {}
        _walk(old, (), None, lambda path, leaf, part: olds.__setitem__((path, leaf), part))

        def write(path: tuple[str, ...], leaf: int | None, part: Any) -> None:
            key = self.keys[path]
            if leaf is None or everything:
                before = olds[path, leaf]
                part = torch.where(finite.to(before.device), part, before)
            if leaf is None:
                own[0][key].copy_(part.reshape(1))
            else:
                _local(own[leaf][key]).copy_(part)

        _walk(new, (), None, write)


def _walk(
    node: Any,
    path: tuple[str, ...],
    leaf: int | None,
    visit: Callable[[tuple[str, ...], int | None, Any], object],
) -> None:
    """Visit every array of a state with the names on the way to it and the leaf it belongs to."""
    if not isinstance(node, tuple):
        visit(path, leaf, node)
    elif hasattr(node, "_fields"):
        for field in node._fields:
            _walk(getattr(node, field), (*path, field), leaf, visit)
    else:
        for i, part in enumerate(node):
            _walk(part, path, i if leaf is None else leaf, visit)


def _local(x: torch.Tensor) -> torch.Tensor:
    to_local: Callable[[], torch.Tensor] | None = getattr(x, "to_local", None)
    return x if to_local is None else to_local()
