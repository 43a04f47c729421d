"""Steps in compiled code, wherever they can be: `NativeLeaf` on the CPU, kernels on a GPU.

A `Leaf` that lies in memory as compiled code wants it is stepped by that, all others by torch's
operators: the same formulas, the same numbers up to rounding.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
import torch

from paroli.core import inplace
from paroli.core.averaged import Average
from paroli.core.inplace import Count
from paroli.core.learner import Learner
from paroli.core.space import NUMPY
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

    def tell(self, totals: Sequence[Any], count: Count) -> None:
        """What is known before anything changes."""

    def squares(self) -> Any:
        """The sum of the squares of the increments."""

    def finish(self, decay: torch.Tensor | None) -> tuple[Any, dict[str, Any]]:
        """Change everything; the sum of squares of the increments, and the new global numbers."""


def weighed(parts: Sequence[tuple[Any, float]]) -> Any:
    """The sum of parts by their weights, in as few operations as that takes."""
    first, *others = [part if weight == 1 else weight * part for part, weight in parts]
    for other in others:
        first = first + other
    return first


# Global numbers are tensors, which a GPU may compute with unseen.  Where loops on the CPU step all
# there is, an operator of torch's takes longer than the whole step of a small tensor: there they
# are NumPy's.


def parts_of_sums(
    leaves: dict[Compiled, float],
    numbers: dict[str, torch.Tensor],
    scale: torch.Tensor | None,
    alone: bool,
) -> tuple[Any, ...]:
    """What compiled leaves, by their weights, add to the sums of the round.

    ``alone``: nobody else adds anything.
    """
    if not leaves:
        return ()
    parts = weighed([(leaf.begin(numbers, scale), weight) for leaf, weight in leaves.items()])
    if alone and isinstance(parts, np.ndarray):
        return tuple(parts)
    return tuple(torch.as_tensor(parts).unbind())


def counts(leaves: Sequence[Compiled], sums: Sequence[Any], found_inf: torch.Tensor | None) -> Any:
    """`paroli.core.inplace.counts`: on a GPU in one launch, where it steps leaves by kernels."""
    if not any(isinstance(number, torch.Tensor) for number in sums):
        off = None if found_inf is None else number_of(found_inf)
        return inplace.counts(NUMPY.xp, sums, off)
    device = next(number.device for number in sums if isinstance(number, torch.Tensor))
    sums = [torch.as_tensor(number).to(device) for number in sums]
    called_off = None if found_inf is None else found_inf.to(device).reshape(())
    if any(isinstance(leaf, KernelLeaf) for leaf in leaves):
        return triton.counts(sums, called_off)
    return inplace.counts(NAMESPACE, sums, called_off)


def counted(
    leaves: Sequence[Compiled], rounds: torch.Tensor, average: Average | None, finite: Any
) -> Count:
    """`paroli.core.inplace.counted`, likewise; ``rounds`` is counted up."""
    if not isinstance(finite, torch.Tensor):
        if all(isinstance(leaf, NativeLeaf) for leaf in leaves):
            before = rounds.numpy()
            before[:], count = inplace.counted(NUMPY.xp, before, average, finite)
            return count
        finite = torch.as_tensor(finite)
    t, finite = rounds.reshape(()), finite.to(rounds.device)
    if any(isinstance(leaf, KernelLeaf) for leaf in leaves):
        t, count = triton.counted(t, average, finite)
    else:
        t, count = inplace.counted(NAMESPACE, t, average, finite)
    rounds.copy_(t.reshape(1))
    return count


def in_tensors(count: Count) -> Count:
    """The same, for torch's operators."""
    if isinstance(count.finite, torch.Tensor):
        return count
    finite, *rest = (None if x is None else torch.as_tensor(x).reshape(()) for x in count)
    return Count(finite, *rest)


def write_numbers(kept: dict[str, torch.Tensor], new: dict[str, Any]) -> None:
    """Keep new global numbers."""
    for name, value in new.items():
        if isinstance(value, torch.Tensor):
            kept[name].copy_(value.reshape(1))
        else:
            kept[name].numpy()[:] = value


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
        self.place = {name: k for k, name in enumerate(code.inputs)}
        self.addresses = (self.table.ctypes.data, self.parts, self.inputs.ctypes.data)
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

    def finish(self, decay: torch.Tensor | None) -> tuple[float, dict[str, Any]]:
        if not self.counts:
            return 0.0, {}
        if decay is not None:
            self._given(decay=number_of(decay))
        (squares,), numbers = self._run(self.code.last, 1)
        self.memory.held = []
        torch.autograd.graph.increment_version(self.leaf.params)
        return float(squares), dict(zip(self.code.names, numbers, strict=True))

    def _point_out(self) -> None:
        """Say where gradients and points lie in this round."""
        steps = self.offset * self.memory.dtype.itemsize
        for column, where in enumerate(self.memory.addresses()):
            self.table[:, column] = np.array(where, dtype=np.int64)[self.tensor] + steps

    def _given(self, **values: float) -> None:
        """Numbers that the loops need, by their names."""
        for name, value in values.items():
            if name in self.place:
                self.inputs[self.place[name]] = value

    def _run(self, which: tuple[Any, Any], sums: int) -> tuple[np.ndarray, np.ndarray]:
        """Run a loop over all rows, in as many threads as torch would; sums, and other numbers."""
        rows = len(self.table)
        threads = max(1, min(torch.get_num_threads(), rows, self.size // WORTH_A_THREAD))
        found, numbers = np.empty((rows, sums)), np.empty(len(self.code.names))
        which[int(self.near)](
            rows,
            threads,
            *self.addresses,
            found.ctypes.data,
            numbers.ctypes.data,
        )
        return found.sum(0), numbers


def near(bound: float) -> bool:
    """Whether gradients are moderate enough for the quicker loops."""
    return bound <= NEAR_BOUND


def number_of(x: Any) -> float:
    """A global number on the CPU as Python's own, without an operator."""
    if isinstance(x, torch.Tensor):
        x = x.detach().numpy()
    return x.item() if isinstance(x, np.ndarray) else float(x)


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
