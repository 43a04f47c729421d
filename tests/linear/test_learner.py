"""`LinearLearner`: kept and resumed, cut and grown, refused and warned."""

from __future__ import annotations

import pickle
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from paroli.linear import LinearLearner, learner, native
from paroli.linear.learner import CLASSIFYING, LOSSES, RANGE
from paroli.native.build import NoCompilerError
from tests.linear.test_rows import Stream


def stream(loss: str = "logistic", rows: int = 400, *, heavy: bool = False) -> SimpleNamespace:
    return Stream(7, rows, 8, loss, 1.0, heavy).batch()


def cut(batch: SimpleNamespace, begin: int, end: int) -> SimpleNamespace:
    first, last = batch.indptr[begin], batch.indptr[end]
    return SimpleNamespace(
        indptr=batch.indptr[begin : end + 1] - first,
        indices=batch.indices[first:last],
        values=batch.values[first:last],
        labels=batch.labels[begin:end],
        weights=None if batch.weights is None else batch.weights[begin:end],
        dimensions=batch.dimensions,
    )


def same(a: LinearLearner, b: LinearLearner) -> bool:
    return pickle.dumps(a.to_arrays()) == pickle.dumps(b.to_arrays())


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("loss", LOSSES)
def test_how_rows_are_cut_changes_no_bit(loss: str, precision: Any) -> None:
    batch = stream(loss, heavy=True)
    whole = LinearLearner(loss, 8, precision=precision)
    parts = LinearLearner(loss, 8, precision=precision)
    scores = whole.partial_fit_batch(batch)
    ends = [0, 1, 2, 150, 151, 400]
    cuts = [cut(batch, a, b) for a, b in pairwise(ends)]
    assert np.array_equal(np.concatenate([parts.partial_fit_batch(each) for each in cuts]), scores)
    assert same(whole, parts)


@pytest.mark.parametrize("classes", [2, 3])
def test_kept_and_resumed_bit_for_bit(classes: int) -> None:
    batch = stream()
    if classes == 3:
        batch.labels = np.arange(400) % 3.0
    whole = LinearLearner("logistic", 8, classes, half_life=50.0, prior=1.0)
    whole.partial_fit_batch(cut(batch, 0, 200))
    resumed = LinearLearner.from_arrays(whole.to_arrays())
    for each in (whole, resumed):
        each.partial_fit_batch(cut(batch, 200, 400), again=True)
    assert same(whole, resumed)
    with pytest.raises(ValueError, match="another version"):
        LinearLearner.from_arrays({**whole.to_arrays(), "numbers": np.zeros((1, 2))})
    with pytest.raises(ValueError, match="columns"):
        LinearLearner.from_arrays({**whole.to_arrays(), "features.0": np.zeros((9, 2))})


def test_predictions_are_those_that_learning_makes() -> None:
    batch, model = stream(), LinearLearner("logistic", 8)
    model.partial_fit_batch(cut(batch, 0, 300))
    before = pickle.dumps(model.to_arrays())
    row = cut(batch, 300, 301)
    predicted = model.predict_batch(row)
    assert pickle.dumps(model.to_arrays()) == before
    assert model.partial_fit_batch(row) == predicted


def test_features_that_come_late_find_room() -> None:
    batch = stream()
    small, large = LinearLearner("logistic", 0), LinearLearner("logistic", 8)
    for model in (small, large):
        for k in range(0, 400, 100):
            part = cut(batch, k, k + 100)
            if model is small:
                part.dimensions = int(part.indices.max(initial=-1)) + 1
            model.partial_fit_batch(part)
    assert np.array_equal(small.weights_at(np.arange(8)), large.weights_at(np.arange(8)))
    wide = cut(batch, 0, 50)
    wide.dimensions, wide.indices = 100, wide.indices + np.int32(8)
    assert np.ptp(small.predict_batch(wide)) == 0  # what was never seen has no weight


def test_rows_without_label_or_weight_are_scored_and_not_learned() -> None:
    batch, model = stream(), LinearLearner("logistic", 8)
    model.partial_fit_batch(cut(batch, 0, 300))
    before = pickle.dumps(model.to_arrays())
    rest = cut(batch, 300, 400)
    expected = model.predict_batch(rest)
    rest.labels = np.full(100, np.nan)
    assert np.array_equal(model.partial_fit_batch(rest), expected)
    rest.labels, rest.weights = np.ones(100), np.zeros(100)
    assert np.array_equal(model.partial_fit_batch(rest), expected)
    assert pickle.dumps(model.to_arrays()) == before


