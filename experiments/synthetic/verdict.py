"""The claims of the paper's Figure 1 judged from the tables, and the README's part about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from ..common.records import read_table
from ..common.report import markdown_table
from .contestants import OTHER_FORMS, SCRIPT_RATE
from .problem import CONDITIONINGS
from .race import ITERATES
from .tables import (
    LAST,
    Errors,
    as_text,
    best_of_families,
    errors_file,
    read_errors,
    read_players,
    read_regret,
)

AS_RUN = ("recursive-scinol", "recursive-scinol-cap")
"""As the paper ran it in Figure 1: ScInOL inside, and no momentum."""

OURS = (
    *AS_RUN,
    "recursive-diagonal",
    *(form.key for form in OTHER_FORMS),
)
RIVAL = "Adagrad"
FACTOR = 2.0
"""'Maintaining performance': at most so many times the rival's error."""

ORIGIN = math.sqrt(2 / math.pi)
"""The expected error of w = 0."""

STILL_SLOW, DONE = 0.9, 0.25
"""Of the error of w = 0: the last look above one ends 'slow', the next below the other 'fast'."""

FAST = 3.0
"""'Fast' ends at most so many times as late as 'slow'."""

PANELS = {"well": "(a) well-conditioned", "badly": "(b) badly conditioned"}

RELEASED, FORMS = "as-released", "other-forms"
"""Variants: their options, and their folders."""

EARLY = (1000, 10_000, 30_000, 100_000)

BEGIN, END = "<!-- from the tables: begin -->", "<!-- from the tables: end -->"


class Finding(NamedTuple):
    """What was measured, and whether the claim holds."""

    measured: str
    holds: bool

    def __str__(self) -> str:
        return f"{self.measured}: {'yes' if self.holds else 'no'}"


class Claim(NamedTuple):
    """A claim about a learner, with a finding for each of the `ITERATES`."""

    text: str
    key: str
    learner: str
    findings: list[Finding]


def judge(folder: Path) -> list[Claim]:
    """Every claim on every form of ours, at the end of the run."""
    players = read_players(folder)
    errors = {
        (conditioning, iterate): read_errors(folder, conditioning, iterate)
        for conditioning in CONDITIONINGS
        for iterate in ITERATES
    }
    best = {case: best_of_families(players, curves)[RIVAL] for case, curves in errors.items()}
    rivals = [(f"{RIVAL}'s best rate", best)]
    if SCRIPT_RATE in players:
        rivals.append((players[SCRIPT_RATE].label, dict.fromkeys(errors, SCRIPT_RATE)))
    ours = [key for key in OURS if key in players]
    claims = []
    for name, rival in rivals:
        for key in ours:
            findings = [
                _within_factor(errors["well", i][key], errors["well", i][rival["well", i]])
                for i in ITERATES
            ]
            text = f"(a) at most {FACTOR:g} times the error of {name}"
            claims.append(Claim(text, key, players[key].label, findings))
        for key in ours:
            findings = [
                _ahead_or_level(errors["badly", i][key], errors["badly", i][rival["badly", i]])
                for i in ITERATES
            ]
            claims.append(
                Claim(f"(b) ahead of {name}, or level", key, players[key].label, findings)
            )
    for key in ours:  # one rate for both, as the algorithm has one setting for both
        findings = [
            _within_factor(errors["well", i][key], errors["well", i][best["badly", i]])
            for i in ITERATES
        ]
        text = f"(a) at most {FACTOR:g} times the error of {RIVAL}'s best rate of (b)"
        claims.append(Claim(text, key, players[key].label, findings))
    for key in ours:
        findings = [_slow_then_fast(errors["badly", i][key]) for i in ITERATES]
        claims.append(Claim("(b) slow, then fast", key, players[key].label, findings))
    return claims


def _within_factor(ours: Errors, rival: Errors) -> Finding:
    ratio = float(ours.median[-1] / rival.median[-1])
    return Finding(f"×{ratio:.3g}", ratio <= FACTOR)


def _ahead_or_level(ours: Errors, rival: Errors) -> Finding:
    """Level: the ranges over seeds overlap."""
    ratio = float(ours.median[-1] / rival.median[-1])
    level = bool(ours.errors[:, -1].min() <= rival.errors[:, -1].max())
    return Finding(f"×{ratio:.3g}", ratio <= 1 or level)


