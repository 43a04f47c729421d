"""Row by row: lazy is dense, C is NumPy, and how rows are cut or written changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paroli import OnlineLearner, diagonal, recursive, rescaled
from paroli.linear import LinearLearner, learner, native, plain
from paroli.linear.learner import INNER, LOSSES
from paroli.native.build import available
from tests.linear import literal

needs_compiler = pytest.mark.skipif(not available(), reason="no C compiler")


@dataclass(frozen=True)
class Stream:
    """How rows are made: a recipe and a seed."""

    seed: int
    rows: int
    d: int
    loss: str
    scale: float
    heavy: bool
    """Whether some weights are large, some 0, and some labels missing."""
    longest: int = 5

    def batch(self) -> SimpleNamespace:
        """Rows with features twice, zeros, outliers, and features that come late."""
        rng = np.random.default_rng(self.seed)
        unit = 10.0 ** rng.uniform(-3, 3, self.d)
        indptr, indices, values = [0], [], []
        for t in range(self.rows):
            there = 1 + (self.d - 1) * t // max(self.rows - 1, 1)  # late features
            row = rng.integers(0, there, rng.integers(0, self.longest + 1))
            x = rng.standard_normal(len(row)) * unit[row]
            x[rng.random(len(row)) < 0.1] = 0.0
            x[rng.random(len(row)) < 0.05] *= 100
            indices += row.tolist()
            values += x.tolist()
            indptr.append(len(indices))
        w = rng.standard_normal(self.d) / unit
        score = np.add.reduceat([*(np.array(values) * w[indices]), 0.0], indptr[:-1])
        score[np.diff(indptr) == 0] = 0.0
        score = np.clip(score, -10, 10) + rng.standard_normal(self.rows)
        if self.loss in ("logistic", "hinge"):
            labels = np.where(score > 0, 1.0, -1.0)
        elif self.loss == "poisson":
            labels = rng.poisson(np.exp(np.clip(score, -3, 3))).astype(float)
        else:
            labels = self.scale * (score + 5.0)
        weights = np.ones(self.rows)
        if self.heavy:
            weights = rng.pareto(1.5, self.rows) * (rng.random(self.rows) < 0.8)
            labels[rng.random(self.rows) < 0.1] = np.nan
        return SimpleNamespace(
            indptr=np.array(indptr, dtype=np.int64),
            indices=np.array(indices, dtype=np.int32),
            values=np.array(values, dtype=np.float64),
            labels=labels,
            weights=weights,
            dimensions=self.d,
        )


def streams(losses: tuple[str, ...] = LOSSES, max_rows: int = 60) -> st.SearchStrategy[Stream]:
    return st.builds(
        Stream,
        seed=st.integers(0, 2**16),
        rows=st.integers(1, max_rows),
        d=st.integers(1, 8),
        loss=st.sampled_from(losses),
        scale=st.sampled_from([1.0, 1e4, 1e-4]),
        heavy=st.booleans(),
    )


OPTIONS = st.fixed_dictionaries(
    {
        "inner": st.sampled_from(sorted(INNER)),
        "average": st.booleans(),
        "half_life": st.sampled_from([None, 3.0, 100.0]),
        "prior": st.sampled_from([0.0, 3.0]),
        "epsilon": st.sampled_from([1.0, 0.1]),
        "quantile": st.sampled_from([0.5, 0.2]),
        "delta": st.sampled_from([1.0, 0.3]),
    }
)


def as_lists(
    batch: SimpleNamespace,
) -> tuple[list[dict[int, float]], list[float], list[float]]:
    rows: list[dict[int, float]] = []
    for begin, end in zip(batch.indptr[:-1], batch.indptr[1:], strict=True):
        row: dict[int, float] = {}
        for i, x in zip(batch.indices[begin:end], batch.values[begin:end], strict=True):
            row[int(i)] = row.get(int(i), 0.0) + float(x)
        rows.append(row)
    return 2 * rows, 2 * batch.labels.tolist(), 2 * batch.weights.tolist()


def played(batch: SimpleNamespace, compiled: bool, **options: Any) -> npt.NDArray[np.float64]:
    """The scores of two passes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learner, "_told", [compiled])
        model = LinearLearner(dimensions=batch.dimensions, precision="float64", **options)
        scores = [model.partial_fit_batch(batch, again=again) for again in (False, True)]
        return np.concatenate(scores)


