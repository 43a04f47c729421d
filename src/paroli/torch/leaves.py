"""What the learner sees as one array: tensors stored end to end, or the touched rows of one.

A step on a thousand small tensors would spend its time between operators.  So the parameters of a
group are kept as one long array of each part of the state; what is in ``optimizer.state[p]`` are
views of it, and whatever saves, loads or moves optimizer state finds what it expects.  Where that
is replaced from outside, or some of the parameters have no gradient, every parameter is stepped by
itself: the same numbers up to the order of sums.
"""

from __future__ import annotations

from typing import Any

import torch

from paroli.torch.rounding import HALF_PRECISION, add_rounded, rounded_to, rounded_up
from paroli.torch.space import DTensor

LAG, LOST = "lag", "lost"
"""Keys of ``state[p]`` beside those of the learner's state: by how much the averaged point differs
from the parameter, which takes fewer bits than the point itself; and what rounding took from a
half-precision parameter."""


class Leaf:
    """Parameters of one group, stepped together.

    Args:
        params: one, or several of the same dtype and device.
        group: their parameter group.
        storage: the parts of their state, end to end.
        computed_in: dtype of the arithmetic.
    """

    mask: torch.Tensor | None = None
    """0 where an entry stands for one that counts already; None: all count."""

    def __init__(
        self,
        params: list[torch.Tensor],
        group: dict[str, Any],
        storage: dict[str, torch.Tensor],
        computed_in: torch.dtype,
    ) -> None:
        self.params = params
        self.group = group
        self.storage = storage
        self.computed_in = computed_in
        self.mark = ""
        self.views: dict[torch.Tensor, torch.Tensor] = {}
        """What each parameter's state was given as its part of the one that is called ``mark``."""

    # State ----------------------------------------------------------------------------------

    def read(self, key: str) -> torch.Tensor:
        """A part of the state, in the dtype of the arithmetic."""
        return self.widened(self.get(key))

    def widened(self, kept: torch.Tensor) -> torch.Tensor:
        """What is kept, in the dtype of the arithmetic."""
        return kept.to(torch.promote_types(kept.dtype, self.computed_in))

    def as_kept(
        self, key: str, value: torch.Tensor, seed: torch.Tensor, is_bound: bool
    ) -> torch.Tensor:
        """A value as `put` would keep it: in fewer bits, if so, rounded up or by chance."""
        dtype = self.storage[key].dtype
        return rounded_up(value, dtype) if is_bound else rounded_to(value, dtype, seed)

    def average(self) -> torch.Tensor:
        """The averaged point."""
        return at_least_float32(self.point()) + self.read(LAG)

    def lag(self, average: torch.Tensor, finite: torch.Tensor, seed: torch.Tensor) -> None:
        """Keep the averaged point, if the round counts; to the bit as it was, if not."""
        kept = self.get(LAG)
        moved = rounded_to(average - self.point().to(average.dtype), kept.dtype, seed)
        self.put(LAG, torch.where(finite.to(kept.device), moved, kept))

    def get(self, key: str) -> torch.Tensor:
        """A part of the state as it is kept."""
        return self.storage[key]

    def put(self, key: str, value: torch.Tensor) -> None:
        """Replace it."""
        self.storage[key].copy_(value)

    def has(self, p: torch.Tensor, state: dict[str, Any]) -> bool:
        """Whether the state that p has now is still what this leaf gave it."""
        return self.views.get(p) is state.get(self.mark, self)

    # Points ---------------------------------------------------------------------------------

    def gradient(self, scale: torch.Tensor | None) -> torch.Tensor:
        """This rank's part of the gradient, real, unscaled, in the dtype of the arithmetic."""
        g = self.joined([self._gradient_of(p) for p in self.params]).to(self.computed_in)
        if scale is not None:
            g = g / scale.to(device=g.device, dtype=g.dtype).reshape(())
        return -g if self.group["maximize"] else g

    def _gradient_of(self, p: torch.Tensor) -> torch.Tensor:
        grad = p.grad
        assert grad is not None
        if grad.is_sparse:
            grad = grad.to_dense()
        if isinstance(p, DTensor) and isinstance(grad, DTensor):
            grad = grad.redistribute(placements=p.placements)
        return local(grad.resolve_conj())

    def point(self) -> torch.Tensor:
        """Where the parameters are."""
        return self.joined([local(p) for p in self.params])

    def add(self, increment: torch.Tensor, seed: torch.Tensor | None) -> None:
        """Move the parameters; those in half precision by chance, if there is a seed."""
        points = [local(p) for p in self.params]
        if points[0].dtype in HALF_PRECISION:
            whole = self.joined(points)
            add_rounded(whole, increment, self.storage.get(LOST), seed)
            if len(points) > 1:
                torch._foreach_copy_(points, self.parted(whole))
        elif len(points) > 1:
            torch._foreach_add_(points, self.parted(increment))
        else:
            points[0].add_(increment)

    # One and many ---------------------------------------------------------------------------

    def joined(self, parts: list[torch.Tensor]) -> torch.Tensor:
        """What belongs to the parameters, end to end; of one, as it is."""
        return parts[0] if len(parts) == 1 else torch.cat([part.reshape(-1) for part in parts])

    def parted(self, whole: torch.Tensor) -> list[torch.Tensor]:
        """Views of each parameter's entries."""
        if len(self.params) == 1:
            return [whole]
        shapes = [local(p).shape for p in self.params]
        parts = torch.split(whole, [shape.numel() for shape in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def local(x: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor, real: a view, so that writing to it writes to the tensor."""
    part: torch.Tensor = x.to_local() if isinstance(x, DTensor) else x
    return torch.view_as_real(part) if part.is_complex() else part


def at_least_float32(x: torch.Tensor) -> torch.Tensor:
    """A tensor, or a copy in float32 if its own precision is less."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def like(p: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """State of this rank's part of p, sharded as p is, so that checkpoints can be resharded."""
    if not isinstance(p, DTensor):
        return part
    shape, stride = p.shape, p.stride()
    if p.is_complex():  # real and imaginary parts
        shape, stride = torch.Size((*shape, 2)), (*(2 * step for step in stride), 1)
    whole: torch.Tensor = DTensor.from_local(
        part, p.device_mesh, p.placements, run_check=False, shape=shape, stride=stride
    )
    return whole


def split_over(p: torch.Tensor) -> int:
    """Over how many ranks the entries of p are divided."""
    if not isinstance(p, DTensor):
        return 1
    ranks = 1
    for size, placement in zip(p.device_mesh.shape, p.placements, strict=True):
        # Not `is_shard`: the strided shards of FSDP2 over tensor parallelism deny being shards.
        if not placement.is_replicate():
            ranks *= size
    return ranks
