"""What is lost when shards of the rows are learned apart and combined, against one pass over all.

python -m benchmarks.streams_shards --data FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.streams_sets import log_loss, rows, sets
from experiments.common.records import provenance, write_table
from paroli.linear import LinearLearner, combined

COLUMNS = ("set", "learned", "shards", "log_loss of one pass", "combined", "a shard alone")
CHOSEN = ["a9a", "bank", "covertype", "20 newsgroups", "imdb", "mnist"]


def measure(name: str, X: Any, y: Any) -> Iterator[tuple[object, ...]]:
    """Rows of the table for one set: two thirds are learned, the others judge."""
    cut = 2 * len(y) // 3
    test, y_test = rows(X[cut:], y[cut:]), y[cut:]

    def learned(part: slice) -> LinearLearner:
        learner = LinearLearner(dimensions=X.shape[1])
        learner.partial_fit_batch(rows(X[:cut][part], y[:cut][part]))
        return learner

    def judged(model: Any) -> float:
        return log_loss(model.predict_batch(test), y_test)

    whole = judged(learned(slice(None)))
    for count in (2, 4, 8):
        shards = [learned(slice(k, None, count)) for k in range(count)]
        alone = float(np.mean([judged(shard) for shard in shards]))
        yield name, cut, count, f"{whole:.4f}", f"{judged(combined(shards)):.4f}", f"{alone:.4f}"


def main() -> None:
    """Measure, write the table, print it."""
    parser = argparse.ArgumentParser(description="shards learned apart")
    parser.add_argument("--data", type=Path, required=True, help="see streams_sets.py")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    found: list[tuple[object, ...]] = []
    for name, X, y in sets(args.data, 0, CHOSEN):
        for row in measure(name, X, y):
            print(*row, sep="\t", flush=True)
            found.append(row)
    head = {**provenance(Path(__file__)), "seed": "0"}
    write_table(args.out / "streams-shards.csv", head, COLUMNS, found)


if __name__ == "__main__":
    main()
