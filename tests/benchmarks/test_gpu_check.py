"""The check for GPUs, rehearsed where there is none: with compiled loops in the kernels' place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.common.records import read_table

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks.gpu_check", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_rehearsed(tmp_path: Path) -> None:
    done = run("--device", "cpu", "--quick", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    head, checks = read_table(tmp_path / "gpu-checks-rehearsal.csv")
    assert set(head) == {"device", "versions", "seed"}
    assert len(checks) == 15
    assert all(row["holds"] == "True" for row in checks)
    _, steps = read_table(tmp_path / "gpu-steps-rehearsal.csv")
    kinds = ["kernels", "fused Adam", "operators", "copy"]
    assert [row["what"] for row in steps] == 2 * kinds
    assert {row["bytes_an_entry"] for row in steps if row["what"] == "kernels"} == {"50"}


def test_without_a_gpu_it_says_so() -> None:
    done = run()
    assert done.returncode == 2
    assert "no CUDA device is here" in done.stderr
