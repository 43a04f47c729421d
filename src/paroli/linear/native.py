"""The row loop in C: how rows are walked stands here, what is computed is traced from the core.

A row is gathered into blocks of a few features, each block a short column for everything that is
kept of a feature, so that what happens to features is loops over columns, which the compiler turns
into vector instructions.  What is asked of memory is one line a feature, some features ahead.
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
from paroli.linear import plain
from paroli.native.build import load
from paroli.native.c import PRELUDE, Body
from paroli.native.trace import (
    NAMESPACE,
    Node,
    TraceSpace,
    entry,
    in_order,
    number,
    summand,
    without_roots,
)

TYPES = {"float32": "float", "float64": "double"}

LANES = 8
"""How many features are computed at once: a vector of AVX2 in single precision."""

LINE = 64
"""What is read from memory at once, in bytes."""

FLAGS = ("-ffinite-math-only", "-fno-signed-zeros", "-ffp-contract=fast")
"""What is not finite is refused before anything is learned; a label that is missing is told by its
bits.  Where products are rounded once less, what a slope of 0 leaves as it is still stays so."""

SKELETON = r"""
/* Exponentials and logarithms stand where they are needed: a call costs more than they do.  Both by
   their series, to some units in the last place. */
static inline double d_from_bits(int64_t b) { double x; memcpy(&x, &b, 8); return x; }
static inline int64_t bits_of(double x) { int64_t b; memcpy(&b, &x, 8); return b; }
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33
static inline double quick_exp(double x) {
    x = d_min(d_max(x, -708.0), 709.0);
    const double k = (x * 0x1.71547652b82fep0 + 0x1.8p52) - 0x1.8p52;
    const double r = (x - k * LN2_HIGH) - k * LN2_LOW, r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    const double a = (1 + r) + r2 * (1.0 / 2 + r * (1.0 / 6));
    const double b = (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040));
    const double c = 1.0 / 40320 + r * (1.0 / 362880), d = 1.0 / 3628800 + r * (1.0 / 39916800);
    const double e = 1.0 / 479001600 + r * (1.0 / 6227020800);
    return ((a + r4 * b) + r8 * ((c + r2 * d) + r4 * e)) * d_from_bits(((int64_t)k + 1023) << 52);
}
static inline double quick_log1p(double x) {
    const double u = 1 + x, lost = (x - (u - 1)) / u;
    const int64_t half = 0x3fe6a09e00000000;  /* the root of 1/2 */
    const int64_t b = bits_of(u) - half;
    const double m = d_from_bits((b & 0x000fffffffffffff) + half), k = (double)(b >> 52);
    const double s = (m - 1) / (m + 1), z = s * s, z2 = z * z, z4 = z2 * z2;
    const double p = (2.0 + z * (2.0 / 3)) + z2 * (2.0 / 5 + z * (2.0 / 7));
    const double q = (2.0 / 9 + z * (2.0 / 11)) + z2 * (2.0 / 13 + z * (2.0 / 15));
    const double t = 2.0 / 17 + z * (2.0 / 19);
    return k * LN2_HIGH + (s * (p + z4 * (q + z4 * t)) + (lost + k * LN2_LOW));
}
#define exp quick_exp
#define log1p quick_log1p
static inline int missing(double y) {
    return (uint64_t)bits_of(y) << 1 > (uint64_t)0x7ff << 53;
}

typedef @real@ real;
typedef @value@ value;
#define FIELDS @fields@
#define LANES @lanes@
#define COLUMNS @columns@
#define AHEAD @ahead@
#define INLINE static inline __attribute__((always_inline))

/* Between features, a line each, and columns: four by four in registers, one half of a line after
   the other, so that what is read from one does not wait for what was written to the other. */
