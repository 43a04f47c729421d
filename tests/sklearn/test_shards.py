"""Models trained apart, here and on a cluster: what is combined is the mean of what is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from paroli.sklearn import RecursiveClassifier, RecursiveRegressor, combined
from tests.sklearn.test_estimators import binary


def shards(X: Any, y: Any, count: int, model: Any) -> list[Any]:
    return [clone(model).fit(X[k::count], y[k::count]) for k in range(count)]


def test_weights_are_the_mean_over_rows() -> None:
    X, y = binary(900)
    parts = [
        RecursiveClassifier().fit(X[:300], y[:300]),
        RecursiveClassifier().fit(X[300:], y[300:]),
    ]
    whole = combined(parts)
    np.testing.assert_allclose(whole.coef_, parts[0].coef_ / 3 + parts[1].coef_ * 2 / 3)
    np.testing.assert_allclose(
        whole.intercept_, parts[0].intercept_ / 3 + parts[1].intercept_ * 2 / 3
    )
    expected = X @ whole.coef_[0] + whole.intercept_[0]
    np.testing.assert_allclose(whole.decision_function(X), expected, rtol=1e-9, atol=1e-9)


def test_who_has_not_seen_a_feature_has_no_say_in_it() -> None:
    X, y = binary(800)
    X[:400, 2] = 0
    parts = [
        RecursiveClassifier().fit(X[:400], y[:400]),
        RecursiveClassifier().fit(X[400:], y[400:]),
    ]
    assert combined(parts).coef_[0, 2] == parts[1].coef_[0, 2] != 0


@pytest.mark.parametrize("count", [2, 4])
def test_together_they_are_better_than_alone(count: int) -> None:
    X, y = binary(3000, seed=1)
    X, X_test, y, y_test = X[:2000], X[2000:], y[:2000], y[2000:]
    parts = shards(X, y, count, RecursiveClassifier(random_state=0))
    alone = np.mean([log_loss(y_test, part.predict_proba(X_test)) for part in parts])
    assert log_loss(y_test, combined(parts).predict_proba(X_test)) <= alone + 1e-3


def test_many_classes_and_regressions() -> None:
    X, y = load_digits(return_X_y=True)
    together = combined(shards(X[:1200], y[:1200], 2, RecursiveClassifier(random_state=0)))
    assert together.score(X[1200:], y[1200:]) > 0.85
    X, _ = binary(1000)
    together = combined(shards(X, 3 * X[:, 0] + 5, 4, RecursiveRegressor(random_state=0)))
    assert together.coef_[0] == pytest.approx(3.0, abs=0.2)
    assert together.intercept_ == pytest.approx(5.0, abs=0.2)


def test_it_does_not_learn_and_refuses_what_is_not_alike() -> None:
    X, y = binary()
    parts = shards(X, y, 2, RecursiveClassifier())
    with pytest.raises(TypeError, match="does not learn"):
        combined(parts).partial_fit(X, y)
    with pytest.raises(ValueError, match="different classes"):
        combined([parts[0], RecursiveClassifier().fit(X, y == "yes")])
    with pytest.raises(ValueError, match="differ in loss"):
        combined([parts[0], RecursiveClassifier(loss="hinge").fit(X, y)])
    with pytest.raises(ValueError, match="alike"):
        combined([parts[0], RecursiveClassifier().fit(X[:, :3], y)])


def test_dask_trains_shards_and_streams() -> None:
    """On a local cluster: shards by `map`, and one model handed from block to block."""
    distributed = pytest.importorskip("distributed")
    X, y = binary(1200)
    blocks = [(X[k : k + 300], y[k : k + 300]) for k in range(0, 1200, 300)]

    def fitted(block: Any) -> Any:
        return RecursiveClassifier(shuffle=False).fit(*block)

    def went_on(model: Any, block: Any) -> Any:
        return (
            clone(model).partial_fit(*block, classes=["no", "yes"])
            if not hasattr(model, "learner_")
            else model.partial_fit(*block)
        )

    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        parts = client.gather(client.map(fitted, blocks, pure=False))
        model = RecursiveClassifier()
        for block in blocks:
            model = client.submit(went_on, model, block, pure=False).result()
    assert (combined(parts).coef_ == combined([fitted(block) for block in blocks]).coef_).all()
    assert (model.coef_ == RecursiveClassifier(shuffle=False).fit(X, y).coef_).all()


def test_ray_trains_shards() -> None:
    """On a local cluster."""
    ray = pytest.importorskip("ray")
    X, y = binary(1200)
    blocks = [(X[k : k + 300], y[k : k + 300]) for k in range(0, 1200, 300)]

    def fitted(block: Any) -> Any:
        return RecursiveClassifier(shuffle=False).fit(*block)

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        parts = ray.get([ray.remote(fitted).remote(block) for block in blocks])
    finally:
        ray.shutdown()
    assert (combined(parts).coef_ == combined([fitted(block) for block in blocks]).coef_).all()
