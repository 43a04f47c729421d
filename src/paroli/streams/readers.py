"""Files to batches, in bounded memory: plain, gzip, xz, zstd, or standard input."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import lzma
import queue
import re
import sys
import threading
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import IO, Any, Generic, Literal, TypeVar, get_args

from paroli.streams.batch import Batch
from paroli.streams.grammar import (
    Format,
    Layout,
    MalformedError,
    guess_delimiter,
    split_cells,
)
from paroli.streams.parser import PADDING, Parser

zstandard: Any
try:
    zstandard = importlib.import_module("zstandard")
except ModuleNotFoundError:
    zstandard = None

STANDARD_INPUT = "-"
BLOCK = 1 << 18
"""Bytes of text at once: its rows' arrays and a learner's part of them stay in a core's cache."""
LONGEST_LINE = 1 << 26

ENDINGS: dict[str, Format] = {
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".vw": "vw",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
COMPRESSED = (".gz", ".xz", ".zst", ".zstd")
_BLANK_LINES = re.compile(rb"(?:[ \t]*\r?\n)*")
_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zX": "xz", b"\x28\xb5\x2f\xfd": "zstd"}

_BROKEN: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, lzma.LZMAError)
if zstandard is not None:
    _BROKEN = (*_BROKEN, zstandard.ZstdError)

T = TypeVar("T")


class StreamError(Exception):
    """A file that cannot be read on; the message names it, and the line."""


@dataclass(frozen=True)
class Malformed:
    """A line that was skipped."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


def guess_format(path: str) -> Format:
    """The format that a file's name tells.

    >>> guess_format("clicks.vw.gz"), guess_format("table.tsv")
    ('vw', 'csv')
    """
    name = PurePath(path)
    while name.suffix.lower() in COMPRESSED:
        name = name.with_suffix("")
    try:
        return ENDINGS[name.suffix.lower()]
    except KeyError:
        what = "standard input" if path == STANDARD_INPUT else f"the name of {path}"
        raise StreamError(
            f"{what} does not tell the format: say --format {'|'.join(get_args(Format))}"
        ) from None


class Reader:
    r"""Reads files into batches, one file after the other.

    Args:
        layout: how text becomes rows.
        format: of all files; None: as their names tell.
        on_error: what a malformed line does: "fail" raises `StreamError` (after the rows before it
            were handed out), "skip" leaves it out.
        on_malformed: told of each line that is left out.
        needs_labels: whether a CSV file without a label column is refused.
        tags, names: whether batches have them.
        native: False: read with Python alone.
        block: bytes of text at once.
        longest_line: a longer line is malformed.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.svm"
    >>> _ = file.write_text("+1 3:0.5 7:2\n-1 3:1\n")
    >>> [batch] = Reader(Layout(bits=3)).batches(str(file))
    >>> batch.labels.tolist(), batch.indptr.tolist(), batch.indices.tolist()
    ([1.0, -1.0], [0, 2, 3], [3, 7, 3])
    """

    def __init__(
        self,
        layout: Layout,
        format: Format | None = None,
        *,
        on_error: Literal["fail", "skip"] = "fail",
        on_malformed: Callable[[Malformed], None] = lambda malformed: None,
        needs_labels: bool = True,
        tags: bool = False,
        names: bool = False,
        native: bool = True,
        block: int = BLOCK,
        longest_line: int = LONGEST_LINE,
    ) -> None:
        self._layout, self._format = layout, format
        self._on_error, self._on_malformed = on_error, on_malformed
        self._needs_labels = needs_labels
        self._tags, self._names, self._native = tags, names, native
        self._block, self._longest_line = block, longest_line
        self.skipped = 0
        """How many lines were left out."""
        self.bytes_read = 0
        """Of the files as they are stored."""

    def batches(self, path: str) -> Iterator[Batch]:
        """The rows of one file; "-" is standard input."""
        format = self._format or guess_format(path)
        name = "standard input" if path == STANDARD_INPUT else path
        stored = _opened(path)
        try:
            with stored:
                text = _decompressed(_Stored(stored, self._count))
                yield from self._rows(name, format, _Lines(text, self))
        except _BROKEN as error:
            raise StreamError(f"{name}: cannot be read on: {error}") from error

    def _count(self, length: int) -> None:
        self.bytes_read += length

    def _rows(self, name: str, format: Format, lines: _Lines) -> Iterator[Batch]:
        number = 1
        parser: Parser | None = None
        for text, begin, end in lines:
            if end < 0:
                reason = f"the line is longer than {self._longest_line} bytes"
                self._malformed(Malformed(name, number, reason))
                number += 1
                continue
            if parser is None:
                begin, lines_before = _first_line(text, begin, end)
                number += lines_before
                if begin == end:
                    continue
                parser, begin = self._parser(name, number, format, text, begin)
                number += bool(format == "csv" and self._layout.header)
            for part in parser.parse(text, begin, end):
                if isinstance(part, Batch):
                    yield part
                else:
                    self._malformed(Malformed(name, number + part.offset, part.reason))
            number += parser.lines

    def _malformed(self, malformed: Malformed) -> None:
        if self._on_error == "fail":
            raise StreamError(str(malformed))
        self.skipped += 1
        self._on_malformed(malformed)

    def _parser(
        self, name: str, number: int, format: Format, text: bytearray, begin: int
    ) -> tuple[Parser, int]:
        """The file's parser, and where its rows begin."""
        layout, columns = self._layout, list[bytes]()
        if format == "csv":
            newline = text.index(b"\n", begin)
            header = bytes(text[begin:newline]).removesuffix(b"\r")
            layout = replace(layout, delimiter=layout.delimiter or guess_delimiter(header))
            try:
                columns = split_cells(header, layout.delimiter.encode())
            except MalformedError as error:
                raise StreamError(f"{name}:{number}: the header: {error}") from None
            if layout.header:
                begin = newline + 1
            else:
                columns = [b"%d" % (i + 1) for i in range(len(columns))]
            self._check_columns(name, columns)
        parser = Parser(
            format, layout, columns, tags=self._tags, names=self._names, native=self._native
        )
        return parser, begin

    def _check_columns(self, name: str, columns: list[bytes]) -> None:
        layout = self._layout
        known = [column.decode("utf-8", "backslashreplace") for column in columns]
        for option, column in (("label", layout.label), ("weight", layout.weight)):
            if column is None or column in known or (option == "label" and not self._needs_labels):
                continue
            raise StreamError(
                f"{name}: no column {column!r} for the {option}: name it by --{option}; "
                f"there are {', '.join(known)}"
            )


