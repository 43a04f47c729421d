"""Blocks of text to `Batch`: arrays for `parse.c` to fill, and Python for what it leaves."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from paroli.native import NoCompilerError, load
from paroli.streams.batch import Batch
from paroli.streams.grammar import (
    Format,
    Interaction,
    Layout,
    MalformedError,
    Row,
    column_role,
    is_number,
    line_reader,
)

PADDING = 32
"""Readable bytes that `parse.c` wants after the text."""

_DONE, _FULL, _ODD = range(3)
_LABEL_KINDS = {"binary": 0, "classes": 1, "real": 2, "counts": 3, "ignored": 4}
_ROLES = {"feature": 0, "categorical": 1, "ignored": 2, "label": 3, "weight": 4, "tag": 5}


@dataclass(frozen=True)
class BadLine:
    """A line that was left out: how many lines further on than the block's first, and why."""

    offset: int
    reason: str


class _Span(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_char_p), ("length", ctypes.c_int64))


class _Named(ctypes.Structure):
    _fields_ = (("name", _Span), ("role", ctypes.c_int32))


class _Interaction(ctypes.Structure):
    _fields_ = (
        ("first_letter", ctypes.c_int32),
        ("second_letter", ctypes.c_int32),
        ("first_number", ctypes.c_int64),
        ("second_number", ctypes.c_int64),
    )


class _Reader(ctypes.Structure):
    _fields_ = (
        ("text", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("begin", "end", "lines")),
        *((name, ctypes.c_int64) for name in ("row", "row_capacity", "entry", "entry_capacity")),
        *((name, ctypes.c_int64) for name in ("tag_end", "tag_capacity")),
        *((name, ctypes.c_void_p) for name in ("indptr", "indices", "values", "labels", "weights")),
        *((name, ctypes.c_void_p) for name in ("groups", "tags", "tag_ends")),
        ("mask", ctypes.c_uint64),
        ("label_kind", ctypes.c_int32),
        ("class_count", ctypes.c_int32),
        ("classes", ctypes.POINTER(_Span)),
        ("class_numbers", ctypes.POINTER(ctypes.c_double)),
        ("interaction_count", ctypes.c_int32),
        ("column_count", ctypes.c_int32),
        ("interactions", ctypes.POINTER(_Interaction)),
        ("columns", ctypes.POINTER(_Named)),
        ("delimiter", ctypes.c_int32),
    )


@cache
def _library() -> ctypes.CDLL | None:
    source = resources.files("paroli.streams").joinpath("parse.c").read_text("utf-8")
    try:
        library = load("streams-parse", source)
    except NoCompilerError:
        return None
    return library if library.prepare() else None


def native_available() -> bool:
    """Whether `parse.c` can be compiled here."""
    return _library() is not None


