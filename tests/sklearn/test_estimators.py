"""scikit-learn's own checks, and what they do not ask for."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import PoissonRegressor, QuantileRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from paroli.sklearn import RecursiveClassifier, RecursiveRegressor

ORDER = "rows are learned in an order, and a heavy row in one place of it"


@parametrize_with_checks(
    [
        RecursiveClassifier(),
        RecursiveClassifier(loss="hinge", n_passes=2, average=False, half_life=50.0),
        RecursiveRegressor(),
        RecursiveRegressor(loss="quantile", inner="scinol"),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": ORDER,
        "check_sample_weight_equivalence_on_sparse_data": ORDER,
    },
)
def test_estimator_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def binary(rows: int = 500, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 6))
    return X, np.where(X @ [3, -2, 1, 0, 0, 0] + rng.standard_normal(rows) > 0, "yes", "no")


def counts(rows: int = 4000, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 3))
    return X, rng.poisson(np.exp(X @ [0.5, -0.3, 0.0] + 1.0)).astype(float)


def test_scaling_a_feature_changes_nothing() -> None:
    X, y = binary()
    powers = 2.0 ** np.array([-20, 13, 0, 7, -3, 30])  # exact in floating point
    for model in (
        RecursiveClassifier(shuffle=False),
        RecursiveClassifier(inner="scinol", shuffle=False),
    ):
        plain = clone(model).fit(X, y).decision_function(X)
        scaled = clone(model).fit(X * powers, y).decision_function(X * powers)
        assert (plain == scaled).all()
    by_any = 10.0 ** np.random.default_rng(0).uniform(-3, 3, 6)
    scaled = clone(model).fit(X * by_any, y).decision_function(X * by_any)
    np.testing.assert_allclose(scaled, plain, rtol=1e-9)


def test_scaling_labels_scales_predictions() -> None:
    X, y = load_diabetes(return_X_y=True)
    for loss in ("squared", "absolute", "quantile"):
        model = RecursiveRegressor(loss, shuffle=False)
        plain = clone(model).fit(X, y).predict(X)
        scaled = clone(model).fit(X, 1e4 * y - 3e5).predict(X)
        np.testing.assert_allclose((scaled + 3e5) / 1e4, plain, rtol=1e-6)


def test_missing_values_are_skipped() -> None:
    """NaN is what the feature's absence is in sparse rows."""
    X, y = binary()
    there = np.random.default_rng(1).random(X.shape) < 0.7
    skipped = RecursiveClassifier(shuffle=False).fit(np.where(there, X, np.nan), y)
    absent = RecursiveClassifier(shuffle=False).fit(np.where(there, X, 0.0), y)
    assert (skipped.coef_ == absent.coef_).all()
    some = np.where(there, X, np.nan)
    assert (skipped.decision_function(some) == absent.decision_function(np.nan_to_num(some))).all()
    assert np.isfinite(skipped.predict_proba(some)).all()


@pytest.mark.parametrize("form", ["csr", "csc", "float32", "fortran", "unsorted"])
def test_forms_of_input(form: str) -> None:
    X, y = binary()
    X = np.where(np.abs(X) < 0.5, 0.0, X).astype(np.float32).astype(np.float64)
    made = {
        "csr": sp.csr_matrix(X),
        "csc": sp.csc_array(X),
        "float32": X.astype(np.float32),
        "fortran": np.asfortranarray(X),
        "unsorted": sp.csr_array(X[:, ::-1])[:, ::-1],
    }[form]
    plain = RecursiveClassifier(shuffle=False).fit(X, y)
    other = RecursiveClassifier(shuffle=False).fit(made, y)
    np.testing.assert_allclose(other.coef_, plain.coef_, rtol=1e-5 if form == "float32" else 1e-9)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library: str) -> None:
    frames = pytest.importorskip(library)
    X, y = binary()
    names = list("abcdef")
    frame = frames.DataFrame({name: X[:, i] for i, name in enumerate(names)})
    model = RecursiveClassifier(shuffle=False).fit(frame, y)
    assert model.feature_names_in_.tolist() == names
    assert (model.coef_ == RecursiveClassifier(shuffle=False).fit(X, y).coef_).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[names[::-1]])


def test_blocks_are_one_stream() -> None:
    X, y = binary()
    whole = RecursiveClassifier(shuffle=False).fit(X, y)
    parts = RecursiveClassifier()
    for begin, end in [(0, 1), (1, 7), (7, 300), (300, 500)]:
        parts.partial_fit(X[begin:end], y[begin:end], classes=["no", "yes"])
    assert (parts.decision_function(X) == whole.decision_function(X)).all()
    assert parts.progressive_loss_ == pytest.approx(whole.progressive_loss_, rel=1e-12)


def test_progressive_loss_is_that_of_predictions_made_before() -> None:
    X, y = binary(100)
    model, told = RecursiveClassifier(), []
    for t in range(100):
        if t:
            told.append(model.predict_proba(X[t : t + 1])[0, int(y[t] == "yes")])
        model.partial_fit(X[t : t + 1], y[t : t + 1], classes=["no", "yes"])
    own = (-np.log(told).sum() + np.log(2)) / 100
    assert model.progressive_loss_ == pytest.approx(own, rel=1e-12)