def _first_line(text: bytearray, begin: int, end: int) -> tuple[int, int]:
    """Where the first line that is not blank begins, and how many are before it."""
    if text.startswith(b"\xef\xbb\xbf", begin):  # a byte order mark
        begin += 3
    blank = _BLANK_LINES.match(text, begin, end)
    first = blank.end() if blank else begin
    return first, text.count(b"\n", begin, first)


class _Lines:
    """Blocks of whole lines: (text, begin, end); end is -1 for a line that is too long."""

    def __init__(self, source: Any, reader: Reader) -> None:
        # What is there is enough: who types rows wants to see them learned.
        self._read: Callable[[memoryview], int] = getattr(source, "readinto1", source.readinto)
        self._size, self._longest = reader._block, reader._longest_line

    def __iter__(self) -> Iterator[tuple[bytearray, int, int]]:
        size, filled, is_skipping = self._size, 0, False
        text = bytearray(size + 1 + PADDING)
        while True:
            with memoryview(text) as view, view[filled:size] as room:
                read = self._read(room)
            if not read:
                break
            end = text.rfind(b"\n", filled, filled + read) + 1
            filled += read
            if is_skipping:
                is_skipping = not end
                begin = text.index(b"\n") + 1 if end else filled
            else:
                begin = 0
            if end > begin:
                yield text, begin, end
            begin = max(begin, end)
            if begin == 0 and filled > self._longest:
                yield text, 0, -1
                begin, is_skipping = filled, True
            rest = text[begin:filled]
            filled = len(rest)
            if filled == size:
                size *= 2
                text = bytearray(size + 1 + PADDING)
            text[:filled] = rest
        if filled and not is_skipping:
            text[filled : filled + 1] = b"\n"
            yield text, 0, filled + 1


