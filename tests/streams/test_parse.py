"""The native parsers read what the grammar in Python reads, on any text, however it is cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paroli.streams.grammar import Format
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
