"""Adding small float32 increments to bfloat16 and float16 parameters without losing them."""

from __future__ import annotations

import torch


def add_rounded(
    point: torch.Tensor, increment: torch.Tensor, lost: torch.Tensor | None, stochastic: bool
) -> None:
    """Add ``increment`` to ``point`` in place, in the precision of ``point``.

    With ``lost``, what rounding took away is kept there and added next time (Kahan).  With
    ``stochastic``, the sum is rounded up or down at random, right in the mean.  With neither, to
    the nearest.
    """
    exact = point.to(increment.dtype)
    # Rounding what is carried, itself rounded, may tip a tie: without an increment all stays.
    still = increment == 0
    if lost is not None:
        increment = increment + lost.to(increment.dtype)
    total = exact + increment
    rounded = _stochastic(total, point.dtype) if stochastic else total.to(point.dtype)
    if lost is not None:
        carried = (increment - (rounded.to(increment.dtype) - exact)).to(lost.dtype)
        lost.copy_(torch.where(still, lost, carried))
    point.copy_(torch.where(still, point, rounded))


def _stochastic(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Round up or down with the probabilities that keep the mean; what is exact stays."""
    near = x.to(dtype)
    # The other neighbour: one step in the 16 bits, away from zero or towards it.  (nextafter does
    # not know float16.)
    step = torch.where(torch.abs(x) > torch.abs(near.to(x.dtype)), 1, -1).to(torch.int16)
    far = (near.view(torch.int16) + step).view(dtype)
    gap = far.to(x.dtype) - near.to(x.dtype)
    chance = (x - near.to(x.dtype)) / gap
    return torch.where(torch.rand_like(x) < chance, far, near)
