"""The figure: a panel a task, as the paper has it."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from ..common.drawing import BLACK, BLUE, GREEN, GREY, SKY, VERMILLION, save
from ..common.report import SCALES
from .race import RACERS
from .tables import read

PICTURE = "figure.png"
COLOURS = dict(
    zip((racer.key for racer in RACERS), (BLACK, GREY, GREEN, VERMILLION, BLUE, SKY), strict=True)
)


def _digits(speed: float) -> str:
    """Three digits that count, and no powers of ten."""
    return f"{speed:.0f}" if speed >= 100 else f"{speed:.3g}"


def draw(folder: Path, size: str) -> Path:
    """Draw the table of a size that is in the folder."""
    speeds = read(folder)
    rows = -(-len(speeds) // 2)
    figure = Figure(figsize=(11.2, 1.9 * rows + 0.6), layout="constrained")
    cut = "" if size == "full" else f", {SCALES[size]}"
    figure.suptitle(f"Iterations per second of whole training{cut} (median over rounds)")
    panels = figure.subplots(rows, 2, squeeze=False).flat
    for panel, (task, of_task) in zip(panels, speeds.items(), strict=False):
        panel.set_title(task, fontsize="medium")
        labels = [racer.label for racer in RACERS]
        bars = panel.barh(
            labels,
            [of_task[racer.key] for racer in RACERS],
            color=[COLOURS[racer.key] for racer in RACERS],
        )
        panel.bar_label(bars, fmt=_digits, padding=3, fontsize="small")
        panel.invert_yaxis()
        panel.margins(x=0.2)  # room for the numbers beside the bars
        panel.tick_params(labelsize="small")
    return save(figure, folder / PICTURE)
