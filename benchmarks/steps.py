"""What a step of an optimizer costs: time, bytes, the first step, and training from end to end.

All optimizers take turns in one run, beside a plain copy of as many floats; medians with the 10th
and 90th percentile.  Tables go to ``benchmarks/results``, and from there into the pages and figures
(`benchmarks.steps_pages`).

    python -m benchmarks.steps               # everything, in about six minutes on two cores
    python -m benchmarks.steps --quick       # the small sizes, in half a minute; writes nothing
    python -m benchmarks.steps --only resnet18 1000x1000 training
    python -m benchmarks.steps --device cuda
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

# Torch's profiler, which counts memory, is chatty.
os.environ |= {"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}

import torch

from benchmarks import steps_pages as pages
from benchmarks import steps_tables as tables
from benchmarks.steps_contestants import COMPILED, NAMES, REFERENCE, Contestant, chosen, versions
from benchmarks.steps_first import FIRST_STEPS, in_fresh_processes
from benchmarks.steps_racing import Needs, Result, admitted, race
from benchmarks.steps_shapes import SHAPES, size
from benchmarks.steps_training import BATCH, LAYERS, LENGTH, TOKENS, WIDTH, speeds
from benchmarks.turns import spread
from experiments.common.records import processor

FIRST, TRAINING = "first", "training"
PARTS = (*SHAPES, FIRST, TRAINING)
QUICK = ("1e4", "1e5", "1000x1000")
COMPILED_ON = ("resnet18",)
"""Compiling takes half a minute or more, for each list anew."""
ROUNDS = 200
SECONDS = {
    "1e4": 5,
    "1e5": 5,
    "1000x1000": 20,
    "1e6": 10,
    "1e7": 25,
    "resnet18": 60,  # compiling takes half of it
    "1e8": 35,
    "gpt2": 45,
    TRAINING: 15,
}
SECONDS_OF_OTHERS = 60
SHARE_OF_MEMORY = 0.7
"""Of what is free."""


def main() -> None:
    """Measure, print, write the tables, and draw."""
    args = _arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    contestants, missing = chosen(args.optimizers)
    head = {
        "device": _name(device),
        "versions": f"python {platform.python_version()}, {versions(contestants)}",
        "threads": str(torch.get_num_threads()),
        "seed": str(args.seed),
    }
    if missing:
        head["not installed"] = ", ".join(missing)
    for key, value in head.items():
        print(f"{key}: {value}")
    parts = args.only or (QUICK if args.quick else PARTS)
    steps, absent, arrays = _steps(contestants, [s for s in SHAPES if s in parts], device, args)
    written: list[tuple[tables.Table, dict[str, str], list[tables.Row]]] = []
    if not args.quick:
        args.out.mkdir(parents=True, exist_ok=True)
    if steps:
        names = "; ".join(f"{shape}: {', '.join(who)}" for shape, who in absent.items())
        head_of_steps = head | ({"left out": names} if names else {})
        written += [(tables.STEPS, head_of_steps, steps), (tables.ARRAYS, head, arrays)]
    if TRAINING in parts:
        written.append((tables.TRAINING, *_training(contestants, device, args, head)))
    if FIRST in parts and device.type == "cpu":
        written.append((tables.FIRST, head, _first(contestants)))
    if args.quick:
        return
    for table, some_head, rows in written:
        print(tables.write(args.out, device.type, table, some_head, rows))
    for page in pages.draw(args.out, args.pages):
        print(page)


def _arguments() -> argparse.Namespace:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, help="of torch; its own choice if not given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--optimizers", nargs="+", choices=NAMES, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="small sizes, to look at; no files")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each, at most")
    parser.add_argument("--pace", type=float, default=1.0, help="a factor on the time it may take")
    parser.add_argument("--out", type=Path, default=here / "results")
    parser.add_argument("--pages", type=Path, default=here.parent, help="README.md, docs/ in there")
    return parser.parse_args()


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor()


def _memory(device: torch.device) -> float:
    """Bytes that may be used."""
    if device.type == "cuda":
        return SHARE_OF_MEMORY * torch.cuda.mem_get_info(device)[0]
    told = Path("/proc/meminfo")
    if told.exists():  # on Linux
        for line in told.read_text("utf-8").splitlines():
            if line.startswith("MemAvailable"):
                return SHARE_OF_MEMORY * 1024 * int(line.split()[1])
    return SHARE_OF_MEMORY * 8e9


def _steps(
    contestants: Sequence[Contestant],
    lists: Iterable[str],
    device: torch.device,
    args: argparse.Namespace,
) -> tuple[list[tables.Row], dict[str, list[str]], list[tables.Row]]:
    """Rows of all lists of tensors; who was left out of which; and how each array moves."""
    rows: list[tables.Row] = []
    arrays: list[tables.Row] = []
    absent: dict[str, list[str]] = {}
    needs: dict[str, Needs] = {}
    for shape in lists:
        seconds = args.pace * SECONDS.get(shape, SECONDS_OF_OTHERS)
        some = [
            one
            for one in contestants
            if not (one.of_matrices and device.type == "cpu")
            and (one.name != COMPILED or shape in COMPILED_ON)
        ]
        parameters = size(SHAPES[shape])
        inside, outside = admitted(some, parameters, needs, _memory(device), seconds)
        if not inside:
            absent[shape] = ["all (memory)"]
            print(f"\n{shape}: not enough memory")
            continue
        found, slow = race(inside, SHAPES[shape], device, args.seed, args.rounds, seconds)
        if outside | slow:
            absent[shape] = [f"{name} ({why})" for name, why in (outside | slow).items()]
            print(f"\n{shape}: left out: {', '.join(absent[shape])}")
        mine = list(_rows(shape, found))
        _show(tables.STEPS.columns, mine)
        rows += mine
        for name, result in found.items():
            needs[name] = _needs(result, parameters, needs.get(name))
            if result.arrays and not arrays:
                arrays = [(name, *array, array.moved) for array in result.arrays]
    return rows, absent, arrays


def _needs(result: Result, parameters: int, before: Needs | None) -> Needs:
    seconds = statistics.median(result.seconds) / parameters
    return Needs(
        4 + (result.state_bytes or 0) / parameters,
        (result.transient_bytes or 0) / parameters,
        seconds if before is None else min(seconds, before.seconds),
    )


def _rows(shape: str, found: dict[str, Result]) -> Iterable[tables.Row]:
    shapes = SHAPES[shape]
    parameters = size(shapes)
    reference = statistics.median(found[REFERENCE].seconds) if REFERENCE in found else None
    for name, result in found.items():
        low, median, high = spread(result.seconds, 10)
        ratio = "" if reference is None else f"{median / reference:.3f}"
        bytes_each = (result.state_bytes, result.moved_bytes, result.transient_bytes)
        yield (
            shape,
            len(shapes),
            parameters,
            name,
            *(f"{1e6 * x:.1f}" for x in (low, median, high)),
            len(result.seconds),
            ratio,
            *("" if x is None else f"{x / parameters:.2f}" for x in bytes_each),
            "" if result.operators is None else result.operators,
        )


def _training(
    contestants: Sequence[Contestant],
    device: torch.device,
    args: argparse.Namespace,
    head: dict[str, str],
) -> tuple[dict[str, str], list[tables.Row]]:
    seconds = args.pace * SECONDS[TRAINING]
    found = speeds(contestants, device, args.seed, args.rounds, seconds)
    what = (
        f"a transformer of {LAYERS} layers, width {WIDTH}, {found.parameters} parameters; "
        f"{BATCH} texts of {LENGTH} tokens a step"
    )
    reference = found.seconds.get(REFERENCE)
    rows: list[tables.Row] = []
    for name, times in found.seconds.items():
        low, median, high = spread(times, 10)
        ratio = "" if reference is None else f"{statistics.median(reference) / median:.3f}"
        speed = [f"{TOKENS / x:.0f}" for x in (high, median, low)]
        rows.append((name, *speed, len(times), ratio))
    _show(tables.TRAINING.columns, rows)
    return head | {"training": what}, rows


def _first(contestants: Sequence[Contestant]) -> list[tables.Row]:
    names = [one.name for one in contestants if one.name in FIRST_STEPS]
    rows: list[tables.Row] = [
        (start.optimizer, start.cache, *(f"{x:.4g}" for x in start[2:]))
        for start in in_fresh_processes(names, torch.get_num_threads())
    ]
    _show(tables.FIRST.columns, rows)
    return rows


def _show(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table as it comes."""
    lines = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(columns))]
    print()
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    print(end="", flush=True)


if __name__ == "__main__":
    main()
