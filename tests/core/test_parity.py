"""Every stack in every array library plays what the literal algorithms of `tests.paper` play."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest

from paroli import (
    box,
    constrained,
    momentum,
    percoordinate,
    perleaf,
    recursive,
    rescaled,
    scinol1,
    scinol2,
)
from paroli.core.learner import Learner
from tests.core.oracles import oracle
from tests.core.spaces import LIBRARIES, Library, Played, Vector
from tests.core.stacks import DIMENSION, SHAPES, STACKS, any_scale, stream

ROUNDS = 400
CLOSE = 1e-11
"""Relative to the largest distance moved so far."""
FEW = {"jax": 5}
"""Rounds where an operation costs much: JAX without `jit`, which plays all of them compiled."""
SEED = 2
"""Any would do but for two stacks.  Where signs decide, as on the ball of the 1-norm, a coordinate
that rounding puts on the other side of 0 parts two runs for good; and Σ g gᵀ is nearly singular on
some streams when it has just become regular."""


@dataclass(frozen=True)
class Truth:
    """What a stack plays by the book: row t of ``points`` after t gradients."""

    points: Vector
    average: Vector | None
    log_wealth: float | None

    @property
    def moved(self) -> Vector:
        """The largest distance so far."""
        return np.maximum.accumulate(np.abs(self.points).max(axis=1))


def by_the_book(stack: Learner, gradients: Vector, announced: Vector | None = None) -> Truth:
    algorithm = oracle(stack, SHAPES)
    points = []
    for t, g in enumerate(gradients):
        if announced is not None:
            algorithm.announce(announced[t])
        points.append(algorithm.play())
        algorithm.receive(g, 1.0)
    points.append(algorithm.play())
    try:
        average: Vector | None = algorithm.average()
    except AttributeError:
        average = None
    try:
        log_wealth: float | None = float(np.log(algorithm.worth()))
    except AttributeError:
        log_wealth = None
    return Truth(np.array(points), average, log_wealth)


@lru_cache(maxsize=32)
def truth_of(stack: Learner) -> Truth:
    return by_the_book(stack, stream(ROUNDS, SEED, any_scale(stack)))


def deviation(points: Vector, truth: Truth) -> float:
    """The largest distance from the truth, relative to how far it had moved by then."""
    moved = truth.moved[: len(points)]
    error = np.abs(points - truth.points[: len(points)]).max(axis=1)
    assert np.isfinite(points).all()
    assert not error[moved == 0].any()
    return float((error[moved > 0] / moved[moved > 0]).max(initial=0.0))


def check(played: Played, truth: Truth) -> None:
    assert deviation(played.points, truth) <= CLOSE
    if len(played.points) < len(truth.points):
        return
    assert (played.average is None) == (truth.average is None)
    if truth.average is not None:
        error = np.abs(played.average - truth.average).max()
        assert error <= CLOSE * truth.moved[-1]
    assert (played.log_wealth is None) == (truth.log_wealth is None)
    if truth.log_wealth is not None:
        assert played.log_wealth == pytest.approx(truth.log_wealth, abs=1e-10)


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
@pytest.mark.parametrize("stack", STACKS, ids=repr)
def test_parity(stack: Learner, library: Library) -> None:
    gradients = stream(ROUNDS, SEED, any_scale(stack))[: FEW.get(library.name, ROUNDS)]
    check(library.play(stack, SHAPES, gradients), truth_of(stack))


ANNOUNCED = [
    scinol1(),
    scinol2(),
    scinol1(epsilon=0.3),
    momentum(scinol2(epsilon=0.3), decay=0.9),
    perleaf(scinol1()),
    percoordinate(scinol2()),
    rescaled(recursive(constrained(scinol1(), box()))),
    rescaled(recursive(constrained(scinol2(), box()))),
]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
@pytest.mark.parametrize("stack", ANNOUNCED, ids=repr)
def test_parity_of_linear_models(stack: Learner, library: Library) -> None:
    """The features are announced; the gradient is a slope of at most 1 times them."""
    rounds = 100
    rng = np.random.default_rng(SEED)
    features = stream(rounds, SEED + 1, any_scale=True) * 10 ** rng.uniform(-3, 3, DIMENSION)
    gradients = rng.uniform(-1, 1, (rounds, 1)) * features
    few = FEW.get(library.name, rounds)
    truth = by_the_book(stack, gradients[:few], features[:few])
    check(library.play(stack, SHAPES, gradients[:few], features[:few]), truth)