typedef real eight __attribute__((vector_size(8 * sizeof(real)), aligned(sizeof(real)), may_alias));
typedef real half __attribute__((vector_size(4 * sizeof(real)), aligned(sizeof(real)), may_alias));
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define MIX __builtin_shufflevector
#endif
#endif
#if FIELDS >= 8 && defined(MIX)
#define EIGHT 1
INLINE void transpose(eight r[4]) {
    eight a[4];
    for (int k = 0; k < 2; k++) {
        a[2 * k] = MIX(r[2 * k], r[2 * k + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        a[2 * k + 1] = MIX(r[2 * k], r[2 * k + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int k = 0; k < 2; k++) {
        r[2 * k] = MIX(a[k], a[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        r[2 * k + 1] = MIX(a[k], a[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
}
#endif

/* A block has LANES features; what is missing to the last one is the row's first feature once more,
   with x = 0, and is not kept. */
INLINE void gather(real *restrict table, const int32_t *restrict row, real *restrict f) {
    real *at[LANES];
    for (int k = 0; k < LANES; k++) at[k] = table + (int64_t)row[k] * FIELDS;
#ifdef EIGHT
    for (int h = 4; h >= 0; h -= 4) {
        eight r[4];
        for (int k = 0; k < 4; k++)
            r[k] = MIX(*(half *)(at[k] + h), *(half *)(at[k + 4] + h), 0, 1, 2, 3, 4, 5, 6, 7);
        transpose(r);
        for (int k = 0; k < 4; k++) *(eight *)(f + (h + k) * LANES) = r[k];
    }
    const int rest = 8;
#else
    const int rest = 0;
#endif
    for (int k = 0; k < LANES; k++)
        for (int m = rest; m < FIELDS; m++) f[m * LANES + k] = at[k][m];
}

/* The first n of a block. */
INLINE void scatter(real *restrict table, const int32_t *restrict row, const int n,
                    const real *restrict f) {
    real *at[LANES];
    for (int k = 0; k < LANES; k++) at[k] = table + (int64_t)row[k] * FIELDS;
#ifdef EIGHT
    for (int h = 4; h >= 0; h -= 4) {
        eight r[4];
        for (int k = 0; k < 4; k++) r[k] = *(const eight *)(f + (h + k) * LANES);
        transpose(r);
        for (int k = 0; k < 4; k++)
            if (k < n) *(half *)(at[k] + h) = MIX(r[k], r[k], 0, 1, 2, 3);
        for (int k = 4; k < 8; k++)
            if (k < n) *(half *)(at[k] + h) = MIX(r[k - 4], r[k - 4], 4, 5, 6, 7);
    }
    const int rest = 8;
#else
    const int rest = 0;
#endif
    for (int k = 0; k < n; k++)
        for (int m = rest; m < FIELDS; m++) at[k][m] = f[m * LANES + k];
}

/* Features that come twice in a row are added up; those that come to nothing are left out.  Where
   a feature stands is found by its hash; there are more than twice as many places as features. */
static int64_t merged(int32_t *restrict row, real *restrict x, const int64_t n,
                      int32_t *restrict place) {
    int64_t kept = 0, m = 0, places = 2;
    while (places < 2 * n + 2) places *= 2;
    memset(place, 0, (size_t)places * sizeof(int32_t));
    for (int64_t j = 0; j < n; j++) {
        const int32_t i = row[j];
        int64_t at = (int64_t)((uint32_t)i * 2654435769u >> 7) & (places - 1);
        while (place[at] && row[place[at] - 1] != i) at = (at + 1) & (places - 1);
        if (place[at]) x[place[at] - 1] += x[j];
        else { row[kept] = i; x[kept] = x[j]; place[at] = (int32_t)++kept; }
    }
    for (int64_t j = 0; j < kept; j++)
        if (x[j] != 0) { row[m] = row[j]; x[m++] = x[j]; }
    return m;
}

static __attribute__((noinline)) void announce(const double *restrict num, real *restrict f,
                                               const double present) {
    real *restrict const x = f + FIELDS * LANES;
    @announce.before@
    #pragma omp simd
    for (int j = 0; j < LANES; j++) {
        const int seen = (x[j] <= f[j]) & (-x[j] <= f[j]);
        @announce.inside@
        @announce.store@
    }
}

INLINE void bet(const double *restrict num, real *restrict f) {
    real *restrict const x = f + FIELDS * LANES;
    @bet.before@
    #pragma omp simd
    for (int j = 0; j < LANES; j++) {
        @bet.inside@
        @bet.store@
    }
}

/* The sums over a row, and at last over the lanes. */
INLINE void add_up(const real *restrict f, const int64_t whole, double *restrict sums) {
    eight s[3] = {{0}, {0}, {0}};
    for (int64_t j = 0; j < whole; j += LANES)
        for (int k = 0; k < 3; k++)
            s[k] += *(const eight *)(f + j * COLUMNS + (COLUMNS - 3 + k) * LANES);
    for (int k = 0; k < 3; k++) {
#ifdef MIX
        const eight a = s[k] + MIX(s[k], s[k], 4, 5, 6, 7, 0, 1, 2, 3);
        const eight b = a + MIX(a, a, 2, 3, 0, 1, 6, 7, 4, 5);
        sums[k] = (double)b[0] + (double)b[1];
#else
        const real a = s[k][0] + s[k][4] + (s[k][2] + s[k][6]);
        const real b = s[k][1] + s[k][5] + (s[k][3] + s[k][7]);
        sums[k] = (double)a + (double)b;
#endif
    }
}

INLINE double score(const double *restrict num, const double *restrict sums) {
    @score.before@
    return @score.0@;
}

INLINE void update(real *restrict f, const double send, const double wealth, const double clock,
                   const double rounds, const double again) {
    @update.before@
    #pragma omp simd
    for (int j = 0; j < LANES; j++) {
        @update.inside@
        @update.store@
    }
}

#define BETS \
    for (int64_t j = 0; j < whole; j += LANES) bet(num, f + j * COLUMNS); \
    add_up(f, whole, sums)

void paroli_rows(const int64_t rows, const int64_t *indptr, const int32_t *indices,
                 const value *values, const double *labels, const double *weights,
                 const int32_t intercept, real *restrict table, double *restrict num,
                 int32_t *restrict row, real *restrict x, real *restrict f,
                 int32_t *restrict place, double *restrict out, const int32_t plain,
                 const int32_t far, const double again) {
    const int64_t total = indptr[rows], end = far ? total - LANES - AHEAD : -1;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t first = indptr[r], count = indptr[r + 1] - first, begin = intercept != 0;
        const int32_t *restrict const from = indices + first;
        row[0] = 0; x[0] = 1;
        /* In whole vectors where there is something to read: what is too much is written over. */
        const int64_t blocks = (count + LANES - 1) / LANES * LANES;
        if (first + blocks <= total)
            for (int64_t j = 0; j < blocks; j += LANES) {
                __builtin_prefetch(from + j + @stream@);
                __builtin_prefetch(values + first + j + @stream@);
                #pragma omp simd
                for (int k = 0; k < LANES; k++) {
                    row[begin + j + k] = from[j + k] + 1;
                    x[begin + j + k] = (real)values[first + j + k];
                }
            }
        else
            for (int64_t j = 0; j < count; j++) {
                row[begin + j] = from[j] + 1;
                x[begin + j] = (real)values[first + j];
            }
        int64_t n = begin + count;
        if (!plain) {
            int odd = 0;
            for (int64_t j = 0; j < count; j++) odd |= x[begin + j] == 0;
            for (int64_t j = 1; j < count; j++) odd |= from[j] <= from[j - 1];
            if (odd) n = merged(row, x, n, place);
        }
        const int64_t whole = (n + LANES - 1) / LANES * LANES;
        for (int64_t j = n; j < whole; j++) { row[j] = row[0]; x[j] = 0; }

        real most[LANES] = {0};
        for (int64_t j = 0; j < whole; j += LANES) {
            real *restrict const g = f + j * COLUMNS;
            if (first + j < end)
                for (int k = 0; k < LANES; k++) {
                    const real *at = table + (int64_t)(from[j + k + AHEAD] + 1) * FIELDS;
                    __builtin_prefetch(at, 1);
                    if (@line@ % (FIELDS * sizeof(real))) __builtin_prefetch(at + FIELDS - 1, 1);
                }
            gather(table, row + j, g);
            #pragma omp simd
            for (int k = 0; k < LANES; k++) {
                const real v = x[j + k], a = v < 0 ? -v : v, over = a - g[k];
                g[FIELDS * LANES + k] = v;
                most[k] = over > most[k] ? over : most[k];
            }
        }
        real over = 0;
        for (int k = 0; k < LANES; k++) over = most[k] > over ? most[k] : over;
        if (over > 0)
            for (int64_t j = 0; j < whole; j += LANES) {
                real *restrict const g = f + j * COLUMNS;
                int more = 0;
                for (int k = 0; k < LANES; k++) more |= fabs(g[FIELDS * LANES + k]) > g[k];
                if (more) announce(num, g, (double)n);
            }

        double sums[3];
        { BETS; }
        double at = score(num, sums);
        out[r] = at;
        const double y = labels ? labels[r] : NAN, weight = weights ? weights[r] : 1;
        if (!labels || !(weight > 0) || missing(y)) continue;
        double steps, each, unit;
        {
            @observe.before@
            steps = @observe.steps@; each = @observe.each@; unit = @observe.unit@;
            @observe.store@
        }
        for (int64_t step = 1;; step++) {
            const double wealth = @wealth@, clock = @clock@, rounds = @rounds@;
            double send;
            {
                @settle.before@
                send = @settle.send@;
                @settle.store@
            }
            if (step >= (int64_t)steps) {
                for (int64_t j = 0; j < whole; j += LANES) {
                    real *restrict const g = f + j * COLUMNS;
                    update(g, send, wealth, clock, rounds, again);
                    scatter(table, row + j, n - j < LANES ? (int)(n - j) : LANES, g);
                }
                break;
            }
            for (int64_t j = 0; j < whole; j += LANES)
                update(f + j * COLUMNS, send, wealth, clock, rounds, again);
            BETS;
            at = score(num, sums);
        }
        {
            @finish.before@
            @finish.store@
        }
    }
}

double paroli_loss(const int64_t rows, const double *restrict scores, const double *restrict labels,
                   const double *restrict weights) {
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) {
        const double at = scores[r], y = labels[r], weight = weights ? weights[r] : 1;
        if (missing(y) || !(weight > 0)) continue;
        @value.before@
        sum += weight * @value.0@;
    }
    return sum;
}
"""

LOOK = r"""
#include <stdint.h>

/* Whether rows can be learned, before any is: bits of BROKEN to UNSORTED, and the longest row. */
#define LOOK(value) \
void paroli_look_##value(const int64_t rows, const int64_t *restrict indptr, const int64_t total, \
                         const int32_t *restrict indices, const value *restrict values, \
                         const int64_t dimensions, const value smallest, const value largest, \
                         int64_t *restrict found) { \
    int64_t longest = 0, falls = 0; \
    int32_t broken = indptr[0] != 0 || indptr[rows] != total, refused = 0, tiny = 0; \
    for (int64_t r = 0; r < rows; r++) { \
        const int64_t count = indptr[r + 1] - indptr[r]; \
        broken |= count < 0; \
        longest = count > longest ? count : longest; \
    } \
    found[0] = @BROKEN@; \
    if (broken) return; \
    int32_t least = 0, most = -1; \
    for (int64_t j = 0; j < total; j++) { \
        least = indices[j] < least ? indices[j] : least; \
        most = indices[j] > most ? indices[j] : most; \
    } \
    /* A part at a time: counts of few bits. */ \
    for (int64_t begin = 0; begin < total; begin += 4096) { \
        const int64_t end = begin + 4096 < total ? begin + 4096 : total; \
        int32_t large = 0, small = 0, down = 0; \
        for (int64_t j = begin; j < end; j++) { \
            const value size = values[j] < 0 ? -values[j] : values[j]; \
            large += size <= largest ? 0 : 1; \
            small += size < smallest ? 1 : 0; \
        } \
        for (int64_t j = begin > 0 ? begin : 1; j < end; j++) \
            down += indices[j] <= indices[j - 1]; \
        refused |= large > 0; \
        tiny |= small > 0; \
        falls += down; \
    } \
    /* Where one row ends and the next begins features may fall. */ \
    for (int64_t r = 0; r < rows; r++) { \
        const int64_t first = indptr[r]; \
        if (first > 0 && first < indptr[r + 1]) falls -= indices[first] <= indices[first - 1]; \
    } \
    found[0] = (least < 0 || most >= dimensions) * @OUTSIDE@ + refused * @REFUSED@ \
             + tiny * @TINY@ + (falls > 0) * @UNSORTED@; \
    found[1] = longest; \
}
LOOK(float)
LOOK(double)
"""

COSTLY = ("divide", "sqrt")
"""What is worth keeping from a bet until the features are updated, instead of computing it anew."""


def source(learner: linear, real: str, value: str) -> tuple[str, int]:
    """The row loop of a learner, with features kept as ``real`` and values given as ``value``.

    Also how many columns a block of features has.
    """
    xp, space = NAMESPACE, TraceSpace()
    template = learner.start(0.0)
    paths = list(flatten(template))
    state: Linear = unflatten(template, {path: number(path) for path in paths})
    inputs: dict[str, str] = {path: f"num[{i}]" for i, path in enumerate(paths)}

    x = entry("x", real)
    names = learner.bets.columns(xp, x)
    features = learner.bets.unpack(xp, [entry(name, real) for name in names])
    columns = [*names, "x", *Bet._fields]
    for name in ("present", "send", "wealth", "clock", "rounds", "again", "y", "weight", "at"):
        inputs[name] = name
    inputs |= {name: name for name in ("each", "unit")}
    sums = Sums(*[number(f"sum {k}") for k in range(3)])
    inputs |= {f"sum {k}": f"sums[{k}]" for k in range(3)}
    y, weight, each = number("y"), number("weight"), number("each")

    parts: dict[str, str] = {
        "real": TYPES[real], "value": TYPES[value], "fields": str(len(names)),
        "lanes": str(LANES), "line": str(LINE), "ahead": str(AHEAD), "stream": str(STREAM),
        **{name: inputs[f"bet.{name}"] for name in ("wealth", "clock", "rounds")},
    }  # fmt: skip

    def part(
        name: str, results: Mapping[str, Node], stored: Mapping[str, str], unless: str = ""
    ) -> None:
        """One part of the skeleton: ``stored`` are C types and names of what it changes."""
        body = Body(list(results.values()), inputs)
        parts[f"{name}.before"] = "\n".join(body.before)
        parts[f"{name}.inside"] = "\n".join(body.inside)
        made = dict(zip(results, body.results, strict=True))
        parts.update({f"{name}.{key}": value for key, value in made.items()})
        # All values first: one may be made of what another replaces.
        lines = [
            f"const {kind} new_{i} = {made[key]};" for i, (key, kind) in enumerate(stored.items())
        ]
        for i, key in enumerate(stored):
            kept = f"{unless} ? {inputs[key]} : new_{i}" if unless else f"new_{i}"
            lines.append(f"{inputs[key]} = {kept};")
        parts[f"{name}.store"] = "\n".join(lines)

    def of_features(columns: Sequence[str]) -> dict[str, str]:
        return dict.fromkeys(columns, TYPES[real])

    announced = learner.bets.announce(space, state.bet, features, x, number("present"))

    # From here on x counts as `counted` says: announced, |x| may still exceed M.
    within = learner.bets.counted(xp, features, x)
    bet, added = learner.bets.bet(space, state.bet, features, within)

    known = Bet(*[entry(name, real) for name in Bet._fields])
    of_bet: dict[str, Any] = {name: number(name) for name in ("wealth", "clock", "rounds")}
    updated = learner.bets.update(
        space, state.bet._replace(**of_bet), features, known, number("send"), number("again")
    )

    packed = [learner.bets.pack(each_of) for each_of in (announced, updated)]
    news, bets, adds, changes = _split(
        without_roots([*packed[0], *bet, *map(summand, added), *packed[1]]),
        [len(names), len(bet), len(added), len(names)],
    )
    before = {id(node) for node in in_order([*bets, *adds])}
    kept = [n for n in in_order(changes) if n.op in COSTLY and not n.uniform and id(n) in before]
    extra = {f"kept {k}": node for k, node in enumerate(kept)}
    summed = {f"summed {k}": node for k, node in enumerate(adds)}
    columns += [*extra, *summed]  # `add_up` finds the last ones
    inputs |= {name: f"f[{k} * LANES + j]" for k, name in enumerate(columns)}
    swapped = {id(node): entry(name, real) for name, node in extra.items()}
    changes = _replaced(changes, swapped)
    parts["columns"] = str(len(columns))

    part("announce", dict(zip(names, news, strict=True)), of_features(names), unless="seen")
    results = dict(zip(Bet._fields, bets, strict=True)) | extra | summed
    part("bet", results, of_features(list(results)))
    part("update", dict(zip(names, changes, strict=True)), of_features(names))
    part("value", {"0": learner.loss.value(xp, number("at"), y)}, {})
    part("score", {"0": learner.score(xp, state, sums)}, {})

    doubles = dict.fromkeys(paths, "double")
    observed, steps, weighs, unit = learner.observe(xp, state, sums, y, weight)
    part("observe", flatten(observed) | {"steps": steps, "each": weighs, "unit": unit}, doubles)
    settled, send = learner.settle(xp, state, sums, number("at"), y, each)
    part("settle", flatten(settled) | {"send": send}, doubles)
    part("finish", flatten(learner.finish(xp, state, number("unit"))), doubles)

    text = SKELETON
    for name, code in parts.items():
        text = text.replace(f"@{name}@", code)
    return PRELUDE + text, len(columns)


def _split(nodes: Sequence[Node], counts: Sequence[int]) -> list[list[Node]]:
    rest = iter(nodes)
    return [[next(rest) for _ in range(count)] for count in counts]


def _replaced(nodes: Sequence[Node], swapped: Mapping[int, Node]) -> list[Node]:
    """The same with other nodes in some places."""
    new: dict[int, Node] = {}
    for old in in_order(nodes):
        args = [new[id(arg)] for arg in old.args]
        same = all(a is b for a, b in zip(args, old.args, strict=True))
        made = old if same else Node(old.op, args, old.kind, old.dtype, old.label)
        new[id(old)] = swapped.get(id(old), made)
    return [new[id(node)] for node in nodes]


@cache
def _library(learner: linear, real: str, value: str) -> tuple[ctypes.CDLL, int]:
    text, columns = source(learner, real, value)
    return load("rows", text, FLAGS), columns


@cache
def _function(learner: linear, real: str, value: str) -> tuple[Callable[..., None], int]:
    library, columns = _library(learner, real, value)
    function: Callable[..., None] = library.paroli_rows
    function.restype = None  # type: ignore[attr-defined]
    pointer, count, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    function.argtypes = [  # type: ignore[attr-defined]
        count, *[pointer] * 5, flag, *[pointer] * 7, flag, flag, ctypes.c_double,
    ]  # fmt: skip
    return function, columns


FAR = 1 << 19
"""Tables of more bytes than this are read ahead."""

AHEAD = 192
"""By how many features."""

STREAM = 512
"""By how many values the rows themselves are read ahead."""


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
    seen: plain.Seen = plain.Seen(plain.UNSORTED, None),
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
        seen: what `look` found.
    """
    function, columns = _function(learner, table.dtype.name, values.dtype.name)
    count = len(indptr) - 1
    longest = int(np.diff(indptr).max(initial=0)) if seen.longest is None else seen.longest
    row, x, f, place = _room(longest, columns, table.dtype)
    out = np.empty(count)
    function(
        count, _at(indptr), _at(indices), _at(values), _at(labels), _at(weights), intercept,
        _at(table), _at(numbers), _at(row), _at(x), _at(f), _at(place), _at(out),
        not seen.bits, table.nbytes > FAR, float(again),
    )  # fmt: skip
    return out


@cache
def _look(value: str) -> Callable[..., None]:
    text = LOOK
    for name in ("BROKEN", "OUTSIDE", "REFUSED", "TINY", "UNSORTED"):
        text = text.replace(f"@{name}@", str(getattr(plain, name)))
    function: Callable[..., None] = getattr(load("look", text), f"paroli_look_{TYPES[value]}")
    real = {"float32": ctypes.c_float, "float64": ctypes.c_double}[value]
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    function.restype = None  # type: ignore[attr-defined]
    function.argtypes = [  # type: ignore[attr-defined]
        count, pointer, count, pointer, pointer, count, real, real, pointer,
    ]  # fmt: skip
    return function


def look(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    dimensions: int,
    smallest: float,
    largest: float,
) -> plain.Seen:
    """As `paroli.linear.plain.look`."""
    found = np.zeros(2, np.int64)
    _look(values.dtype.name)(
        len(indptr) - 1, _at(indptr), len(indices), _at(indices), _at(values), dimensions,
        smallest, largest, _at(found),
    )  # fmt: skip
    return plain.Seen(int(found[0]), int(found[1]))


def aligned(rows: int, columns: int, dtype: Any) -> npt.NDArray[Any]:
    """Zeros that begin where a line of memory begins."""
    count, size = rows * columns, np.dtype(dtype).itemsize
    whole = np.zeros(count + LINE // size, dtype)
    skip = -whole.ctypes.data % LINE // size
    return whole[skip : skip + count].reshape(rows, columns)


def _room(width: int, columns: int, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], ...]:
    """For rows of so many features: the features, their values, blocks, and places for hashes."""
    padded = (width + 1 + LANES) // LANES * LANES
    return (
        np.empty(padded, np.int32),
        np.empty(padded, dtype),
        aligned(padded, columns, dtype),
        np.empty(1 << (2 * padded + 2).bit_length(), np.int32),
    )


def total_loss(
    learner: linear,
    precision: str,
    scores: npt.NDArray[np.float64],
    labels: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64] | None,
) -> float:
    """The sum of the losses at scores, each times its weight; where a label is NaN there is none.

    The precision is that of the row loop: it is the same library.
    """
    function = _library(learner, precision, precision)[0].paroli_loss
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_int64, *[ctypes.c_void_p] * 3]
    total: float = function(len(labels), _at(scores), _at(labels), _at(weights))
    return total


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
        self._call, self._columns = _function(learner, table.dtype.name, "float64")
        self._table, self._numbers, self._intercept = table, numbers, intercept
        self._room(64)

    def _room(self, width: int) -> None:
        self._width = width
        self._indptr, self._indices = np.zeros(2, np.int64), np.zeros(width, np.int32)
        self._values, self._told, self._out = np.zeros(width), np.zeros(2), np.zeros(1)
        self._kept = _room(width, self._columns, self._table.dtype)
        told = _at(self._told)
        assert told is not None
        self._before = 1, _at(self._indptr), _at(self._indices), _at(self._values)
        self._labelled = told, told + self._told.itemsize
        self._after = (
            self._intercept, _at(self._table), _at(self._numbers), *map(_at, self._kept),
            _at(self._out), 0, 0, 0.0,
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
