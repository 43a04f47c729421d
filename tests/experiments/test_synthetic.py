"""The synthetic experiment end to end, much smaller, and the command line that runs it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import paroli
from experiments.common import records
from experiments.common.records import read_table, source_hash, write_table
from experiments.synthetic.problem import CHUNK, Problem, checkpoints
from experiments.synthetic.tables import best_of_families, read_errors, read_players
from paroli import cli

TABLES = ("errors-well.csv", "errors-badly.csv", "regret-well.csv", "regret-badly.csv")
PICTURES = ("errors.png", "regret.png")
SMALL = ["reproduce", "synthetic", "--quick", "--dimension", "10", "--rounds", "300"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("synthetic") / "first"
    assert cli.main([*SMALL, "--seeds", "2", "--jobs", "2", "--out", str(out)]) == 0
    return out


# The experiment --------------------------------------------------------------------------------


def test_tables_say_where_they_come_from(folder: Path) -> None:
    for name in (*TABLES, "learners.csv"):
        head, rows = read_table(folder / name)
        assert head["source of paroli/core"] == source_hash(records.CORE)
        assert head["paroli"] == paroli.__version__
        for key in ("source of the experiment", "numpy", "python", "device", "seeds", "rounds"):
            assert head[key], (name, key)
        assert "dimension 10" in head["problem"]
        assert rows
        assert (folder / name).stat().st_size < 200_000


def test_every_learner_has_its_curves(folder: Path) -> None:
    players = read_players(folder)
    for conditioning in ("well", "badly"):
        curves = read_errors(folder, conditioning)
        assert curves.keys() == players.keys()
        for key, curve in curves.items():
            costly = key.startswith("full-adagrad")
            assert curve.errors.shape == (1 if costly else 2, len(curve.rounds))
            assert curve.rounds[-1] == (100 if costly else 300)
            assert np.isfinite(curve.errors).all()
    well = read_errors(folder, "well")
    learning = well["recursive-scinol"].median
    assert learning[-1] < 0.5 < learning[0]
    best = best_of_families(players, well)
    assert set(best) == {"Adagrad", "Full-matrix Adagrad"}
    rivals = [well[key].median[-1] for key in players if key.startswith("adagrad")]
    assert well[best["Adagrad"]].median[-1] == min(rivals)


def test_regret_is_within_its_bound(folder: Path) -> None:
    for conditioning in ("well", "badly"):
        _, rows = read_table(folder / f"regret-{conditioning}.csv")
        for row in rows:
            assert 0 <= float(row["regret"]) <= float(row["bound"])
            assert all(float(row[name]) > 0 for name in row if name.startswith("eqn:"))


def test_pictures_are_small_and_redrawn_alike(folder: Path) -> None:
    before = {name: (folder / name).read_bytes() for name in PICTURES}
    for content in before.values():
        assert content.startswith(b"\x89PNG")
        assert len(content) < 200_000
    assert cli.main(["reproduce", "synthetic", "--redraw", "--out", str(folder)]) == 0
    assert before == {name: (folder / name).read_bytes() for name in PICTURES}


def test_the_same_again_with_one_process(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*SMALL, "--seeds", "2", "--jobs", "1", "--out", str(tmp_path)]) == 0
    for name in TABLES:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
    printed = capsys.readouterr().out
    for player in read_players(tmp_path).values():
        assert player.label in printed
    for name in PICTURES:
        assert str(tmp_path / name) in printed


def test_the_stream_is_as_described() -> None:
    problem = Problem("badly", seed=3, dimension=20)
    rows = np.concatenate(list(problem.chunks(4 * CHUNK)))
    eigenvalues = np.linalg.eigvalsh(rows.T @ rows / len(rows))
    assert eigenvalues[-1] / eigenvalues[0] == pytest.approx(750, rel=0.3)
    assert np.linalg.norm(problem.comparator) == pytest.approx(10)
    assert ((rows @ problem.comparator) ** 2).mean() == pytest.approx(1, rel=0.1)
    assert problem.error(np.zeros(20)) == pytest.approx(np.sqrt(2 / np.pi), rel=0.1)
    assert problem.error(problem.comparator) == 0
    prefix = np.concatenate(list(problem.chunks(CHUNK + 5)))
    np.testing.assert_array_equal(prefix, rows[: CHUNK + 5])


def test_both_conditionings_share_the_draws() -> None:
    (well,), (badly,) = (list(Problem(c, 0, 5).chunks(10)) for c in ("well", "badly"))
    np.testing.assert_allclose(badly, well * np.sqrt(750))


def test_checkpoints_have_what_the_table_shows() -> None:
    marks = checkpoints(200_000)
    assert {1000, 10_000, 200_000} <= set(marks)
    assert marks == sorted(set(marks))
    assert checkpoints(1) == [1]


def test_tables_survive_commas(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", {"a": "b: c"}, ["x", "y"], [["1, 2", 3]])
    assert read_table(tmp_path / "t.csv") == ({"a": "b: c"}, [{"x": "1, 2", "y": "3"}])


# The command line ------------------------------------------------------------------------------


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_help_version_and_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--help") == 0
    assert "reproduce" in capsys.readouterr().out
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"paroli {paroli.__version__}\n"
    assert exit_code("reproduce", "--help") == 0
    assert exit_code("reproduce", "synthetic", "--help") == 0
    assert "--quick" in capsys.readouterr().out
    assert cli.main(["reproduce", "--list"]) == 0
    assert capsys.readouterr().out.startswith("synthetic")


def test_usage_errors_say_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code() == 2
    capsys.readouterr()
    for arguments in (["nonsense"], []):
        assert exit_code("reproduce", *arguments) == 2
        assert "synthetic" in capsys.readouterr().err
    assert exit_code("reproduce", "synthetic", "--rounds", "0") == 2
    assert "at least 1" in capsys.readouterr().err


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("experiments")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert cli.main(["reproduce", "synthetic"]) == 1
    assert 'pip install "paroli[experiments]"' in capsys.readouterr().err


def test_experiments_are_found_in_a_wheel_and_in_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "src" / "paroli"
    package.mkdir(parents=True)
    monkeypatch.setattr(cli, "PACKAGE", package)
    assert cli.main(["reproduce", "--list"]) == 1
    assert "no experiments" in capsys.readouterr().err
    run_file = tmp_path / "experiments" / "new" / "run.py"
    run_file.parent.mkdir(parents=True)
    run_file.write_text('"""A new one.\n\nMore."""\n')
    (tmp_path / "experiments" / "common").mkdir()
    assert cli.find_home() == (tmp_path / "experiments", "experiments")
    assert cli.main(["reproduce", "--list"]) == 0
    assert capsys.readouterr().out.split() == ["new", "A", "new", "one."]
    (package / "experiments").mkdir()
    assert cli.find_home() == (package / "experiments", "paroli.experiments")


def test_the_command_line_is_light() -> None:
    code = (
        "import sys, paroli; assert 'paroli.cli' not in sys.modules; import paroli.cli;"
        "assert not {'rich', 'matplotlib', 'multiprocessing'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
