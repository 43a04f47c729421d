"""The benchmark of streams runs, and what all its learners read is the same."""

from pathlib import Path

from experiments.common.records import read_table
from tests.benchmarks.running import run

OURS = ["parse", "learn", "learn, reading ahead"]


def test_rows(tmp_path: Path) -> None:
    few = ("--rows", "640", "--repeats", "1", "--tasks", *OURS)
    run("streams_parse", *few, "--out", str(tmp_path))
    head, rows = read_table(tmp_path / "streams-parse-cpu.csv")
    assert {"device", "paroli", "seed", "repeats"} <= set(head)
    sizes = {row["stream"]: int(row["rows"]) for row in rows}
    assert sizes == {"narrow": 640, "numbers": 640 // 6, "words": 640 // 16}
    for stream in sizes:
        of = {row["task"]: row for row in rows if row["stream"] == stream}
        assert set(OURS) == set(of)
        assert of["learn"]["loss"] == of["learn, reading ahead"]["loss"]
        assert 0.1 < float(of["learn"]["loss"]) < 1
        for row in of.values():
            assert float(row["cpu_s"]) > 0
