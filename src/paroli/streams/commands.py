"""`paroli learn` and `paroli predict`."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields, replace
from types import FrameType
from typing import Any, TextIO, get_args

import numpy as np

from paroli.linear import LinearLearner
from paroli.streams import models
from paroli.streams.batch import Batch, Floats, LabelKind
from paroli.streams.grammar import Format, Layout, LayoutError
from paroli.streams.progress import Average, Validation, bar
from paroli.streams.readers import STANDARD_INPUT, Ahead, Malformed, Reader, StreamError

LABELS_OF_LOSS: dict[str, LabelKind] = {
    "logistic": "binary",
    "hinge": "binary",
    "squared": "real",
    "absolute": "real",
    "quantile": "real",
    "huber": "real",
    "poisson": "counts",
}
LEARNER_OPTIONS = ("quantile", "delta", "half_life", "prior")
"""Handed on to the learner."""

PRIOR_OF_PASSES = 3.0
"""What `LinearLearner` recommends; it costs room, so that one pass goes without."""

MOST_COMPLAINTS = 10
"""Malformed lines that are told one by one."""


class CommandError(Exception):
    """What the user is told in one line, with the exit code 1."""


# Options -------------------------------------------------------------------------------------


def add_learn_options(learn: argparse.ArgumentParser) -> None:
    """The options of ``paroli learn``."""
    learn.description = (
        "Learn a linear model from streams of sparse rows, in one pass or several; there is "
        "nothing to tune."
    )
    _add_reading(learn)
    model = learn.add_argument_group("the model")
    model.add_argument("--loss", choices=LABELS_OF_LOSS, help="default: logistic")
    model.add_argument(
        "--classes",
        type=_names,
        metavar="A,B,...",
        help="the labels as the files have them; two: the second is the positive one",
    )
    model.add_argument(
        "--bits", type=int, help="features are numbered below 2 to this power; default: 20"
    )
    model.add_argument(
        "-q",
        "--interactions",
        action="append",
        metavar="AB",
        help="add products of features: of namespaces (columns) beginning with A and with B; "
        "A,B: of these names in full; ::: of all with all",
    )
    model.add_argument(
        "--quantile", type=float, metavar="Q", help="of the quantile loss; default: 0.5"
    )
    model.add_argument(
        "--delta",
        type=float,
        metavar="D",
        help="where the Huber loss becomes linear, in the unit of the labels; default: 1",
    )
    model.add_argument(
        "--half-life",
        type=float,
        metavar="ROWS",
        help="for drifting streams: after so many of its rows a feature has half forgotten",
    )
    model.add_argument(
        "--prior",
        type=float,
        metavar="P",
        help="how strongly further passes are kept from learning rows by heart; default: 3 where "
        "there are --passes, or else 0",
    )
    columns = learn.add_argument_group("columns (CSV, JSON lines)")
    columns.add_argument("--label", metavar="NAME", help="the label's; default: label")
    columns.add_argument("--weight", metavar="NAME", help="the weight's")
    columns.add_argument("--tag", metavar="NAME", help="the tag's")
    columns.add_argument("--ignore", type=_names, dest="ignored", metavar="A,B,...")
    columns.add_argument(
        "--categorical", type=_names, metavar="A,B,...", help="whose numbers are names"
    )
    columns.add_argument("--delimiter", help="of CSV; default: what the header has most of")
    columns.add_argument(
        "--no-header", action="store_false", dest="header", default=None, help="columns: 1, 2, ..."
    )
    run = learn.add_argument_group("the run")
    run.add_argument("--passes", type=_count, default=1, help="over all files; default: 1")
    run.add_argument(
        "--holdout",
        type=_count,
        metavar="K",
        help="predict every K-th row and do not learn it; its average loss is reported",
    )
    run.add_argument("--save", metavar="MODEL", help="write the model at the end, and on Ctrl-C")
    run.add_argument(
        "--save-every", type=_count, metavar="ROWS", help="write it also after as many rows"
    )
    run.add_argument("--load", metavar="MODEL", help="go on with this model")
    run.add_argument(
        "--resume",
        action="store_true",
        help="with --load, of a run over the same files: go on at the row where it stopped",
    )
    run.add_argument("--quiet", action="store_true", help="print errors only")
    learn.set_defaults(run=learn_command)


def add_predict_options(predict: argparse.ArgumentParser) -> None:
    """The options of ``paroli predict``."""
    predict.description = (
        "Predict: a line a row, of probabilities (of the positive class, or of each class) or "
        "values; then the row's tag, if it has one."
    )
    _add_reading(predict)
    predict.add_argument("-m", "--model", required=True, metavar="MODEL")
    predict.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    predict.add_argument(
        "--audit",
        action="store_true",
        help="why: under each prediction, its features with weights, values and contributions",
    )
    predict.add_argument(
        "--evaluate", action="store_true", help="read the labels, too, and report the average loss"
    )
    predict.add_argument("--quiet", action="store_true", help="print errors only")
    predict.set_defaults(run=predict_command)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="*", default=[STANDARD_INPUT], help="default, and -: standard input"
    )
    parser.add_argument(
        "--format", choices=get_args(Format), help="of the files; default: as their names end"
    )
    parser.add_argument(
        "--on-error",
        choices=("fail", "skip"),
        default="fail",
        help="what a malformed line does; default: fail",
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


# Running -------------------------------------------------------------------------------------


def learn_command(options: argparse.Namespace) -> int:
    """Run ``paroli learn``; returns the exit code."""
    return _telling(lambda: _Learning(options).run())


def predict_command(options: argparse.Namespace) -> int:
    """Run ``paroli predict``; returns the exit code."""
    return _telling(lambda: _predict(options))


def _telling(command: Callable[[], int]) -> int:
    try:
        return command()
    except (CommandError, StreamError, LayoutError, models.ModelError) as error:
        print(f"paroli: {error}", file=sys.stderr)
        return 1


class _Complaints:
    """Tells of lines that were skipped, the first few in full."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._count = stream, 0

    def __call__(self, malformed: Malformed) -> None:
        self._count += 1
        if self._count <= MOST_COMPLAINTS:
            print(f"paroli: skipped: {malformed}", file=self._stream)
        if self._count == MOST_COMPLAINTS:
            print("paroli: further skipped lines are only counted", file=self._stream)


