"""Dual pairs of norms over a list of leaves.

The paper bounds a bet in some norm ‖·‖ and a gradient in its dual ‖·‖⋆: for Algorithm 2 the
infinity-norm and the 1-norm.  A norm is named by its p: 1, 2 or `math.inf`.
"""

from __future__ import annotations

import math

from paroli.core.space import Array, Leaves, Space

DUAL = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}


def dual(p: float) -> float:
    """The p of the dual norm.

    >>> dual(math.inf), dual(2.0)
    (1.0, 2.0)
    """
    if p not in DUAL:
        raise ValueError(f"no norm is known by p = {p!r}: use 1, 2 or math.inf")
    return DUAL[p]


def absolute_sum(space: Space, g: Leaves) -> Array:
    """This device's part of ‖g‖₁."""
    return space.add_up([space.xp.abs(leaf) for leaf in g])


def maximum(space: Space, leaves: Leaves) -> Array:
    """The largest entry over all leaves and devices."""
    result = space.max(leaves[0])
    for leaf in leaves[1:]:
        result = space.xp.maximum(result, space.max(leaf))
    return space.largest(result)


def largest_entry(space: Space, g: Leaves) -> Array:
    """‖g‖_∞ over all leaves and devices."""
    return maximum(space, [space.xp.abs(leaf) for leaf in g])


def log_total(space: Space, logs: Leaves) -> Array:
    """The logarithm of the sum, over all leaves and devices, of what these are the logarithms of.

    It stays finite where the sum has left the range of a float.
    """
    m = maximum(space, logs)
    shares = [space.xp.exp(log - space.cast(m, log)) for log in logs]
    return m + space.xp.log(space.total(space.add_up(shares))[0])


def norm(space: Space, g: Leaves, p: float) -> Array:
    """‖g‖_p over all leaves and devices; squares neither overflow nor vanish."""
    if p == 1.0:
        return space.total(absolute_sum(space, g))[0]
    m = largest_entry(space, g)
    if p == math.inf:
        return m
    xp = space.xp
    scaled = [leaf / space.cast(xp.where(m > 0, m, 1.0), leaf) for leaf in g]
    return m * xp.sqrt(space.total(space.dot(scaled, scaled))[0])