class _Stored(io.RawIOBase):
    """A file as it is stored: tells how much of it was read, and lets its beginning be seen first.

    `io.BufferedReader` could do that, but may wait for more than it has.
    """

    def __init__(self, file: IO[bytes], count: Callable[[int], None]) -> None:
        self._file, self._count = file, count
        self._seen = b""

    def readable(self) -> bool:
        return True

    def begin(self) -> bytes:
        """What the file begins with; it will be read again."""
        self._seen = self._file.read(BLOCK)
        return self._seen

    def readinto(self, buffer: Any) -> int:
        if self._seen:
            read = min(len(buffer), len(self._seen))
            buffer[:read], self._seen = self._seen[:read], self._seen[read:]
        else:
            read = int(self._file.readinto(buffer) or 0)  # type: ignore[attr-defined]
        self._count(read)
        return read


def _opened(path: str) -> IO[bytes]:
    if path == STANDARD_INPUT:
        return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise StreamError(f"{path}: cannot be opened: {error.strerror}") from error


def _decompressed(stored: _Stored) -> Any:
    """What is in the file, by its first bytes and not by its name."""
    begin = stored.begin()
    kind = next((kind for magic, kind in _MAGIC.items() if begin.startswith(magic)), None)
    if kind is None:
        return stored
    packed = io.BufferedReader(stored, BLOCK)
    if kind == "gzip":
        return gzip.GzipFile(fileobj=packed)
    if kind == "xz":
        return lzma.LZMAFile(packed)
    if zstandard is None:
        raise StreamError('zstd needs one more package: pip install "paroli[streams]"')
    return _Zstd(packed)


class _Zstd(io.RawIOBase):
    """A zstd file of any number of frames; one that ends in the middle of a frame is an error."""

    _CHUNK = 1 << 11  # a block of 128 KiB may be packed into four bytes: read little at once

    def __init__(self, file: Any) -> None:
        self._file, self._text = file, memoryview(b"")
        self._frame, self._left, self._is_inside = self._new_frame(), b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text:
            packed = self._left or self._file.read1(self._CHUNK)
            if not packed:
                if self._is_inside:
                    raise EOFError("it ends in the middle of a zstd frame")
                return 0
            self._left, self._is_inside = b"", True
            self._text = memoryview(self._frame.decompress(packed))
            if self._frame.eof:
                self._left, self._is_inside = self._frame.unused_data, False
                self._frame = self._new_frame()
        read = min(len(buffer), len(self._text))
        buffer[:read] = self._text[:read]
        self._text = self._text[read:]
        return read

    @staticmethod
    def _new_frame() -> Any:
        return zstandard.ZstdDecompressor().decompressobj()


class Ahead(Generic[T]):
    """An iterator that another thread runs, up to `depth` items ahead.

    What it raises is raised here, in its turn.

    >>> list(Ahead(iter([1, 2, 3])))
    [1, 2, 3]
    """

    def __init__(self, items: Iterator[T], depth: int = 2) -> None:
        self._items = items
        self._queue: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
        self._is_closed = threading.Event()
        # A daemon, since it may wait for standard input when the program wants to end.
        self._thread = threading.Thread(target=self._run, name="paroli-reader", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        error: BaseException = StopIteration()
        try:
            for item in self._items:
                self._queue.put((item, None))
                if self._is_closed.is_set():
                    return
        except BaseException as raised:
            error = raised
        finally:
            if isinstance(self._items, Generator):
                self._items.close()  # and with it the file
        self._queue.put((None, error))

    def __iter__(self) -> Iterator[T]:
        try:
            while True:
                item, error = self._queue.get()
                if isinstance(error, StopIteration):
                    return
                if error is not None:
                    raise error
                yield item  # type: ignore[misc]
        finally:
            self.close()

    def close(self) -> None:
        """Read no further."""
        self._is_closed.set()
        with contextlib.suppress(queue.Empty):
            while True:  # whoever waits for room finds some, and sees that all is over
                self._queue.get_nowait()
