"""Iterations per second of whole training: the readable path, the fast one, Adam and Adagrad."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ..cifar10_resnet32.run import EXPERIMENT as CIFAR10
from ..common.places import results_of
from ..common.records import read_table
from ..common.report import NOT_RUN, SCALES, Finding, Section
from ..imdb_transformer.run import EXPERIMENT as IMDB
from ..lm1b_transformer.run import EXPERIMENT as LM1B
from ..mnist_logistic.run import EXPERIMENT as LOGISTIC
from ..mnist_mlp.run import EXPERIMENT as MLP
from ..ptb_transformer.run import EXPERIMENT as PTB
from ..training.experiment import SIZES
from . import plot, race, tables

HERE = Path(__file__).parent
TASKS = (CIFAR10, IMDB, LOGISTIC, MLP, PTB, LM1B)
"""In the order of the paper's panels."""

TITLE = "Iterations per second"
CLAIM = (
    "Unoptimised as the authors' code was, it takes somewhat longer an iteration than Adam and "
    "Adagrad, by a constant factor."
)
DEVIATIONS = (
    "seconds of whole steps: batch, forward, backward, update, on made-up rows of the same form",
    "the median over rounds in which the optimizers take turns",
    "on CPUs a single thread, and its CPU time; networks and batches are the size's, and the full "
    "ones for --size cpu",
)

PACES = {
    "full": race.Pace(rounds=5, seconds=2.0),
    "cpu": race.Pace(rounds=3, seconds=1.0),
    "small": race.Pace(rounds=5, seconds=0.2),
    "quick": race.Pace(rounds=3, seconds=0.1),
    "smoke": race.Pace(rounds=1, seconds=0.0),
}


def main(argv: Sequence[str]) -> int:
    """Measure, write the table, draw the figure."""
    options = _parser().parse_args(argv)
    size = "quick" if options.quick else options.size
    folder: Path = options.out or folder_of(size)
    console = Console()
    if not options.redraw:
        networks = "full" if size == "cpu" else size
        tasks = {task.name: task.sizes[networks].setting for task in TASKS}
        pace = PACES[size]
        with Progress(console=console) as progress:
            bar = progress.add_task("turns", total=len(tasks) * len(race.RACERS) * pace.rounds)
            laps = race.run(tasks, pace, options.device, lambda: progress.advance(bar))
            tables.write(folder, laps, options.device, tasks)
    if not (folder / tables.TABLE).exists():
        print(f"paroli: no table of this size in {folder}", file=sys.stderr)
        return 1
    heads, rows = tables.numbers(tables.read(folder))
    table = Table(*heads, title=TITLE, box=SIMPLE_HEAD, padding=0, show_edge=False)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"picture: {plot.draw(folder, size)}", soft_wrap=True)
    return 0


def folder_of(size: str) -> Path:
    """Where the results of a size are."""
    results = results_of(HERE.name)
    return results if size == "full" else results / size


def section(sizes: Sequence[str]) -> Section:
    """What is known at the first of these sizes that has a table."""
    for size in sizes:
        folder = folder_of(size)
        if (folder / tables.TABLE).exists():
            speeds = tables.read(folder)
            head, _ = read_table(folder / tables.TABLE)
            findings = [finding.at(size) for finding in tables.judge(speeds)]
            device = f"{SCALES[size]}, {head['device']}, torch {head['torch']}"
            made_by = f"{device}, seconds: {head['seconds']}"
            pictures = [folder / plot.PICTURE] if (folder / plot.PICTURE).exists() else []
            heads, rows = tables.numbers(speeds)
            command = "paroli reproduce speed" + ("" if size == "full" else f" --size {size}")
            return Section(
                *("speed", TITLE, CLAIM, command, findings, pictures, heads, rows, made_by),
                DEVIATIONS,
            )
    findings = [Finding(CLAIM.rstrip("."), "there is no table", NOT_RUN)]
    return Section(
        *("speed", TITLE, CLAIM, "paroli reproduce speed", findings, [], (), [], NOT_RUN),
        DEVIATIONS,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paroli reproduce speed", description=__doc__)
    add = parser.add_argument
    add("--size", choices=SIZES, default="full", help="how long it is measured; full")
    add("--quick", action="store_true", help="the same as --size quick: a minute")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="which one")
    add("--out", type=Path, metavar="DIR", help="folder of the table and the picture")
    add("--redraw", action="store_true", help="run nothing, draw from the table in the folder")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
