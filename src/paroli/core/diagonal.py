r"""Algorithm 2: on every coordinate a bet of its own, confined to [-1/2, 1/2].

Each coordinate keeps a wealth, bets the fraction v of it that follows the regularised leader, and
plays the clipped bet; a gradient that would push a clipped bet further out is dropped:

.. math::
    x_t &= v_t \, \text{Wealth}_{t-1}, \qquad w_t = \text{clip}(x_t, -1/2, 1/2) \\
    \tilde g_t &= 0 \text{ if } g_t (x_t - w_t) < 0 \text{ else } g_t \\
    \text{Wealth}_t &= \text{Wealth}_{t-1} - x_t \tilde g_t, \qquad
    z_t = \frac{\tilde g_t}{1 - \tilde g_t v_t} \\
    A_t &= A_{t-1} + z_t^2, \qquad
    v_{t+1} = \text{clip}\left(\frac{-2\eta \sum_{s \le t} z_s}{A_t},\, -1/2,\, 1/2\right)

Its regret at any ‖ẘ‖_∞ ≤ 1/2 is bounded by ``thm:tighterdiag``.  The wealth needs no logarithm: it
grows only while |x| ≤ 1/2, hence at most linearly, and shrinks at most polynomially.

>>> import numpy as np
>>> from paroli import OnlineLearner, diagonal
>>> learner = OnlineLearner(diagonal(), start=np.zeros(2))
>>> for _ in range(100):
...     learner.update(np.array([1.0, 0.0]))
>>> learner.point
array([-0.5,  0. ])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from paroli.core.constrained import clip, truncated
from paroli.core.ftrl import INITIAL_A, leader
from paroli.core.learner import Coordinatewise, check_number
from paroli.core.space import Array
from paroli.core.wealth import HALF, log_loss_gradient


class DiagonalState(NamedTuple):
    """What the next round needs, one entry for each coordinate."""

    wealth: Array
    A: Array
    sum_z: Array


@dataclass(frozen=True)
class diagonal(Coordinatewise):
    """Algorithm 2.

    Args:
        epsilon: initial wealth of each coordinate.
        eta: weight of the past against the regulariser.
    """

    epsilon: float = 1.0  # line 1
    eta: float = 0.5

    def __post_init__(self) -> None:
        check_number("diagonal", "epsilon", self.epsilon, low=0.0)
        check_number("diagonal", "eta", self.eta, low=0.0)

    @property
    def radius(self) -> float:
        return HALF

    def init_leaf(self, xp: Any, leaf: Array) -> DiagonalState:
        wealth = xp.full_like(leaf, self.epsilon)  # line 2
        return DiagonalState(wealth, xp.full_like(leaf, INITIAL_A), xp.zeros_like(leaf))  # line 3

    def bet_leaf(self, xp: Any, state: DiagonalState) -> Array:
        v = leader(xp, state.sum_z, state.A, self.eta)  # line 19
        return clip(xp, v * state.wealth, HALF)  # lines 6-7, 9

    def update_leaf(self, xp: Any, state: DiagonalState, g: Array, g_max: Array) -> DiagonalState:
        v = leader(xp, state.sum_z, state.A, self.eta)
        x = v * state.wealth
        w = clip(xp, x, HALF)
        g_tilde = truncated(xp, g / g_max, x, w)  # lines 12-15
        wealth = state.wealth - x * g_tilde  # line 16
        z = log_loss_gradient(g_tilde, g_tilde * v)  # line 17
        return DiagonalState(wealth, state.A + z * z, state.sum_z + z)  # line 18

    def wealth_leaf(self, xp: Any, state: DiagonalState) -> Array:
        return state.wealth

    def endowed_leaf(self, xp: Any, state: DiagonalState, share: Array) -> DiagonalState:
        return state._replace(wealth=state.wealth * share)

    def weighed_leaf(
        self, xp: Any, state: DiagonalState, linear: Array, squares: Array
    ) -> DiagonalState:
        A = INITIAL_A + (state.A - INITIAL_A) * squares
        return DiagonalState(state.wealth, A, state.sum_z * linear)
