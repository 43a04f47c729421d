"""The benchmark of rounds runs, and its committed table keeps what the library promises."""

from pathlib import Path

import pytest

from experiments.common.records import read_table
from tests.benchmarks.running import RESULTS, run

COMMITTED = RESULTS / "rounds-cpu.csv"
PROMISED_MICROSECONDS = 60
PROMISED_IMPORT_MILLISECONDS = 300


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("benchmarks")
    run("rounds", "--bursts", "2", "--out", str(out))
    return out / COMMITTED.name


def test_rows(table: Path) -> None:
    head, rows = read_table(table)
    assert set(head) == {"device", "versions", "seed", "import paroli"}
    assert {row["d"] for row in rows} == {"1", "100", "10000"}
    products = {row["d"]: float(row["us_median"]) for row in rows if row["stack"] == "x @ y"}
    for row in rows:
        low, median, high = (float(row[f"us_{q}"]) for q in ("quartile_1", "median", "quartile_3"))
        assert 0 < low <= median <= high
        ratio = median / products[row["d"]]
        assert float(row["ratio_to_x@y"]) == pytest.approx(ratio, rel=0.03, abs=0.06)


def test_the_committed_table_is_of_these_stacks(table: Path) -> None:
    then, now = ([(r["d"], r["stack"]) for r in read_table(t)[1]] for t in (COMMITTED, table))
    assert then == now, "run: python -m benchmarks.rounds"


def test_the_committed_table_keeps_the_promises() -> None:
    head, rows = read_table(COMMITTED)
    (row,) = (r for r in rows if (r["d"], r["stack"]) == ("100", "recursive(diagonal())"))
    assert float(row["us_quartile_3"]) < PROMISED_MICROSECONDS
    assert float(head["import paroli"].removesuffix(" ms")) < PROMISED_IMPORT_MILLISECONDS