class Parser:
    """Reads blocks of whole lines of one file.

    Args:
        format: of the file.
        layout: of the run.
        columns: of the file, if it is CSV.
        tags: whether batches have tags.
        names: whether batches have the names of features; then all is read in Python.
        native: False: read all in Python.
    """

    def __init__(
        self,
        format: Format,
        layout: Layout,
        columns: Sequence[bytes] = (),
        *,
        tags: bool = False,
        names: bool = False,
        native: bool = True,
    ) -> None:
        self._layout = layout
        self._read_line = line_reader(format, layout, columns)
        self._wants_tags, self._wants_names = tags, names
        self._entry_factor = 1  # beyond what text alone can hold: products of features
        library = _library() if native and not names else None
        self._run = getattr(library, f"read_{format}") if library else None
        self._c = _Reader()
        self._describe(format, columns)

    def _describe(self, format: Format, columns: Sequence[bytes]) -> None:
        layout, c = self._layout, self._c
        c.mask, c.label_kind = layout.dimensions - 1, _LABEL_KINDS[layout.labels]
        classes = [name.encode() for name in layout.classes]
        c.class_count = len(classes)
        c.classes = (_Span * len(classes))(*(_span(name) for name in classes))
        numbers = (float(name) if is_number(name) else float("nan") for name in classes)
        c.class_numbers = (ctypes.c_double * len(classes))(*numbers)
        tests = [Interaction.parse(text) for text in layout.interactions]
        c.interaction_count = len(tests)
        c.interactions = (_Interaction * len(tests))(
            *(_Interaction(*(_or_any(t) for t in (a[0], b[0], a[1], b[1]))) for a, b in tests)
        )
        if format == "jsonl":
            special = (layout.tag, layout.weight, layout.label)
            given = (*special, *layout.ignored, *layout.categorical)
            columns = [name.encode() for name in given if name is not None]
        roles = [_ROLES[column_role(layout, name)] for name in columns]
        c.column_count = len(columns)
        c.columns = (_Named * len(columns))(
            *(_Named(_span(name), role) for name, role in zip(columns, roles, strict=True))
        )
        c.delimiter = ord(layout.delimiter) if layout.delimiter else -1

    def parse(self, text: bytearray, begin: int, end: int) -> Iterator[Batch | BadLine]:
        """The rows of ``text[begin:end]``: whole lines, with `PADDING` bytes behind the last."""
        held = np.frombuffer(text, np.uint8)  # as long as its address is used
        c = self._c
        c.text, c.begin, c.end, c.lines = held.ctypes.data, begin, end, 0
        rows = self._rows(end - begin)
        while c.begin < end:
            status = self._run(ctypes.byref(c)) if self._run else _ODD
            if status == _DONE:
                break
            if status == _FULL:
                if c.row == 0:
                    self._entry_factor *= 2
                else:
                    yield rows.taken()
                rows = self._rows(end - c.begin)
                continue
            newline = text.index(b"\n", c.begin)
            line = bytes(text[c.begin : newline]).removesuffix(b"\r")
            try:
                row = self._read_line(line)
            except MalformedError as error:
                if c.row:
                    yield rows.taken()
                    rows = self._rows(end - c.begin)
                yield BadLine(c.lines, str(error))
            else:
                if row is not None:
                    if not rows.has_room(row):
                        if c.row:
                            yield rows.taken()
                        rows = self._rows(end - c.begin, len(row.entries))
                    rows.append(row)
            c.begin, c.lines = newline + 1, c.lines + 1
        if c.row:
            yield rows.taken()

    @property
    def lines(self) -> int:
        """How many lines of the block were read so far."""
        return int(self._c.lines)

    def _rows(self, length: int, entries: int = 0) -> _Rows:
        return _Rows(
            self._c,
            rows=length // 2 + 2,
            entries=max(length // 2 * self._entry_factor, entries) + 2,
            dimensions=self._layout.dimensions,
            tag_bytes=length + 1 if self._wants_tags else None,
            with_groups=bool(self._layout.interactions),
            with_names=self._wants_names,
        )


class _Rows:
    """Arrays that rows are written to, by C or by `append`; the counters are in the structure."""

    def __init__(
        self,
        c: _Reader,
        *,
        rows: int,
        entries: int,
        dimensions: int,
        tag_bytes: int | None,
        with_groups: bool,
        with_names: bool,
    ) -> None:
        self._c, self._dimensions = c, dimensions
        self._indptr = np.empty(rows + 1, np.int64)
        self._indptr[0] = 0
        self._indices = np.empty(entries, np.int32)
        self._values = np.empty(entries, np.float32)
        self._labels, self._weights = np.empty((2, rows))
        self._tag_ends = np.empty(rows, np.int64)
        self._tags = None if tag_bytes is None else np.empty(tag_bytes, np.uint8)
        self._groups = np.empty(entries, np.uint64) if with_groups else None
        self._names: list[bytes] | None = [] if with_names else None
        c.row, c.row_capacity, c.entry, c.entry_capacity = 0, rows, 0, entries - 1
        c.tag_end, c.tag_capacity = 0, tag_bytes or 0
        for name in ("indptr", "indices", "values", "labels", "weights", "tag_ends", "tags"):
            setattr(c, name, _address(getattr(self, f"_{name}")))
        c.groups = _address(self._groups)

    def has_room(self, row: Row) -> bool:
        """Whether `append` may be called."""
        c = self._c
        return bool(
            c.row < c.row_capacity and self._indptr[c.row] + len(row.entries) <= c.entry_capacity
        )

    def append(self, row: Row) -> None:
        """Write a row, as C would."""
        c = self._c
        begin = int(self._indptr[c.row])
        end = begin + len(row.entries)
        for place, entry in enumerate(row.entries, begin):
            self._indices[place], self._values[place] = entry.number, entry.value
        if self._names is not None:
            self._names += [entry.name for entry in row.entries]
        self._labels[c.row], self._weights[c.row] = row.label, row.weight
        tag_begin = int(self._tag_ends[c.row - 1]) if c.row else 0
        if self._tags is not None:
            self._tags[tag_begin : tag_begin + len(row.tag)] = np.frombuffer(row.tag, np.uint8)
            self._tag_ends[c.row] = tag_begin + len(row.tag)
        else:
            self._tag_ends[c.row] = 0
        c.row += 1
        self._indptr[c.row] = end

    def taken(self) -> Batch:
        """What was written, as a batch; write no more."""
        rows = self._c.row
        entries = int(self._indptr[rows])
        self._c.row = 0
        return Batch(
            indptr=self._indptr[: rows + 1],
            indices=self._indices[:entries],
            values=self._values[:entries],
            labels=self._labels[:rows],
            weights=self._weights[:rows],
            dimensions=self._dimensions,
            tags=self._taken_tags(rows),
            names=self._names,
        )

    def _taken_tags(self, rows: int) -> list[bytes] | None:
        if self._tags is None:
            return None
        ends = self._tag_ends[:rows].tolist()
        tags = self._tags[: ends[-1]].tobytes()
        return [tags[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _span(name: bytes) -> _Span:
    return _Span(name, len(name))


def _or_any(test: int | None) -> int:
    return -1 if test is None else test


def _address(array: npt.NDArray[Any] | None) -> int | None:
    return None if array is None else array.ctypes.data
