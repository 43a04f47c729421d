"""The first picture's runs: one learner on one stream, its hold-out error along the way."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from paroli import OnlineLearner

from ..common.pool import Report
from .contestants import Contestant
from .problem import Problem, checkpoints, gradient


class Race(NamedTuple):
    """One run."""

    contestant: Contestant
    conditioning: str
    seed: int
    dimension: int
    rounds: int


class Curve(NamedTuple):
    """What a run gives: the error at each of the `checkpoints`, and the CPU time of a round."""

    race: Race
    errors: list[float]
    seconds_per_round: float


def work(race: Race) -> float:
    """Seconds that a run takes, roughly."""
    return race.rounds * race.contestant.cost * 1e-6


def run(race: Race, report: Report) -> Curve:
    """Play a run to its end."""
    problem = Problem(race.conditioning, race.seed, race.dimension)
    learner = OnlineLearner(race.contestant.learner, start=np.zeros(race.dimension))
    marks = set(checkpoints(race.rounds))
    errors, seconds, t = [], 0.0, 0
    for rows in problem.chunks(race.rounds):
        labels = rows @ problem.comparator
        begin = time.process_time()
        for x, label in zip(rows, labels, strict=True):
            learner.update(gradient(x, label, learner.point))
            t += 1
            if t in marks:
                errors.append(problem.error(learner.point))
        seconds += time.process_time() - begin
        report(work(race) * len(rows) / race.rounds)
    return Curve(race, errors, seconds / race.rounds)
