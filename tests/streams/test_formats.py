"""What lines say, and what is said of those that say nothing: every case in Python and in C."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paroli.streams import parser
from paroli.streams.grammar import Format, Layout, LayoutError, line_reader
from paroli.streams.hashing import murmur3, number_of
from paroli.streams.readers import Reader, StreamError

NAN = math.nan

# Made by Vowpal Wabbit 9.11.9 (-b 22 --noconstant --audit): numbers and values, sorted.
VOWPAL_WABBIT = {
    ("1 | a b:2 17 x^1:-0.5", ""): [(17, 1), (1866150, -0.5), (1998339, 2), (2451890, 1)],
    ("1 |f 3:0.25 price:2 |user:0.5 age:4 id=7", ""): [
        *[(258064, 0.5), (285711, 2), (525030, 2), (2394174, 0.25)]
    ],
    ("1 |a x y |b z:2", "ab"): [
        *[(1628296, 1), (2221839, 2), (2792834, 2), (2926431, 1), (4012311, 2)]
    ],
    ("1 |a x y", "aa"): [
        *[(263824, 1), (1628296, 1), (2612690, 1), (2926431, 1), (3176775, 1)],
    ],
    ("1 | :0.5 a :2 b:0 :3", ""): [(0, 0.5), (1, 2), (2, 3), (2451890, 1)],
    ("1 |7 1 a", ""): [(8, 1), (1932839, 1)],
    ("1 |n süß abcdefgh abcdefghi", ""): [(262730, 1), (858420, 1), (1471324, 1)],
    ("1 |ab x |ac y", "aa"): [
        *[(919012, 1), (1916936, 1), (2127257, 1), (2521178, 1), (3354741, 1)]
    ],
    ("1 |a x |b y z", "::"): [
        *[(263824, 1), (1628296, 1), (2221839, 1), (2526410, 1), (2765380, 1), (3245977, 1)],
        *[(3822290, 1), (4012311, 1), (4152210, 1)],
    ],
}


def read(
    path: Path, text: bytes, format: Format, layout: Layout, native: bool = True, **options: Any
) -> list[tuple[float, float, bytes, list[tuple[int, float]]]]:
    """Label, weight, tag, and numbers with values, of each row."""
    path.write_bytes(text)
    rows = []
    reader = Reader(layout, format, tags=True, native=native, **options)
    for batch in reader.batches(str(path)):
        assert batch.tags is not None
        for i in range(len(batch)):
            row = batch.rows(i, i + 1)
            entries = list(zip(row.indices.tolist(), row.values.tolist(), strict=True))
            rows.append((batch.labels[i], batch.weights[i], batch.tags[i], entries))
    return rows


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("line", "interactions"), VOWPAL_WABBIT)
def test_numbers_are_those_of_vowpal_wabbit(
    tmp_path: Path, line: str, interactions: str, native: bool
) -> None:
    layout = Layout(bits=22, interactions=(interactions,) if interactions else ())
    [(*_, entries)] = read(tmp_path / "text", line.encode(), "vw", layout, native)
    assert sorted(entries) == VOWPAL_WABBIT[line, interactions]


def name(text: str, bits: int = 20) -> int:
    return number_of(text.encode()) & ((1 << bits) - 1)


COLUMNS = {"weight": "w", "tag": "t", "ignored": ("skipped",), "categorical": ("zip",)}
ROWS: dict[str, tuple[Format, dict[str, Any], str, list[Any]]] = {
    "svmlight": (
        "svmlight", {},
        "+1 1:0.5 1048577:2 # comment\n\n# comment only\n0 qid:3 7:0 8:1e-3\r\n-1",
        [
            (1, 1, b"", [(1, 0.5), (1, 2)]),
            (-1, 1, b"", [(8, float(np.float32(0.001)))]),
            (-1, 1, b"", []),
        ],
    ),
    "svmlight, real": (
        "svmlight", {"labels": "real"}, "-2.5e1 3:1", [(-25, 1, b"", [(3, 1)])]
    ),
    "vw, head": (
        "vw", {},
        "1 2.5 'first| 1\n| 2\n 0 second|3 4\n'third |\n",
        [
            (1, 2.5, b"first", [(1, 1)]),
            (NAN, 1, b"", [(2, 1)]),
            (-1, 1, b"second", [(3 + 4, 1)]),
            (NAN, 1, b"third", []),
        ],
    ),
    "classes": (
        "vw", {"labels": "classes", "classes": ("1", "2.50", "blue")},
        "blue | 1\n2.5 | 1\n1.0 | 1",
        [(2, 1, b"", [(1, 1)]), (1, 1, b"", [(1, 1)]), (0, 1, b"", [(1, 1)])],
    ),
    "two classes": (
        "csv", {"classes": (" <=50K", ">50K"), "label": "income"},
        'income,1\n>50K,3\n" <=50K",2\n?,1\n',
        [(1, 1, b"", [(1, 3)]), (-1, 1, b"", [(1, 2)]), (NAN, 1, b"", [(1, 1)])],
    ),
    "csv": (
        "csv", COLUMNS,
        '\ufeff\n label , w,t,age,"city, state",zip,skipped\n'
        '1,0.5,a, 41.5,"Paris, ""TX""",75000,inf\r\n0,1,,0,NA,,"x"\n-1,1,,nan,41,null,?\n',
        [
            (1, 0.5, b"a", [
                (name("age"), 41.5), (name('city, state=Paris, "TX"'), 1), (name("zip=75000"), 1),
            ]),
            (-1, 1, b"", []),
            (-1, 1, b"", [(name("city, state"), 41)]),
        ],
    ),
    "csv, no header": (
        "csv", {"header": False, "label": "3"}, "5;a;1\n6;b;0\n",
        [(1, 1, b"", [(1, 5), (name("2=a"), 1)]), (-1, 1, b"", [(1, 6), (name("2=b"), 1)])],
    ),
    "csv, tabs": (
        "csv", {}, "label\ta b\tc\n1\t \tx y \n",
        [(1, 1, b"", [(name("c=x y"), 1)])],
    ),
    "json": (
        "jsonl", COLUMNS,
        '{"label": 1, "w": 2, "t": "a\\u00e9", "x": -0.5, "on": true, "off": false, "no": null,\r'
        ' "zip": 75000, "skipped": {"a": [1]}, "city": "Paris", "7": 3}\n'
        ' {"label": "0", "user": {"age": 3, "likes": ["tea", "\\ud83c\\udf75"]}, "xs": [1, [2]]} \n'
        "\n{}",
        [
            (1, 2, "aé".encode(), [
                (name("x"), -0.5), (name("on"), 1), (name("zip=75000"), 1),
                (name("city=Paris"), 1), (7, 3),
            ]),
            (-1, 1, b"", [
                (name("user.age"), 3), (name("user.likes=tea"), 1), (name("user.likes=🍵"), 1),
                (name("xs.0"), 1), (name("xs.1.0"), 2),
            ]),
            (NAN, 1, b"", []),
        ],
    ),
    "named interactions": (
        "csv", {"interactions": ("7,city",)}, "label,7,city\n1,3,Rome\n",
        [(1, 1, b"", [
            (7, 3), (name("city=Rome"), 1),
            ((16777619 * 7 ^ name("city=Rome")) & (2**20 - 1), 3),
        ])],
    ),
    "labels are not read": (
        "svmlight", {"labels": "ignored"}, "whatever 3:1", [(NAN, 1, b"", [(3, 1)])]
    ),
}  # fmt: skip


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("case", ROWS)
def test_rows(tmp_path: Path, case: str, native: bool) -> None:
    format, options, text, expected = ROWS[case]
    rows = read(tmp_path / "text", text.encode(), format, Layout(**options), native)
    np.testing.assert_equal(rows, expected)


