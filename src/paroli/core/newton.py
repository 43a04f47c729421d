r"""The Online Newton Step on the log-loss of a bet: the inner learner of the 2018 predecessor.

Cutkosky & Orabona (2018) chose the betting fraction by the Online Newton Step, because the loss
-log(1 - g·v) is exp-concave.  So their algorithm is Algorithm 1 with `newton` inside, and the
paper's comparison is a change of one brick:

* ``recursive(newton())`` in one dimension is their coin betting with ONS; for vectors it is lifted
  by ``percoordinate`` or ``dimension_free`` (the regret of ``eqn:ons``).
* ``recursive(constrained(full_newton(), ball(0.5, norm=2)))`` keeps a d x d matrix and has the
  full-matrix regret of ``eqn:fullmatrixcoin``, at O(d²) time and memory.

The one-dimensional step, with 1/η the largest curvature that the log-loss has on the domain D:

.. math::
    A_t = A_{t-1} + z_t^2, \qquad
    v_{t+1} = \text{clip}(v_t - \eta z_t / A_t,\, -D,\, D), \qquad
    \eta = \frac{1/2}{D - D^2 \log(1 + 1/D)}

The full-matrix one is written as the leader of the same quadratic losses, whose inverse matrix P is
carried along by the Sherman-Morrison formula:

.. math::
    P_t^{-1} = \tau I + \sum_{s \le t} z_s z_s^\top, \qquad
    v_{t+1} = P_t \sum_{s \le t} (z_s \cdot v_s - \eta) z_s.

>>> import numpy as np
>>> from paroli import OnlineLearner, dimension_free, newton, recursive
>>> learner = OnlineLearner(dimension_free(recursive(newton())), start=np.zeros(2))
>>> for _ in range(100):
...     learner.update(np.array([0.5, -0.5]))
>>> learner.point[0] < 0 < learner.point[1]
np.True_
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from paroli.core.constrained import clip
from paroli.core.dense import joined, split
from paroli.core.learner import Coordinatewise, Learner, Played, Told, check_number
from paroli.core.space import Array, Leaves, Space
from paroli.core.wealth import HALF


def newton_rate(domain: float) -> float:
    """The largest η with f(x) - f(u) ≤ f'(x)(x-u) - ((x-u) f'(x))² / (2η) for f = -log(1 + ·).

    >>> round(newton_rate(0.5), 6) == round(2 / (2 - math.log(3)), 6)
    True
    """
    return 0.5 / (domain - domain**2 * math.log(1 + 1 / domain))


def newton_step(xp: Any, v: Array, A: Array, z: Array, eta: float, domain: float) -> Array:
    """One Online Newton Step in one dimension; ``A`` includes this round's z²."""
    return clip(xp, v - eta * z / A, domain)


class NewtonState(NamedTuple):
    """What the next round needs, one entry for each coordinate."""

    v: Array
    A: Array


@dataclass(frozen=True)
class newton(Coordinatewise):
    """The Online Newton Step on each coordinate, for use inside `recursive`.

    Args:
        eta: step size; None: the largest for which the regret bound holds.
        tau: initial value of A.
        domain: bets are confined to [-domain, domain].
    """

    eta: float | None = None
    tau: float = 1.0
    domain: float = HALF

    def __post_init__(self) -> None:
        check_number("newton", "tau", self.tau, low=0.0)
        check_number("newton", "domain", self.domain, low=0.0)
        if self.eta is not None:
            check_number("newton", "eta", self.eta, low=0.0)

    @property
    def radius(self) -> float:
        return self.domain

    @property
    def limit(self) -> float:
        return 2.0  # the z of a bet, as printed, is at most twice the gradient

    def init_leaf(self, xp: Any, leaf: Array) -> NewtonState:
        return NewtonState(xp.zeros_like(leaf), xp.full_like(leaf, self.tau))

    def bet_leaf(self, xp: Any, state: NewtonState) -> Array:
        return state.v

    def update_leaf(self, xp: Any, state: NewtonState, g: Array, g_max: Array) -> NewtonState:
        z = g / g_max
        A = state.A + z * z
        eta = newton_rate(self.domain) if self.eta is None else self.eta
        return NewtonState(newton_step(xp, state.v, A, z, eta, self.domain), A)


class FullNewtonState(NamedTuple):
    """What the next round needs; ``like`` only remembers the shapes of the leaves."""

    P: Array
    b: Array
    like: tuple[Array, ...]


@dataclass(frozen=True)
class full_newton(Learner):
    """The Online Newton Step with its full matrix, unconstrained: O(d²) time and memory.

    Args:
        eta: step size; None: the largest for which the regret bound holds on bets within 1/2.
        tau: the matrix starts as tau · I.
    """

    eta: float | None = None
    tau: float = 1.0

    def __post_init__(self) -> None:
        check_number("full_newton", "tau", self.tau, low=0.0)
        if self.eta is not None:
            check_number("full_newton", "eta", self.eta, low=0.0)

    @property
    def norm(self) -> float:
        return 2.0

    @property
    def limit(self) -> float:
        return 2.0

    def init(self, space: Space, like: Leaves) -> FullNewtonState:
        xp, flat = space.xp, joined(space.xp, like)
        P = xp.eye(flat.shape[0], dtype=flat.dtype) / self.tau
        return FullNewtonState(P, xp.zeros_like(flat), tuple(xp.zeros_like(leaf) for leaf in like))

    def play(self, space: Space, state: FullNewtonState) -> Played:
        return Played(split(space.xp, state.P @ state.b, state.like))

    def update(
        self,
        space: Space,
        state: FullNewtonState,
        played: Played,
        told: Told,
        totals: tuple[Array, ...],
    ) -> FullNewtonState:
        xp = space.xp
        kept = 1 / xp.maximum(told.norm / self.limit, told.g_max)
        z = joined(xp, told.g)
        z = z * space.cast(kept, z)
        eta = newton_rate(HALF) if self.eta is None else self.eta
        P_z = state.P @ z
        P = state.P - P_z[:, None] * (P_z / (1 + z @ P_z))[None, :]
        v = joined(xp, played.w)
        b = state.b + (z @ v - eta) * z
        return state._replace(P=P, b=b)
