"""How fast text becomes rows, and rows a model: paroli, Vowpal Wabbit and scikit-learn on one file.

Every task runs in a process of its own, all of them in turn, again and again, so that a noisy
neighbour hits them all; medians over the repeats.  What counts is CPU time, of all threads
together: what the task costs on one thread.  The wall clock stands beside it, for quiet machines.

Three streams are made from a seed: `narrow` (14 indicator features a row, as in tables), `numbers`
(78 features with eight digits, as tf-idf) and `words` (some 230 words a row, hashed).  Files in
Vowpal Wabbit's format can be given as well.  Vowpal Wabbit and scikit-learn take part if they are
installed.

    python -m benchmarks.streams_parse [FILE.vw ...] [--repeats 7] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

# Libraries read these when they are loaded.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import paroli
from benchmarks.turns import Turn, in_turns
from experiments.common.records import provenance, write_table
from paroli.linear import LinearLearner
from paroli.streams.batch import Batch
from paroli.streams.grammar import Layout
from paroli.streams.readers import Ahead, Reader, guess_format

BITS = 20
"""For all: where 2 to this power is far more than there are features, it changes little."""


# The streams ---------------------------------------------------------------------------------


def write_streams(folder: Path, rows: int, seed: int) -> list[Path]:
    """Write the three streams, the first also in svmlight's format."""
    rng = np.random.default_rng(seed)
    paths = [folder / f"{name}.vw" for name in ("narrow", "numbers", "words")]
    narrow, numbers, words = paths
    weights = rng.standard_normal(123)
    edges = np.sort(rng.choice(np.arange(1, 123), 13, replace=False))
    starts, ends = np.array([0, *edges]), np.array([*edges, 123])
    picked = rng.integers(starts, ends, (rows, len(starts)))
    with narrow.open("w") as vw, narrow.with_suffix(".svm").open("w") as svm:
        for row in picked:
            label, text = _label(rng, float(weights[row].sum())), " ".join(f"{i}:1" for i in row)
            vw.write(f"{label} | {text}\n")
            svm.write(f"{label} {text}\n")
    weights = rng.standard_normal(50_000)
    with numbers.open("w") as vw:
        for _ in range(rows // 6):
            columns = np.unique((50_000 * rng.random(78) ** 2).astype(int))
            values = rng.random(len(columns)) / 8
            text = " ".join(f"{i}:{x:.7e}" for i, x in zip(columns, values, strict=True))
            vw.write(f"{_label(rng, float(weights[columns] @ values))} |f {text}\n")
    known = ["".join(rng.choice(list("etaoinshrdlu"), rng.integers(2, 10))) for _ in range(50_000)]
    with words.open("w") as vw:
        for _ in range(rows // 16):
            ranks = (50_000 * rng.random(rng.integers(60, 400)) ** 4).astype(int)
            label = _label(rng, float(weights[ranks].mean()) * 10)
            vw.write(f"{label} |w {' '.join(known[i] for i in ranks)}\n")
    return paths


def _label(rng: np.random.Generator, score: float) -> str:
    return "1" if score + rng.logistic() > 0 else "-1"


# The tasks -----------------------------------------------------------------------------------


def _batches(path: Path) -> Iterator[Batch]:
    return Reader(Layout(bits=BITS), guess_format(str(path))).batches(str(path))


def parse(path: Path) -> dict[str, float]:
    """Text to rows."""
    sizes = [(len(batch), len(batch.indices)) for batch in _batches(path)]
    rows, entries = np.sum(sizes, axis=0)
    return {"rows": int(rows), "entries": int(entries)}


def _learn(batches: Iterator[Batch]) -> dict[str, float]:
    learner, loss = LinearLearner("logistic", dimensions=1 << BITS), 0.0
    rows = 0
    for batch in batches:
        loss += float(learner.losses(learner.partial_fit_batch(batch), batch.labels).sum())
        rows += len(batch)
    return {"loss": loss / rows}


def learn(path: Path) -> dict[str, float]:
    """Text to rows to a model, one thread."""
    return _learn(_batches(path))


def learn_ahead(path: Path) -> dict[str, float]:
    """The same with a thread that reads ahead, as `paroli learn` does."""
    return _learn(iter(Ahead(_batches(path))))


def vowpal_wabbit(path: Path) -> dict[str, float]:
    """Vowpal Wabbit's driver on the file, no cache: its own two threads."""
    from vowpalwabbit import Workspace

    workspace = Workspace(f"-d {path} --loss_function logistic -b {BITS} --quiet")
    loss = workspace.get_sum_loss() / workspace.get_weighted_examples()
    workspace.finish()
    return {"loss": float(loss)}


def vowpal_wabbit_rows(path: Path) -> dict[str, float]:
    """Its Python binding, a line at a time."""
    from vowpalwabbit import Workspace

    workspace = Workspace(f"--loss_function logistic -b {BITS} --quiet")
    with path.open() as file:
        for line in file:
            workspace.learn(line)
    loss = workspace.get_sum_loss() / workspace.get_weighted_examples()
    workspace.finish()
    return {"loss": float(loss)}


def scikit_learn(path: Path) -> dict[str, float]:
    """scikit-learn's reader of svmlight files, compiled too; all rows at once."""
    from sklearn.datasets import load_svmlight_file

    load_svmlight_file(str(path.with_suffix(".svm")), dtype=np.float32)
    return {}


TASKS: dict[str, tuple[str | None, Callable[[Path], dict[str, float]]]] = {
    "parse": (None, parse),
    "parse svmlight": (None, lambda path: parse(path.with_suffix(".svm"))),
    "parse svmlight, scikit-learn": ("sklearn", scikit_learn),
    "learn": (None, learn),
    "learn, reading ahead": (None, learn_ahead),
    "learn, vowpal wabbit": ("vowpalwabbit", vowpal_wabbit),
    "learn, vowpal wabbit's Python binding": ("vowpalwabbit", vowpal_wabbit_rows),
}
"""Name: the module that it needs, the function."""
BASELINE = "learn, vowpal wabbit"


def measure(task: str, path: Path) -> dict[str, float]:
    """Run one task here."""
    _, function = TASKS[task]
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "warm.vw"
        warm.write_text("1 | a:1\n")
        warm.with_suffix(".svm").write_text("1 1:1\n")
        function(warm)  # imports, and C that is compiled at its first use
    wall, cpu = time.perf_counter(), time.process_time()
    result = function(path)
    return result | {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def run_apart(task: str, path: Path) -> dict[str, float]:
    """Run one task in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.streams_parse", "--one", task, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def tasks_for(path: Path, wanted: Sequence[str]) -> list[str]:
    """Those whose package and file are there."""
    return [
        name
        for name, (module, _) in TASKS.items()
        if name in wanted
        and (module is None or importlib.util.find_spec(module))
        and ("svmlight" not in name or path.with_suffix(".svm").exists())
    ]


def rows_of(path: Path, wanted: Sequence[str], repeats: int) -> list[dict[str, object]]:
    """The table's rows for one stream."""
    names = tasks_for(path, wanted)
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}

    def turn_of(name: str) -> Turn:
        def turn() -> list[float]:
            results[name].append(run_apart(name, path))
            return [results[name][-1]["cpu"]]

        return turn

    in_turns({name: turn_of(name) for name in names}, repeats)
    size = results["parse"][0]

    def median(name: str, key: str) -> float:
        return statistics.median(run[key] for run in results[name])

    table = []
    for name in names:
        cpu = median(name, "cpu")
        of_baseline = median(BASELINE, "cpu") / cpu if BASELINE in names else float("nan")
        table.append(
            {
                "stream": path.stem,
                "rows": int(size["rows"]),
                "features_a_row": f"{size['entries'] / size['rows']:.1f}",
                "task": name,
                "cpu_s": f"{cpu:.4f}",
                "wall_s": f"{median(name, 'wall'):.4f}",
                "million_features_a_cpu_s": f"{size['entries'] / cpu / 1e6:.1f}",
                "speed_to_vowpal_wabbit": f"{of_baseline:.2f}",
                "loss": f"{median(name, 'loss'):.4f}" if "learn" in name.split(",")[0] else "",
            }
        )
    return table


def main() -> None:
    """Measure, print and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=Path, help="more streams, FILE.vw")
    parser.add_argument("--rows", type=int, default=200_000, help="of the narrow stream")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--one", metavar="TASK", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.files[0])))
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = [*write_streams(Path(folder), args.rows, args.seed), *args.files]
        table = [row for path in paths for row in rows_of(path, args.tasks, args.repeats)]
    modules = {"sklearn": "scikit-learn", "vowpalwabbit": "vowpalwabbit"}
    peers = [name for module, name in modules.items() if importlib.util.find_spec(module)]
    streams = Path(paroli.__file__).parent / "streams"
    head = provenance(Path(__file__), streams, streams / "parse.c")
    head |= {name: version(name) for name in peers}
    head |= {"seed": str(args.seed), "repeats": f"{args.repeats}, of which the medians"}
    for given in args.files:
        head[given.name] = f"sha256 {hashlib.sha256(given.read_bytes()).hexdigest()}"
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "streams-parse-cpu.csv"
    write_table(path, head, list(table[0]), [list(row.values()) for row in table])
    print(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
