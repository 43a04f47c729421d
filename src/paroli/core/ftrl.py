r"""Follow the regularised leader on the log-loss of a bet: the innermost learner of Algorithm 2.

With the regulariser A_t v² / (4η), where A_t = 5 + Σ z², the leader has a closed form:

.. math::
    v_{t+1} = \arg\min_{|v| \le 1/2} \; \sum_{s \le t} z_s v + \frac{A_t}{4\eta} v^2
            = \text{clip}\left(\frac{-2\eta \sum_{s \le t} z_s}{A_t},\, -1/2,\, 1/2\right)

Algorithm 2 is Algorithm 1 in one dimension around this learner, confined to an interval, and the
tests hold the two side by side:

>>> from paroli import box, constrained, ftrl, percoordinate, recursive
>>> algorithm_2 = constrained(percoordinate(recursive(ftrl(eta=0.5))), box(-0.5, 0.5))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from paroli.core.constrained import clip
from paroli.core.learner import Coordinatewise, check_number
from paroli.core.space import Array
from paroli.core.wealth import HALF

INITIAL_A = 5.0
"""Because z² ≤ 4, so that log(a) + b/(a + 4) ≤ log(a + b) bounds Σ z²/A by a logarithm."""


def leader(xp: Any, sum_z: Array, A: Array, eta: float) -> Array:
    """The minimiser over [-1/2, 1/2] of v Σz + A v² / (4η)."""
    return clip(xp, -2 * eta * sum_z / A, HALF)  # alg:diag line 19


class FtrlState(NamedTuple):
    """What the next round needs, one entry for each coordinate."""

    A: Array
    sum_z: Array


@dataclass(frozen=True)
class ftrl(Coordinatewise):
    """The follow-the-regularised-leader betting fraction of Algorithm 2.

    Args:
        eta: weight of the past against the regulariser.
    """

    eta: float = 0.5

    def __post_init__(self) -> None:
        check_number("ftrl", "eta", self.eta, low=0.0)

    @property
    def radius(self) -> float:
        return HALF

    @property
    def limit(self) -> float:
        return 2.0  # the z of a bet, as printed, is at most twice the gradient

    def init_leaf(self, xp: Any, leaf: Array) -> FtrlState:
        return FtrlState(xp.full_like(leaf, INITIAL_A), xp.zeros_like(leaf))

    def bet_leaf(self, xp: Any, state: FtrlState) -> Array:
        return leader(xp, state.sum_z, state.A, self.eta)

    def update_leaf(self, xp: Any, state: FtrlState, g: Array, g_max: Array) -> FtrlState:
        z = g / g_max
        return FtrlState(state.A + z * z, state.sum_z + z)