def test_rows_without_label_teach_no_class() -> None:
    batch, model = stream(), LinearLearner("logistic", 8, 3)
    batch.labels = np.where(np.arange(400) % 5 == 0, np.nan, np.arange(400) % 3.0)
    scores = model.partial_fit_batch(batch)
    assert scores.shape == (400, 3)
    labelled, known = LinearLearner("logistic", 8, 3), ~np.isnan(batch.labels)
    for t in np.flatnonzero(known):
        labelled.partial_fit_batch(cut(batch, t, t + 1))
    assert same(model, labelled)
    losses = model.losses(scores, batch.labels)
    assert np.array_equal(np.isnan(losses), ~known)
    assert np.nanmean(losses) < 2


def test_a_row_of_weight_three_is_three_rows() -> None:
    """Weights are relative to their mean: here it is 1 in each round of three."""
    batch = stream()
    batch.weights = None
    weighed, repeated = LinearLearner("logistic", 8), LinearLearner("logistic", 8)
    weighed.partial_fit_batch(cut(batch, 0, 300))
    repeated.partial_fit_batch(cut(batch, 0, 300))
    row = cut(batch, 300, 301)
    for _ in range(3):
        repeated.partial_fit_batch(row)
    row.weights = np.array([3 * 300 / 298])  # the mean is then 301 * 3 / 903
    weighed.partial_fit_batch(row)
    w, expected = weighed.weights_at(np.arange(8)), repeated.weights_at(np.arange(8))
    np.testing.assert_allclose(w, expected, rtol=0.02, atol=1e-3)


def test_heavy_weights_are_followed() -> None:
    """A rare kind of rows that has nearly all of the weight decides."""
    rng = np.random.default_rng(0)
    rare = rng.random(4000) < 0.02
    labels = np.where(rare, 1.0, -1.0)
    batch = SimpleNamespace(
        indptr=np.arange(4001),
        indices=np.zeros(4000, dtype=np.int32),
        values=np.ones(4000),
        labels=labels,
        weights=np.where(rare, 1e4, 1.0),
        dimensions=1,
    )
    model = LinearLearner("logistic", 1)
    model.partial_fit_batch(batch)
    assert model.predict_batch(batch)[0] > 3  # the odds of the weights are 200