MALFORMED: dict[str, tuple[Format, dict[str, Any], str]] = {
    "the label is 'x', which is not a number": ("svmlight", {}, "x 1:1"),
    "the label is '2': binary labels are -1 (or 0) and 1": ("svmlight", {}, "2 1:1"),
    "the label is '-0.5': counts are 0 or more": ("svmlight", {"labels": "counts"}, "-0.5 1:1"),
    "the label is 'nan': only finite": ("svmlight", {"labels": "real"}, "nan 1:1"),
    "the label '3' is none of the classes a, b": ("vw", {"classes": ("a", "b")}, "3 | x"),
    "'x:1' is not of the form": ("svmlight", {}, "1 x:1"),
    "a value is '1e39', which is too large for float32": ("svmlight", {}, "1 1:1e39"),
    "a value is '1e999', which is too large": ("svmlight", {}, "1 1:1e999"),
    "a value is '-inf': only finite": ("vw", {}, "1 | a:-inf"),
    "a value is 'red', which is not a number": ("vw", {}, "1 | color:red"),
    "there is no | between label and features": ("vw", {}, "1 a b"),
    "3 words before the tag": ("vw", {}, "1 1 0.5 | a"),
    "the weight is '-1': give 0 or more": ("vw", {}, "1 -1 | a"),
    "a namespace with the scale '2' has no name": ("vw", {}, "1 |:2 a"),
    "the scale of a namespace is 'x', which": ("vw", {}, "1 |n:x a"),
    "a feature, scaled, is 'a', which is too large": ("vw", {}, "1 |n:1e39 a"),
    "a feature, scaled, is 'a:1e30', which is too large": ("vw", {}, "1 |n:1e30 a:1e30"),
    "a product of features is 'a*a', which is too large": (
        "vw", {"interactions": ("::",)}, "1 | a:1e30",
    ),
    "2 cells where the header has 3": ("csv", {}, "label,a,b\n1,2"),
    "a quote is opened and not closed": ("csv", {}, 'label,a,b\n1,2,"x'),
    "text after the closing quote of 'x'": ("csv", {}, 'label,a,b\n1,"x"y,2'),
    "'a' is 'inf': only finite": ("csv", {}, "label,a,b\n1,inf,2"),
    "the weight is '', which is not a number": ("csv", {"weight": "w"}, "label,w\n1,"),
    "this is not JSON": ("jsonl", {}, '{"label": 1,}'),
    "the line is not a JSON object": ("jsonl", {}, "[1]"),
    "the line has NaN": ("jsonl", {}, '{"x": NaN}'),
    "nested deeper than 32": ("jsonl", {}, '{"x": ' + "[" * 32 + "]" * 32 + "}"),
    "a label, weight or tag is a list": ("jsonl", {}, '{"label": [1]}'),
}  # fmt: skip


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("reason", MALFORMED)
def test_malformed_lines_are_named(tmp_path: Path, reason: str, native: bool) -> None:
    format, options, text = MALFORMED[reason]
    layout, path = Layout(**options), tmp_path / "text"
    line = text.count("\n") + 1
    with pytest.raises(StreamError) as raised:
        read(path, text.encode(), format, layout, native)
    assert str(raised.value).startswith(f"{path}:{line}: ")
    assert reason in str(raised.value)


