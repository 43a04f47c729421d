"""What a round of `OnlineLearner` costs: ask for the point, tell a gradient.

Every stack takes its turn in short bursts, again and again, beside one NumPy product ``x @ y`` of
the same size, so that a noisy neighbour hits them all; medians and quartiles over the bursts.  Time
is CPU time on one core: a process that has to wait is not slower.

    python -m benchmarks.rounds [--bursts 60] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# NumPy's libraries read these when they are loaded.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = os.environ["VECLIB_MAXIMUM_THREADS"] = "1"

import numpy as np

import paroli
from benchmarks.turns import in_turns, on_one_core, spread
from experiments.common.records import processor, write_table
from paroli import (
    OnlineLearner,
    adagrad,
    averaged,
    ball,
    constrained,
    diagonal,
    full_newton,
    momentum,
    recursive,
    rescaled,
    scinol,
)
from paroli.core.learner import Learner

STACKS: dict[str, Learner] = {
    "recursive(diagonal())": recursive(diagonal()),
    "rescaled(recursive(diagonal()))": rescaled(recursive(diagonal())),
    "rescaled(recursive(scinol()))": rescaled(recursive(scinol())),
    "averaged(momentum(rescaled(recursive(scinol()))))": averaged(
        momentum(rescaled(recursive(scinol())))
    ),
    "diagonal()": diagonal(),
    "adagrad()": adagrad(),
    "recursive(constrained(full_newton(), ball()))": recursive(constrained(full_newton(), ball())),
}
ROUNDS_PER_BURST = 200
DIMENSIONS = (1, 100, 10_000)
LARGEST_MATRIX = 100
PRODUCT = "x @ y"


def playing(stack: Learner, d: int, seed: int) -> Callable[[], None]:
    """One burst of rounds on a fixed stream with ‖g‖₁ ≤ 1."""
    gradients = np.random.default_rng(seed).uniform(-1, 1, (ROUNDS_PER_BURST, d)) / d
    learner = OnlineLearner(stack, np.zeros(d))

    def burst() -> None:
        for g in gradients:
            _ = learner.point
            learner.update(g)

    return burst


def multiplying(d: int, seed: int) -> Callable[[], None]:
    """One burst of products x @ y."""
    x, y = np.random.default_rng(seed).standard_normal((2, d))

    def burst() -> None:
        for _ in range(ROUNDS_PER_BURST):
            _ = x @ y

    return burst


def measure(bursts: int, seed: int) -> list[list[object]]:
    """Rows of microseconds a round, all stacks interleaved."""
    rows: list[list[object]] = []
    for d in DIMENSIONS:
        players = {
            name: playing(stack, d, seed)
            for name, stack in STACKS.items()
            if d <= LARGEST_MATRIX or "full" not in name
        }
        players[PRODUCT] = multiplying(d, seed)
        turns = {name: on_one_core(burst, ROUNDS_PER_BURST) for name, burst in players.items()}
        seconds = in_turns(turns, bursts)
        product = statistics.median(seconds[PRODUCT])
        for name, times in seconds.items():
            figures = [f"{1e6 * x:.2f}" for x in spread(times, 4)]
            rows.append([d, name, *figures, f"{statistics.median(times) / product:.1f}"])
    return rows


def import_milliseconds(repeats: int = 9) -> float:
    """Median time of `import paroli` in a fresh interpreter, NumPy's own import included."""
    code = "import time; t = time.process_time(); import paroli; print(time.process_time() - t)"
    command = [sys.executable, "-c", code]
    times = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(repeats)
    ]
    return statistics.median(times) * 1e3


def main() -> None:
    """Measure, print and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bursts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    versions = f"python {platform.python_version()}, numpy {np.__version__}"
    head = {
        "device": f"{processor()}; one is used, CPU time",
        "versions": f"{versions}, paroli {paroli.__version__}",
        "seed": f"{args.seed}, bursts of {ROUNDS_PER_BURST} rounds: {args.bursts}",
        "import paroli": f"{import_milliseconds():.0f} ms",
    }
    columns = ("d", "stack", "us_quartile_1", "us_median", "us_quartile_3", "ratio_to_x@y")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "rounds-cpu.csv"
    write_table(path, head, columns, measure(args.bursts, args.seed))
    print(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
