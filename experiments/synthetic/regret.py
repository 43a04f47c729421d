"""The second picture's runs: measured regret beside the bounds of the paper, round by round.

The theorems want ‖g_t‖₁ ≤ 1.  So the stream is drawn once ahead to find its largest ‖x_t‖₁, and all
rows are divided by that; then Algorithm 1 with Algorithm 2 inside plays as printed, no `rescaled`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paroli import OnlineLearner, diagonal, recursive
from paroli.core.space import NUMPY
from paroli.core.wealth import log_loss_gradient
from paroli.theory import (
    adagrad_reference,
    full_adagrad_reference,
    full_matrix_case,
    full_newton_reference,
    recursive_bound,
    regret,
)

from ..common.pool import Report
from .problem import Array, Problem, checkpoints, gradient

EPSILON = 1.0
ETA = 0.5
COLUMNS = (
    "round",
    "regret",
    "regret of w = 0",
    "bound",
    "full-matrix case",
    "bound as printed",
    "eqn:diagada",
    "eqn:fullmatrixada",
    "eqn:fullmatrixcoin",
)


class Trial(NamedTuple):
    """One run."""

    conditioning: str
    seed: int
    dimension: int
    rounds: int


class Record(NamedTuple):
    """What was played, one row a round."""

    gradients: Array
    points: Array
    inner_gradients: Array
    """The z of Algorithm 1 as printed."""
    losses_at_origin: Array


def inner_epsilon(dimension: int) -> float:
    """ε shared out so that the inner regret at the origin is ε: the theorem has one ε for both.

    Algorithm 2 is sent z/2, so its regret at the origin counts twice, on every coordinate.
    """
    return EPSILON / (2 * dimension)


def learner(dimension: int) -> recursive:
    """Algorithm 1 around Algorithm 2."""
    return recursive(diagonal(epsilon=inner_epsilon(dimension), eta=ETA), epsilon=EPSILON)


def work(trial: Trial) -> float:
    """Seconds that a run takes, roughly."""
    return trial.rounds * 100e-6


def run(trial: Trial, report: Report) -> list[list[str]]:
    """Play a run to its end; the rows of its table."""
    problem = Problem(trial.conditioning, trial.seed, trial.dimension)
    g, w, z, at_origin = record(problem, trial, report)
    w_ring, rounds = problem.comparator, checkpoints(trial.rounds)
    constants = (EPSILON, inner_epsilon(trial.dimension), ETA)
    columns = (
        regret(g, w, w_ring, rounds=rounds),
        np.cumsum(at_origin)[np.array(rounds) - 1],
        recursive_bound(g, z, w_ring, *constants, as_printed=False, rounds=rounds),
        full_matrix_case(g, z, w_ring, *constants[1:], rounds=rounds),
        recursive_bound(g, z, w_ring, *constants, rounds=rounds),
        adagrad_reference(g, w_ring, rounds=rounds),
        full_adagrad_reference(g, w_ring, rounds=rounds),
        full_newton_reference(g, w_ring, rounds=rounds),
    )
    return [
        [str(t), *(f"{value:.5g}" for value in values)]
        for t, *values in zip(rounds, *columns, strict=True)
    ]


def record(problem: Problem, trial: Trial, report: Report) -> Record:
    """Play, and keep everything."""
    longest = max(np.abs(rows).sum(axis=1).max() for rows in problem.chunks(trial.rounds))
    algorithm_1 = learner(trial.dimension)
    player = OnlineLearner(algorithm_1, start=np.zeros(trial.dimension))
    shape = (trial.rounds, trial.dimension)
    kept = Record(np.empty(shape), np.empty(shape), np.empty(shape), np.empty(trial.rounds))
    t = 0
    for rows in problem.chunks(trial.rounds):
        rows = rows / longest
        for x, label in zip(rows, rows @ problem.comparator, strict=True):
            (v,) = algorithm_1.inner.bet(NUMPY, player.state.inner)
            point = player.point
            g = gradient(x, label, point)
            player.update(g)
            kept.gradients[t], kept.points[t] = g, point
            kept.inner_gradients[t] = log_loss_gradient(g, g @ v)
            kept.losses_at_origin[t] = abs(label)  # ẘ itself has no loss
            t += 1
        report(work(trial) * len(rows) / trial.rounds)
    return kept