def _slow_then_fast(curve: Errors) -> Finding:
    above = curve.median >= STILL_SLOW * ORIGIN
    slow = len(above) - 1 - int(above[::-1].argmax()) if above.any() else 0
    below = curve.median[slow:] <= DONE * ORIGIN
    begin = int(curve.rounds[slow])
    if not below.any():
        return Finding(f"slow until {begin:,}, then not down to a quarter", False)
    end = int(curve.rounds[slow + int(below.argmax())])
    return Finding(f"slow until {begin:,}, down to a quarter at {end:,}", end <= FAST * begin)


def summary(folder: Path) -> Table:
    """What is claimed of the last iterate, for a terminal."""
    claims = judge(folder)
    table = Table(
        title=f"Claims at the end of the run, {named([LAST])[0]}",
        box=SIMPLE_HEAD,
        padding=0,
        show_edge=False,
    )
    table.add_column("claim")
    for learner in dict.fromkeys(claim.learner for claim in claims):
        table.add_column(learner.replace(": ", ":\n"))
    for text in dict.fromkeys(claim.text for claim in claims):
        findings = (str(claim.findings[0]) for claim in claims if claim.text == text)
        table.add_row(text, *findings)
    return table


# The README's part -----------------------------------------------------------------------------


def write_into(readme: Path, results: Path) -> None:
    """Write `page` between the marks of a README."""
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{readme}: expected a line {BEGIN!r} and after it a line {END!r}")
    readme.write_text(f"{before}{BEGIN}\n{page(results)}{END}{after}", encoding="utf-8")


def page(results: Path) -> str:
    """All the tables, in Markdown."""
    lines: list[str] = []
    for folder, what in (
        (results, "Error"),
        (results / FORMS, "Forms that the paper did not run: error"),
        (results / RELEASED, "Error"),
    ):
        if folder.exists():
            lines += [f"### {what} {_measure(folder)}", "", *_claims(folder)]
            for conditioning in CONDITIONINGS:
                lines += ["", f"{PANELS[conditioning]}, medians over seeds:", ""]
                lines += [*_errors(folder, conditioning, EARLY), ""]
    lines += ["### Regret and its bound at the last round", "", *_regret(results)]
    return "\n".join(lines) + "\n"


def _claims(folder: Path) -> list[str]:
    claims = judge(folder)
    heads = ("claim", "learner", *named(ITERATES))
    return markdown_table(heads, [(c.text, c.learner, *map(str, c.findings)) for c in claims])


def _measure(folder: Path) -> str:
    head, _ = read_table(folder / errors_file(CONDITIONINGS[0], LAST))
    return head["error"]


def named(iterates: Sequence[str]) -> list[str]:
    """Iterates in words."""
    return [f"{i} iterate" if i == LAST else f"{i} average" for i in iterates]


def _errors(folder: Path, conditioning: str, rounds: Sequence[int]) -> list[str]:
    """Medians, the best of each family in bold; of the last iterate at the end its range too."""
    curves = {iterate: read_errors(folder, conditioning, iterate) for iterate in ITERATES}
    last = int(max(curve.rounds[-1] for curve in curves[LAST].values()))
    players = read_players(folder)
    best = {i: set(best_of_families(players, some).values()) for i, some in curves.items()}
    rows = []
    for key, player in players.items():
        curve = curves[LAST][key]
        early = [as_text(curve.at(t)) for t in rounds if t < last]
        final = []
        for iterate in ITERATES:
            median = curves[iterate][key].at(last)
            text = as_text(median)
            if median is not None:  # else the run was a shorter one
                text = f"**{text}**" if key in best[iterate] else text
                if iterate == LAST:
                    of_seeds = curve.errors[:, -1]
                    text += f" ({as_text(of_seeds.min())} to {as_text(of_seeds.max())})"
            final.append(text)
        rows.append((player.label, *early, *final))
    heads = ["learner", *(f"round {t:,}" for t in rounds if t < last)]
    return markdown_table([*heads, *(f"round {last:,}, {name}" for name in named(ITERATES))], rows)


def _regret(folder: Path) -> list[str]:
    rows = []
    for conditioning in CONDITIONINGS:
        rounds, columns = read_regret(folder, conditioning)
        median = {name: np.median(values, axis=0) for name, values in columns.items()}
        useful = rounds[median["bound"] < median["regret of w = 0"]]
        special = rounds[columns["full-matrix case"].any(axis=0)]
        rows.append(
            (
                PANELS[conditioning],
                *(f"{median[name][-1]:.4g}" for name in ("regret", "bound", "regret of w = 0")),
                f"round {useful[0]:,}" if len(useful) else "not within the run",
                f"round {special[0]:,}" if len(special) else "not within the run",
            )
        )
    heads = ("", "regret", "bound", "never moving", "bound below never moving", "full-matrix case")
    return markdown_table(heads, rows)
