"""Readers: compressed files, standard input, bad lines, long lines, bounded memory, two threads."""

from __future__ import annotations

import gzip
import lzma
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from paroli.streams import readers
from paroli.streams.grammar import Layout
from paroli.streams.readers import Ahead, Malformed, Reader, StreamError, guess_format
from tests.streams.processes import running

zstandard = pytest.importorskip("zstandard")

TEXT = b"".join(b"%d %d:1 %d:0.5\n" % (i % 2, i % 97, i % 31 + 100) for i in range(20_000))
PACK: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "two gzips": lambda text: gzip.compress(text[:7]) + gzip.compress(text[7:]),
    "two zstds": lambda text: b"".join(map(PACK["zstd"], (text[:7], text[7:]))),
}


def total(batches: Iterator[readers.Batch]) -> tuple[int, float]:
    rows, weighted = 0, 0.0
    for batch in batches:
        rows += len(batch)
        weighted += float((batch.indices * batch.values).sum())
    return rows, weighted


@pytest.fixture
def expected(tmp_path: Path) -> tuple[int, float]:
    (tmp_path / "expected").write_bytes(TEXT)
    result = total(Reader(Layout(), "svmlight").batches(str(tmp_path / "expected")))
    assert result[0] == 20_000
    return result


@pytest.mark.parametrize("kind", PACK)
def test_compressed(tmp_path: Path, kind: str, expected: tuple[int, float]) -> None:
    path = tmp_path / "text"  # the content tells what it is, not the name
    path.write_bytes(PACK[kind](TEXT))
    reader = Reader(Layout(), "svmlight")
    assert total(reader.batches(str(path))) == expected
    assert reader.bytes_read == path.stat().st_size


@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd", "two gzips", "two zstds"])
@pytest.mark.parametrize("cut", [1, 9])
def test_a_file_that_ends_too_early_is_an_error(tmp_path: Path, kind: str, cut: int) -> None:
    path = tmp_path / "text"
    path.write_bytes(PACK[kind](TEXT)[:-cut])
    with pytest.raises(StreamError, match=f"{path}: cannot be read on: "):
        total(Reader(Layout(), "svmlight").batches(str(path)))


@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd"])
def test_a_damaged_file_is_an_error(tmp_path: Path, kind: str) -> None:
    path, packed = tmp_path / "text", bytearray(PACK[kind](TEXT))
    packed[len(packed) // 2 : len(packed) // 2 + 40] = bytes(40)
    path.write_bytes(packed)
    with pytest.raises(StreamError, match=r"cannot be read on|of the form|not a number"):
        total(Reader(Layout(), "svmlight").batches(str(path)))


def test_zstd_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "zstandard", None)
    (tmp_path / "text").write_bytes(PACK["zstd"](TEXT))
    with pytest.raises(StreamError, match=r'pip install "paroli\[streams\]"'):
        total(Reader(Layout(), "svmlight").batches(str(tmp_path / "text")))


def test_standard_input(expected: tuple[int, float]) -> None:
    code = (
        "from paroli.streams.readers import *; from paroli.streams.grammar import Layout;"
        "from tests.streams.test_readers import total;"
        "print(*total(Reader(Layout(), 'svmlight').batches('-')))"
    )
    for kind in ("plain", "gzip"):
        result = subprocess.run(
            [sys.executable, "-c", code], input=PACK[kind](TEXT), capture_output=True, check=True
        )
        rows, weighted = result.stdout.split()
        assert (int(rows), float(weighted)) == expected


