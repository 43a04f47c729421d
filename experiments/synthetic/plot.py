"""The figures, drawn from the tables alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..common.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    legend_below,
    save,
)
from ..common.records import read_table
from .contestants import OTHER_FORMS
from .problem import CONDITIONINGS
from .tables import (
    LEARNERS,
    Errors,
    Player,
    best_of_families,
    errors_file,
    read_errors,
    read_players,
    read_regret,
    regret_file,
)

Array: TypeAlias = npt.NDArray[Any]

STYLES = {
    "recursive-scinol": (BLUE, "-"),
    "recursive-scinol-cap": (SKY, "-"),
    "recursive-diagonal": (VERMILLION, "-"),
    "recursive-scinol-momentum": (SKY, "-"),
    "recursive-scinol-momentum-twice": (GREEN, "-"),
    "recursive-ons": (VERMILLION, "-"),
    "recursive-ons-momentum": (ORANGE, "-"),
    "recursive-ons-momentum-twice": (PURPLE, "-"),
    "scinol": (BLUE, ":"),
    "diagonal": (VERMILLION, ":"),
    "full-newton": (PURPLE, "-"),
    "dimension-free": (ORANGE, "-"),
    "Adagrad": (BLACK, "--"),
    "Full-matrix Adagrad": (GREEN, "--"),
    "Online Newton Step": (PURPLE, "--"),
}
"""By key, or by family: a part alone is dotted beside the whole, a tuned rival is dashed."""

PANELS = {
    "well": "(a) well-conditioned: target along the largest eigenvalue",
    "badly": "(b) badly conditioned: target along the smallest eigenvalue",
}
REFERENCES = {
    "eqn:diagada": ("diagonal Adagrad's", BLACK),
    "eqn:fullmatrixada": ("full-matrix Adagrad's", GREEN),
    "eqn:fullmatrixcoin": ("full-matrix coin betting's", PURPLE),
}


def draw(folder: Path) -> list[Path]:
    """Draw what there are tables for."""
    pictures = []
    if (folder / LEARNERS).exists():
        pictures.append(save(_draw_errors(folder), folder / "errors.png"))
    if (folder / regret_file(CONDITIONINGS[0])).exists():
        pictures.append(save(_draw_regret(folder), folder / "regret.png"))
    return pictures


def _two_panels(title: str, y_label: str) -> tuple[Figure, dict[str, Axes]]:
    figure = Figure(figsize=(11.5, 6.2), layout="constrained")
    figure.suptitle(title)
    both = figure.subplots(1, 2, sharey=True)
    axes = dict(zip(CONDITIONINGS, both, strict=True))
    for conditioning, panel in axes.items():
        panel.set_title(PANELS[conditioning], fontsize="medium")
        panel.set_xlabel("rounds (one example each)")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.grid(alpha=0.25)
    axes[CONDITIONINGS[0]].set_ylabel(y_label)
    return figure, axes


def _draw_errors(folder: Path) -> Figure:
    players = read_players(folder)
    head, _ = read_table(folder / errors_file(CONDITIONINGS[0]))
    others = "forms that the paper did not run; " if OTHER_FORMS[0].key in players else ""
    figure, axes = _two_panels(
        "Absolute loss on ill-conditioned Gaussian rows: error of the last iterate\n"
        f"({others}{head['error']}; median and range over seeds)",
        "mean absolute error",
    )
    for conditioning, panel in axes.items():
        curves = {key: _drawn(curve) for key, curve in read_errors(folder, conditioning).items()}
        best = best_of_families(players, curves)
        for key, player in players.items():
            if player.family and key != best[player.family]:
                colour, _ = STYLES[player.family]
                curve = curves[key]
                panel.plot(curve.rounds, curve.median, color=colour, linewidth=0.6, alpha=0.35)
        for key, player in players.items():
            if not player.family or key == best[player.family]:
                _highlight(panel, key, player, curves[key])
        rates = "\n".join(players[key].label for key in best.values())
        panel.text(
            0.02, 0.03, f"best in hindsight:\n{rates}", transform=panel.transAxes, fontsize="small"
        )
        panel.set_ylim(5e-5, 4)
    legend_below(figure, axes[CONDITIONINGS[0]], columns=3)
    return figure


def _drawn(curve: Errors) -> Errors:
    """Without a grid point right before the end of the run, which would draw a jog."""
    kept = np.append(curve.rounds[1:] > 1.01 * curve.rounds[:-1], True)
    return Errors(curve.rounds[kept], curve.errors[:, kept])


def _highlight(panel: Axes, key: str, player: Player, curve: Errors) -> None:
    colour, dashes = STYLES[player.family or key]
    label = player.label
    if player.family:
        label = f"{player.family}, best rate in hindsight (others thin)"
    low, high = curve.errors.min(axis=0), curve.errors.max(axis=0)
    panel.fill_between(curve.rounds, low, high, color=colour, alpha=0.12)
    panel.plot(
        curve.rounds, curve.median, color=colour, linestyle=dashes, linewidth=1.6, label=label
    )


def _draw_regret(folder: Path) -> Figure:
    figure, axes = _two_panels(
        "Regret of Algorithm 1 with Algorithm 2 inside, and its bound with all constants\n"
        "(rows scaled to ‖x‖₁ ≤ 1, comparator the target; median and range over seeds)",
        "regret",
    )
    for conditioning, panel in axes.items():
        rounds, columns = read_regret(folder, conditioning)
        measured = columns["regret"]
        panel.fill_between(
            rounds, measured.min(axis=0), measured.max(axis=0), color=BLUE, alpha=0.15
        )
        median = {name: np.median(values, axis=0) for name, values in columns.items()}
        panel.plot(rounds, median["regret"], color=BLUE, linewidth=2.2, label="measured regret")
        panel.plot(
            rounds,
            median["bound"],
            color=VERMILLION,
            linewidth=2.2,
            linestyle="--",
            label="the bound that applies (thm:tighterrecursiveregret)",
        )
        panel.plot(
            rounds,
            median["regret of w = 0"],
            color=GREY,
            linewidth=1.2,
            linestyle=":",
            label="regret of never moving",
        )
        for name, (whose, colour) in REFERENCES.items():
            panel.plot(
                rounds,
                median[name],
                color=colour,
                linewidth=0.8,
                label=f"{whose}, no constants ({name})",
            )
    legend_below(figure, axes[CONDITIONINGS[0]], columns=2)
    return figure
