"""Leaves as one vector and back, for the algorithms that keep a d x d matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paroli.core.space import Array, Leaves


def joined(xp: Any, leaves: Sequence[Array]) -> Array:
    """All entries of all leaves as one vector (the leaves must share a dtype)."""
    return xp.concat([xp.reshape(leaf, (-1,)) for leaf in leaves])


def split(xp: Any, vector: Array, like: Sequence[Array]) -> Leaves:
    """The inverse of `joined`, shaped as ``like``."""
    leaves, begin = [], 0
    for leaf in like:
        end = begin + size(leaf)
        leaves.append(xp.reshape(vector[begin:end], leaf.shape))
        begin = end
    return leaves


def size(leaf: Array) -> int:
    """The number of entries, in every array library."""
    count = 1
    for length in leaf.shape:
        count *= length
    return count
