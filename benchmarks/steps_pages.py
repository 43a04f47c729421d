"""The tables in README.md and docs/performance.md, and the figures, made from the CSV files alone.

python -m benchmarks.steps_pages
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks import steps_tables as tables
from benchmarks.steps_contestants import COMPILED, EAGER, OURS, REFERENCE
from benchmarks.steps_racing import COPY
from benchmarks.steps_shapes import FLAT, LISTS, SHAPES, size
from experiments.common.drawing import (
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
from experiments.common.report import markdown_table

HERE = Path(__file__).resolve().parent
Rows = list[dict[str, str]]
DRAWN = {
    OURS: (BLUE, "-"),
    EAGER: (SKY, ":"),
    REFERENCE: (BLACK, "-"),
    "Adam, foreach": (GREY, "--"),
    "schedule-free AdamW": (GREEN, "-"),
    "LDoG": (ORANGE, "-"),
    "Prodigy": (VERMILLION, "-"),
    "COCOB": (PURPLE, "-"),
}
"""Who is in the figure of steps."""
FOR_THE_PAGE_ALONE = (
    EAGER,
    COMPILED,
    *(f"{one}, {kind}" for one in ("AdamW", "Adagrad") for kind in ("fused", "foreach")),
)
"""Not in the README's table."""
NONE = "–"
BLOCKS = ("steps", "bytes", "roofline", "first", "training")
"""Of the page on performance."""


def draw(results: Path = HERE / "results", root: Path = HERE.parent) -> list[Path]:
    """Draw what there are tables for, and put the tables into the pages; what was written."""
    pictures: list[Path] = []
    blocks: dict[str, list[str]] = {name: [] for name in BLOCKS}
    short: list[str] = []
    for device in tables.DEVICES:
        if found := tables.read(results, device, tables.STEPS):
            head, rows = found
            if any(row["shape"] in FLAT for row in rows):
                picture = results / f"steps-{device}.png"
                pictures.append(save(_figure(rows, head["device"]), picture))
            training = tables.read(results, device, tables.TRAINING)
            about = [f"{head['device']}, threads: {head['threads']}; {head['versions']}.", ""]
            short += [*_short(head, rows, training[1] if training else []), ""]
            blocks["steps"] += [*about, *_left_out(head), *_steps(rows), ""]
            blocks["roofline"] += [f"{head['device']}:", "", *_roofline(rows), ""]
        for table, block, name in (
            (tables.ARRAYS, "bytes", _arrays),
            (tables.FIRST, "first", _first),
            (tables.TRAINING, "training", _training),
        ):
            if found := tables.read(results, device, table):
                blocks[block] += [*name(*found), ""]
    pages = [_fill(root / "README.md", {"steps": short})] if short else []
    pages.append(_fill(root / "docs" / "performance.md", blocks))
    return [*pictures, *pages]


