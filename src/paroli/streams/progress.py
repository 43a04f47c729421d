"""What the terminal shows of a run: progressive validation, and how far it is."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TextIO, TypeAlias

import numpy as np

from paroli.streams.batch import Batch, Floats

Say: TypeAlias = Callable[[str], None]
Tell: TypeAlias = Callable[[int, int, float], None]

WIDTHS = {
    "average loss": 13,
    "since last": 11,
    "rows": 11,
    "weight": 12,
    "label": 10,
    "prediction": 12,
    "features": 9,
}


@dataclass
class Average:
    """A weighted mean of losses, summed row by row: the same however the rows are cut."""

    loss: float = 0.0
    weight: float = 0.0

    def add(self, losses: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Add rows; returns both sums after each of them.  Losses that are NaN do not count."""
        counts = ~np.isnan(losses)
        weights = np.where(counts, weights, 0.0)
        # An outcome of weight 0 counts nothing, be its loss infinite.
        losses = np.where(weights > 0, losses, 0.0) * weights
        loss_sums = np.cumsum(np.concatenate([[self.loss], losses]))[1:]
        weight_sums = np.cumsum(np.concatenate([[self.weight], weights]))[1:]
        if len(losses):
            self.loss, self.weight = float(loss_sums[-1]), float(weight_sums[-1])
        return loss_sums, weight_sums

    @property
    def mean(self) -> float:
        """NaN before the first row."""
        return self.loss / self.weight if self.weight > 0 else math.nan


class Validation:
    """Progressive validation: each row is predicted before it is learned, and the losses averaged.

    A line of the table is printed at the rows 1, 2, 4, 8, ...

    Args:
        say: where lines of the table go.
        show: a label or prediction as text.
    """

    def __init__(self, say: Callable[[str], None], show: Callable[[Any], str]) -> None:
        self._say, self._show = say, show
        self.rows = 0
        self.average = Average()
        self._at_last_line = Average()
        self._next_line = 1

    def state(self) -> dict[str, Any]:
        """For a model file: hexadecimal numbers, exact."""
        averages = {"average": self.average, "at_last_line": self._at_last_line}
        return {"rows": self.rows, "next_line": self._next_line} | {
            name: {key: float(value).hex() for key, value in asdict(average).items()}
            for name, average in averages.items()
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was called."""
        self.rows, self._next_line = state["rows"], state["next_line"]
        self.average, self._at_last_line = (
            Average(**{key: float.fromhex(value) for key, value in state[name].items()})
            for name in ("average", "at_last_line")
        )

    def head(self) -> None:
        """Print the names of the columns."""
        self._say("".join(name.rjust(width) for name, width in WIDTHS.items()))

    def add(
        self, batch: Batch, labels: Floats, losses: Floats, output: Callable[[int], Any]
    ) -> None:
        """Count rows that were predicted; the losses of held-out ones are NaN."""
        loss_sums, weight_sums = self.average.add(losses, batch.weights)
        while self._next_line <= self.rows + len(batch):
            i = self._next_line - self.rows - 1
            now = Average(float(loss_sums[i]), float(weight_sums[i]))
            last = self._at_last_line
            since = Average(now.loss - last.loss, now.weight - last.weight)
            self._line(
                f"{now.mean:.6f}",
                f"{since.mean:.6f}",
                f"{self._next_line}",
                f"{now.weight:.1f}",
                self._show(labels[i]),
                self._show(output(i)),
                f"{int(batch.indptr[i + 1] - batch.indptr[i])}",
            )
            self._at_last_line = now
            self._next_line *= 2
        self.rows += len(batch)

    def _line(self, *cells: str) -> None:
        self._say("".join(c.rjust(w) for c, w in zip(cells, WIDTHS.values(), strict=True)))


@contextlib.contextmanager
def bar(stream: TextIO | None, total: int | None) -> Iterator[tuple[Say, Tell]]:
    """A progress bar, on a terminal and where rich is installed; without a stream, silence.

    Gives two functions: one prints a line above the bar, the other tells it the bytes read, the
    rows and the average loss.
    """

    def say(line: str) -> None:
        if stream is not None:
            print(line, file=stream, flush=True)

    def nothing(read: int, rows: int, loss: float) -> None:
        pass

    if stream is None or not stream.isatty():
        yield say, nothing
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ModuleNotFoundError:
        yield say, nothing
        return
    console = Console(file=stream, highlight=False, markup=False, soft_wrap=True)
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%") if total else TextColumn(""),
        TextColumn("{task.fields[text]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("learn", total=total, text="")

        def tell(read: int, rows: int, loss: float) -> None:
            speed = progress.tasks[0].finished_speed or progress.tasks[0].speed
            megabytes = f"{speed / 1e6:.0f} MB/s" if speed else ""
            text = f"{rows:,} rows  loss {loss:.5f}  {megabytes}"
            progress.update(task, completed=read, text=text)

        yield console.print, tell
