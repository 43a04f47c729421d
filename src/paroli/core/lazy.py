r"""Coordinates without a gradient, brought up to date when they are next read.

While a coordinate's gradient is zero a lazy learner keeps what it has there, so its bet is
Wealth_t · v with v fixed (`paroli.core.learner.Learner.stake`), and the point and its average move
by global numbers only.  With the increments scaled by lr_t, and c_t the newest point's share of the
average,

.. math::
    x_t = x_{t-1} + v \, \text{lr}_t (\text{Wealth}_t - \text{Wealth}_{t-1}), \qquad
    \overline{x}_t = \overline{x}_{t-1} + c_t (x_{t-1} - \overline{x}_{t-1}).

So it is enough to run the same recursions once for all, on a clock of three numbers

.. math::
    C_t = C_{t-1} + \text{lr}_t (\text{Wealth}_t - \text{Wealth}_{t-1}), \qquad
    Q_t = Q_{t-1} + c_t (C_{t-1} - Q_{t-1}), \qquad
    P_t = P_{t-1} (1 - c_t),

and to remember what the clock showed when a coordinate was last brought up to date, at s.  Then,
with a = P_t / P_s,

.. math::
    x_t &= x_s + v (C_t - C_s) \\
    \overline{x}_t &= x_s + a (\overline{x}_s - x_s)
                      + v \left[(Q_t - C_s) - a (Q_s - C_s)\right].

>>> import numpy as np
>>> then = Clock(np.float64(0.0), np.float64(0.0), np.float64(0.0))
>>> now = ticked(np, then, moved_by=np.float64(2.0), share=np.float64(0.5))
>>> settled(np, np.array([1.0]), np.array([3.0]), np.array([10.0]), then, now)
(array([21.]), array([2.]))
"""

from __future__ import annotations

from typing import Any, NamedTuple

from paroli.core.averaged import moved
from paroli.core.space import Array

TINY = 1e-30
"""What is left, at least, of an old average: its logarithm stays finite when a share is 1."""


class Clock(NamedTuple):
    """What all coordinates that stand still have in common."""

    C: Array
    """By how much v has moved the points, in units of v."""
    Q: Array
    """The average of C, as the points are averaged."""
    log_P: Array
    """The logarithm of the share that the start still has in the average."""


def ticked(xp: Any, clock: Clock, moved_by: Array, share: Array) -> Clock:
    """The clock after a round: first the average moves by its share, then the points."""
    return Clock(
        clock.C + moved_by,
        moved(clock.Q, clock.C, share),
        clock.log_P + xp.log(xp.maximum(1 - share, TINY)),
    )


def settled(
    xp: Any, x: Array, x_bar: Array, v: Array, since: Clock, now: Clock
) -> tuple[Array, Array]:
    """The point and its average now, of a coordinate that has stood still since then."""
    log_a = now.log_P - since.log_P
    weight = now.Q - since.C - xp.exp(log_a) * (since.Q - since.C)
    return x + v * (now.C - since.C), moved(x_bar, x, -xp.expm1(log_a)) + v * weight
