"""What the first step costs a user: a fresh process, and compiled code that is there or not.

    python -m benchmarks.steps_first "paroli"

prints, for that optimizer on ResNet-18's tensors, the seconds of importing torch, of importing the
optimizer, of its making and first step together, and of the second and third step, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

LIST = "resnet18"
COMPILING = ("paroli", "paroli, torch.compile")
"""They keep what they compile."""
FIRST_STEPS = (*COMPILING, "paroli, fused=False", "Adam, fused", "Adam, foreach")
ROOT = Path(__file__).resolve().parents[1]


class Start(NamedTuple):
    """Seconds of the beginnings of a process."""

    optimizer: str
    cache: str
    """Whether compiled code was there: "empty", "filled", or "" for those that compile nothing."""
    import_s: float
    """The optimizer's own import, after torch's."""
    first_s: float
    second_s: float
    third_s: float


def in_fresh_processes(names: Sequence[str], threads: int) -> Iterator[Start]:
    """The first steps of these optimizers; of those that compile, with an empty cache and again."""
    for name in names:
        with tempfile.TemporaryDirectory(prefix="paroli-benchmark-") as cache:
            for state in ("empty", "filled") if name in COMPILING else ("",):
                yield Start(name, state, **_child(name, Path(cache), threads))


def _child(name: str, cache: Path, threads: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.steps_first", name, str(threads)],
        cwd=ROOT,
        env=os.environ
        | {
            "PAROLI_CACHE": str(cache / "paroli"),
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "TRITON_CACHE_DIR": str(cache / "triton"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"benchmarks.steps_first {name!r} failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(name: str, threads: int) -> None:
    """Be that fresh process."""
    import torch

    torch.set_num_threads(threads)
    from importlib import import_module

    from benchmarks.steps_contestants import chosen
    from benchmarks.steps_shapes import SHAPES

    ((contestant,), _) = chosen([name])
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(s).mul_(0.02)) for s in SHAPES[LIST]]
    for p in parameters:
        p.grad = torch.randn_like(p)
    times = [time.perf_counter()]
    import_module(contestant.module)
    times.append(time.perf_counter())
    optimizer = contestant.make(parameters)
    for _ in range(3):
        optimizer.step()
        times.append(time.perf_counter())
    keys = ("import_s", "first_s", "second_s", "third_s")
    print(json.dumps({key: b - a for key, a, b in zip(keys, times, times[1:], strict=False)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
