"""Where the numbers live: an array namespace, and how a sum crosses leaves and devices.

A round of Algorithm 1 is *reduce, scalar, map*: a few sums over all tensors and devices, a scalar
update, and then the inner learner coordinate by coordinate.  The formulas are the same everywhere;
only the array library and the way a sum travels differ, and a `Space` is exactly that difference.
A front end subclasses it: a sharded one overrides `total` and `largest`, one on a GPU `number`.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
Leaves: TypeAlias = list[Any]

FUNCTIONS = (
    "abs", "asarray", "clip", "exp", "expm1", "finfo", "full_like", "hypot", "log", "log1p", "max",
    "maximum", "minimum", "sign", "sqrt", "sum", "where", "zeros_like",
)  # fmt: skip
"""What a namespace must offer for every coordinatewise brick and scalar reduction: the array API
standard's functions of these names, in which all arguments but the first array may be Python
numbers."""

MATRIX_FUNCTIONS = ("concat", "eye", "linalg", "reshape", "zeros")
"""What it must offer on top of that for the full-matrix bricks."""

BIT_FUNCTIONS = ("bits", "bounded", "floor", "from_bits", "integer", "isfinite", "nearest", "real")
"""What it must offer on top of `FUNCTIONS` to keep numbers in fewer bits (`paroli.core.compact`):
the bits of a float32 as an int32 and back, an int32 truncated to an interval, a number as an int32
and an int32 in the dtype of an array, and the nearest number that a precision ("bfloat16",
"float16", "float32") holds."""

HEADROOM = 2.0**-30
"""How far below the end of the float range magnitudes are kept, so that sums over a billion rounds
or coordinates stay finite."""


def magnitude_ceiling(xp: Any, dtype: Any) -> float:
    """The largest magnitude that a dtype holds, with room to spare."""
    return float(xp.finfo(dtype).max) * HEADROOM


class Space:
    """An array namespace ``xp`` and the dtype of global numbers (wealth, g_max, sums).

    >>> import numpy as np
    >>> space = Space(np, np.float64)
    >>> float(space.sum(np.array([1.0, 2.0], dtype=np.float32)))
    3.0
    """

    def __init__(self, xp: Any, scalar: Any) -> None:
        self.xp = xp
        self.scalar = scalar

    def number(self, value: float, like: Array) -> Array:
        """A global number (``like`` is some leaf: its device and library are to be used)."""
        return self.xp.asarray(value, dtype=self.scalar)

    def cast(self, number: Array, like: Array) -> Array:
        """A global number in the dtype of a leaf, ready to meet its entries."""
        return self.xp.astype(number, like.dtype)

    def onto(self, condition: Array, like: Array) -> Array:
        """A global yes or no, ready to meet the entries of a leaf."""
        return condition

    def sum(self, x: Array) -> Array:
        """The sum of one leaf's entries as a global number: this device's part of it."""
        return self.xp.sum(x, dtype=self.scalar)

    def max(self, x: Array) -> Array:
        """The largest entry of one leaf as a global number: this device's part of it."""
        return self.xp.astype(self.xp.max(x), self.scalar)

    def total(self, *numbers: Array) -> tuple[Array, ...]:
        """Several sums across devices at once (a sharded space needs one all-reduce for them)."""
        return numbers

    def largest(self, number: Array) -> Array:
        """The maximum across devices."""
        return number

    def add_up(self, leaves: Leaves) -> Array:
        """The sum of all entries of all leaves: this device's part of it.

        A sharded space weighs a leaf that several devices hold, so that `total` counts it once.
        """
        result = self.sum(leaves[0])
        for leaf in leaves[1:]:
            result = result + self.sum(leaf)
        return result

    def dot(self, a: Leaves, b: Leaves) -> Array:
        """a · b over all leaves: this device's part of it."""
        return self.add_up([x * y for x, y in zip(a, b, strict=True)])

    def log_ceiling(self, leaves: Leaves) -> float:
        """The largest logarithm whose exponential every leaf can hold, with room to spare."""
        return math.log(self.magnitude_ceiling(leaves))

    def magnitude_ceiling(self, leaves: Leaves) -> float:
        """The largest magnitude that the narrowest leaf can hold, with room to spare."""
        return min(magnitude_ceiling(self.xp, dtype) for dtype in {leaf.dtype for leaf in leaves})


class NumPySpace(Space):
    """NumPy, with the standard's functions bound to their quickest forms for small arrays.

    `numpy.clip` and `numpy.sum` spend most of their time before the loop; the forms below give the
    same values.
    """

    def __init__(self) -> None:
        names = {name: getattr(np, name) for name in (*FUNCTIONS, *MATRIX_FUNCTIONS)}
        names |= {
            "clip": _clip,
            "bits": _bits,
            "bounded": _clip,
            "floor": np.floor,
            "from_bits": lambda bits: bits.view(np.float32),
            "integer": lambda x: np.asarray(x).astype(np.int32),
            "isfinite": np.isfinite,
            "nearest": _nearest,
            "real": lambda bits, like: bits.astype(like.dtype),
        }
        super().__init__(SimpleNamespace(**names), np.float64)

    def number(self, value: float, like: Array) -> Array:
        return np.float64(
            value
        )  # arithmetic on scalars is several times quicker than on 0-d arrays

    def cast(self, number: Array, like: Array) -> Array:
        # asarray, not dtype.type: per-coordinate learners carry arrays where others carry numbers.
        return number if number.dtype == like.dtype else number.astype(like.dtype)

    def sum(self, x: Array) -> Array:
        return np.add.reduce(x, axis=None, dtype=np.float64)

    def max(self, x: Array) -> Array:
        return np.float64(np.maximum.reduce(x, axis=None))

    def log_ceiling(self, leaves: Leaves) -> float:
        return min([_LOG_CEILING[leaf.dtype] for leaf in leaves])

    def magnitude_ceiling(self, leaves: Leaves) -> float:
        return min([_MAGNITUDE_CEILING[leaf.dtype] for leaf in leaves])


def _clip(x: Array, low: float, high: float) -> Array:
    return x.clip(low, high)


def _bits(x: Array) -> Array:
    return x.astype(np.float32).view(np.int32)


def _nearest(x: Array, precision: str) -> Array:
    if precision != "bfloat16":
        return x.astype(precision).astype(x.dtype)
    bits = _bits(x)
    up = bits + 0x7FFF + ((bits >> 16) & 1)
    return np.where(np.isnan(x), x, (up & ~0xFFFF).view(np.float32)).astype(x.dtype)


_MAGNITUDE_CEILING = {
    np.dtype(dtype): magnitude_ceiling(np, dtype) for dtype in (np.float32, np.float64)
}
_LOG_CEILING = {dtype: math.log(ceiling) for dtype, ceiling in _MAGNITUDE_CEILING.items()}

NUMPY = NumPySpace()
