r"""ScInOL 1 and 2 as Kempka, Kotłowski & Warmuth (2019) state them.

Scale-invariant learners for linear models, where the row of features x_t is known before the
prediction and the gradient is a slope of at most 1 times x_t.  `Learner.announce` brings x_t in;
without it the largest gradient of the past stands for it, and a larger one counts as that.  On each
coordinate, with M = max |x|, S² = Σ g², G = -Σ g and θ = G / √(S² + M²), ScInOL 1 plays

.. math::
    w = \beta \, \text{sign}(\theta) \frac{e^{|\theta|/2} - 1}{2\sqrt{S^2 + M^2}}, \qquad
    \beta \leftarrow \min\left(\beta,\, \frac{\epsilon (S^2 + M^2)}{x_t^2 \, t}\right)

and ScInOL 2 bets a fraction of its wealth η, which starts at ε:

.. math::
    w = \eta \, \frac{\text{sign}(\theta) \min(|\theta|, 1)}{2\sqrt{S^2 + M^2}}, \qquad
    \eta \leftarrow \eta - g_t w.

>>> import numpy as np
>>> from paroli import OnlineLearner, scinol2
>>> learner = OnlineLearner(scinol2(), start=np.zeros(2))
>>> x, y = np.array([1.0, 1000.0]), 2.0
>>> for _ in range(100):
...     learner.announce(x)
...     learner.update(np.sign(x @ learner.point - y) * x)
>>> bool(abs(x @ learner.point - y) < 0.5)
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from paroli.core.constrained import clip
from paroli.core.learner import Coordinatewise, check_number
from paroli.core.space import Array
from paroli.core.wealth import grown, log_ceiling, staked


def _theta_and_scale(xp: Any, G: Array, S: Array, M: Array) -> tuple[Array, Array]:
    scale = xp.hypot(S, M)
    scale = xp.where(scale > 0, scale, 1.0)  # before the first gradient: G = 0 and so is the bet
    return G / scale, scale


def _within(xp: Any, g: Array, M: Array) -> Array:
    return xp.minimum(xp.maximum(g, -M), M)


class Scinol1State(NamedTuple):
    """What the next round needs, one entry for each coordinate; t counts rounds."""

    beta: Array
    M: Array
    S: Array
    G: Array
    t: Array


@dataclass(frozen=True)
class scinol1(Coordinatewise):
    """ScInOL 1.

    Args:
        epsilon: bounds the regret at the origin.
    """

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        check_number("scinol1", "epsilon", self.epsilon, low=0.0)

    @property
    def lazy(self) -> bool:
        return False  # t counts every round

    def init_leaf(self, xp: Any, leaf: Array) -> Scinol1State:
        M, S, G = (xp.zeros_like(leaf) for _ in range(3))
        return Scinol1State(xp.full_like(leaf, 1.0), M, S, G, xp.full_like(leaf, 1.0))

    def announce_leaf(self, xp: Any, state: Scinol1State, x: Array) -> Scinol1State:
        x = xp.abs(x)
        M = xp.maximum(state.M, x)
        _, scale = _theta_and_scale(xp, state.G, state.S, M)
        share = (x / scale) * (x / scale) * state.t
        shrinks = state.beta * share > self.epsilon
        beta = xp.where(shrinks, self.epsilon / xp.where(shrinks, share, 1.0), state.beta)
        return state._replace(beta=beta, M=M)

    def bet_leaf(self, xp: Any, state: Scinol1State) -> Array:
        theta, scale = _theta_and_scale(xp, state.G, state.S, state.M)
        # The exponent stops where the bet, divided by the scale, would leave the float range.
        ceiling = log_ceiling(xp, theta) + xp.clip(xp.log(2 * scale), -math.inf, 0.0)
        exponent = xp.minimum(xp.abs(theta) / 2, ceiling)
        return state.beta * xp.sign(theta) * xp.expm1(exponent) / (2 * scale)

    def update_leaf(self, xp: Any, state: Scinol1State, g: Array, g_max: Array) -> Scinol1State:
        past = _within(xp, g, state.M)
        state = self.announce_leaf(xp, state, g)
        S, G = xp.hypot(state.S, past), state.G - past
        return state._replace(S=S, G=G, t=state.t + 1)


class Scinol2State(NamedTuple):
    """What the next round needs, one entry for each coordinate; the wealth is the paper's η."""

    log_wealth: Array
    M: Array
    S: Array
    G: Array


@dataclass(frozen=True)
class scinol2(Coordinatewise):
    """ScInOL 2.

    Args:
        epsilon: initial wealth of each coordinate.
    """

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        check_number("scinol2", "epsilon", self.epsilon, low=0.0)

    def init_leaf(self, xp: Any, leaf: Array) -> Scinol2State:
        M, S, G = (xp.zeros_like(leaf) for _ in range(3))
        return Scinol2State(xp.full_like(leaf, math.log(self.epsilon)), M, S, G)

    def announce_leaf(self, xp: Any, state: Scinol2State, x: Array) -> Scinol2State:
        return state._replace(M=xp.maximum(state.M, xp.abs(x)))

    def bet_leaf(self, xp: Any, state: Scinol2State) -> Array:
        theta, scale = _theta_and_scale(xp, state.G, state.S, state.M)
        log_stake = state.log_wealth - xp.log(2 * scale)
        return staked(xp, log_stake) * clip(xp, theta, 1.0)

    def update_leaf(self, xp: Any, state: Scinol2State, g: Array, g_max: Array) -> Scinol2State:
        past = _within(xp, g, state.M)
        theta, scale = _theta_and_scale(xp, state.G, state.S, state.M)
        log_wealth = grown(xp, state.log_wealth, clip(xp, theta, 1.0) * (past / scale) / 2)
        M = xp.maximum(state.M, xp.abs(g))
        return Scinol2State(log_wealth, M, xp.hypot(state.S, past), state.G - past)

    def wealth_leaf(self, xp: Any, state: Scinol2State) -> Array:
        return staked(xp, state.log_wealth)

    def log_wealth_leaf(self, xp: Any, state: Scinol2State) -> Array:
        return state.log_wealth
