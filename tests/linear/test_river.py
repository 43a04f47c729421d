"""One row at a time is the same as a block, and River itself takes the models for its own."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from paroli.linear import learner
from paroli.native.build import available
from paroli.river import RecursiveClassifier, RecursiveRegressor
from tests.linear.test_rows import Stream, as_lists, played

COMPILED = [
    False,
    pytest.param(True, marks=pytest.mark.skipif(not available(), reason="no C compiler")),
]


def dicts(rows: int = 200) -> list[tuple[dict[Any, Any], bool]]:
    rng = np.random.default_rng(0)
    return [
        (
            {"a": float(rng.standard_normal()), "t": "even" if t % 2 == 0 else "odd", t % 90: 1.0},
            bool(rng.random() < 0.5),
        )
        for t in range(rows)
    ]


@pytest.mark.parametrize("compiled", COMPILED)
def test_one_row_at_a_time_is_a_block(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "_told", [compiled])
    batch = Stream(5, 150, 8, "squared", 1.0, True).batch()
    rows, labels, weights = as_lists(batch)
    model, scores = RecursiveRegressor(), []
    for row, y, w in list(zip(rows, labels, weights, strict=True))[:150]:
        scores.append(model.predict_one(row))
        if not math.isnan(y):
            model.learn_one(row, y, w)
    expected = played(batch, compiled, loss="squared")[:150]
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)


def test_features_come_late_and_are_missing() -> None:
    model = RecursiveClassifier()
    for x, y in dicts():
        model.learn_one(x, y)
        model.learn_one({**x, "none": None, "nan": math.nan}, y)
    assert ("t", "odd") in model.weights
    assert "nan" not in model.weights
    assert len(model.weights) == 93
    assert model.predict_proba_one({"unknown": 3.0}) == model.predict_proba_one({})


def test_pickled_models_go_on_alike() -> None:
    model = RecursiveClassifier()
    for x, y in dicts(100):
        model.learn_one(x, y)
    other = pickle.loads(pickle.dumps(model))
    for x, y in dicts():
        for each in (model, other):
            each.learn_one(x, y)
    assert model.weights == other.weights


@pytest.mark.parametrize(
    ("x", "y", "w"),
    [
        ({"a": math.inf}, True, 1.0),
        ({"new": 1.0, "a": math.inf}, True, 1.0),
        ({"a": 1.0}, 3, 1.0),
        ({"a": 1.0}, True, -1.0),
        ({"a": 1.0}, True, math.nan),
    ],
)
def test_what_would_corrupt_is_refused(x: Any, y: Any, w: float) -> None:
    model = RecursiveClassifier()
    for row, label in dicts(50):
        model.learn_one(row, label)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="nothing was learned"):
        model.learn_one(x, y, w)
    assert pickle.dumps(model) == before


def test_counts_are_not_negative() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        RecursiveRegressor("poisson").learn_one({"a": 1.0}, -1.0)


def test_river_evaluates_it() -> None:
    evaluate = pytest.importorskip("river.evaluate")
    metrics = pytest.importorskip("river.metrics")
    model = RecursiveClassifier()
    rows = [({"a": x["a"]}, x["a"] > 0.1) for x, _ in dicts(500)]
    assert evaluate.progressive_val_score(rows, model, metrics.Accuracy()).get() > 0.9
