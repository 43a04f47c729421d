"""The README's example runs as printed, and learns."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks() -> list[str]:
    text = (ROOT / "README.md").read_text("utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_first_example_learns() -> None:
    scope: dict[str, Any] = {}
    exec(compile(blocks()[0], "README.md", "exec"), scope)
    assert np.abs(scope["learner"].average - scope["target"]).max() < 5


def test_the_other_examples_run() -> None:
    pytest.importorskip("torch")
    for block in blocks()[1:]:
        exec(compile(block, "README.md", "exec"), {})


def test_the_make_targets_exist() -> None:
    targets = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert {"demo", "test"} == set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_ci_calls_the_readmes_test_command() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text("utf-8")
