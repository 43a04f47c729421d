"""PyTorch as a `Space`: its functions under the standard's names, and sums across ranks."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import torch
import torch.distributed as dist

from paroli.core.space import FUNCTIONS, MATRIX_FUNCTIONS, Array, Leaves, Space

if dist.is_available():
    from torch.distributed.tensor import DTensor as DTensor
else:  # builds of torch with USE_DISTRIBUTED=0 have nothing that could be sharded

    class DTensor(torch.Tensor):  # type: ignore[no-redef]
        """Of which there are none."""


def _maximum(a: torch.Tensor, b: torch.Tensor | float) -> torch.Tensor:
    return torch.maximum(a, b) if isinstance(b, torch.Tensor) else torch.clamp(a, min=b)


def _minimum(a: torch.Tensor, b: torch.Tensor | float) -> torch.Tensor:
    return torch.minimum(a, b) if isinstance(b, torch.Tensor) else torch.clamp(a, max=b)


def _bits(x: torch.Tensor) -> torch.Tensor:
    return x.float().view(torch.int32)


def _from_bits(bits: torch.Tensor) -> torch.Tensor:
    return bits.view(torch.float32)


def _nearest(x: torch.Tensor, precision: str) -> torch.Tensor:
    return x.to(getattr(torch, precision)).to(x.dtype)


NAMESPACE = SimpleNamespace(
    **{name: getattr(torch, name) for name in (*FUNCTIONS, *MATRIX_FUNCTIONS)}
    | {"maximum": _maximum, "minimum": _minimum}
    | {
        "bits": _bits,
        "bounded": torch.clip,
        "floor": torch.floor,
        "from_bits": _from_bits,
        "integer": lambda x: x.to(torch.int32),
        "isfinite": torch.isfinite,
        "nearest": _nearest,
        "real": lambda bits, like: bits.to(like.dtype),
    }
)
"""torch, with the two functions whose arguments the standard is freer about, and with those on
bits."""


class TorchSpace(Space):
    """Tensors on one or several devices, and global numbers on the first of them.

    Args:
        device: where global numbers live.
        weights: for each leaf, the share of its sums that this rank should contribute.
        group: the ranks to add up over; None: this process is alone.
        masks: for each leaf, 0 where an entry stands for one that counts already; None: all count.
        beside: this rank's parts of the same sums that come from elsewhere.
    """

    def __init__(
        self,
        device: torch.device,
        weights: list[float] | None = None,
        group: dist.ProcessGroup | None = None,
        masks: list[torch.Tensor | None] | None = None,
        beside: Sequence[Array] = (),
    ) -> None:
        # Apple's GPUs have no float64.
        super().__init__(NAMESPACE, torch.float32 if device.type == "mps" else torch.float64)
        self.device = device
        self.weights = weights
        self.group = group
        self.masks = masks
        self.beside = beside

    def of_some(self, which: Sequence[int], beside: Sequence[Array]) -> TorchSpace:
        """The space of some of the leaves, with what the others add to the sums."""
        weights = None if self.weights is None else [self.weights[i] for i in which]
        masks = None if self.masks is None else [self.masks[i] for i in which]
        return TorchSpace(self.device, weights, self.group, masks, beside)

    def number(self, value: float, like: Array) -> Array:
        return torch.full((), value, dtype=self.scalar, device=self.device)

    def cast(self, number: Array, like: Array) -> Array:
        return number.to(device=like.device, dtype=like.dtype)

    def onto(self, condition: Array, like: Array) -> Array:
        return condition.to(like.device)

    def sum(self, x: Array) -> Array:
        return torch.sum(x, dtype=self.scalar).to(self.device)

    def max(self, x: Array) -> Array:
        if x.numel() == 0:
            return self.number(0.0, x)  # all maxima here are of absolute values
        return torch.max(x).to(device=self.device, dtype=self.scalar)

    def add_up(self, leaves: Leaves) -> Array:
        if self.masks is not None and len(self.masks) == len(leaves):
            leaves = [
                leaf if mask is None else leaf * mask
                for leaf, mask in zip(leaves, self.masks, strict=True)
            ]
        parts = [self.sum(leaf) for leaf in leaves]
        if self.weights is not None and len(self.weights) == len(parts):
            parts = [part * weight for part, weight in zip(parts, self.weights, strict=True)]
        return torch.stack(parts).sum() if len(parts) > 1 else parts[0]

    def total(self, *numbers: Array) -> tuple[Array, ...]:
        if self.beside:
            numbers = tuple(a + b for a, b in zip(numbers, self.beside, strict=True))
        if self.group is None or not numbers:
            return numbers
        together = torch.stack(numbers)
        dist.all_reduce(together, group=self.group)
        return tuple(together.unbind())

    def largest(self, number: Array) -> Array:
        if self.group is not None:
            number = number.clone()
            dist.all_reduce(number, op=dist.ReduceOp.MAX, group=self.group)
        return number
