"""What fewer bits cost on real training, and what ``lr`` had better multiply: MNIST, on a CPU.

*drift.csv*: gradients of one float32 training are replayed to optimizers with fewer bits; how far
the weights, and their average, are from those of the float32 optimizer, in units of the distance
moved.  *losses.csv*: each trains by itself.  *lr.csv*: lr multiplies the increments, as it does in
`paroli.torch.RecursiveOptimizer`, or the gradients.

    paroli reproduce precision [--steps 2000] [--seeds 2] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

import paroli.torch
from paroli.torch import RecursiveOptimizer

from ..common.arguments import count
from ..common.places import results_of
from ..common.records import provenance, write_table
from ..data import mnist
from ..data.files import DataError

HIDDEN = 128
BATCH = 128
FULL = {"state_dtype": torch.float32}
BITS: dict[str, tuple[torch.dtype, dict[str, Any]]] = {
    "float32, all state float32": (torch.float32, FULL),
    "float32, default": (torch.float32, {}),
    "float32, all state bfloat16": (torch.float32, {"state_dtype": torch.bfloat16}),
    "bfloat16, compensated": (torch.bfloat16, {}),
    "bfloat16, stochastic": (torch.bfloat16, {"rounding": "stochastic"}),
    "bfloat16, nearest": (torch.bfloat16, {"rounding": "nearest"}),
}
"""Parameters, and how the optimizer keeps what it keeps."""
LR = (0.1, 0.3, 1.0, 3.0, 10.0)
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda part: 1.0,
    "cosine": lambda part: (1 + math.cos(math.pi * part)) / 2,
}
Data = tuple[torch.Tensor, torch.Tensor]


def rows(images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64]) -> Data:
    """Images as rows in [0, 1], and labels."""
    x = images.reshape(len(images), -1).astype(np.float32) / 255
    return torch.from_numpy(x), torch.from_numpy(labels)


def net(seed: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A small network; the same start in every dtype, so that only bits differ."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    return model.bfloat16().to(dtype)


def batches(data: Data, steps: int, seed: int) -> Iterator[Data]:
    """Epoch after epoch, each in an order of its own."""
    rng = torch.Generator().manual_seed(seed)
    left = torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        if len(left) < BATCH:
            left = torch.randperm(len(data[0]), generator=rng)
        taken, left = left[:BATCH], left[BATCH:]
        yield data[0][taken], data[1][taken]


def loss_of(model: nn.Module, data: Data) -> torch.Tensor:
    """The mean loss, computed in float32 after the network."""
    x, y = data
    return nn.functional.cross_entropy(model(x.to(next(model.parameters()).dtype)).float(), y)


@torch.no_grad()
def tested(model: nn.Module, optimizer: RecursiveOptimizer, data: Data) -> tuple[float, float]:
    """Test losses of the training weights and of their average."""
    last = float(loss_of(model, data))
    optimizer.eval()
    average = float(loss_of(model, data))
    optimizer.train()
    return last, average


def flat(model: nn.Module) -> torch.Tensor:
    """All weights in one vector."""
    return torch.cat([p.detach().double().reshape(-1) for p in model.parameters()])


def averaged(model: nn.Module, optimizer: RecursiveOptimizer) -> torch.Tensor:
    """The averaged weights in one vector."""
    optimizer.eval()
    found = flat(model)
    optimizer.train()
    return found


def drifts(train: Data, steps: int, seed: int) -> Iterator[list[object]]:
    """Weights after the same gradients, against those of the optimizer with all its bits."""
    pairs = {}
    for name, (dtype, settings) in BITS.items():
        model = net(seed, dtype)
        pairs[name] = model, RecursiveOptimizer(model.parameters(), **settings)
    leader, _ = pairs["float32, all state float32"]
    start = flat(leader)
    looks = sorted({steps // 30, steps // 10, steps // 3, steps} - {0})
    for t, batch in enumerate(batches(train, steps, seed), 1):
        leader.zero_grad()
        loss_of(leader, batch).backward()  # type: ignore[no-untyped-call]
        for model, optimizer in pairs.values():
            for p, q in zip(model.parameters(), leader.parameters(), strict=True):
                assert q.grad is not None
                p.grad = q.grad.to(p.dtype)
            optimizer.step()
        if t in looks:
            goals = flat(leader), averaged(*pairs["float32, all state float32"])
            moved = (goals[0] - start).norm()
            for name, (model, optimizer) in pairs.items():
                mine = flat(model), averaged(model, optimizer)
                off = [f"{(a - b).norm() / moved:.2e}" for a, b in zip(mine, goals, strict=True)]
                yield [seed, t, name, *off]


def trained(
    train: Data,
    test: Data,
    steps: int,
    seed: int,
    dtype: torch.dtype,
    settings: dict[str, Any],
    lr: Callable[[float], float] = lambda part: 1.0,
    of_gradients: bool = False,
) -> tuple[float, float]:
    """Train, and return the test losses of the last weights and of the average."""
    model = net(seed, dtype)
    optimizer = RecursiveOptimizer(model.parameters(), **settings)
    for t, batch in enumerate(batches(train, steps, seed)):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        factor = lr(t / steps)
        if of_gradients:
            loss = loss * factor
        else:
            optimizer.param_groups[0]["lr"] = factor
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return tested(model, optimizer, test)


def main(argv: Sequence[str]) -> int:
    """Run all three and write their tables."""
    parser = argparse.ArgumentParser(
        prog="paroli reproduce precision",
        description=__doc__.splitlines()[0] if __doc__ else None,
    )
    parser.add_argument("--steps", type=count, default=2000)
    parser.add_argument("--seeds", type=count, default=2)
    parser.add_argument("--out", type=Path, default=results_of("precision"))
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    try:
        split = mnist.load()
    except DataError as error:
        print(f"paroli: {error}", file=sys.stderr)
        return 1
    train, test = rows(*split[:2]), rows(*split[2:])
    front_end = Path(paroli.torch.__file__).parent
    head = provenance(Path(__file__), front_end) | {
        "torch": torch.__version__,
        "task": f"MNIST, 784-{HIDDEN}-10, batches of {BATCH}, {args.steps} steps, constant lr 1",
    }
    args.out.mkdir(parents=True, exist_ok=True)
    seeds = range(args.seeds)
    columns: tuple[str, ...] = ("seed", "step", "bits", "weights_off", "average_off")
    table = [row for seed in seeds for row in drifts(train, args.steps, seed)]
    write_table(args.out / "drift.csv", head, columns, table)
    losses = ("test_loss_last", "test_loss_average")
    table = []
    for name, (dtype, settings) in BITS.items():
        for seed in seeds:
            found = trained(train, test, args.steps, seed, dtype, settings)
            table.append([name, seed, *(f"{x:.4f}" for x in found)])
    write_table(args.out / "losses.csv", head, ("bits", "seed", *losses), table)
    table = []
    short = args.steps // 3
    for name, schedule in SCHEDULES.items():
        for of_gradients in (False, True):
            for lr in LR:
                for seed in seeds:
                    found = trained(
                        train,
                        test,
                        short,
                        seed,
                        torch.float32,
                        {},
                        lambda part, lr=lr, schedule=schedule: lr * schedule(part),  # type: ignore[misc]
                        of_gradients,
                    )
                    meant = "gradients" if of_gradients else "increments"
                    table.append([meant, name, lr, seed, *(f"{x:.4f}" for x in found)])
    columns = ("lr_multiplies", "schedule", "lr", "seed", *losses)
    head["task"] = head["task"].replace(f"{args.steps} steps, constant lr 1", f"{short} steps")
    write_table(args.out / "lr.csv", head, columns, table)
    return 0
