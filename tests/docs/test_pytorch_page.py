"""The page on PyTorch: its code runs as printed, and its tables are what the optimizer does."""

import functools
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from paroli import uniform  # noqa: E402
from paroli.torch import RecursiveOptimizer  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "pytorch.md").read_text("utf-8")
PLAIN = "```python\n(.*?)```"
EXTRAS = ("transformers", "accelerate", "lightning")
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "average=False": {"average": False},
    "average=uniform()": {"average": uniform()},
    "rounding='stochastic'": {"rounding": "stochastic"},
    "state_dtype=torch.bfloat16": {"state_dtype": torch.bfloat16, "average": False},
    "state_dtype=torch.float32": {"state_dtype": torch.float32},
}


def scope() -> dict[str, Any]:
    """What the page's first block leaves behind."""
    found: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(compile(re.findall(PLAIN, TEXT, re.DOTALL)[0], "pytorch.md", "exec"), found)
    return found


def test_the_plain_blocks_run_in_order() -> None:
    torch.compiler.reset()
    names = scope()
    for block in re.findall(PLAIN, TEXT, re.DOTALL)[1:]:
        exec(compile(block, "pytorch.md", "exec"), names)


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_trainers_blocks_run(extra: str, tmp_path: Path) -> None:
    pytest.importorskip(extra)
    (block,) = re.findall(rf"```python {extra}\n(.*?)```", TEXT, re.DOTALL)
    exec(compile(block, "pytorch.md", "exec"), scope() | {"output_dir": str(tmp_path)})


def test_no_block_is_forgotten() -> None:
    kinds = re.findall(r"^```(\w.*)$", TEXT, re.MULTILINE)
    assert set(kinds) == {"python", *(f"python {extra}" for extra in EXTRAS)}


@functools.cache
def table_of_bytes() -> dict[str, list[int]]:
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| (\d+) \|$", TEXT, re.MULTILINE)
    return {name.replace("`", "").replace('"', "'"): [int(a), int(b)] for name, a, b in rows}


def bytes_each(dtype: torch.dtype, **settings: Any) -> int:
    p = torch.nn.Parameter(torch.zeros(1000, dtype=dtype))
    p.grad = torch.ones_like(p)
    optimizer = RecursiveOptimizer([p], **settings)
    optimizer.step()
    return sum(x.nbytes for x in optimizer.state[p].values() if x.numel() == 1000) // 1000


def test_every_row_of_the_table_of_bytes_is_looked_at() -> None:
    starts = (*SETTINGS, "momentum=0.9 adds")
    assert all(name.startswith(starts) for name in table_of_bytes())
    assert len(table_of_bytes()) == len(starts)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(
    ("column", "dtypes"), [(0, [torch.float32]), (1, [torch.bfloat16, torch.float16])]
)
def test_bytes(name: str, column: int, dtypes: list[torch.dtype]) -> None:
    (promised,) = (row[column] for key, row in table_of_bytes().items() if key.startswith(name))
    (more,) = (row[column] for key, row in table_of_bytes().items() if "momentum" in key)
    for dtype in dtypes:
        assert bytes_each(dtype, **SETTINGS[name]) == promised
        if "state_dtype" not in SETTINGS[name]:
            assert bytes_each(dtype, momentum=0.9, **SETTINGS[name]) == promised + more
