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
        self.parts = [self.keys[path] for path, of_leaf in paths if of_leaf]
        shapes = [part.shape for part in self.init_leaf(space, torch.zeros(2)).values()]
        lean = learner.lean_forms
        self.lean_forms = {
            key: lean[path[-1]] for path, key in self.keys.items() if path[-1] in lean
        }
        """The parts of which bfloat16's digits will do, while the others are in float32."""
        least = learner.least
        self.least = {key: least[path[-1]] for path, key in self.keys.items() if path[-1] in least}
        """The parts that never fall below a number, and that number."""
        self.joinable = all(shape == (2,) for shape in shapes)
        """Whether tensors may be stored end to end: no number belongs to a tensor as a whole."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.learner == other.learner

    def __hash__(self) -> int:
        return hash(self.learner)

    def init_numbers(self, space: TorchSpace) -> dict[str, torch.Tensor]:
        """The global numbers before the first round."""
        leaf = torch.zeros(1, dtype=torch.float32, device=space.device)
        numbers, _ = self.flat(self.learner.init(space, [leaf]), 1)
        return {key: part.reshape(1).clone() for key, part in numbers.items()}

    def init_leaf(self, space: TorchSpace, leaf: torch.Tensor) -> dict[str, torch.Tensor]:
        """The parts of one leaf before its first round."""
        _, (parts,) = self.flat(self.learner.init(space, [leaf]), 1)
        return parts

    def nested(self, numbers: dict[str, Any], leaves: list[dict[str, torch.Tensor]]) -> State:
        """The learner's state, from its global numbers and the parts that belong to each leaf."""

        def build(node: Any, path: tuple[str, ...], leaf: dict[str, torch.Tensor] | None) -> Any:
            if not isinstance(node, tuple):
                if leaf is None:
                    return numbers[self.keys[path]]
                return leaf[self.keys[path]]
            if hasattr(node, "_fields"):
                parts = (build(getattr(node, f), (*path, f), leaf) for f in node._fields)
                return type(node)(*parts)
            if leaf is not None:  # what a copy of a learner for this leaf alone keeps for it
                return (build(node[0], path, leaf),)
            return tuple(build(node[0], path, mine) for mine in leaves)

        return build(self.template, (), None)

    def flat(
        self, state: State, count: int
    ) -> tuple[dict[str, torch.Tensor], list[dict[str, torch.Tensor]]]:
        """The inverse of `nested`, for so many leaves."""
        numbers: dict[str, torch.Tensor] = {}
        leaves: list[dict[str, torch.Tensor]] = [{} for _ in range(count)]

        def keep(path: tuple[str, ...], leaf: int | None, part: Any) -> None:
            (numbers if leaf is None else leaves[leaf])[self.keys[path]] = part

        _walk(state, (), None, keep)
        return numbers, leaves


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
