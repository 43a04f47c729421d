"""Array libraries in which the tests play a stack, and the playing itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import torch

from paroli.core.learner import Learner, State, tell
from paroli.core.space import NUMPY, Array, Leaves, Space

Vector = npt.NDArray[np.float64]
Shapes = Sequence[tuple[int, ...]]

# The strictest there is: no data-dependent shapes or boolean indexing, which jax.jit refuses too.
array_api_strict.set_array_api_strict_flags(boolean_indexing=False, data_dependent_shapes=False)
# Tensors are tiny here, and pytest-xdist has a process on every core already.
torch.set_num_threads(1)
# A stack is compiled once and played once: five times less waiting than with the defaults.
QUICK_TO_COMPILE = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


class TorchSpace(Space):
    """torch, whose functions of two arrays do not take Python numbers."""

    def __init__(self) -> None:
        as_in_standard = (
            "abs asarray clip concat exp expm1 eye finfo full_like linalg log log1p max reshape "
            "sign sqrt sum where zeros zeros_like"
        )
        names = {name: getattr(torch, name) for name in as_in_standard.split()}
        for name in ("maximum", "minimum", "hypot"):
            names[name] = self._of_two(getattr(torch, name))
        super().__init__(SimpleNamespace(**names), torch.float64)

    @staticmethod
    def _of_two(function: Callable[[Array, Array], Array]) -> Callable[[Array, Any], Array]:
        def of_two(a: Array, b: Any) -> Array:
            return function(a, b if isinstance(b, torch.Tensor) else torch.full_like(a, b))

        return of_two

    def cast(self, number: Array, like: Array) -> Array:
        return number.to(like.dtype)

    def max(self, x: Array) -> Array:
        return x.max().to(self.scalar)


@dataclass(frozen=True)
class Played:
    """Row t of ``points`` is what was played after t gradients; the rest is as it was at the end.

    What a learner does not have is None.
    """

    points: Vector
    average: Vector | None
    log_wealth: float | None
    state: State


def vector(leaves: Sequence[Array]) -> Vector:
    """All entries of all leaves of any library."""
    return np.concatenate([np.asarray(leaf).reshape(-1) for leaf in leaves])


def split(row: Vector, shapes: Shapes) -> list[Vector]:
    """The inverse of `vector`; a leaf of shape () stays an array."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return [
        np.array(part).reshape(shape)
        for part, shape in zip(np.split(row, ends[:-1]), shapes, strict=True)
    ]


class Library:
    """A way to play a stack in NumPy, and what the others change about it."""

    name = "numpy"
    space: Space = NUMPY

    def array(self, x: Vector) -> Array:
        return x

    def guarded(self, nest: Any) -> Any:
        """State or leaves, as they are handed to the learner."""
        return nest

    def play(
        self, learner: Learner, shapes: Shapes, stream: Vector, announced: Vector | None = None
    ) -> Played:
        """Play against the gradients in the rows of ``stream``, each announced before its round."""
        like = self.guarded([self.array(leaf) for leaf in split(0 * stream[0], shapes)])
        state = self.guarded(learner.init(self.space, like))
        state, points = self.rounds(learner, shapes, state, stream, announced)
        return Played(
            points,
            vector(learner.average(self.space, state)) if has_average(learner) else None,
            float(learner.log_wealth(self.space, state)) if has_wealth(learner) else None,
            state,
        )

    def rounds(
        self,
        learner: Learner,
        shapes: Shapes,
        state: State,
        stream: Vector,
        announced: Vector | None,
    ) -> tuple[State, Vector]:
        points = []
        for t in range(len(stream)):
            if announced is not None:
                state = self.guarded(
                    learner.announce(self.space, state, self.leaves(announced[t], shapes))
                )
            points.append(vector(learner.bet(self.space, state)))
            g = self.leaves(stream[t], shapes)
            state = self.guarded(tell(self.space, learner, state, g))
        points.append(vector(learner.bet(self.space, state)))
        return state, np.array(points)

    def leaves(self, row: Vector, shapes: Shapes) -> Leaves:
        leaves: Leaves = self.guarded([self.array(leaf) for leaf in split(row, shapes)])
        return leaves


class ReadOnlyLibrary(Library):
    """NumPy with every array locked: whoever writes to an argument raises."""

    name = "readonly"

    def guarded(self, nest: Any) -> Any:
        if isinstance(nest, tuple | list):
            for part in nest:
                self.guarded(part)
        elif isinstance(nest, np.ndarray):
            nest.flags.writeable = False
        return nest


class StrictLibrary(Library):
    """The array API standard's functions and no others."""

    name = "strict"
    space = Space(array_api_strict, array_api_strict.float64)

    def array(self, x: Vector) -> Array:
        return array_api_strict.asarray(x)


class TorchLibrary(Library):
    name = "torch"
    space = TorchSpace()

    def array(self, x: Vector) -> Array:
        return torch.asarray(x)


class JaxLibrary(Library):
    """JAX op by op, in float64 within a context: the setting must not leak into other tests."""

    name = "jax"
    space = Space(jnp, jnp.float64)

    def array(self, x: Vector) -> Array:
        return jnp.asarray(x)

    def play(
        self, learner: Learner, shapes: Shapes, stream: Vector, announced: Vector | None = None
    ) -> Played:
        with jax.enable_x64(True):
            return super().play(learner, shapes, stream, announced)


class JittedLibrary(JaxLibrary):
    """JAX with the round compiled and scanned over: the state may not change shape or dtype."""

    name = "jit"

    def rounds(
        self,
        learner: Learner,
        shapes: Shapes,
        state: State,
        stream: Vector,
        announced: Vector | None,
    ) -> tuple[State, Vector]:
        def one(state: State, known: tuple[Leaves, Leaves | None]) -> tuple[State, Leaves]:
            g, x = known
            if x is not None:
                state = learner.announce(self.space, state, x)
            return tell(self.space, learner, state, g), learner.bet(self.space, state)

        def stacked(rows: Vector) -> Leaves:
            columns = zip(*(split(row, shapes) for row in rows), strict=True)
            return [jnp.asarray(np.array(leaf)) for leaf in columns]

        known = stacked(stream), None if announced is None else stacked(announced)
        played = jax.jit(lambda *args: jax.lax.scan(one, *args), compiler_options=QUICK_TO_COMPILE)
        state, points = played(state, known)
        rows = [np.asarray(leaf).reshape(len(stream), -1) for leaf in points]
        last = vector(learner.bet(self.space, state))
        return state, np.concatenate([np.concatenate(rows, axis=1), last[None]])


LIBRARIES: list[Library] = [
    Library(),
    ReadOnlyLibrary(),
    StrictLibrary(),
    TorchLibrary(),
    JaxLibrary(),
    JittedLibrary(),
]


def has_average(learner: Learner) -> bool:
    return _has(learner.average, learner)


def has_wealth(learner: Learner) -> bool:
    return _has(learner.log_wealth, learner)


def _has(function: Callable[[Space, State], Any], learner: Learner) -> bool:
    try:
        function(NUMPY, learner.init(NUMPY, [np.zeros(1)]))
    except AttributeError:
        return False
    return True