COMMON: dict[Format, str] = {
    "svmlight": "+1 3:1 11:0.25 14:-2.5e-02\n-1 qid:1 3:16777217 # x\r\n",
    "vw": "1 0.5 'tag |f 9:6.2699720e-02 price:3 word |user:2 süß\n-1 | a b c\n",
    "csv": 'label,a,b\n1,0.30000000000000004,"x ""y"""\n0,?,Rome\n',
    "jsonl": '{"label": 1, "a": [1, "x"], "b": {"c": "\\n\\u00e9é"}, "d": 1.5e-3}\n',
}


@pytest.mark.parametrize("format", COMMON)
def test_common_lines_are_read_in_c(
    tmp_path: Path, format: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object) -> Any:
        def read_line(line: bytes) -> None:
            raise AssertionError(f"left to Python: {line!r}")

        return read_line

    monkeypatch.setattr(parser, "line_reader", never)
    rows = read(tmp_path / "text", COMMON[format].encode(), format, Layout())
    assert len(rows) == COMMON[format].count("\n") - (format == "csv")


def test_names_are_readable(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("1 |user id=7 :2 |item 5:2\n")
    layout = Layout(interactions=("ui",))
    [batch] = Reader(layout, "vw", names=True).batches(str(path))
    names = [b"user^id=7", b"user^0", b"item^5", b"user^id=7*item^5", b"user^0*item^5"]
    assert batch.names == names
    assert batch.rows(0, 1).names == names


def test_murmur3() -> None:
    # Published test vectors of MurmurHash3_x86_32.
    assert murmur3(b"", 0xFFFFFFFF) == 0x81F16F39
    assert murmur3(b"\x21\x43\x65\x87") == 0xF55B516B
    assert murmur3(b"\x21\x43\x65\x87", 0x5082EDEE) == 0x2362F9DE
    assert murmur3(b"\x21\x43\x65") == 0x7E4A8634


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"bits": 0}, "bits is 0: give 1 to 31"),
        ({"bits": 32}, "bits is 32"),
        ({"labels": "some"}, "labels is 'some': give binary"),
        ({"labels": "classes", "classes": ("a", "b")}, "three classes or more"),
        ({"classes": ("a", "b", "c")}, "binary labels have two classes, not 3"),
        ({"classes": ("a", "a")}, "a class is named twice"),
        ({"labels": "real", "classes": ("a",)}, "real labels have no classes"),
        ({"interactions": ("abc",)}, "'abc' is neither two letters"),
        ({"interactions": ("a,",)}, "'a,' is neither two letters"),
        ({"delimiter": "ab"}, "'ab' is not one character"),
        ({"delimiter": "e"}, "'e' is not one character"),
    ],
)
def test_layouts_are_checked(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(LayoutError) as raised:
        Layout(**options)
    assert reason in str(raised.value)


def test_a_deep_line_is_malformed_and_no_crash(tmp_path: Path) -> None:
    text = b'{"x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"
    with pytest.raises(StreamError, match="nested deeper"):
        read(tmp_path / "text", text, "jsonl", Layout())


def test_line_reader_is_public() -> None:
    row = line_reader("svmlight", Layout())(b"1 3:2")
    assert row is not None
    assert [(entry.number, float(entry.value)) for entry in row.entries] == [(3, 2.0)]


def test_numbers_beside_the_middle_of_two_floats(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    floats = (rng.uniform(1, 2, 3000) * 2.0 ** rng.integers(-100, 100, 3000)).astype(np.float32)
    texts = []
    for low, high in zip(floats, np.nextafter(floats, np.float32(np.inf)), strict=True):
        middle, places = Decimal((float(low) + float(high)) / 2), int(rng.integers(15, 19))
        last = Decimal(1).scaleb(middle.adjusted() - places)
        texts.append(f"{middle + int(rng.integers(-2, 3)) * last:.{places}e}")
    (tmp_path / "text").write_text("".join(f"1 1:{text}\n" for text in texts))
    [batch] = Reader(Layout(), "svmlight").batches(str(tmp_path / "text"))
    assert batch.values.tolist() == [float(np.float32(float(text))) for text in texts]
