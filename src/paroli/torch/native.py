"""Steps on the CPU in compiled loops over memory (`paroli.native.step`), wherever they can.

A `Leaf` that lies in memory as the loops want it is stepped by them, all others by torch's
operators: the same formulas, the same numbers up to rounding.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch

from paroli.core.learner import Learner
from paroli.native.build import NoCompilerError, load
from paroli.native.step import COLUMNS, NEAR_BOUND, STORED, Form, Loops, loops
from paroli.torch.layout import Layout
from paroli.torch.leaves import LAG, LOST, Leaf, local, local_gradient, order_of
from paroli.torch.rows import Rows

ROW = 1 << 15
"""Entries of a row of the table, at most: what one processor does at a time."""
WORTH_A_THREAD = 1 << 17
"""Entries, at least, for another thread to be woken."""


class NativeLeaf:
    """A leaf whose rounds are played by compiled loops.

    Args:
        leaf: as it lies in memory now.
        code: its loops.
    """

    def __init__(self, leaf: Leaf, code: Loops) -> None:
        self.leaf = leaf
        self.code = code
        points = [local(p) for p in leaf.params]
        self.dtype = points[0].dtype
        self.plain = [point is p for p, point in zip(leaf.params, points, strict=True)]
        counts = np.array([point.numel() for point in points], dtype=np.int64)
        begins = np.concatenate([[0], np.cumsum(counts)[:-1]]) if len(counts) else counts
        tensor: list[int] = []
        offset: list[int] = []
        for k, count in enumerate(counts.tolist()):
            starts = range(0, count, ROW)
            tensor.extend([k] * len(starts))
            offset.extend(starts)
        self.tensor = np.array(tensor, dtype=np.int64)
        self.offset = np.array(offset, dtype=np.int64)
        self.table = np.zeros((len(tensor), COLUMNS), dtype=np.int64)
        self.table[:, 2] = begins[self.tensor] + self.offset if tensor else 0
        self.table[:, 3] = np.minimum(counts[self.tensor] - self.offset, ROW) if tensor else 0
        self.size = int(counts.sum())
        self.arrays = [leaf.storage[name] for name in code.arrays]
        self.parts = (ctypes.c_void_p * len(self.arrays))(
            *(array.data_ptr() for array in self.arrays)
        )
        self.inputs = np.zeros(len(code.inputs))
        self.held: list[torch.Tensor] = []

    def point_out(self) -> None:
        """Say where gradients and points lie in this round."""
        self.held = []
        gradients, points = [], []
        for p, plain in zip(self.leaf.params, self.plain, strict=True):
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
        steps = self.offset * self.dtype.itemsize
        self.table[:, 0] = np.array(gradients, dtype=np.int64)[self.tensor] + steps
        self.table[:, 1] = np.array(points, dtype=np.int64)[self.tensor] + steps

    def _arranged(self, p: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
        """The gradient as a tensor in the order of the point's memory."""
        g = local_gradient(p)
        if g.stride() != point.stride() or g.dtype != self.dtype:
            g = torch.empty_like(point).copy_(g)
        self.held.append(g)  # until the round is over
        return g

    def run(self, which: tuple[Any, Any], near: bool, out: int) -> np.ndarray:
        """Run a loop over all rows, in as many threads as torch would; the sums it takes."""
        function = which[int(near)]
        rows = len(self.table)
        threads = max(1, min(torch.get_num_threads(), rows, self.size // WORTH_A_THREAD))
        found = np.zeros((threads, out))
        ends = np.searchsorted(
            np.cumsum(self.table[:, 3]), self.size * np.arange(1, threads) / threads
        ).tolist()
        bounds = [0, *ends, rows]

        def part(k: int) -> None:
            table = self.table[bounds[k] : bounds[k + 1]]
            function(
                len(table),
                table.ctypes.data,
                self.parts,
                self.inputs.ctypes.data,
                found[k].ctypes.data,
            )

        others = [_threads().submit(part, k) for k in range(1, threads)]
        part(0)
        for other in others:
            other.result()
        return found

    def sums(self, near: bool) -> np.ndarray:
        """This rank's parts of the sums of the round."""
        total: np.ndarray = self.run(self.code.first, near, self.code.sums).sum(0)
        return total

    def squares(self, near: bool) -> float:
        """The sum of the squares of the increments."""
        return float(self.run(self.code.measure, near, 1).sum())

    def given(self, **values: float) -> None:
        """Numbers that the loops need, by their names."""
        for name, value in values.items():
            if name in self.code.inputs:
                self.inputs[self.code.inputs.index(name)] = value

    def finish(self, near: bool, names: int) -> tuple[float, np.ndarray]:
        """Change everything; the sum of squares of the increments, and the new global numbers."""
        found = self.run(self.code.last, near, 1 + names)
        self.held = []
        torch.autograd.graph.increment_version(self.leaf.params)
        return float(found[:, 0].sum()), found[0, 1:]


def near(bound: float) -> bool:
    """Whether gradients are moderate enough for the quicker loops."""
    return bound <= NEAR_BOUND


def number_of(x: torch.Tensor | float) -> float:
    """A global number on the CPU as Python's own, without an operator."""
    return float(x.detach().numpy().reshape(())) if isinstance(x, torch.Tensor) else float(x)


def native_leaf(leaf: Leaf, learner: Learner, layout: Layout, scaled: bool) -> NativeLeaf | None:
    """The compiled form of a leaf; None: it has to be stepped by torch's operators."""
    first = leaf.params[0]
    key = (local(first).dtype, leaf.group["maximize"], scaled)
    if leaf.native is None or leaf.native[0] != key:
        leaf.native = (key, _made(leaf, learner, layout, scaled))
    made: NativeLeaf | None = leaf.native[1]
    return made


def _made(leaf: Leaf, learner: Learner, layout: Layout, scaled: bool) -> NativeLeaf | None:
    if isinstance(leaf, Rows) or not _lies_well(leaf) or missing() is not None:
        return None
    try:
        code = loops(form_of(leaf, learner, layout, scaled), layout)
    except NoCompilerError:  # one that has no float16, say
        return None
    return None if code is None else NativeLeaf(leaf, code)


def form_of(leaf: Leaf, learner: Learner, layout: Layout, scaled: bool) -> Form:
    """All that decides what a leaf's loops look like; ``scaled``: gradients come multiplied."""
    dtype = local(leaf.params[0]).dtype
    kept = {name: _name(array.dtype) for name, array in leaf.storage.items()}
    keeping = leaf.keeping
    return Form(
        learner,
        tuple(layout.numbers),
        tuple((name, kept[name]) for name in layout.parts),
        _name(dtype),
        _name(dtype),
        _name(leaf.computed_in),
        kept.get(LAG),
        kept.get(LOST),
        tuple(sorted(keeping.forms.items())),
        keeping.lag_form,
        keeping.by_chance,
        leaf.group["maximize"],
        scaled,
    )


def _lies_well(leaf: Leaf) -> bool:
    """Whether points and state lie on the CPU, dense and in the same order."""
    points = [local(p) for p in leaf.params]
    kinds = (torch.Tensor, torch.nn.Parameter)
    for point in points:
        if (
            type(point) not in kinds
            or point.device.type != "cpu"
            or _name(point.dtype) not in STORED
        ):
            return False
        if not point.is_contiguous() and order_of(point) is None:
            return False
    if len(points) > 1:
        return all(array.is_contiguous() for array in leaf.storage.values())
    return all(array.stride() == points[0].stride() for array in leaf.storage.values())


def why_not(leaf: Leaf) -> str:
    """What keeps a leaf out of compiled loops."""
    if isinstance(leaf, Rows):
        return "some rows of it are stepped at a time"
    if not _lies_well(leaf):
        return "it is not on the CPU, or not dense in memory"
    return missing() or "the sums of this inner learner's rounds are not of one pass"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@cache
def missing() -> str | None:
    """Why nothing can be compiled here; None: it can."""
    try:
        load("nothing", "void nothing(void) {}")
    except NoCompilerError as error:
        return str(error)
    return None


def _threads() -> ThreadPoolExecutor:
    """Threads beside the caller's own; a forked process has none of its parent's."""
    return _pool_of(os.getpid(), torch.get_num_threads())


@lru_cache(maxsize=1)
def _pool_of(process: int, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, threads - 1), thread_name_prefix="paroli")
