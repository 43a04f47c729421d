r"""The arithmetic of wealth, in logarithms.

By the paper's ``eqn:logwealth``, betting the fractions v_t from the initial wealth ε gives

.. math:: \log \text{Wealth}_T = \log \epsilon + \sum_{t=1}^T \log(1 - g_t \cdot v_t).

On a stream with a steady drift the wealth itself leaves the range of a float within some thousand
rounds; its logarithm grows by at most log 3/2 a round and never does.  Every betting algorithm that
is not confined to a domain therefore keeps ``log_wealth``.  At the end of the float range the rule
is: the *books* go on exactly, ``log_wealth`` is always the sum above; what is *staked* stops at a
ceiling just below the largest float, so no iterate is ever inf or NaN.  Winnings past the ceiling
are simply not bet, so the promise Wealth > 0 is kept.

Where a round is so little work that a logarithm and an exponential are much of it, the wealth is
kept as the `Product` that it is, with an exponent of its own: the same books.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

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


FOLD = 2.0**512
"""A power of two, so that to divide by it loses nothing; its square is beyond the float range."""


class Product(NamedTuple):
    """A positive number of any size: ``digits`` · FOLD^``folds``.

    While there are folds the digits are on their side of 1, and always within 1/FOLD and FOLD.
    """

    digits: Array
    folds: Array


def times(xp: Any, wealth: Product, factor: Array) -> Product:
    """The product with another factor, of which one is between 1/FOLD and FOLD.

    >>> import numpy as np
    >>> wealth = Product(np.float64(1.0), np.float64(0.0))
    >>> for _ in range(2000):
    ...     wealth = times(np, wealth, np.float64(1.5))
    >>> float(wealth.folds), bool(abs(logarithm(np, wealth) - 2000 * np.log(1.5)) < 1e-9)
    (2.0, True)
    """
    digits, folds = wealth.digits * factor, wealth.folds
    up = (digits > FOLD) | ((folds < 0) & (digits > 1))
    down = (digits < 1 / FOLD) | ((folds > 0) & (digits < 1))
    lifted = xp.minimum(digits, 1.0) * FOLD  # where it is not taken it must not overflow, either
    return Product(
        xp.where(up, digits * (1 / FOLD), xp.where(down, lifted, digits)),
        xp.where(up, folds + 1, xp.where(down, folds - 1, folds)),
    )


def plus(xp: Any, wealth: Product, more: Array) -> Product:
    """The sum of a product and what is not negative, and below FOLD.

    >>> import numpy as np
    >>> nothing = Product(np.float64(0.5), np.float64(-1.0))
    >>> [float(part) for part in plus(np, nothing, np.float64(2.0))]
    [2.0, 0.0]
    """
    digits, folds = wealth
    # Of what is below 1/FOLD no digit reaches a sum, so it may be taken for more than it is.
    lifted = (folds < 0) & (more > 0)
    digits = xp.where(lifted, digits * (1 / FOLD), digits)
    digits = digits + xp.where(folds > 0, more * (1 / FOLD), more)
    return times(xp, Product(digits, xp.where(lifted, 0.0, folds)), 1.0)


def logarithm(xp: Any, wealth: Product) -> Array:
    """log Wealth."""
    return xp.log(wealth.digits) + wealth.folds * math.log(FOLD)


def staked_product(xp: Any, wealth: Product, ceiling: float) -> Array:
    """As `staked`, and never more than FOLD nor less than its reciprocal."""
    most = min(math.exp(ceiling), FOLD)
    ordinary = xp.maximum(xp.minimum(wealth.digits, most), 1 / FOLD)
    return xp.where(wealth.folds > 0, most, xp.where(wealth.folds < 0, 1 / FOLD, ordinary))
