"""One learner, many copies: for each coordinate, or for each leaf.

A one-dimensional algorithm becomes a vector algorithm by running it on every coordinate; the
regrets add up.  The same formulas serve: a sum 'over all coordinates' is then over one.

>>> import numpy as np
>>> from paroli import OnlineLearner, newton, percoordinate, recursive
>>> learner = OnlineLearner(percoordinate(recursive(newton())), start=np.zeros(2))
>>> for _ in range(100):
...     learner.update(np.array([1.0, -1.0]))
>>> bool(learner.point[0] == -learner.point[1] < -1e3)
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from paroli.core import norms
from paroli.core.learner import Learner, Played, Reduction, State, Told, reduce
from paroli.core.space import Array, Leaves, Space


@dataclass(frozen=True)
class _Copies(Reduction):
    """What the two have in common: a state for each leaf."""

    learner: Learner

    @property
    def measures(self) -> bool:
        return False  # every copy's gradient is measured by itself

    def _space(self, space: Space) -> Space:
        raise NotImplementedError

    def init(self, space: Space, like: Leaves) -> State:
        return tuple(self.learner.init(self._space(space), [leaf]) for leaf in like)

    def play(self, space: Space, state: State) -> Played:
        space = self._space(space)
        inner = [self.learner.play(space, leaf_state) for leaf_state in state]
        return Played([played.w[0] for played in inner], inner)

    def update(
        self, space: Space, state: State, played: Played, told: Told, totals: tuple[Array, ...]
    ) -> State:
        space = self._space(space)
        states = []
        for leaf_state, leaf_played, g in zip(state, played.inner, told.g, strict=True):
            norm, sums = reduce(space, self.learner, leaf_played, [g])
            g_max = space.cast(told.g_max, norm)  # as wide as the copies' own numbers are
            leaf_told = Told([g], norm, g_max)
            states.append(self.learner.update(space, leaf_state, leaf_played, leaf_told, sums))
        return tuple(states)

    def terms(self, space: Space, played: Played, g: Leaves) -> tuple[Array, ...]:
        return ()  # every copy takes its own sums, in `update`

    def announce(self, space: Space, state: State, x: Leaves) -> State:
        space = self._space(space)
        return tuple(self.learner.announce(space, s, [a]) for s, a in zip(state, x, strict=True))

    def average(self, space: Space, state: State) -> Leaves:
        space = self._space(space)
        return [self.learner.average(space, leaf_state)[0] for leaf_state in state]

    def log_wealth(self, space: Space, state: State) -> Array:
        copies = self._space(space)
        logs = [self.learner.log_wealth(copies, leaf_state) for leaf_state in state]
        return norms.log_total(space, logs)


@dataclass(frozen=True)
class perleaf(_Copies):
    """A copy of a learner for each leaf: one wealth a tensor instead of one for all."""

    @property
    def radius(self) -> float:
        return self.learner.radius if self.norm == math.inf else math.inf

    def _space(self, space: Space) -> Space:
        return space


@dataclass(frozen=True)
class percoordinate(_Copies):
    """A copy of a one-dimensional learner for each coordinate."""

    @property
    def norm(self) -> float:
        return math.inf

    @property
    def gradient_norm(self) -> float:
        return math.inf

    @property
    def lazy(self) -> bool:
        return self.learner.lazy

    @property
    def still(self) -> bool:
        return self.lazy

    def _space(self, space: Space) -> Space:
        return _EachAlone(space)


class _EachAlone(Space):
    """A space in which every coordinate is a world of its own: nothing is ever added up."""

    def __init__(self, space: Space) -> None:
        super().__init__(space.xp, space.scalar)
        self.space = space

    def number(self, value: float, like: Array) -> Array:
        return self.xp.full_like(like, value)

    def cast(self, number: Array, like: Array) -> Array:
        return self.space.cast(number, like)

    def sum(self, x: Array) -> Array:
        return x

    def max(self, x: Array) -> Array:
        return x

    def magnitude_ceiling(self, leaves: Leaves) -> float:
        return self.space.magnitude_ceiling(leaves)
