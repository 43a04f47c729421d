"""A race of optimizers over one list of tensors: times in turns, then bytes, counted."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from benchmarks import steps_counting as counting
from benchmarks.steps_contestants import COMPILED, OURS, REFERENCE, Contestant
from benchmarks.steps_shapes import Shapes, size
from benchmarks.turns import LEAST_ROUNDS, Turn, in_turns

COPY = "copy"
"""The rival of the roofline: 4 bytes of every parameter from here to there."""
COPY_MOVES = 8
WARM_UP = 3
"""Steps that are not timed; compiling goes on until the third."""
SECONDS_PER_TURN = 0.02
STEPS_PER_TURN = 20
"""At most."""
SHARE_OF_ONE = 0.4
"""Of all the time that there is: who takes more leaves."""
ALWAYS = (OURS, REFERENCE)
"""However slow they are."""
UNSEEN_BYTES = 60.0
"""For each parameter, of a contestant that has not been measured on a smaller list."""


class Result(NamedTuple):
    """What was measured of one contestant."""

    seconds: list[float]
    state_bytes: int | None = None
    moved_bytes: int | None = None
    transient_bytes: int | None = None
    operators: int | None = None
    arrays: list[counting.Array] | None = None


class Needs(NamedTuple):
    """What a contestant will want for each parameter, going by a smaller list."""

    kept: float = UNSEEN_BYTES
    transient: float = 0.0
    seconds: float = 0.0


class Racer:
    """A contestant with parameters and gradients of its own to step.

    Its gradients change sign in every step, so that nobody ever leaves for infinity.
    """

    def __init__(
        self,
        contestant: Contestant,
        start: Sequence[torch.Tensor],
        gradients: tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]],
    ) -> None:
        self.contestant = contestant
        self.parameters = [torch.nn.Parameter(x.clone()) for x in start]
        self.gradients = gradients
        self.steps = 0
        self.turn()
        self.optimizer = contestant.make(self.parameters)

    def turn(self) -> None:
        """The next gradients."""
        self.steps += 1
        for p, g in zip(self.parameters, self.gradients[self.steps % 2], strict=True):
            p.grad = g

    def warmed_up(self, stopwatch: Stopwatch, most: float) -> float | None:
        """Seconds of a step after those that are not like the others; None: more than ``most``."""
        taken: list[float] = []
        while len(taken) < WARM_UP:
            taken.append(self.timed(stopwatch))
            if min(taken) > most:
                return None
        return taken[-1]

    def timed(self, stopwatch: Stopwatch) -> float:
        """Seconds of the next step."""
        self.turn()
        return stopwatch(self.optimizer.step)

    def counted(self, seconds: list[float], device: torch.device) -> Result:
        """What was timed, and what is counted in two more steps."""
        state = counting.state_bytes(self.optimizer, self.parameters)
        if self.contestant.name == COMPILED:  # it would compile again to be looked at
            return Result(seconds, state)
        transient = counting.transient_bytes(self.optimizer, device)
        moved = counting.moved(self.optimizer, self.parameters)
        return Result(seconds, state, moved.bytes, transient, moved.operators, moved.arrays)


Stopwatch = Callable[[Callable[[], object]], float]
"""Seconds that something takes."""


def repeated(timed: Callable[[], float], seconds: float) -> Turn:
    """As many of what takes so long as fit into a turn, each timed by itself."""
    count = max(1, min(STEPS_PER_TURN, int(SECONDS_PER_TURN / max(seconds, 1e-9))))
    return lambda: [timed() for _ in range(count)]


def stopwatch_of(device: torch.device) -> Stopwatch:
    """The wall clock, or the device's own."""

    def on_cpu(work: Callable[[], object]) -> float:
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin

    def on_cuda(work: Callable[[], object]) -> float:
        event: Any = torch.cuda.Event
        begin, end = event(enable_timing=True), event(enable_timing=True)
        torch.cuda.synchronize(device)
        begin.record()
        work()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    return on_cuda if device.type == "cuda" else on_cpu


def admitted(
    contestants: Iterable[Contestant],
    parameters: int,
    needs: dict[str, Needs],
    memory: float,
    seconds: float,
) -> tuple[list[Contestant], dict[str, str]]:
    """Those for whom there is room and time, first come first served, and why others stay out."""
    inside: list[Contestant] = []
    outside: dict[str, str] = {}
    room = memory / parameters - 3 * 4 - COPY_MOVES  # start, two gradients, what is copied
    transient, time_left = 0.0, seconds
    for one in contestants:
        need = needs.get(one.name, Needs())
        takes = (WARM_UP + LEAST_ROUNDS + 2) * need.seconds * parameters
        if room - need.kept < max(transient, need.transient):
            outside[one.name] = "memory"
        elif takes > time_left and one.name not in ALWAYS:
            outside[one.name] = "time"
        else:
            inside.append(one)
            room -= need.kept
            transient = max(transient, need.transient)
            time_left -= takes
    return inside, outside


def race(
    contestants: Sequence[Contestant],
    shapes: Shapes,
    device: torch.device,
    seed: int,
    rounds: int,
    seconds: float,
) -> tuple[dict[str, Result], dict[str, str]]:
    """What everybody takes for a step, all in turns, beside a plain copy of as many floats.

    Returns also who had to leave, because a few steps would have taken most of the time.
    """
    begin = time.monotonic()
    torch.manual_seed(seed)
    stopwatch = stopwatch_of(device)
    # What layers are initialised with: DoG and Mechanic look at the start.
    start = [torch.randn(shape, device=device).mul_(0.02) for shape in shapes]
    gradients = [torch.randn(shape, device=device).mul_(1e-3) for shape in shapes]
    both = (gradients, [-g for g in gradients])
    source = torch.zeros(size(shapes), device=device)
    target = torch.ones_like(source)

    def copy() -> float:
        return stopwatch(lambda: target.copy_(source))

    turns = {COPY: repeated(copy, copy())}
    racers: dict[str, Racer] = {}
    outside: dict[str, str] = {}
    for one in contestants:
        racer = Racer(one, start, both)
        most = math.inf if one.name in ALWAYS else seconds * SHARE_OF_ONE / LEAST_ROUNDS
        taken = racer.warmed_up(stopwatch, most)
        if taken is None:
            outside[one.name] = "time"
        else:
            racers[one.name] = racer
            turns[one.name] = repeated(partial(racer.timed, stopwatch), taken)
        del racer
    del start
    gc.collect()
    gc.disable()  # a collection would hit whoever is at work
    try:
        times = in_turns(turns, rounds, seconds - (time.monotonic() - begin))
    finally:
        gc.enable()
    found = {COPY: Result(times[COPY], moved_bytes=COPY_MOVES * size(shapes))}
    for name in list(racers):
        del turns[name]
        found[name] = racers.pop(name).counted(times[name], device)
    return found, outside
