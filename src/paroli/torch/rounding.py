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
    if lost is not None:
        increment = increment + lost.to(increment.dtype)
    total = exact + increment
    rounded = _stochastic(total, point.dtype) if stochastic else total.to(point.dtype)
    if lost is not None:
        lost.copy_(increment - (rounded.to(increment.dtype) - exact))
    point.copy_(rounded)


def _stochastic(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Round up or down with the probabilities that keep the mean; what is exact stays."""
    near = x.to(dtype)
    below_zero = near.to(x.dtype) > x
    direction = torch.where(below_zero, -torch.inf, torch.inf).to(dtype)
    far = torch.nextafter(near, direction)
    gap = far.to(x.dtype) - near.to(x.dtype)
    chance = torch.where(gap != 0, (x - near.to(x.dtype)) / gap, 0.0)
    return torch.where(torch.rand_like(x) < chance, far, near)
