"""A round of a linear model: a row of features comes, a score leaves, a label comes.

The reductions of `paroli.core.labels` around the betting of `paroli.core.margin`, with a loss of
`paroli.core.losses`: what any row loop, in whatever language, calls in this order.

1. ``announce`` the row to its features;
2. ``bet``, and add the sums up;
3. ``score``: the prediction;
4. where there is a label: ``observe`` it, then for every step of the row's weight ``settle`` and
   ``update`` the features (and ``bet`` and ``score`` anew before the next), then ``finish``.

>>> import numpy as np
>>> from paroli.core.losses import logistic
>>> learner = linear(logistic())
>>> state = learner.start(np.float64(0.0))
>>> sums = Sums(np.float64(0.25), np.float64(0.0), np.float64(3.0))  # as if the features bet 1/4
>>> float(learner.score(np, state, sums))
0.25
>>> state, steps, each, unit = learner.observe(
...     np, state, sums, np.float64(1.0), np.float64(1.0)
... )
>>> state, send = learner.settle(np, state, sums, np.float64(0.25), np.float64(1.0), each)
>>> float(state.bet.wealth.round(4)), float(send.round(4))
(1.1095, -0.1973)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from paroli.core import labels
from paroli.core.labels import Labels
from paroli.core.losses import Loss
from paroli.core.margin import Numbers, Sums, margin
from paroli.core.space import Array


class Linear(NamedTuple):
    """All the numbers of a linear model that belong to no feature."""

    bet: Numbers
    labels: Labels


@dataclass(frozen=True)
class linear:
    """A linear model that learns row by row.

    Args:
        loss: of `paroli.core.losses`.
        bets: how it bets.
    """

    loss: Loss
    bets: margin = margin()

    def start(self, zero: Any) -> Linear:
        """Before the first row; ``zero`` is a number of whatever kind numbers are."""
        bet = self.bets.start(zero, unit=self.loss.unit != "label")
        return Linear(bet, labels.start(zero))

    def score(self, xp: Any, state: Linear, sums: Sums) -> Array:
        """What to predict for a row."""
        m = self.bets.margin(xp, state.bet, sums)
        return labels.score(xp, self.loss, state.labels, m)

    def observe(
        self, xp: Any, state: Linear, sums: Sums, y: Array, weight: Array
    ) -> tuple[Linear, Array, Array, Array]:
        """The label comes: how many steps to learn in, what each weighs; the unit until now."""
        known = labels.seen(xp, self.loss, state.labels, y, weight)
        steps, each = labels.in_steps(xp, known, weight)
        unit = labels.scale(self.loss, state.labels, each)
        return Linear(self.bets.measured(state.bet, sums), known), steps, each, unit

    def settle(
        self, xp: Any, state: Linear, sums: Sums, at: Array, y: Array, each: Array
    ) -> tuple[Linear, Array]:
        """One step at a score: the state, and the factor of x in what the features are told."""
        slope = labels.slope(xp, self.loss, state.labels, at, y) * each
        bet, send = self.bets.settle(xp, state.bet, sums, slope)
        return state._replace(bet=bet), send

    def finish(self, xp: Any, state: Linear, unit: Array) -> Linear:
        """The row is learned; ``unit`` is what `observe` said."""
        if self.loss.unit != "label":
            return state
        now = labels.scale(self.loss, state.labels, unit)
        return state._replace(bet=self.bets.top_up(xp, state.bet, now, unit))
