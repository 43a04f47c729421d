r"""One round of `paroli.core.inplace` as kernels for a GPU, traced from the core, in Triton.

Each program takes one row of a table: up to a block of entries of one tensor, so that a few
launches step any list of tensors.

* ``first`` leaves each row's part of the sums that a round needs before anything changes;
* ``scalars``, a single program, does what is the same for all entries, once, in double precision:
  it leaves the new global numbers, and what the other two want to know of it;
* ``measure`` leaves each row's part of the sum of squares of the increments (with weight decay);
* ``last`` changes everything, and measures too.  It takes the rows in the opposite order: what
  ``first`` has read last is still near.

The host looks at nothing: whether the round counts is an input like others, and where it does not,
everything stays.

Without a GPU they run in Triton's interpreter: ``TRITON_INTERPRET=1`` before Triton is imported.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from paroli.core.averaged import Average
from paroli.core.inplace import Layout, counted, counts
from paroli.native.build import written
from paroli.native.c import INFIX
from paroli.native.round import Form, Traced, traced
from paroli.native.trace import NAMESPACE, Node, UntraceableError, in_order, number, truth

COLUMNS = 4
"""Of the table of tensors: gradient, point, place of the first entry in the state, count."""
BLOCK = 1024
"""Entries of a row of the table, at most."""
WARPS = {"float32": 4, "float64": 8}
"""How many warps work on a row, by the precision of the arithmetic: no registers are spilled."""
ALIGNED_ENTRIES, ALIGNED_BYTES = 8, 16
"""Where all places are multiples of so many entries, and all addresses of so many bytes, memory is
read in the widest words there are."""
OPTIONS = {"enable_fp_fusion": False}
"""A product that is rounded once less would not cancel its equal."""

TYPES = {"number": "tl.float64", "integer": "tl.int32", "truth": "tl.int1"}
BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}
LATE = ("decay",)
"""Inputs that ``scalars`` does not wait for."""

PRELUDE = '''"""Kernels of a round; generated, and kept under a hash of this text."""

import triton
import triton.language as tl


@triton.jit
def hypot_float32(a, b):
    # Scaled by the power of two of the larger one, so that no square leaves the range of floats.
    bits = tl.maximum(tl.abs(a), tl.abs(b)).to(tl.int32, bitcast=True) & 0x7F800000
    exponent = tl.minimum(tl.maximum(bits, 1 << 23), 253 << 23)
    down = ((254 << 23) - exponent).to(tl.float32, bitcast=True)
    x = a * down
    y = b * down
    return tl.sqrt_rn(x * x + y * y) * exponent.to(tl.float32, bitcast=True)


@triton.jit
def hypot_float64(a, b):
    x = tl.abs(a)
    y = tl.abs(b)
    m = tl.maximum(x, y)
    q = tl.minimum(x, y) / tl.where(m > 0, m, 1)
    return m * tl.sqrt(1 + q * q)


@triton.jit
def nearest_bfloat16(x):
    # Ties to even; the same in the interpreter.
    bits = x.to(tl.float32).to(tl.int32, bitcast=True)
    up = (bits + 0x7FFF + ((bits >> 16) & 1)) & -65536
    return tl.where(x == x, up.to(tl.float32, bitcast=True).to(x.dtype), x)


@triton.jit
def log1p(x):
    # The error of 1 + x is that of its logarithm's argument too: they cancel.
    u = 1 + x
    off = tl.where(u == 1, 1, u - 1)
    return tl.where(u == 1, x, tl.log(u) * (x / off))


@triton.jit
def expm1(x):
    u = tl.exp(x)
    log = tl.log(tl.where(u > 0, u, 1))
    near = (u - 1) * (x / tl.where(log == 0, 1, log))
    return tl.where(u == 1, x, tl.where(tl.abs(x) < 1, near, u - 1))


@triton.jit
def row_of(tensors, tensor_of, offset_of, row, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """Addresses of a row's tensors, offset and place of its first entry; which lanes are in it."""
    tensor = tensors + 4 * tl.load(tensor_of + row)
    offset = tl.load(offset_of + row)
    place = tl.load(tensor + 2) + offset
    left = tl.load(tensor + 3) - offset
    if ALIGNED:
        offset = tl.multiple_of(offset, 8)
        place = tl.multiple_of(place, 8)
        left = tl.multiple_of(left, 8)
    inside = tl.arange(0, BLOCK) < left
    return tl.load(tensor), tl.load(tensor + 1), offset, place, inside


