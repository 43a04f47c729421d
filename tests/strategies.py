"""Streams of gradients for Hypothesis, oblivious and adversarial, and runs of a learner on them.

A stream is a recipe and a seed, both drawn: generation is fast whatever its length, a failing
example shrinks to few rounds and coordinates of one recipe, and its repr is all that is needed to
play it again.  The adversarial recipes look at the point played before they answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from paroli import OnlineLearner
from paroli.core.learner import Learner

Vector: TypeAlias = npt.NDArray[np.float64]
Matrix: TypeAlias = npt.NDArray[np.float64]


@dataclass
class Chance:
    """What a recipe may use: all randomness of the stream, drawn before the first round."""

    noise: Matrix
    uniform: Matrix
    drift: Vector
    phase: npt.NDArray[np.intp]
    """A counter that goes up at random times, some tens of rounds apart."""


Recipe: TypeAlias = "Callable[[Chance, int, Vector], Vector]"


def _spiky(c: Chance, t: int, point: Vector) -> Vector:
    return c.noise[t] * (1.0 if c.uniform[t, 0] < 0.03 else 0.01)


def _one_hot(c: Chance, t: int, point: Vector) -> Vector:
    g = np.zeros_like(point)
    i = int(c.uniform[t, 0] * len(g))
    g[i] = c.drift[i]
    return g


def _against(c: Chance, t: int, point: Vector) -> Vector:
    """Every bet is lost, as much as can be."""
    return np.where(point == 0, np.sign(c.noise[t]), np.sign(point))


def _outward(c: Chance, t: int, point: Vector) -> Vector:
    """Every bet is won, which pushes it further out."""
    return np.where(point == 0, np.sign(c.drift), -np.sign(point))


def _let_win_then_turn(c: Chance, t: int, point: Vector) -> Vector:
    return _outward(c, t, point) if c.phase[t] % 2 == 0 else _against(c, t, point)


def _at_the_edge(c: Chance, t: int, point: Vector) -> Vector:
    """Push a coordinate out until it is at 1/2, then back, a little at a time."""
    return np.where(np.abs(point) >= 0.5, 0.3 * np.sign(point), np.sign(c.drift))


RECIPES: dict[str, Recipe] = {
    "constant": lambda c, t, point: c.drift,
    "signs": lambda c, t, point: np.sign(c.noise[t]),
    "alternating": lambda c, t, point: c.drift * (-1) ** t,
    "normal": lambda c, t, point: c.noise[t],
    "drifting": lambda c, t, point: 0.5 * c.drift + c.noise[t],
    "switching": lambda c, t, point: c.drift * (-1) ** c.phase[t],
    "faint": lambda c, t, point: 0.01 * c.drift,
    "fading": lambda c, t, point: c.noise[t] / (1 + t),
    "growing": lambda c, t, point: c.noise[t] * 1.1 ** (t - 200),
    "sparse": lambda c, t, point: np.where(c.uniform[t] < 0.2, c.noise[t], 0.0),
    "resting": lambda c, t, point: c.noise[t] * (c.phase[t] % 2),
    "one line": lambda c, t, point: c.drift * c.noise[t, 0],
    "spiky": _spiky,
    "one hot": _one_hot,
    "against": _against,
    "outward": _outward,
    "let win, then turn": _let_win_then_turn,
    "at the edge": _at_the_edge,
}
"""Gradients of a size of about one; `Stream` scales them."""

RAW_RECIPES: dict[str, Recipe] = {
    "tiny": lambda c, t, point: c.noise[t] * 1e-300,
    "huge": lambda c, t, point: c.noise[t] * 1e300,
    "tiny, then huge": lambda c, t, point: c.noise[t] * (1e-300 if c.phase[t] == 0 else 1e300),
    "huge, then tiny": lambda c, t, point: c.noise[t] * (1e300 if c.phase[t] == 0 else 1e-300),
    "huge, constant": lambda c, t, point: c.drift * 1e300,
    "huge, against": lambda c, t, point: _against(c, t, point) * 1e300,
    "any size": lambda c, t, point: np.sign(c.noise[t]) * 10.0 ** (600 * c.uniform[t] - 300),
    "the largest": lambda c, t, point: np.sign(c.noise[t]) * np.finfo(np.float64).max,
    "the smallest": lambda c, t, point: np.sign(c.noise[t]) * 5e-324,
}
"""Gradients of every size that a float can have."""


@dataclass(frozen=True)
class Stream:
    """How gradients are made; `play` makes them."""

    recipe: str
    seed: int
    d: int
    T: int
    norm: float | None = None
    """No gradient is longer than 1 in this norm; None: they come as the recipe has them."""
    full: bool = False
    """All gradients but zeros are brought to length 1, where the assumption is tightest."""

    def chance(self) -> Chance:
        """The stream's randomness: the same for the same stream."""
        rng = np.random.default_rng(self.seed)
        noise = rng.standard_normal((self.T, self.d))
        uniform = rng.random((self.T, self.d))
        drift = rng.standard_normal(self.d)
        return Chance(noise, uniform, drift, np.cumsum(rng.random(self.T) < 0.03))

    def gradients(self, point: Callable[[], Vector]) -> Iterator[Vector]:
        """Round after round, given a function that says what is being played."""
        recipe, chance = (RECIPES | RAW_RECIPES)[self.recipe], self.chance()
        for t in range(self.T):
            g = recipe(chance, t, point())
            if self.norm is not None:
                length = float(np.linalg.norm(g, self.norm))
                if length > 1 or (self.full and length > 0):
                    g = g / length
            yield g


