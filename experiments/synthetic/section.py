"""The experiment's part of the report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..common.records import read_table
from ..common.report import NOT, NOT_RUN, PARTLY, REPRODUCED, Finding, Section
from .race import ITERATES
from .tables import LEARNERS
from .verdict import AS_RUN, FORMS, Claim, judge, named

TITLE = "Synthetic data"
CLAIM = (
    "On rows whose covariance has condition number 750 the algorithm is as good as diagonal "
    "Adagrad where the target lies along the largest eigenvalue, and ahead of it where the target "
    "lies along the smallest; there it is slow at first, and then fast."
)
LISTED = 2
DEVIATIONS = (
    "every training row is new, and hold-out rows judge; the authors' script judges on 1,000 "
    "training rows that come again and again (paroli reproduce synthetic --as-released)",
    "three iterates are judged, the last one and two averages; the paper does not say which it "
    "shows, the authors' script shows the last one: 'reproduced' wants that one of a form with "
    "ScInOL inside, 'partly' any iterate of any form",
    "forms that the paper did not run, with its momentum analogue or the authors' other inner "
    "learner (paroli reproduce synthetic --other-forms), count as 'partly' at most",
)


def section(folders: Mapping[str, Path]) -> Section:
    """What is known from the first of these folders, by size, that has tables."""
    command = "paroli reproduce synthetic"
    for scale, folder in folders.items():
        if not (folder / LEARNERS).exists():
            continue
        head, _ = read_table(folder / LEARNERS)
        parts = [part for part in (folder, folder / FORMS) if (part / LEARNERS).exists()]
        found: dict[tuple[str, str], Claim] = {}
        for claim in (claim for part in parts for claim in judge(part)):
            found.setdefault((claim.text, claim.key), claim)  # of one in both parts the first
        claims = list(found.values())
        texts = dict.fromkeys(claim.text for claim in claims)
        findings = [_finding([c for c in claims if c.text == text]).at(scale) for text in texts]
        command += "" if scale == "full" else " --quick"
        pictures = [part / "errors.png" for part in parts if (part / "errors.png").exists()]
        rows = [(c.text, c.learner, *map(str, c.findings)) for c in claims]
        heads = ("claim", "learner", *named(ITERATES))
        made_by = f"{head['device']}, paroli {head['paroli']}; rounds: {head['rounds']}"
        return Section(
            *("synthetic", TITLE, CLAIM, command, findings, pictures, heads, rows, made_by),
            DEVIATIONS,
        )
    findings = [Finding(CLAIM.rstrip("."), "there are no tables", NOT_RUN)]
    return Section(*("synthetic", TITLE, CLAIM, command, findings, [], (), [], NOT_RUN), DEVIATIONS)


def _finding(claims: list[Claim]) -> Finding:
    """A claim, of all forms of ours together."""
    last = any(c.findings[0].holds for c in claims if c.key in AS_RUN)
    some = any(finding.holds for c in claims for finding in c.findings)
    verdict = REPRODUCED if last else PARTLY if some else NOT
    parts = [f"{name}: {_holders(claims, i)}" for i, name in enumerate(named(ITERATES))]
    return Finding(claims[0].text, "; ".join(parts), verdict)


def _holders(claims: list[Claim], i: int) -> str:
    """The forms for which a claim holds, the first `LISTED`; or none, and what the first one does.

    All are in the table of numbers.
    """
    holding = [c for c in claims if c.findings[i].holds]
    parts = [f"{_short(c)} {c.findings[i].measured}" for c in (holding or claims[:1])[:LISTED]]
    if len(holding) > LISTED:
        parts.append(f"{len(holding) - LISTED} more")
    listed = " and ".join(parts)
    return f"holds for {listed}" if holding else f"for none ({listed})"


def _short(claim: Claim) -> str:
    return claim.learner.removeprefix("Recursive: ")
