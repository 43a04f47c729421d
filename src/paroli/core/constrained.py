r"""From unconstrained to constrained: play the nearest point of a convex set.

The black-box reduction of Cutkosky & Orabona (2018).  The learner plays x_t wherever it likes; what
is played is its projection w_t, and where the gradient would push a projected point further out,
the learner is told a milder one:

.. math::
    w_t = \Pi(x_t), \qquad
    \tilde g_t = g_t
        + \max\left(0,\, \frac{-\langle g_t, x_t - w_t \rangle}{\|x_t - w_t\|}\right) n_t

with n_t a unit normal of the set at w_t.  Then for every ẘ of the set

.. math:: \langle \tilde g_t, x_t - \mathring w \rangle \ge \langle g_t, w_t - \mathring w \rangle

(``thm:tighterdiag``'s proof has the one-dimensional case), so the regret of what is played is at
most the regret that the learner has anyway.  On a box everything happens coordinate by coordinate:
a coordinate's gradient is dropped where it pushes outward, lines 7 and 12 to 15 of Algorithm 2.

>>> import numpy as np
>>> from paroli import OnlineLearner, adagrad, ball, constrained
>>> learner = OnlineLearner(constrained(adagrad(), ball(1.0, norm=2)), start=np.zeros(2))
>>> for _ in range(100):
...     learner.update(np.array([3.0, -4.0]))
>>> float(np.linalg.norm(learner.point).round(12))
1.0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from paroli.core import norms
from paroli.core.learner import (
    Learner,
    Played,
    Reduction,
    State,
    Told,
    check_number,
    tell_below,
)
from paroli.core.space import Array, Leaves, Space


def clip(xp: Any, x: Array, bound: float) -> Array:
    """x truncated to [-bound, bound]."""
    return xp.clip(x, -bound, bound)  # alg:diag line 7


def truncated(xp: Any, g: Array, x: Array, w: Array) -> Array:
    """g, or 0 where it pushes the clipped w further out than the learner's own x already is."""
    inward = xp.where(x > w, xp.maximum(g, 0.0), g)
    return xp.where(x < w, xp.minimum(g, 0.0), inward)  # alg:diag lines 12-15


@dataclass(frozen=True)
class box:
    """The points with low ≤ w_i ≤ high for every coordinate."""

    low: float = -0.5
    high: float = 0.5

    def __post_init__(self) -> None:
        check_number("box", "low", self.low, low=-math.inf)
        check_number("box", "high", self.high, low=-math.inf)
        if self.low > self.high:
            raise ValueError(f"box: needs low <= high, not {self.low} and {self.high}")

    norm = math.inf
    stretch = 1.0
    only_drops = True

    @property
    def radius(self) -> float:
        return max(abs(self.low), abs(self.high))

    def project(self, space: Space, x: Leaves) -> Leaves:
        return [space.xp.clip(leaf, self.low, self.high) for leaf in x]

    def soften(self, space: Space, g: Leaves, x: Leaves, w: Leaves) -> Leaves:
        return [truncated(space.xp, *leaves) for leaves in zip(g, x, w, strict=True)]


@dataclass(frozen=True)
class ball:
    """The points with ‖w‖_p ≤ radius, for p = 1, 2 or infinity.

    Distances are measured in the ball's own norm, in which shrinking towards 0 is a projection.
    For p = infinity that and `box` are both possible, and the box is kinder: it leaves coordinates
    that are inside alone.
    """

    radius: float = 0.5
    norm: float = 2.0

    def __post_init__(self) -> None:
        check_number("ball", "radius", self.radius, low=0.0)
        object.__setattr__(self, "norm", float(self.norm))
        norms.dual(self.norm)

    @property
    def stretch(self) -> float:
        """How much longer than g the altered gradient can be, in the dual norm."""
        return 2.0 if self.norm == 1.0 else 1.0

    @property
    def only_drops(self) -> bool:
        """The altered gradient is no longer than g in any norm."""
        return self.norm == math.inf

    def project(self, space: Space, x: Leaves) -> Leaves:
        if self.norm == math.inf:
            return box(-self.radius, self.radius).project(space, x)
        length = norms.norm(space, x, self.norm)
        shrink = self.radius / space.xp.where(length > self.radius, length, self.radius)
        return [leaf * space.cast(shrink, leaf) for leaf in x]

    def soften(self, space: Space, g: Leaves, x: Leaves, w: Leaves) -> Leaves:
        if self.norm == math.inf:
            return box(-self.radius, self.radius).soften(space, g, x, w)
        xp = space.xp
        length = norms.norm(space, x, self.norm)
        outside = length > self.radius
        length = xp.where(outside, length, 1.0)
        unit = [leaf / space.cast(length, leaf) for leaf in x]
        # x - w is (‖x‖ - radius) times x/‖x‖, so its length cancels.
        push = -space.total(space.dot(g, unit))[0]
        push = xp.where(outside & (push > 0), push, 0.0)
        normal = unit if self.norm == 2.0 else [xp.sign(leaf) for leaf in unit]
        return [leaf + space.cast(push, leaf) * n for leaf, n in zip(g, normal, strict=True)]


class ConstrainedState(NamedTuple):
    """The learner's own; the reduction needs nothing from round to round."""

    inner: State


@dataclass(frozen=True)
class constrained(Reduction):
    """A learner confined to a `box` or a `ball`.

    Args:
        learner: any learner, free or already confined to something larger.
        domain: where to play.
    """

    learner: Learner
    domain: box | ball = box()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.domain, box | ball):
            raise TypeError(
                f"constrained: domain must be box(low, high) or ball(radius, norm), "
                f"not {self.domain!r}"
            )

    @property
    def norm(self) -> float:
        return self.domain.norm

    @property
    def radius(self) -> float:
        return self.domain.radius

    average = Learner.average  # one below is of other points than those that are played

    @property
    def measures(self) -> bool:
        return False

    @property
    def lazy(self) -> bool:
        return self.domain.only_drops and self.learner.lazy  # a ball bends zeros too

    @property
    def still(self) -> bool:
        return self.lazy and self.learner.still

    def init(self, space: Space, like: Leaves) -> ConstrainedState:
        return ConstrainedState(self.learner.init(space, like))

    def play(self, space: Space, state: ConstrainedState) -> Played:
        x = self.learner.play(space, state.inner)
        return Played(self.domain.project(space, x.w), x)

    def terms(self, space: Space, played: Played, g: Leaves) -> tuple[Array, ...]:
        return ()  # the learner's sums are of the altered gradient, known only in `update`

    def update(
        self,
        space: Space,
        state: ConstrainedState,
        played: Played,
        told: Told,
        totals: tuple[Array, ...],
    ) -> ConstrainedState:
        w, x = played
        g_tilde = self.domain.soften(space, told.g, x.w, w)
        if self.domain.stretch > 1:
            g_tilde = [leaf / self.domain.stretch for leaf in g_tilde]
        told = told._replace(g=g_tilde)
        p = self.gradient_norm if self.domain.only_drops else None
        return ConstrainedState(tell_below(space, self.learner, state.inner, x, told, p))
