"""Every experiment end to end, on made-up data: tables, pictures, the report, the command line."""

import re
import socket
from pathlib import Path
from typing import NoReturn

import pytest

pytest.importorskip("torch")

from experiments.all import page
from experiments.all import run as everything
from experiments.common.records import read_table
from experiments.common.report import (
    NOT,
    NOT_RUN,
    ON_CPU,
    OTHER_SCALE,
    PARTLY,
    REPRODUCED,
    SCALES,
    VERDICTS,
    Finding,
    Section,
)
from experiments.speed import race, tables
from experiments.training.experiment import SIZES
from experiments.training.loop import Look
from paroli import cli
from paroli.torch import RecursiveOptimizer

EXPERIMENTS = [module.EXPERIMENT for module in everything.NETWORKS]
NAMES = ["synthetic", *(experiment.name for experiment in EXPERIMENTS), "speed"]


def no_network(*_: object, **__: object) -> NoReturn:
    raise OSError("the network was touched")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAROLI_RESULTS", str(folder))
        patch.delenv("PAROLI_DATA", raising=False)
        patch.setattr(socket.socket, "connect", no_network)
        arguments = ["--size", "smoke", "--jobs", "2", "--device", "cpu"]
        assert cli.main(["reproduce", "all", *arguments]) == 0
    return folder


def test_every_run_has_its_table(results: Path) -> None:
    for experiment in EXPERIMENTS:
        size = experiment.sizes["smoke"]
        folder = results / experiment.name.replace("-", "_") / "smoke"
        assert not (folder / "unfinished").exists() or not any((folder / "unfinished").iterdir())
        assert len(size.runs("cpu")) == 2 * 7
        for run in size.runs("cpu"):
            path = folder / "runs" / f"{run.contestant.key}-seed{run.seed}.csv"
            head, rows = read_table(path)
            assert head["contestant"] == run.contestant.key
            assert head["seed"] == str(run.seed)
            assert [int(row["step"]) for row in rows] == size.setting.marks()
            assert list(rows[0]) == list(Look._fields)
            assert all(0 < float(row["test_loss"]) < 1e4 for row in rows)
            assert all(0 <= float(row["test_accuracy"]) <= 1 for row in rows)
            assert float(rows[-1]["seconds"]) > 0


def test_files_are_small(results: Path) -> None:
    for path in results.glob("**/*.*"):
        assert path.stat().st_size < (2_000_000 if path.suffix == ".html" else 200_000), path
    assert len(list(results.glob("*/smoke/figure.png"))) == 7


def test_the_report_is_one_file_with_every_figure(results: Path) -> None:
    text = (results / "all" / "smoke" / "report.html").read_text("utf-8")
    assert text.count("<section id=") == len(NAMES)
    for name in NAMES:
        assert f'<section id="{name}">' in text
    assert text.count('src="data:image/png;base64,') == len(NAMES)
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert "$" not in re.sub(r"base64,[^\"]*", "", text)
    # Nothing on made-up data is called reproduced.
    assert not re.search('badge (cut )?(yes|partly|no)"', text)
    assert text.count('badge unknown">not run on this scale') >= 2 * len(NAMES)


