"""The command line that all deep-learning experiments share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from ..common.arguments import count
from ..common.pool import run_jobs
from ..data.files import DataError
from . import figures, runs
from .experiment import SIZES, Experiment
from .loop import Report, Run, train
from .report import table
from .setting import Source

GPU_JOBS = 8
"""Small networks leave most of a GPU idle."""


def run(experiment: Experiment, argv: Sequence[str]) -> int:
    """Run what has no table yet, draw the figure, judge."""
    options = _parser(experiment).parse_args(argv)
    size = "quick" if options.quick else options.size
    folder: Path = options.out or experiment.folder(size)
    chosen = experiment.sizes[size]
    if options.seeds:
        chosen = chosen._replace(seeds=options.seeds)
    console = Console()
    planned = chosen.runs(options.device)
    if not options.redraw:
        try:
            _train(planned, folder, options, console)
        except DataError as error:
            print(f"paroli: {error}", file=sys.stderr)
            return 1
    curves = runs.read(folder, planned)
    if not curves:
        print(f"paroli: no tables of this size in {folder}", file=sys.stderr)
        return 1
    console.print(table(experiment, curves))
    for judged in experiment.judge(curves, experiment.metric):
        finding = judged.at(experiment.scale(size))
        console.print(f"{finding.verdict}: {finding.claim}. {finding.measured}")
    picture = figures.draw(experiment, curves, folder, size, len(planned))
    console.print(f"picture: {picture}", soft_wrap=True)
    return 0


def _train(
    planned: Sequence[Run], folder: Path, options: argparse.Namespace, console: Console
) -> None:
    missing = [run for run in planned if options.again or not runs.is_done(folder, run)]
    done = [run for run in planned if run not in missing]
    if done:
        console.print(f"{len(done)} runs have their tables already")
        if runs.versions(folder, done) != {runs.sources(runs.head(done[0], options.jobs))}:
            console.print("some by other versions of the sources; --again runs them anew")
    if not missing:
        return
    if options.device != "cpu" and not torch.cuda.is_available():
        raise DataError(f"--device {options.device}: torch finds no such device; leave it out")
    _look_at(missing[0].setting.source)
    missing.sort(key=lambda run: run.contestant.cost, reverse=True)
    work = [float(run.setting.steps) for run in missing]
    job = partial(one_run, folder=folder, processes=options.jobs)
    run_jobs(job, missing, work, options.jobs, console)


def _look_at(source: Source) -> None:
    """Fail now, and fetch once, rather than in every process."""
    source.load()


def one_run(run: Run, report: Report, folder: Path, processes: int) -> None:
    """What a worker process does."""
    saved = folder / "unfinished" / f"{run.name}.pt"
    runs.write(folder, run, processes, train(run, report, saved))


def _parser(experiment: Experiment) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"paroli reproduce {experiment.name}", description=experiment.title
    )
    on_gpu = torch.cuda.is_available()
    add = parser.add_argument
    add("--size", choices=SIZES, default="full", help="how much is run; full")
    add("--quick", action="store_true", help="the same as --size quick: minutes")
    add("--seeds", type=count, metavar="N", help="instead of the size's number")
    add("--device", default="cuda" if on_gpu else "cpu", help="cuda, where there is one")
    add(
        "--jobs",
        type=count,
        metavar="N",
        default=GPU_JOBS if on_gpu else os.cpu_count() or 1,
        help=f"runs at once: one a core, or {GPU_JOBS} on a GPU",
    )
    add("--out", type=Path, metavar="DIR", help="folder of the tables and the picture")
    add("--again", action="store_true", help="run also what has its table already")
    add("--redraw", action="store_true", help="run nothing, draw from the tables in the folder")
    return parser
