r"""Traced functions as C: one declaration for each operation; loops are left to who knows the data.

>>> from paroli.native.trace import NAMESPACE, entry, number
>>> x, a = entry("x"), number("a")
>>> body = Body([NAMESPACE.maximum(x, 0.5) * NAMESPACE.astype(a * a, x.dtype)],
...             {"x": "x[i]", "a": "a"})
>>> print(*body.before, *body.inside, *body.results, sep="\n")
const double _4 = a * a;
const float _5 = (float)_4;
const float _0 = x[i];
const float _2 = f_max(_0, 0x1.0000000000000p-1f);
const float _6 = _2 * _5;
_6
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from paroli.native.trace import Node, UntraceableError, in_order

PRELUDE = r"""
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline int32_t f_bits(float x) { int32_t b; memcpy(&b, &x, 4); return b; }
static inline float f_from_bits(int32_t b) { float x; memcpy(&x, &b, 4); return x; }
static inline int32_t d_bits(double x) { return f_bits((float)x); }

/* What is not a number stays so: it is the first argument. */
static inline float f_max(float a, float b) { return a < b ? b : a; }
static inline float f_min(float a, float b) { return a > b ? b : a; }
static inline double d_max(double a, double b) { return a < b ? b : a; }
static inline double d_min(double a, double b) { return a > b ? b : a; }

/* a b + c, rounded once where the processor does that as quickly. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define f_mad(a, b, c) __builtin_fmaf(a, b, c)
#define d_mad(a, b, c) __builtin_fma(a, b, c)
#else
#define f_mad(a, b, c) ((a) * (b) + (c))
#define d_mad(a, b, c) ((a) * (b) + (c))
#endif
static inline int32_t i_max(int32_t a, int32_t b) { return a < b ? b : a; }
static inline int32_t i_min(int32_t a, int32_t b) { return a > b ? b : a; }

/* Scaled by the power of two of the larger one, so that no square leaves the range of floats. */
static inline float f_hypot(float a, float b) {
    const float m = f_max(fabsf(a), fabsf(b));
    const int32_t e = i_min(i_max(f_bits(m) & 0x7f800000, 1 << 23), 253 << 23);
    const float down = f_from_bits((254 << 23) - e);
    const float x = a * down, y = b * down;
    return sqrtf(x * x + y * y) * f_from_bits(e);
}
/* The same for magnitudes below 1e18, where only what is very small could be lost. */
static inline float f_hypot_near(float a, float b) {
    return f_max(sqrtf(a * a + b * b), f_max(fabsf(a), fabsf(b)));
}
static inline double d_hypot(double a, double b) {
    const double x = fabs(a), y = fabs(b);
    const double m = d_max(x, y), q = d_min(x, y) / (m > 0 ? m : 1);
    return m * sqrt(1 + q * q);
}

