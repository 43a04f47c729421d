"""Where the tensors of a leaf lie: what compiled loops and kernels are told of them."""

from __future__ import annotations

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
        gradients, points = [], []
        for p, plain in zip(self.params, self.plain, strict=True):
            g, point = p.grad, p if plain else local(p)
            if (
                type(g) is not torch.Tensor
                or g.stride() != point.stride()
                or g.dtype is not self.dtype
                or g.layout is not torch.strided
                or g.is_conj()
            ):
                g = self._arranged(p, point)
            gradients.append(g.data_ptr())
            points.append(point.data_ptr())
        return gradients, points

    def _arranged(self, p: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
        """The gradient as a tensor in the order of the point's memory."""
        g = local_gradient(p)
        if g.stride() != point.stride() or g.dtype != self.dtype:
            g = torch.empty_like(point).copy_(g)
        self.held.append(g)  # until the round is over
        return g


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