def test_several_passes_keep_the_first_ones_validation() -> None:
    X, y = binary()
    once = RecursiveClassifier(random_state=0).fit(X, y)
    often = RecursiveClassifier(random_state=0, n_passes=3).fit(X, y)
    assert often.progressive_loss_ == once.progressive_loss_
    assert (often.coef_ != once.coef_).any()


def test_further_passes_are_held_back_by_the_prior() -> None:
    """Few rows of many features, all noise: without it they are learned by heart."""
    rng = np.random.default_rng(0)
    X, y = (rng.random((200, 500)) < 0.1).astype(float), rng.random(200) < 0.5
    size = [
        float(
            np.linalg.norm(RecursiveClassifier(random_state=0, n_passes=5, prior=p).fit(X, y).coef_)
        )
        for p in (0.0, 3.0)
    ]
    assert size[1] < 0.5 * size[0]


def test_pickled_models_go_on_alike() -> None:
    X, y = load_digits(return_X_y=True)
    model = RecursiveClassifier(shuffle=False).fit(X[:500], y[:500])
    other = pickle.loads(pickle.dumps(model))
    for each in (model, other):
        each.partial_fit(X[500:700], y[500:700])
    assert (model.predict_proba(X) == other.predict_proba(X)).all()


def test_warm_start_goes_on() -> None:
    X, y = binary()
    model = (
        RecursiveClassifier(shuffle=False, warm_start=True)
        .fit(X[:200], y[:200])
        .fit(X[200:], y[200:])
    )
    assert (model.coef_ == RecursiveClassifier(shuffle=False).fit(X, y).coef_).all()
    with pytest.raises(ValueError, match="does not know"):
        model.fit(X, np.where(y == "yes", "maybe", y))


def test_weights() -> None:
    X, y = binary()
    plain = RecursiveClassifier(shuffle=False).fit(X, y)
    scaled = RecursiveClassifier(shuffle=False).fit(X, y, np.full(500, 1e-7))
    np.testing.assert_allclose(scaled.coef_, plain.coef_, rtol=1e-9)
    ignored = RecursiveClassifier(shuffle=False).fit(X, y, np.arange(500) < 300)
    assert (ignored.coef_ == RecursiveClassifier(shuffle=False).fit(X[:300], y[:300]).coef_).all()
    heavy = RecursiveClassifier(shuffle=False, class_weight={"yes": 20.0, "no": 1.0}).fit(X, y)
    assert (heavy.predict(X) == "yes").mean() > (plain.predict(X) == "yes").mean() + 0.1
    balanced = RecursiveClassifier(shuffle=False, class_weight="balanced").fit(X, y)
    assert (balanced.predict(X) == "yes").mean() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [("quantile", 0.9), ("absolute", 0.5)],
)
def test_quantiles(loss: str, expected: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    y = X @ [1.0, 2.0, 0.0] + rng.exponential(1.0, 4000)
    model = RecursiveRegressor(loss, quantile=0.9, random_state=0).fit(X, y)
    assert (y <= model.predict(X)).mean() == pytest.approx(expected, abs=0.03)
    best = QuantileRegressor(quantile=expected, alpha=0).fit(X[:1000], y[:1000])
    np.testing.assert_allclose(model.coef_, best.coef_, atol=0.25)


def test_counts() -> None:
    X, y = counts()
    model = RecursiveRegressor("poisson", random_state=0).fit(X, y)
    best = PoissonRegressor(alpha=0).fit(X, y)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=0.1)
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.05)
    with pytest.raises(ValueError, match="0 or more"):
        RecursiveRegressor("poisson").fit(X, y - 1)


def test_huber_stands_outlying_labels() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 2))
    y = X @ [1.0, -1.0]
    y[rng.random(4000) < 0.05] += 1000
    errors = {
        loss: np.abs(RecursiveRegressor(loss, random_state=0).fit(X, y).coef_ - [1, -1]).max()
        for loss in ("huber", "squared")
    }
    assert errors["huber"] < 0.3 < errors["squared"]


def test_one_against_all_is_calibrated() -> None:
    X, y = load_digits(return_X_y=True)
    model = RecursiveClassifier(random_state=0).fit(X[:1000], y[:1000])
    shares = model.predict_proba(X[1000:])
    assert shares.sum(axis=1) == pytest.approx(1.0)
    sure = shares.max(axis=1)
    right = model.predict(X[1000:]) == y[1000:]
    assert right.mean() > 0.85
    assert sure.mean() == pytest.approx(right.mean(), abs=0.05)


@pytest.mark.parametrize(
    ("X", "y", "weights", "message"),
    [
        ([[np.inf]], ["yes"], None, "infinity"),
        ([[1.0]], ["maybe"], None, "does not know"),
        ([[1.0]], ["yes"], [-1.0], "Negative"),
        ([[1.0]], ["yes"], [np.nan], "NaN"),
        ([[1.0, 2.0]], ["yes"], None, "features"),
    ],
)
def test_what_would_corrupt_is_refused(X: Any, y: Any, weights: Any, message: str) -> None:
    model = RecursiveClassifier().partial_fit([[1.0], [-1.0]], ["yes", "no"], classes=["no", "yes"])
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y, sample_weight=weights)
    assert pickle.dumps(model) == before
