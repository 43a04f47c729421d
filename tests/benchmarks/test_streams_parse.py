"""The benchmark of streams runs, and what all its learners read is the same."""

import subprocess
import sys
from pathlib import Path

from experiments.common.records import read_table

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "streams_parse.py"
OURS = ["parse", "learn", "learn, reading ahead"]


def test_rows(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARK), "--rows", "640", "--repeats", "1", "--tasks", *OURS]
    subprocess.run([*command, "--out", str(tmp_path)], check=True, capture_output=True)
    head, rows = read_table(tmp_path / "streams-parse-cpu.csv")
    assert set(head) == {"device", "versions", "seed"}
    sizes = {row["stream"]: int(row["rows"]) for row in rows}
    assert sizes == {"narrow": 640, "numbers": 640 // 6, "words": 640 // 16}
    for stream in sizes:
        of = {row["task"]: row for row in rows if row["stream"] == stream}
        assert set(OURS) == set(of)
        assert of["learn"]["loss"] == of["learn, reading ahead"]["loss"]
        assert 0.1 < float(of["learn"]["loss"]) < 1
        for row in of.values():
            assert float(row["cpu_s"]) > 0
