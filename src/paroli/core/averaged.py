r"""Averages of what was played, beside a learner that they leave alone.

Online-to-batch conversion: for convex losses the average of the points played is as good as the
regret divided by T promises.  The average moves towards each point as it is played,

.. math:: \overline{x}_t = \overline{x}_{t-1} + c_t (w_t - \overline{x}_{t-1}),

and the kinds differ in the share c_t of the newest point: `uniform`, `polynomial` (recent points
count more, Shamir & Zhang 2013), `exponential` (old points are forgotten, after a start that
averages over the rounds so far).  A new kind is a frozen dataclass with a method ``share(xp, t)``.

>>> import numpy as np
>>> from paroli import OnlineLearner, averaged, diagonal, polynomial
>>> learner = OnlineLearner(averaged(diagonal(), polynomial(power=8.0)), start=np.zeros(1))
>>> for sign in (1, -1) * 50:
...     learner.update(np.array([0.9 * sign]))
>>> bool(abs(learner.average) < 0.1)
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from paroli.core.learner import Learner, Played, Reduction, State, Told, check_number
from paroli.core.space import Array, Leaves, Space


def moved(average: Array, point: Array, share: Array) -> Array:
    """The average after a new point has got its share of it."""
    return average + share * (point - average)


class Average(Protocol):
    """A kind of average: the share of the point of round t = 1, 2, …, which must be 1 at t = 1."""

    def share(self, xp: Any, t: Array) -> Array: ...


@dataclass(frozen=True)
class uniform:
    """All points count alike: c_t = 1/t."""

    def share(self, xp: Any, t: Array) -> Array:
        return 1 / t


@dataclass(frozen=True)
class polynomial:
    """A point's weight grows like t**power: c_t = (power + 1) / (power + t)."""

    power: float = 8.0

    def __post_init__(self) -> None:
        check_number("polynomial", "power", self.power, low=0.0)

    def share(self, xp: Any, t: Array) -> Array:
        return (self.power + 1) / (self.power + t)


@dataclass(frozen=True)
class exponential:
    """Weights decay by ``decay`` a round: c_t = 1 - min(decay, (t - 1) / (t + 9))."""

    decay: float = 0.998

    def __post_init__(self) -> None:
        check_number("exponential", "decay", self.decay, low=0.0, high=1.0)

    def share(self, xp: Any, t: Array) -> Array:
        return 1 - xp.clip((t - 1) / (t + 9), 0.0, self.decay)


class AveragedState(NamedTuple):
    """The round, the average, and the learner's own state."""

    t: Array
    average: tuple[Array, ...]
    inner: State


@dataclass(frozen=True)
class averaged(Reduction):
    """A learner beside an average of the points it played.

    Args:
        learner: any learner; its iterates are not changed.
        kind: `uniform`, `polynomial`, `exponential`, or anything with a method ``share(xp, t)``.
    """

    learner: Learner
    kind: Average = uniform()

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.kind, type) or not callable(getattr(self.kind, "share", None)):
            raise TypeError(f"averaged: kind must be such as uniform(), not {self.kind!r}")

    @property
    def lazy(self) -> bool:
        return False  # the average moves whenever a point is played

    def init(self, space: Space, like: Leaves) -> AveragedState:
        average = tuple(space.xp.zeros_like(leaf) for leaf in like)
        return AveragedState(space.number(0.0, like[0]), average, self.learner.init(space, like))

    def update(
        self,
        space: Space,
        state: AveragedState,
        played: Played,
        told: Told,
        totals: tuple[Array, ...],
    ) -> AveragedState:
        t = state.t + 1
        share = self.kind.share(space.xp, t)
        average = tuple(
            moved(old, w, space.cast(share, w))
            for old, w in zip(state.average, played.w, strict=True)
        )
        inner = self.learner.update(space, state.inner, played.inner, told, totals)
        return AveragedState(t, average, inner)

    def average(self, space: Space, state: AveragedState) -> Leaves:
        return list(state.average)
