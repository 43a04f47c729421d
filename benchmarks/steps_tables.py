"""The results as CSV: written by a run, read by the pages and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from experiments.common.records import read_table, write_table

Row: TypeAlias = Sequence[object]


class Table(NamedTuple):
    """The name and the columns of one kind of table."""

    name: str
    columns: tuple[str, ...]


STEPS = Table(
    "steps",
    (
        "shape",
        "tensors",
        "parameters",
        "optimizer",
        "us_p10",
        "us_median",
        "us_p90",
        "steps",
        "ratio_to_fused_adam",
        "state_bytes",
        "moved_bytes",
        "transient_bytes",
        "operators",
    ),
)
"""Bytes are for each parameter; `moved_bytes` are counted from dtypes, empty where unknown."""
ARRAYS = Table("arrays", ("optimizer", "array", "dtype", "first", "read", "written", "moved"))
"""Bytes that compiled loops move for each parameter."""
FIRST = Table("first", ("optimizer", "cache", "import_s", "first_s", "second_s", "third_s"))
TRAINING = Table(
    "training",
    (
        "optimizer",
        "tokens_per_s_p10",
        "tokens_per_s_median",
        "tokens_per_s_p90",
        "steps",
        "ratio_to_fused_adam",
    ),
)
DEVICES = ("cuda", "cpu")


def path_of(folder: Path, device: str, table: Table) -> Path:
    """Where a table is kept."""
    return folder / f"{table.name}-{device}.csv"


def write(
    folder: Path, device: str, table: Table, head: Mapping[str, str], rows: Iterable[Row]
) -> Path:
    """Write a table."""
    path = path_of(folder, device, table)
    write_table(path, head, table.columns, rows)
    return path


def read(
    folder: Path, device: str, table: Table
) -> tuple[dict[str, str], list[dict[str, str]]] | None:
    """Read a table, if it is there."""
    path = path_of(folder, device, table)
    return read_table(path) if path.exists() else None
