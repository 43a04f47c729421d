"""An experiment's part of the report, and its table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from ..common.records import read_table
from ..common.report import NOT_RUN, SCALES, Finding, Section
from . import runs
from .experiment import Experiment
from .figures import LABELS, PICTURE, highlighted
from .runs import Curves


def section(experiment: Experiment, sizes: Sequence[str]) -> Section:
    """What is known at the first of these sizes of which every run has its table."""
    command = f"paroli reproduce {experiment.name}"
    for size in sizes:
        planned = experiment.sizes[size].runs("cpu")
        folder = experiment.folder(size)
        if all(runs.is_done(folder, run) for run in planned):
            curves = runs.read(folder, planned)
            scale = experiment.scale(size)
            judged = experiment.judge(curves, experiment.metric)
            findings = [finding.at(scale) for finding in judged] + _longer(experiment, size)
            command += "" if scale == "full" else f" --size {scale}"
            head, _ = read_table(runs.path_of(folder, planned[0]))
            heads, rows = numbers(experiment, curves)
            pictures = [folder / PICTURE] if (folder / PICTURE).exists() else []
            made_by = (
                f"{SCALES[scale]}, {_seeds(experiment.sizes[size].seeds)}, {head['device']}, "
                f"torch {head['torch']}, paroli {head['paroli']}; {head['configuration']}"
            )
            versions = len(runs.versions(folder, planned))
            if versions > 1:
                made_by += f"; the tables are by {versions} versions of the sources"
            return Section(
                experiment.name,
                experiment.title,
                experiment.claim,
                command,
                findings,
                pictures,
                heads,
                rows,
                made_by,
                experiment.deviations,
            )
    findings = [Finding(experiment.claim.rstrip("."), "there are no tables", NOT_RUN)]
    return Section(
        *(experiment.name, experiment.title, experiment.claim, command, findings),
        *([], (), [], NOT_RUN, experiment.deviations),
    )


def _longer(experiment: Experiment, size: str) -> list[Finding]:
    """What the CPU-sized cut adds, where it has fewer runs than the full size, but longer ones."""
    cut = experiment.sizes.get("cpu", experiment.sizes[size])
    if not experiment.is_full(size) or cut.setting.steps <= experiment.sizes[size].setting.steps:
        return []
    folder, planned = experiment.folder("cpu"), cut.runs("cpu")
    if not all(runs.is_done(folder, run) for run in planned):
        return []
    how = f"{cut.setting.steps:,} steps, {_seeds(cut.seeds)}"
    judged = experiment.judge(runs.read(folder, planned), experiment.metric)
    return [finding._replace(claim=f"{finding.claim} ({how})").at("cpu") for finding in judged]


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"


def numbers(
    experiment: Experiment, curves: Mapping[str, Curves]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Every contestant's best test metric, its end, and its seconds; heads and rows."""
    metric = LABELS[experiment.metric]
    heads = (
        "contestant",
        f"best {metric}",
        f"{metric} at the end",
        "train loss at the end",
        "seconds per 1,000 steps",
    )
    shown = highlighted(curves, experiment.metric)
    rows: list[tuple[str, ...]] = []
    for key, curve in curves.items():
        best = curve.best(experiment.metric)
        per_step = curve.columns["seconds"][:, -1] / curve.columns["step"][:, -1]
        rows.append(
            (
                shown.get(key, curve.contestant.label),
                _with_range(curve.score(experiment.metric), best),
                _number(float(curve.median(experiment.metric)[-1])),
                _number(float(curve.median("train_loss")[-1])),
                _number(1000 * float(np.median(per_step))),
            )
        )
    return heads, rows


def _with_range(median: float, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    if len(values) == 1:
        return _number(median)
    return f"{_number(median)} ({_number(values.min())} to {_number(values.max())})"


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "diverged"


def table(experiment: Experiment, curves: Mapping[str, Curves]) -> Table:
    """The numbers for a terminal."""
    heads, rows = numbers(experiment, curves)
    drawn = Table(title=experiment.title, box=SIMPLE_HEAD, padding=0, show_edge=False)
    for i, head in enumerate(heads):
        drawn.add_column(head, justify="right" if i else "left")
    for row in rows:
        drawn.add_row(*row)
    return drawn
