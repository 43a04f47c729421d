"""The first picture's runs: one learner on one stream, its error along the way."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from paroli import OnlineLearner, polynomial, uniform
from paroli.core.averaged import Average, moved

from ..common.pool import Report
from .contestants import Contestant
from .problem import Problem, checkpoints, gradient

AVERAGES: dict[str, Average] = {"uniform": uniform(), "polynomial": polynomial()}
ITERATES = ("last", *AVERAGES)
"""What is judged: the point to be played next, and averages of all that were played."""


class Race(NamedTuple):
    """One run."""

    contestant: Contestant
    conditioning: str
    seed: int
    dimension: int
    rounds: int
    repeated: bool = False


class Curve(NamedTuple):
    """What a run gives: the errors at each of the `checkpoints`, and the CPU time of a round."""

    race: Race
    errors: list[list[float]]
    """One number for each of the `ITERATES`."""
    seconds_per_round: float


def work(race: Race) -> float:
    """Seconds that a run takes, roughly."""
    return race.rounds * race.contestant.cost * 1e-6


def run(race: Race, report: Report) -> Curve:
    """Play a run to its end."""
    problem = Problem(race.conditioning, race.seed, race.dimension, race.repeated)
    learner = OnlineLearner(race.contestant.learner, start=np.zeros(race.dimension))
    averages = [np.zeros(race.dimension) for _ in AVERAGES]
    marks = set(checkpoints(race.rounds))
    errors: list[list[float]] = []
    seconds, t = 0.0, 0
    for rows in problem.chunks(race.rounds):
        labels = rows @ problem.comparator
        begin = time.process_time()
        points = [learner.point]
        for x, label in zip(rows, labels, strict=True):
            learner.update(gradient(x, label, points[-1]))
            points.append(learner.point)
        seconds += time.process_time() - begin
        for played, following in pairwise(points):
            t += 1
            averages = [
                moved(average, played, kind.share(np, t))
                for average, kind in zip(averages, AVERAGES.values(), strict=True)
            ]
            if t in marks:
                errors.append([problem.error(point) for point in (following, *averages)])
        report(work(race) * len(rows) / race.rounds)
    return Curve(race, errors, seconds / race.rounds)