@triton.jit
def pointers(address, offset, TYPE: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    pointer = address.to(tl.pointer_type(TYPE))
    if ALIGNED:
        pointer = tl.multiple_of(pointer, 16)
    return pointer + offset + tl.arange(0, BLOCK)
'''


Made: TypeAlias = tuple[str, str, tuple[str, ...], int]
"""A kernel's name, its text, the names of the numbers it takes, its bytes for an entry."""


class Source(NamedTuple):
    """A module of kernels as text, and what they take and give."""

    text: str
    arrays: tuple[str, ...]
    """Names of the arrays of the state, in the order in which kernels take them."""
    takes: Mapping[str, tuple[str, ...]]
    """For each kernel the names of the numbers that it takes."""
    sums: int
    """How many totals the first one prepares."""
    names: tuple[str, ...]
    """Of the global numbers, in the order in which ``scalars`` leaves them."""
    uniforms: int
    """How many other numbers it leaves."""
    block: int
    """Entries of a row of the table, at most."""
    warps: int
    """How many work on a row."""
    traffic: Mapping[str, int]
    """How many bytes each kernel reads and writes for an entry."""


class Kernels(NamedTuple):
    """A module of kernels, loaded."""

    module: ModuleType
    source: Source


class Cut:
    """Results out of which all that is the same for all entries has been cut.

    Where something varying met it, there is an input "uniform_0", "uniform_1", …: what stood there
    is in ``nodes``.  Of the inputs in `LATE`, and what is made of them, nothing is cut.

    >>> from paroli.native.trace import NAMESPACE, entry, number
    >>> cut = Cut()
    >>> cut.of([entry("x") * NAMESPACE.astype(number("a") * number("b"), np.float32)])
    [multiply(input('x'), input('uniform_0'))]
    >>> cut.nodes
    [to_leaf(multiply(input('a'), input('b')))]
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._stand_ins: dict[int, Node] = {}

    def of(self, results: Sequence[Node]) -> list[Node]:
        """The same results; what several calls have cut out is in ``nodes`` once."""
        late: set[int] = set()
        made: dict[int, Node] = {}
        cut: dict[int, Node] = {}
        for node in in_order(results):
            if (node.op == "input" and node.label in LATE) or any(
                id(arg) in late for arg in node.args
            ):
                late.add(id(node))
            if node.uniform and node.op != "constant" and id(node) not in late:
                stand_in = self._stand_ins.setdefault(
                    id(node), Node("input", (), node.kind, node.dtype)
                )
                made[id(node)], cut[id(stand_in)] = stand_in, node
            elif node.args:
                args = [made[id(arg)] for arg in node.args]
                made[id(node)] = Node(
                    node.op, args, node.kind, node.dtype, node.label, varies=not node.uniform
                )
            else:
                made[id(node)] = node
        found = [made[id(node)] for node in results]
        for stand_in in in_order(found):
            if id(stand_in) in cut and stand_in.label is None:
                stand_in.label = f"uniform_{len(self.nodes)}"
                self.nodes.append(cut[id(stand_in)])
        return found


def source(form: Form, layout: Layout) -> Source:
    """The kernels of a form."""
    round_ = traced(form, layout, looks=True)
    cut = Cut()
    squares, *changed = cut.of([round_.squares, *round_.results.values()])
    results = dict(zip(round_.results, changed, strict=True))
    (measured,) = cut.of([round_.squares])
    made = [
        _over_rows("first", form, round_.sums, {}),
        _scalars(round_, cut.nodes),
        _over_rows("measure", form, [measured], {}),
        _over_rows("last", form, [squares], results),
    ]
    return Source(
        "\n\n".join((PRELUDE, *(text for _, text, _, _ in made))),
        tuple(form.stored),
        {name: takes for name, _, takes, _ in made},
        len(round_.sums),
        form.names,
        len(cut.nodes),
        BLOCK,
        WARPS[form.computed],
        {name: traffic for name, _, _, traffic in made},
    )


def _over_rows(name: str, form: Form, added: Sequence[Node], results: Mapping[str, Node]) -> Made:
    """A kernel that adds up some nodes over a row, and writes others."""
    arrays = {"gradient": form.gradient, "point": form.point} | form.stored
    wide = f"tl.{form.computed}"
    nodes = in_order([*added, *results.values()])
    read = {node.label for node in nodes if node.op == "input"}
    pointers, values = {}, {"i": "place.to(tl.int32) + tl.arange(0, BLOCK)"}
    for k, (part, precision) in enumerate(arrays.items()):
        if part in read or part in results:
            if part in ("gradient", "point"):
                pointers[part] = f"pointers({part}, offset, tl.{precision}, ALIGNED, BLOCK)"
            else:
                pointers[part] = f"part_{k - 2} + place + tl.arange(0, BLOCK)"
            values[part] = f"tl.load(at_{k}, mask=inside, other=0.0).to({wide})"
    takes = tuple(sorted(str(label) for label in read if label not in values))
    uniforms = [label for label in takes if label.startswith("uniform_")]
    numbers = tuple(label for label in takes if label not in uniforms)
    values |= {label: f"tl.load(uniforms + {label.removeprefix('uniform_')})" for label in uniforms}
    values |= {label: f"tl.load(number_{k})" for k, label in enumerate(numbers)}
    lines, names = _straight(nodes, values)
    row = "start + tl.program_id(0)"
    if name == "last":
        row = "start + tl.num_programs(0) - 1 - tl.program_id(0)"
    body = [
        f"row = {row}",
        "gradient, point, offset, place, inside = "
        "row_of(tensors, tensor_of, offset_of, row, ALIGNED, BLOCK)",
        *(f"at_{k} = {pointers[part]}" for k, part in enumerate(arrays) if part in pointers),
        *lines,
    ]
    for k, part in enumerate(arrays):
        if part in results:
            value = f"{names[id(results[part])]}.to(tl.{arrays[part]})"
            body.append(f"tl.store(at_{k}, {value}, mask=inside)")
    in_row = "tl.float64" if name == "first" else wide  # what it measures may be less exact
    for k, node in enumerate(added):
        summand = f"tl.where(inside, {names[id(node)]}, 0.0).to({in_row})"
        total = f"tl.sum({summand}).to(tl.float64)"
        body.append(f"tl.store(sums + row * {len(added)} + {k}, {total})")
    taken = [
        "start", "tensors", "tensor_of", "offset_of", "sums", "uniforms",
        *(f"part_{k}" for k in range(len(form.stored))),
        *(f"number_{k}" for k in range(len(numbers))),
        "ALIGNED: tl.constexpr", "BLOCK: tl.constexpr",
    ]  # fmt: skip
    anyhow = [f"number_{k}" for k in range(len(numbers))]
    times = {part: (part in read) + (part in results) for part in arrays}
    traffic = sum(BYTES[arrays[part]] * count for part, count in times.items())
    return name, _kernel(name, taken, body, anyhow, ["start"]), numbers, traffic


def _scalars(round_: Traced, uniforms: Sequence[Node]) -> Made:
    """The kernel of what is the same for all entries."""
    new = list(round_.numbers.values())
    nodes = in_order([*uniforms, *new])
    takes = tuple(sorted(str(node.label) for node in nodes if node.op == "input"))
    values = {label: f"tl.load(number_{k})" for k, label in enumerate(takes)}
    lines, names = _straight(nodes, values)
    body = [
        *lines,
        *(
            f"tl.store({where} + {k}, {names[id(node)]}.to(tl.float64))"
            for where, some in (("uniforms", uniforms), ("numbers", new))
            for k, node in enumerate(some)
        ),
    ]
    taken = [f"number_{k}" for k in range(len(takes))]
    return "scalars", _kernel("scalars", ["uniforms", "numbers", *taken], body, taken, []), takes, 0


def _kernel(
    name: str, taken: Sequence[str], body: Sequence[str], anyhow: Sequence[str], any: Sequence[str]
) -> str:
    """A kernel's text; ``anyhow`` is addresses, and ``any`` numbers, that it is not made for."""
    return "\n".join(
        [
            f"@triton.jit(do_not_specialize={[*any]}, do_not_specialize_on_alignment={[*anyhow]})",
            f"def {name}({', '.join(taken)}):",
            *(f"    {line}" for line in body),
            "",
        ]
    )


def _straight(nodes: Sequence[Node], inputs: Mapping[str, str]) -> tuple[list[str], dict[int, str]]:
    """Nodes as a straight line of assignments, and what each is called."""
    lines: list[str] = []
    names: dict[int, str] = {}
    for i, node in enumerate(nodes):
        names[id(node)] = f"v{i}"
        if node.op == "input":
            value = inputs[node.label]
            if node.uniform:
                value += " != 0" if node.kind == "truth" else f".to({type_of(node)})"
        else:
            value = expression(node, [names[id(arg)] for arg in node.args])
        lines.append(f"v{i} = {value}")
    return lines, names


def type_of(node: Node) -> str:
    """The Triton type of a node's value."""
    return f"tl.{node.dtype.name}" if node.kind == "leaf" else TYPES[node.kind]


def expression(node: Node, args: Sequence[str]) -> str:
    """An operation on names, in Triton."""
    kind = type_of(node)
    of = type_of(node.args[0]) if node.args else kind
    a, b = args[0] if args else "", args[1] if len(args) > 1 else ""
    if node.op == "constant":
        return literal(node)
    if node.op == "divide" and kind == "tl.float32":
        divisor = node.args[1]
        if divisor.op == "constant" and abs(math.frexp(divisor.label)[0]) == 0.5:
            return f"{a} * {1 / divisor.label!r}"  # the same, for a power of two
        return f"tl.div_rn({a}, {b})"  # the quick one is off by a bit or two
    if node.op in INFIX:
        return f"{a} {INFIX[node.op]} {b}"
    if node.op in ("exp", "log", "log1p", "expm1"):  # the quick ones of float32 are far off
        call = node.op if node.op in ("log1p", "expm1") else f"tl.{node.op}"
        return f"{call}({a}.to(tl.float64)).to({kind})"
    others = {
        "abs": f"tl.abs({a})",
        "bits": f"{a}.to(tl.float32).to(tl.int32, bitcast=True)",
        "floor": f"tl.floor({a})",
        "from_bits": f"{a}.to(tl.float32, bitcast=True)",
        "hypot": f"hypot_{of.removeprefix('tl.')}({a}, {b})",
        "integer": f"{a}.to(tl.int32)",
        "invert": f"~{a}",
        "isfinite": f"({a} - {a}) == 0",
        "maximum": f"tl.maximum({a}, {b})",
        "minimum": f"tl.minimum({a}, {b})",
        "nearest": f"{a}.to(tl.{node.label}).to({kind})",
        "negative": f"-{a}",
        "real": f"{a}.to({kind})",
        "sign": f"({a} > 0).to({kind}) - ({a} < 0).to({kind})",
        "sqrt": f"tl.sqrt_rn({a})" if kind == "tl.float32" else f"tl.sqrt({a})",
        "to_leaf": f"{a}.to({kind})",
        "where": f"tl.where({a}, {b}, {args[-1]})",
    }
    if node.op == "nearest" and node.label == "bfloat16":
        return f"nearest_bfloat16({a})"
    if node.op not in others:
        raise UntraceableError(f"{node.op} in the middle of a kernel")
    return others[node.op]


def literal(node: Node) -> str:
    """A constant, to the bit."""
    kind, value = type_of(node), node.label
    if node.kind in ("truth", "integer"):
        return f"tl.full((), {int(value)}, {kind})"
    value = float(np.float32(value)) if kind == "tl.float32" else float(value)
    text = repr(value) if np.isfinite(value) else f'float("{value}")'
    return f"tl.full((), {text}, {kind})"


class Scalar(NamedTuple):
    """A kernel of a single program: some numbers from others."""

    kernel: Any
    takes: tuple[str, ...]
    """Names of the numbers that it takes, after the places of what it leaves."""


def scalar(results: Sequence[Node]) -> Scalar:
    """What makes such results, each a number, an integer or a truth."""
    nodes = in_order(results)
    takes = tuple(sorted(str(node.label) for node in nodes if node.op == "input"))
    lines, names = _straight(nodes, {n: f"tl.load(number_{k})" for k, n in enumerate(takes)})
    stores = [f"tl.store(result_{k}, {names[id(node)]})" for k, node in enumerate(results)]
    places = [f"result_{k}" for k in range(len(results))]
    numbers = [f"number_{k}" for k in range(len(takes))]
    taken = [*places, *numbers]
    text = _kernel("scalar", taken, [*lines, *stores], taken, [])
    return Scalar(loaded(f"{PRELUDE}\n\n{text}").scalar, takes)


@cache
def counts_kernel(sums: int, called_off: bool) -> Scalar:
    """`paroli.core.inplace.counts` of so many sums; it leaves ``finite``."""
    numbers = [number(f"sum_{k}") for k in range(sums)]
    return scalar([counts(NAMESPACE, numbers, number("found_inf") if called_off else None)])


@cache
def counted_kernel(average: Average | None) -> Scalar | None:
    """`paroli.core.inplace.counted`; it leaves the number of rounds, a seed and a share, if any.

    None: somebody's own kind of average cannot be traced.
    """
    try:
        t, count = counted(NAMESPACE, number("t"), average, truth("finite"))
    except TypeError:
        return None
    shares = [] if count.share is None else [count.share]
    return scalar([t, count.seed, *shares])


@cache
def kernels(form: Form, layout: Layout) -> Kernels | None:
    """The kernels of a form; None: this learner's rounds are no straight lines."""
    try:
        made = source(form, layout)
    except UntraceableError:
        return None
    return Kernels(loaded(made.text), made)


def loaded(text: str) -> ModuleType:
    """A module of that text, which Triton wants to read in a file."""
    path = written("round", ".py", text)
    name = f"paroli_{path.stem.replace('-', '_')}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]
