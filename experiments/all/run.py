"""All experiments, one after the other, and the report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from ..cifar10_resnet32 import run as cifar10_resnet32
from ..common.arguments import count
from ..common.places import EXPERIMENTS, is_home, results_of
from ..common.report import Section
from ..imdb_transformer import run as imdb_transformer
from ..lm1b_transformer import run as lm1b_transformer
from ..mnist_logistic import run as mnist_logistic
from ..mnist_mlp import run as mnist_mlp
from ..ptb_transformer import run as ptb_transformer
from ..speed import run as speed
from ..synthetic import run as synthetic
from ..synthetic.section import section as synthetic_section
from ..synthetic.tables import LEARNERS
from ..synthetic.verdict import FORMS
from ..training import command
from ..training.experiment import SIZES
from ..training.report import section
from . import page

NETWORKS = (
    cifar10_resnet32,
    mnist_logistic,
    mnist_mlp,
    imdb_transformer,
    ptb_transformer,
    lm1b_transformer,
)
"""In the order of the paper's figures."""

SMOKE = ["--rounds", "300", "--dimension", "10"]
"""Of the synthetic experiment, which has no size of this name."""

DOCS = EXPERIMENTS.parent / "docs"


def main(argv: Sequence[str]) -> int:
    """Run what has no results yet, then write the report of what there is."""
    options = _parser().parse_args(argv)
    size = "quick" if options.quick else options.size
    console = Console()
    if not options.report:
        failed = _run(size, options, console)
        if failed:
            return failed
    sections = gather(size)
    folder = results_of(Path(__file__).parent.name)
    folder = folder if size == "full" else folder / size
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "report.html"
    report.write_text(page.html(sections), encoding="utf-8")
    console.print(f"report: {report}", soft_wrap=True)
    if is_home() and size == "full":
        table = DOCS / "experiments.md"
        table.write_text(page.markdown(sections, DOCS), encoding="utf-8")
        console.print(f"table: {table}", soft_wrap=True)
    return 0


def _run(size: str, options: argparse.Namespace, console: Console) -> int:
    """Every experiment in turn; the exit code of the first one that fails."""
    jobs = ["--jobs", str(options.jobs)] if options.jobs else []
    device = ["--device", options.device]
    (folder,) = synthetic_folders(size).values()
    # At the sizes between it is run as the quick one, and without the other forms.
    quick = ["--quick", "--out", str(folder), *(SMOKE if size == "smoke" else [])]
    parts = {folder: [], folder / FORMS: [f"--{FORMS}"]} if _is_full(size) else {folder: quick}
    for part, arguments in parts.items():
        if not (part / LEARNERS).exists():
            console.rule("synthetic")
            failed = synthetic.main([*arguments, *jobs])
            if failed:
                return failed
    for experiment in NETWORKS:
        console.rule(experiment.EXPERIMENT.name)
        failed = command.run(experiment.EXPERIMENT, ["--size", size, *jobs, *device])
        if failed:
            return failed
    console.rule("speed")
    return speed.main(["--size", size, *device])


def gather(size: str) -> list[Section]:
    """What there is at this size; at full size, small cuts for what was not run."""
    sizes = ("full", "cpu", "small") if size == "full" else (size,)
    return [
        synthetic_section(synthetic_folders(size)),
        *(section(experiment.EXPERIMENT, sizes) for experiment in NETWORKS),
        speed.section(sizes),
    ]


def synthetic_folders(size: str) -> dict[str, Path]:
    """Where the synthetic experiment's results of a size are."""
    results = results_of("synthetic")
    return {"full": results} if _is_full(size) else {size: results / size}


def _is_full(size: str) -> bool:
    """Of the synthetic experiment, which a CPU runs in full."""
    return size in ("full", "cpu")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paroli reproduce all", description=__doc__)
    add = parser.add_argument
    add("--size", choices=SIZES, default="full", help="how much is run; full")
    add("--quick", action="store_true", help="the same as --size quick: under 15 minutes")
    add("--jobs", type=count, metavar="N", help="runs at once")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="which one")
    add("--report", action="store_true", help="run nothing, write the report of what there is")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
