"""Whole training steps against the clock: every optimizer in turn, again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch.optim.optimizer import Optimizer

from paroli.torch import RecursiveOptimizer

from ..training.batches import Batches
from ..training.loop import take_step
from ..training.setting import Setting

BATCHES = 4
"""Made-up rows fill so many batches: what rows say does not change how long they take."""

Parameters = Iterable[torch.nn.Parameter]


class Racer(NamedTuple):
    """An optimizer."""

    key: str
    label: str
    build: Callable[[Parameters], Optimizer]


RACERS = (
    Racer("adam", "Adam", lambda p: torch.optim.Adam(p)),
    Racer("adam-fused", "Adam, fused", lambda p: torch.optim.Adam(p, fused=True)),
    Racer("adagrad", "Adagrad", lambda p: torch.optim.Adagrad(p)),
    Racer(
        "recursive-readable",
        "Recursive, readable path",
        lambda p: RecursiveOptimizer(p, average=False, foreach=False, fused=False),
    ),
    Racer(
        "recursive-fast",
        "Recursive, fast path",
        lambda p: RecursiveOptimizer(p, average=False),
    ),
    Racer(
        "recursive-shipped",
        "Recursive, fast path, averaged (as shipped)",
        lambda p: RecursiveOptimizer(p),
    ),
)


class Pace(NamedTuple):
    """How long it is measured."""

    rounds: int
    seconds: float
    """A turn takes so long, or `LEAST` steps if these take longer."""


LEAST = 2


class Lap(NamedTuple):
    """A turn; the names are the columns of the table."""

    task: str
    racer: str
    round: int
    steps: int
    seconds: float


def run(
    tasks: Mapping[str, Setting], pace: Pace, device: str, report: Callable[[], None]
) -> Iterator[Lap]:
    """Every turn of every task.

    The optimizers take turns, so that a busy moment of the machine meets them all.
    """
    for task, setting in tasks.items():
        stables = {racer.key: _Stable(setting, racer, torch.device(device)) for racer in RACERS}
        for stable in stables.values():
            stable.steps(LEAST)  # makes the state, and warms up
        for i in range(pace.rounds):
            for key, stable in stables.items():
                steps, seconds = stable.turn(pace.seconds)
                yield Lap(task, key, i, steps, seconds)
                report()


class _Stable:
    """A network in training."""

    def __init__(self, setting: Setting, racer: Racer, device: torch.device) -> None:
        if device.type == "cpu":
            torch.set_num_threads(1)
        rows = BATCHES * setting.batch
        source = replace(setting.source, rows=rows, test_rows=1, made_up=True)
        self.setting = replace(setting, source=source)
        torch.manual_seed(0)
        self.network = setting.network.build().to(device).train()
        self.optimizer = racer.build(self.network.parameters())
        self.batches = Batches(self.setting, 0, device)
        self.device = device
        self.done = 0

    def steps(self, number: int) -> float:
        """Take steps; returns the seconds."""
        started = self._clock()
        for _ in range(number):
            take_step(self.setting, self.batches, self.network, self.optimizer, self.done)
            self.done += 1
        return self._clock() - started

    def turn(self, at_least: float) -> tuple[int, float]:
        """Steps and seconds of a turn."""
        steps, seconds, number = 0, 0.0, LEAST
        while steps == 0 or seconds < at_least:
            seconds += self.steps(number)
            steps += number
            number *= 2  # the clock waits for the device: not too often
        return steps, seconds

    def _clock(self) -> float:
        if self.device.type == "cpu":
            return time.process_time()  # of one thread: what wall time is on an idle core
        torch.cuda.synchronize(self.device)
        return time.perf_counter()
