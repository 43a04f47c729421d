"""Everything about the kernels for GPUs that only a GPU can tell, in one command.

First whether they are right: against torch's operators, on fresh inputs; whether a round that does
not count leaves every bit; whether a step waits for the device; whether it can be captured in a
CUDA graph, alone or with the whole iteration, and be replayed between steps that are not.  Then
what a step costs, beside torch's fused Adam and a plain copy of as much memory, all in one
interleaved run: medians and quartiles.

    python -m benchmarks.gpu_check [--quick] [--out benchmarks/results]

``--device cpu`` rehearses what of this needs no GPU, with the compiled loops in the kernels' place.
"""

from __future__ import annotations

import argparse
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

import paroli
import paroli.native.triton as kernels
from benchmarks.steps_shapes import SHAPES, Shapes, size
from benchmarks.turns import in_turns, spread
from experiments.common.records import processor, write_table
from paroli.torch import RecursiveOptimizer
from paroli.torch.native import form_of

WORKLOADS = ("resnet18", "gpt2", "1000x1000", "1e4", "1e5", "1e6", "1e7", "1e8", "1e9")
"""Of `benchmarks.steps_shapes.SHAPES`."""
REHEARSED = ("1e4", "1e5")
"""What is timed where there is no GPU."""
LARGEST_FOR_OPERATORS = 2 * 10**8
"""Entries: torch's operators need as much memory again for what is in between."""
ODD: Shapes = [(7,), (0,), (33, 5), (1032,), (8, 16), (), (3, 4, 5, 6), (70_001,)]
ROUNDS = 20


# Whether they are right --------------------------------------------------------------------------


def made_params(
    shapes: Shapes, dtype: torch.dtype, device: str, how: str = "plain"
) -> list[torch.nn.Parameter]:
    """Parameters, by chance; "misaligned", or in another "order" of memory."""
    generator = torch.Generator().manual_seed(1)
    found = []
    for shape in shapes:
        x = torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)
        if how == "misaligned":
            x = torch.zeros(x.numel() + 1, dtype=dtype, device=device)[1:].view(shape).copy_(x)
        if how == "order" and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        found.append(torch.nn.Parameter(x))
    return found


def set_gradients(params: Sequence[torch.nn.Parameter], t: int, in_place: bool = False) -> None:
    """Fresh gradients, in fresh memory unless they are to be written in place."""
    generator = torch.Generator().manual_seed(1000 + t)
    for p in params:
        g = torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p.device, p.dtype)
        if in_place and p.grad is not None:
            p.grad.copy_(g)
        else:
            p.grad = g


def everything(opt: RecursiveOptimizer, params: Sequence[torch.nn.Parameter]) -> list[torch.Tensor]:
    """Points and states, copied."""
    kept = [value for p in params for value in opt.state[p].values()]
    return [x.detach().clone() for x in (*params, *kept)]


def difference(
    mine: Sequence[torch.Tensor], others: Sequence[torch.Tensor], arithmetic: torch.dtype
) -> float:
    """The largest difference, in units of what rounding allows: fine up to 1.

    In each round a dozen operations may each be off by a unit of the arithmetic's last place; what
    is kept in less may besides be on the other side of a rounding.
    """
    unit, worst = torch.finfo(arithmetic).eps, 0.0
    for a, b in zip(mine, others, strict=True):
        if a.numel():
            allowed = 12 * ROUNDS * unit
            if torch.finfo(a.dtype).eps > unit:
                allowed += 2 * torch.finfo(a.dtype).eps
            a, b = a.double(), b.double()
            off = (a - b).abs() / (b.abs() + b.abs().max() + torch.finfo(torch.float32).tiny)
            worst = max(worst, float(off.max()) / allowed)
            if not bool(torch.isfinite(a).all()):
                return float("inf")
    return worst


def follows(device: str, dtype: torch.dtype, how: str, **settings: Any) -> float:
    """How far kernels are from operators, on the same gradients."""
    found = []
    for fused in (True, False):
        params = made_params(ODD, dtype, device, how)
        opt = RecursiveOptimizer(params, fused=fused, **settings)
        for t in range(ROUNDS):
            set_gradients(params, t)
            opt.step()
        found.append(everything(opt, params))
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return difference(found[0], found[1], wide)


