r"""Losses of a linear model: a score, a label, and the slope at the score.

A loss is two elementwise functions.  Its gradient at w, on the row x with the label y, is the slope
at the score x·w, times x; everything a betting learner asks of it beyond convexity is a bound on
the slope:

=====================  =======================================  =====================  =============
loss                   value                                    slope                  at most
=====================  =======================================  =====================  =============
``logistic``           log(1 + exp(-y·s))                       -y / (1 + exp(y·s))    1
``hinge``              max(0, 1 - y·s)                          -y where y·s < 1       1
``squared``            (s - y)² / 2                             s - y                  high - low
``absolute``           \|s - y\|                                sign(s - y)            1
``quantile(q)``        max(q (y - s), (1 - q)(s - y))           -q or 1 - q            1
``huber(delta)``       of r = s - y: r²/2, or δ\|r\| - δ²/2     clip(r, ±δ)            δ
``poisson``            exp(s) - y s                             exp(s) - y             high
=====================  =======================================  =====================  =============

Labels are -1 and +1 for the first two.  ``low`` and ``high`` are the smallest and largest label
seen: scores are kept between them (`paroli.core.labels`).

>>> import numpy as np
>>> squared().slope(np, np.array([3.0]), np.array([1.0]))
array([2.])
>>> float(logistic().value(np, np.float64(0.0), np.float64(1.0)).round(4))
0.6931
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from paroli.core.learner import check_number
from paroli.core.space import Array

Unit: TypeAlias = Literal["none", "label", "log label"]
FARTHEST = 700.0
"""A margin beyond this is as good as infinite: its exponential is just within the float range."""


@dataclass(frozen=True)
class Loss(ABC):
    """What a loss is."""

    @property
    def unit(self) -> Unit:
        """What a score is measured in: nothing, what labels are, or the logarithm of that."""
        return "label"

    @abstractmethod
    def value(self, xp: Any, score: Array, y: Array) -> Array:
        """The loss."""

    @abstractmethod
    def slope(self, xp: Any, score: Array, y: Array) -> Array:
        """Its derivative (or a subgradient) in the score."""

    def steepest(self, xp: Any, low: Array, high: Array) -> Array | float:
        """A bound on the slope where the score and the label are between low and high."""
        return 1.0


@dataclass(frozen=True)
class logistic(Loss):
    """The log-loss of the probability 1 / (1 + exp(-s)) of the label +1."""

    @property
    def unit(self) -> Unit:
        return "none"

    def value(self, xp: Any, score: Array, y: Array) -> Array:
        m = y * score
        return xp.log1p(xp.exp(-xp.abs(m))) - xp.minimum(m, 0.0)

    def slope(self, xp: Any, score: Array, y: Array) -> Array:
        return -y / (1 + xp.exp(xp.minimum(y * score, FARTHEST)))


@dataclass(frozen=True)
class hinge(Loss):
    """The loss of a support vector machine."""

    @property
    def unit(self) -> Unit:
        return "none"

    def value(self, xp: Any, score: Array, y: Array) -> Array:
        return xp.maximum(1 - y * score, 0.0)

    def slope(self, xp: Any, score: Array, y: Array) -> Array:
        return xp.where(y * score < 1, -y, 0.0)


@dataclass(frozen=True)
class squared(Loss):
    """Half the squared error: predicts the mean."""

    def value(self, xp: Any, score: Array, y: Array) -> Array:
        return (score - y) * (score - y) / 2

    def slope(self, xp: Any, score: Array, y: Array) -> Array:
        return score - y

    def steepest(self, xp: Any, low: Array, high: Array) -> Array:
        return high - low


@dataclass(frozen=True)
class absolute(Loss):
    """The absolute error: predicts the median."""

    def value(self, xp: Any, score: Array, y: Array) -> Array:
        return xp.abs(score - y)

    def slope(self, xp: Any, score: Array, y: Array) -> Array:
        return xp.sign(score - y)


@dataclass(frozen=True)
class quantile(Loss):
    """The pinball loss.

    Args:
        q: which quantile it predicts, in (0, 1).
    """

    q: float = 0.5

    def __post_init__(self) -> None:
        check_number("quantile", "q", self.q, low=0.0, high=1.0)
        if self.q == 1.0:
            raise ValueError("quantile: q must be in (0, 1), not 1.0")

    def value(self, xp: Any, score: Array, y: Array) -> Array:
        r = score - y
        return xp.maximum((1 - self.q) * r, -self.q * r)

    def slope(self, xp: Any, score: Array, y: Array) -> Array:
        r = score - y
        return xp.where(r > 0, 1 - self.q, xp.where(r < 0, -self.q, 0.0 * r))


@dataclass(frozen=True)
class huber(Loss):
    """Squared for small errors, absolute for large ones.

    Args:
        delta: where the one becomes the other, in the unit of the labels.
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        check_number("huber", "delta", self.delta, low=0.0)

    def value(self, xp: Any, score: Array, y: Array) -> Array:
        r = xp.abs(score - y)
        near = xp.minimum(r, self.delta)
        return near * (r - near / 2)

    def slope(self, xp: Any, score: Array, y: Array) -> Array:
        return xp.clip(score - y, -self.delta, self.delta)

    def steepest(self, xp: Any, low: Array, high: Array) -> float:
        return self.delta


@dataclass(frozen=True)
class poisson(Loss):
    """For counts: the score is the logarithm of the mean."""

    @property
    def unit(self) -> Unit:
        return "log label"

    def value(self, xp: Any, score: Array, y: Array) -> Array:
        return xp.exp(xp.minimum(score, FARTHEST)) - y * score

    def slope(self, xp: Any, score: Array, y: Array) -> Array:
        return xp.exp(xp.minimum(score, FARTHEST)) - y

    def steepest(self, xp: Any, low: Array, high: Array) -> Array:
        return high
