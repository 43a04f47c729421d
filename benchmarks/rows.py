"""What a training step on a sparse embedding costs, as the vocabulary grows.

A fixed number of rows is touched in every step: forward, backward, ``optimizer.step()``.  The
optimizers take turns in short bursts beside `torch.optim.SparseAdam`, which leaves untouched rows
as they are, so that a noisy neighbour hits them all; medians and quartiles over the bursts.  Time
is CPU time on one core.  Rows far apart miss the caches in a large table, for every optimizer:
hence the ratio.

    python -m benchmarks.rows [--bursts 20] [--rows 10000 ...] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it when it is loaded

import torch
from torch import nn

import paroli
from benchmarks.turns import in_turns, on_one_core, spread
from experiments.common.records import processor, write_table
from paroli.torch import RecursiveOptimizer, rows_on_demand

VOCABULARIES = (10_000, 100_000, 1_000_000, 10_000_000)
WIDTH = 8
TOUCHED = 1024
STEPS_PER_BURST = 5
MOST_ROWS_TOUCHED_WHOLE = 100_000
"""Beyond, a step that moves every row takes too long to be repeated."""
PEER = "SparseAdam"


def training(kind: str, rows: int, seed: int) -> Callable[[], None]:
    """One burst of training steps, after all memory has been written to once."""
    torch.manual_seed(seed)
    words = nn.EmbeddingBag(rows, WIDTH, sparse=True, mode="sum")
    optimizer: torch.optim.Optimizer
    if kind == PEER:
        optimizer = torch.optim.SparseAdam(words.parameters())
    else:
        optimizer = RecursiveOptimizer(words.parameters(), average="average" in kind)
        if "on demand" in kind:
            rows_on_demand(words, optimizer)
    rng = torch.Generator().manual_seed(seed)

    def step() -> None:
        optimizer.zero_grad()
        touched = torch.randint(rows, (TOUCHED // 16, 16), generator=rng)
        (words(touched) - 1.0).abs().mean().backward()
        optimizer.step()

    def burst() -> None:
        for _ in range(STEPS_PER_BURST):
            step()

    step()
    if isinstance(optimizer, RecursiveOptimizer):
        optimizer.settle()
    for part in optimizer.state[words.weight].values():
        if isinstance(part, torch.Tensor):
            part.mul_(1)
    burst()
    return burst


def measure(vocabularies: list[int], bursts: int, seed: int) -> list[list[object]]:
    """Rows of microseconds a step, all optimizers interleaved."""
    found: list[list[object]] = []
    for rows in vocabularies:
        kinds = [PEER, "ours, rows on demand", "ours, rows on demand, average"]
        if rows <= MOST_ROWS_TOUCHED_WHOLE:
            kinds.append("ours, all rows, average")
        players = {kind: training(kind, rows, seed) for kind in kinds}
        turns = {kind: on_one_core(burst, STEPS_PER_BURST) for kind, burst in players.items()}
        seconds = in_turns(turns, bursts)
        peer = statistics.median(seconds[PEER])
        for kind, times in seconds.items():
            figures = [f"{1e6 * x:.0f}" for x in spread(times, 4)]
            found.append([rows, kind, *figures, f"{statistics.median(times) / peer:.2f}"])
    return found


def main() -> None:
    """Measure, print and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bursts", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="+", default=list(VOCABULARIES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    torch.set_num_threads(1)
    head = {
        "device": f"{processor()}; one is used, CPU time",
        "versions": f"torch {torch.__version__}, paroli {paroli.__version__}",
        "seed": f"{args.seed}, bursts of {STEPS_PER_BURST} steps: {args.bursts}",
        "step": f"forward, backward and step; {TOUCHED} row indices, width {WIDTH}, float32",
    }
    columns = ("rows", "optimizer", "us_quartile_1", "us_median", "us_quartile_3", "ratio_to_peer")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "rows-cpu.csv"
    write_table(path, head, columns, measure(args.rows, args.bursts, args.seed))
    print(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
