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

from paroli.core.inplace import Keeping, Place, received
from paroli.torch.space import DTensor, TorchSpace

LAG, LOST = "lag", "lost"
"""Keys of ``state[p]`` beside those of the learner's state: by how much the averaged point differs
from the parameter, and what rounding took from a half-precision parameter."""
HALF_PRECISION = (torch.bfloat16, torch.float16)


class Leaf:
    """Parameters of one group, stepped together.

    Args:
        params: one, or several of the same dtype and device.
        group: their parameter group.
        storage: the parts of their state, end to end.
        keeping: in how many bits.
        computed_in: dtype of the arithmetic.
    """

    mask: torch.Tensor | None = None
    """0 where an entry stands for one that counts already; None: all count."""

    def __init__(
        self,
        params: list[torch.Tensor],
        group: dict[str, Any],
        storage: dict[str, torch.Tensor],
        keeping: Keeping,
        computed_in: torch.dtype,
    ) -> None:
        self.params = params
        self.group = group
        self.storage = storage
        self.keeping = keeping
        self.computed_in = computed_in
        self.mark = ""
        self.native: Any = None
        """What `paroli.torch.native` made of it."""
        self.views: dict[torch.Tensor, torch.Tensor] = {}
        """What each parameter's state was given as its part of the one that is called ``mark``."""
        self.strides = {p: local(p).stride() for p in params}
        """The order of memory in which the state lies."""

    @property
    def size(self) -> int:
        """How many entries of parameters there are."""
        return sum(local(p).numel() for p in self.params)

    # State ----------------------------------------------------------------------------------

    def read(self, key: str) -> torch.Tensor:
        """A part of the state, in the dtype of the arithmetic."""
        kept = self.get(key)
        return kept.to(torch.promote_types(kept.dtype, self.computed_in))

    def get(self, key: str) -> torch.Tensor:
        """A tensor of the state as it is kept."""
        return self.storage[key]

    def put(self, key: str, value: torch.Tensor) -> None:
        """Replace it."""
        self.storage[key].copy_(value)

    def has(self, p: torch.Tensor, state: dict[str, Any]) -> bool:
        """Whether the state that p has now is still what this leaf gave it, and lies as p does."""
        return (
            self.views.get(p) is state.get(self.mark, self) and local(p).stride() == self.strides[p]
        )

    def place(self) -> Place:
        """Where the parameters are, and what is kept of that."""
        x = self.point()
        return Place(
            at_least(x, self.computed_in),
            self.read(LAG) if LAG in self.storage else None,
            self.read(LOST) if LOST in self.storage else None,
            self.numbers() if self.keeping.takes_chances else None,
        )

    def numbers(self) -> torch.Tensor:
        """Which entry is which."""
        x = self.storage[self.mark] if self.mark else local(self.params[0])
        return torch.arange(x.numel(), dtype=torch.int32, device=x.device).view(x.shape)

    def move(self, place: Place) -> None:
        """Let the parameters be there, and keep the rest."""
        if place.lag is not None:
            self.put(LAG, place.lag)
        if place.lost is not None:
            self.put(LOST, place.lost)
        self.set_point(place.x)

    # Points ---------------------------------------------------------------------------------

    def gradient(self, scale: torch.Tensor | None) -> torch.Tensor:
        """This rank's part of the gradient, real, unscaled, in the dtype of the arithmetic."""
        g = self.joined([self._gradient_of(p) for p in self.params]).to(self.computed_in)
        scale = None if scale is None else scale.reshape(())
        whole: torch.Tensor = received(TorchSpace(g.device), g, scale, self.group["maximize"])
        return whole

    def _gradient_of(self, p: torch.Tensor) -> torch.Tensor:
        return local_gradient(p)

    def point(self) -> torch.Tensor:
        """Where the parameters are."""
        return self.joined([local(p) for p in self.params])

    def set_point(self, x: torch.Tensor) -> None:
        """Put the parameters there."""
        points = [local(p) for p in self.params]
        if len(points) > 1:
            torch._foreach_copy_(points, self.parted(x))
        else:
            points[0].copy_(x)

    # One and many ---------------------------------------------------------------------------

    def joined(self, parts: list[torch.Tensor]) -> torch.Tensor:
        """What belongs to the parameters, end to end in the order of memory; of one, as it is."""
        if len(parts) == 1:
            return parts[0]
        return torch.cat(
            [in_memory(part, local(p)) for p, part in zip(self.params, parts, strict=True)]
        )

    def arranged(self, parts: list[torch.Tensor]) -> torch.Tensor:
        """The same, always in the order of memory."""
        point, part = local(self.params[0]), parts[0]
        if len(parts) > 1 or part.shape != point.shape or part.stride() == point.stride():
            return self.joined(parts)
        return torch.empty_like(point, dtype=part.dtype).copy_(part)

    def parted(self, whole: torch.Tensor) -> list[torch.Tensor]:
        """Views of each parameter's entries."""
        if len(self.params) == 1:
            return [whole]
        points = [local(p) for p in self.params]
        parts = torch.split(whole, [point.numel() for point in points])
        return [shaped(part, point) for part, point in zip(parts, points, strict=True)]


def in_memory(part: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
    """What belongs to a point, as one row in the order of the point's memory."""
    order = order_of(point)
    return (part if order is None else part.permute(order)).reshape(-1)


def shaped(row: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
    """The inverse of `in_memory`: a view."""
    order = order_of(point)
    if order is None:
        return row.view(point.shape)
    inverse = sorted(range(point.ndim), key=order.__getitem__)
    return row.view(point.permute(order).shape).permute(inverse)


def order_of(x: torch.Tensor) -> list[int] | None:
    """The dimensions of x in the order of its memory; None: as they are."""
    if x.is_contiguous():
        return None
    strides = x.stride()
    order = sorted(range(x.ndim), key=lambda d: -strides[d])
    return order if x.permute(order).is_contiguous() else None


def local(x: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor, real: a view, so that writing to it writes to the tensor."""
    part: torch.Tensor = x.to_local() if isinstance(x, DTensor) else x
    return torch.view_as_real(part) if part.is_complex() else part


def local_gradient(p: torch.Tensor) -> torch.Tensor:
    """This rank's part of the gradient of p, real and dense."""
    grad = p.grad
    assert grad is not None
    if grad.is_sparse:
        grad = grad.to_dense()
    if isinstance(p, DTensor) and isinstance(grad, DTensor):
        grad = grad.redistribute(placements=p.placements)
    return local(grad.resolve_conj())


def at_least(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A tensor, or a copy in a dtype if its own precision is less."""
    return x.to(torch.promote_types(x.dtype, dtype))


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
