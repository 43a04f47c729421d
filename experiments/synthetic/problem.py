r"""The stream of examples: absolute loss on Gaussian rows whose covariance is ill-conditioned.

.. math:: \ell_t(w) = |x_t \cdot w - x_t \cdot \mathring w|, \qquad x_t \sim N(0, \Sigma)

Σ is a random rotation of eigenvalues that decay exponentially, the largest `CONDITION_NUMBER` times
the smallest; ẘ is the eigenvector of the largest (``well``) or of the smallest (``badly``), of
length `DISTANCE`.  As in the authors' script the rows are then scaled so that the labels have mean
square 1; here exactly so in expectation, so the error of w = 0 is √(2/π) ≈ 0.80.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

CONDITIONINGS = ("well", "badly")
CONDITION_NUMBER = 750.0
DISTANCE = 10.0
HOLDOUT_ROWS = 1000
CHUNK = 1000
"""Rows drawn at a time; 200,000 of them at once would take 160 MB."""


class Problem:
    """One stream and its hold-out set; equal arguments give equal numbers.

    Of one seed both conditionings share the rotation and the normal deviates.
    """

    def __init__(self, conditioning: str, seed: int, dimension: int) -> None:
        rotation, stream, holdout = np.random.SeedSequence(seed).spawn(3)
        self._stream = stream
        self.dimension = dimension
        gaussian = np.random.default_rng(rotation).standard_normal((dimension, dimension))
        Q, _ = np.linalg.qr(gaussian)
        eigenvalues = np.geomspace(1.0, 1 / CONDITION_NUMBER, dimension)
        target = {"well": 0, "badly": -1}[conditioning]
        self.comparator: Array = DISTANCE * Q[:, target]
        scale = DISTANCE * np.sqrt(eigenvalues[target])
        self._root: Array = (np.sqrt(eigenvalues) / scale)[:, None] * Q.T
        self._holdout: Array = self._draw(np.random.default_rng(holdout), HOLDOUT_ROWS)

    def _draw(self, rng: np.random.Generator, rows: int) -> Array:
        drawn: Array = rng.standard_normal((rows, self.dimension)) @ self._root
        return drawn

    def chunks(self, rounds: int) -> Iterator[Array]:
        """The stream's first rows, some at a time; the same at every call."""
        rng = np.random.default_rng(self._stream)
        for begin in range(0, rounds, CHUNK):
            yield self._draw(rng, CHUNK)[: rounds - begin]

    def error(self, point: Array) -> float:
        """Mean absolute error on the hold-out set."""
        return float(np.abs(self._holdout @ (point - self.comparator)).mean())


def gradient(x: Array, label: Any, point: Array) -> Array:
    """A subgradient of |x·w - label| at a point."""
    result: Array = np.sign(x @ point - label) * x
    return result


def checkpoints(rounds: int) -> list[int]:
    """When to look: twenty times a decade from round 10 on, and at the end."""
    grid = (round(10 ** (k / 20)) for k in range(20, 200))
    return [t for t in grid if t < rounds] + [rounds]
