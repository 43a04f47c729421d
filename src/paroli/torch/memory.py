"""Where the tensors of a leaf lie: what compiled loops and kernels are told of them."""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache
from typing import Any

import numpy as np
import torch

from paroli.torch.leaves import Leaf, local, local_gradient, order_of


class Memory:
    """The memory of a leaf's points and gradients.

    Args:
        leaf: one that `is_dense`.
    """

    def __init__(self, leaf: Leaf) -> None:
        self.params = leaf.params
        points = [local(p) for p in leaf.params]
        self.device, self.dtype = points[0].device, points[0].dtype
        self.plain = [point is p for p, point in zip(leaf.params, points, strict=True)]
        self.strides = [None if point.is_contiguous() else point.stride() for point in points]
        self.counts = np.array([point.numel() for point in points], dtype=np.int64)
        self.begins = np.cumsum(self.counts) - self.counts
        """The place of each tensor's first entry in the arrays of the state."""
        self.size = int(self.counts.sum())
        self.held: list[torch.Tensor] = []

    def rows(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """All entries in rows of so many at most: which tensor each is of, and its offset there."""
        each = -(-self.counts // most)
        tensor = np.repeat(np.arange(len(self.counts)), each)
        first = np.repeat(np.cumsum(each) - each, each)
        return tensor, (np.arange(len(tensor)) - first) * most

    def addresses(self) -> tuple[list[int], list[int]]:
        """Where gradients and points lie in this round."""
        self.held = []
        points = [
            p if plain else local(p) for p, plain in zip(self.params, self.plain, strict=True)
        ]
        gradients = []
        for p, point, strides in zip(self.params, points, self.strides, strict=True):
            g: Any = p.grad
            if not self._fits(g, strides):
                g = self._arranged(p, point)
            gradients.append(g.data_ptr())
        return gradients, [point.data_ptr() for point in points]

    def _fits(self, g: torch.Tensor, strides: tuple[int, ...] | None) -> bool:
        """Whether a gradient can be read as it lies there."""
        return (
            type(g) is torch.Tensor
            and g.dtype is self.dtype
            and g.layout is torch.strided
            and (g.is_contiguous() if strides is None else g.stride() == strides)
            and not g.is_neg()
        )

    def _arranged(self, p: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
        """The gradient as a tensor in the order of the point's memory."""
        g = local_gradient(p).resolve_neg()
        if g.stride() != point.stride() or g.dtype != self.dtype:
            g = torch.empty_like(point).copy_(g)
        self.held.append(g)  # until the round is over
        return g


LARGE_PAGE = 1 << 21
"""Bytes, on the processors that most machines have."""
HUGEPAGE, COLLAPSE = getattr(mmap, "MADV_HUGEPAGE", None), 25
"""Linux's advice: to use large pages from now on, and (since 6.1, not in `mmap` yet) at once."""


def in_large_pages(x: torch.Tensor) -> None:
    """Ask the system to keep a long array in large pages; where it cannot, nothing happens.

    A step goes through eight arrays at once: of small pages the processor cannot know where so many
    are, and waits to be told.
    """
    if torch.compiler.is_compiling() or x.device.type != "cpu" or not x.is_contiguous():
        return
    advise = _advice()
    if advise is None:
        return
    begin = -(-x.data_ptr() // LARGE_PAGE) * LARGE_PAGE
    whole = (x.data_ptr() + x.nbytes - begin) // LARGE_PAGE * LARGE_PAGE
    if whole > 0 and advise(begin, whole, HUGEPAGE) == 0:
        advise(begin, whole, COLLAPSE)


@cache
def _advice() -> Any:
    """The C library's ``madvise``; None: it has no large pages."""
    if not sys.platform.startswith("linux") or HUGEPAGE is None:
        return None
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    if advise is not None:
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return advise


def is_dense(leaf: Leaf) -> bool:
    """Whether points and state lie without gaps, on one device and in the same order."""
    points = [local(p) for p in leaf.params]
    kinds = (torch.Tensor, torch.nn.Parameter)
    for point in points:
        if type(point) not in kinds or point.device != points[0].device:
            return False
        if not point.is_contiguous() and order_of(point) is None:
            return False
    if len(points) > 1:
        return all(array.is_contiguous() for array in leaf.storage.values())
    return all(array.stride() == points[0].stride() for array in leaf.storage.values())
