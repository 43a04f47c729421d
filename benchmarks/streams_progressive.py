"""Progressive log-loss on real streams, one pass, against what others offer.

    python -m benchmarks.streams_progressive --data FOLDER

Every row is scored before it is learned.  A rival with a learning rate is shown as it comes, and
with the best of a grid chosen for each set with the labels known, which no user can do in one pass.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import streams_rivals as rivals
from benchmarks.streams_sets import SETS, log_loss, sets
from experiments.common.records import provenance, read_table, write_table

OURS: dict[str, dict[str, Any]] = {
    "paroli": {},
    "paroli, Algorithm 2 inside": {"inner": "diagonal"},
    "paroli, ScInOL inside": {"inner": "scinol"},
    "paroli, last iterate": {"average": False},
    "paroli, Algorithm 1 as printed": {"variant": "paper"},
}
COLUMNS = ("set", "rows", "features", "learner", "log_loss", "setting", "seconds")
BEST_OF = "best of"


def contestants(X: Any, y: Any, *, slow: bool) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Names, settings, and what to run."""
    for name, options in OURS.items():
        yield name, "", partial(rivals.ours, X, y, **options)
    if find_spec("vowpalwabbit") is not None:
        bits = max(18, math.ceil(math.log2(X.shape[1] + 1)))
        with rivals.text_file(X, y) as path:
            for name, setting in rivals.VOWPAL_WABBIT.items():
                yield name, "", partial(rivals.vowpal_wabbit, path, bits, setting)
            for name, grid in rivals.GRIDS.items():
                for setting in grid:
                    yield name, setting, partial(rivals.vowpal_wabbit, path, bits, setting)
    if slow:
        yield "scikit-learn SGD", "", partial(rivals.sgd, X, y)
        for name, optimizer in rivals.river_optimizers(X.shape[1]).items():
            yield name, "", partial(rivals.river, X, y, optimizer)


def measure(name: str, X: Any, y: Any, *, slow: bool, only: str) -> list[tuple[object, ...]]:
    """Rows of the table for one set."""
    best: dict[str, tuple[float, str, float]] = {}
    for learner, setting, run in contestants(X, y, slow=slow):
        if not learner.startswith(only):
            continue
        begin = time.perf_counter()
        loss = log_loss(run(), y)
        seconds = time.perf_counter() - begin
        if learner not in best or loss < best[learner][0]:
            best[learner] = loss, setting, seconds
        print(f"{name:16} {learner:52} {setting:24} {loss:.4f} {seconds:8.1f} s", flush=True)
    return [
        (name, X.shape[0], X.shape[1], learner, f"{loss:.5f}", setting, f"{seconds:.2f}")
        for learner, (loss, setting, seconds) in best.items()
    ]


def shown(value: float) -> str:
    """Three or four digits, whatever the size."""
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0e}"


def summary(path: Path) -> str:
    """The table as Markdown: losses, geometric mean of their ratios to ours, and mean ranks."""
    _, found = read_table(path)
    names = [name for name in SETS if any(row["set"] == name for row in found)]
    loss = {(row["learner"], row["set"]): float(row["log_loss"]) for row in found}
    learners = sorted({row["learner"] for row in found}, key=lambda n: (n[:6] != "paroli", n))
    untuned = [n for n in learners if BEST_OF not in n and not n.startswith("paroli,")]
    text = [f"| | {' | '.join(names)} | ratio | worst | rank |", "|---" * (len(names) + 4) + "|"]
    for learner in learners:
        ratios = [loss[learner, s] / loss["paroli", s] for s in names if (learner, s) in loss]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        rank = ""
        if learner in untuned:
            places = [
                1 + sum(loss.get((other, s), math.inf) < loss[learner, s] for other in untuned)
                for s in names
                if (learner, s) in loss
            ]
            rank = f"{sum(places) / len(places):.1f}"
        cells = [shown(loss[learner, s]) if (learner, s) in loss else "-" for s in names]
        row = [learner, *cells, shown(mean), shown(max(ratios)), rank]
        text.append(f"| {' | '.join(row)} |")
    return "\n".join(text)


def main() -> None:
    """Measure, write the table, print its summary."""
    parser = argparse.ArgumentParser(description="progressive log-loss on real streams")
    parser.add_argument("--data", type=Path, required=True, help="see streams_sets.py")
    parser.add_argument("--sets", nargs="*", help="only these")
    parser.add_argument(
        "--only",
        default="",
        help="learners whose names begin with this; the others' rows stay as they are in the table",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="no learners that need Python a row")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    path = args.out / "streams-progressive.csv"
    head = {**provenance(Path(__file__).parent / "streams_rivals.py"), "seed": str(args.seed)}
    for package in ("vowpalwabbit", "scikit-learn", "river"):
        try:
            head[package] = version(package)
        except PackageNotFoundError:
            head[package] = "not installed"
    found: list[tuple[object, ...]] = []
    if path.exists():
        anew = args.sets or list(SETS)
        for row in read_table(path)[1]:
            if row["set"] not in anew or not row["learner"].startswith(args.only):
                found.append(tuple(row[column] for column in COLUMNS))
    for name, X, y in sets(args.data, args.seed, args.sets):
        found += measure(name, X, y, slow=not args.quick, only=args.only)
        write_table(path, head, COLUMNS, found)
    print(summary(path))


if __name__ == "__main__":
    main()