def test_forgetting_follows_a_change() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40_000, 20))
    old, new = rng.standard_normal((2, 20))
    odds = np.where(np.arange(40_000) < 32_000, x @ old, x @ new)
    batch = SimpleNamespace(
        indptr=np.arange(0, 800_001, 20),
        indices=np.tile(np.arange(20, dtype=np.int32), 40_000),
        values=x.ravel(),
        labels=np.where(rng.random(40_000) < 1 / (1 + np.exp(-odds)), 1.0, -1.0),
        weights=None,
        dimensions=20,
    )
    after = slice(32_000, 36_000)
    loss = []
    for half_life in (None, 1000.0):
        model = LinearLearner("logistic", 20, half_life=half_life)
        scores = model.partial_fit_batch(batch)
        loss.append(model.losses(scores[after], batch.labels[after]).mean())
    assert loss[1] < 0.85 * loss[0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("label", [np.inf, -np.inf, 0.5])
def test_labels_that_make_no_sense_are_refused(loss: str, label: float) -> None:
    if label == 0.5 and loss not in CLASSIFYING:
        return
    model, batch = LinearLearner(loss, 8), stream(loss)
    model.partial_fit_batch(cut(batch, 0, 100))
    before = pickle.dumps(model.to_arrays())
    rest = cut(batch, 100, 200)
    rest.labels[50] = label
    with pytest.raises(ValueError, match="nothing was learned"):
        model.partial_fit_batch(rest)
    assert pickle.dumps(model.to_arrays()) == before


def broken(**changes: Any) -> SimpleNamespace:
    batch = cut(stream(), 0, 20)
    for name, value in changes.items():
        setattr(batch, name, value)
    return batch


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_values_of_any_size_leave_everything_finite(precision: Any) -> None:
    smallest, largest = RANGE[precision]
    rng = np.random.default_rng(0)
    sizes = np.array([smallest / 10, smallest, 1.0, largest / 2, largest])
    batch = SimpleNamespace(
        indptr=np.arange(0, 15_001, 5),
        indices=np.tile(np.arange(5, dtype=np.int32), 3000),
        values=(rng.choice([0.1, 1.0], (3000, 5)) * rng.choice([-1, 1], (3000, 5)) * sizes).ravel(),
        labels=rng.choice([-1.0, 1.0], 3000),
        weights=None,
        dimensions=5,
    )
    for name in ("margin", "paper"):
        model = LinearLearner("logistic", 5, precision=precision, variant=name)
        assert np.isfinite(model.partial_fit_batch(batch)).all()
        arrays = model.to_arrays()
        assert all(np.isfinite(a).all() for a in arrays.values() if isinstance(a, np.ndarray))
        assert model.weights_at(np.arange(1))[0] == 0
    batch.values[7] = 2 * largest
    with pytest.raises(ValueError, match="another unit"):
        model.partial_fit_batch(batch)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (broken(values=np.full(int(broken().indptr[-1]), np.nan)), "finite"),
        (broken(indices=np.full(int(broken().indptr[-1]), 8, dtype=np.int32)), "dimensions"),
        (broken(indices=np.full(int(broken().indptr[-1]), -1, dtype=np.int32)), "dimensions"),
        (broken(indptr=broken().indptr[::-1].copy()), "indptr"),
        (broken(values=np.ones(3)), "values"),
        (broken(labels=np.ones(3)), "labels"),
        (broken(labels=None), "no labels"),
        (broken(weights=np.full(20, -1.0)), "weights"),
        (broken(weights=np.full(20, np.inf)), "weights"),
        (broken(weights=np.ones(3)), "weights"),
    ],
)
def test_blocks_that_would_corrupt_are_refused(batch: SimpleNamespace, message: str) -> None:
    model = LinearLearner("logistic", 8)
    before = pickle.dumps(model.to_arrays())
    with pytest.raises(ValueError, match=message):
        model.partial_fit_batch(batch)
    assert pickle.dumps(model.to_arrays()) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "cubic"}, "logistic, hinge"),
        ({"inner": "adam"}, "both"),
        ({"precision": "half"}, "float32"),
        ({"half_life": 0.0}, "positive"),
        ({"variant": "other"}, "paper"),
        ({"variant": "paper", "inner": "scinol"}, "Algorithm 2"),
        ({"loss": "quantile", "quantile": 1.0}, "in \\(0"),
        ({"epsilon": 0.0}, "epsilon"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearLearner(**options)


def test_without_a_compiler_it_learns_in_numpy_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails() -> None:
        raise NoCompilerError("no compiler here")

    batch = cut(stream(), 0, 100)
    compiled = LinearLearner("logistic", 8, precision="float64").partial_fit_batch(batch)
    monkeypatch.setattr(learner, "_told", [])
    monkeypatch.setattr(native, "warm_up", fails)
    model = LinearLearner("logistic", 8, precision="float64")
    with pytest.warns(RuntimeWarning, match="no compiler here"):
        scores = model.partial_fit_batch(batch)
    np.testing.assert_allclose(scores, compiled, rtol=1e-9, atol=1e-12)
    model.partial_fit_batch(batch)  # warnings are errors here: it is not said again


def slopes(loss: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    model = LinearLearner(loss, 1, quantile=0.3, delta=0.7)
    s = np.linspace(-3, 3, 61) + 0.013  # no kink is hit
    y = {"logistic": -1.0, "hinge": 1.0, "poisson": 2.0}.get(loss, 0.5)
    h = 1e-6
    values = [model.loss.value(np, s + step, np.full(61, y)) for step in (-h, h)]
    return (values[1] - values[0]) / (2 * h), np.asarray(model.loss.slope(np, s, np.full(61, y)))


@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_are_derivatives(loss: str) -> None:
    numeric, own = slopes(loss)
    np.testing.assert_allclose(own, numeric, atol=1e-6)
    assert np.ptp(own) > 0
