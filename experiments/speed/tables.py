"""The table of the laps, and what follows from it."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path

import torch

import paroli

from ..common.records import provenance, read_table, source_hash, write_table
from ..common.report import NOT, PARTLY, REPRODUCED, Finding
from ..training.loop import clock_of
from ..training.runs import SOURCES
from .race import RACERS, Lap

TABLE = "speed.csv"
HERE = Path(__file__).parent
OURS = tuple(racer.key for racer in RACERS if racer.key.startswith("recursive"))
RIVALS = ("adam", "adagrad")
"""As torch makes them by default; the fused one is shown, but the claim is not about it."""

LEVEL = 0.03
"""Speeds that differ by less of the rival's are level: rounds differ by as much and more."""

Speeds = dict[str, dict[str, float]]
"""Iterations per second, by task and racer: the median over the rounds."""


def write(folder: Path, laps: Iterable[Lap], device: str, settings: Mapping[str, object]) -> None:
    """Write the table."""
    folder.mkdir(parents=True, exist_ok=True)
    name = provenance()["device"]
    if device != "cpu":
        name = f"{torch.cuda.get_device_name(device)}; {name}"
    head = {
        **provenance(*SOURCES, HERE / "race.py"),
        "source of paroli/torch": source_hash(Path(paroli.__file__).parent / "torch"),
        "torch": version("torch"),
        "system": platform.system(),
        "device": name,
        "seconds": clock_of(device),
        "seed": "0",
        **{f"setting of {task}": repr(setting) for task, setting in settings.items()},
    }
    rows = [[*lap[:-1], f"{lap.seconds:.5g}"] for lap in laps]
    write_table(folder / TABLE, head, Lap._fields, rows)


def read(folder: Path) -> Speeds:
    """The speeds."""
    _, rows = read_table(folder / TABLE)
    laps: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        speed = int(row["steps"]) / float(row["seconds"])
        laps.setdefault(row["task"], {}).setdefault(row["racer"], []).append(speed)
    return {
        task: {racer: statistics.median(speeds) for racer, speeds in of_task.items()}
        for task, of_task in laps.items()
    }


def numbers(speeds: Speeds) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A row a task: heads and rows, ours with their share of Adam's speed."""
    heads = ("iterations per second", *(racer.label for racer in RACERS))
    rows: list[tuple[str, ...]] = []
    for task, of_task in speeds.items():
        cells = []
        for racer in RACERS:
            speed = of_task[racer.key]
            share = f" (×{speed / of_task['adam']:.2f})" if racer.key in OURS else ""
            cells.append(f"{speed:.4g}{share}")
        rows.append((task, *cells))
    return heads, rows


def judge(speeds: Speeds) -> list[Finding]:
    """'Somewhat slower than both Adam and Adagrad': on how many tasks, and by how much."""
    findings = []
    for key in OURS:
        label = next(racer.label for racer in RACERS if racer.key == key)
        shares = {
            task: of_task[key] / min(of_task[rival] for rival in RIVALS)
            for task, of_task in speeds.items()
        }
        slower = [task for task, share in shares.items() if share <= 1 - LEVEL]
        verdict = REPRODUCED if len(slower) == len(shares) else PARTLY if slower else NOT
        listed = ", ".join(f"{task} ×{share:.2f}" for task, share in shares.items())
        findings.append(
            Finding(
                f"slower than both Adam and Adagrad: {label}",
                f"speed over that of the slower of the two (level: within {LEVEL:.0%}): {listed}",
                verdict,
            )
        )
    return findings
