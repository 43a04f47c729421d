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
        self._entry_factor = 1  # beyond what text alone can hold: products of features
        library = _library() if native and not names else None
        self._run = getattr(library, f"read_{format}") if library else None
        self._c = _Reader()
        self._describe(format, columns)
        groups = bool(layout.interactions)
        self._rows = _Rows(self._c, layout.dimensions, tags=tags, names=names, groups=groups)

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
        c, rows = self._c, self._rows
        c.text, c.begin, c.end, c.lines = held.ctypes.data, begin, end, 0
        self._make_room(end - begin)
        while c.begin < end:
            status = self._run(ctypes.byref(c)) if self._run else _ODD
            if status == _DONE:
                break
            if status == _FULL:
                if c.row:
                    yield rows.taken()
                else:
                    self._entry_factor *= 2
                    self._make_room(end - begin)
                continue
            newline = text.index(b"\n", c.begin)
            line = bytes(text[c.begin : newline]).removesuffix(b"\r")
            try:
                row = self._read_line(line)
            except MalformedError as error:
                if c.row:
                    yield rows.taken()
                yield BadLine(c.lines, str(error))
            else:
                if row is not None:
                    if c.row and not rows.has_room(row):
                        yield rows.taken()
                    rows.append(row)
            c.begin, c.lines = newline + 1, c.lines + 1
        if c.row:
            yield rows.taken()

    @property
    def lines(self) -> int:
        """How many lines of the block were read so far."""
        return int(self._c.lines)

    def _make_room(self, length: int) -> None:
        """As much as so many bytes of text can hold: two for a row, and two for a feature."""
        self._rows.make_room(length // 2 + 2, length // 2 * self._entry_factor + 2, length)


class _Rows:
    """Where rows are written to, by C or by `append`; the counters are in the structure."""

    def __init__(
        self, c: _Reader, dimensions: int, *, tags: bool, names: bool, groups: bool
    ) -> None:
        self._c, self._dimensions = c, dimensions
        self._arrays: dict[str, npt.NDArray[Any]] = {
            "indptr": np.zeros(1, np.int64),
            "indices": np.empty(0, np.int32),
            "values": np.empty(0, np.float32),
            "labels": np.empty(0),
            "weights": np.empty(0),
            "tag_ends": np.empty(0, np.int64),
        }
        if groups:
            self._arrays["groups"] = np.empty(0, np.uint64)
        if tags:
            self._arrays["tags"] = np.empty(0, np.uint8)
        self._names: list[bytes] | None = [] if names else None
        c.row = 0

    def make_room(self, rows: int, entries: int, tag_bytes: int) -> None:
        """Let there be room for so much, when nothing is written yet."""
        sizes = dict.fromkeys(("labels", "weights", "tag_ends"), rows) | {"indptr": rows + 1}
        sizes |= dict.fromkeys(("indices", "values", "groups"), entries) | {"tags": tag_bytes}
        for name, array in self._arrays.items():
            if len(array) < sizes[name]:
                self._arrays[name] = np.zeros(sizes[name], array.dtype)
                setattr(self._c, name, self._arrays[name].ctypes.data)
        c = self._c
        c.row_capacity = len(self._arrays["labels"])
        c.entry_capacity = len(self._arrays["indices"]) - 1  # C writes one too many, and forgets it
        c.tag_capacity = tag_bytes if "tags" in self._arrays else 0

    def has_room(self, row: Row) -> bool:
        """Whether a row fits beside the others."""
        c, begin = self._c, self._arrays["indptr"][self._c.row]
        return bool(c.row < c.row_capacity and begin + len(row.entries) <= c.entry_capacity)

    def append(self, row: Row) -> None:
        """Write a row, as C would."""
        if not self.has_room(row):
            self.make_room(1, len(row.entries) + 1, 0)
        c, arrays = self._c, self._arrays
        begin = int(arrays["indptr"][c.row])
        end = begin + len(row.entries)
        arrays["indices"][begin:end] = [entry.number for entry in row.entries]
        arrays["values"][begin:end] = [entry.value for entry in row.entries]
        arrays["labels"][c.row], arrays["weights"][c.row] = row.label, row.weight
        tag_end = int(arrays["tag_ends"][c.row - 1]) if c.row else 0
        if "tags" in arrays:
            tag_begin, tag_end = tag_end, tag_end + len(row.tag)
            arrays["tags"][tag_begin:tag_end] = np.frombuffer(row.tag, np.uint8)
        arrays["tag_ends"][c.row] = tag_end
        if self._names is not None:
            self._names += [entry.name for entry in row.entries]
        c.row += 1
        arrays["indptr"][c.row] = end

    def taken(self) -> Batch:
        """What was written, as a batch of its own; writing begins anew."""
        rows, arrays = self._c.row, self._arrays
        entries = int(arrays["indptr"][rows])
        tags, names = None, self._names
        if "tags" in arrays:
            ends = arrays["tag_ends"][:rows].tolist()
            text = arrays["tags"][: ends[-1]].tobytes()
            tags = [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        if names is not None:
            self._names = []
        self._c.row = 0
        return Batch(
            indptr=arrays["indptr"][: rows + 1].copy(),
            indices=arrays["indices"][:entries].copy(),
            values=arrays["values"][:entries].copy(),
            labels=arrays["labels"][:rows].copy(),
            weights=arrays["weights"][:rows].copy(),
            dimensions=self._dimensions,
            tags=tags,
            names=names,
        )


def _span(name: bytes) -> _Span:
    return _Span(name, len(name))


def _or_any(test: int | None) -> int:
    return -1 if test is None else test
