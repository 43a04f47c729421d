"""The row loop in C: how rows are walked stands here, what is computed is traced from the core.

A row is gathered into columns, so that what happens to its features is loops over short arrays,
which the compiler turns into vector instructions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from paroli.core.learner import flatten, unflatten
from paroli.core.linear import Linear, linear
from paroli.core.losses import logistic
from paroli.core.margin import Bet, Sums
from paroli.native.build import load
from paroli.native.c import PRELUDE, Body
from paroli.native.trace import NAMESPACE, Node, TraceSpace, entry, number, summand

TYPES = {"float32": "float", "float64": "double"}

LANES = {"float32": 16, "float64": 8}
"""How many features are computed at once: a vector of AVX-512, two of AVX2."""

SKELETON = r"""
/* Gradients come in units of the largest, so squares of their sums are far from the float range. */
#define f_hypot(a, b) sqrtf((a) * (a) + (b) * (b))
#define d_hypot(a, b) sqrt((a) * (a) + (b) * (b))

typedef @real@ real;
typedef @value@ value;
#define FIELDS @fields@

/* Between features, a line each, and columns.  Eight by eight this is done in registers. */
#if FIELDS >= 8 && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define EIGHT 1
#endif
#endif
#ifdef EIGHT
typedef real eight __attribute__((vector_size(8 * sizeof(real)), aligned(sizeof(real)), may_alias));
#define MIX __builtin_shufflevector
static inline __attribute__((always_inline)) void transpose(eight r[8]) {
    eight a[8], b[8];
    for (int k = 0; k < 4; k++) {
        a[2 * k] = MIX(r[2 * k], r[2 * k + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        a[2 * k + 1] = MIX(r[2 * k], r[2 * k + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int k = 0; k < 8; k += 4)
        for (int m = 0; m < 2; m++) {
            b[k + m] = MIX(a[k + m], a[k + m + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            b[k + m + 2] = MIX(a[k + m], a[k + m + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int m = 0; m < 4; m++) {
        r[m] = MIX(b[m], b[m + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[m + 4] = MIX(b[m], b[m + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
#endif

/* Rows come in whole vectors, LANES features at once; what is missing to the last one is its first
   feature once more, with x = 0, and is not kept. */
#define LANES @lanes@

static void gather(const real *restrict table, const int32_t *restrict row, const int64_t whole,
                   real *restrict f, const int64_t width) {
#ifdef EIGHT
    for (int64_t j = 0; j < whole; j += 8) {
        eight r[8];
        for (int k = 0; k < 8; k++) {
            const real *kept = table + (int64_t)row[j + k] * FIELDS;
            r[k] = *(const eight *)kept;
            for (int m = 8; m < FIELDS; m++) f[m * width + j + k] = kept[m];
        }
        transpose(r);
        for (int k = 0; k < 8; k++) *(eight *)(f + k * width + j) = r[k];
    }
#else
    for (int64_t j = 0; j < whole; j++) {
        const real *restrict kept = table + (int64_t)row[j] * FIELDS;
        for (int k = 0; k < FIELDS; k++) f[k * width + j] = kept[k];
    }
#endif
}

static void scatter(real *restrict table, const int32_t *restrict row, const int64_t n,
                    const real *restrict f, const int64_t width) {
#ifdef EIGHT
    for (int64_t j = 0; j < n; j += 8) {
        eight r[8];
        for (int k = 0; k < 8; k++) r[k] = *(const eight *)(f + k * width + j);
        transpose(r);
        for (int k = 0; k < 8 && j + k < n; k++) {
            real *kept = table + (int64_t)row[j + k] * FIELDS;
            *(eight *)kept = r[k];
            for (int m = 8; m < FIELDS; m++) kept[m] = f[m * width + j + k];
        }
    }
#else
    for (int64_t j = 0; j < n; j++) {
        real *restrict kept = table + (int64_t)row[j] * FIELDS;
        for (int k = 0; k < FIELDS; k++) kept[k] = f[k * width + j];
    }
#endif
}

/* Features that come twice in a row are added up; those that come to nothing are left out. */
static int64_t merged(int32_t *restrict row, real *restrict x, const int64_t n,
                      int32_t *restrict place) {
    int64_t kept = 0, m = 0;
    for (int64_t j = 0; j < n; j++) {
        const int32_t i = row[j];
        if (place[i]) x[place[i] - 1] += x[j];
        else { row[kept] = i; x[kept] = x[j]; place[i] = (int32_t)++kept; }
    }
    for (int64_t j = 0; j < kept; j++) {
        place[row[j]] = 0;
        if (x[j] != 0) { row[m] = row[j]; x[m++] = x[j]; }
    }
    return m;
}

static void bet(const double *num, const real *restrict f, const int64_t width, const int64_t n,
                const real *restrict x, real *restrict u, real *restrict share,
                real *restrict scale, double *restrict sums) {
    @bet.before@
    double s0 = 0, s1 = 0, s2 = 0;
    for (int64_t begin = 0; begin < n; begin += LANES) {
        #pragma omp simd reduction(+:s0, s1, s2)
        for (int64_t j = begin; j < begin + LANES; j++) {
            @bet.inside@
            u[j] = @bet.0@; share[j] = @bet.1@; scale[j] = @bet.2@;
            s0 += @bet.3@; s1 += @bet.4@; s2 += @bet.5@;
        }
    }
    sums[0] = s0; sums[1] = s1; sums[2] = s2;
}

static double score(const double *num, const double *restrict sums) {
    @score.before@
    return @score.0@;
}

static void update(const double *num, real *restrict f, const int64_t width, const int64_t n,
                   const real *restrict u, const real *restrict share,
                   const real *restrict scale, const double send, const double wealth,
                   const double clock, const double rounds, const double again) {
    @update.before@
    for (int64_t begin = 0; begin < n; begin += LANES) {
        #pragma omp simd
        for (int64_t j = begin; j < begin + LANES; j++) {
            @update.inside@
            @update.store@
        }
    }
}

void paroli_rows(const int64_t rows, const int64_t *indptr, const int32_t *indices,
                 const value *values, const double *labels, const double *weights,
                 const int32_t intercept, real *restrict table, double *restrict num,
                 int32_t *restrict row, real *restrict f, const int64_t width,
                 int32_t *restrict place, double *restrict out, const int32_t far,
                 const double again) {
    real *restrict const x = f + FIELDS * width, *restrict const u = x + width;
    real *restrict const share = u + width, *restrict const scale = share + width;
    for (int64_t r = 0; r < rows; r++) {
        int64_t n = 0;
        int32_t last = 0, unsorted = 0;
        if (intercept) { row[0] = 0; x[0] = 1; n = 1; }
        for (int64_t j = indptr[r]; j < indptr[r + 1]; j++) {
            const int32_t i = indices[j] + 1;
            unsorted |= i <= last;
            last = i;
            row[n] = i;
            x[n] = (real)values[j];
            n += x[n] != 0;
        }
        if (unsorted) n = merged(row, x, n, place);
        if (far && r + 1 < rows)
            for (int64_t j = indptr[r + 1]; j < indptr[r + 2]; j++)
                __builtin_prefetch(table + (int64_t)(indices[j] + 1) * FIELDS);
        const int64_t whole = (n + LANES - 1) / LANES * LANES;
        for (int64_t j = n; j < whole; j++) { row[j] = row[0]; x[j] = 0; }
        gather(table, row, whole, f, width);
        int news = 0;
        for (int64_t j = 0; j < n; j++) news |= (x[j] > f[j]) | (-x[j] > f[j]);
        if (news) {
            const double present = (double)n;
            @announce.before@
            for (int64_t j = 0; j < n; j++) {
                if (x[j] <= f[j] && -x[j] <= f[j]) continue;
                @announce.inside@
                @announce.store@
            }
            for (int64_t j = n; j < whole; j++)
                for (int k = 0; k < FIELDS; k++) f[k * width + j] = f[k * width];
        }
        double sums[3];
        bet(num, f, width, whole, x, u, share, scale, sums);
        double at = score(num, sums);
        out[r] = at;
        const double y = labels ? labels[r] : NAN, weight = weights ? weights[r] : 1;
        if (!(weight > 0) || y != y) continue;
        double steps, each, unit;
        {
            @observe.before@
            steps = @observe.steps@; each = @observe.each@; unit = @observe.unit@;
            @observe.store@
        }
        for (int64_t step = 0; step < (int64_t)steps; step++) {
            if (step) {
                bet(num, f, width, whole, x, u, share, scale, sums);
                at = score(num, sums);
            }
            const double wealth = @wealth@, clock = @clock@, rounds = @rounds@;
            double send;
            {
                @settle.before@
                send = @settle.send@;
                @settle.store@
            }
            update(num, f, width, whole, u, share, scale, send, wealth, clock, rounds,
                   again);
        }
        {
            @finish.before@
            @finish.store@
        }
        scatter(table, row, n, f, width);
    }
}
"""


def source(learner: linear, real: str, value: str) -> str:
    """The row loop of a learner, with features kept as ``real`` and values given as ``value``."""
    xp, space = NAMESPACE, TraceSpace()
    template = learner.start(0.0)
    paths = list(flatten(template))
    state: Linear = unflatten(template, {path: number(path) for path in paths})
    inputs: dict[str, str] = {path: f"num[{i}]" for i, path in enumerate(paths)}

    x = entry("x", real)
    names = learner.bets.columns(xp, x)
    columns = [entry(name, real) for name in names]
    features = learner.bets.unpack(xp, columns)
    inputs |= {name: f"f[{k} * width + j]" for k, name in enumerate(names)}
    inputs |= {name: f"{name}[j]" for name in ("x", "u", "share", "scale")}
    for name in (
        "present",
        "send",
        "wealth",
        "clock",
        "rounds",
        "again",
        "y",
        "weight",
        "each",
        "unit",
        "at",
    ):
        inputs[name] = name
    sums = Sums(*[number(f"sum {k}") for k in range(3)])
    inputs |= {f"sum {k}": f"sums[{k}]" for k in range(3)}
    y, weight, each = number("y"), number("weight"), number("each")

    parts: dict[str, str] = {
        "real": TYPES[real], "value": TYPES[value], "fields": str(len(names)),
        "lanes": str(LANES[real]),
        **{name: inputs[f"bet.{name}"] for name in ("wealth", "clock", "rounds")},
    }  # fmt: skip

    def part(name: str, results: Mapping[str, Node], stored: Sequence[str] = ()) -> None:
        body = Body(list(results.values()), inputs)
        parts[f"{name}.before"] = "\n".join(body.before)
        parts[f"{name}.inside"] = "\n".join(body.inside)
        made = dict(zip(results, body.results, strict=True))
        parts.update({f"{name}.{key}": value for key, value in made.items()})
        # All values first: one may be made of what another replaces.
        kinds = {key: "double" if key in paths else "real" for key in stored}
        lines = [f"const {kinds[key]} new_{i} = {made[key]};" for i, key in enumerate(stored)]
        lines += [f"{inputs[key]} = new_{i};" for i, key in enumerate(stored)]
        parts[f"{name}.store"] = "\n".join(lines)

    announced = learner.bets.announce(space, state.bet, features, x, number("present"))
    part("announce", dict(zip(names, learner.bets.pack(announced), strict=True)), names)

    # From here on x counts as `counted` says: announced, |x| may still exceed M.
    within = learner.bets.counted(xp, features, x)
    bet, added = learner.bets.bet(space, state.bet, features, within)
    part("bet", {str(k): node for k, node in enumerate([*bet, *map(summand, added)])})
    part("score", {"0": learner.score(xp, state, sums)})

    observed, steps, weighs, unit = learner.observe(xp, state, sums, y, weight)
    results = flatten(observed) | {"steps": steps, "each": weighs, "unit": unit}
    part("observe", results, paths)

    settled, send = learner.settle(xp, state, sums, number("at"), y, each)
    part("settle", flatten(settled) | {"send": send}, paths)
    part("finish", flatten(learner.finish(xp, state, number("unit"))), paths)

    known = Bet(*[entry(name, real) for name in Bet._fields])
    of_bet = {name: number(name) for name in ("wealth", "clock", "rounds")}
    updated = learner.bets.update(
        space, state.bet._replace(**of_bet), features, known, number("send"), number("again")
    )
    part("update", dict(zip(names, learner.bets.pack(updated), strict=True)), names)

    text = SKELETON
    for name, code in parts.items():
        text = text.replace(f"@{name}@", code)
    return PRELUDE + text


@cache
def _function(learner: linear, real: str, value: str) -> Callable[..., None]:
    function: Callable[..., None] = load("rows", source(learner, real, value)).paroli_rows
    function.restype = None  # type: ignore[attr-defined]
    pointer, count, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    function.argtypes = [  # type: ignore[attr-defined]
        count, *[pointer] * 5, flag, *[pointer] * 4, count, pointer, pointer, flag,
        ctypes.c_double,
    ]  # fmt: skip
    return function


FAR = 1 << 20
"""Tables of more bytes than this are read ahead."""


def rows(
    learner: linear,
    table: npt.NDArray[Any],
    numbers: npt.NDArray[np.float64],
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    labels: npt.NDArray[np.float64] | None,
    weights: npt.NDArray[np.float64] | None,
    intercept: bool,
    again: bool = False,
) -> npt.NDArray[np.float64]:
    """Learn rows one after the other; return their scores, each before it was learned.

    Args:
        learner: what to compute.
        table: a feature a row, with the columns of `paroli.core.margin.margin.pack`; the first row
            is the intercept's.  It is changed.
        numbers: the rest of the state, as `paroli.core.learner.flatten` has it.  It is changed.
        indptr: of compressed sparse rows.
        indices: the same.
        values: the same, float32 or float64.
        labels: NaN, or no array: the row is not learned.
        weights: 0: the row is not learned.
        intercept: whether every row has the constant feature 1.
        again: whether the rows were learned before.
    """
    function = _function(learner, table.dtype.name, values.dtype.name)
    count = len(indptr) - 1
    lanes = LANES[table.dtype.name]
    width = int(np.diff(indptr).max(initial=0)) + 1 + lanes
    row = np.empty(width, dtype=np.int32)
    f = np.empty((table.shape[1] + 4, width), dtype=table.dtype)
    place = np.zeros(len(table), dtype=np.int32)
    out = np.empty(count)
    function(
        count, _at(indptr), _at(indices), _at(values), _at(labels), _at(weights), intercept,
        _at(table), _at(numbers), _at(row), _at(f), width, _at(place),
        _at(out), table.nbytes > FAR, float(again),
    )  # fmt: skip
    return out


class OneRow:
    """The row loop for single rows: all room is prepared, so a call is little more than the loop.

    Args:
        learner: what to compute.
        table: as `rows` has it; it is changed.
        numbers: the same.
        intercept: whether every row has the constant feature 1.
    """

    def __init__(
        self,
        learner: linear,
        table: npt.NDArray[Any],
        numbers: npt.NDArray[np.float64],
        intercept: bool,
    ) -> None:
        self._call = _function(learner, table.dtype.name, "float64")
        self._table, self._numbers, self._intercept = table, numbers, intercept
        self._room(64)

    def _room(self, width: int) -> None:
        dtype = self._table.dtype
        padded = width + 1 + LANES[dtype.name]
        self._width = width
        self._indptr, self._indices = np.zeros(2, np.int64), np.zeros(width, np.int32)
        self._values, self._told, self._out = np.zeros(width), np.zeros(2), np.zeros(1)
        row, place = np.empty(padded, np.int32), np.zeros(len(self._table), np.int32)
        f = np.empty((self._table.shape[1] + 4, padded), dtype)
        self._kept = row, place, f
        told = _at(self._told)
        assert told is not None
        self._before = 1, _at(self._indptr), _at(self._indices), _at(self._values)
        self._labelled = told, told + self._told.itemsize
        self._after = (
            self._intercept, _at(self._table), _at(self._numbers), _at(row), _at(f), padded,
            _at(place), _at(self._out), 0, 0.0,
        )  # fmt: skip

    def __call__(
        self, indices: list[int], values: list[float], label: float | None, weight: float
    ) -> float:
        """The score of a row, before it is learned where it has a label."""
        count = len(indices)
        if count > self._width:
            self._room(2 * count)
        self._indptr[1] = count
        self._indices[:count], self._values[:count] = indices, values
        if label is None:
            self._call(*self._before, None, None, *self._after)
        else:
            self._told[:] = label, weight
            self._call(*self._before, *self._labelled, *self._after)
        return float(self._out[0])


def warm_up() -> None:
    """Compile the most common row loop, or say why that cannot be done."""
    _function(linear(logistic()), "float32", "float32")


def _at(array: npt.NDArray[Any] | None) -> int | None:
    if array is None:
        return None
    assert array.flags.c_contiguous
    return int(array.ctypes.data)
