"""The page on streams: its code runs as printed."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn")

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "streams.md").read_text("utf-8")


def test_the_blocks_run_in_order() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall("```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == TEXT.count("```") / 2 == 4
    for block in blocks:
        exec(compile(block, "streams.md", "exec"), names)
    assert names["model"].progressive_loss_ < 0.6