def stays(device: str, dtype: torch.dtype, bad: float, **settings: Any) -> float:
    """How many entries a round with NaN or inf has changed."""
    params = made_params(ODD, dtype, device)
    opt = RecursiveOptimizer(params, fused=True, **settings)
    for t in range(3):
        set_gradients(params, t)
        opt.step()
    before = everything(opt, params)
    set_gradients(params, 3)
    assert params[2].grad is not None
    params[2].grad[4, 2] = bad
    opt.step()
    return float(
        sum(int((a != b).sum()) for a, b in zip(everything(opt, params), before, strict=True))
    )


def waits(device: str) -> float:
    """1 if a step waits for the device, with gradients in old memory or new, else 0."""
    params = made_params(ODD, torch.float32, device)
    opt = RecursiveOptimizer(params, fused=True, weight_decay=0.01)
    for t in range(3):
        set_gradients(params, t)
        opt.step()
    fresh = [torch.ones_like(p) for p in params]
    torch.cuda.set_sync_debug_mode("error")
    try:
        opt.step()
        for p, g in zip(params, fresh, strict=True):
            p.grad = g
        opt.step()
        opt.param_groups[0]["lr"] = 0.5
        opt.step()
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1.0
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return 0.0


def captured_step(device: str) -> float:
    """A graph of the step alone, replayed, with steps outside in between."""
    found = []
    for captures in (True, False):
        params = made_params(ODD, torch.float32, device)
        opt = RecursiveOptimizer(params, fused=True)
        set_gradients(params, 0)
        own = [p.grad for p in params]
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(side):
            opt.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        if captures:
            with torch.cuda.graph(graph):
                opt.step()
        for t in range(1, ROUNDS):
            for p, g in zip(params, own, strict=True):
                p.grad = g
            if t % 5 == 4:  # outside, from other memory
                set_gradients(params, t)
                opt.step()
                continue
            set_gradients(params, t, in_place=True)
            if captures:
                graph.replay()
            else:
                opt.step()
        found.append(everything(opt, params))
    return difference(found[0], found[1], torch.float32)


def captured_iteration(device: str) -> float:
    """A graph of forward, backward and step: gradients are where the graph has put them."""
    found = []
    for captures in (True, False):
        torch.manual_seed(3)
        model = torch.nn.Sequential(
            torch.nn.Linear(16, 33), torch.nn.Tanh(), torch.nn.Linear(33, 1)
        ).to(device)
        params = list(model.parameters())
        opt = RecursiveOptimizer(params, fused=True)
        x = torch.zeros(64, 16, device=device)

        def iteration(
            model: torch.nn.Module = model, opt: RecursiveOptimizer = opt, x: torch.Tensor = x
        ) -> None:
            opt.zero_grad(set_to_none=True)
            (model(x) - x.sum(1, keepdim=True)).abs().mean().backward()
            opt.step()

        data = [torch.randn(64, 16, generator=torch.Generator().manual_seed(t)) for t in range(20)]
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(side):
            for t in range(3):
                x.copy_(data[t])
                iteration()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        if captures:
            with torch.cuda.graph(graph):
                iteration()
        for t in range(3, ROUNDS):
            x.copy_(data[t])
            if captures and t % 5 != 4:
                graph.replay()
            else:
                iteration()
        found.append(everything(opt, params))
    return difference(found[0], found[1], torch.float32)


def checks(device: str) -> list[tuple[str, Callable[[], float], float]]:
    """What has to hold: its name, a number, and how large that may be."""
    found: list[tuple[str, Callable[[], float], float]] = []
    for dtype, how, settings in (
        (torch.float32, "plain", {}),
        (torch.float32, "misaligned", {"weight_decay": 0.1, "maximize": True}),
        (torch.float32, "order", {"lr": 0.3}),
        (torch.float32, "plain", {"momentum": 0.9, "average": False}),
        (torch.float64, "plain", {"momentum": 0.9}),
        (torch.bfloat16, "plain", {}),
        (torch.bfloat16, "misaligned", {"rounding": "stochastic"}),
        (torch.bfloat16, "plain", {"state_dtype": torch.bfloat16, "average": False}),
        (torch.float16, "plain", {"rounding": "nearest"}),
    ):
        name = f"as operators: {dtype}, {how}, {settings}".replace("torch.", "")
        found.append(
            (name, lambda d=dtype, h=how, s=settings: follows(device, d, h, **s), 1.0)  # type: ignore[misc]
        )
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        for bad in (float("nan"), float("inf")):
            name = f"entries changed by {bad} in {dtype}".replace("torch.", "")
            found.append((name, lambda d=dtype, b=bad: stays(device, d, b, momentum=0.9), 0.0))  # type: ignore[misc]
    if device == "cuda":
        found.append(("a step waits for the device", lambda: waits(device), 0.0))
        found.append(("a graph of the step", lambda: captured_step(device), 1.0))
        found.append(("a graph of the iteration", lambda: captured_iteration(device), 1.0))
    return found


