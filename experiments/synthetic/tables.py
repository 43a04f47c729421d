"""The results as CSV: written by a run, read by the figures and by the summary."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rich.box import SIMPLE_HEAD
from rich.table import Table

from ..common.records import read_table, write_table
from .contestants import Contestant
from .problem import CONDITIONINGS, checkpoints
from .race import ITERATES, Curve

Head = dict[str, str]
LEARNERS = "learners.csv"
LAST = ITERATES[0]
SECONDS = "seconds per 1000 rounds"


class Player(NamedTuple):
    """A learner as `LEARNERS` has it."""

    label: str
    family: str
    seconds: float
    """CPU time of 1000 rounds; the median over runs."""


class Errors(NamedTuple):
    """A learner's errors: ``errors[i, k]`` of seed i at ``rounds[k]``."""

    rounds: npt.NDArray[np.int64]
    errors: npt.NDArray[np.float64]

    @property
    def median(self) -> npt.NDArray[np.float64]:
        """Over the seeds."""
        median: npt.NDArray[np.float64] = np.median(self.errors, axis=0)
        return median

    def at(self, t: int) -> float | None:
        """The median at a round, if the run got there."""
        (found,) = np.nonzero(self.rounds == t)
        return float(self.median[found[0]]) if len(found) else None


def errors_file(conditioning: str, iterate: str = LAST) -> str:
    """The name of the table of one conditioning's errors, of one of the `ITERATES`."""
    return f"errors-{conditioning}-{iterate}.csv"


def regret_file(conditioning: str) -> str:
    """The name of the table of one conditioning's regret and bounds."""
    return f"regret-{conditioning}.csv"


def write_errors(
    folder: Path, head: Head, players: Sequence[Contestant], curves: Sequence[Curve]
) -> None:
    """Write what the races gave: a table a conditioning and iterate, and one of the learners."""
    for conditioning in CONDITIONINGS:
        here = [curve for curve in curves if curve.race.conditioning == conditioning]
        for i, iterate in enumerate(ITERATES):
            _write_iterate(folder / errors_file(conditioning, iterate), head, players, here, i)
    timings = []
    for player in players:
        seconds = [c.seconds_per_round for c in curves if c.race.contestant == player]
        timing = f"{1000 * statistics.median(seconds):.3g}"
        timings.append([player.key, player.label, player.family, timing, repr(player.learner)])
    columns = ["learner", "label", "family", SECONDS, "expression"]
    write_table(folder / LEARNERS, head, columns, timings)


def _write_iterate(
    path: Path, head: Head, players: Sequence[Contestant], curves: Sequence[Curve], i: int
) -> None:
    """Write the errors of the i-th of the `ITERATES`: a column a seed."""
    seeds = sorted({curve.race.seed for curve in curves})
    rows: list[list[object]] = []
    for player in players:
        found = {curve.race.seed: curve for curve in curves if curve.race.contestant == player}
        rounds = checkpoints(next(iter(found.values())).race.rounds)
        for k, t in enumerate(rounds):
            cells = [f"{found[s].errors[k][i]:.4g}" if s in found else "" for s in seeds]
            rows.append([player.key, t, *cells])
    write_table(path, head, ["learner", "round", *(f"seed {seed}" for seed in seeds)], rows)


def read_players(folder: Path) -> dict[str, Player]:
    """The learners by their keys, in their order."""
    _, rows = read_table(folder / LEARNERS)
    return {
        row["learner"]: Player(row["label"], row["family"], float(row[SECONDS])) for row in rows
    }


def read_errors(folder: Path, conditioning: str, iterate: str = LAST) -> dict[str, Errors]:
    """One conditioning's errors by the learners' keys."""
    _, rows = read_table(folder / errors_file(conditioning, iterate))
    found: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        found.setdefault(row["learner"], []).append(row)
    return {key: _as_errors(some) for key, some in found.items()}


def _as_errors(rows: list[dict[str, str]]) -> Errors:
    seeds = [name for name in rows[0] if name.startswith("seed ") and rows[0][name]]
    errors = [[float(row[seed]) for row in rows] for seed in seeds]
    return Errors(np.array([int(row["round"]) for row in rows]), np.array(errors))


def read_regret(
    folder: Path, conditioning: str
) -> tuple[npt.NDArray[np.int64], dict[str, npt.NDArray[np.float64]]]:
    """One conditioning's rounds, and each column as an array of (seeds, rounds)."""
    _, rows = read_table(folder / regret_file(conditioning))
    seeds = {row["seed"] for row in rows}
    rounds = [int(row["round"]) for row in rows if row["seed"] == rows[0]["seed"]]
    columns = {
        name: np.array([float(row[name]) for row in rows]).reshape(len(seeds), -1)
        for name in rows[0]
    }
    return np.array(rounds), columns


def best_of_families(players: dict[str, Player], curves: dict[str, Errors]) -> dict[str, str]:
    """For each family the key with the smallest final error: a choice made in hindsight."""
    best: dict[str, str] = {}
    for key, player in players.items():
        rival = best.get(player.family, key)
        if player.family and curves[key].median[-1] <= curves[rival].median[-1]:
            best[player.family] = key
    return best


def summary(folder: Path) -> Table:
    """The errors at a few rounds, medians over seeds; the best of each grid in bold."""
    players = read_players(folder)
    table = Table(
        title="Error of the last iterate: median over seeds; bold: the best rate in hindsight",
        box=SIMPLE_HEAD,
        padding=0,
        show_edge=False,
    )
    table.add_column("\nlearner", no_wrap=True)
    columns = []
    for conditioning in CONDITIONINGS:
        curves = read_errors(folder, conditioning)
        last = int(max(curve.rounds[-1] for curve in curves.values()))
        best = set(best_of_families(players, curves).values())
        for t in sorted({min(1000, last), min(10_000, last), last}):
            table.add_column(f"{conditioning}\n{_short(t)}", justify="right", no_wrap=True)
            columns.append((t, curves, best))
    table.add_column("CPU s\nper 1k", justify="right", no_wrap=True)
    for key, player in players.items():
        cells = []
        for t, curves, best in columns:
            cell = as_text(curves[key].at(t))
            cells.append(f"[bold]{cell}[/bold]" if key in best else cell)
        table.add_row(player.label, *cells, f"{player.seconds:.3f}")
    return table


def as_text(error: float | None) -> str:
    """Two digits of small errors, three decimals of others; a dash where the run ended before."""
    if error is None:
        return "–"
    return f"{error:.3f}" if error >= 0.01 else f"{error:.2g}"


def _short(t: int) -> str:
    """200k for 200,000."""
    return f"{t // 1000}k" if t % 1000 == 0 else str(t)
