r"""The stream of examples: absolute loss on Gaussian rows whose covariance is ill-conditioned.

.. math:: \ell_t(w) = |x_t \cdot w - x_t \cdot \mathring w|, \qquad x_t \sim N(0, \Sigma)

Σ is a random rotation of eigenvalues that decay exponentially, the largest `CONDITION_NUMBER` times
the smallest; ẘ is the eigenvector of the largest (``well``) or of the smallest (``badly``), of
length `DISTANCE`.  As in the authors' script the rows are then scaled so that the labels have mean
square 1; here exactly so in expectation, so the error of w = 0 is √(2/π) ≈ 0.80.

Every row is new and the error is that on a hold-out set, as the paper says; or, as the authors'
script does it, `ROWS` rows come again and again and the error is that on these very rows.
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
ROWS = 1000
"""Drawn at a time, for all 200,000 at once would take 160 MB; and in the hold-out set."""
DECADE = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
"""About evenly spaced on a logarithmic scale, and readable in a table."""


class Problem:
    """One stream and its hold-out set; equal arguments give equal numbers.

    Of one seed both conditionings share the rotation and the normal deviates.

    Args:
        conditioning: one of `CONDITIONINGS`.
        seed: of everything random.
        dimension: length of a row.
        repeated: the first `ROWS` rows are all there are, shuffled anew for each pass, and what the
            error is measured on.
    """

    def __init__(
        self, conditioning: str, seed: int, dimension: int, repeated: bool = False
    ) -> None:
        rotation, stream, holdout, order = np.random.SeedSequence(seed).spawn(4)
        self._stream = order if repeated else stream
        self._repeated = repeated
        self.dimension = dimension
        gaussian = np.random.default_rng(rotation).standard_normal((dimension, dimension))
        Q, _ = np.linalg.qr(gaussian)
        eigenvalues = np.geomspace(1.0, 1 / CONDITION_NUMBER, dimension)
        target = {"well": 0, "badly": -1}[conditioning]
        self.comparator: Array = DISTANCE * Q[:, target]
        scale = DISTANCE * np.sqrt(eigenvalues[target])
        self._root: Array = (np.sqrt(eigenvalues) / scale)[:, None] * Q.T
        self._judges = self._draw(np.random.default_rng(stream if repeated else holdout))

    def _draw(self, rng: np.random.Generator) -> Array:
        drawn: Array = rng.standard_normal((ROWS, self.dimension)) @ self._root
        return drawn

    def chunks(self, rounds: int) -> Iterator[Array]:
        """The stream's first rows, some at a time; the same at every call."""
        rng = np.random.default_rng(self._stream)
        for begin in range(0, rounds, ROWS):
            rows = rng.permutation(self._judges) if self._repeated else self._draw(rng)
            yield rows[: rounds - begin]

    def error(self, point: Array) -> float:
        """Mean absolute error on the hold-out set, or on the repeated rows."""
        return float(np.abs(self._judges @ (point - self.comparator)).mean())


def gradient(x: Array, label: Any, point: Array) -> Array:
    """A subgradient of |x·w - label| at a point."""
    result: Array = np.sign(x @ point - label) * x
    return result


def checkpoints(rounds: int) -> list[int]:
    """When to look: ten times a decade, at round numbers of rounds, and at the end."""
    grid = (first * 10**k for k in range(9) for first in DECADE)
    return [t for t in grid if t < rounds] + [rounds]
