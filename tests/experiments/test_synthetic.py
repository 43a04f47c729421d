"""The synthetic experiment end to end, much smaller, and the command line that runs it."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import paroli
from experiments.common import records
from experiments.common.records import read_table, source_hash, write_table
from experiments.common.report import NOT, NOT_RUN, OTHER_SCALE, PARTLY, REPRODUCED
from experiments.synthetic import race, verdict
from experiments.synthetic.contestants import NOTHING_TO_TUNE, OTHER_FORMS
from experiments.synthetic.problem import CONDITIONINGS, ROWS, Problem, checkpoints, gradient
from experiments.synthetic.race import ITERATES, Race
from experiments.synthetic.section import section
from experiments.synthetic.tables import (
    Errors,
    best_of_families,
    errors_file,
    read_errors,
    read_players,
    regret_file,
)
from experiments.synthetic.verdict import BEGIN, END, Finding, judge
from paroli import OnlineLearner, cli

ERRORS = tuple(errors_file(c, iterate) for c in CONDITIONINGS for iterate in ITERATES)
TABLES = (*ERRORS, *map(regret_file, CONDITIONINGS))
PICTURES = ("errors.png", "regret.png")
SMALL = ["reproduce", "synthetic", "--quick", "--dimension", "10", "--rounds", "300"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("synthetic") / "first"
    assert cli.main([*SMALL, "--seeds", "2", "--jobs", "2", "--out", str(out)]) == 0
    return out


def variant(tmp_path_factory: pytest.TempPathFactory, option: str) -> Path:
    out = tmp_path_factory.mktemp("synthetic") / "variant"
    assert cli.main([*SMALL, option, "--seeds", "1", "--jobs", "1", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return variant(tmp_path_factory, "--as-released")


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return variant(tmp_path_factory, "--other-forms")


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
    for conditioning in CONDITIONINGS:
        for iterate in ITERATES:
            curves = read_errors(folder, conditioning, iterate)
            assert curves.keys() == players.keys()
            for key, curve in curves.items():
                costly = key.startswith("full-adagrad")
                assert curve.errors.shape == (1 if costly else 2, len(curve.rounds))
                assert curve.rounds[-1] == (100 if costly else 300)
                assert np.isfinite(curve.errors).all()
    well = read_errors(folder, "well")
    for iterate in ITERATES[1:]:
        averaged = read_errors(folder, "well", iterate)["recursive-scinol"]
        assert not np.isclose(averaged.errors[:, 1:], well["recursive-scinol"].errors[:, 1:]).any()
    learning = well["recursive-scinol"].median
    assert learning[-1] < 0.5 < learning[0]
    best = best_of_families(players, well)
    assert set(best) == {"Adagrad", "Full-matrix Adagrad", "Online Newton Step"}
    rivals = [well[key].median[-1] for key in players if key.startswith("adagrad")]
    assert len(rivals) == 5
    assert well[best["Adagrad"]].median[-1] == min(rivals)


def test_the_errors_are_those_of_the_point_and_of_its_averages() -> None:
    contestant = next(c for c in NOTHING_TO_TUNE if c.key == "recursive-scinol")
    done: list[float] = []
    curve = race.run(Race(contestant, "well", 4, 6, ROWS + 200), done.append)
    problem = Problem("well", 4, 6)
    learner = OnlineLearner(contestant.learner, start=np.zeros(6))
    played = []
    for rows in problem.chunks(ROWS + 200):
        for x in rows:
            played.append(learner.point)
            learner.update(gradient(x, x @ problem.comparator, played[-1]))
            t = len(played)
            if t not in checkpoints(ROWS + 200):
                continue
            # The polynomial average of power 8 gives round t the weight t·(t+1)···(t+7).
            s = np.arange(1, t + 1)
            weights = np.prod([s + k for k in range(8)], axis=0, dtype=float)
            expected = [
                problem.error(learner.point),
                problem.error(np.mean(played, axis=0)),
                problem.error(np.average(played, axis=0, weights=weights)),
            ]
            found = curve.errors[checkpoints(ROWS + 200).index(t)]
            np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert len(curve.errors) == len(checkpoints(ROWS + 200))
    assert len(done) == 2
    assert sum(done) == pytest.approx(race.work(curve.race))


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


def test_as_released(released: Path) -> None:
    keys = [
        "recursive-scinol",
        *(f"adagrad-{rate}" for rate in ("0.01", "0.03", "0.1", "0.3", "1")),
    ]
    assert list(read_players(released)) == keys
    for name in ERRORS:
        head, _ = read_table(released / name)
        assert head["error"] == "on 1000 training rows that come again and again"
    assert {file.name for file in released.iterdir()} == {*ERRORS, "learners.csv", "errors.png"}


def test_as_released_other_rows_are_played(folder: Path, released: Path) -> None:
    ours, theirs = (read_errors(f, "well")["recursive-scinol"] for f in (folder, released))
    assert not np.isclose(ours.errors[0], theirs.errors[0]).any()


def test_other_forms(folder: Path, forms: Path) -> None:
    ours = ["recursive-scinol", *(form.key for form in OTHER_FORMS)]
    rivals = [f"adagrad-{rate}" for rate in ("0.03", "0.1", "0.3", "1")]
    assert list(read_players(forms)) == [*ours, *rivals]
    _, rows = read_table(forms / "learners.csv")
    for row in rows[1 : len(ours)]:
        words = row["label"]
        assert row["expression"].count("momentum(") == words.count("momentum") + words.count("tw")
        assert row["expression"].count("decay=1.0") == row["expression"].count("momentum(")
        assert ("inner=ons(" if "ONSBET" in words else "cap=None") in row["expression"]
    # The streams are the same ones; only other learners learn otherwise.
    for conditioning in CONDITIONINGS:
        plain, others = (read_errors(at, conditioning) for at in (folder, forms))
        for key in ("recursive-scinol", *rivals):
            np.testing.assert_array_equal(others[key].errors[0], plain[key].errors[0])
        for key in ours[1:]:
            errors = others[key].errors[0]
            assert not np.allclose(errors, plain["recursive-scinol"].errors[0])
    assert {file.name for file in forms.iterdir()} == {*ERRORS, "learners.csv", "errors.png"}


def test_one_variant_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("reproduce", "synthetic", "--other-forms", "--as-released") == 2
    assert "not allowed with" in capsys.readouterr().err


def test_the_stream_is_as_described() -> None:
    problem = Problem("badly", seed=3, dimension=20)
    rows = np.concatenate(list(problem.chunks(4 * ROWS)))
    eigenvalues = np.linalg.eigvalsh(rows.T @ rows / len(rows))
    assert eigenvalues[-1] / eigenvalues[0] == pytest.approx(750, rel=0.3)
    assert np.linalg.norm(problem.comparator) == pytest.approx(10)
    assert ((rows @ problem.comparator) ** 2).mean() == pytest.approx(1, rel=0.1)
    assert problem.error(np.zeros(20)) == pytest.approx(np.sqrt(2 / np.pi), rel=0.1)
    assert problem.error(problem.comparator) == 0
    prefix = np.concatenate(list(problem.chunks(ROWS + 5)))
    np.testing.assert_array_equal(prefix, rows[: ROWS + 5])


def test_repeated_rows_come_again_and_are_the_judges() -> None:
    problem = Problem("badly", seed=3, dimension=5, repeated=True)
    first, second, third = problem.chunks(2 * ROWS + 7)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(np.sort(first, axis=0), np.sort(second, axis=0))
    distinct = np.unique(np.concatenate([first, second, third]), axis=0)
    assert distinct.shape == (ROWS, 5)
    assert third.shape == (7, 5)
    np.testing.assert_array_equal(next(problem.chunks(ROWS)), first)
    point = np.arange(5.0)
    error = np.abs(first @ point - first @ problem.comparator).mean()
    assert problem.error(point) == pytest.approx(error, rel=1e-12)
    fresh = Problem("badly", seed=3, dimension=5)
    np.testing.assert_array_equal(fresh.comparator, problem.comparator)
    # The same rows as those that a fresh stream begins with; only that has others after them.
    both = np.concatenate([distinct, *fresh.chunks(2 * ROWS)])
    assert len(np.unique(both, axis=0)) == 2 * ROWS
    assert fresh.error(point) != problem.error(point)


def test_both_conditionings_share_the_draws() -> None:
    (well,), (badly,) = (list(Problem(c, 0, 5).chunks(10)) for c in ("well", "badly"))
    np.testing.assert_allclose(badly, well * np.sqrt(750))


def test_checkpoints_have_what_the_table_shows() -> None:
    marks = checkpoints(200_000)
    assert {*verdict.EARLY, 200_000} <= set(marks)
    assert len(marks) == 10 * 4 + 4
    assert marks == sorted(set(marks))
    assert checkpoints(1) == [1]


def test_tables_survive_commas(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", {"a": "b: c"}, ["x", "y"], [["1, 2", 3]])
    assert read_table(tmp_path / "t.csv") == ({"a": "b: c"}, [{"x": "1, 2", "y": "3"}])


# The verdict -----------------------------------------------------------------------------------


def curve(rounds: list[int], *seeds: list[float]) -> Errors:
    return Errors(np.array(rounds), np.array(seeds))


def test_within_factor_compares_the_last_medians() -> None:
    def ending(*last: float) -> Errors:
        return curve([10, 20], *([9.0, error] for error in last))

    judged = verdict._within_factor
    assert judged(ending(0.1, 0.2, 7.0), ending(0.1, 0.1, 0.1)) == Finding("×2", True)
    assert judged(ending(0.1, 0.201, 0.3), ending(0.1, 0.1, 0.1)) == Finding("×2.01", False)
    assert judged(ending(0.1), ending(0.4)) == Finding("×0.25", True)


def test_ahead_or_level_looks_at_the_ranges() -> None:
    judged = verdict._ahead_or_level
    rival = curve([10, 20], [1, 0.2], [1, 0.3], [1, 0.4])
    assert judged(curve([10, 20], [1, 0.1], [1, 0.2], [1, 9]), rival) == Finding("×0.667", True)
    assert judged(curve([10, 20], [1, 0.4], [1, 0.6], [1, 0.9]), rival) == Finding("×2", True)
    assert judged(curve([10, 20], [1, 0.41], [1, 0.6], [1, 0.9]), rival) == Finding("×2", False)


@pytest.mark.parametrize(
    ("errors", "finding"),
    [
        # w = 0 has the error 0.798; nine tenths of it are 0.718, a quarter is 0.1995.
        ([0.8, 0.72, 0.715, 0.19], Finding("slow until 100, down to a quarter at 300", True)),
        ([0.8, 0.72, 0.715, 0.20], Finding("slow until 100, then not down to a quarter", False)),
        ([0.8, 0.7, 0.6, 0.1], Finding("slow until 10, down to a quarter at 300", False)),
        ([0.8, 0.1, 0.8, 0.1], Finding("slow until 200, down to a quarter at 300", True)),
        ([0.5, 0.4, 0.3, 0.1], Finding("slow until 10, down to a quarter at 300", False)),
    ],
)
def test_slow_then_fast(errors: list[float], finding: Finding) -> None:
    rounds = [10, 100, 200, 300]
    assert verdict._slow_then_fast(curve(rounds, errors)) == finding
    # Of three seeds the median is judged.
    three = curve(rounds, [0.0] * 4, errors, [9.0] * 4)
    assert verdict._slow_then_fast(three) == finding


OURS = "Recursive: ScInOL, no cap"
WELL = {
    "recursive-scinol": (0.04, 0.12, 0.004),
    "adagrad-0.01": (0.5, 0.03, 0.125),
    "adagrad-0.3": (0.01, 0.06, 0.0025),
}
BADLY = {
    "recursive-scinol": (0.1, 0.3, 0.01),
    "adagrad-0.01": (0.6, 0.1, 0.15),
    "adagrad-0.3": (0.05, 0.05, 0.0125),
}
"""The errors of the iterates at the end; so the best rate is not the same one for all."""


def write_tables(
    folder: Path, error: str, key: str = "recursive-scinol", label: str = OURS, better: float = 1.0
) -> None:
    """Two looks at two seeds, one 20% above the median, one as much below; ours so much better."""
    folder.mkdir()
    columns = ["learner", "label", "family", "seconds per 1000 rounds", "expression"]
    players = [
        [key, label, "", 0.05, ""],
        ["adagrad-0.01", "Adagrad, rate 0.01", "Adagrad", 0.02, ""],
        ["adagrad-0.3", "Adagrad, rate 0.3", "Adagrad", 0.02, ""],
    ]
    write_table(folder / "learners.csv", {}, columns, players)
    columns = ["learner", "round", "seed 0", "seed 1"]
    for conditioning, ends in zip(CONDITIONINGS, (WELL, BADLY), strict=True):
        for i, iterate in enumerate(ITERATES):
            rows: list[list[object]] = []
            for learner, errors in ends.items():
                ours = learner == "recursive-scinol"
                error_there = errors[i] / better if ours else errors[i]
                name = key if ours else learner
                rows.append([name, 10_000, 0.79, 0.81])
                rows.append([name, 20_000, 0.8 * error_there, 1.2 * error_there])
            write_table(
                folder / errors_file(conditioning, iterate), {"error": error}, columns, rows
            )


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    results = tmp_path / "results"
    write_tables(results, "on rows that are new")
    columns = ["seed", "round", "regret", "bound", "regret of w = 0", "full-matrix case"]
    for conditioning, case in zip(CONDITIONINGS, (0, 1), strict=True):
        rows = [[0, 10_000, 5, 100, 50, 0], [0, 20_000, 7.5, 110, 120 - 20 * case, case]]
        write_table(results / regret_file(conditioning), {}, columns, rows)
    return results


def test_judge(tables: Path) -> None:
    found = {claim.text: [str(finding) for finding in claim.findings] for claim in judge(tables)}
    fast = "slow until 10,000, down to a quarter at 20,000: yes"
    assert found == {
        "(a) at most 2 times the error of Adagrad's best rate": ["×4: no", "×4: no", "×1.6: yes"],
        "(b) ahead of Adagrad's best rate, or level": ["×2: no", "×6: no", "×0.8: yes"],
        "(a) at most 2 times the error of Adagrad, rate 0.01": [
            "×0.08: yes",
            "×4: no",
            "×0.032: yes",
        ],
        "(b) ahead of Adagrad, rate 0.01, or level": ["×0.167: yes", "×3: no", "×0.0667: yes"],
        "(a) at most 2 times the error of Adagrad's best rate of (b)": [
            "×4: no",
            "×2: yes",
            "×1.6: yes",
        ],
        "(b) slow, then fast": [fast, "slow until 10,000, then not down to a quarter: no", fast],
    }
    assert {claim.learner for claim in judge(tables)} == {OURS}


def test_judge_asks_each_claim_of_each_form_of_ours(folder: Path) -> None:
    claims = judge(folder)
    assert len(claims) == 6 * 3
    assert len({(claim.text, claim.learner) for claim in claims}) == len(claims)
    labels = {read_players(folder)[key].label for key in (*verdict.AS_RUN, "recursive-diagonal")}
    assert {claim.learner for claim in claims} == labels
    assert all(len(claim.findings) == len(ITERATES) for claim in claims)


def test_page(tables: Path) -> None:
    page = verdict.page(tables)
    lines = page.splitlines()
    assert "### Error on rows that are new" in lines
    text = "(a) at most 2 times the error of Adagrad's best rate"
    assert f"| {text} | {OURS} | ×4: no | ×4: no | ×1.6: yes |" in lines
    ours = f"| {OURS} | – | 0.800 | 0.040 (0.032 to 0.048) | 0.120 | 0.004 |"
    slow = "| Adagrad, rate 0.01 | – | 0.800 | 0.500 (0.400 to 0.600) | **0.030** | 0.125 |"
    fast = "| Adagrad, rate 0.3 | – | 0.800 | **0.010** (0.008 to 0.012) | 0.060 | **0.0025** |"
    assert [ours, slow, fast] == lines[lines.index(ours) :][:3]
    heads = "last iterate | round 20,000, uniform average | round 20,000, polynomial average |"
    assert f"| learner | round 1,000 | round 10,000 | round 20,000, {heads}" in lines
    regret = "| (a) well-conditioned | 7.5 | 110 | 120 | round 20,000 | not within the run |"
    assert regret in lines
    regret = "| (b) badly conditioned | 7.5 | 110 | 100 | not within the run | round 20,000 |"
    assert regret in lines
    assert "rows that return" not in page
    write_tables(tables / "as-released", "on rows that return")
    longer = verdict.page(tables)
    assert "### Error on rows that return" in longer
    assert len(longer.splitlines()) > len(lines) + 20
    write_tables(tables / "other-forms", "on rows that are new", *MOMENTUM)
    assert "### Forms that the paper did not run: error on rows that are new" in verdict.page(
        tables
    )


MOMENTUM = ("recursive-scinol-momentum", f"{OURS}, + momentum", 10.0)


def test_the_reports_section(tables: Path, tmp_path: Path) -> None:
    _, rows = read_table(tables / "learners.csv")
    write_table(
        tables / "learners.csv",
        {"device": "a device", "paroli": "1", "rounds": "20000"},
        list(rows[0]),
        [list(row.values()) for row in rows],
    )
    for folder in (tables, tmp_path / "results" / "other-forms"):
        if folder != tables:
            write_tables(folder, "on rows that are new", *MOMENTUM)
        (folder / "errors.png").write_bytes(b"a picture")
    alone = section({"full": tmp_path / "none"})
    assert [finding.verdict for finding in alone.findings] == [NOT_RUN]
    found = section({"none": tmp_path / "none", "full": tables})
    assert found.made_by == "a device, paroli 1; rounds: 20000"
    assert found.command == "paroli reproduce synthetic"
    assert found.pictures == [tables / "errors.png", tables / "other-forms" / "errors.png"]
    assert len(found.rows) == 6 * 2
    judged = {finding.claim: finding for finding in found.findings}
    best = "(a) at most 2 times the error of Adagrad's best rate"
    # What only momentum, or only an average, reaches is no more than partly reproduced.
    assert judged[best].verdict == PARTLY
    momentum_alone = "holds for ScInOL, no cap, + momentum ×0.4"
    assert judged[best].measured == (
        f"last iterate: {momentum_alone}; uniform average: {momentum_alone}; "
        "polynomial average: holds for ScInOL, no cap ×1.6 and ScInOL, no cap, + momentum ×0.16"
    )
    script = "(a) at most 2 times the error of Adagrad, rate 0.01"
    assert judged[script].verdict == REPRODUCED
    assert judged["(b) slow, then fast"].verdict == REPRODUCED
    cut = section({"quick": tables})
    assert cut.command == "paroli reproduce synthetic --quick"
    assert {finding.verdict for finding in cut.findings} == {OTHER_SCALE}
    for path in (tables / "other-forms").iterdir():
        path.unlink()
    without = {finding.claim: finding for finding in section({"full": tables}).findings}
    assert without[best].measured.startswith("last iterate: for none (ScInOL, no cap ×4); ")
    assert without[best].verdict == PARTLY


def test_a_claim_that_nobody_meets_is_not_reproduced(tmp_path: Path) -> None:
    write_tables(tmp_path / "results", "", better=0.001)
    table = tmp_path / "results" / "learners.csv"
    head = "# device: a\n# paroli: 1\n# rounds: 2\n"
    table.write_text(head + table.read_text("utf-8"), "utf-8")
    found = section({"full": tmp_path / "results"}).findings
    assert {finding.verdict for finding in found} == {NOT}


def test_a_shorter_run_has_a_dash_at_the_end(tables: Path) -> None:
    for iterate in ITERATES:
        table = tables / errors_file("well", iterate)
        text = table.read_text("utf-8")
        table.write_text(re.sub(r"adagrad-0.01,20000.*\n", "", text), "utf-8")
    assert "| Adagrad, rate 0.01 | – | 0.800 | – | – | – |" in verdict.page(tables).splitlines()


def test_write_into(tables: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"Ours ẘ.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n", "utf-8")
    for _ in range(2):
        verdict.write_into(readme, tables)
        expected = f"Ours ẘ.\n\n{BEGIN}\n{verdict.page(tables)}{END}\n\nAfter.\n"
        assert readme.read_text("utf-8") == expected


@pytest.mark.parametrize("text", ["none", f"{BEGIN}\nno end", f"{END}\nin the wrong order {BEGIN}"])
def test_write_into_wants_both_marks(tables: Path, tmp_path: Path, text: str) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"README\.md: expected a line '<!-- .*begin.*' and after"):
        verdict.write_into(readme, tables)
    assert readme.read_text("utf-8") == text


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
    assert "\nsynthetic " in capsys.readouterr().out


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
