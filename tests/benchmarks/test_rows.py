"""The benchmark of sparse rows runs, and its committed table is flat in the vocabulary."""

from pathlib import Path

import pytest

from experiments.common.records import read_table
from tests.benchmarks.running import RESULTS, run

pytest.importorskip("torch")
COMMITTED = RESULTS / "rows-cpu.csv"
FLAT = 2.0
"""A thousand times the rows may cost the caches this factor, no more."""


def test_it_runs(tmp_path: Path) -> None:
    run("rows", "--bursts", "2", "--rows", "50", "200000", "--out", str(tmp_path))
    head, rows = read_table(tmp_path / COMMITTED.name)
    assert set(head) == {"device", "versions", "seed", "step"}
    assert [row["rows"] for row in rows] == ["50"] * 4 + ["200000"] * 3
    assert all(0 < float(row["us_quartile_1"]) <= float(row["us_median"]) for row in rows)


def test_the_committed_table_is_flat() -> None:
    _, rows = read_table(COMMITTED)
    for kind in ("ours, rows on demand", "ours, rows on demand, average"):
        times = {int(r["rows"]): float(r["us_median"]) for r in rows if r["optimizer"] == kind}
        assert min(times) == 10_000
        assert max(times) == 10_000_000
        assert max(times.values()) < FLAT * min(times.values())
