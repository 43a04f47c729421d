"""Texts of the four formats, mostly right and sometimes not, for Hypothesis."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from paroli.streams.grammar import MISSING, Format, Layout
from paroli.streams.readers import Malformed, Reader, StreamError

ODD_NUMBERS = b"""1 0 -1 +1 1.0 0.5 -.25 3. 1e3 1E-3 +2.5e+01 007 0.00 -0 6.2699720e-02
0.30000000000000004 179769313486231580793e280 1e39 -1e39 1e999 3.4028235e38 3.4028236e38 1e-45 7e-46
1e-400 16777217 123456789012345678 1234567890123456789012 0.1234567890123456789 9007199254740993
1e-290 nan NaN inf -Infinity 1e 1e+ .e1 . + - 0x10 1_0 1,5 12a 1..2 1.2.3""".split()
LONG_NUMBERS = [b"", b"0" * 30 + b"1", b"1" + b"0" * 500, b"0." + b"0" * 30 + b"1", b"9" * 401]
NUMBERS = st.one_of(
    st.sampled_from([*ODD_NUMBERS, *LONG_NUMBERS]),
    st.floats(width=32).map(lambda x: repr(x).encode()),
    st.floats().map(lambda x: repr(x).encode()),
    st.integers(0, 2**70).map(lambda x: b"%d" % x),
    st.from_regex(rb"[+-]?[0-9]{1,25}\.[0-9]{0,25}(e-?[0-9]{1,2})?", fullmatch=True),
)
ODD_NAMES = b"""a b ab 17 0 x1 1x price 18446744073709551617 qid 't " "" #
longer-than-sixteen-bytes""".split()
BINARY_NAMES = [b"hello world", b"\x00", b"\r", b"a\rb", b"\x0b", b"", b"\xff\xfe", b"s\xc3\xbc"]
NAMES = st.one_of(
    st.sampled_from([*ODD_NAMES, *BINARY_NAMES, b"9" * 30, b"n" * 40]),
    st.binary(max_size=6),
)
ENDS = st.sampled_from([b"\n"] * 6 + [b"\r\n", b"\r\n", b"\n\n", b" \n", b"\t\r\n", b"\r\r\n"])
SPACES = st.sampled_from([b" "] * 8 + [b"  ", b"\t", b" \t "])
CSV_COLUMNS = (b"label", b"w", b"t", b"x", b"city", b"7", b"skipped")
LAYOUT_FIELDS: dict[str, Any] = {
    "weight": "w",
    "tag": "t",
    "ignored": ("skipped",),
    "categorical": ("7",),
}


def mostly(usual: st.SearchStrategy[bytes], rare: st.SearchStrategy[bytes]) -> Any:
    """Nine times in ten the first."""
    return st.integers(0, 9).flatmap(lambda n: rare if n == 0 else usual)


GOOD_NUMBERS = st.sampled_from([*b"1 2 0.5 -1.25 3e-2 0 1.0 16 0.000123 6.2699720e-02".split()])
NUMBER = mostly(GOOD_NUMBERS, NUMBERS)
NAME = mostly(st.sampled_from([b"a", b"b", b"17", b"x1", b"price", b"hello"]), NAMES)
LABEL = mostly(st.sampled_from([b"1", b"-1", b"0", b"+1"]), NUMBERS)


@st.composite
def svmlight_line(draw: st.DrawFn) -> bytes:
    tokens = [draw(LABEL)]
    for _ in range(draw(st.integers(0, 5))):
        index = draw(mostly(st.integers(0, 300).map(lambda i: b"%d" % i), NAMES))
        colon = draw(mostly(st.just(b":"), st.sampled_from([b"", b"::", b" :"])))
        tokens.append(index + colon + draw(NUMBER))
    tokens += draw(mostly(st.just([]), st.sampled_from([[b"# text"], [b"qid:7"], [b"#"]])))
    return draw(SPACES).join(tokens)


@st.composite
def vw_line(draw: st.DrawFn) -> bytes:
    head = draw(
        st.sampled_from([b"1 ", b"-1 2.5 ", b"1 0.5 'tag", b"0 tag", b"", b"1 ", b"1 1 1 ", b"'q "])
    )
    chunks = []
    for _ in range(draw(st.integers(0, 3))):
        chunk = draw(mostly(st.sampled_from([b" ", b"f ", b"user ", b"f:0.5 ", b"7 "]), NAMES))
        for _ in range(draw(st.integers(0, 4))):
            value = draw(st.sampled_from([b"", b":"]))
            chunk += draw(NAME) + value + (draw(NUMBER) if value else b"") + draw(SPACES)
        chunks.append(chunk)
    return b"|".join([head, *chunks])


@st.composite
def csv_line(draw: st.DrawFn) -> bytes:
    cells = [
        draw(LABEL),
        draw(mostly(st.just(b"1"), NUMBERS)),
        draw(NAME),
        draw(NUMBER),
        draw(mostly(st.sampled_from([b"Paris", b"Rome", *sorted(MISSING)]), NAMES)),
        draw(NUMBER),
        draw(NAMES),
    ]
    quote = draw(st.sampled_from([0, 0, 1, 2]))
    if quote:
        cells = [
            b'"' + c.replace(b'"', b'""') + b'"' if i % quote == 0 else c
            for i, c in enumerate(cells)
        ]
    if draw(st.integers(0, 19)) == 0:
        cells.pop()
    return draw(st.sampled_from([b",", b",", b", ", b" ,"])).join(cells)


JSON_TEXT = st.one_of(
    st.sampled_from([b'"Paris"', b'"a b"', b'"\\u00e9\\n"', b'"\\ud83d\\ude00"', b'"\\ud800"']),
    st.sampled_from([b'"', b'"\\x"', b'"\\u12"', b'"a\x01"', b'"\xff"', b'""', b'"1"', b"'a'"]),
    st.text(max_size=4).map(lambda t: b'"' + t.replace("\n", "").encode("utf-8", "replace") + b'"'),
)
JSON_NUMBER = mostly(st.sampled_from([*b"1 0 -1 2.5 1e3 -0.5e-2 0.1".split()]), NUMBERS)
JSON_VALUE: st.SearchStrategy[bytes] = st.recursive(
    st.one_of(
        JSON_NUMBER,
        JSON_TEXT,
        st.sampled_from([b"true", b"false", b"null", b"NaN", b"tru", b"", b"-Infinity"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: b"[" + b", ".join(items) + b"]"),
        st.lists(inner, max_size=2).map(
            lambda items: b'{"k":' + b',"j" : '.join(items or [b"1"]) + b"}"
        ),
    ),
    max_leaves=5,
)


@st.composite
def jsonl_line(draw: st.DrawFn) -> bytes:
    pairs = []
    for _ in range(draw(st.integers(0, 5))):
        key = draw(
            mostly(
                st.sampled_from(
                    [b'"x"', b'"city"', b'"label"', b'"w"', b'"t"', b'"skipped"', b'"7"']
                ),
                JSON_TEXT,
            )
        )
        usual = LABEL if key == b'"label"' else st.one_of(JSON_NUMBER, st.just(b'"Rome"'))
        pairs.append(
            key + draw(st.sampled_from([b":", b": ", b" :"])) + draw(mostly(usual, JSON_VALUE))
        )
    line = b"{" + draw(st.sampled_from([b",", b", "])).join(pairs) + b"}"
    return draw(
        mostly(st.just(line), st.sampled_from([line[:-1], line + b"x", b" " + line + b" "]))
    )


LINES: dict[Format, st.SearchStrategy[bytes]] = {
    "svmlight": svmlight_line(),
    "vw": vw_line(),
    "csv": csv_line(),
    "jsonl": jsonl_line(),
}


@st.composite
def texts(draw: st.DrawFn, format: Format) -> bytes:
    """A file: lines of the format, few of anything else, cut anywhere at the end."""
    line = mostly(LINES[format], st.binary(max_size=30))
    lines = draw(st.lists(st.tuples(line, ENDS), max_size=8))
    text = b"".join(line + end for line, end in lines)
    if draw(st.booleans()):
        text = text[: draw(st.integers(0, len(text)))]
    head = b",".join(CSV_COLUMNS) + b"\n" if format == "csv" else b""
    return draw(st.sampled_from([b"", b"", b"\n", b"\xef\xbb\xbf"])) + head + text


LAYOUTS = st.builds(
    Layout,
    bits=st.sampled_from([31, 20, 5]),
    interactions=st.sampled_from(
        [(), (), (), ("::",), ("fu",), ("f,user", "ff"), ("x,city", "xx")]
    ),
    **{name: st.just(value) for name, value in LAYOUT_FIELDS.items()},
) | st.sampled_from(
    [
        Layout(labels="real", **LAYOUT_FIELDS),
        Layout(labels="counts", **LAYOUT_FIELDS),
        Layout(classes=("-1", "1"), **LAYOUT_FIELDS),
        Layout(labels="classes", classes=("1", "-1", "0", "Rome"), **LAYOUT_FIELDS),
    ]
)


@dataclass
class Read:
    """All that a reader said of a file, where blocks end left out."""

    lengths: list[int] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    labels: list[bytes] = field(default_factory=list)
    weights: list[bytes] = field(default_factory=list)
    tags: list[bytes] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)


def read_all(path: Path, layout: Layout, format: Format, **options: Any) -> Read:
    read = Read()

    def told(malformed: Malformed) -> None:
        read.malformed.append(str(malformed))

    reader = Reader(layout, format, on_error="skip", on_malformed=told, tags=True, **options)
    batches = reader.batches(str(path))
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            break
        except StreamError as error:  # a header, or what seems to be a compressed file
            read.malformed.append(str(error))
            return read
        assert batch.indptr.dtype == np.int64
        assert batch.indices.dtype == np.int32
        assert batch.values.dtype == np.float32
        assert batch.labels.dtype == batch.weights.dtype == np.float64
        assert len(batch) > 0
        read.lengths += np.diff(batch.indptr).tolist()
        read.indices += batch.indices.tolist()
        read.values += [value.tobytes() for value in batch.values]
        read.labels += [value.tobytes() for value in batch.labels]
        read.weights += [value.tobytes() for value in batch.weights]
        assert batch.tags is not None
        read.tags += batch.tags
    assert reader.skipped == len(read.malformed)
    return read
