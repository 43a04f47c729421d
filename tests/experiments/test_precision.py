"""The experiment on fewer bits and on lr runs, and its tables say what its README says."""

import re
import statistics
from pathlib import Path

import pytest

pytest.importorskip("torch")

from experiments.common.records import read_table
from experiments.data import mnist
from experiments.training.setting import Source
from paroli import cli

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "experiments" / "precision"
README = (FOLDER / "README.md").read_text("utf-8")
TABLES = ("drift", "losses", "lr")


def figures(start: str) -> list[float]:
    """The numbers in the README's row that starts so."""
    (row,) = (line for line in README.splitlines() if line.startswith(f"| {start}"))
    return [float(cell) for cell in row.split("|")[2:-1]]


def mean(table: str, column: str, **where: str) -> float:
    _, rows = read_table(FOLDER / "results" / f"{table}.csv")
    found = [float(r[column]) for r in rows if all(r[key] == value for key, value in where.items())]
    assert len(found) == 2, "two seeds"
    return statistics.mean(found)


def test_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = Source("mnist", rows=200, test_rows=50, made_up=True).load()
    monkeypatch.setattr(mnist, "load", lambda: made_up)
    arguments = ["--steps", "6", "--seeds", "1", "--out", str(tmp_path)]
    assert cli.main(["reproduce", "precision", *arguments]) == 0
    for name in TABLES:
        now, then = (read_table(at / f"{name}.csv") for at in (tmp_path, FOLDER / "results"))
        assert list(now[1][0]) == list(then[1][0])
        assert set(now[0]) == set(then[0])


def test_without_data_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAROLI_DATA", str(tmp_path))
    assert cli.main(["reproduce", "precision", "--out", str(tmp_path)]) == 1
    assert "unset PAROLI_DATA to have it fetched" in capsys.readouterr().err


@pytest.mark.parametrize(
    "bits", dict.fromkeys(row["bits"] for row in read_table(FOLDER / "results" / "losses.csv")[1])
)
def test_the_table_of_bits(bits: str) -> None:
    found = figures(bits)
    for value, step in zip(found[:2], ("66", "2000"), strict=True):
        assert value == pytest.approx(mean("drift", "weights_off", bits=bits, step=step), abs=6e-4)
    for value, column in zip(found[2:], ("test_loss_last", "test_loss_average"), strict=True):
        assert value == pytest.approx(mean("losses", column, bits=bits), abs=6e-5)


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize("meant", ["increments", "gradients"])
def test_the_table_of_lr(meant: str, schedule: str) -> None:
    found = figures(f"{meant}, {schedule}")
    for value, lr in zip(found, ("0.1", "0.3", "1.0", "3.0", "10.0"), strict=True):
        where = {"lr_multiplies": meant, "schedule": schedule, "lr": lr}
        assert value == pytest.approx(mean("lr", "test_loss_average", **where), abs=6e-4)


def test_every_row_of_the_readme_is_looked_at() -> None:
    assert len(re.findall(r"^\| \w", README, re.MULTILINE)) == 6 + 1 + 4


def test_bfloat16_tracks_float32() -> None:
    tracked = mean("drift", "weights_off", bits="bfloat16, compensated", step="2000")
    drifted = mean("drift", "weights_off", bits="bfloat16, nearest", step="2000")
    assert tracked < 0.03 < drifted / 3
