"""What an experiment is: sizes, a claim, a figure as the paper lays it out, a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..common.places import results_of
from ..common.report import Finding
from .contestants import NOTHING_TO_TUNE, Contestant, grid
from .loop import Run
from .runs import Curves
from .setting import Setting

SIZES = ("full", "cpu", "small", "quick", "smoke")
"""As in the paper or near it; what one CPU core learns in a quarter of an hour; a few minutes;
minutes for all together; seconds, on made-up data."""


class Size(NamedTuple):
    """How much is run."""

    setting: Setting
    seeds: int
    adam: tuple[float, ...]
    adagrad: tuple[float, ...]
    """Learning rates."""

    def contestants(self) -> list[Contestant]:
        """Everyone who trains."""
        return [*NOTHING_TO_TUNE, *grid("Adam", self.adam), *grid("Adagrad", self.adagrad)]

    def runs(self, device: str) -> list[Run]:
        """Every contestant with every seed."""
        return [
            Run(self.setting, contestant, seed, device)
            for contestant in self.contestants()
            for seed in range(self.seeds)
        ]


class Panel(NamedTuple):
    """A picture in a figure."""

    column: str
    against: str
    """"step" or "seconds"."""


Judge = Callable[[Mapping[str, Curves], str], list[Finding]]
"""From all curves and the test metric."""


@dataclass(frozen=True)
class Experiment:
    """A figure of the paper."""

    name: str
    """As on the command line."""
    title: str
    claim: str
    """The paper's, in our words."""
    sizes: Mapping[str, Size]
    metric: str
    """The column of the test metric that the paper shows: it names the best of a grid."""
    panels: tuple[tuple[Panel, ...], ...]
    """Row by row."""
    judge: Judge
    deviations: tuple[str, ...]
    """From what the paper ran."""

    def folder(self, size: str) -> Path:
        """Where the results of a size are."""
        results = results_of(self.name.replace("-", "_"))
        return results if self.is_full(size) else results / size

    def scale(self, size: str) -> str:
        """What a size is called in `SCALES`."""
        return "full" if self.is_full(size) else size

    def is_full(self, size: str) -> bool:
        """Whether a size is the full one by another name: what a CPU does in minutes."""
        return self.sizes[size] == self.sizes["full"]
