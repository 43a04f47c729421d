"""What the report is made of: claims judged, under a figure, with what was done otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

REPRODUCED, PARTLY, NOT = "reproduced", "partly", "not"
NOT_RUN, OTHER_SCALE = "not run yet", "not run on this scale"
ON_CPU = {
    REPRODUCED: "holds on a CPU-sized cut",
    PARTLY: "holds in part on a CPU-sized cut",
    NOT: "does not hold on a CPU-sized cut",
}
"""What a cut says on which networks really learn: never the verdict of the paper's size."""
VERDICTS = (REPRODUCED, PARTLY, NOT, *ON_CPU.values(), NOT_RUN, OTHER_SCALE)

SCALES = {
    "full": "full size",
    "cpu": "on a CPU-sized cut",
    "small": "on a small cut",
    "quick": "on a quick cut",
    "smoke": "on made-up data",
}
"""Sizes in words."""


class Finding(NamedTuple):
    """One claim judged."""

    claim: str
    measured: str
    verdict: str
    """One of the `VERDICTS`."""

    def at(self, size: str) -> Finding:
        """The same, of a run of one of the `SCALES`: only full size gets the claim's verdict."""
        if size == "full":
            return self
        if size == "cpu":
            return self._replace(verdict=ON_CPU[self.verdict])
        return Finding(self.claim, f"{SCALES[size]}: {self.measured} ({self.verdict})", OTHER_SCALE)


class Section(NamedTuple):
    """One experiment in the report."""

    name: str
    """As on the command line."""
    title: str
    claim: str
    """The paper's, in our words."""
    command: str
    findings: list[Finding]
    pictures: list[Path]
    heads: tuple[str, ...]
    rows: list[tuple[str, ...]]
    """The numbers."""
    made_by: str
    """Device and versions."""
    deviations: tuple[str, ...]


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