def test_the_same_again_runs_nothing_and_draws_the_same(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAROLI_RESULTS", str(results))
    folder = results / "mnist_logistic" / "smoke"
    before = {path: path.read_bytes() for path in folder.glob("**/*.*")}
    assert len(before) == 14 + 1
    missing = folder / "runs" / "adam-0.001-seed1.csv"
    missing.unlink()
    arguments = ["reproduce", "mnist-logistic", "--size", "smoke", "--jobs", "1"]
    assert cli.main([*arguments, "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "13 runs have their tables already" in printed
    assert "not run on this scale: the same train loss for all" in printed
    assert "other versions" not in printed
    again = read_table(missing)[1]
    lines = before[missing].decode().splitlines()
    expected = [line.split(",") for line in lines if not line.startswith("#")][1:]
    seconds = Look._fields.index("seconds")
    for row, cells in zip(again, expected, strict=True):
        cells[seconds] = row["seconds"]  # the only thing that may differ
        assert list(row.values()) == cells
    assert cli.main([*arguments, "--redraw"]) == 0
    kept = {path: content for path, content in before.items() if path != missing}
    assert {path: path.read_bytes() for path in kept} == kept


def test_the_report_alone(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAROLI_RESULTS", str(results))
    assert cli.main(["reproduce", "all", "--size", "smoke", "--report"]) == 0
    assert str(results / "all" / "smoke" / "report.html") in capsys.readouterr().out
    # At full size nothing was run.
    sections = everything.gather("full")
    assert [section.name for section in sections] == NAMES
    assert {f.verdict for section in sections for f in section.findings} == {NOT_RUN}


def test_cuts_stand_in_for_what_was_not_run_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(everything, "section", lambda experiment, sizes: asked.append(sizes))
    monkeypatch.setattr(everything, "synthetic_section", lambda folders: asked.append([*folders]))
    monkeypatch.setattr(everything.speed, "section", asked.append)
    for size, sizes in (
        ("full", ("full", "cpu", "small")),
        ("cpu", ("cpu",)),
        ("small", ("small",)),
    ):
        everything.gather(size)
        assert asked[0] == (["small"] if size == "small" else ["full"])
        assert asked[1:] == [sizes] * (len(EXPERIMENTS) + 1)
        asked.clear()


def test_in_full_the_other_forms_are_run_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAROLI_RESULTS", str(tmp_path))
    called: list[list[str]] = []

    def noted(arguments: list[str]) -> int:
        called.append(arguments)
        return 0 if len(called) < 2 else 7

    monkeypatch.setattr(everything.synthetic, "main", noted)
    assert cli.main(["reproduce", "all", "--jobs", "3"]) == 7  # what fails ends everything
    assert called == [["--jobs", "3"], ["--other-forms", "--jobs", "3"]]
    tables = tmp_path / "synthetic" / "learners.csv"
    tables.parent.mkdir()
    tables.touch()
    assert cli.main(["reproduce", "all", "--size", "cpu"]) == 7
    assert called[2:] == [["--other-forms"]]


def test_without_tables_and_without_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAROLI_DATA", str(tmp_path))
    monkeypatch.setenv("PAROLI_RESULTS", str(tmp_path / "results"))
    for name in ("mnist-mlp", "speed"):
        assert cli.main(["reproduce", name, "--quick", "--redraw"]) == 1
        assert "in" in capsys.readouterr().err
    for experiment in EXPERIMENTS:
        assert cli.main(["reproduce", experiment.name, "--quick", "--device", "cpu"]) == 1
        assert re.search(r"has no \w+/.* put there what http", capsys.readouterr().err)


def test_a_missing_device_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["reproduce", "mnist-mlp", "--size", "smoke", "--out", str(tmp_path)]
    import torch

    if not torch.cuda.is_available():
        assert cli.main([*arguments, "--device", "cuda"]) == 1
        assert "--device cuda: torch finds no such device" in capsys.readouterr().err


def test_names_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reproduce", "--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert {"all", *NAMES} <= set(listed)
    with pytest.raises(SystemExit):
        cli.main(["reproduce", "mnist-mlp", "--help"])
    assert "--quick" in capsys.readouterr().out


def test_every_experiment_has_every_size() -> None:
    for experiment in EXPERIMENTS:
        assert tuple(experiment.sizes) == SIZES
        full = experiment.sizes["full"]
        assert full.seeds >= 3
        assert {c.key for c in full.contestants()} >= {"adam-0.0001", "adam-0.01", "adagrad-0.1"}
        real = [size for name, size in experiment.sizes.items() if name != "smoke"]
        assert not any(size.setting.source.made_up for size in real)
        assert experiment.sizes["smoke"].setting.source.made_up


def test_what_a_cpu_can_do_in_full_has_no_cut() -> None:
    for experiment in EXPERIMENTS:
        whole = experiment.name == "mnist-mlp"
        assert experiment.is_full("cpu") == whole
        assert (experiment.folder("cpu") == experiment.folder("full")) == whole
        assert not experiment.is_full("small")
        assert experiment.folder("small").name == "small"
    assert everything.synthetic_folders("cpu") == everything.synthetic_folders("full")


# The pages -------------------------------------------------------------------------------------


@pytest.fixture
def section(tmp_path: Path) -> Section:
    picture = tmp_path / "experiments" / "a" / "results" / "figure.png"
    picture.parent.mkdir(parents=True)
    picture.write_bytes(b"picture")
    return Section(
        name="a-b",
        title="A & B",
        claim="a < b",
        command="paroli reproduce a-b",
        findings=[Finding("first", "1 < 2", REPRODUCED), Finding("second", "3", OTHER_SCALE)],
        pictures=[picture],
        heads=("who", "what"),
        rows=[("we", "<b>")],
        made_by="a device",
        deviations=("none & nothing",),
    )


def test_html(section: Section) -> None:
    text = page.html([section])
    assert '<section id="a-b"><h2>A &amp; B</h2>' in text
    assert '<p class="claim">a &lt; b</p>' in text
    assert 'src="data:image/png;base64,cGljdHVyZQ=="' in text
    assert '<span class="badge yes">reproduced</span> <b>first.</b> 1 &lt; 2.' in text
    assert "<td>&lt;b&gt;</td>" in text
    # The claim above the figure, the verdicts below it, then what was done otherwise.
    order = ['<section id="a-b">', 'class="claim"', "<img", "first.</b>", "second.</b>", "<li>"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "(and <a" not in text
    assert "<li>none &amp; nothing</li>" in text
    assert text.count("badge unknown") == 2  # in the summary and in the section


def test_what_several_do_otherwise_is_said_once(section: Section, tmp_path: Path) -> None:
    both = [
        section._replace(name=name, deviations=("of all", f"only {name}"))
        for name in ("one", "two", "three")
    ]
    text = page.html(both)
    assert text.count("of all") == 1 < text.index('<div id="shared">') < text.index("of all")
    assert text.count('(and <a href="#shared">what several experiments do otherwise</a>)') == 3
    assert text.index('<section id="two">') < text.index("<li>only two</li>")
    written = page.markdown(both, tmp_path / "docs")
    assert written.count("- of all\n") == 1
    assert written.index("## What several experiments do otherwise") < written.index("- of all\n")
    assert "(#what-several-experiments-do-otherwise)" in written
    assert written.index("- only one\n") < written.index("- only two\n")


def test_markdown(section: Section, tmp_path: Path) -> None:
    lines = page.markdown([section], tmp_path / "docs").splitlines()
    assert "| A & B | first | reproduced | `paroli reproduce a-b` |" in lines
    assert "| A & B | second | not run on this scale | `paroli reproduce a-b` |" in lines
    assert "![A & B](../experiments/a/results/figure.png)" in lines
    assert "- **reproduced**: first. 1 < 2." in lines
    assert "| we | <b> |" in lines


def test_another_scale_keeps_the_numbers_and_says_what_they_would_mean() -> None:
    full = Finding("c", "1 of 2", PARTLY)
    assert full.at("full") == full
    for size in ("small", "quick", "smoke"):
        assert full.at(size) == Finding("c", f"{SCALES[size]}: 1 of 2 (partly)", OTHER_SCALE)


@pytest.mark.parametrize("verdict", [REPRODUCED, PARTLY, NOT])
def test_a_cpu_sized_cut_never_gets_the_verdict_of_the_papers_size(verdict: str) -> None:
    found = Finding("c", "1 of 2", verdict).at("cpu")
    assert found == Finding("c", "1 of 2", ON_CPU[verdict])
    assert found.verdict not in (REPRODUCED, PARTLY, NOT)
    assert found.verdict.endswith("on a CPU-sized cut")


def test_every_size_has_a_name_and_every_verdict_a_look() -> None:
    assert tuple(SCALES) == SIZES
    assert set(page.BADGES) == set(VERDICTS)
    looks = page.TEMPLATE.read_text("utf-8")
    assert all(f".{name} {{" in looks for name in ["yes", "partly", "no", "cut", "badge"])
    # What may be mistaken for one another looks different.
    assert len(set(page.BADGES.values())) == len(VERDICTS) - 1
    assert page.BADGES[NOT_RUN] == page.BADGES[OTHER_SCALE]


# Speed -----------------------------------------------------------------------------------------


def test_speeds_are_medians_and_are_judged(tmp_path: Path) -> None:
    laps = [
        race.Lap(task, racer.key, i, 10, seconds * (1 + i))
        for task, slow in (("one", 2.0), ("two", 0.5))
        for racer in race.RACERS
        for i, seconds in enumerate([slow if racer.key == "recursive-fast" else 1.0] * 3)
    ]
    tables.write(tmp_path, laps, "cpu", {"one": 1, "two": 2})
    speeds = tables.read(tmp_path)
    assert speeds["one"] == {racer.key: 5 for racer in race.RACERS} | {"recursive-fast": 2.5}
    assert speeds["two"]["recursive-fast"] == 10
    head, _ = read_table(tmp_path / tables.TABLE)
    assert head["seconds"] == "CPU time of one thread"
    assert head["setting of two"] == "2"
    findings = {finding.claim.rpartition(": ")[2]: finding for finding in tables.judge(speeds)}
    assert findings["Recursive, fast path"].verdict == PARTLY
    assert findings["Recursive, fast path"].measured.endswith("one ×0.50, two ×2.00")
    assert findings["Recursive, readable path"].verdict == NOT
    fast = "slower than both Adam and Adagrad: Recursive, fast path"
    for speed, verdict in ((4.84, REPRODUCED), (4.86, PARTLY)):
        speeds["two"]["recursive-fast"] = speed
        assert {f.claim: f.verdict for f in tables.judge(speeds)}[fast] == verdict


def test_racers_are_what_they_are_called() -> None:
    weights = [everything.torch.nn.Parameter(everything.torch.zeros(3))]
    built = {racer.key: racer.build(weights) for racer in race.RACERS}
    readable, fast = built["recursive-readable"], built["recursive-fast"]
    groups = {key: optimizer.param_groups[0] for key, optimizer in built.items()}
    assert (groups["recursive-readable"]["foreach"], groups["recursive-readable"]["fused"]) == (
        False,
        False,
    )
    shipped = RecursiveOptimizer(weights)
    assert repr(built["recursive-shipped"]) == repr(shipped)
    assert shipped.average is not None
    assert readable.average is fast.average is None
    plain = RecursiveOptimizer(weights, average=False)
    assert repr(fast) == repr(plain) != repr(readable)
    assert groups["adam-fused"]["fused"] is True
    assert not groups["adam"]["fused"]
    assert isinstance(built["adagrad"], everything.torch.optim.Adagrad)
    assert set(tables.RIVALS) < set(built) > set(tables.OURS)


def test_a_lap_is_of_the_networks_it_is_called_by() -> None:
    tasks = {task.name: task.sizes["smoke"].setting for task in EXPERIMENTS[:2]}
    pace = race.Pace(rounds=2, seconds=0.0)
    turns: list[None] = []
    laps = list(race.run(tasks, pace, "cpu", lambda: turns.append(None)))
    assert len(laps) == len(turns) == 2 * len(race.RACERS) * 2
    seen = [(lap.task, lap.round, lap.racer) for lap in laps]
    # Everybody has had a turn before anybody has the next.
    keys = [racer.key for racer in race.RACERS]
    assert seen == [(task, i, key) for task in tasks for i in range(2) for key in keys]
    assert all(lap.steps == race.LEAST and lap.seconds > 0 for lap in laps)


def test_a_turn_takes_whole_steps_until_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 1.0, 4.0])
    setting = EXPERIMENTS[1].sizes["smoke"].setting
    stable = race._Stable(setting, race.RACERS[0], everything.torch.device("cpu"))
    monkeypatch.setattr(stable, "_clock", lambda: next(clock))
    assert stable.turn(2.0) == (2 + 4, 4.0)
    assert stable.done == 6
