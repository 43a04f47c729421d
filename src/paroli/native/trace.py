"""The core's functions, run on symbols: what remains is a straight line of operations.

A brick is a pure function of arrays over an explicit namespace.  Handed `NAMESPACE` and `Node`s it
computes nothing, but leaves behind which operations make which result from which input.  That is
enough to write it again in any language, and no formula is typed twice.

Every node is of a kind: ``leaf``, one entry of an array; ``number``, a global number in double
precision; ``integer``, 32 bits that wrap around; ``truth``.  What does not depend on an entry is
`uniform`: it is computed once before a loop, not in it.

>>> x, a = entry("x"), number("a")
>>> y = NAMESPACE.sqrt(x * x + NAMESPACE.astype(a, x.dtype))
>>> [node.op for node in in_order([y])]
['input', 'multiply', 'input', 'to_leaf', 'add', 'sqrt']
>>> [node.op for node in in_order([y]) if uniform(node)]
['input', 'to_leaf']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

import numpy as np

from paroli.core.space import Array, Space

Kind: TypeAlias = Literal["leaf", "number", "integer", "truth"]
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


class UntraceableError(TypeError):
    """What a straight line of operations cannot say."""


class Node:
    """The result of one operation.

    Args:
        op: its name; "input" and "constant" are where it begins.
        args: what it is made of.
        kind: see above.
        dtype: of the array that a leaf's entry belongs to, or of a number.
        label: the name of an input, the value of a constant, and of the precision for "nearest".
    """

    __slots__ = ("args", "dtype", "kind", "label", "op", "uniform")
    __hash__ = object.__hash__

    def __init__(
        self,
        op: str,
        args: Sequence[Node],
        kind: Kind,
        dtype: Any = np.float64,
        label: Any = None,
        *,
        varies: bool = False,
    ) -> None:
        self.op = op
        self.args = tuple(args)
        self.kind = kind
        self.dtype = np.dtype(dtype)
        self.label = label
        self.uniform: bool = not varies and all(arg.uniform for arg in args)

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.args or [self.label]))})"

    # Arithmetic -----------------------------------------------------------------------------

    def __add__(self, other: Any) -> Node:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Node:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Node:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Node:
        return _binary("subtract", other, self)

    def __mul__(self, other: Any) -> Node:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Node:
        return _binary("multiply", other, self)

    def __truediv__(self, other: Any) -> Node:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Node:
        return _binary("divide", other, self)

    def __neg__(self) -> Node:
        return Node("negative", (self,), self.kind, self.dtype)

    # Comparisons ----------------------------------------------------------------------------

    def __lt__(self, other: Any) -> Node:
        return _binary("less", self, other)

    def __le__(self, other: Any) -> Node:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Node:
        return _binary("greater", self, other)

    def __ge__(self, other: Any) -> Node:
        return _binary("greater_equal", self, other)

    def __eq__(self, other: object) -> Node:  # type: ignore[override]
        return _binary("equal", self, other)

    def __ne__(self, other: object) -> Node:  # type: ignore[override]
        return _binary("not_equal", self, other)

    # Bits -----------------------------------------------------------------------------------

    def __and__(self, other: Any) -> Node:
        return _binary("and", self, other)

    def __or__(self, other: Any) -> Node:
        return _binary("or", self, other)

    def __xor__(self, other: Any) -> Node:
        return _binary("xor", self, other)

    def __rshift__(self, other: Any) -> Node:
        return _binary("shift_right", self, other)

    def __lshift__(self, other: Any) -> Node:
        return _binary("shift_left", self, other)

    def __invert__(self) -> Node:
        return Node("invert", (self,), self.kind, self.dtype)

    def __bool__(self) -> bool:
        raise UntraceableError("a decision that depends on data: use xp.where")


def entry(name: str, dtype: Any = np.float32) -> Node:
    """An input with a value for each entry."""
    return Node("input", (), "leaf", dtype, name, varies=True)


def number(name: str) -> Node:
    """A global number."""
    return Node("input", (), "number", np.float64, name)


def place(name: str) -> Node:
    """Which entry it is."""
    return Node("input", (), "integer", np.int32, name, varies=True)


def truth(name: str) -> Node:
    """A global yes or no."""
    return Node("input", (), "truth", np.bool_, name)


def uniform(node: Node) -> bool:
    """Whether it is the same for all entries."""
    return node.uniform


def in_order(results: Iterable[Node]) -> list[Node]:
    """All that the results are made of, each after what it is made of."""
    done: dict[int, Node] = {}  # by identity: nodes compare to nodes
    stack = [(node, False) for node in reversed(list(results))]
    while stack:
        node, ready = stack.pop()
        if ready:
            done.setdefault(id(node), node)
        elif id(node) not in done:
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args))
    return list(done.values())


def without_roots(results: Sequence[Node]) -> list[Node]:
    """The same, where no square leaves the float range: no root is taken of what is squared again.

    What is computed twice is one node, and a length is the root of a sum of squares.

    >>> x, y = entry("x"), entry("y")
    >>> length = NAMESPACE.hypot(NAMESPACE.hypot(NAMESPACE.sqrt(x), y), y)
    >>> without_roots([length])
    [sqrt(add(add(input('x'), multiply(input('y'), input('y'))), multiply(input('y'), input('y'))))]
    """
    made: dict[Any, Node] = {}
    new: dict[int, Node] = {}

    def node(op: str, args: Sequence[Node], like: Node) -> Node:
        label = like.label if op in ("input", "constant", "nearest") else None
        # A constant's type and sign count: 1 and True, 0.0 and -0.0 are equal.
        exact = (type(label), repr(label))
        key = (op, tuple(map(id, args)), like.kind, like.dtype, exact)
        if key not in made:
            varies = not like.uniform and not args
            made[key] = Node(op, args, like.kind, like.dtype, label, varies=varies)
        return made[key]

    def square(root: Node) -> Node:
        return root.args[0] if root.op == "sqrt" else node("multiply", (root, root), root)

    for old in in_order(results):
        args = [new[id(arg)] for arg in old.args]
        if old.op == "hypot":
            total = node("add", [square(arg) for arg in args], old)
            new[id(old)] = node("sqrt", (total,), old)
        elif old.op == "multiply" and args[0] is args[1]:
            new[id(old)] = square(args[0])
        else:
            new[id(old)] = node(old.op, args, old)
    return [new[id(result)] for result in results]


def shortest_length(results: Iterable[Node], least: Mapping[str, float]) -> float:
    """What no length in there falls below, as far as that is seen at once.

    Args:
        results: nodes.
        least: inputs that never fall below a number, and that number.

    >>> S, g = entry("S"), entry("g")
    >>> shortest_length([NAMESPACE.hypot(NAMESPACE.hypot(S, g), g)], {"S": 1e-4})
    0.0001
    """
    lows: dict[int, float] = {}
    for node in in_order(results):
        if node.op == "input":
            lows[id(node)] = least.get(node.label, 0.0)
        elif node.op in ("hypot", "maximum"):
            lows[id(node)] = max(lows[id(arg)] for arg in node.args)
        else:
            lows[id(node)] = 0.0
    return min((lows[id(node)] for node in in_order(results) if node.op == "hypot"), default=inf)


def _binary(op: str, a: Any, b: Any) -> Node:
    like = a if isinstance(a, Node) else b
    a, b = _node(a, like), _node(b, like)
    if a.kind != b.kind or a.dtype != b.dtype:
        raise UntraceableError(f"{op} of a {a.kind} ({a.dtype}) and a {b.kind} ({b.dtype})")
    if op in COMPARISONS:
        return Node(op, (a, b), "truth", np.bool_)
    return Node(op, (a, b), a.kind, a.dtype)


def _node(value: Any, like: Node) -> Node:
    if isinstance(value, Node):
        return value
    if isinstance(value, bool | np.bool_):
        return Node("constant", (), "truth", np.bool_, bool(value))
    return Node("constant", (), like.kind, like.dtype, value)


def _unary(op: str, kind: Kind | None = None, dtype: Any = None) -> Any:
    def made(x: Node) -> Node:
        return Node(op, (x,), kind or x.kind, x.dtype if dtype is None else dtype)

    return made


def _where(condition: Node, a: Any, b: Any) -> Any:
    if condition.op == "constant":
        return a if condition.label else b
    like = a if isinstance(a, Node) else b
    a, b = _node(a, like), _node(b, like)
    if a.kind != b.kind or a.dtype != b.dtype:
        raise UntraceableError(f"where of a {a.kind} ({a.dtype}) and a {b.kind} ({b.dtype})")
    return Node("where", (condition, a, b), a.kind, a.dtype)


def _clip(x: Node, low: Any, high: Any) -> Node:
    return _binary("minimum", _binary("maximum", x, low), high)


def _astype(x: Node, dtype: Any) -> Node:
    dtype = np.dtype(dtype)
    if x.kind == "number" and dtype != np.float64:
        return Node("to_leaf", (x,), "leaf", dtype)
    if x.kind == "number":
        return Node("to_leaf", (x,), "leaf", np.float64)
    raise UntraceableError(f"a {x.kind} as {dtype}")


def _refused(name: str) -> Any:
    def made(*args: Any, **settings: Any) -> Node:
        raise UntraceableError(f"{name} over all entries, in the middle of a round")

    return made


NAMESPACE = SimpleNamespace(
    abs=_unary("abs"),
    asarray=lambda value, dtype=None: Node("constant", (), "number", np.float64, float(value)),
    astype=_astype,
    bits=_unary("bits", "integer", np.int32),
    bounded=_clip,
    clip=_clip,
    exp=_unary("exp"),
    expm1=_unary("expm1"),
    finfo=np.finfo,
    floor=_unary("floor"),
    from_bits=_unary("from_bits", "leaf", np.float32),
    full_like=lambda x, value: _node(float(value), x),
    hypot=lambda a, b: _binary("hypot", a, b),
    integer=_unary("integer", "integer", np.int32),
    isfinite=_unary("isfinite", "truth", np.bool_),
    log=_unary("log"),
    log1p=_unary("log1p"),
    max=_refused("max"),
    maximum=lambda a, b: _binary("maximum", a, b),
    minimum=lambda a, b: _binary("minimum", a, b),
    nearest=lambda x, precision: Node("nearest", (x,), x.kind, x.dtype, precision),
    real=lambda bits, like: Node("real", (bits,), like.kind, like.dtype),
    sign=_unary("sign"),
    sqrt=_unary("sqrt"),
    sum=_refused("sum"),
    where=_where,
    zeros_like=lambda x: _node(0.0, x),
)
"""What the core calls, for nodes."""


class TraceSpace(Space):
    """Where symbols live: a total over all devices is an input of what comes after it.

    ``totalled`` are the sums of which totals were asked for, in that order; the totals themselves
    are the inputs "total_0", "total_1", …
    """

    def __init__(self) -> None:
        super().__init__(NAMESPACE, np.float64)
        self.totalled: list[Node] = []

    def number(self, value: float, like: Array) -> Array:
        return Node("constant", (), "number", np.float64, float(value))

    def cast(self, number: Array, like: Array) -> Array:
        return _astype(number, like.dtype)

    def sum(self, x: Array) -> Array:
        return Node("sum", (x,), "number")

    def max(self, x: Array) -> Array:
        raise UntraceableError("a maximum over all entries")

    def total(self, *numbers: Array) -> tuple[Array, ...]:
        first = len(self.totalled)
        self.totalled.extend(numbers)
        return tuple(number(f"total_{first + i}") for i in range(len(numbers)))


def summand(total: Node) -> Node:
    """What a sum adds up."""
    if total.op != "sum":
        raise UntraceableError(f"a total of {total.op}, not of a plain sum")
    return total.args[0]