def _fill(page: Path, blocks: dict[str, list[str]]) -> Path:
    """Put lines between ``<!-- name -->`` and ``<!-- /name -->``."""
    text = page.read_text("utf-8")
    for name, lines in blocks.items():
        inside = "\n".join(lines).strip()
        if not inside:
            continue
        parts = re.split(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", text, flags=re.DOTALL)
        found = len(parts) - 1
        if found != 1:
            raise ValueError(
                f"{page}: expected one <!-- {name} --> … <!-- /{name} -->, not {found}"
            )
        text = f"\n{inside}\n\n".join(parts)
    page.write_text(text, encoding="utf-8")
    return page


# Tables -----------------------------------------------------------------------------------------


def _short(head: dict[str, str], rows: Rows, training: Rows) -> list[str]:
    """For the README: ratios to fused Adam on lists of tensors."""
    here = [name for name in LISTS if any(row["shape"] == name for row in rows)]
    heads = ["optimizer", "bytes of state", *(LISTS[name] for name in here)]
    if training:
        heads.append("training speed")
    lines = []
    for who in (who for who in _optimizers(rows) if who not in FOR_THE_PAGE_ALONE):
        mine = {row["shape"]: row for row in rows if row["optimizer"] == who}
        cells = [_bold(who), next(iter(mine.values()))["state_bytes"].removesuffix(".00")]
        cells += [
            _two(mine[name]["ratio_to_fused_adam"]) if name in mine else NONE for name in here
        ]
        if training:
            speeds = {row["optimizer"]: row["ratio_to_fused_adam"] for row in training}
            cells.append(_two(speeds.get(who, "")))
        lines.append(cells)
    where = f"{head['device']}, threads: {head['threads']}"
    about = f"A step's time as a multiple of fused Adam's ({where}):"
    return [about, "", *markdown_table(heads, lines)]


def _left_out(head: dict[str, str]) -> list[str]:
    notes = {"not installed": "Not installed", "left out": "Left out, for want of memory or time"}
    return [f"{text}: {head[key]}.\n" for key, text in notes.items() if key in head]


def _steps(rows: Rows) -> list[str]:
    """Microseconds and ratios of everybody, everywhere."""
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    heads = [
        "optimizer",
        "state B",
        "transient B",
        "operators",
        *(f"{name}, µs" for name in shapes),
    ]
    lines = []
    for who in [*_optimizers(rows), COPY]:
        mine = {row["shape"]: row for row in rows if row["optimizer"] == who}
        if not mine:
            continue
        most = max(mine.values(), key=lambda row: float(row["transient_bytes"] or 0))
        calls = max(mine.values(), key=lambda row: int(row["operators"] or 0))
        cells = [_bold(who), next(iter(mine.values()))["state_bytes"].removesuffix(".00")]
        cells += [most["transient_bytes"], calls["operators"]]
        for name in shapes:
            row = mine.get(name)
            ratio = f" ({_two(row['ratio_to_fused_adam'])})" if row else ""
            cells.append(_microseconds(row) + ratio if row else NONE)
        lines.append([cell or NONE for cell in cells])
    return markdown_table(heads, lines)


def _microseconds(row: dict[str, str]) -> str:
    low, median, high = (float(row[f"us_{q}"]) for q in ("p10", "median", "p90"))
    return f"{median:,.0f} [{low:,.0f}, {high:,.0f}]"


def _roofline(rows: Rows) -> list[str]:
    """What the counted bytes would take at the rate of a copy, beside what was measured."""
    heads = ("tensors", "copy, GB/s", "optimizer", "B moved", "at copy rate, µs", "measured, µs")
    lines = []
    for copy in (row for row in rows if row["optimizer"] == COPY):
        rate = _rate(copy)
        for who in (OURS, REFERENCE):
            for row in rows:
                if (row["shape"], row["optimizer"]) == (copy["shape"], who) and row["moved_bytes"]:
                    floor = float(row["moved_bytes"]) * float(row["parameters"]) / rate * 1e6
                    measured = float(row["us_median"])
                    share = f"{measured:,.0f} ({measured / floor:.2f})"
                    cells = (copy["shape"], f"{rate / 1e9:.1f}", _bold(who), row["moved_bytes"])
                    lines.append((*cells, f"{floor:,.0f}", share))
    return markdown_table((*heads[:-1], f"{heads[-1]} (multiple)"), lines)


def _rate(row: dict[str, str]) -> float:
    """Counted bytes a second."""
    moved = float(row["moved_bytes"]) * float(row["parameters"])
    return moved / (float(row["us_median"]) * 1e-6)


def _arrays(head: dict[str, str], rows: Rows) -> list[str]:
    heads = ("array", "kept as", "read for the sums", "read for the step", "written", "moved")
    keys = ("array", "dtype", "first", "read", "written", "moved")
    lines = [[row[key] for key in keys] for row in rows]
    sums = [sum(int(row[key]) for row in rows) for key in keys[2:]]
    return markdown_table(heads, [*lines, ["**all**", "", *map(str, sums)]])


def _first(head: dict[str, str], rows: Rows) -> list[str]:
    heads = ("optimizer", "compiled code", "import, s", "first step, s", "second, s", "third, s")
    keys = ("import_s", "first_s", "second_s", "third_s")
    caches = {"empty": "made now", "filled": "found", "": NONE}
    lines = [
        [_bold(row["optimizer"]), caches[row["cache"]], *(f"{float(row[key]):.3f}" for key in keys)]
        for row in rows
    ]
    return [f"{head['device']}, threads: {head['threads']}:", "", *markdown_table(heads, lines)]


def _training(head: dict[str, str], rows: Rows) -> list[str]:
    lines = []
    for row in rows:
        low, median, high = (
            float(row[f"tokens_per_s_{quantile}"]) for quantile in ("p10", "median", "p90")
        )
        speed = f"{median:,.0f} [{low:,.0f}, {high:,.0f}]"
        lines.append([_bold(row["optimizer"]), speed, _two(row["ratio_to_fused_adam"])])
    heads = ("optimizer", "tokens a second", "to fused Adam")
    about = f"{head['device']}, threads: {head['threads']}; {head['training']}:"
    return [about, "", *markdown_table(heads, lines)]


def _optimizers(rows: Rows) -> list[str]:
    """In the order in which they took part, without the copy."""
    return [who for who in dict.fromkeys(row["optimizer"] for row in rows) if who != COPY]


def _bold(who: str) -> str:
    return f"**{who}**" if who == OURS else who


def _two(ratio: str) -> str:
    return f"{float(ratio):.2f}" if ratio else NONE


# Figures ----------------------------------------------------------------------------------------


def _figure(rows: Rows, device: str) -> Figure:
    """Time a parameter, and how fast memory moves, by the size of one tensor."""
    figure = Figure(figsize=(10.5, 4.8), layout="constrained")
    figure.suptitle(f"A step on one tensor ({device})")
    times, rates = figure.subplots(1, 2)
    for who, (colour, dashes) in DRAWN.items():
        mine = [row for row in rows if row["optimizer"] == who and row["shape"] in FLAT]
        if not mine:
            continue
        sizes = [size(SHAPES[row["shape"]]) for row in mine]
        per = [1e3 / n for n in sizes]
        low, median, high = (
            [float(row[f"us_{q}"]) * scale for row, scale in zip(mine, per, strict=True)]
            for q in ("p10", "median", "p90")
        )
        times.fill_between(sizes, low, high, color=colour, alpha=0.15)
        times.plot(sizes, median, color=colour, linestyle=dashes, marker=".", label=who)
    for who, colour in ((COPY, GREY), (OURS, BLUE), (REFERENCE, BLACK)):
        mine = [row for row in rows if row["optimizer"] == who and row["shape"] in FLAT]
        mine = [row for row in mine if row["moved_bytes"]]
        gigabytes = [_rate(row) / 1e9 for row in mine]
        sizes = [size(SHAPES[row["shape"]]) for row in mine]
        dashes = "--" if who == COPY else "-"
        rates.plot(sizes, gigabytes, color=colour, linestyle=dashes, marker=".", label=who)
    for panel, title, unit in (
        (times, "time a parameter", "nanoseconds"),
        (rates, "counted bytes moved (above the copy: from caches)", "gigabytes a second"),
    ):
        panel.set_title(title, fontsize="medium")
        panel.set_xlabel("parameters")
        panel.set_ylabel(unit)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.grid(alpha=0.25)
    rates.legend(fontsize="small")
    legend_below(figure, times, columns=4)
    return figure


def main(arguments: Sequence[str] = ()) -> None:
    """Draw from the committed tables."""
    for path in draw():
        print(path)


if __name__ == "__main__":
    main()
