r"""The authors' other inner learner, ONSBET: coin betting by the Online Newton Step, confined.

The same frame as Algorithm 2 with a Newton step in place of the regularised leader.  Gradients of
the betting fraction are made unitless by the largest gradient M of the coordinate:

.. math::
    x &= v \, \text{Wealth}, \quad w = \text{clip}(x, -D, D), \quad
    \text{Wealth} \leftarrow \text{Wealth} - x \tilde g \\
    z &= \frac{\tilde g}{(1 - \tilde g v) M}, \quad A \leftarrow A + z^2, \quad
    v \leftarrow \text{clip}(v - \eta z / A, -D, D)

>>> import numpy as np
>>> from paroli import OnlineLearner, ons, recursive, rescaled
>>> learner = OnlineLearner(rescaled(recursive(ons())), start=np.zeros(2))
>>> for _ in range(100):
...     learner.update(np.array([1.0, -1.0]))
>>> learner.point[0] < 0 < learner.point[1]
np.True_
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from paroli.core.constrained import clip, truncated
from paroli.core.learner import Coordinatewise, check_number
from paroli.core.newton import newton_rate, newton_step
from paroli.core.scinol import TINY, released_limit
from paroli.core.space import Array
from paroli.core.wealth import HALF, log_loss_gradient


class OnsState(NamedTuple):
    """What the next round needs, one entry for each coordinate."""

    wealth: Array
    v: Array
    M: Array
    A: Array


@dataclass(frozen=True)
class ons(Coordinatewise):
    """The authors' ONSBET.

    Args:
        epsilon: initial wealth of each coordinate.
        eta: step size; None: the largest for which the Newton step's regret bound holds.
        tau: initial value of A, the sum of squares; small values make the first bets bold.
        domain: bets, and the fractions behind them, are confined to [-domain, domain].
    """

    epsilon: float = 1.0
    eta: float | None = None
    tau: float = TINY
    domain: float = HALF

    def __post_init__(self) -> None:
        check_number("ons", "epsilon", self.epsilon, low=0.0)
        check_number("ons", "tau", self.tau, low=0.0)
        check_number("ons", "domain", self.domain, low=0.0, high=HALF)
        if self.eta is not None:
            check_number("ons", "eta", self.eta, low=0.0)

    @property
    def radius(self) -> float:
        return self.domain

    @property
    def limit(self) -> float:
        return released_limit(self.domain)

    def init_leaf(self, xp: Any, leaf: Array) -> OnsState:
        wealth, M = xp.full_like(leaf, self.epsilon), xp.full_like(leaf, TINY)
        return OnsState(wealth, xp.zeros_like(leaf), M, xp.full_like(leaf, self.tau))

    def bet_leaf(self, xp: Any, state: OnsState) -> Array:
        return clip(xp, state.v * state.wealth, self.domain)

    def update_leaf(self, xp: Any, state: OnsState, g: Array, g_max: Array) -> OnsState:
        x = state.v * state.wealth
        w = clip(xp, x, self.domain)
        g = g / g_max
        M = xp.maximum(state.M, xp.abs(g))
        g_tilde = truncated(xp, g, x, w)
        wealth = state.wealth - x * g_tilde
        z = log_loss_gradient(g_tilde, g_tilde * state.v) / M
        A = state.A + z * z
        eta = newton_rate(self.domain) if self.eta is None else self.eta
        return OnsState(wealth, newton_step(xp, state.v, A, z, eta, self.domain), M, A)

    def wealth_leaf(self, xp: Any, state: OnsState) -> Array:
        return state.wealth
