r"""Keeping float32 numbers in fewer bits, right in the mean.

A state is read and written once a round, and that is what a round costs.  Between rounds a number x
need not have all its bits, if what is dropped is dropped by chance: with u uniform in [0, 1) and
ulp the distance of neighbours of so many digits around x,

.. math::
    \text{kept}(x) = \left\lfloor \frac{x}{\text{ulp}} + u \right\rfloor \text{ulp}, \qquad
    E[\text{kept}(x)] = x.

A number that is kept in that many digits already stays as it is, whatever u.  The chance is a hash
of where a number stands and of the round: copies of a number are rounded alike, on every rank and
in every run.

Three of the `FORMS` have bfloat16's digits: ``half`` is rounded by chance, ``bound`` up, so that
what a number bounds stays bounded, ``near`` to the nearest: for what does not add up over rounds.
``single`` is the nearest float32 of a number that has more.

>>> import numpy as np
>>> from paroli.core.space import NUMPY
>>> chances = np.arange(0, 1 << 16, dtype=np.int32)
>>> kept = by_chance(NUMPY.xp, np.full(1 << 16, 1.001, np.float32), chances, "bfloat16")
>>> sorted(set(kept.tolist())), round(float(kept.mean()), 4)
([1.0, 1.0078125], 1.001)
"""

from __future__ import annotations

from typing import Any

from paroli.core.space import Array

ODD, MIXER = 0x2545F491, 0x4F6CDD1D
"""Odd multipliers, so that multiplying by them permutes the 32-bit integers."""
EXPONENT, LOW_HALF = 0x7F800000, 0xFFFF
"""Of the bits of a float32: those of its exponent, and those that bfloat16 has no room for."""
ONE, LARGEST = 127, 253
"""Exponents as float32 keeps them: of 1, and the largest with a normal reciprocal."""
DIGITS = {"bfloat16": 8, "float16": 11}
LEAST = {"bfloat16": 1 + 7, "float16": ONE - 14}
"""The exponent, as float32 keeps it, below which the distance of neighbours stays as it is."""
END = 65504.0
"""The largest float16."""
FORMS = ("whole", "single", "half", "bound", "near")

NEAREST = {"single": "float32", "near": "bfloat16"}


def chance(xp: Any, place: Array, seed: Array) -> Array:
    """16 bits by chance for each place, another 16 in the next round."""
    mixed = (place * ODD) ^ seed
    mixed = (mixed ^ (mixed >> 15)) * MIXER
    return (mixed >> 16) & LOW_HALF


def seed_of_round(xp: Any, t: Array) -> Array:
    """A seed that differs from round to round."""
    mixed = xp.integer(t) * MIXER
    return (mixed ^ (mixed >> 15)) * ODD


def by_chance(xp: Any, x: Array, chances: Array, precision: str) -> Array:
    """x in so many digits, by chance up or down."""
    if precision == "bfloat16":  # whose digits are the first of a float32's: the sum may carry
        return xp.from_bits((xp.bits(x) + chances) & ~LOW_HALF)
    down = DIGITS[precision] - 1
    exponent = xp.bounded(xp.bits(x) & EXPONENT, LEAST[precision] << 23, LARGEST << 23)
    inverse = xp.from_bits(((2 * ONE) << 23) - exponent)
    ulp = xp.from_bits(exponent) * 2.0**-down
    return xp.floor(x * inverse * 2.0**down + xp.real(chances, x) * 2.0**-16) * ulp


def upwards(xp: Any, x: Array) -> Array:
    """Positive numbers in bfloat16's digits, and no smaller."""
    return xp.from_bits((xp.bits(x) + LOW_HALF) & ~LOW_HALF)


def compact(xp: Any, x: Array, form: str, place: Array, seed: Array) -> Array:
    """A number as one of the `FORMS` keeps it."""
    if form == "whole":
        return x
    if form in NEAREST:
        return xp.nearest(x, NEAREST[form])
    if form == "bound":
        return upwards(xp, x)
    return by_chance(xp, x, chance(xp, place, seed), "bfloat16")


def added(
    xp: Any, x: Array, step: Array, lost: Array | None, kept_in: str, chances: Array | None
) -> tuple[Array, Array | None]:
    """x + step in the precision that x is kept in, and what that loses.

    With ``lost``, what rounding took away before is added first, and what it takes away now is
    returned (Kahan).  With ``chances`` the sum is rounded up or down by them; without, to the
    nearest.
    """
    # x stays as it is, to the bit: -0.0 + 0.0 is not -0.0, and what is carried, itself rounded,
    # may tip a tie.
    still = step == 0
    if kept_in not in DIGITS:
        return xp.where(still, x, x + step), lost
    whole = step if lost is None else step + lost
    total = x + whole
    if kept_in == "float16":  # a bet may pass its end, and nothing comes back from inf
        whole = xp.minimum(xp.maximum(whole, -END - x), END - x)
        total = xp.clip(x + whole, -END, END)
    rounded = total if chances is None else by_chance(xp, total, chances, kept_in)
    rounded = xp.nearest(rounded, kept_in)
    if lost is not None:
        lost = xp.where(still, lost, xp.nearest(whole - (rounded - x), kept_in))
    return xp.where(still, x, rounded), lost
