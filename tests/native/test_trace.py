"""What is traced and written as C does what the core's functions do in NumPy."""

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paroli import (
    adagrad,
    averaged,
    box,
    constrained,
    diagonal,
    momentum,
    ons,
    recursive,
    rescaled,
    scinol,
)
from paroli.core.compact import by_chance, chance, seed_of_round, upwards
from paroli.core.learner import tell
from paroli.core.space import FUNCTIONS, NUMPY
from paroli.native.build import load
from paroli.native.c import FLOAT16, PRELUDE, Body, type_of
from paroli.native.trace import (
    NAMESPACE,
    Node,
    TraceSpace,
    UntraceableError,
    entry,
    number,
    place,
    shortest_length,
    summand,
)

ODDITIES = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-30, -1e-20, 1e18, -3e37, 2.0**-126, 65504.0]
XP = NAMESPACE
NP = NUMPY.xp


def compiled(made: Node, inputs: dict[str, Node], arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Run a traced function over arrays."""
    names = {name: f"{name}[i]" for name in inputs}
    body = Body([made], names)
    arguments = ", ".join(f"const {type_of(node)} *{name}" for name, node in inputs.items())
    code = "\n".join(
        [
            PRELUDE,
            FLOAT16,
            f"void run(long n, {arguments}, {type_of(made)} *out) {{",
            *body.before,
            "for (long i = 0; i < n; i++) {",
            *body.inside,
            f"out[i] = {body.results[0]}; }}}}",
        ]
    )
    kinds = {"float": np.float32, "double": np.float64, "int32_t": np.int32, "int": np.int32}
    count = len(next(iter(arrays.values())))
    out = np.empty(count, dtype=kinds[type_of(made)])
    given = [np.ascontiguousarray(arrays[name]) for name in inputs]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*given, out)]
    load("test", code).run(ctypes.c_long(count), *pointers)
    return out


def pairs(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    values = np.array(ODDITIES, dtype=dtype)
    random = np.random.default_rng(0).standard_normal(50).astype(dtype)
    a, b = np.meshgrid(np.concatenate([values, random]), np.concatenate([values, random]))
    return a.ravel(), b.ravel()


BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda xp, a, b: a + b,
    "subtract": lambda xp, a, b: a - b,
    "multiply": lambda xp, a, b: a * b,
    "divide": lambda xp, a, b: a / b,
    "maximum": lambda xp, a, b: xp.maximum(a, b),
    "minimum": lambda xp, a, b: xp.minimum(a, b),
    "where": lambda xp, a, b: xp.where((a < b) & ~(a == 1.0) | (b >= 3.0), a, -b),
    "reversed": lambda xp, a, b: (1.0 - a) * (2.0 / b) + (0.5 + a) * 3.0,
    "sign": lambda xp, a, b: xp.sign(a) * xp.abs(b),
    "clip": lambda xp, a, b: xp.clip(a, -0.5, 0.5) + xp.zeros_like(b) + xp.full_like(b, 2.0),
    "others": lambda xp, a, b: xp.where((a <= b) | (a != b) & (a > 1.0), xp.floor(a), b),
    "finite": lambda xp, a, b: xp.where(xp.isfinite(a / b), a, b),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_exact_operations_are_numpys_to_the_bit(name: str, dtype: Any) -> None:
    function, (a, b) = BINARY[name], pairs(dtype)
    inputs = {"a": entry("a", dtype), "b": entry("b", dtype)}
    found = compiled(function(XP, *inputs.values()), inputs, {"a": a, "b": b})
    with np.errstate(all="ignore"):
        expected = function(NP, a, b)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    assert same.all(), (a[~same], b[~same], found[~same], expected[~same])


INEXACT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "hypot": lambda xp, a, b: xp.hypot(a, b),
    "exp": lambda xp, a, b: xp.exp(xp.minimum(a, 5.0)) * b,
    "expm1": lambda xp, a, b: xp.expm1(xp.minimum(a, 5.0)) * b,
    "log": lambda xp, a, b: xp.log(xp.abs(a) + 1e-3) * b,
    "log1p": lambda xp, a, b: xp.log1p(xp.abs(a)) * b,
    "sqrt": lambda xp, a, b: xp.sqrt(xp.abs(a)) * b,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", INEXACT)
def test_other_functions_are_numpys_to_rounding(name: str, dtype: Any) -> None:
    function, (a, b) = INEXACT[name], pairs(dtype)
    inputs = {"a": entry("a", dtype), "b": entry("b", dtype)}
    found = compiled(function(XP, *inputs.values()), inputs, {"a": a, "b": b})
    with np.errstate(all="ignore"):
        expected = function(NP, a, b)
    ulp = np.finfo(dtype).eps
    np.testing.assert_allclose(found, expected, rtol=4 * ulp, atol=4 * np.finfo(dtype).tiny)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_length_with_a_zero_is_exact(dtype: Any) -> None:
    """Or a coordinate without a gradient would drift."""
    a, _ = pairs(dtype)
    inputs = {"a": entry("a", dtype), "b": entry("b", dtype)}
    made = XP.hypot(*inputs.values())
    found = compiled(made, inputs, {"a": a, "b": np.zeros_like(a)})
    assert np.array_equal(found, np.abs(a))


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_rounding_is_the_cores(precision: str) -> None:
    a, b = pairs(np.float32)
    i = np.arange(len(a), dtype=np.int32)
    inputs = {"a": entry("a"), "at": place("at")}
    seed = seed_of_round(XP, Node("constant", (), "number", np.float64, 12345.0))
    chances = chance(XP, inputs["at"], seed)
    expected_seed = seed_of_round(NP, np.full(1, 12345.0))
    expected_chances = chance(NP, i, expected_seed)
    assert np.array_equal(compiled(chances, {"at": inputs["at"]}, {"at": i}), expected_chances)
    a = np.where(np.abs(a) > 6e4, b, a).astype(np.float32)
    a = np.where(np.abs(a) > 6e4, 1.0, a).astype(np.float32)
    for made, expected in (
        (
            by_chance(XP, inputs["a"], chances, precision),
            by_chance(NP, a, expected_chances, precision),
        ),
        (XP.nearest(inputs["a"], precision), NP.nearest(a, precision)),
        (upwards(XP, XP.abs(inputs["a"])), upwards(NP, np.abs(a))),
    ):
        found = compiled(made, inputs, {"a": a, "at": i})
        assert np.array_equal(found, expected)


def test_every_function_of_the_standard_list_is_there() -> None:
    missing = [name for name in FUNCTIONS if not hasattr(NAMESPACE, name)]
    assert missing == []


def test_decisions_and_mixtures_are_refused() -> None:
    x, a = entry("x"), number("a")
    with pytest.raises(UntraceableError, match=r"use xp\.where"):
        bool(x > 0.0)
    with pytest.raises(UntraceableError, match="add of a leaf"):
        x + a
    with pytest.raises(UntraceableError, match="middle of a round"):
        XP.sum(x)
    with pytest.raises(UntraceableError, match="not of a plain sum"):
        summand(x)


def test_constants_keep_every_bit_and_the_sign_of_zero() -> None:
    x = entry("x", np.float64)
    for value in (0.1, -0.0, 1e-308, math.inf, -math.inf):
        found = compiled(
            XP.full_like(x, value)
            if value
            else x * 0.0 + Node("constant", (), "leaf", np.float64, value),
            {"x": x},
            {"x": np.full(1, -1.0)},
        )
        assert found.tobytes() == np.array([value]).tobytes()


STACKS = [
    recursive(diagonal()),
    rescaled(recursive(scinol())),
    rescaled(recursive(scinol(cap=None, rescale=False))),
    rescaled(recursive(ons(tau=2.0))),
    momentum(rescaled(recursive(scinol())), 0.9),
    averaged(rescaled(recursive(constrained(diagonal(), box(-0.2, 0.2))))),
]


@pytest.mark.parametrize("stack", STACKS, ids=repr)
def test_a_round_of_a_stack_is_a_straight_line(stack: Any) -> None:
    """Its sums are plain sums, and what follows needs their totals alone."""
    space = TraceSpace()
    leaf = entry("x", np.float64)
    state = stack.init(space, [leaf])
    new = tell(space, stack, state, [entry("g", np.float64)])
    assert len(space.totalled) >= 2
    for total in space.totalled:
        assert summand(total).kind == "leaf"
    Body([stack.bet(space, new)[0]], {"g": "g[i]"} | {f"total_{k}": "0" for k in range(9)})


def test_what_is_not_of_one_pass_says_so() -> None:
    space = TraceSpace()
    learner = adagrad()
    state = learner.init(space, [entry("x")])
    with pytest.raises(UntraceableError, match="maximum over all entries"):
        tell(space, learner, state, [entry("g")])


def test_two_products_are_each_rounded_and_one_is_not() -> None:
    """Where two products are equal their difference is 0, to the bit."""
    a, b, c = (entry(name, np.float32) for name in "abc")
    inputs = {name: f"{name}[i]" for name in "abc"}
    text = " ".join(Body([a * b - b * c, a * b + c, c - a * b, a * b - c], inputs).inside)
    assert text.count("f_mad(") == 3
    shared = a * b
    assert "f_mad" not in " ".join(Body([shared + c, shared], inputs).inside)


def test_the_shortest_length_is_known_where_all_lengths_are() -> None:
    S, g, M = (entry(name, np.float32) for name in ("S", "g", "M"))
    length = XP.hypot(XP.hypot(S, g), XP.maximum(M, XP.abs(g)))
    assert shortest_length([length], {"S": 1e-4, "M": 1e-8}) == 1e-4
    assert shortest_length([length], {"M": 1e-8}) == 0.0  # of the inner one nothing is known
    assert shortest_length([length + S, XP.hypot(g, g)], {"S": 1e-4}) == 0.0
    assert shortest_length([S + g], {}) == math.inf
