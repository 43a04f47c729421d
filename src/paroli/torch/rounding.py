"""Keeping float32 numbers in bfloat16 and float16 without losing what is small beside them."""

from __future__ import annotations

import torch

HALF_PRECISION = (torch.bfloat16, torch.float16)
ODD, MIXER = 0x2545F491, 0x4F6CDD1D
"""Odd multipliers, so that multiplying by them permutes the 32-bit integers."""


def add_rounded(
    point: torch.Tensor,
    increment: torch.Tensor,
    lost: torch.Tensor | None,
    seed: torch.Tensor | None,
) -> None:
    """Add ``increment`` to ``point`` in place, in the precision of ``point``.

    With ``lost``, what rounding took away is kept there and added next time (Kahan).  With a
    ``seed``, the sum is rounded up or down at random, right in the mean.  With neither, to the
    nearest.
    """
    exact = point.to(increment.dtype)
    # Rounding what is carried, itself rounded, may tip a tie: without an increment all stays.
    still = increment == 0
    if lost is not None:
        increment = increment + lost.to(increment.dtype)
    total = exact + increment
    rounded = rounded_to(total, point.dtype, seed)
    if lost is not None:
        carried = (increment - (rounded.to(increment.dtype) - exact)).to(lost.dtype)
        lost.copy_(torch.where(still, lost, carried))
    point.copy_(torch.where(still, point, rounded))


def rounded_to(x: torch.Tensor, dtype: torch.dtype, seed: torch.Tensor | None) -> torch.Tensor:
    """x in another dtype: by chance up or down where there is a seed, else to the nearest."""
    if seed is None or dtype not in HALF_PRECISION or x.dtype == dtype:
        return x.to(dtype)
    x = x.float()
    near = x.to(dtype)
    # The other neighbour: one step in the 16 bits, away from zero or towards it.  (nextafter does
    # not know float16.)
    step = torch.where(torch.abs(x) > torch.abs(near.float()), 1, -1).to(torch.int16)
    far = (near.view(torch.int16) + step).view(dtype)
    chance = (x - near.float()) / (far.float() - near.float())
    return torch.where(_uniform(x, seed) < chance, far, near)


def rounded_up(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Positive numbers in another dtype, and no smaller there."""
    if dtype not in HALF_PRECISION or x.dtype == dtype:
        return x.to(dtype)
    near = x.to(dtype)
    too_small = (near.to(x.dtype) < x).to(torch.int16)
    return (near.view(torch.int16) + too_small).view(dtype)


def seed_of(*numbers: torch.Tensor) -> torch.Tensor:
    """A seed from global numbers that every round changes.

    Not torch's generators: ranks that hold copies of a tensor must round them alike.
    """
    seed = torch.zeros((), dtype=torch.int32, device=numbers[0].device)
    for number in numbers:
        bits = number.reshape(1).view(torch.int32)
        seed = (seed ^ bits[0]) * ODD ^ bits[-1]
    return seed


def _uniform(x: torch.Tensor, seed: torch.Tensor) -> torch.Tensor:
    """A number in [0, 1) for each entry of x, from its place, its value and the seed."""
    place = torch.arange(x.numel(), dtype=torch.int32, device=x.device).view(x.shape)
    mixed = place * ODD ^ seed.to(x.device)
    mixed = (mixed ^ (mixed >> 15)) * MIXER ^ x.view(torch.int32) * ODD
    mixed = (mixed ^ (mixed >> 13)) * MIXER
    mixed = mixed ^ (mixed >> 16)
    return (mixed & 0xFFFFFF).to(x.dtype) * 2.0**-24
