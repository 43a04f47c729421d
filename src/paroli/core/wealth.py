r"""The arithmetic of wealth, in logarithms.

By the paper's ``eqn:logwealth``, betting the fractions v_t from the initial wealth ε gives

.. math:: \log \text{Wealth}_T = \log \epsilon + \sum_{t=1}^T \log(1 - g_t \cdot v_t).

On a stream with a steady drift the wealth itself leaves the range of a float within some thousand
rounds; its logarithm grows by at most log 3/2 a round and never does.  Every betting algorithm that
is not confined to a domain therefore keeps ``log_wealth``.  At the end of the float range the rule
is: the *books* go on exactly, ``log_wealth`` is always the sum above; what is *staked* stops at a
ceiling just below the largest float, so no iterate is ever inf or NaN.  Winnings past the ceiling
are simply not bet, so the promise Wealth > 0 is kept.
"""

from __future__ import annotations

import math
from typing import Any

from paroli.core.space import Array, magnitude_ceiling

HALF = 0.5
"""The largest betting fraction (``eqn:wlessthanwealth``): it keeps 1 - g·v at 1/2 or above."""


def grown(xp: Any, log_wealth: Array, g_v: Array) -> Array:
    """Log-wealth after a bet of the fraction v on the outcome g."""
    return log_wealth + xp.log1p(-g_v)  # eqn:logwealth


def log_loss_gradient(g: Array, g_v: Array) -> Array:
    r"""z = d/dv[-log(1 - g·v)] = g / (1 - g·v): what is sent down to whoever chose v."""
    return g / (1 - g_v)  # alg:diag line 17


def log_ceiling(xp: Any, x: Array) -> float:
    """The largest logarithm whose exponential fits into the dtype of x, with room to spare."""
    return math.log(magnitude_ceiling(xp, x.dtype))


def staked(xp: Any, log_wealth: Array, ceiling: float | None = None) -> Array:
    """The wealth to bet with: exp(log_wealth), or exp(ceiling) where that is smaller.

    Without a ceiling, the one of log_wealth's own dtype.
    """
    return xp.exp(
        xp.minimum(log_wealth, log_ceiling(xp, log_wealth) if ceiling is None else ceiling)
    )
