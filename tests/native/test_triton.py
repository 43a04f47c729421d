"""Kernels for GPUs without a GPU: interpreted on the CPU, and compiled for cards that are not here.

Nothing here runs on a GPU; `benchmarks/gpu_check.py` does.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import paroli.native.triton as made
from paroli.native.round import Form
from paroli.torch import RecursiveOptimizer
from paroli.torch.layout import Layout
from paroli.torch.native import form_of

triton = pytest.importorskip("triton")

ROOT = Path(__file__).resolve().parents[2]
POINTERS = {"float32": "*fp32", "float64": "*fp64", "bfloat16": "*bf16", "float16": "*fp16"}
NUMBERS = {"finite": "*i1", "seed": "*i32"}
TAKEN = {"start": "i32", "tensors": "*i64", "tensor_of": "*i32", "offset_of": "*i64"}


def test_interpreted() -> None:
    """Triton decides when it is imported whether it interprets: hence a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    # Lanes outside a row divide by zero, and are not stored.
    command += ["-W", "ignore::RuntimeWarning", "tests/native/in_interpreter.py"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment |= {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout)


def form(dtype: torch.dtype, **settings: Any) -> tuple[Form, Layout]:
    """That of an optimizer after its first step."""
    p = torch.nn.Parameter(torch.zeros(3, dtype=dtype))
    p.grad = torch.ones_like(p)
    opt = RecursiveOptimizer([p], fused=False, **settings)
    opt.step()
    return form_of(opt._leaf_of[p], opt.learner, opt.layout, scaled=False), opt.layout


@pytest.mark.parametrize(
    ("capability", "dtype", "settings", "aligned"),
    [
        (80, torch.float32, {}, True),
        (90, torch.float32, {}, True),
        (90, torch.bfloat16, {"momentum": 0.9}, True),
        (80, torch.float64, {}, False),
    ],
    ids=str,
)
def test_compiled_for_a_card_that_is_not_here(
    capability: int,
    dtype: torch.dtype,
    settings: dict[str, Any],
    aligned: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All the way to machine code; nothing spilled to memory, and whole words of 16 bytes read."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    what, layout = form(dtype, **settings)
    kernels = made.kernels(what, layout)
    assert kernels is not None
    for name, numbers in kernels.source.takes.items():
        kernel = getattr(kernels.module, name)
        signature = dict(TAKEN)
        signature |= dict.fromkeys(("sums", "uniforms", "numbers"), "*fp64")
        signature |= {f"part_{k}": POINTERS[kept] for k, kept in enumerate(what.stored.values())}
        signature |= {f"number_{k}": NUMBERS.get(n, "*fp64") for k, n in enumerate(numbers)}
        whole = [arg for arg in kernel.arg_names if not arg.startswith(("start", "number_"))]
        constants = {"ALIGNED": aligned, "BLOCK": made.BLOCK}
        source = ASTSource(
            kernel,
            signature={arg: signature.get(arg, "constexpr") for arg in kernel.arg_names},
            constexprs={
                (kernel.arg_names.index(arg),): value
                for arg, value in constants.items()
                if arg in kernel.arg_names
            },
            attrs={
                (kernel.arg_names.index(arg),): [["tt.divisibility", 16]]
                for arg in whole
                if arg in signature
            },
        )
        options = {"num_warps": 1 if name == "scalars" else kernels.source.warps, **made.OPTIONS}
        target = GPUTarget("cuda", capability, 32)
        compiled = triton.compile(source, target=target, options=options)
        assert f".target sm_{capability}" in compiled.asm["ptx"]
        assert "fma.rn.f32" not in compiled.asm["ptx"]  # what should cancel would not
        cubin = tmp_path / f"{name}.cubin"
        cubin.write_bytes(compiled.asm["cubin"])
        used = resources(cubin)
        assert 0 < used["REG"] <= 255
        assert used["STACK"] == used["LOCAL"] == 0
        if name == "last" and aligned:
            assert re.search(r"ld\.global\.v4\.b32", compiled.asm["ptx"])
            assert re.search(r"st\.global\.v4\.b32", compiled.asm["ptx"])


def resources(cubin: Path) -> dict[str, int]:
    """Registers, and bytes of memory that what does not fit into them takes."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    said = subprocess.run(
        [tool, "-res-usage", cubin], capture_output=True, text=True, check=True
    ).stdout
    return {key: int(value) for key, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", said)}


def test_the_bytes_that_are_told() -> None:
    """Of what the page on PyTorch says."""
    what, layout = form(torch.float32)
    traffic = made.source(what, layout).traffic
    page = (ROOT / "docs" / "pytorch.md").read_text(encoding="utf-8")
    assert f"{traffic['first']} in the first pass" in page
    assert f"{traffic['last']} in the last" in page
    assert traffic["first"] + traffic["last"] == 50
