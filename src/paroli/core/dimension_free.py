r"""From one dimension to many: a learner for the length and one for the direction.

The dimension-free reduction of Cutkosky & Orabona (2018).  A one-dimensional learner plays the
length m_t, another plays a point y_t of the unit ball, and

.. math:: w_t = m_t y_t, \qquad g_t \to \text{direction}, \qquad
          \langle g_t, y_t \rangle \to \text{length}.

The regrets add up without a factor of the dimension:
R(ẘ) = R^length(‖ẘ‖) + ‖ẘ‖ R^direction(ẘ/‖ẘ‖).  The direction is played by `descent`, projected
gradient descent whose steps need no tuning since the ball's diameter is known:

.. math:: y_{t+1} = \Pi\left(y_t - \frac{\sqrt 2 \, r}{\sqrt{\sum_s \|g_s\|_2^2}} \, g_t\right),
          \qquad R(u) \le 2 \sqrt 2 \, r \sqrt{\textstyle\sum_s \|g_s\|_2^2}.

>>> import numpy as np
>>> from paroli import OnlineLearner, dimension_free, doubling
>>> learner = OnlineLearner(dimension_free(doubling()), start=np.zeros(3))
>>> for _ in range(100):
...     learner.update(np.array([0.6, 0.0, -0.8]))
>>> learner.point[0] < 0 < learner.point[2]
np.True_
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from paroli.core.constrained import ball
from paroli.core.learner import (
    Learner,
    Played,
    State,
    Told,
    check_learner,
    check_number,
    tell_below,
)
from paroli.core.space import Array, Leaves, Space


class DescentState(NamedTuple):
    """The point, and the root of the sum of squared lengths of gradients."""

    norm: Array
    y: tuple[Array, ...]


@dataclass(frozen=True)
class descent(Learner):
    """Projected gradient descent on the ball ‖y‖₂ ≤ radius, nothing to tune.

    Args:
        ball_radius: the radius.
    """

    ball_radius: float = 1.0

    def __post_init__(self) -> None:
        check_number("descent", "ball_radius", self.ball_radius, low=0.0)

    @property
    def norm(self) -> float:
        return 2.0

    @property
    def radius(self) -> float:
        return self.ball_radius

    def init(self, space: Space, like: Leaves) -> DescentState:
        y = tuple(space.xp.zeros_like(leaf) for leaf in like)
        return DescentState(space.number(0.0, like[0]), y)

    def play(self, space: Space, state: DescentState) -> Played:
        return Played(list(state.y))

    def update(
        self,
        space: Space,
        state: DescentState,
        played: Played,
        told: Told,
        totals: tuple[Array, ...],
    ) -> DescentState:
        xp = space.xp
        norm = xp.hypot(state.norm, told.norm)
        safe = xp.where(norm > 0, norm, 1.0)
        y = [
            leaf - math.sqrt(2) * self.ball_radius * (g / space.cast(safe, g))
            for leaf, g in zip(state.y, told.g, strict=True)
        ]
        return DescentState(norm, tuple(ball(self.ball_radius, norm=2).project(space, y)))


class DimensionFreeState(NamedTuple):
    """The two learners' states."""

    magnitude: State
    direction: State


@dataclass(frozen=True)
class dimension_free(Learner):
    """A vector learner out of a one-dimensional one, without a factor of the dimension.

    Args:
        magnitude: plays the signed length; `doubling`, or `recursive` around `newton` or `ftrl`.
        direction: plays within the unit ball of the 2-norm.
    """

    magnitude: Learner
    direction: Learner = descent()

    def __post_init__(self) -> None:
        check_learner("dimension_free", "magnitude", self.magnitude)
        check_learner("dimension_free", "direction", self.direction)
        if self.direction.norm != 2.0 or self.direction.radius > 1.0:
            raise ValueError(
                f"dimension_free: direction must stay in the unit ball of the 2-norm, which "
                f"{self.direction!r} does not; wrap it: "
                f"constrained({self.direction!r}, ball(1.0, norm=2))"
            )

    @property
    def norm(self) -> float:
        return 2.0

    @property
    def radius(self) -> float:
        return self.magnitude.radius

    def init(self, space: Space, like: Leaves) -> DimensionFreeState:
        length = space.xp.asarray(space.cast(space.number(0.0, like[0]), like[0]))
        return DimensionFreeState(
            self.magnitude.init(space, [length]), self.direction.init(space, like)
        )

    def play(self, space: Space, state: DimensionFreeState) -> Played:
        m = self.magnitude.play(space, state.magnitude)
        y = self.direction.play(space, state.direction)
        return Played([space.cast(m.w[0], leaf) * leaf for leaf in y.w], (m, y))

    def terms(self, space: Space, played: Played, g: Leaves) -> tuple[Array, ...]:
        _, y = played.inner
        return (space.dot(g, y.w),)

    def update(
        self,
        space: Space,
        state: DimensionFreeState,
        played: Played,
        told: Told,
        totals: tuple[Array, ...],
    ) -> DimensionFreeState:
        xp = space.xp
        m, y = played.inner
        kept = told.g_max / xp.maximum(told.norm, told.g_max)
        slope = totals[0] * kept
        length_told = Told([space.cast(slope, told.g[0])], xp.abs(slope), told.g_max)
        return DimensionFreeState(
            tell_below(space, self.magnitude, state.magnitude, m, length_told, 1.0),
            tell_below(space, self.direction, state.direction, y, told, 2.0),
        )

    def log_wealth(self, space: Space, state: DimensionFreeState) -> Array:
        return self.magnitude.log_wealth(space, state.magnitude)
