"""`paroli learn` and `paroli predict`, from the command line to the file and back."""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paroli import cli
from paroli.linear import LinearLearner
from paroli.streams import models, progress
from paroli.streams.batch import Batch
from paroli.streams.grammar import Layout
from paroli.streams.progress import Average
from paroli.streams.readers import Reader
from tests.streams.processes import running
from tests.streams.test_models import assert_same

BITS = 10
LEARN = ["learn", "--bits", str(BITS)]


def lines(rows: int, seed: int = 0) -> list[str]:
    """Rows of svmlight: a few features of forty, a label that depends on them."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(40)
    made = []
    for _ in range(rows):
        features = rng.choice(40, size=5, replace=False)
        values = rng.uniform(0.5, 2, size=5).round(3)
        label = 1 if weights[features] @ values + rng.standard_normal() > 0 else -1
        pairs = " ".join(f"{i}:{x}" for i, x in zip(features, values, strict=True))
        made.append(f"{label:+d} {pairs}\n")
    return made


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    path = tmp_path / "stream.svm"
    path.write_text("".join(lines(700)))
    return path


def learned(path: Path) -> models.Content:
    return models.load(path).learner


def assert_same_learner(one: Path, other: Path) -> None:
    assert_same(models.Model(learned(one), {}), models.Model(learned(other), {}))


def batches(path: Path, **options: Any) -> Iterator[Batch]:
    return Reader(Layout(bits=BITS), **options).batches(str(path))


def test_learn_is_the_learner_on_the_readers_rows(
    stream: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "m"
    assert cli.main([*LEARN, str(stream), "--save", str(model)]) == 0
    learner = LinearLearner("logistic", dimensions=1 << BITS)
    losses = []
    for batch in batches(stream, block=100):  # where blocks end means nothing
        losses += learner.losses(learner.partial_fit_batch(batch), batch.labels).tolist()
    by_hand = models.Model(learner.to_arrays(), {})
    assert_same(models.Model(learned(model), {}), by_hand)

    table = capsys.readouterr().err.splitlines()
    assert table[0].split() == (
        ["average", "loss", "since", "last", "rows", "weight", "label", "prediction", "features"]
    )
    rows = [line.split() for line in table[1:11]]
    assert [int(row[2]) for row in rows] == [2**k for k in range(10)]
    before = 0
    for average, since, row, weight, label, prediction, features in rows:
        n = int(row)
        assert float(average) == pytest.approx(np.mean(losses[:n]), abs=1e-6)
        assert float(since) == pytest.approx(np.mean(losses[before:n]), abs=1e-6)
        assert float(weight) == n
        assert label in ("1", "-1")
        assert 0 < float(prediction) < 1
        assert features == "5"
        before = n
    assert table[-1] == f"rows 700, weight 700, average loss {np.mean(losses):.6f}"


def test_predict_is_the_learner_on_the_readers_rows(stream: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "m", tmp_path / "out"
    assert cli.main([*LEARN, str(stream), "--save", str(model), "--quiet"]) == 0
    assert cli.main(["predict", "-m", str(model), str(stream), "-o", str(out)]) == 0
    learner = LinearLearner.from_arrays(learned(model))
    [batch] = batches(stream)
    expected = learner.outputs(learner.predict_batch(batch))
    assert np.array_equal(np.array(out.read_text().split(), dtype=float), expected)


def test_quiet_is_silent(stream: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tmp_path / "m")
    assert cli.main([*LEARN, str(stream), "--save", model, "--quiet"]) == 0
    assert cli.main(["predict", "-m", model, str(stream), "-o", model + "o", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_tags_and_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, model = tmp_path / "s.vw", str(tmp_path / "m")
    path.write_text("1 'first| a\n-1 2 | b\n")
    assert cli.main([*LEARN, str(path), "--save", model, "--quiet"]) == 0
    assert cli.main(["predict", "-m", model, str(path), "--evaluate"]) == 0
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    (p, tag), q = first.split(), second
    assert tag == "first"
    loss = -(math.log(float(p)) + 2 * math.log(1 - float(q))) / 3
    assert err == f"rows 2, average loss {loss:.6f}\n"


def test_labels_are_not_needed_to_predict(
    stream: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, strange = str(tmp_path / "m"), tmp_path / "s.svm"
    assert cli.main([*LEARN, str(stream), "--save", model, "--quiet"]) == 0
    strange.write_text("unknown 3:1\n")
    assert cli.main(["predict", "-m", model, str(strange), "--quiet"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, model = tmp_path / "s.csv", str(tmp_path / "m")
    text = "".join(f"{name},{name[0]}\n" for name in ["red", "green", "blue"] * 40)
    path.write_text("label,letter\n" + text)
    assert cli.main([*LEARN, str(path), "--classes", "red,green,blue", "--save", model]) == 0
    assert "green" in capsys.readouterr().err
    assert cli.main(["predict", "-m", model, str(path)]) == 0
    shares = np.array([line.split() for line in capsys.readouterr().out.splitlines()], dtype=float)
    assert np.array_equal(shares.argmax(axis=1), np.tile([0, 1, 2], 40))
    assert shares.sum(axis=1) == pytest.approx(1)


def test_losses_and_their_options_reach_the_learner(tmp_path: Path) -> None:
    path, model = tmp_path / "s.svm", tmp_path / "m"
    path.write_text("".join(f"{i % 7}.5 {i % 7}:1\n" for i in range(50)))
    options = ["--loss", "quantile", "--quantile", "0.9", "--half-life", "1000"]
    assert cli.main([*LEARN, str(path), *options, "--save", str(model), "--quiet"]) == 0
    content = learned(model)
    assert (content["loss"], content["quantile"], content["half_life"]) == ("quantile", 0.9, 1000)
    learner = LinearLearner("quantile", 1 << BITS, quantile=0.9, half_life=1000.0)
    for batch in Reader(Layout(bits=BITS, labels="real")).batches(str(path)):
        learner.partial_fit_batch(batch)
    assert_same(models.Model(content, {}), models.Model(learner.to_arrays(), {}))


def test_audit_explains_the_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, model = tmp_path / "s.vw", str(tmp_path / "m")
    path.write_text("1 |f a b:2 c:0.5\n-1 |f a c |\n" * 20)
    assert cli.main([*LEARN, str(path), "-q", "ff", "--save", model, "--quiet"]) == 0
    assert cli.main(["predict", "-m", model, str(path), "--audit", "--quiet"]) == 0
    out = capsys.readouterr().out.splitlines()
    probability, *told = out[: 1 + 3 + 6 + 2]
    cells = [line.split("\t")[1:] for line in told]
    assert {name for name, *_ in cells} == {
        *("f^a", "f^b", "f^c", "f^a*f^a", "f^a*f^b", "f^a*f^c", "f^b*f^b", "f^b*f^c", "f^c*f^c"),
        *("(all other)", "(score)"),
    }
    features = cells[:-2]
    contributions = [float(contribution) for *_, contribution in features]
    for (_, index, value, weight, _), contribution in zip(features, contributions, strict=True):
        assert 0 <= int(index) < 1 << BITS
        assert contribution == float(weight) * float(value)
    assert sorted(map(abs, contributions), reverse=True) == [abs(c) for c in contributions]
    rest, score = float(cells[-2][-1]), float(cells[-1][-1])
    assert sum(contributions) + rest == pytest.approx(score)
    assert 1 / (1 + math.exp(-score)) == pytest.approx(float(probability))


# Going on ------------------------------------------------------------------------------------


def test_learning_in_two_goes_is_learning_in_one(tmp_path: Path) -> None:
    rows = lines(500)
    for name, part in {"a": rows[:200], "b": rows[200:]}.items():
        (tmp_path / f"{name}.svm").write_text("".join(part))
    a, b, one, two = (str(tmp_path / name) for name in ("a.svm", "b.svm", "one", "two"))
    assert cli.main([*LEARN, a, b, "--save", one, "--quiet"]) == 0
    assert cli.main([*LEARN, a, "--save", two, "--quiet"]) == 0
    assert cli.main(["learn", "--load", two, b, "--save", two, "--quiet"]) == 0
    assert_same_learner(Path(one), Path(two))


def test_held_out_rows_are_not_learned(
    stream: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = stream.read_text().splitlines()
    other = [("-" if row[0] == "+" else "+") + row[1:] if i % 7 == 6 else row
             for i, row in enumerate(rows)]  # fmt: skip
    (tmp_path / "other.svm").write_text("\n".join(other))
    summaries = []
    for name in ("stream", "other"):
        file, model = str(tmp_path / f"{name}.svm"), str(tmp_path / name)
        command = [*LEARN, file, "--save", model, "--holdout", "7", "--passes", "2"]
        assert cli.main(command) == 0
        said = capsys.readouterr().err
        summaries.append(said.splitlines()[-1])
        passes = re.findall(r"^pass (\d), average loss of held-out rows (\S+)$", said, re.MULTILINE)
        assert [number for number, _ in passes] == ["1", "2"]
        assert passes[0][1] != passes[1][1] == summaries[-1].split()[-1]
    assert_same_learner(tmp_path / "stream", tmp_path / "other")
    form = (
        r"rows 1400, weight 600, average loss ([\d.]+) in the first pass, "
        r"of held-out rows ([\d.]+)"
    )
    (loss, held), (other_loss, other_held) = (
        re.fullmatch(form, summary).groups()  # type: ignore[union-attr]
        for summary in summaries
    )
    assert loss == other_loss
    assert float(other_held) > 2 * float(held)


def command(*arguments: object) -> list[str]:
    code = "import sys; from paroli.cli import main; sys.exit(main())"
    return [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]


def read_until(stream: Any, pattern: str) -> str:
    for line in stream:
        if re.search(pattern, line):
            return str(line)
    raise AssertionError(f"the program ended before it said {pattern!r}")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_while_waiting_and_gone_on_with(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    pipe, rows = tmp_path / "s.svm", lines(700)
    whole, model = tmp_path / "whole", tmp_path / "m"
    os.mkfifo(pipe)
    options = ["--bits", BITS, pipe, "--holdout", 9, "--save", model]
    with running(
        command("learn", *options), stderr=subprocess.PIPE, text=True
    ) as process, os.fdopen(os.open(pipe, os.O_RDWR), "w") as writer:  # fmt: skip
        writer.write("".join(rows[:300]))
        writer.flush()
        read_until(process.stderr, r"^ +\S+ +\S+ +256 ")
        time.sleep(0.5)  # it has learned the rows, and waits for more
        process.send_signal(number)
        said = process.communicate()[1]
        assert process.returncode == code
    assert f"paroli: interrupted after 300 rows: {model} has all that was learned" in said

    pipe.unlink()
    pipe.write_text("".join(rows))
    assert cli.main(["learn", str(pipe), "--holdout", "9", "--save", str(whole), *LEARN[1:]]) == 0
    resume = ["learn", str(pipe), "--holdout", "9", "--load", str(model), "--resume"]
    assert cli.main([*resume, "--save", str(model)]) == 0
    assert model.read_bytes() == whole.read_bytes()  # the averages of the losses, too


def test_interrupted_while_learning_and_gone_on_with(tmp_path: Path) -> None:
    path, model, whole = tmp_path / "s.svm", tmp_path / "m", tmp_path / "whole"
    path.write_text("".join(lines(3000)))
    options = ["--bits", BITS, path, "--save", model]
    with running(
        command("learn", *options, "--passes", 10**6), stderr=subprocess.PIPE, text=True
    ) as process:
        read_until(process.stderr, r"^pass 4$")
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130
    last = models.load(model).run["pass"]
    resume = ["learn", str(path), "--passes", str(last), "--load", str(model), "--resume"]
    assert cli.main([*resume, "--save", str(model), "--quiet"]) == 0
    passes = ["--passes", str(last), "--save", str(whole), "--quiet"]
    assert cli.main([*LEARN, str(path), *passes]) == 0
    assert model.read_bytes() == whole.read_bytes()


def test_a_second_interrupt_saves_nothing(tmp_path: Path) -> None:
    path, model = tmp_path / "s.svm", tmp_path / "m"
    path.write_text("".join(lines(30)))
    code = (
        "import os, signal, sys; from paroli import cli; from paroli.linear import LinearLearner\n"
        "def twice(self, batch, **options):\n"
        "    os.kill(os.getpid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGINT)\n"
        "    [0 for _ in range(100)]\n"
        "LinearLearner.partial_fit_batch = twice\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *LEARN, str(path), "--save", str(model)], capture_output=True
    )
    assert result.returncode == 130
    assert result.stderr.endswith(b"paroli: interrupted\n")
    assert not model.exists()


def test_save_every(stream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved, save = [], models.save

    def spy(path: str, model: models.Model) -> None:
        saved.append(model.run["rows in pass"])
        save(path, model)

    monkeypatch.setattr(models, "save", spy)
    options = ["--passes", "3", "--save", str(tmp_path / "m"), "--save-every", "1000", "--quiet"]
    assert cli.main([*LEARN, str(stream), *options]) == 0
    assert saved == [700, 0]  # after 1400 rows, and at the end
    assert models.load(tmp_path / "m").run["pass"] == 4


# What goes wrong -----------------------------------------------------------------------------


def test_malformed_lines(stream: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, bad, model = lines(100), tmp_path / "bad.svm", tmp_path / "m"
    worse = rows[:50] + ["+1 3:x\n"] * 12 + rows[50:]
    bad.write_text("".join(worse))
    (tmp_path / "good.svm").write_text("".join(rows))

    assert cli.main([*LEARN, str(bad), "--save", str(model)]) == 1
    assert not model.exists()
    message = f"paroli: {bad}:51: a value is 'x', which is not a number\n"
    assert capsys.readouterr().err.endswith(message)

    assert cli.main([*LEARN, str(bad), "--save", str(model), "--on-error", "skip"]) == 0
    said = capsys.readouterr().err
    assert said.count("paroli: skipped: ") == 10
    assert "paroli: further skipped lines are only counted" in said
    assert said.endswith(", malformed lines skipped 12\n")
    good = tmp_path / "good"
    assert cli.main([*LEARN, str(tmp_path / "good.svm"), "--save", str(good), "--quiet"]) == 0
    assert_same_learner(model, good)


FAILURES: dict[str, list[str]] = {
    "absent.svm: cannot be opened: No such file": ["learn", "absent.svm"],
    "standard input does not tell the format: say --format": ["learn"],
    "--resume goes on with a model: name it by --load": ["learn", "s.svm", "--resume"],
    "--save-every needs --save": ["learn", "s.svm", "--save-every", "5"],
    "standard input cannot be read twice": ["learn", "--passes", "2"],
    "nowhere/m: there is no folder": ["learn", "s.svm", "--save", "nowhere/m"],
    "s.svm: this is not a model": ["learn", "s.svm", "--load", "s.svm"],
    "m was learned with bits 10, not 12": ["learn", "s.svm", "--load", "m", "--bits", "12"],
    "m was learned with loss 'logistic', not 'hinge'": (
        ["learn", "s.svm", "--load", "m", "--loss", "hinge"]
    ),
    "m was learned with interactions (), not ('ab',)": (
        ["learn", "s.svm", "--load", "m", "-q", "ab"]
    ),
    "--resume goes on with the same files: s.svm": (
        ["learn", "t.svm", "--load", "m", "--resume"]
    ),
    "--resume goes on with the same --holdout: None": (
        ["learn", "s.svm", "--load", "m", "--resume", "--holdout", "3"]
    ),
    "bits is 99: give 1 to 31": ["learn", "s.svm", "--bits", "99"],
    "the loss logistic has neither": ["learn", "s.svm", "--quantile", "0.3"],
    "quantile: q must be in": ["learn", "s.svm", "--loss", "quantile", "--quantile", "2"],
    "s.svm: this is not a model, or only": ["predict", "-m", "s.svm", "s.svm"],
    "nowhere/o: cannot be written": ["predict", "-m", "m", "s.svm", "-o", "nowhere/o"],
}  # fmt: skip


@pytest.mark.parametrize("message", FAILURES)
def test_failures_are_told_in_one_line(
    stream: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    stream.rename("s.svm")
    assert cli.main([*LEARN, "s.svm", "--save", "m", "--quiet"]) == 0
    assert cli.main(FAILURES[message]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("paroli: ")
    assert message in last


@pytest.mark.parametrize(
    "arguments",
    [["learn", "--passes", "0"], ["learn", "--loss", "none"], ["predict"], ["nothing"], []],
)
def test_wrong_usage_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        cli.main(arguments)
    assert raised.value.code == 2
    assert "usage: paroli" in capsys.readouterr().err


def test_a_disk_that_is_full_is_told(
    stream: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(models, "replace_file", full)
    assert cli.main([*LEARN, str(stream), "--save", str(tmp_path / "m"), "--quiet"]) == 1
    assert "m: cannot be written: [Errno 28] No space left" in capsys.readouterr().err


def test_who_reads_the_predictions_may_leave(stream: Path, tmp_path: Path) -> None:
    stream.write_text("".join(lines(700)) * 40)
    model = tmp_path / "m"
    assert cli.main([*LEARN, str(stream), "--save", str(model), "--quiet"]) == 0
    with running(
        command("predict", "-m", model, stream), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait() == 141
    assert said == b""


def test_streams_are_imported_only_when_used() -> None:
    for arguments, is_used in ((["reproduce", "--list"], False), (["learn", "--help"], True)):
        code = (
            "import sys; from paroli import cli\n"
            f"try: cli.main({arguments})\n"
            "except SystemExit: pass\n"
            "print('paroli.streams' in sys.modules)"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert result.stdout.splitlines()[-1] == str(is_used), result.stderr


# What is shown -------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal() -> None:
    terminal = Terminal()
    with progress.bar(terminal, 100) as (say, tell):
        say("a [line] above")
        tell(40, 1234, 0.5)
        tell(100, 5678, 0.25)
    text = terminal.getvalue()
    assert "a [line] above\n" in text
    assert "5,678 rows  loss 0.25000" in text
    assert "100%" in text


def test_no_bar_elsewhere() -> None:
    out = io.StringIO()
    with progress.bar(out, 100) as (say, tell):
        say("a line")
        tell(40, 1234, 0.5)
    assert out.getvalue() == "a line\n"


def test_averages_do_not_depend_on_blocks() -> None:
    rng = np.random.default_rng(0)
    losses, weights = rng.lognormal(size=500), rng.integers(0, 3, 500).astype(float)
    losses[::50], losses[1::50] = np.nan, np.inf
    weights[1::50] = 0
    one, many = Average(), Average()
    one.add(losses, weights)
    for begin in range(0, 500, 7):
        many.add(losses[begin : begin + 7], weights[begin : begin + 7])
    assert one == many
    counts = np.isfinite(losses)
    assert one.mean == pytest.approx(np.average(losses[counts], weights=weights[counts]))


def test_the_commands_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
    block = re.findall(r"```sh\n(paroli learn .*?)```", readme, re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    for name in ("monday.vw.gz", "tuesday.vw.gz"):
        Path(name).write_bytes(gzip.compress(b"1 | a b\n-1 | c\n"))
    Path("wednesday.vw").write_text("| a\n| c\n")
    for line in block.splitlines():
        program, *arguments = line.split()
        assert program == "paroli"
        assert cli.main(arguments) == 0
    a, c = map(float, Path("probabilities.txt").read_text().split())
    assert a > 0.5 > c


def test_further_passes_have_a_prior(stream: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    for options, prior in (([], 3.0), (["--prior", "1"], 1.0)):
        passes = ["--passes", "3", *options, "--save", str(model), "--quiet"]
        assert cli.main([*LEARN, str(stream), *passes]) == 0
        learner = LinearLearner("logistic", 1 << BITS, prior=prior)
        for again in (False, True, True):
            for batch in batches(stream):
                learner.partial_fit_batch(batch, again=again)
        assert_same(models.Model(learned(model), {}), models.Model(learner.to_arrays(), {}))
