r"""Copy this file to add a learner; nothing else has to change.

A learner for one coordinate is a state and three elementwise functions: `init_leaf`, `bet_leaf`,
`update_leaf`.  They may use the functions that `paroli.core.space.FUNCTIONS` lists, take the array
namespace as ``xp``, return new arrays and write to none.  Say what the learner promises by the
properties of `paroli.core.learner.Learner`, above all ``radius``: with ``radius <= 0.5`` it can sit
inside `recursive` as it is, otherwise inside ``constrained(..., box())``.  The test-suite finds the
class by itself and runs it alone and in every reduction, in every array library.

The algorithm here, as an example, is the adaptive Krichevsky-Trofimov bet of Orabona & Tommasi
(2017): bet, on each coordinate, the fraction

.. math:: v_t = \frac{-\sum_{s<t} g_s}{1 + \sum_{s<t} |g_s|}, \qquad
          w_t = v_t \, \text{Wealth}_{t-1}.

>>> import numpy as np
>>> from paroli import OnlineLearner
>>> from paroli.core.skeleton import skeleton
>>> learner = OnlineLearner(skeleton(), start=np.zeros(1))
>>> for _ in range(3):
...     learner.update(np.array([1.0]))
>>> learner.point.round(6)
array([-1.875])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from paroli.core.constrained import clip
from paroli.core.learner import Coordinatewise, check_number
from paroli.core.space import Array
from paroli.core.wealth import grown, staked

MOST = 1 - 2.0**-20
"""After 2^24 equal gradients the fraction would round to 1 in float32: then one could take all."""


class SkeletonState(NamedTuple):
    """What the next round needs, and nothing that can be computed from it."""

    log_wealth: Array
    sum_g: Array
    sum_abs_g: Array


@dataclass(frozen=True)
class skeleton(Coordinatewise):
    """The adaptive Krichevsky-Trofimov bet.

    Args:
        epsilon: initial wealth of each coordinate.
    """

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        check_number("skeleton", "epsilon", self.epsilon, low=0.0)

    def init_leaf(self, xp: Any, leaf: Array) -> SkeletonState:
        log_wealth = xp.full_like(leaf, math.log(self.epsilon))
        return SkeletonState(log_wealth, xp.zeros_like(leaf), xp.zeros_like(leaf))

    def _fraction(self, xp: Any, state: SkeletonState) -> Array:
        return clip(xp, -state.sum_g / (1 + state.sum_abs_g), MOST)

    def bet_leaf(self, xp: Any, state: SkeletonState) -> Array:
        return self._fraction(xp, state) * self.wealth_leaf(xp, state)

    def update_leaf(self, xp: Any, state: SkeletonState, g: Array, g_max: Array) -> SkeletonState:
        g = g / g_max
        log_wealth = grown(xp, state.log_wealth, g * self._fraction(xp, state))
        return SkeletonState(log_wealth, state.sum_g + g, state.sum_abs_g + xp.abs(g))

    def wealth_leaf(self, xp: Any, state: SkeletonState) -> Array:
        return staked(xp, state.log_wealth)

    def log_wealth_leaf(self, xp: Any, state: SkeletonState) -> Array:
        return state.log_wealth
