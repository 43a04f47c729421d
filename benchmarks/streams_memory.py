"""Rows a second from memory, one thread, one pass, beside scikit-learn's SGDClassifier.

    python -m benchmarks.streams_memory --data FOLDER

All learners take turns, several times over; processor time, and the median of the ratios to
SGDClassifier in the same turn.  BLAS has one thread: others wait for work in a loop, for some time
after the last call, and whoever comes next would be charged for it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.streams_sets import lines, rows, sets
from experiments.common.records import provenance, write_table
from paroli.linear import LinearLearner
from paroli.sklearn import RecursiveClassifier

COLUMNS = (
    "set", "rows", "features", "values a row", "learner", "rows_per_second", "values_per_second",
    "ratio to SGDClassifier",
)  # fmt: skip
MOST_ROWS = 50_000


def hashed_pairs(data: Path) -> tuple[Any, Any]:
    """Words and pairs of neighbouring words of film reviews, hashed to a million features."""
    from sklearn.feature_extraction.text import HashingVectorizer

    found = [line.split("\t") for line in lines(data / "imdb/imdb_labeled.tsv.xz")[1:20_001]]
    words = HashingVectorizer(n_features=2**20, ngram_range=(1, 2), norm=None, binary=True)
    X = sp.csr_matrix(words.transform([row[4] for row in found]).astype(np.float64))
    X.sort_indices()
    return X, np.array([1.0 if row[1] == "1" else -1.0 for row in found])


def learners(X: Any, y: Any) -> dict[str, Callable[[], Any]]:
    """What takes turns: each makes a model and learns all rows."""
    from sklearn.linear_model import SGDClassifier

    block, classes = rows(X, y), np.array([-1.0, 1.0])

    def ours(**options: Any) -> Callable[[], Any]:
        return lambda: LinearLearner(dimensions=X.shape[1], **options).partial_fit_batch(block)

    return {
        "SGDClassifier": lambda: SGDClassifier(loss="log_loss", shuffle=False).partial_fit(
            X, y, classes=classes
        ),
        "paroli": ours(),
        "paroli, float64": ours(precision="float64"),
        "paroli, ScInOL inside": ours(inner="scinol"),
        "paroli, Algorithm 2 inside": ours(inner="diagonal"),
        "RecursiveClassifier": lambda: RecursiveClassifier().partial_fit(X, y, classes=classes),
    }


def measure(name: str, X: Any, y: Any, turns: int) -> Iterator[tuple[object, ...]]:
    """Rows of the table for one set."""
    players = learners(X, y)
    seconds: dict[str, list[float]] = {player: [] for player in players}
    for turn in range(turns + 1):
        for player, play in players.items():
            begin = time.process_time()
            play()
            if turn:  # the first one compiles, and wakes the caches
                seconds[player].append(time.process_time() - begin)
    for player, times in seconds.items():
        each = statistics.median(times)
        ratio = statistics.median(
            a / b for a, b in zip(seconds["SGDClassifier"], times, strict=True)
        )
        yield (
            name, len(y), X.shape[1], f"{X.nnz / len(y):.1f}", player, f"{len(y) / each:.0f}",
            f"{X.nnz / each:.0f}", f"{ratio:.2f}",
        )  # fmt: skip


def main() -> None:
    """Measure, write the table, print it."""
    parser = argparse.ArgumentParser(description="rows a second from memory")
    parser.add_argument("--data", type=Path, required=True, help="see streams_sets.py")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    threadpool_limits(1)
    chosen = ["shuttle", "a9a", "covertype", "imdb"]
    found: list[tuple[object, ...]] = []
    for name, X, y in sets(args.data, 0, chosen):
        found += measure(name, X[:MOST_ROWS], y[:MOST_ROWS], args.turns)
    found += measure("imdb, hashed pairs", *hashed_pairs(args.data), args.turns)
    head = {**provenance(Path(__file__)), "scikit-learn": version("scikit-learn")}
    write_table(args.out / "streams-memory.csv", head, COLUMNS, found)
    for row in found:
        print(*row, sep="\t")


if __name__ == "__main__":
    main()
