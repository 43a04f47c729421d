r"""From names to numbers: the hashing trick, with Vowpal Wabbit's own numbers.

A feature is known by a number below 2ᵇ.  A name of digits only is its own number; any other is
hashed by MurmurHash3 (32 bits, Austin Appleby, public domain), seeded by the number of its
namespace; the product of two features has the number

.. math:: (16777619 \cdot i) \oplus j.

Names that fall on the same number share a weight: with n names and 2ᵇ numbers, one in 2ᵇ/n does.
"""

from __future__ import annotations

PAIR_FACTOR = 16777619
"""The prime of FNV hashing, 2²⁴ + 2⁸ + 0x93."""

_MASK_32 = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF


def murmur3(text: bytes, seed: int = 0) -> int:
    """MurmurHash3_x86_32.

    >>> hex(murmur3(b"hello", 0)), hex(murmur3(b"", 1))
    ('0x248bfa47', '0x514e28b7')
    """
    h = seed & _MASK_32
    whole = len(text) & ~3
    for begin in range(0, whole, 4):
        h ^= _scrambled(int.from_bytes(text[begin : begin + 4], "little"))
        h = (h << 13 | h >> 19) & _MASK_32
        h = (h * 5 + 0xE6546B64) & _MASK_32
    h ^= _scrambled(int.from_bytes(text[whole:], "little"))
    h ^= len(text)
    h = ((h ^ h >> 16) * 0x85EBCA6B) & _MASK_32
    h = ((h ^ h >> 13) * 0xC2B2AE35) & _MASK_32
    return h ^ h >> 16


def _scrambled(k: int) -> int:
    k = (k * 0xCC9E2D51) & _MASK_32
    k = (k << 15 | k >> 17) & _MASK_32
    return (k * 0x1B873593) & _MASK_32


def number_of(name: bytes, seed: int = 0) -> int:
    """The number of a name in the namespace whose number is `seed`, not yet folded to 2ᵇ.

    >>> number_of(b"17"), number_of(b"17", seed=100), number_of(b"seventeen")
    (17, 117, 3894040789)
    """
    if name.isdigit():  # ASCII digits: this is bytes
        return (integer(name) + seed) & _MASK_64
    return murmur3(name, seed)


def integer(digits: bytes) -> int:
    """The number that ASCII digits are, modulo 2⁶⁴ if they are very many."""
    value = 0
    for begin in range(0, len(digits), 1000):  # int() refuses more than some thousands at once
        chunk = digits[begin : begin + 1000]
        value = value * 10 ** len(chunk) + int(chunk)
        value = value if begin == 0 else value & _MASK_64
    return value


def pair(first: int, second: int) -> int:
    """The number of the product of two features."""
    return (PAIR_FACTOR * first ^ second) & _MASK_64
