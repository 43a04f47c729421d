"""The experiment's part of the report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..common.records import read_table
from ..common.report import NOT, NOT_RUN, PARTLY, REPRODUCED, Finding, Section
from .tables import LEARNERS
from .verdict import Claim, judge

TITLE = "Synthetic data"
CLAIM = (
    "On rows whose covariance has condition number 750 the algorithm is as good as diagonal "
    "Adagrad where the target lies along the largest eigenvalue, and ahead of it where the target "
    "lies along the smallest; there it is slow at first, and then fast."
)
DEVIATIONS = (
    "every training row is new, and hold-out rows judge; the authors' script judges on 1,000 "
    "training rows that come again and again (paroli reproduce synthetic --as-released)",
    "three iterates are judged, the last one and two averages; the paper does not say which it "
    "shows: 'reproduced' wants the last one of a form with ScInOL inside, 'partly' any",
)
AS_RUN = "Recursive: ScInOL"


def section(folders: Mapping[str, Path]) -> Section:
    """What is known from the first of these folders, by size, that has tables."""
    command = "paroli reproduce synthetic"
    for scale, folder in folders.items():
        if not (folder / LEARNERS).exists():
            continue
        head, _ = read_table(folder / LEARNERS)
        claims = judge(folder)
        texts = dict.fromkeys(claim.text for claim in claims)
        findings = [_finding([c for c in claims if c.text == text]).at(scale) for text in texts]
        command += "" if scale == "full" else " --quick"
        pictures = [path for path in [folder / "errors.png"] if path.exists()]
        rows = [(c.text, c.learner, *map(str, c.findings)) for c in claims]
        heads = ("claim", "learner", "last iterate", "uniform average", "polynomial average")
        made_by = f"{head['device']}, paroli {head['paroli']}; rounds: {head['rounds']}"
        return Section(
            *("synthetic", TITLE, CLAIM, command, findings, pictures, heads, rows, made_by),
            DEVIATIONS,
        )
    findings = [Finding(CLAIM.rstrip("."), "there are no tables", NOT_RUN)]
    return Section(*("synthetic", TITLE, CLAIM, command, findings, [], (), [], NOT_RUN), DEVIATIONS)


def _finding(claims: list[Claim]) -> Finding:
    """A claim, of all forms of ours together."""
    last = any(c.findings[0].holds for c in claims if c.learner.startswith(AS_RUN))
    some = any(finding.holds for c in claims for finding in c.findings)
    measured = "; ".join(f"{c.learner}: {', '.join(map(str, c.findings))}" for c in claims)
    verdict = REPRODUCED if last else PARTLY if some else NOT
    return Finding(claims[0].text, f"last iterate, then averages: {measured}", verdict)
