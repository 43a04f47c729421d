r"""The inner learner of the paper's experiments: ScInOL, as the authors' code has it.

A scale-invariant bet on each coordinate: nothing changes but the unit when all gradients of a
coordinate are multiplied by a constant (up to the tiny initial values).  With M the largest |g| of
the past, S² = Σ g̃² and G = Σ g̃,

.. math::
    s &= \min\left(\frac{1}{\sqrt{S^2 + M^2}},\, \frac{\text{cap}}{M}\right), \qquad
    \theta = -G s \\
    x &= \text{sign}(\theta) \min(|\theta|, 1) \frac{s}{2} \, \text{Wealth}, \qquad
    w = \text{clip}(x, -\tfrac12, \tfrac12)

and after the gradient, which counts at most as the largest one *before* it,

.. math::
    \tilde g = \text{clip}(g, -M, M), \text{ or } 0 \text{ where it pushes a clipped bet outward};
    \quad \text{Wealth} \leftarrow \text{Wealth} - x \tilde g + \epsilon \, (M' - M).

The differences from Kempka et al.'s own algorithm (`paroli.core.kempka`): M comes from past
gradients, the wealth starts at ε M and is topped up when M grows, the ``cap`` on the first bets
('Initial Betting Fraction' in the appendix, where it is called η), and the interval.

>>> import numpy as np
>>> from paroli import OnlineLearner, recursive, rescaled, scinol
>>> learner = OnlineLearner(rescaled(recursive(scinol())), start=np.zeros(2))
>>> for _ in range(100):
...     learner.update(np.array([1000.0, -0.001]))
>>> learner.point[0] < 0 < learner.point[1]
np.True_
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from paroli.core.constrained import clip, truncated
from paroli.core.learner import Coordinatewise, check_number
from paroli.core.space import Array
from paroli.core.wealth import HALF

TINY = 1e-8
"""The authors' SMALL_VALUE: where their M and S² start, so that nothing divides by zero."""


def released_limit(domain: float) -> float:
    """The limit by which Algorithm 1 sends (1 - domain) · z, as the authors' code does.

    That is the most that keeps it within g_max, for ‖z‖⋆ ≤ g_max / (1 - domain).
    """
    return 2 * (1 - min(domain, HALF))


class ScinolState(NamedTuple):
    """What the next round needs, one entry for each coordinate."""

    x: Array
    """The next bet, not yet confined: whoever takes the sums of a round reads nothing else."""
    wealth: Array
    M: Array
    S: Array
    """The root of S²: squares of gradients leave the float range, their root does not."""
    G: Array


@dataclass(frozen=True)
class scinol(Coordinatewise):
    """ScInOL as the authors' code has it.

    Args:
        epsilon: initial wealth of each coordinate, in units of its largest gradient.
        cap: bound on the first betting fractions, in units of 1/M; None: no bound.
        rescale: whether ε is in units of M; if not, the wealth starts at ε and is never topped up.
        domain: bets are confined to [-domain, domain].
    """

    epsilon: float = 1.0
    cap: float | None = 0.1
    rescale: bool = True
    domain: float = HALF

    def __post_init__(self) -> None:
        check_number("scinol", "epsilon", self.epsilon, low=0.0)
        check_number("scinol", "domain", self.domain, low=0.0)
        if self.cap is not None:
            check_number("scinol", "cap", self.cap, low=0.0)

    @property
    def radius(self) -> float:
        return self.domain

    @property
    def limit(self) -> float:
        return released_limit(self.domain)

    @property
    def lean_forms(self) -> dict[str, str]:
        return {"x": "near", "M": "bound", "S": "half"}

    @property
    def least(self) -> dict[str, float]:
        return {"M": TINY / 2, "S": math.sqrt(TINY) / 2}  # less than what rounding takes once

    @property
    def largest(self) -> str:
        return "M"

    def init_leaf(self, xp: Any, leaf: Array) -> ScinolState:
        wealth = xp.full_like(leaf, self.epsilon * (TINY if self.rescale else 1.0))
        S = xp.full_like(leaf, math.sqrt(TINY))
        M = xp.full_like(leaf, TINY)
        return ScinolState(xp.zeros_like(leaf), wealth, M, S, xp.zeros_like(leaf))

    def _betting(self, xp: Any, wealth: Array, M: Array, S: Array, G: Array) -> ScinolState:
        """The state, with the bet that follows from it."""
        length = xp.hypot(S, M)
        if self.cap is not None:
            length = xp.maximum(length, M * (1 / self.cap))
        scaling = 1 / length
        v = clip(xp, -G * scaling, 1.0) * scaling / 2
        return ScinolState(v * wealth, wealth, M, S, G)

    def bet_leaf(self, xp: Any, state: ScinolState) -> Array:
        return clip(xp, state.x, self.domain)

    def update_leaf(self, xp: Any, state: ScinolState, g: Array, g_max: Array) -> ScinolState:
        w = clip(xp, state.x, self.domain)
        M = xp.maximum(state.M, xp.abs(g))
        past = xp.minimum(xp.maximum(g, -state.M), state.M)
        g_tilde = truncated(xp, past, state.x, w)
        wealth = state.wealth - state.x * g_tilde
        if self.rescale:
            wealth = wealth + self.epsilon * (M - state.M)
        new = self._betting(xp, wealth, M, xp.hypot(state.S, g_tilde), state.G + g_tilde)
        # What is kept in fewer bits than the bet was computed from would bet otherwise.
        return new._replace(x=xp.where(g == 0, state.x, new.x))

    def wealth_leaf(self, xp: Any, state: ScinolState) -> Array:
        return state.wealth

    def kept_leaf(self, state: ScinolState) -> tuple[Array, ...]:
        # The bet follows from the rest.  S², since gradients in units of M stay in the float range.
        return state.wealth, state.S * state.S, state.G

    def restored_leaf(self, xp: Any, like: ScinolState, kept: Sequence[Array]) -> ScinolState:
        wealth, squares, G = kept
        return self._betting(xp, wealth, like.M, xp.sqrt(squares), G)

    def endowed_leaf(self, xp: Any, state: ScinolState, share: Array) -> ScinolState:
        return self._betting(xp, state.wealth * share, state.M, state.S, state.G)

    def weighed_leaf(
        self, xp: Any, state: ScinolState, linear: Array, squares: Array
    ) -> ScinolState:
        S, G = state.S * xp.sqrt(squares), state.G * linear
        return self._betting(xp, state.wealth, state.M, S, G)
