"""The native parsers read what the grammar in Python reads, on any text, however it is cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paroli.native import NoCompilerError
from paroli.streams import parser
from paroli.streams.grammar import MISSING, Format, Layout
from paroli.streams.parser import native_available
from tests.streams import texts

FORMATS: list[Format] = ["svmlight", "vw", "csv", "jsonl"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams") / "text"


def test_there_is_a_compiler() -> None:
    assert native_available()


@pytest.mark.parametrize("format", FORMATS)
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_native_is_python(file: Path, format: Format, data: st.DataObject) -> None:
    text = data.draw(texts.texts(format))
    layout = data.draw(texts.LAYOUTS)
    block = data.draw(st.sampled_from([1, 7, 64, 1 << 18]))
    file.write_bytes(text)
    native = texts.read_all(file, layout, format, block=block)
    python = texts.read_all(file, layout, format, native=False)
    assert native == python


ODD_JSON = [
    *[b'{"x": %s}' % number for number in b"01 -01 - 1. .5 +1 1e 1e+ -0 1E5 0x1 00".split()],
    *[b'{"x": "%s"}' % text for text in [
        *[b"\xed\xa0\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xc1\xbf"],
        *[b"\xf5\x80\x80\x80", b"\xe2\x82", b"\x80", b"\xc3", b"\xef\xbf\xbf", b"\xf0\x9f\x8d\xb5"],
        *[b"\\ud83d\\ude00", b"\\ud83d", b"\\ude00", b"\\ud83dx", b"\\ud83d\\u0041", b"\\uD83D\\n"],
        *[b"\\u00e", b"\\u00G0", b"\\/\\b\\f\\t\\r\\\\", b"\\a", b"\\", b"\x1f", b"\x7f", b"\x00"],
        *[b"x" * 4087, b"x" * 4088, b"x" * 4089, b"x" * 5000],
    ]],
    *[b'{"x": ' + b"[" * n + b"1" + b"]" * n + b"}" for n in (30, 31, 32, 33)],
    *[b'{"x": ' + b'{"a":' * n + b"1" + b"}" * n + b"}" for n in (30, 31, 32, 33)],
    *[b"{}", b" {\r} ", b"{,}", b'{"x"}', b'{"x":}', b'{"x":1,}', b'{"x":1}}', b'{"x":1} x', b"1"],
    *[b'{"x":1 "y":2}', b'{x:1}', b"{'x':1}", b'{"x":tru}', b'{"x":nul}', b'{"":1}'],
    *[b'{"label":null}', b'{"label":1,"label":null}', b'{"label":true}', b'{"label":"1"}'],
    *[b'{"label":[1]}', b'{"label":{}}', b'{"w":null}', b'{"w":"2"}', b'{"w":true}', b'{"w":-1}'],
    *[b'{"t":"a","t":null}', b'{"t":1.50}', b'{"t":[]}', b'{"skipped":[{"a":[1,"b"]}]}'],
    *[b'{"skipped":[1,]}', b'{"x":[]}', b'{"x":[,]}', b'{"x":["a",1,null,[2],{"b":3}]}'],
    *[b'{"7":["a",1,true]}', b'{"x":"1"}', b'{"x":1e999}', b'{"x":-Infinity}', b"\xef\xbb\xbf{}"],
    b'{"x": {"' + b"k" * 2000 + b'": {"' + b"k" * 2090 + b'": 1}}}',
    b'{"x": {"' + b"k" * 2000 + b'": {"' + b"k" * 2099 + b'": 1}}}',
]  # fmt: skip


ODD_LINES: dict[Format, list[bytes]] = {
    "jsonl": ODD_JSON,
    "vw": [
        *[b"1 2| a", b"1| a", b"1 2 3| a", b"1 2 'x| a", b"1 'x 2 | a", b"'| a", b"1 ''| a", b"|"],
        *[b"||", b"| |", b"|a|b", b"|a:2|b c", b"|a:|b", b"|:2 a", b"| a::", b"| a:1:2", b"a"],
        *[b"| a:1 b:1\tc:1|d:1 e", b"| a:12 b:1e1|c", b"| 1a 1:1 12345678 123456789 1234567890123"],
        *[b"|\ta", b"\t1\t2\t|\ta\t", b"1 | a\r", b"1 | a\rb c:1\r", b"1 |a\r\r", b"1\r | a"],
        *[b"| %s %s:2" % (b"n" * n, b"m" * n) for n in range(1, 40)],
        *[b"| 00000000000000000000000001 99999999999999999999", b"1 1e999 | a", b"1 -0 | a"],
    ],
    "svmlight": [
        *[b"1 1:1#2", b"1 #", b"#", b"1# x", b" 1 2:1 ", b"\t1\t2:1\t", b"1 2:1\r", b"1 2:1\r\r"],
        b"\r",
        *[b"1 2:#", b"1 2#:1", b"1 qid:#1:1", b"1 qid:x 1:1", b"1 :1", b"1 1 :1", b"1 1: 1"],
        b"1 -1:1",
        *[b"1 1:1x", b"1 1:1:1", b"1 1:1,2:1", b"1 99999999999999999999:1", b"1 001:1", b"1 1:+1"],
    ],
    "csv": [
        *[b",,,,,,", b" , , , , , , ", b"1,1,a,1,b,1,c,", b"1,1,a,1,b,1", b'1,1,"a,1,b,1,c'],
        b'"1"x',
        *[b'"1" , "1","a""b","1.5" ,"b"\t,1,""', b'1,1,"",1,"""",1,', b"1,1,t,1,nan,2,"],
        b"1,,t,1,b,1,",
        *[b"1,1,t,+nan,b,1,", b"1,1,t,1e,b,1,", b"1,1,t,Infinity,b,inf,", b"1,1,t,1,1.5,1.5,"],
        b"\r",
        *[b"NA,1,t,%s,%s,1," % (word, word) for word in sorted(MISSING)],
        b"1,1,t,1," + b"x" * 5000 + b",1,",
        b'1,1,t,1,"' + b"x" * 5000 + b'",1,',
    ],
}  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_native_is_python_on_odd_lines(tmp_path: Path, format: Format, end: bytes) -> None:
    lines = ODD_LINES[format]
    head = [b",".join(texts.CSV_COLUMNS)] if format == "csv" else []
    (tmp_path / "text").write_bytes(end.join(head + lines))
    layout = Layout(**texts.LAYOUT_FIELDS)
    native = texts.read_all(tmp_path / "text", layout, format)
    python = texts.read_all(tmp_path / "text", layout, format, native=False)
    assert native == python
    assert 5 < len(python.malformed) < len(lines)


def test_without_a_compiler_all_is_read_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*arguments: object) -> None:
        raise NoCompilerError("no compiler")

    text = b"1 |f a:2 b\n-1 | c:x\n"
    (tmp_path / "text").write_bytes(text)
    native = texts.read_all(tmp_path / "text", Layout(), "vw")
    monkeypatch.setattr(parser, "load", load)
    parser._library.cache_clear()
    try:
        assert not native_available()
        assert texts.read_all(tmp_path / "text", Layout(), "vw") == native
    finally:
        parser._library.cache_clear()
