"""The figures, drawn from the tables alone, laid out as the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..common.drawing import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    legend_below,
    save,
)
from ..common.report import SCALES
from .experiment import Experiment, Panel
from .runs import HIGHER_IS_BETTER, Curves, chosen, default

PICTURE = "figure.png"

STYLES = {
    "recursive": (BLUE, "-"),
    "recursive-momentum": (VERMILLION, "-"),
    "recursive-momentum-printed": (PURPLE, "-"),
    "recursive-shipped": (SKY, "-"),
    "recursive-shipped-momentum": (ORANGE, "-."),
    "Adam": (BLACK, "--"),
    "Adagrad": (GREEN, "--"),
}
"""By key, or by family."""

LABELS = {
    "test_accuracy": "test accuracy",
    "test_loss": "test log-perplexity (nats a word)",
    "train_loss": "train loss",
    "step": "steps",
    "seconds": "seconds of training",
}


def draw(
    experiment: Experiment, curves: Mapping[str, Curves], folder: Path, size: str, planned: int
) -> Path:
    """Draw what there are tables for, out of so many planned runs of a size."""
    found = sum(len(some.seeds) for some in curves.values())
    rows, columns = len(experiment.panels), len(experiment.panels[0])
    figure = Figure(figsize=(5.6 * columns, 3.5 * rows + 1.1), layout="constrained")
    note = "median and range over seeds" if found > len(curves) else "one seed"
    part = "" if found == planned else f"; {found} of {planned} runs"
    scale = experiment.scale(size)
    cut = "" if scale == "full" else f", {SCALES[scale]}"
    figure.suptitle(f"{experiment.title}{cut} ({note}{part})")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, panels in zip(grid, experiment.panels, strict=True):
        for ax, panel in zip(axes, panels, strict=True):
            _draw_panel(ax, panel, experiment.metric, curves)
    legend_below(figure, grid[0][0], columns=3)
    return save(figure, folder / PICTURE)


def _draw_panel(ax: Axes, panel: Panel, metric: str, curves: Mapping[str, Curves]) -> None:
    ax.set_xlabel(LABELS[panel.against])
    ax.set_ylabel(LABELS[panel.column])
    ax.grid(alpha=0.25)
    shown = highlighted(curves, metric)
    for key, curve in curves.items():
        if key not in shown:
            colour, _ = STYLES[curve.contestant.family]
            x, y = curve.median(panel.against), curve.median(panel.column)
            ax.plot(x, y, color=colour, linewidth=0.5, alpha=0.35)
    for key, label in shown.items():
        _highlight(ax, panel, curves[key], label)
    ax.set_ylim(*_limits(panel.column, [curves[key] for key in shown]))


def highlighted(curves: Mapping[str, Curves], metric: str) -> dict[str, str]:
    """Those with lines of their own and their names: ours, the tuned rivals, the untuned ones."""
    shown = {key: c.contestant.label for key, c in curves.items() if not c.contestant.family}
    for family in ("Adam", "Adagrad"):
        best, untuned = chosen(curves, family, metric), default(curves, family)
        if best is not None:
            shown[best.contestant.key] = f"{family}, best rate in hindsight ({_rate(best)})"
        if untuned is not None:
            key = untuned.contestant.key
            if key in shown:
                shown[key] += ", its default"
            else:
                shown[key] = f"{family}, default rate ({_rate(untuned)})"
    return shown


def _rate(curve: Curves) -> str:
    return f"{curve.contestant.rate:g}"


def _highlight(ax: Axes, panel: Panel, curve: Curves, label: str) -> None:
    contestant = curve.contestant
    colour, dashes = STYLES[contestant.family or contestant.key]
    if ", default rate" in label:
        dashes = ":"
    x, values = curve.median(panel.against), curve.columns[panel.column]
    if len(values) > 1:
        ax.fill_between(x, values.min(0), values.max(0), color=colour, alpha=0.12, linewidth=0)
    ax.plot(x, np.median(values, 0), color=colour, linestyle=dashes, linewidth=1.5, label=label)


def _limits(column: str, curves: list[Curves]) -> tuple[float, float]:
    """Room for the curves that are shown, without the first tenth of the way."""
    values = np.concatenate([c.median(column)[len(c.median(column)) // 10 :] for c in curves])
    values = values[np.isfinite(values)]
    low, high = values.min(), values.max()
    if column in HIGHER_IS_BETTER:
        low = max(low, high - 4 * (high - np.median(values)))
    else:
        high = min(high, low + 4 * (np.median(values) - low))
    margin = 0.05 * (high - low) or 0.01
    return float(low - margin), float(high + margin)