def distance(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    a, b = np.asarray(a), np.asarray(b)
    return float(np.abs(a - b).max(initial=0.0) / max(1.0, np.abs(b).max(initial=0.0)))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(stream=streams(), options=OPTIONS)
def test_lazy_is_dense(stream: Stream, options: dict[str, Any]) -> None:
    batch = stream.batch()
    dense = literal.play(*as_lists(batch), stream.d, loss=stream.loss, first=stream.rows, **options)
    assert distance(played(batch, False, loss=stream.loss, **options), dense) < 1e-10


# Few options, since each has its own machine code.
COMPILED: list[dict[str, Any]] = [
    {},
    {
        "inner": "diagonal",
        "average": False,
        "half_life": 3.0,
        "prior": 3.0,
        "delta": 0.3,
        "quantile": 0.2,
    },
]


@needs_compiler
@pytest.mark.parametrize("options", COMPILED, ids=["usual", "other"])
@settings(max_examples=80, deadline=None, derandomize=True)
@given(stream=streams(max_rows=300))
def test_compiled_is_dense(stream: Stream, options: dict[str, Any]) -> None:
    batch = stream.batch()
    dense = literal.play(*as_lists(batch), stream.d, loss=stream.loss, first=stream.rows, **options)
    assert distance(played(batch, True, loss=stream.loss, **options), dense) < 1e-10


@needs_compiler
@pytest.mark.parametrize("options", [{}, {"prior": 3.0}, {"inner": "scinol"}], ids=str)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**16),
    longest=st.integers(6, 60),
    d=st.integers(1, 60),
    heavy=st.booleans(),
    repeated=st.booleans(),
)
def test_long_rows_are_those_of_numpy(
    options: dict[str, Any], seed: int, longest: int, d: int, heavy: bool, repeated: bool
) -> None:
    """Rows of several blocks, with something left over, sorted or not."""
    batch = Stream(seed, 40, d, "logistic", 1.0, heavy, longest).batch()
    if not repeated:
        rows = [dict(sorted(row.items())) for row in as_lists(batch)[0][:40]]
        rows = [{i: x for i, x in row.items() if x} for row in rows]
        batch.indptr = np.cumsum([0, *map(len, rows)])
        batch.indices = np.array([i for row in rows for i in row], dtype=np.int32)
        batch.values = np.array([x for row in rows for x in row.values()])
    assert distance(played(batch, True, **options), played(batch, False, **options)) < 1e-10


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_compiler)])
def test_the_papers_variant_is_the_bricks_stack(compiled: bool) -> None:
    """``variant="paper"`` plays what the printed algorithm's bricks play on the gradients s·x."""
    batch = Stream(3, 200, 5, "logistic", 1.0, False).batch()
    got = played(batch, compiled, variant="paper", average=False)
    whole = OnlineLearner(rescaled(recursive(diagonal())), start=np.zeros(6))
    rows, labels, _ = as_lists(batch)
    expected = []
    for row, y in zip(rows, labels, strict=True):
        x = np.array([row.get(i, 0.0) for i in range(5)] + [1.0])
        expected.append(x @ whole.point)
        whole.update(-y / (1 + np.exp(y * expected[-1])) * x)
    assert distance(got, expected) < 1e-10


@needs_compiler
@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data())
def test_rows_are_seen_alike(data: st.DataObject) -> None:
    """What is looked at before rows are learned: C finds what NumPy finds."""
    value = data.draw(st.sampled_from([np.float32, np.float64]))
    odd = st.sampled_from([0.0, -0.0, 1e-9, -1e-9, 1e9, np.inf, -np.inf, np.nan, 1.0, -2.0])
    counts = data.draw(st.lists(st.integers(0, 9), max_size=5))
    total = sum(counts)
    values = np.ones(total, value)
    indices = np.concatenate([[np.arange(c)] for c in counts if c] or [[[]]], axis=1)[0]
    indices = indices.astype(np.int32)
    if total:
        k = data.draw(st.integers(0, total - 1))
        values[k] = data.draw(odd)
        indices[data.draw(st.integers(0, total - 1))] += data.draw(st.integers(-3, 3))
    indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
    indptr[data.draw(st.integers(0, len(counts)))] += data.draw(st.sampled_from([0, 0, 0, 1, -1]))
    given_ = indptr, indices, values, 9, 1e-3, 1e3
    seen = native.look(*given_)
    assert seen.bits == plain.look(*given_).bits
    if not seen.bits & plain.BROKEN:
        assert seen.longest == max(counts, default=0) or (np.diff(indptr) != counts).any()


@needs_compiler
@pytest.mark.parametrize("loss", LOSSES)
def test_the_sum_of_losses_is_theirs(loss: str) -> None:
    batch = Stream(5, 200, 5, loss, 1.0, True).batch()
    scores = played(batch, True, loss=loss)[:200]
    with pytest.MonkeyPatch.context() as patch:
        totals = []
        for compiled in (True, False):
            patch.setattr(learner, "_told", [compiled])
            model = LinearLearner(loss)
            totals += [
                model.total_loss(scores, batch.labels, weights) for weights in (batch.weights, None)
            ]
    used = batch.weights * ~np.isnan(batch.labels)
    own = LinearLearner(loss).losses(scores, np.nan_to_num(batch.labels))
    assert totals[:2] == pytest.approx(totals[2:], rel=1e-12)
    assert totals[0] == pytest.approx(float(used @ own), rel=1e-12)


def test_features_begin_where_lines_of_memory_begin() -> None:
    model = LinearLearner(dimensions=3)
    model.grow(100_000)
    again = LinearLearner.from_arrays(model.to_arrays())
    for each in (model, again):
        (table,) = each._tables
        assert table.ctypes.data % native.LINE == 0
        assert native.LINE % (table.shape[1] * table.itemsize) == 0
