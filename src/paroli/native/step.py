"""One round of `paroli.core.inplace` as two or three loops over memory, traced from the core.

The first loop takes the sums that a round needs before anything changes, the last one changes
everything; between them, with weight decay, one more measures the increments.  Each is a C function

.. code-block:: c

    void loop(int64_t count, int64_t threads, const int64_t *table, void *const *parts,
              const double *in, double *sums, double *out)

over the rows of a table (address of a gradient, address of a point, place of the first entry in
the arrays of the state, number of entries, below 2^31), with the global numbers in ``in``.  Each
row has sums of its own: added up in the order of rows, they are the same for any number of threads.

Threads are OpenMP's, hence those that torch computes with: others would wait for the processor
while torch's stand ready for more of its own work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from paroli.core.inplace import Layout
from paroli.native.build import NoCompilerError, load
from paroli.native.c import FLOAT16, PRELUDE, Body
from paroli.native.round import Form, traced
from paroli.native.trace import Node, UntraceableError, shortest_length, without_roots

COLUMNS = 4
"""Of a table: gradient, point, place, count."""
STORED = {
    "float32": ("float", "{}", "{}"),
    "float64": ("double", "{}", "{}"),
    "bfloat16": ("uint16_t", "from_bfloat16({})", "to_bfloat16({})"),
    "float16": ("half", "(float){}", "(half){}"),
}
"""For each precision its C type, and how a value is read and written."""


RUN = 256
"""Entries whose sum is one in single precision: of sixteen at once, sixteen after one another."""
NEAR = "_near"
NEAR_BOUND = 1e14
"""Of gradients, so that the root of a sum of squares over 1e8 rounds is below 1e18."""
SMALL = 1e-15
"""What is above it has a square among the floats that keep all their digits."""
FLAGS = ("-ffinite-math-only", "-fno-signed-zeros")
"""Whether all is finite is decided before anything is changed."""


class Loops(NamedTuple):
    """The compiled loops, and what they take and give."""

    first: tuple[Any, Any]
    measure: tuple[Any, Any]
    last: tuple[Any, Any]
    """Each for all magnitudes, and quicker for those that are `near`."""
    sums: int
    """How many totals the first loop prepares."""
    inputs: tuple[str, ...]
    """Names of the numbers that the last loop takes, in this order."""
    names: tuple[str, ...]
    """Of the global numbers that the last loop gives."""
    arrays: tuple[str, ...]
    """Names of the arrays of the state, in the order of ``parts``."""


def source(form: Form, layout: Layout) -> tuple[str, int, tuple[str, ...], tuple[str, ...]]:
    """The C code of a form, how many sums it takes, and what it takes and gives (see `Loops`)."""
    # Who calls looks at the sums first, so that nothing here has to ask whether they are finite.
    sums, squares, results, given, inputs = traced(form, layout, looks=False)
    stored = form.stored
    expressions = {name: f"in[{k}]" for k, name in enumerate(inputs)}
    wide = "float" if form.computed == "float32" else "double"
    for name, precision in stored.items():
        expressions[name] = f"({wide})" + STORED[precision][1].format(f"s_{name}[i]")
    for name, precision in (("gradient", form.gradient), ("point", form.point)):
        expressions[name] = f"({wide})" + STORED[precision][1].format(f"s_{name}[i]")
    expressions["i"] = "origin + i"

    def loop(
        name: str,
        added: Sequence[Node],
        written: dict[str, Node],
        given: dict[str, Node],
        exactly: bool,
        least: dict[str, float] | None,
    ) -> str:
        """One function; ``exactly``: sums are in double precision within a row too.

        With ``least`` (the parts that never fall below a number) for what is near: of float32, runs
        of entries are added up first, in single precision, and only their sums are converted.
        """
        nodes = [*added, *written.values(), *given.values()]
        if least is not None and shortest_length(nodes, least) > SMALL:
            nodes = without_roots(nodes)
        body = Body(nodes, expressions)
        sums_of = body.results[: len(added)]
        values = dict(zip(written, body.results[len(added) :], strict=False))
        given_values = body.results[len(added) + len(written) :]
        text = " ".join(body.inside)
        in_row = "double" if exactly else wide
        in_runs = exactly and least is not None and wide == "float"
        sums_in = "run" if in_runs else "row"
        lines = [
            f"void {name}(int64_t count, int64_t threads, const int64_t *table, "
            "void *const *parts, const double *in, double *sums, double *out) {",
            *body.before,
            "#pragma omp parallel for schedule(static) num_threads(threads) if(threads > 1)",
            "for (int64_t row = 0; row < count; row++) {",
            f"const int64_t *at = table + {COLUMNS} * row, begin = at[2];",
            "const int32_t n = (int32_t)at[3];",
            *(f"{in_row} row_{k} = 0;" for k in range(len(added))),
        ]
        pointers = {"gradient": (form.gradient, "at[0]"), "point": (form.point, "at[1]")}
        for k, (part, precision) in enumerate(stored.items()):
            pointers[part] = (precision, f"({STORED[precision][0]} *)parts[{k}] + begin")
        for part, (precision, where) in pointers.items():
            if f"s_{part}[i]" in text or part in written:
                kind = STORED[precision][0]
                const = "" if part in written else "const "
                lines.append(f"{const}{kind} *restrict s_{part} = ({kind} *)({where});")
        if expressions["i"] in text:
            lines.append("const int32_t origin = (int32_t)begin;")
        begin, end = "0", "n"
        if in_runs:
            begin, end = "run", f"(n - run < {RUN} ? n : run + {RUN})"
            lines.append(f"for (int32_t run = 0; run < n; run += {RUN}) {{")
            lines += [f"float run_{k} = 0;" for k in range(len(added))]
        reduction = ", ".join(f"{sums_in}_{k}" for k in range(len(added)))
        lines += [
            f"const int32_t end = {end};",
            f"#pragma omp simd reduction(+: {reduction})" if added else "#pragma omp simd",
            f"for (int32_t i = {begin}; i < end; i++) {{",
            *body.inside,
            *(
                f"{sums_in}_{k} += ({wide if in_runs else in_row}){value};"
                for k, value in enumerate(sums_of)
            ),
        ]
        for part, value in values.items():
            precision = pointers[part][0]
            narrow = f"({value})" if precision == "float64" else f"((float){value})"
            lines.append(f"s_{part}[i] = {STORED[precision][2].format(narrow)};")
        lines += [
            "}",
            *([*(f"row_{k} += run_{k};" for k in range(len(added))), "}"] if in_runs else []),
            *(f"sums[{len(added)} * row + {k}] = (double)row_{k};" for k in range(len(added))),
            "}",
            *(f"out[{k}] = {value};" for k, value in enumerate(given_values)),
            "}",
        ]
        text = "\n".join(lines)
        return text if least is None else text.replace("f_hypot(", "f_hypot_near(")

    halves = "float16" in (form.gradient, form.point, *stored.values())
    texts = [
        text
        for of, least in ((NEAR, layout.least), ("", None))
        for text in (
            loop("first" + of, sums, {}, {}, exactly=True, least=least),
            loop("measure" + of, [squares], {}, {}, exactly=False, least=least),
            loop("last" + of, [squares], results, given, exactly=False, least=least),
        )
    ]
    code = "\n".join([PRELUDE, FLOAT16 if halves else "", *texts])
    return code, len(sums), inputs, tuple(stored)


@cache
def loops(form: Form, layout: Layout) -> Loops | None:
    """The loops of a form, compiled; None: this learner's rounds are no straight lines."""
    try:
        code, sums, inputs, arrays = source(form, layout)
    except UntraceableError:
        return None
    try:
        library = load("step", code, (*FLAGS, "-fopenmp"))
    except NoCompilerError:  # a compiler without OpenMP: one thread, then
        library = load("step", code, FLAGS)
    signature: list[Any] = [ctypes.c_int64, ctypes.c_int64, *(ctypes.c_void_p,) * 5]

    def both(name: str) -> tuple[Any, Any]:
        functions = getattr(library, name), getattr(library, name + NEAR)
        for function in functions:
            function.argtypes, function.restype = signature, None
        return functions

    return Loops(both("first"), both("measure"), both("last"), sums, inputs, form.names, arrays)
