"""The paper's effect on a stream: a million sparse rows of strongly correlated features, one pass.

    python -m benchmarks.streams_correlated

A row has 3 of 100 groups; the 5 features of a group share a normal factor and differ by a tenth of
it; labels depend on the differences alone.  A learner that treats every coordinate by itself hardly
sees them: what Algorithm 1 adds is one number, g·v, that couples all coordinates.  Log-loss and
error are of 50,000 rows held out, while the stream is learned; the optimum is a batch fit.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import streams_rivals as rivals
from benchmarks.streams_sets import log_loss, rows
from experiments.common.records import provenance, read_table, write_table
from paroli.linear import LinearLearner

GROUPS, SIZE, ACTIVE, DIFFERENCE, STRENGTH = 100, 5, 3, 0.1, 3.0
CHECKPOINTS = (10_000, 20_000, 50_000, 100_000, 200_000, 400_000, 700_000, 1_000_000)
TESTED = 50_000
COLUMNS = ("learner", "rows", "log_loss", "error", "setting")
OURS: dict[str, dict[str, Any]] = {
    "paroli": {},
    "paroli, ScInOL inside": {"inner": "scinol"},
    "paroli, Algorithm 2 inside": {"inner": "diagonal"},
}


def stream(count: int, seed: int) -> tuple[Any, Any]:
    """Rows and labels."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((GROUPS, SIZE))
    w -= w.mean(axis=1, keepdims=True)
    w *= STRENGTH / DIFFERENCE / math.sqrt(SIZE * ACTIVE)
    group = rng.random((count, GROUPS), dtype=np.float32).argpartition(ACTIVE, axis=1)[:, :ACTIVE]
    group.sort(axis=1)
    x = DIFFERENCE * rng.standard_normal((count, ACTIVE, SIZE))
    x += rng.standard_normal((count, ACTIVE, 1))
    odds = np.einsum("tas,tas->t", x, w[group])
    y = np.where(rng.random(count) < 1 / (1 + np.exp(-odds)), 1.0, -1.0)
    features = (group[:, :, None] * SIZE + np.arange(SIZE)).astype(np.int32)
    indptr = np.arange(count + 1) * ACTIVE * SIZE
    shape = (count, GROUPS * SIZE)
    return sp.csr_matrix((x.ravel(), features.ravel(), indptr), shape=shape), y


def judged(scores: Any, y: Any) -> tuple[float, float]:
    """Log-loss and error."""
    return log_loss(scores, y), float((np.sign(scores) != y).mean())


def ours(X: Any, y: Any, X_test: Any, y_test: Any, **options: Any) -> Iterator[tuple[int, Any]]:
    """After as many rows as each checkpoint says."""
    learner, begin = LinearLearner(dimensions=X.shape[1], **options), 0
    for end in CHECKPOINTS:
        learner.partial_fit_batch(rows(X[begin:end], y[begin:end]))
        begin = end
        yield end, judged(learner.predict_batch(rows(X_test, y_test)), y_test)


def sgd(X: Any, y: Any, X_test: Any, y_test: Any, alpha: float) -> Iterator[tuple[int, Any]]:
    """scikit-learn's SGDClassifier."""
    from sklearn.linear_model import SGDClassifier

    model, begin = SGDClassifier(loss="log_loss", alpha=alpha, shuffle=False), 0
    for end in CHECKPOINTS:
        model.partial_fit(X[begin:end], y[begin:end], classes=[-1.0, 1.0])
        begin = end
        yield end, judged(model.decision_function(X_test), y_test)


def measure(seed: int) -> Iterator[tuple[object, ...]]:
    """Rows of the table."""
    from sklearn.linear_model import LogisticRegression

    X, y = stream(CHECKPOINTS[-1] + TESTED, seed)
    X_test, y_test, X, y = X[-TESTED:], y[-TESTED:], X[:-TESTED], y[:-TESTED]
    best = LogisticRegression(C=np.inf, max_iter=1000, tol=1e-6).fit(X, y)
    yield ("batch optimum", len(y), *judged(best.decision_function(X_test), y_test), "")
    for name, options in OURS.items():
        for count, found in ours(X, y, X_test, y_test, **options):
            yield name, count, *found, ""
    for alpha in (1e-4, 1e-5, 1e-6):
        name = "scikit-learn SGD" + (", best of 3 alphas" if alpha != 1e-4 else "")
        for count, found in sgd(X, y, X_test, y_test, alpha):
            yield name, count, *found, f"alpha {alpha:g}"
    if find_spec("vowpalwabbit") is None:
        return
    runs = list(rivals.VOWPAL_WABBIT.items())
    runs += [(name, setting) for name, grid in rivals.GRIDS.items() for setting in grid]
    with rivals.text_file(X_test, y_test) as test:
        for count in (100_000, 400_000, 1_000_000):
            with rivals.text_file(X[:count], y[:count]) as path:
                for name, setting in runs:
                    scores = rivals.vowpal_wabbit(path, 18, setting, test)
                    yield name, count, *judged(scores, y_test), setting


def plot(path: Path) -> None:
    """Loss over rows; of a grid its best setting at the end."""
    from matplotlib.figure import Figure

    _, found = read_table(path)
    optimum = float(found[0]["log_loss"])
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name in dict.fromkeys(row["learner"] for row in found[1:]):
        own = [row for row in found if row["learner"] == name]
        at_end = [row for row in own if int(row["rows"]) == CHECKPOINTS[-1]]
        setting = min(at_end, key=lambda row: float(row["log_loss"]))["setting"]
        own = [row for row in own if row["setting"] == setting]
        axes.plot(
            [int(row["rows"]) for row in own],
            [float(row["log_loss"]) for row in own],
            marker="o",
            markersize=3,
            linewidth=2.5 if name == "paroli" else 1,
            linestyle="-" if name.startswith("paroli") else "--",
            label=name,
        )
    axes.axhline(optimum, color="black", linewidth=1, label="batch optimum")
    axes.axhline(1.1 * optimum, color="black", linewidth=0.5, linestyle=":", label="10% above it")
    axes.set(xscale="log", xlabel="rows", ylabel="held-out log-loss", ylim=(0.37, 0.75))
    axes.legend(fontsize=7)
    figure.savefig(path.with_suffix(".png"), dpi=110)


def main() -> None:
    """Measure, write the table, draw it."""
    parser = argparse.ArgumentParser(description="a stream of correlated features")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    path = args.out / "streams-correlated.csv"
    head = {**provenance(Path(__file__)), "seed": str(args.seed)}
    for package in ("vowpalwabbit", "scikit-learn"):
        if find_spec(package.replace("scikit-learn", "sklearn")):
            head[package] = version(package)
    found: list[tuple[object, ...]] = []
    for name, count, loss, error, setting in measure(args.seed):
        found.append((name, count, f"{loss:.5f}", f"{error:.5f}", setting))
        print(*found[-1], sep="\t", flush=True)
        write_table(path, head, COLUMNS, found)
    plot(path)


if __name__ == "__main__":
    main()
