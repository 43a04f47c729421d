"""The results as CSV, one file a run: written at its end, read by the figures and verdicts."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

import paroli

from ..common.records import provenance, read_table, source_hash, write_table
from .contestants import Contestant
from .loop import Look, Run, clock_of

HERE = Path(__file__).parent
PARTS = ("setting", "perceptron", "resnet", "transformer", "contestants", "batches", "loop")
SOURCES = (HERE.parent / "data", *(HERE / f"{name}.py" for name in PARTS))
"""What the numbers depend on."""

RUNS = "runs"
SHORT = {"step": "{:d}", "epoch": "{:.6g}", "seconds": "{:.5g}"}
"""How columns are written that need few digits; the others have `DIGITS`."""
DIGITS = "{:.6g}"

HIGHER_IS_BETTER = frozenset({"train_accuracy", "test_accuracy"})


def head(run: Run, processes: int) -> dict[str, str]:
    """What made a run's table."""
    device = provenance()["device"]
    if run.device != "cpu":
        device = f"{torch.cuda.get_device_name(run.device)}; {device}"
    return {
        **provenance(*SOURCES),
        "source of paroli/torch": source_hash(Path(paroli.__file__).parent / "torch"),
        "torch": version("torch"),
        "system": platform.system(),
        "device": device,
        "seconds": f"{clock_of(run.device)}, {processes} processes at once",
        **identity(run),
    }


def identity(run: Run) -> dict[str, str]:
    """What decides whether a table is of this run: the part of `head` that the user chose."""
    return {
        "contestant": run.contestant.key,
        "seed": str(run.seed),
        "configuration": repr(run.setting),
    }


def path_of(folder: Path, run: Run) -> Path:
    """Where a run's table is."""
    return folder / RUNS / f"{run.name}.csv"


def is_done(folder: Path, run: Run) -> bool:
    """Whether there is a table of this very run."""
    path = path_of(folder, run)
    return path.exists() and identity(run).items() <= read_table(path)[0].items()


def sources(head: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """What a head says of the sources."""
    return frozenset((key, value) for key, value in head.items() if key.startswith("source of "))


def versions(folder: Path, runs: Sequence[Run]) -> set[frozenset[tuple[str, str]]]:
    """The versions of the sources that made the tables of these runs."""
    return {sources(read_table(path_of(folder, run))[0]) for run in runs}


def write(folder: Path, run: Run, processes: int, looks: Sequence[Look]) -> None:
    """Write a run's table."""
    path = path_of(folder, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        [SHORT.get(name, DIGITS).format(value) for name, value in look._asdict().items()]
        for look in looks
    ]
    fresh = path.with_suffix(".new")
    write_table(fresh, head(run, processes), Look._fields, rows)
    fresh.replace(path)


class Curves(NamedTuple):
    """A contestant's runs: each column as an array of (seeds, looks)."""

    contestant: Contestant
    seeds: tuple[int, ...]
    columns: dict[str, npt.NDArray[np.float64]]

    def median(self, column: str) -> npt.NDArray[np.float64]:
        """Over the seeds, at every look."""
        median: npt.NDArray[np.float64] = np.median(self.columns[column], axis=0)
        return median

    def best(self, column: str) -> npt.NDArray[np.float64]:
        """The best value that each seed's run saw; the worst there is, if it diverged at once."""
        values = self.columns[column]
        bad = -math.inf if column in HIGHER_IS_BETTER else math.inf
        values = np.where(np.isfinite(values), values, bad)
        best: npt.NDArray[np.float64] = _best_of(column)(values, axis=1)
        return best

    def score(self, column: str) -> float:
        """The median over seeds of the best value seen."""
        return float(np.median(self.best(column)))


def _best_of(column: str) -> Callable[..., npt.NDArray[np.float64]]:
    return np.max if column in HIGHER_IS_BETTER else np.min


def read(folder: Path, runs: Sequence[Run]) -> dict[str, Curves]:
    """The tables that there are of these runs, by contestant, in the order of ``runs``."""
    found: dict[str, list[tuple[Run, list[dict[str, str]]]]] = {}
    for run in runs:
        if is_done(folder, run):
            _, rows = read_table(path_of(folder, run))
            found.setdefault(run.contestant.key, []).append((run, rows))
    return {key: _curves(tables) for key, tables in found.items()}


def _curves(tables: list[tuple[Run, list[dict[str, str]]]]) -> Curves:
    """Runs that diverged are shorter: the looks they did not get to are NaN."""
    setting = tables[0][0].setting
    marks = setting.marks()
    columns = {name: np.full((len(tables), len(marks)), np.nan) for name in Look._fields}
    columns["step"][:] = marks
    for i, (_, rows) in enumerate(tables):
        for name in Look._fields:
            columns[name][i, : len(rows)] = [float(row[name]) for row in rows]
    return Curves(tables[0][0].contestant, tuple(run.seed for run, _ in tables), columns)


def chosen(curves: Mapping[str, Curves], family: str, column: str) -> Curves | None:
    """The member of a family that the test metric prefers, in hindsight."""
    members = [c for c in curves.values() if c.contestant.family == family]
    if not members:
        return None
    pick = max if column in HIGHER_IS_BETTER else min
    return pick(members, key=lambda member: member.score(column))


def default(curves: Mapping[str, Curves], family: str) -> Curves | None:
    """The member of a family that nobody tuned."""
    members = [c for c in curves.values() if c.contestant.family == family]
    return next((c for c in members if c.contestant.is_default), None)
