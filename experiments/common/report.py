"""What the report is made of: claims judged, under a figure, with what was done otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

REPRODUCED, PARTLY, NOT = "reproduced", "partly", "not"
NOT_RUN, OTHER_SCALE = "not run yet", "not run on this scale"
VERDICTS = (REPRODUCED, PARTLY, NOT, NOT_RUN, OTHER_SCALE)


class Finding(NamedTuple):
    """One claim judged."""

    claim: str
    measured: str
    verdict: str
    """One of the `VERDICTS`."""

    def on_another_scale(self, scale: str) -> Finding:
        """The same, of a run that is too small to judge the claim by."""
        return Finding(self.claim, f"{scale}: {self.measured} ({self.verdict})", OTHER_SCALE)


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
