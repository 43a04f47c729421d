"""Steps in compiled code, wherever they can be: `NativeLeaf` on the CPU, kernels on a GPU.

A `Leaf` that lies in memory as compiled code wants it is stepped by that, all others by torch's
operators: the same formulas, the same numbers up to rounding.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
import torch

from paroli.core import inplace
from paroli.core.averaged import Average
from paroli.core.inplace import Count
from paroli.core.learner import Learner
from paroli.native.build import NoCompilerError, load
from paroli.native.round import Form
from paroli.native.step import COLUMNS, NEAR_BOUND, STORED, Loops, loops
from paroli.native.triton import kernels
from paroli.torch import triton
from paroli.torch.layout import Layout
from paroli.torch.leaves import LAG, LOST, Leaf, local
from paroli.torch.memory import Memory, is_dense
from paroli.torch.rows import Rows
from paroli.torch.space import NAMESPACE
from paroli.torch.triton import KernelLeaf

ROW = 1 << 15
"""Entries of a row of the table, at most: what one processor does at a time."""
WORTH_A_THREAD = 1 << 17
"""Entries, at least, for another thread to be woken."""


class Compiled(Protocol):
    """A leaf whose rounds are played by compiled code.

    In the order of a round: `begin`, `tell`, `squares` if there is weight decay, `finish`.  Where
    the round does not count, everything stays.
    """

    leaf: Leaf
    size: int

    def begin(self, numbers: dict[str, torch.Tensor], scale: torch.Tensor | None) -> Any:
        """This rank's parts of the sums of the round, in an array."""

    def tell(self, totals: Sequence[torch.Tensor], count: Count) -> None:
        """What is known before anything changes."""

    def squares(self) -> Any:
        """The sum of the squares of the increments."""

    def finish(self, decay: torch.Tensor | None) -> tuple[Any, dict[str, torch.Tensor]]:
        """Change everything; the sum of squares of the increments, and the new global numbers."""


def weighed(parts: Sequence[tuple[Any, float]]) -> Any:
    """The sum of parts by their weights, in as few operations as that takes."""
    first, *others = [part if weight == 1 else weight * part for part, weight in parts]
    for other in others:
        first = first + other
    return first


def counts(
    leaves: Iterable[Compiled], sums: Sequence[torch.Tensor], found_inf: torch.Tensor | None
) -> torch.Tensor:
    """`paroli.core.inplace.counts`: on a GPU in one launch, where it steps leaves by kernels."""
    if any(isinstance(leaf, KernelLeaf) for leaf in leaves):
        return triton.counts(sums, found_inf)
    finite: torch.Tensor = inplace.counts(NAMESPACE, sums, found_inf)
    return finite


def counted(
    leaves: Iterable[Compiled], t: torch.Tensor, average: Average | None, finite: torch.Tensor
) -> tuple[torch.Tensor, Count]:
    """`paroli.core.inplace.counted`, likewise."""
    if any(isinstance(leaf, KernelLeaf) for leaf in leaves):
        return triton.counted(t, average, finite)
    return inplace.counted(NAMESPACE, t, average, finite)