/* To the nearest that bfloat16 holds, ties to even. */
static inline float f_nearest_bfloat16(float x) {
    const int32_t b = f_bits(x);
    return x == x ? f_from_bits((b + 0x7fff + ((b >> 16) & 1)) & ~0xffff) : x;
}
static inline float from_bfloat16(uint16_t b) { return f_from_bits((int32_t)((uint32_t)b << 16)); }
/* Of a number that has no more digits than bfloat16. */
static inline uint16_t to_bfloat16(float x) { return (uint16_t)((uint32_t)f_bits(x) >> 16); }
"""
FLOAT16 = r"""
typedef _Float16 half;
static inline float f_nearest_float16(float x) { return (float)(half)x; }
"""
"""Beside the prelude, where float16 occurs: not every compiler has it."""

TYPES = {"number": "double", "integer": "int32_t", "truth": "int"}
INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "and": "&", "or": "|", "xor": "^",
    "shift_right": ">>", "shift_left": "<<", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
CALLS = {"exp", "expm1", "floor", "log", "log1p", "sqrt"}
OWN = {"hypot": "hypot", "maximum": "max", "minimum": "min"}


class Body:
    """What has to be declared for some results.

    Args:
        results: nodes.
        inputs: for each input the C expression that has its value.

    ``before`` belongs before a loop over entries, ``inside`` into it; ``results`` are expressions.
    """

    def __init__(self, results: Sequence[Node], inputs: Mapping[str, str]) -> None:
        self.before: list[str] = []
        self.inside: list[str] = []
        names: dict[int, str] = {}
        uses = Counter(id(arg) for node in in_order(results) for arg in node.args)
        uses.update(id(node) for node in results)
        for i, node in enumerate(in_order(results)):
            args = [names[id(arg)] for arg in node.args]
            value = inputs[node.label] if node.op == "input" else expression(node, args)
            if node.op in ("add", "subtract") and node.kind == "leaf":
                value = mad(node, args, names, uses) or value
            if node.op == "constant" or (node.op == "input" and node.uniform):
                names[id(node)] = value
                continue
            names[id(node)] = f"_{i}"
            line = f"const {type_of(node)} _{i} = {value};"
            (self.before if node.uniform else self.inside).append(line)
        self.results = [names[id(node)] for node in results]


def mad(
    node: Node, args: Sequence[str], names: Mapping[int, str], uses: Mapping[int, int]
) -> str | None:
    """A sum of a product and something else, rounded once; None: it is no such sum.

    Of two products each is rounded: where they are equal, their difference is 0.
    """
    products = [arg.op == "multiply" and uses[id(arg)] == 1 for arg in node.args]
    if products[0] == products[1]:
        return None
    which = products.index(True)
    a, b = (names[id(factor)] for factor in node.args[which].args)
    other = args[1 - which]
    if node.op == "subtract" and which == 0:
        other = f"-{other}"
    elif node.op == "subtract":
        a = f"-{a}"
    return f"{'f' if type_of(node) == 'float' else 'd'}_mad({a}, {b}, {other})"


def type_of(node: Node) -> str:
    """The C type of a node's value."""
    if node.kind == "leaf":
        return "float" if node.dtype == np.float32 else "double"
    return TYPES[node.kind]


def expression(node: Node, args: Sequence[str]) -> str:
    """An operation on names, in C."""
    kind = type_of(node)
    of = type_of(node.args[0]) if node.args else kind
    f = "f" if of == "float" else ""
    mark = {"float": "f", "double": "d", "int32_t": "i", "int": "i"}[of]
    a = args[0] if args else ""
    if node.op == "constant":
        return literal(node)
    if node.op in INFIX:
        return f"{a} {INFIX[node.op]} {args[1]}"
    if node.op in OWN:
        return f"{mark}_{OWN[node.op]}({a}, {args[1]})"
    if node.op in CALLS:
        return f"{node.op}{f}({a})"
    if node.op == "where":
        return f"{a} ? {args[1]} : {args[2]}"
    if node.op in ("bits", "from_bits"):
        return f"{'d' if of == 'double' else 'f'}_{node.op}({a})"
    if node.op == "nearest":
        return f"f_nearest_{node.label}((float){a})"
    others = {
        "abs": f"fabs{f}({a})",
        "integer": f"(int32_t){a}",
        "invert": f"!{a}" if node.kind == "truth" else f"~{a}",
        "isfinite": f"({a} - {a} == 0)",
        "negative": f"-{a}",
        "real": f"({kind}){a}",
        "sign": f"({kind})(({a} > 0) - ({a} < 0))",
        "to_leaf": f"({kind}){a}",
    }
    if node.op not in others:
        raise UntraceableError(f"{node.op} in the middle of a loop over entries")
    return others[node.op]


def literal(node: Node) -> str:
    """A constant, to the bit."""
    value = node.label
    if node.kind in ("truth", "integer"):
        return f"({int(value)})"
    suffix = "f" if type_of(node) == "float" else ""
    value = float(np.float32(value)) if suffix else float(value)
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = value.hex() + suffix
    return f"({text})" if text.startswith("-") else text
