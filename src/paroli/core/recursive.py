r"""Algorithm 1: choose the betting fraction by another learner.

The wealth starts at ε, the inner learner says which fraction v_t of it to bet on each coordinate,
and the inner learner is told how much better a slightly different fraction would have done:

.. math::
    w_t &= \text{Wealth}_{t-1} \, v_t \\
    \text{Wealth}_t &= \text{Wealth}_{t-1} - g_t \cdot w_t
                     = \text{Wealth}_{t-1} (1 - g_t \cdot v_t) \\
    z_t &= \frac{g_t}{1 - g_t \cdot v_t} = \frac{d}{dv}\left[-\log(1 - g_t \cdot v)\right]_{v=v_t}

The one number g·v couples all coordinates: it is how an inner learner that treats each of them
alone still reacts to their correlations (``thm:recursiveregret``).

The bet must satisfy ‖v‖ ≤ 1/2 in the inner learner's norm and the gradient ‖g‖⋆ ≤ g_max in the
dual one; then |g·v| / g_max ≤ 1/2, wealth stays positive and ‖z‖⋆ ≤ 2 g_max.  A gradient that
breaks the promise is scaled back to length g_max (a theorem speaks of what was used, not of what
was sent); to have the bound found instead, wrap the learner in `rescaled`.

>>> import numpy as np
>>> from paroli import OnlineLearner, diagonal, recursive
>>> learner = OnlineLearner(recursive(inner=diagonal()), start=np.zeros(2))
>>> for _ in range(100):
...     learner.update(np.array([0.5, -0.1]))
>>> learner.point[0] < 0 < learner.point[1]
np.True_
>>> learner.log_wealth > 10
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

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
from paroli.core.wealth import HALF, grown, log_loss_gradient, staked


class RecursiveState(NamedTuple):
    """What the next round needs."""

    log_wealth: Array
    inner: State


@dataclass(frozen=True)
class recursive(Learner):
    """Algorithm 1 around any inner learner whose bets stay within 1/2.

    Args:
        inner: chooses the betting fraction; an unconstrained learner has to be wrapped first,
            ``constrained(learner, box())``.
        epsilon: initial wealth, and the most that can ever be lost against standing still.
    """

    inner: Learner
    epsilon: float = 1.0  # line 1

    def __post_init__(self) -> None:
        check_learner("recursive", "inner", self.inner)
        check_number("recursive", "epsilon", self.epsilon, low=0.0)
        if self.inner.radius > HALF:
            wrap = "box()" if self.inner.norm == math.inf else f"ball(norm={self.inner.norm:g})"
            raise ValueError(
                f"recursive: a betting fraction must stay within {HALF}, but {self.inner!r} may "
                f"play up to {self.inner.radius}; wrap it: constrained({self.inner!r}, {wrap})"
            )

    @property
    def norm(self) -> float:
        return self.inner.norm

    @property
    def measures(self) -> bool:
        return False

    @property
    def lazy(self) -> bool:
        return self.inner.lazy

    @property
    def lean_forms(self) -> dict[str, str]:
        return self.inner.lean_forms

    @property
    def least(self) -> dict[str, float]:
        return self.inner.least

    def init(self, space: Space, like: Leaves) -> RecursiveState:
        log_epsilon = space.number(math.log(self.epsilon), like[0])  # line 2
        return RecursiveState(log_epsilon, self.inner.init(space, like))  # line 3

    def play(self, space: Space, state: RecursiveState) -> Played:
        v = self.inner.play(space, state.inner)  # line 5
        wealth = staked(space.xp, state.log_wealth, space.log_ceiling(v.w))
        return Played([space.cast(wealth, leaf) * leaf for leaf in v.w], v)  # line 6

    def terms(self, space: Space, played: Played, g: Leaves) -> tuple[Array, ...]:
        v = played.inner
        return (space.dot(g, v.w),)

    def update(
        self,
        space: Space,
        state: RecursiveState,
        played: Played,
        told: Told,
        totals: tuple[Array, ...],
    ) -> RecursiveState:
        xp = space.xp
        # What exceeds the promised bound is scaled back to it; 1 exactly where the promise is kept.
        kept = told.g_max / xp.maximum(told.norm, told.g_max)
        g_v = totals[0] / told.g_max * kept
        log_wealth = grown(xp, state.log_wealth, g_v)  # line 8
        # ‖z‖⋆ ≤ 2 g_max; 'we rescale the gradients by a factor of 2' for who accepts only g_max.
        send = log_loss_gradient(self.inner.limit / 2 * kept, g_v)
        z = [leaf * space.cast(send, leaf) for leaf in told.g]  # line 9
        inner_told = Told(z, told.norm * send, told.g_max)
        p = self.gradient_norm
        inner = tell_below(space, self.inner, state.inner, played.inner, inner_told, p)  # line 10
        return RecursiveState(log_wealth, inner)

    def announce(self, space: Space, state: RecursiveState, x: Leaves) -> RecursiveState:
        return state._replace(inner=self.inner.announce(space, state.inner, x))

    def stake(self, space: Space, state: RecursiveState) -> tuple[Array, Leaves] | None:
        inner = self.inner.stake(space, state.inner)
        if inner is None:
            return None
        share, v = inner
        return staked(space.xp, state.log_wealth, space.log_ceiling(v)) * share, v

    def log_wealth(self, space: Space, state: RecursiveState) -> Array:
        return state.log_wealth
