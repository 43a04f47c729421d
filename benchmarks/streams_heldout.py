"""Accuracy and log-loss on rows held out, after one pass and after five, beside liblinear.

    python -m benchmarks.streams_heldout --data FOLDER

liblinear has the batch optimum on the same features, scaled by their largest values as the learner
sees them, with C = 1 and with the best of five C chosen on the held-out rows themselves.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.preprocessing import MaxAbsScaler

from benchmarks.streams_sets import log_loss, sets
from experiments.common.records import provenance, write_table
from paroli.sklearn import RecursiveClassifier

COLUMNS = ("set", "learned", "held out", "learner", "accuracy", "log_loss")
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)


def measure(name: str, X: Any, y: Any) -> Iterator[tuple[object, ...]]:
    """Rows of the table for one set: two thirds are learned."""
    cut = 2 * len(y) // 3
    X, X_test, y, y_test = X[:cut], X[cut:], y[:cut], y[cut:]

    def judged(learner: str, model: Any, X_test: Any) -> tuple[object, ...]:
        accuracy = accuracy_score(y_test, model.predict(X_test))
        loss = log_loss(model.decision_function(X_test), y_test)
        return name, cut, len(y_test), learner, f"{accuracy:.4f}", f"{loss:.4f}"

    for passes in (1, 5):
        model = RecursiveClassifier(n_passes=passes, random_state=0).fit(X, y)
        yield judged(f"paroli, passes: {passes}", model, X_test)
    scale = MaxAbsScaler().fit(X)
    made = []
    for C in STRENGTHS:
        batch = LogisticRegression(C=C, solver="liblinear", max_iter=1000)
        made.append(judged("", batch.fit(scale.transform(X), y), scale.transform(X_test)))
    default, best = made[STRENGTHS.index(1.0)], max(made, key=lambda row: str(row[4]))
    yield (*default[:3], "liblinear, C = 1", *default[4:])
    yield (*best[:3], "liblinear, best of 5 C", *best[4:])


def main() -> None:
    """Measure, write the table, print it."""
    parser = argparse.ArgumentParser(description="accuracy on rows held out")
    parser.add_argument("--data", type=Path, required=True, help="see streams_sets.py")
    parser.add_argument("--sets", nargs="*", help="only these")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    head = {**provenance(Path(__file__)), "scikit-learn": version("scikit-learn"), "seed": "0"}
    found: list[tuple[object, ...]] = []
    for name, X, y in sets(args.data, 0, args.sets):
        for row in measure(name, X, y):
            print(*row, sep="\t", flush=True)
            found.append(row)
        write_table(args.out / "streams-heldout.csv", head, COLUMNS, found)


if __name__ == "__main__":
    main()