class _Stopping:
    """Turns the first Ctrl-C (or SIGTERM) into a wish to stop between two blocks of rows.

    While the program waits for input there is nothing to finish, and it stops at once; at the
    second signal it stops wherever it is.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._is_waiting = False

    def __enter__(self) -> _Stopping:
        numbers = (signal.SIGINT, signal.SIGTERM)
        self._before = {number: signal.signal(number, self._handle) for number in numbers}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        is_second, self.signal = self.signal is not None, number
        if is_second or self._is_waiting:
            raise KeyboardInterrupt

    def until(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The batches, until the wish."""
        iterator = iter(batches)
        while True:
            try:
                self._is_waiting = True
                if self.signal is not None:  # looked at only now: it may have come just before
                    return
                batch = next(iterator, None)
                self._is_waiting = False
            except KeyboardInterrupt:
                return
            if batch is None or self.signal is not None:
                return
            yield batch


class _Learning:
    """One run of ``paroli learn``."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.files: list[str] = options.files
        if options.resume and not options.load:
            raise CommandError("--resume goes on with a model: name it by --load")
        if options.save_every and not options.save:
            raise CommandError("--save-every needs --save: where to write the model")
        if options.passes > 1 and STANDARD_INPUT in self.files:
            raise CommandError("standard input cannot be read twice: --passes needs files")
        if options.save:
            _check_writable(options.save)
        self.pass_number, self.rows_before_pass, self.rows_in_pass = 1, 0, 0
        self.rows_since_save = 0
        self.held_out = Average()
        if options.load:
            self._load(options.load)
        else:
            loss = options.loss or "logistic"
            self.layout = _layout(options, loss)
            self.learner = _new_learner(loss, self.layout, options)
        self.validation = Validation(lambda line: self.say(line), _shown(self.layout))
        if options.resume:
            self._resume()

    say: Callable[[str], None]

    def _load(self, path: str) -> None:
        model = models.load(path)
        self.layout = layout_of(model)
        given = {f.name: getattr(self.options, f.name, None) for f in fields(Layout)}
        given = {name: value for name, value in given.items() if value is not None}
        if self.options.interactions is not None:
            given["interactions"] = tuple(self.options.interactions)
        given |= {name: getattr(self.options, name) for name in ("loss", *LEARNER_OPTIONS)}
        for name, value in given.items():
            of_model = model.learner.get(name, getattr(self.layout, name, None))
            if value is not None and value != of_model:
                raise CommandError(
                    f"{path} was learned with {name} {of_model!r}, not {value!r}: leave the option "
                    "away, or begin a new model"
                )
        self.learner = LinearLearner.from_arrays(model.learner)
        self._run_before = model.run

    def _resume(self) -> None:
        before = self._run_before
        if before["files"] != self.files:
            raise CommandError(f"--resume goes on with the same files: {' '.join(before['files'])}")
        if before["holdout"] != self.options.holdout:
            raise CommandError(f"--resume goes on with the same --holdout: {before['holdout']}")
        self.pass_number, self.rows_in_pass = before["pass"], before["rows in pass"]
        self.rows_before_pass = before["rows before pass"]
        self.validation.restore(before["validation"])
        self.held_out = Average(*map(float.fromhex, before["held out"]))

    def run(self) -> int:
        """Learn, save, and say what came out; returns the exit code."""
        quiet = self.options.quiet
        sizes = [os.path.getsize(f) for f in self.files if os.path.isfile(f)]
        total = sum(sizes) * self.options.passes if len(sizes) == len(self.files) else None
        complaints = _Complaints(sys.stderr)
        bytes_before = skipped = 0
        with _Stopping() as stopping, bar(None if quiet else sys.stderr, total) as (say, tell):
            self.say = say
            if not self.validation.rows:
                self.validation.head()
            while self.pass_number <= self.options.passes and stopping.signal is None:
                if self.rows_in_pass == 0:
                    self.held_out = Average()
                reader = self._reader(complaints)
                with contextlib.closing(Ahead(self._batches(reader))) as ahead:
                    for batch in stopping.until(_without(ahead, self.rows_in_pass)):
                        self._learn(batch)
                        done = bytes_before + reader.bytes_read
                        tell(done, self.rows, self.validation.average.mean)
                skipped += reader.skipped
                bytes_before += reader.bytes_read
                if stopping.signal is None:
                    self._end_pass()
            if self.options.save:
                self._save()
        self._summarize(skipped)
        if stopping.signal is None:
            return 0
        then = (
            "" if self.options.save is None else f": {self.options.save} has all that was learned"
        )
        print(f"paroli: interrupted after {self.rows} rows{then}", file=sys.stderr)
        return 128 + stopping.signal  # what shells report for it

    def _reader(self, complaints: _Complaints) -> Reader:
        return Reader(
            self.layout,
            self.options.format,
            on_error=self.options.on_error,
            on_malformed=complaints,
        )

    def _batches(self, reader: Reader) -> Iterator[Batch]:
        for file in self.files:
            yield from reader.batches(file)

    @property
    def rows(self) -> int:
        """How many rows were seen, in all passes."""
        return self.rows_before_pass + self.rows_in_pass

    def _end_pass(self) -> None:
        if self.options.passes > 1:
            told = f", average loss of held-out rows {self.held_out.mean:.6f}"
            self.say(f"pass {self.pass_number}" + (told if self.options.holdout else ""))
        self.rows_before_pass, self.rows_in_pass = self.rows, 0
        self.pass_number += 1

    def _learn(self, batch: Batch) -> None:
        """Predict and learn rows; held-out ones lose their labels on the way.

        Only the first pass validates: what was learned before is no test.  Held-out rows are.
        """
        learner, labels = self.learner, batch.labels
        every = self.options.holdout
        if every:
            numbers = np.arange(self.rows_in_pass + 1, self.rows_in_pass + len(batch) + 1)
            is_held_out = numbers % every == 0
            batch = batch.with_labels(np.where(is_held_out, math.nan, labels))
        scores = learner.partial_fit_batch(batch, again=self.pass_number > 1)
        losses = learner.losses(scores, labels)
        if every:
            self.held_out.add(np.where(is_held_out, losses, math.nan), batch.weights)
            losses = np.where(is_held_out, math.nan, losses)
        if self.pass_number == 1:
            self.validation.add(
                batch, labels, losses, lambda row: learner.outputs(scores[row : row + 1])[0]
            )
        self.rows_in_pass += len(batch)
        self.rows_since_save += len(batch)
        if self.options.save_every and self.rows_since_save >= self.options.save_every:
            self._save()

    def _save(self) -> None:
        held_out = self.held_out
        run = {
            "layout": asdict(self.layout),
            "files": self.files,
            "holdout": self.options.holdout,
            "pass": self.pass_number,
            "rows in pass": self.rows_in_pass,
            "rows before pass": self.rows_before_pass,
            "validation": self.validation.state(),
            "held out": [held_out.loss.hex(), held_out.weight.hex()],
        }
        try:
            models.save(self.options.save, models.Model(self.learner.to_arrays(), run))
        except OSError as error:
            raise CommandError(f"{self.options.save}: cannot be written: {error}") from error
        self.rows_since_save = 0

    def _summarize(self, skipped: int) -> None:
        if self.options.quiet:
            return
        validation = self.validation
        print(
            f"\nrows {self.rows}, weight {validation.average.weight:g}, "
            f"average loss {validation.average.mean:.6f}"
            + (" in the first pass" if self.options.passes > 1 else "")
            + (f", of held-out rows {self.held_out.mean:.6f}" if self.options.holdout else "")
            + (f", malformed lines skipped {skipped}" if skipped else ""),
            file=sys.stderr,
        )


def _new_learner(loss: str, layout: Layout, options: argparse.Namespace) -> LinearLearner:
    classes = len(layout.classes) if layout.labels == "classes" else 2
    given = {name: getattr(options, name) for name in LEARNER_OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    if options.passes > 1:
        given.setdefault("prior", PRIOR_OF_PASSES)
    if loss not in ("quantile", "huber") and {"quantile", "delta"} & set(given):
        raise CommandError(f"the loss {loss} has neither --quantile nor --delta")
    try:
        return LinearLearner(loss=loss, dimensions=layout.dimensions, classes=classes, **given)
    except ValueError as error:
        raise CommandError(str(error)) from error


def _layout(options: argparse.Namespace, loss: str) -> Layout:
    """The layout that the options ask for."""
    names = {field.name for field in fields(Layout)}
    given = {n: v for n, v in vars(options).items() if n in names and v is not None}
    if "interactions" in given:
        given["interactions"] = tuple(given["interactions"])
    kind = LABELS_OF_LOSS[loss]
    if kind == "binary" and len(given.get("classes", ())) > 2:
        kind = "classes"
    return Layout(labels=kind, **given)


def layout_of(model: models.Model) -> Layout:
    """The layout of the rows that a model was learned from."""
    told: dict[str, Any] = model.run["layout"]
    listed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in told.items()}
    return Layout(**listed)


def _without(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """The batches without the first rows."""
    for batch in batches:
        if rows < len(batch):
            yield batch.rows(rows, len(batch)) if rows else batch
        rows = max(rows - len(batch), 0)


def _shown(layout: Layout) -> Callable[[Any], str]:
    """How the table shows labels and predictions."""

    def show(value: Any) -> str:
        if np.ndim(value):
            return layout.classes[int(np.argmax(value))]
        if math.isnan(value):
            return "unknown"
        return layout.classes[int(value)] if layout.labels == "classes" else f"{value:.6g}"

    return show


def _check_writable(path: str) -> None:
    folder = os.path.dirname(os.path.realpath(path))
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{path}: there is no folder {folder} that can be written to")


# Predicting ----------------------------------------------------------------------------------


def _predict(options: argparse.Namespace) -> int:
    model = models.load(options.model)
    layout = layout_of(model)
    if not options.evaluate:
        layout = replace(layout, labels="ignored", classes=())
    learner = LinearLearner.from_arrays(model.learner)
    reader = Reader(
        layout,
        options.format,
        on_error=options.on_error,
        on_malformed=_Complaints(sys.stderr),
        needs_labels=options.evaluate,
        tags=True,
        names=options.audit,
    )
    average, rows = Average(), 0
    with _output(options.output) as out:
        batches = Ahead(batch for file in options.files for batch in reader.batches(file))
        for batch in batches:
            scores = learner.predict_batch(batch)
            if options.evaluate:
                average.add(learner.losses(scores, batch.labels), batch.weights)
            outputs = learner.outputs(scores)
            lines = (
                " ".join(map(repr, o)) if isinstance(o, list) else repr(o) for o in outputs.tolist()
            )
            for row, (line, tag) in enumerate(zip(lines, batch.tags or (), strict=True)):
                out.write(f"{line} {tag.decode('utf-8', 'replace')}\n" if tag else f"{line}\n")
                if options.audit:
                    out.write(_audit(learner, batch.rows(row, row + 1), scores[row]))
            rows += len(batch)
    if not options.quiet:
        told = f", average loss {average.mean:.6f}" if options.evaluate else ""
        skipped = f", malformed lines skipped {reader.skipped}" if reader.skipped else ""
        print(f"rows {rows}{told}{skipped}", file=sys.stderr)
    return 0


def _audit(learner: LinearLearner, row: Batch, score: Floats) -> str:
    """A row's features, the weightiest contribution first, and what they leave to be explained."""
    weights = learner.weights_at(row.indices)
    if weights.ndim == 2:
        best = int(np.argmax(score))
        weights, score = weights[:, best], score[best]
    contributions = weights * row.values
    rest = float(score) - float(contributions.sum())
    lines = []
    for i in np.argsort(-np.abs(contributions), kind="stable"):
        name = row.names[i].decode("utf-8", "replace") if row.names else ""
        numbers = (a[i].item() for a in (row.indices, row.values, weights, contributions))
        lines.append("\t".join(["", name, *map(repr, numbers)]))
    lines.append(f"\t(all other)\t\t\t\t{rest!r}")
    lines.append(f"\t(score)\t\t\t\t{float(score)!r}")
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    if path is None or path == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        file = open(path, "w", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {error.strerror}") from error
    with file:
        yield file
