"""The training loop: steps, looks, and a file to go on from."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 (everybody calls it so)
from torch.optim.optimizer import Optimizer

from paroli.torch import RecursiveOptimizer, update_batch_norm

from .batches import Batches
from .contestants import Contestant
from .setting import Setting

Report = Callable[[float], None]

SAVE_EVERY = 60.0
"""Seconds between the files to go on from."""

NORM_BATCHES = 50
"""How many of the latest batches give the averaged weights their batch-norm statistics."""

MEASURED_AT_ONCE = 500


class Look(NamedTuple):
    """What is measured at a mark; the names are the columns of the tables."""

    step: int
    epoch: float
    seconds: float
    """Spent on training until then, not on measuring."""
    batch_loss: float
    """Mean over the batches since the last look, each before its step."""
    train_loss: float
    train_accuracy: float
    test_loss: float
    """Nats: of language models, the logarithm of perplexity."""
    test_accuracy: float


class Run(NamedTuple):
    """One training run."""

    setting: Setting
    contestant: Contestant
    seed: int
    device: str

    @property
    def name(self) -> str:
        """Among the runs of its setting."""
        return f"{self.contestant.key}-seed{self.seed}"


class State(NamedTuple):
    """Where a run is."""

    batches: Batches
    network: torch.nn.Module
    optimizer: Optimizer
    looks: list[Look]


def train(run: Run, report: Report, saved: Path, save_every: float = SAVE_EVERY) -> list[Look]:
    """Train from the start, or from where the file ``saved`` is; return what was measured.

    A run whose loss is no longer finite ends at the next look, which says so.
    """
    device = torch.device(run.device)
    if device.type == "cpu":
        torch.set_num_threads(1)  # sums in one order, whatever else runs on the machine
    torch.manual_seed(run.seed)
    network = run.setting.network.build().to(device)
    optimizer = run.contestant.build(network.parameters())
    state = State(Batches(run.setting, run.seed, device), network, optimizer, [])
    _restore(run, state, saved)
    if not state.looks:
        state.looks.append(_look(run, state, 0, 0.0, math.nan))
    report(state.looks[-1].step)
    last_saved = time.monotonic()
    for mark in run.setting.marks():
        before = state.looks[-1]
        if mark <= before.step or not math.isfinite(before.train_loss):
            continue
        loss, seconds = _stretch(run, state, before.step, mark)
        state.looks.append(_look(run, state, mark, before.seconds + seconds, loss))
        report(mark - before.step)
        if mark < run.setting.steps and time.monotonic() - last_saved >= save_every:
            _save(run, state, saved)
            last_saved = time.monotonic()
    saved.unlink(missing_ok=True)
    return state.looks


def _stretch(run: Run, state: State, begin: int, end: int) -> tuple[float, float]:
    """Train for some steps; returns the mean loss and the seconds."""
    started = _clock(run)
    total = torch.zeros((), device=run.device)
    state.network.train()
    for step in range(begin, end):
        total += take_step(run.setting, state.batches, state.network, state.optimizer, step)
    mean = float(total) / (end - begin)  # waits for the device
    return mean, _clock(run) - started


def take_step(
    setting: Setting,
    batches: Batches,
    network: torch.nn.Module,
    optimizer: Optimizer,
    step: int,
) -> torch.Tensor:
    """One step of training; returns the loss before it, without waiting for the device."""
    x, y = batches.at(step)
    optimizer.zero_grad()
    loss = _loss(_scores(setting, network, x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach()


def _scores(setting: Setting, network: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    on = setting.autocast and x.is_cuda
    with torch.autocast(x.device.type, torch.bfloat16, enabled=on):
        scores: torch.Tensor = network(x)
    return scores.float()


def _loss(scores: torch.Tensor, y: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    return F.cross_entropy(scores.flatten(0, -2), y.flatten(), reduction=reduction)


def _look(run: Run, state: State, step: int, seconds: float, batch_loss: float) -> Look:
    """Measure at the point that the contestant is evaluated at."""
    network, optimizer, batches = state.network, state.optimizer, state.batches
    averaged = run.contestant.averaged and isinstance(optimizer, RecursiveOptimizer) and step > 0
    if averaged:
        optimizer.eval()  # type: ignore[attr-defined]
        latest = range(max(0, step - NORM_BATCHES), step)
        update_batch_norm(network, (batches.at(i) for i in latest))
    network.eval()
    train = _measure(run.setting, network, *batches.measured())
    test = _measure(run.setting, network, batches.test_inputs, batches.test_targets)
    if averaged:
        optimizer.train()  # type: ignore[attr-defined]
    return Look(step, step / batches.per_epoch, seconds, batch_loss, *train, *test)


@torch.no_grad()
def _measure(
    setting: Setting, network: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor
) -> tuple[float, float]:
    """Mean loss and accuracy, of all targets."""
    totals = torch.zeros(2, dtype=torch.float64, device=inputs.device)
    for first in range(0, len(inputs), MEASURED_AT_ONCE):
        rows = slice(first, first + MEASURED_AT_ONCE)
        x, y = inputs[rows], targets[rows]
        scores = _scores(setting, network, x)
        totals[0] += _loss(scores, y, "sum")
        totals[1] += (scores.argmax(-1) == y).sum()
    loss, accuracy = (totals / targets.numel()).tolist()
    return loss, accuracy


def clock_of(device: str) -> str:
    """What the seconds are, in words."""
    return "CPU time of one thread" if device == "cpu" else "wall time"


def _clock(run: Run) -> float:
    # On a CPU that others share, the thread's own time is what wall time is on an idle one.
    return time.process_time() if run.device == "cpu" else time.perf_counter()


# The file to go on from ------------------------------------------------------------------------


def _save(run: Run, state: State, path: Path) -> None:
    saved = {
        "run": repr(run),
        "network": state.network.state_dict(),
        "optimizer": state.optimizer.state_dict(),
        "generator": torch.get_rng_state(),
        "looks": [tuple(look) for look in state.looks],
    }
    if run.device != "cpu":
        saved["device generator"] = torch.cuda.get_rng_state(run.device)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    torch.save(saved, fresh)
    fresh.replace(path)  # whole or not at all


def _restore(run: Run, state: State, path: Path) -> None:
    if not path.exists():
        return
    saved = torch.load(path, map_location=run.device, weights_only=True)
    if saved["run"] != repr(run):
        return
    state.network.load_state_dict(saved["network"])
    state.optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["generator"].cpu())
    if run.device != "cpu":
        torch.cuda.set_rng_state(saved["device generator"].cpu(), run.device)
    state.looks.extend(Look(*look) for look in saved["looks"])
