"""Figure 1: synthetic data, well and badly conditioned; and regret beside its bounds."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from paroli import theory

from ..common.arguments import count
from ..common.places import is_home, results_of
from ..common.pool import run_jobs
from ..common.records import provenance, source_hash, write_table
from . import plot, race, regret, verdict
from .contestants import as_released, contestants, other_forms
from .problem import CONDITION_NUMBER, CONDITIONINGS, DISTANCE, ROWS
from .race import Race
from .regret import COLUMNS, Trial
from .tables import LEARNERS, Head, regret_file, summary, write_errors

HERE = Path(__file__).parent
README = HERE / "README.md"
ERRORS_DEPEND_ON = ("problem.py", "contestants.py", "race.py")
REGRET_DEPENDS_ON = ("problem.py", "regret.py")


class Size(NamedTuple):
    """How much is run; the costly learners take an eigendecomposition a round."""

    rounds: int
    seeds: int
    costly_share: float
    """Of the rounds."""
    costly_seeds: int
    trials: int
    """Seeds of the second picture."""


FULL = Size(rounds=200_000, seeds=5, costly_share=1 / 2, costly_seeds=2, trials=3)
QUICK = Size(rounds=30_000, seeds=2, costly_share=1 / 3, costly_seeds=1, trials=1)


def main(argv: Sequence[str]) -> int:
    """Run, write the tables, draw the figures, say where they are."""
    options = _parser().parse_args(argv)
    folder: Path = options.out or default_folder(options.quick, options.variant)
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    if not options.redraw:
        size = _size(options)
        if options.only != "regret":
            _race(options, size, folder, console)
        if options.only != "errors" and not options.variant:
            _try(options, size, folder, console)
    if (folder / LEARNERS).exists():
        console.print(summary(folder))
        console.print(verdict.summary(folder))
    for picture in plot.draw(folder):
        console.print(f"picture: {picture}", soft_wrap=True)
    if is_home() and not options.quick and not options.out:
        verdict.write_into(README, default_folder(quick=False))
        console.print(f"tables: {README}", soft_wrap=True)
    return 0


def default_folder(quick: bool, variant: str = "") -> Path:
    """Where the tables and pictures go unless the user says so."""
    folder = results_of(HERE.name) / variant
    return folder / "quick" if quick else folder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paroli reproduce synthetic", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="a smaller run, of about a minute")
    add("--seeds", type=count, metavar="N", help=f"{FULL.seeds}; quick: {QUICK.seeds}")
    add("--rounds", type=count, metavar="N", help=f"{FULL.rounds:,}; quick: {QUICK.rounds:,}")
    add("--dimension", type=count, metavar="D", default=100, help="length of a row: 100")
    add("--jobs", type=count, metavar="N", default=os.cpu_count() or 1, help="one a core")
    add("--out", type=Path, metavar="DIR", help="folder of the tables and pictures")
    add("--only", choices=("errors", "regret"), help="one of the two pictures")
    variants = parser.add_mutually_exclusive_group()
    for variant, text in (
        (verdict.RELEASED, f"the authors' script: on {ROWS} rows that come again and again"),
        (verdict.FORMS, "forms that the paper did not run: momentum, another inner learner"),
    ):
        variants.add_argument(
            f"--{variant}",
            dest="variant",
            action="store_const",
            const=variant,
            default="",
            help=f"other errors instead: {text}",
        )
    add("--redraw", action="store_true", help="run nothing, draw from the tables in the folder")
    return parser


def _size(options: argparse.Namespace) -> Size:
    size = QUICK if options.quick else FULL
    seeds = options.seeds or size.seeds
    return size._replace(
        rounds=options.rounds or size.rounds,
        seeds=seeds,
        costly_seeds=min(seeds, size.costly_seeds),
        trials=min(seeds, size.trials),
    )


def _head(options: argparse.Namespace, sources: Sequence[str]) -> Head:
    return {
        **provenance(*(HERE / name for name in sources)),
        "problem": f"dimension {options.dimension}, condition number {CONDITION_NUMBER:g}, "
        f"|comparator| {DISTANCE:g}",
    }


def _costly_rounds(size: Size) -> int:
    return max(1, round(size.rounds * size.costly_share))


def _race(options: argparse.Namespace, size: Size, folder: Path, console: Console) -> None:
    repeated = options.variant == verdict.RELEASED
    head = {
        **_head(options, ERRORS_DEPEND_ON),
        "error": f"on {ROWS} training rows that come again and again"
        if repeated
        else f"on {ROWS} hold-out rows; every training row is new",
        "rounds": f"{size.rounds}, of full-matrix Adagrad {_costly_rounds(size)}",
        "seeds": f"0 to {size.seeds - 1}, of full-matrix Adagrad 0 to {size.costly_seeds - 1}; "
        "the same stream for all learners of a seed",
    }
    players = {
        "": lambda: contestants(options.quick),
        verdict.RELEASED: lambda: as_released(options.quick),
        verdict.FORMS: other_forms,
    }[options.variant]()
    races = [
        Race(
            player,
            conditioning,
            seed,
            options.dimension,
            _costly_rounds(size) if player.is_costly else size.rounds,
            repeated,
        )
        for player in players
        for conditioning in CONDITIONINGS
        for seed in range(size.costly_seeds if player.is_costly else size.seeds)
    ]
    races.sort(key=race.work, reverse=True)
    curves = run_jobs(race.run, races, [race.work(r) for r in races], options.jobs, console)
    write_errors(folder, head, players, curves)


def _try(options: argparse.Namespace, size: Size, folder: Path, console: Console) -> None:
    head = {
        **_head(options, REGRET_DEPENDS_ON),
        "source of paroli/theory.py": source_hash(Path(theory.__file__)),
        "rounds": f"{size.rounds}",
        "seeds": f"0 to {size.trials - 1}",
        "learner": repr(regret.learner(options.dimension)),
    }
    trials = [
        Trial(conditioning, seed, options.dimension, size.rounds)
        for conditioning in CONDITIONINGS
        for seed in range(size.trials)
    ]
    work = [regret.work(trial) for trial in trials]
    results = run_jobs(regret.run, trials, work, options.jobs, console)
    for conditioning in CONDITIONINGS:
        rows = [
            [trial.seed, *row]
            for trial, result in zip(trials, results, strict=True)
            if trial.conditioning == conditioning
            for row in result
        ]
        write_table(folder / regret_file(conditioning), head, ["seed", *COLUMNS], rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