class NativeLeaf:
    """A leaf whose rounds are played by compiled loops.

    Args:
        leaf: as it lies in memory now.
        code: its loops.
    """

    def __init__(self, leaf: Leaf, code: Loops) -> None:
        self.leaf = leaf
        self.code = code
        self.memory = memory = Memory(leaf)
        self.size = memory.size
        self.tensor, self.offset = memory.rows(ROW)
        self.table = np.zeros((len(self.tensor), COLUMNS), dtype=np.int64)
        self.table[:, 2] = memory.begins[self.tensor] + self.offset
        self.table[:, 3] = np.minimum(memory.counts[self.tensor] - self.offset, ROW)
        self.arrays = [leaf.storage[name] for name in code.arrays]
        self.parts = (ctypes.c_void_p * len(self.arrays))(
            *(array.data_ptr() for array in self.arrays)
        )
        self.inputs = np.zeros(len(code.inputs))
        self.near = self.counts = False

    def begin(self, numbers: dict[str, torch.Tensor], scale: torch.Tensor | None) -> np.ndarray:
        known = {name: number_of(number) for name, number in numbers.items()}
        self._point_out()
        self._given(**known, scale=1.0 if scale is None else number_of(scale))
        self.bound = known.get("g_max", np.inf)
        self.near = near(self.bound)
        return self._run(self.code.first, self.code.sums)[0]

    def tell(self, totals: Sequence[torch.Tensor], count: Count) -> None:
        known = {f"total_{k}": number_of(total) for k, total in enumerate(totals)}
        self.near = near(max(self.bound, known["total_0"]))
        self.counts = bool(number_of(count.finite))
        share = 0.0 if count.share is None else number_of(count.share)
        lr = number_of(self.leaf.group["lr"])
        self._given(**known, seed=number_of(count.seed), share=share, lr=lr, decay=0.0)

    def squares(self) -> float:
        return float(self._run(self.code.measure, 1)[0][0]) if self.counts else 0.0

    def finish(self, decay: torch.Tensor | None) -> tuple[float, dict[str, torch.Tensor]]:
        if not self.counts:
            return 0.0, {}
        if decay is not None:
            self._given(decay=number_of(decay))
        (squares,), numbers = self._run(self.code.last, 1)
        self.memory.held = []
        torch.autograd.graph.increment_version(self.leaf.params)
        new = dict(zip(self.code.names, torch.from_numpy(numbers).unbind(), strict=True))
        return float(squares), new

    def _point_out(self) -> None:
        """Say where gradients and points lie in this round."""
        steps = self.offset * self.memory.dtype.itemsize
        for column, where in enumerate(self.memory.addresses()):
            self.table[:, column] = np.array(where, dtype=np.int64)[self.tensor] + steps

    def _given(self, **values: float) -> None:
        """Numbers that the loops need, by their names."""
        for name, value in values.items():
            if name in self.code.inputs:
                self.inputs[self.code.inputs.index(name)] = value

    def _run(self, which: tuple[Any, Any], sums: int) -> tuple[np.ndarray, np.ndarray]:
        """Run a loop over all rows, in as many threads as torch would; sums, and other numbers."""
        rows = len(self.table)
        threads = max(1, min(torch.get_num_threads(), rows, self.size // WORTH_A_THREAD))
        found, numbers = np.empty((rows, sums)), np.empty(len(self.code.names))
        which[int(self.near)](
            rows,
            threads,
            self.table.ctypes.data,
            self.parts,
            self.inputs.ctypes.data,
            found.ctypes.data,
            numbers.ctypes.data,
        )
        return found.sum(0), numbers


def near(bound: float) -> bool:
    """Whether gradients are moderate enough for the quicker loops."""
    return bound <= NEAR_BOUND


def number_of(x: torch.Tensor | float) -> float:
    """A global number on the CPU as Python's own, without an operator."""
    return float(x.detach().numpy().reshape(())) if isinstance(x, torch.Tensor) else float(x)


def compiled_leaf(
    leaf: Leaf, learner: Learner, layout: Layout, scaled: bool, device: torch.device
) -> Compiled | None:
    """The compiled form of a leaf; None: it has to be stepped by torch's operators.

    Args:
        leaf: as it lies in memory now.
        learner: what plays.
        layout: how its state is kept.
        scaled: whether gradients are divided by a scale.
        device: where the global numbers are.
    """
    key = (local(leaf.params[0]).dtype, leaf.group["maximize"], scaled, device)
    if leaf.native is None or leaf.native[0] != key:
        leaf.native = (key, _made(leaf, learner, layout, scaled, device))
    made: Compiled | None = leaf.native[1]
    return made


def _made(
    leaf: Leaf, learner: Learner, layout: Layout, scaled: bool, device: torch.device
) -> Compiled | None:
    if why_not(leaf, device) is not None:
        return None
    form = form_of(leaf, learner, layout, scaled)
    return MADE_FOR[device.type](leaf, form, layout)


def form_of(leaf: Leaf, learner: Learner, layout: Layout, scaled: bool) -> Form:
    """What decides how a leaf's compiled code looks."""
    dtype = _name(local(leaf.params[0]).dtype)
    kept = {name: _name(array.dtype) for name, array in leaf.storage.items()}
    keeping = leaf.keeping
    return Form(
        learner,
        tuple(layout.numbers),
        tuple((name, kept[name]) for name in layout.parts),
        dtype,
        dtype,
        _name(leaf.computed_in),
        kept.get(LAG),
        kept.get(LOST),
        tuple(sorted(keeping.forms.items())),
        keeping.lag_form,
        keeping.by_chance,
        leaf.group["maximize"],
        scaled,
    )


def _loops(leaf: Leaf, form: Form, layout: Layout) -> Compiled | None:
    try:
        code = loops(form, layout)
    except NoCompilerError:  # one that has no float16, say
        return None
    return None if code is None else NativeLeaf(leaf, code)


def _kernels(leaf: Leaf, form: Form, layout: Layout) -> Compiled | None:
    code = kernels(form, layout)
    return None if code is None else KernelLeaf(leaf, code)


MADE_FOR: dict[str, Callable[[Leaf, Form, Layout], Compiled | None]] = {
    "cpu": _loops,
    "cuda": _kernels,
}
"""What makes a leaf's compiled form, by the kind of device."""
ON_ITS_OWN = ("cpu",)
"""The kinds of devices where compiled code is used without being asked for."""


def why_not(leaf: Leaf, device: torch.device) -> str | None:
    """What keeps a leaf out of compiled code; None: nothing that could be known beforehand."""
    if isinstance(leaf, Rows):
        return "some rows of it are stepped at a time"
    points = [local(p) for p in leaf.params]
    if device.type not in MADE_FOR:
        return f"there is none for {device.type}"
    if any(point.device != device for point in points):
        return "its device is not the one of the other parameters"
    if not is_dense(leaf) or any(_name(point.dtype) not in STORED for point in points):
        return "it is not dense in memory, or of a dtype that is unknown"
    return MISSING[device.type]()


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@cache
def no_compiler() -> str | None:
    """Why no loops can be compiled here; None: they can."""
    try:
        load("nothing", "void nothing(void) {}")
    except NoCompilerError as error:
        return str(error)
    return None


MISSING = {"cpu": no_compiler, "cuda": triton.missing}
