"""The page on streams: its code runs as printed."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn")

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "streams.md").read_text("utf-8")


def test_the_blocks_run_in_order() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall("```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == TEXT.count("```") / 2 == 4
    for block in blocks:
        exec(compile(block, "streams.md", "exec"), names)
    assert names["model"].progressive_loss_ < 0.6


def test_the_table_is_what_was_measured() -> None:
    from benchmarks.streams_progressive import summary

    assert summary(ROOT / "benchmarks" / "results" / "streams-progressive.csv") in TEXT
