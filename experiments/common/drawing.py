"""What figures share: colours that colour-blind readers can tell apart, and small files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image  # matplotlib brings it

DPI = 110
COLOURS = 256
BLACK, GREY = "#000000", "#9a9a9a"
BLUE, SKY, GREEN, ORANGE = "#0072B2", "#56B4E9", "#009E73", "#E69F00"
VERMILLION, PURPLE = "#D55E00", "#CC79A7"
"""Okabe and Ito's."""


def save(figure: Figure, path: Path) -> Path:
    """Write a figure as a picture with a palette: enough for lines, and a third of the size."""
    FigureCanvasAgg(figure)
    drawn = BytesIO()
    figure.savefig(drawn, dpi=DPI)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(drawn).convert("RGB").quantize(COLOURS).save(path, optimize=True)
    return path


def legend_below(figure: Figure, panel: Axes, columns: int) -> None:
    """One legend for all panels."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize="small")
