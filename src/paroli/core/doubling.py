r"""Optimal logarithmic factors: a fixed regulariser, restarted with a doubled one.

The appendix ('Optimal Logarithmic Factors') removes the last power of T from the logarithm of
Algorithm 2's regret.  On one coordinate, within an epoch, A is fixed; the wealth is bet by the
regularised leader, and when the squared gradients have outgrown A everything starts afresh:

.. math::
    v_{t+1} = \text{clip}\left(\frac{-\sum_s z_s}{A},\, -1/2,\, 1/2\right), \qquad
    \text{when } 2 \sum_s g_s^2 > A: \quad
    A \leftarrow 2A, \; \text{Wealth} \leftarrow \epsilon, \; \textstyle\sum z \leftarrow 0

It is a one-dimensional algorithm, here run on every coordinate; `dimension_free` makes a vector
algorithm of a single one of them instead.  It is unconstrained: its wealth is kept as a logarithm.

>>> import numpy as np
>>> from paroli import OnlineLearner, doubling
>>> learner = OnlineLearner(doubling(), start=np.zeros(1))
>>> for _ in range(200):
...     learner.update(np.array([1.0]))
>>> bool(learner.point < -100)
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from paroli.core.ftrl import leader
from paroli.core.learner import Coordinatewise, check_number
from paroli.core.space import Array
from paroli.core.wealth import grown, log_loss_gradient, staked


class DoublingState(NamedTuple):
    """What the next round needs, one entry for each coordinate; Z is the epoch's Σ g²."""

    log_wealth: Array
    A: Array
    sum_z: Array
    Z: Array


@dataclass(frozen=True)
class doubling(Coordinatewise):
    """Coin betting with a fixed regulariser, restarted with double.

    Args:
        epsilon: initial wealth of each coordinate and each epoch.
        A: the first epoch's regulariser.
    """

    epsilon: float = 1.0
    A: float = 1.0

    def __post_init__(self) -> None:
        check_number("doubling", "epsilon", self.epsilon, low=0.0)
        check_number("doubling", "A", self.A, low=0.0)

    def init_leaf(self, xp: Any, leaf: Array) -> DoublingState:
        log_wealth = xp.full_like(leaf, math.log(self.epsilon))
        A = xp.full_like(leaf, self.A)
        return DoublingState(log_wealth, A, xp.zeros_like(leaf), xp.zeros_like(leaf))

    def bet_leaf(self, xp: Any, state: DoublingState) -> Array:
        # The leader of the regulariser A v²/2: the display bounds that one, though the text's η = 1
        # would be A v²/4.
        v = leader(xp, state.sum_z, state.A, 0.5)
        return v * self.wealth_leaf(xp, state)

    def update_leaf(self, xp: Any, state: DoublingState, g: Array, g_max: Array) -> DoublingState:
        g = g / g_max
        g_v = g * leader(xp, state.sum_z, state.A, 0.5)
        log_wealth = grown(xp, state.log_wealth, g_v)
        sum_z = state.sum_z + log_loss_gradient(g, g_v)
        Z = state.Z + g * g
        restart = 2 * Z > state.A
        return DoublingState(
            xp.where(restart, math.log(self.epsilon), log_wealth),
            xp.where(restart, 2 * state.A, state.A),
            xp.where(restart, 0.0, sum_z),
            xp.where(restart, 0.0, Z),
        )

    def wealth_leaf(self, xp: Any, state: DoublingState) -> Array:
        return staked(xp, state.log_wealth)

    def log_wealth_leaf(self, xp: Any, state: DoublingState) -> Array:
        return state.log_wealth
