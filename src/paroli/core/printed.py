r"""Algorithm 1 as printed, on rows: the same rounds as `paroli.core.margin`, for comparison.

No coordinate of v leaves [-1/2, 1/2], nothing is scaled by its size, and the bound on the gradients
is the largest ‖g‖₁ = \|s\|·‖x‖₁ so far (`paroli.core.rescaled`).  It is what
``rescaled(recursive(diagonal()))`` plays on the gradients s·x, at the price of a sparse row:

>>> import numpy as np
>>> from paroli import OnlineLearner, diagonal, recursive, rescaled
>>> from paroli.core.space import NUMPY
>>> whole = OnlineLearner(rescaled(recursive(diagonal())), start=np.zeros(2))
>>> brick = printed((diagonal(),), average=False)
>>> numbers, features = brick.start(np.float64(0.0)), brick.fresh(np, np.zeros(2))
>>> x = np.array([1.0, -3.0])
>>> for _ in range(40):
...     features = brick.announce(NUMPY, numbers, features, x, np.float64(2.0))
...     bet, sums = brick.bet(NUMPY, numbers, features, x)
...     s = np.sign(brick.margin(np, numbers, sums) - 0.4)
...     after, send = brick.settle(np, numbers, sums, s)
...     features = brick.update(NUMPY, numbers, features, bet, send, np.float64(0.0))
...     numbers = after
...     whole.update(np.sign(x @ whole.point - 0.4) * x)
>>> bool(abs(brick.weights(NUMPY, numbers, features) - whole.point).max() < 1e-12)
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from paroli.core.learner import Coordinatewise
from paroli.core.margin import ALGORITHM_2, Bet, Features, Sums, in_units, margin
from paroli.core.space import Array, Space
from paroli.core.wealth import grown, log_loss_gradient, staked

INITIAL_G_MAX = 1e-8

NO_WEALTH = -700.0
"""The logarithm of as good as nothing: where the unit of the labels is not known yet."""


class PrintedNumbers(NamedTuple):
    """What all features have in common."""

    log_wealth: Array
    wealth: Array
    clock: Array
    rounds: Array
    g_max: Array


@dataclass(frozen=True)
class printed(margin):
    """Algorithm 1 with the largest ‖g‖₁ so far; see `paroli.core.margin.margin` for the settings.

    In `Features`, M is 1 for every feature that was seen; in `Sums`, the size is ‖x‖₁.
    """

    inner: tuple[Coordinatewise, ...] = (ALGORITHM_2,)

    def start(self, zero: Any, *, unit: bool = True) -> Any:
        log_wealth = math.log(self.epsilon) if unit else NO_WEALTH
        wealth = math.exp(log_wealth)
        return PrintedNumbers(zero + log_wealth, zero + wealth, zero, zero, zero + INITIAL_G_MAX)

    def counted(self, xp: Any, features: Features, x: Array) -> Array:
        return x

    def announce(
        self, space: Space, numbers: Any, features: Features, x: Array, present: Array
    ) -> Features:
        xp = space.xp
        known = features.M > 0
        inner = []
        for brick, state in zip(self.inner, features.inner, strict=True):
            new = in_units(xp, brick, brick.init_leaf(xp, x))
            parts = zip(state, new, strict=True)
            inner.append(type(state)(*[xp.where(known, a, b) for a, b in parts]))
        M = xp.where(known | (xp.abs(x) > 0), xp.full_like(x, 1.0), 0.0)
        return features._replace(M=M, inner=tuple(inner))

    def bet(self, space: Space, numbers: Any, features: Features, x: Array) -> tuple[Bet, Sums]:
        xp = space.xp
        one = xp.full_like(x, 1.0)
        u = self.fraction(xp, features.inner, one)
        sum_w = features.B + u * space.cast(numbers.clock, x)
        sums = Sums(space.sum(x * u), space.sum(x * sum_w), space.sum(xp.abs(x)))
        return Bet(u, x * one, one), sums

    def margin(self, xp: Any, numbers: Any, sums: Sums) -> Array:
        m = numbers.wealth * sums.x_u
        return m + sums.x_sum / xp.maximum(numbers.rounds, 1.0) if self.average else m

    def settle(self, xp: Any, numbers: Any, sums: Sums, slope: Array) -> tuple[Any, Array]:
        g_max = xp.maximum(numbers.g_max, xp.abs(slope) * sums.size)
        g_v = slope * sums.x_u / g_max
        log_wealth = grown(xp, numbers.log_wealth, g_v)
        wealth = staked(xp, log_wealth, self.ceiling)
        send = log_loss_gradient(slope / 2, g_v) / g_max
        clock, rounds = numbers.clock + wealth, numbers.rounds + 1
        return PrintedNumbers(log_wealth, wealth, clock, rounds, g_max), send

    def measured(self, numbers: Any, sums: Sums) -> Any:
        return numbers

    def top_up(self, xp: Any, numbers: Any, unit: Array, before: Array) -> Any:
        more = unit > before
        log_more = xp.log(xp.where(more, unit - before, 1.0)) + math.log(self.epsilon)
        larger = xp.maximum(numbers.log_wealth, log_more)
        log_sum = larger + xp.log1p(xp.exp(-xp.abs(numbers.log_wealth - log_more)))
        log_wealth = xp.where(more, log_sum, numbers.log_wealth)
        wealth = staked(xp, log_wealth, self.ceiling)
        return numbers._replace(log_wealth=log_wealth, wealth=wealth)
