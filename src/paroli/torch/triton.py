"""Steps on a GPU by kernels (`paroli.native.triton`): tables of addresses, and launches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import torch

from paroli.core import inplace
from paroli.core.averaged import Average
from paroli.core.inplace import Count
from paroli.native.triton import (
    ALIGNED_BYTES,
    ALIGNED_ENTRIES,
    COLUMNS,
    OPTIONS,
    Kernels,
    counted_kernel,
    counts_kernel,
)
from paroli.torch.leaves import Leaf
from paroli.torch.memory import Memory
from paroli.torch.space import NAMESPACE


class KernelLeaf:
    """A leaf whose rounds are played by kernels; see `paroli.torch.native.Compiled`.

    Nothing waits for the device.  Addresses are written to it again only where they have changed; a
    round that is captured in a CUDA graph has a table of its own, so that replaying it and stepping
    beside it do not get into each other's way.

    Args:
        leaf: as it lies in memory now.
        code: its kernels.
    """

    def __init__(self, leaf: Leaf, code: Kernels) -> None:
        self.leaf = leaf
        self.code = code
        self.memory = memory = Memory(leaf)
        self.size = memory.size
        self.device = memory.device
        self.arrays = [leaf.storage[name] for name in code.source.arrays]
        tensor, offset = memory.rows(code.source.block)
        even = (memory.counts | memory.begins) % ALIGNED_ENTRIES == 0
        order = np.argsort(~even[tensor], kind="stable")
        self.even_rows = int(even[tensor].sum())
        """These come first."""
        self.rows = len(tensor)
        self.tensor_of = self._brought(torch.from_numpy(tensor[order].astype(np.int32)))
        self.offset_of = self._brought(torch.from_numpy(offset[order]))
        self.even = even
        self.host = torch.zeros(len(memory.counts), COLUMNS, dtype=torch.int64)
        self.host[:, 2] = torch.from_numpy(memory.begins)
        self.host[:, 3] = torch.from_numpy(memory.counts)
        self.addresses: tuple[list[int], list[int]] | None = None
        self.aligned = True
        self.table = torch.zeros(self.host.shape, dtype=torch.int64, device=self.device)
        self.in_use = self.table
        self.spare: torch.Tensor | None = self._pinned()
        self.captured: list[torch.Tensor] = []
        """What graphs read from the host whenever they are replayed."""

        def made(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=self.device)

        self.sums = made(self.rows, code.source.sums)
        self.moved = made(self.rows, 1)
        self.uniforms = made(max(code.source.uniforms, 1))
        self.numbers = made(max(len(code.source.names), 1))
        self.nothing = made()
        self.known: dict[str, torch.Tensor] = {}
        self.constants: dict[float, torch.Tensor] = {}

    def begin(self, numbers: dict[str, torch.Tensor], scale: torch.Tensor | None) -> torch.Tensor:
        """Sums of the round: this rank's parts of them."""
        self._point_out()
        self.known = dict(numbers)
        if scale is not None:
            self.known["scale"] = scale
        self._over_rows("first", self.sums)
        return self.sums.sum(0)

    def tell(self, totals: Sequence[torch.Tensor], count: Count) -> None:
        """What is known before anything changes."""
        self.known |= {f"total_{k}": total for k, total in enumerate(totals)}
        self.known |= {"seed": count.seed, "finite": count.finite, "decay": self.nothing}
        self.known["lr"] = self._number(self.leaf.group["lr"])
        if count.share is not None:
            self.known["share"] = count.share
        taken = [self.known[name] for name in self.code.source.takes["scalars"]]
        with _on(self.device):
            kernel = self.code.module.scalars
            kernel[(1,)](self.uniforms, self.numbers, *taken, num_warps=1, **OPTIONS)

    def squares(self) -> torch.Tensor:
        """The sum of the squares of the increments."""
        self._over_rows("measure", self.moved)
        return self.moved.sum()

    def finish(self, decay: torch.Tensor | None) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Change everything; the sum of squares of the increments, and the new global numbers."""
        if decay is not None:
            self.known["decay"] = decay
        self._over_rows("last", self.moved)
        self.known = {}
        torch.autograd.graph.increment_version(self.leaf.params)
        names = self.code.source.names
        return self.moved.sum(), dict(zip(names, self.numbers.unbind(), strict=False))

    def _over_rows(self, name: str, sums: torch.Tensor) -> None:
        """Launch a kernel over all rows: those that lie evenly, and the others."""
        numbers = [self.known[key] for key in self.code.source.takes[name]]
        even = self.even_rows if self.aligned else 0
        with _on(self.device):
            for start, rows, aligned in ((0, even, True), (even, self.rows - even, False)):
                if rows:
                    getattr(self.code.module, name)[(rows,)](
                        start,
                        self.in_use,
                        self.tensor_of,
                        self.offset_of,
                        sums,
                        self.uniforms,
                        *self.arrays,
                        *numbers,
                        ALIGNED=aligned,
                        BLOCK=self.code.source.block,
                        num_warps=self.code.source.warps,
                        **OPTIONS,
                    )

    def _point_out(self) -> None:
        """Say where gradients and points lie in this round."""
        addresses = self.memory.addresses()
        captures = self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if captures or addresses != self.addresses:
            self.host[:, 0] = torch.tensor(addresses[0], dtype=torch.int64)
            self.host[:, 1] = torch.tensor(addresses[1], dtype=torch.int64)
            where = np.array(addresses)[:, self.even]
            self.aligned = not (where % ALIGNED_BYTES).any()
        if captures:
            if self.spare is None:
                raise RuntimeError(
                    "RecursiveOptimizer: two steps in one CUDA graph, or two captures without a "
                    "step between them; take a step outside before each capture"
                )
            pinned, self.spare = self.spare.copy_(self.host), None
            self.captured.append(pinned)
            self.in_use = torch.empty_like(self.table)
            self.in_use.copy_(pinned, non_blocking=True)
            return
        if self.spare is None:
            self.spare = self._pinned()
        if addresses != self.addresses:
            self.table.copy_(self._pinned().copy_(self.host), non_blocking=True)
            self.addresses = addresses
        self.in_use = self.table

    def _pinned(self) -> torch.Tensor:
        """Memory of the host from which the device reads while the host goes on."""
        return torch.empty(
            self.host.shape, dtype=torch.int64, pin_memory=self.device.type == "cuda"
        )

    def _brought(self, x: torch.Tensor) -> torch.Tensor:
        """On the device, without waiting for it."""
        if self.device.type != "cuda":
            return x
        return x.pin_memory().to(self.device, non_blocking=True)

    def _number(self, value: float | torch.Tensor) -> torch.Tensor:
        """A number on the device; one that a graph has captured is written whenever it runs."""
        if isinstance(value, torch.Tensor):
            return value.to(self.device, non_blocking=True)
        captures = self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if captures:
            return torch.full((), value, dtype=torch.float64, device=self.device)
        if value not in self.constants:
            self.constants = {value: torch.full((), value, dtype=torch.float64, device=self.device)}
        return self.constants[value]


def counts(sums: Sequence[torch.Tensor], found_inf: torch.Tensor | None) -> torch.Tensor:
    """`paroli.core.inplace.counts` in one launch."""
    code = counts_kernel(len(sums), found_inf is not None)
    known = {f"sum_{k}": number for k, number in enumerate(sums)}
    if found_inf is not None:
        known["found_inf"] = found_inf
    finite = torch.empty((), dtype=torch.bool, device=sums[0].device)
    with _on(finite.device):
        code.kernel[(1,)](finite, *(known[name] for name in code.takes), num_warps=1, **OPTIONS)
    return finite


def counted(
    t: torch.Tensor, average: Average | None, finite: torch.Tensor
) -> tuple[torch.Tensor, Count]:
    """`paroli.core.inplace.counted` in one launch, if it can be."""
    code = counted_kernel(average) if isinstance(average, Hashable) else None
    if code is None:
        return inplace.counted(NAMESPACE, t, average, finite)
    known = {"t": t, "finite": finite}
    seed = torch.empty((), dtype=torch.int32, device=t.device)
    new, share = torch.empty_like(t), None if average is None else torch.empty_like(t)
    results = [new, seed] if share is None else [new, seed, share]
    with _on(t.device):
        code.kernel[(1,)](*results, *(known[n] for n in code.takes), num_warps=1, **OPTIONS)
    return new, Count(finite, share, seed)


def _on(device: torch.device) -> AbstractContextManager[Any]:
    """Kernels are launched on the current device."""
    if device.type != "cuda":  # interpreted
        return nullcontext()
    return torch.cuda.device(device)


@cache
def missing() -> str | None:
    """Why there are no kernels here; None: there are."""
    try:
        import triton  # noqa: F401
    except ImportError as error:
        return f"Triton cannot be imported ({error}); install it: pip install triton"
    return None