def test_rows_from_a_pipe_are_handed_out_as_they_come() -> None:
    code = (
        "from paroli.streams.readers import *; from paroli.streams.grammar import Layout\n"
        "for batch in Reader(Layout(), 'svmlight').batches('-'): print(len(batch), flush=True)"
    )
    with running(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(2):
            process.stdin.write(b"1 3:1\n1 4:1\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"2\n"
        process.stdin.close()
        assert process.wait() == 0


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(StreamError, match=r"absent\.svm: cannot be opened: No such file"):
        total(Reader(Layout()).batches(str(tmp_path / "absent.svm")))


def test_formats_are_guessed() -> None:
    names = ["a.svm", "a.libsvm.gz", "b.VW", "c.csv.zst", "c.tsv", "d.jsonl.xz", "d.ndjson"]
    formats = [guess_format(name) for name in names]
    assert formats == ["svmlight", "svmlight", "vw", "csv", "csv", "jsonl", "jsonl"]
    with pytest.raises(StreamError, match=r"the name of a\.txt\.gz does not tell the format"):
        guess_format("a.txt.gz")
    with pytest.raises(StreamError, match="standard input does not tell the format"):
        guess_format("-")


BAD = b"1 1:1\n1 2:x\n1 3:1\n\nnonsense\r\n1 4:nan\n1 5:1"


@pytest.mark.parametrize("block", [1, 8, 1 << 18])
def test_bad_lines_are_skipped_whole(tmp_path: Path, block: int) -> None:
    path, told = tmp_path / "text", list[Malformed]()
    path.write_bytes(BAD)
    reader = Reader(Layout(), "svmlight", on_error="skip", on_malformed=told.append, block=block)
    indices = [i for batch in reader.batches(str(path)) for i in batch.indices.tolist()]
    assert indices == [1, 3, 5]
    assert [(m.file, m.line) for m in told] == [(str(path), 2), (str(path), 5), (str(path), 6)]
    assert reader.skipped == 3
    assert str(told[0]) == f"{path}:2: a value is 'x', which is not a number"


@pytest.mark.parametrize("block", [1, 8, 1 << 18])
def test_rows_before_a_fatal_line_are_handed_out(tmp_path: Path, block: int) -> None:
    path = tmp_path / "text"
    path.write_bytes(BAD)
    batches = Reader(Layout(), "svmlight", block=block).batches(str(path))
    assert next(batches).indices.tolist() == [1]
    with pytest.raises(StreamError, match=f"^{path}:2: a value is 'x', which is not a number$"):
        next(batches)


def test_a_line_that_is_too_long_costs_no_memory_and_one_line(tmp_path: Path) -> None:
    path, told = tmp_path / "text", list[Malformed]()
    with path.open("wb") as file:
        file.write(b"1 1:1\n1")
        for _ in range(200):
            file.write(b" 2:1" * 25_000)
        file.write(b"\n1 3:1\n1" + b" 4:1" * 1_000_000)
    reader = Reader(
        Layout(), "svmlight", on_error="skip", on_malformed=told.append, longest_line=1 << 20
    )
    tracemalloc.start()
    try:
        indices = {i for batch in reader.batches(str(path)) for i in batch.indices.tolist()}
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert indices == {1, 3}
    assert [m.line for m in told] == [2, 4]
    assert "longer than 1048576 bytes" in told[0].reason
    assert peak < 16 << 20


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "text"
    peaks = []
    for copies in (20, 200):
        path.write_bytes(gzip.compress(TEXT * copies, 1))
        tracemalloc.start()
        rows, _ = total(Ahead(Reader(Layout(), "svmlight").batches(str(path))).__iter__())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert rows == 20_000 * copies
    assert peaks[1] < peaks[0] * 1.5 + (1 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_packed_bomb_is_unpacked_piece_by_piece() -> None:
    megabytes = 256
    comment = b"#" * 1023 + b"\n"
    packed = zstandard.ZstdCompressor().compress(comment * (megabytes << 10))
    code = (
        "from paroli.streams.readers import *; from paroli.streams.grammar import Layout;"
        "print(sum(map(len, Reader(Layout(), 'svmlight').batches('-'))));"
        "print(*[line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], input=packed, capture_output=True, check=True
    )
    rows, kilobytes = map(int, result.stdout.split())
    assert rows == 0
    assert kilobytes < megabytes << 9  # Python, NumPy and all


def test_products_of_many_features_fit(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("".join(f"1 | {' '.join(map(str, range(n)))}\n" for n in (2, 60, 3)))
    layout = Layout(interactions=("::",))
    batches = list(Reader(layout, "vw").batches(str(path)))
    lengths = [int(n) for batch in batches for n in np.diff(batch.indptr)]
    assert lengths == [n + n * (n + 1) // 2 for n in (2, 60, 3)]


@pytest.mark.parametrize(
    ("text", "layout", "reason"),
    [
        (b"a,b\n1,2\n", Layout(), "no column 'label' for the label: name it by --label; "
                                  "there are a, b"),
        (b"label,b\n1,2\n", Layout(weight="w"), "no column 'w' for the weight: name it"),
        (b'"label,b\n1,2\n', Layout(), "text:1: the header: a quote is opened and not closed"),
    ],
)  # fmt: skip
def test_headers_are_checked(tmp_path: Path, text: bytes, layout: Layout, reason: str) -> None:
    (tmp_path / "text").write_bytes(text)
    with pytest.raises(StreamError) as raised:
        total(Reader(layout, "csv").batches(str(tmp_path / "text")))
    assert reason in str(raised.value)


def test_no_labels_are_needed_to_predict(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a,b\n1,2\n")
    [batch] = Reader(Layout(), "csv", needs_labels=False).batches(str(tmp_path / "text"))
    assert np.isnan(batch.labels).all()
    assert batch.values.tolist() == [1, 2]


@pytest.mark.parametrize("text", [b"", b"\n \n\r\n", b"\xef\xbb\xbf"])
def test_an_empty_file_has_no_rows(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "text").write_bytes(text)
    for name in ("svmlight", "vw", "csv", "jsonl"):
        reader = Reader(Layout(), name)  # type: ignore[arg-type]
        assert total(reader.batches(str(tmp_path / "text"))) == (0, 0)


# Two threads ---------------------------------------------------------------------------------


def test_ahead_runs_ahead_and_not_far() -> None:
    made, may_stop = list[int](), threading.Event()

    def items() -> Iterator[int]:
        for i in range(100):
            made.append(i)
            if i == 2:
                may_stop.set()
            yield i

    ahead = Ahead(items(), depth=2)
    assert may_stop.wait(30), "nothing was made before it was asked for"
    iterator = iter(ahead)
    assert next(iterator) == 0
    assert len(made) <= 5
    assert list(iterator) == list(range(1, 100))


def test_what_ahead_raises_comes_in_its_turn() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise StreamError("over")

    iterator = iter(Ahead(items()))
    assert next(iterator) == 1
    with pytest.raises(StreamError, match="over"):
        next(iterator)


def test_a_closed_ahead_reads_no_further() -> None:
    made, closed = list[int](), threading.Event()

    def items() -> Iterator[int]:
        try:
            for i in range(1000):
                made.append(i)
                yield i
        finally:
            closed.set()

    ahead = Ahead(items())
    assert next(iter(ahead)) == 0
    ahead.close()
    assert closed.wait(30)
    assert len(made) < 10
