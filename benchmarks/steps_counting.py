"""What a step costs in bytes, counted: of state, moved, and held for a while."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from paroli.native.step import source
from paroli.torch import RecursiveOptimizer
from paroli.torch.leaves import LAG, LOST
from paroli.torch.native import form_of

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
NEVER_READ = ("copy_", "fill_", "zero_", "_foreach_copy_", "_foreach_zero_")
"""Operators that write to an argument without a look at what was there."""
LIKE = ("zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "new_zeros", "new_full")
"""Those that look at the form of an argument alone."""


def state_bytes(optimizer: Any, parameters: Iterable[torch.Tensor]) -> int:
    """Bytes of all tensors that an optimizer keeps beside the parameters and their gradients."""
    others = {
        x.untyped_storage().data_ptr()
        for p in parameters
        for x in (p, p.grad)
        if isinstance(x, torch.Tensor)
    }
    kept = {
        x.untyped_storage().data_ptr(): x.untyped_storage().nbytes()
        for x in _tensors(vars(optimizer), set())
        if x.untyped_storage().data_ptr() not in others
    }
    return sum(kept.values())


def _tensors(thing: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _tensors(key, seen)
            yield from _tensors(value, seen)
    elif isinstance(thing, (list, tuple, set)):
        for value in thing:
            yield from _tensors(value, seen)


class Traffic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operators that are called, and the bytes that they read and write.

    Each operator reads its arguments once and writes its results once: what they would move if
    nothing stayed in a cache.  Views move nothing.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators = 0
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self.operators += 1
        schema, name = func._schema, func._schema.name.removeprefix("aten::")
        changes = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
        is_view = any(r.alias_info and not r.alias_info.is_write for r in schema.returns)
        if is_view or name.startswith(("empty", "new_empty")):
            return result
        given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | kwargs
        for argument, written in zip(schema.arguments, changes, strict=True):
            size = _bytes(given.get(argument.name))
            unread = name in LIKE or argument.name == "out" or (written and name in NEVER_READ)
            if argument.name == "grads" and given.get("grad_scale") is None:
                written = False  # fused optimizers write them only to unscale them
            self.bytes += size * (written + (not unread))
        if not any(changes):
            self.bytes += _bytes(result)
        return result


def _bytes(value: Any) -> int:
    """Of the tensors in a value; of one that is expanded, what there is of it in memory."""
    return sum(
        min(x.numel() * x.element_size(), x.untyped_storage().nbytes())
        for x in tree_iter(value)
        if isinstance(x, torch.Tensor)
    )


class Array(NamedTuple):
    """What the compiled loops do with one array."""

    name: str
    dtype: str
    first: int
    """Bytes an entry that the first loop moves: the one that takes the sums."""
    read: int
    written: int
    """By the last loop, which changes everything."""

    @property
    def moved(self) -> int:
        """In a step without weight decay, which would need a third loop."""
        return self.first + self.read + self.written


def arrays(optimizer: RecursiveOptimizer) -> list[Array]:
    """What the two loops of a round move, wherever they run: their source is read, not run."""
    leaf = next(iter(optimizer._leaf_of.values()))
    form = form_of(leaf, optimizer.learner, optimizer.layout, False)
    code = source(form, optimizer.layout)[0]
    kept = dict(form.parts) | {LAG: form.lag, LOST: form.lost}
    dtypes = {"gradient": form.gradient, "point": form.point} | kept
    first, last = (_touched(code, name) for name in ("first", "last"))
    return [
        Array(name, dtype, *(BYTES[dtype] * (name in some) for some in (first[0], *last)))
        for name, dtype in dtypes.items()
        if dtype is not None
    ]


def _touched(code: str, loop: str) -> tuple[set[str], set[str]]:
    """Names of the arrays that a loop reads, and of those that it writes."""
    (text,) = re.findall(rf"^void {loop}\(.*?^}}$", code, re.MULTILINE | re.DOTALL)
    lines = text.splitlines()
    written = {found[1] for line in lines if (found := re.match(r"s_(\w+)\[i\] = ", line))}
    values = "\n".join(re.sub(r"^s_\w+\[i\] = ", "", line) for line in lines)
    return set(re.findall(r"s_(\w+)\[i\]", values)), written


class Moved(NamedTuple):
    """What moves in a step."""

    operators: int
    """Calls from Python into torch."""
    bytes: int
    arrays: list[Array] | None
    """How, if loops of our own do it."""


def moved(optimizer: Any, parameters: Sequence[torch.Tensor]) -> Moved:
    """Count one step."""
    with Traffic() as traffic:
        optimizer.step()
    entries = sum(p.numel() for p in parameters)
    if traffic.bytes >= entries or not isinstance(optimizer, RecursiveOptimizer):
        return Moved(traffic.operators, traffic.bytes, None)
    loops = arrays(optimizer)  # torch's operators have not even seen the gradients
    beside = entries * sum(array.moved for array in loops)
    return Moved(traffic.operators, traffic.bytes + beside, loops)


def transient_bytes(optimizer: Any, device: torch.device) -> int:
    """The most memory that a step holds beside what it found."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        optimizer.step()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        optimizer.step()
    now = most = 0
    kineto: Any = profiled.profiler
    events = [e for e in kineto.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most
