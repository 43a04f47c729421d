"""The README's example runs as printed, and learns."""

import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def test_python_blocks_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        scope: dict[str, object] = {}
        exec(compile(block, "README.md", "exec"), scope)
        learner, target = scope["learner"], scope["target"]
        assert np.abs(learner.average - target).max() < 5  # type: ignore[attr-defined]


def test_the_make_targets_exist() -> None:
    targets = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert {"demo", "test"} == set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_ci_calls_the_readmes_test_command() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text("utf-8")
