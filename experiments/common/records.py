"""Small CSV tables under a commented head that says what made them."""

from __future__ import annotations

import csv
import hashlib
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import paroli

CORE = Path(paroli.__file__).parent / "core"


def source_hash(*places: Path) -> str:
    """A fingerprint of Python files: those given, and all those in the folders given.

    Names count without their folders, so that a checkout and an installed package agree.
    """
    digest = hashlib.sha256()
    for place in places:
        for file in sorted(place.glob("**/*.py")) if place.is_dir() else [place]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def processor() -> str:
    """The CPU's name, and how many cores there are."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")  # on Linux, where `platform` does not know the model
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name}, {os.cpu_count()} cores"


def provenance(*experiment: Path) -> dict[str, str]:
    """The head that every table starts with; give the files that the numbers depend on."""
    return {
        "source of paroli/core": source_hash(CORE),
        "source of the experiment": source_hash(*experiment),
        "paroli": paroli.__version__,
        "numpy": version("numpy"),
        "python": platform.python_version(),
        "device": processor(),
    }


def write_table(
    path: Path, head: Mapping[str, str], columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Write a table: ``# key: value`` lines, then CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        for key, value in head.items():
            file.write(f"# {key}: {value}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def read_table(path: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Read such a table: its head, and its rows by column."""
    lines = path.read_text(encoding="utf-8").splitlines()
    head = {}
    for line in lines:
        if not line.startswith("# "):
            break
        key, _, value = line[2:].partition(": ")
        head[key] = value
    return head, list(csv.DictReader(lines[len(head) :]))