# What a step costs -------------------------------------------------------------------------------


def with_gradients(shapes: Shapes, device: str) -> list[torch.nn.Parameter]:
    """Parameters with a gradient that stays."""
    params = [torch.nn.Parameter(torch.randn(shape, device=device)) for shape in shapes]
    for p in params:
        p.grad = torch.randn_like(p)
    return params


def in_a_graph(step: Callable[[], Any]) -> Callable[[], Any]:
    """The same step, replayed."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def candidates(shapes: Shapes, device: str) -> dict[str, Callable[[], Any]]:
    """What takes turns: one step of each."""
    entries = size(shapes)

    def ours(fused: bool) -> RecursiveOptimizer:
        return RecursiveOptimizer(with_gradients(shapes, device), fused=fused)

    def adam(**how: Any) -> torch.optim.Adam:
        return torch.optim.Adam(with_gradients(shapes, device), fused=True, **how)

    found: dict[str, Callable[[], Any]] = {"kernels": ours(True).step, "fused Adam": adam().step}
    if entries <= LARGEST_FOR_OPERATORS:
        found["operators"] = ours(False).step
    if device == "cuda":
        found["kernels, graph"] = in_a_graph(ours(True).step)
        found["fused Adam, graph"] = in_a_graph(adam(capturable=True).step)
    source = torch.randn(entries, device=device)
    target = torch.empty_like(source)
    found["copy"] = lambda: target.copy_(source)
    return found


def bytes_moved(name: str) -> int:
    """Bytes that have to be read and written for each float32 parameter."""
    if name == "copy":
        return 8
    if name.startswith("fused Adam"):
        return 4 * (4 + 3)  # g, x, m, v read; x, m, v written
    p = torch.nn.Parameter(torch.zeros(2))
    p.grad = torch.ones(2)
    opt = RecursiveOptimizer([p])
    opt.step()
    form = form_of(opt._leaf_of[p], opt.learner, opt.layout, scaled=False)
    traffic = kernels.source(form, opt.layout).traffic
    return traffic["first"] + traffic["last"]


def clock(device: str, step: Callable[[], Any], repeats: int) -> float:
    """Microseconds a step, when the device is kept busy by nothing else."""
    if device == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        begin.record()
        for _ in range(repeats):
            step()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3 / repeats
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    return (time.perf_counter() - start) * 1e6 / repeats


def launches(device: str, step: Callable[[], Any]) -> int | str:
    """How many kernels and copies a step is."""
    if device != "cuda":
        return ""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        torch.cuda.synchronize()
    return sum(str(event.device_type) == "DeviceType.CUDA" for event in profile.events())


def timed(device: str, names: Sequence[str], rounds: int) -> list[dict[str, object]]:
    """Rows of microseconds a step; the candidates of a workload take turns."""
    rows: list[dict[str, object]] = []
    for workload in names:
        shapes = SHAPES[workload]
        entries = size(shapes)
        try:
            steps = candidates(shapes, device)
            first: dict[str, float] = {}
            for name, step in steps.items():
                first[name] = clock(device, step, 1)
                clock(device, step, 3)
        except torch.cuda.OutOfMemoryError:
            print(f"{workload}: does not fit into this device's memory", file=sys.stderr)
            continue
        repeats = 50 if entries <= 10**7 else 5
        turns = {
            name: partial(lambda *how: [clock(device, *how)], step, repeats)
            for name, step in steps.items()
        }
        taken = {name: spread(times, 4) for name, times in in_turns(turns, rounds).items()}
        copied = 8 * entries / taken["copy"][1]
        for name, step in steps.items():
            low, median, high = taken[name]
            adam = "fused Adam, graph" if name.endswith("graph") else "fused Adam"
            row: dict[str, object] = {
                "workload": workload,
                "entries": entries,
                "what": name,
                "us_before": f"{first[name]:.0f}",
                "us_quartile_1": f"{low:.1f}",
                "us_median": f"{median:.1f}",
                "us_quartile_3": f"{high:.1f}",
                "ratio_to_fused_Adam": f"{median / taken[adam][1]:.2f}",
                "launches": launches(device, step),
                "bytes_an_entry": "",
                "bytes_a_second_to_copy": "",
            }
            if name != "operators":
                moved = bytes_moved(name)
                row["bytes_an_entry"] = moved
                row["bytes_a_second_to_copy"] = f"{moved * entries / median / copied:.2f}"
            rows.append(row)
            print(", ".join(str(value) for value in row.values()), flush=True)
        del steps, turns
    return rows


def swept(device: str) -> None:
    """Other sizes of a row and numbers of warps, for whoever wants to choose anew."""
    kept = kernels.BLOCK, dict(kernels.WARPS)
    for block in (512, 1024, 2048, 4096):
        for warps in (2, 4, 8):
            kernels.BLOCK, kernels.WARPS["float32"] = block, warps
            kernels.kernels.cache_clear()
            for workload in ("resnet18", "1e8"):
                step = RecursiveOptimizer(with_gradients(SHAPES[workload], device), fused=True).step
                clock(device, step, 5)
                times = [clock(device, step, 5) for _ in range(9)]
                print(
                    f"block {block}, {warps} warps, {workload}: {statistics.median(times):.1f} us"
                )
    kernels.BLOCK = kept[0]
    kernels.WARPS.update(kept[1])
    kernels.kernels.cache_clear()


# Both --------------------------------------------------------------------------------------------


def head_of(device: str, seed: int) -> dict[str, str]:
    """What the figures were taken on."""
    versions = f"python {platform.python_version()}, torch {torch.__version__}"
    if device == "cuda":
        import triton

        versions += f", cuda {torch.version.cuda}, triton {triton.__version__}"
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else processor(),
        "versions": f"{versions}, paroli {paroli.__version__}",
        "seed": str(seed),
    }


def write(path: Path, head: dict[str, str], rows: Sequence[dict[str, object]]) -> None:
    """A small CSV with what it was taken on at its head."""
    write_table(path, head, list(rows[0]), [list(row.values()) for row in rows])
    print(f"wrote {path}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Check, measure, write the CSVs; an error at the end if a check has failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, nothing above GPT-2")
    parser.add_argument("--sweep", action="store_true", help="try other sizes of rows; no CSV")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args(arguments)
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device is here; --device cpu rehearses what needs none")
    torch.manual_seed(args.seed)
    if args.sweep:
        swept(args.device)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    name = torch.cuda.get_device_name() if args.device == "cuda" else "rehearsal"
    key = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    head = head_of(args.device, args.seed)
    results: list[dict[str, object]] = []
    for check, found, most in checks(args.device):
        try:
            value = found()
        except Exception as error:  # the others are worth knowing too
            print(f"{check}: {error!r}", file=sys.stderr)
            value = float("inf")
        results.append(
            {"check": check, "found": f"{value:.3g}", "most": most, "holds": value <= most}
        )
        print(f"{'holds' if value <= most else 'FAILS'}: {check}: {value:.3g}", flush=True)
    write(args.out / f"gpu-checks-{key}.csv", head, results)
    rounds = 5 if args.quick else 21
    names = [name for name in WORKLOADS if not args.quick or name != "1e9"]
    rows = timed(args.device, list(REHEARSED) if args.device == "cpu" else names, rounds)
    write(args.out / f"gpu-steps-{key}.csv", head | {"rounds": str(rounds)}, rows)
    failed = [row["check"] for row in results if not row["holds"]]
    if failed:
        sys.exit(f"{len(failed)} of {len(results)} checks failed")


if __name__ == "__main__":
    main()