def streams(
    norm: float | None,
    recipes: Sequence[str] = tuple(RECIPES),
    max_d: int = 6,
    max_T: int = 300,
) -> st.SearchStrategy[Stream]:
    """Streams of at most ``max_d`` coordinates and ``max_T`` rounds."""
    return st.builds(
        Stream,
        recipe=st.sampled_from(recipes),
        seed=st.integers(0, 2**16),
        d=st.integers(1, max_d),
        T=st.integers(1, max_T),
        norm=st.just(norm),
        full=st.booleans(),
    )


EPSILONS = st.sampled_from([1.0, 0.01, 10.0])
ETAS = st.sampled_from([0.5, 0.1, 1.0, 2.0])
NORMS = st.sampled_from([math.inf, 2.0, 1.0])


@dataclass(frozen=True)
class Run:
    """What happened: one row a round, and the learner after the last."""

    learner: OnlineLearner
    gradients: Matrix
    points: Matrix
    watched: Any
    """What ``watch`` said of the states before each round, as an array; None without it."""


def play(
    brick: Learner,
    stream: Stream,
    watch: Callable[[Any], Any] | None = None,
    dtype: Any = np.float64,
) -> Run:
    """Play a stream: the learner's point is what an adversary sees."""
    learner = OnlineLearner(brick, start=np.zeros(stream.d, dtype=dtype))
    largest = float(np.finfo(dtype).max)
    gradients, points, watched = [], [], []
    for g in stream.gradients(lambda: learner.point.astype(np.float64)):
        g = np.clip(g, -largest, largest).astype(dtype)
        gradients.append(g)
        points.append(learner.point)
        if watch is not None:
            watched.append(watch(learner.state))
        learner.update(g)
    return Run(learner, np.array(gradients), np.array(points), np.array(watched) if watch else None)


def directions(gradients: Matrix, norm: float) -> list[Vector]:
    """Comparators of length 1 for a run: the best ones in hindsight, and some that are not."""
    d = gradients.shape[1]
    total = gradients.sum(axis=0)
    _, axes = np.linalg.eigh(gradients.T @ gradients)
    most, least = axes[:, -1], axes[:, 0]
    candidates = [-total, -np.sign(total), total, np.ones(d), most, -most, least, np.eye(d)[0]]
    return [u / np.linalg.norm(u, norm) for u in candidates if u.any()]
