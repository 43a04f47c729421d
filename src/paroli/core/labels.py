r"""Labels of any origin and scale, and weights of any scale, for a learner that bets on slopes.

A learner that bets wants slopes of at most 1 and scores around 0.  For regression, with the running
mean ȳ of the labels, and the smallest and largest label so far, a margin m becomes the score

.. math::
    s = \text{clip}(\overline{y} + m,\, \text{low},\, \text{high}),

and the slope is divided by the bound that the interval implies (``Loss.steepest``).  The clip costs
nothing: where it is active and the label lies within, the slope points back, so that
slope · clip(·) ≤ slope · (·).  Multiplying labels by a number, or adding one to them, changes
nothing else: the wealth is in the unit of the labels.  For counts that is done to the
logarithm.

A row of weight h counts like h rows.  A slope may be at most 1, and dividing all of them by the
largest weight would leave a stream with a few heavy rows nearly unheard, so a heavy row is learned
in several steps: with the mean weight h̄ so far, n = ⌈h / h̄⌉ of them, each of the weight h / (n h̄).
The theorems hold on that longer stream, whose length is the sum of the n.

>>> import numpy as np
>>> from paroli.core.losses import squared
>>> labels = start(0.0)
>>> for y in (1e4, 3e4):
...     labels = seen(np, squared(), labels, np.float64(y), np.float64(1.0))
>>> [float(score(np, squared(), labels, np.float64(m))) for m in (0.0, 7e3, 1e9)]
[20000.0, 27000.0, 30000.0]
>>> tuple(map(float, in_steps(np, labels, np.float64(2.5))))
(3.0, 0.8333333333333334)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from paroli.core.losses import Loss
from paroli.core.space import Array

MOST_STEPS = 1000.0
"""How often the mean weight a row may weigh at most: what exceeds it is cut off."""

ROUNDING = 1e-9
"""Weights that are equal but for rounding take one step."""


class Labels(NamedTuple):
    """What is known of the labels and weights."""

    mean: Array
    low: Array
    high: Array
    weight: Array
    """The sum of all weights."""
    rows: Array
    """How many rows had one."""


def start(zero: Any) -> Labels:
    """Before the first row; ``zero`` is a number of whatever kind numbers are."""
    return Labels(zero, zero, zero, zero, zero)


def seen(xp: Any, loss: Loss, labels: Labels, y: Array, weight: Array) -> Labels:
    """After a row of this label and (positive) weight."""
    total = labels.weight + weight
    if loss.unit == "none":  # mean and range are of no use
        return labels._replace(weight=total, rows=labels.rows + 1)
    first = labels.rows < 1
    return Labels(
        labels.mean + (y - labels.mean) * (weight / total),
        xp.where(first, y, xp.minimum(labels.low, y)),
        xp.where(first, y, xp.maximum(labels.high, y)),
        total,
        labels.rows + 1,
    )


def score(xp: Any, loss: Loss, labels: Labels, margin: Array) -> Array:
    """From what the learner bets to what the loss is a function of."""
    if loss.unit == "none":
        return margin
    if loss.unit == "label":
        return xp.minimum(xp.maximum(labels.mean + margin, labels.low), labels.high)
    known = labels.high > 0
    mean = xp.log(xp.where(labels.mean > 0, labels.mean, 1.0))
    high = xp.log(xp.where(known, labels.high, 1.0))
    return xp.where(known, xp.minimum(mean + margin, high), mean + margin)


def scale(loss: Loss, labels: Labels, one: Any) -> Array:
    """The unit of the wealth."""
    return labels.high - labels.low if loss.unit == "label" else one


def slope(xp: Any, loss: Loss, labels: Labels, at: Array, y: Array) -> Array:
    """The slope divided by its bound, so within [-1, 1] whatever the labels."""
    steepest = loss.steepest(xp, labels.low, labels.high)
    if type(steepest) is float:  # a constant of the loss; numbers of NumPy are floats, too
        return xp.clip(loss.slope(xp, at, y) / steepest, -1.0, 1.0)
    known = steepest > 0
    share = loss.slope(xp, at, y) / xp.where(known, steepest, 1.0)
    return xp.where(known, xp.clip(share, -1.0, 1.0), 0.0)


def in_steps(xp: Any, labels: Labels, weight: Array) -> tuple[Array, Array]:
    """How many steps to learn a row in, and what each weighs: `labels` have seen the row."""
    ratio = xp.minimum(weight * labels.rows / labels.weight, MOST_STEPS)
    steps = xp.maximum(-xp.floor(ROUNDING - ratio), 1.0)
    return steps, xp.minimum(ratio / steps, 1.0)
