"""The row loop in NumPy: what `paroli.linear.native` does, where there is no compiler.

>>> from paroli.core.learner import flatten
>>> from paroli.core.losses import logistic
>>> learner = linear(logistic())
>>> table = np.zeros((3, len(learner.bets.columns(np, np.zeros(1)))))
>>> numbers = np.array(list(flatten(learner.start(np.float64(0.0))).values()))
>>> rows(learner, table, numbers, np.array([0, 2, 3]), np.array([0, 1, 0], dtype=np.int32),
...      np.array([1.0, 2.0, 1.0]), np.array([1.0, 1.0]), None, intercept=True).round(3)
array([0.   , 0.333])
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paroli.core.learner import flatten, unflatten
from paroli.core.linear import Linear, linear
from paroli.core.space import NUMPY

BROKEN, OUTSIDE, REFUSED, TINY, UNSORTED = (1 << k for k in range(5))
"""What may be found in rows: an ``indptr`` that does not rise from 0 to the number of values; a
feature that does not exist; a value that is not finite or too large; one that counts as 0; a row
whose features do not rise."""


class Seen(NamedTuple):
    """What was found in rows."""

    bits: int
    longest: int | None
    """How many values the longest row has, where that was counted."""


def look(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    dimensions: int,
    smallest: float,
    largest: float,
) -> Seen:
    """What there is to know of rows before any is learned.

    >>> look(np.array([0, 2]), np.array([1, 0], np.int32), np.array([0.5, 1e-9]), 2, 1e-3, 1e3)
    Seen(bits=24, longest=2)
    """
    counts = np.diff(indptr)
    if indptr[0] != 0 or indptr[-1] != len(indices) or (counts < 0).any():
        return Seen(BROKEN, None)
    size = np.abs(values)
    bits = OUTSIDE * bool(((indices < 0) | (indices >= dimensions)).any())
    bits += REFUSED * (not (size <= largest).all()) + TINY * bool((size < smallest).any())
    rises = np.diff(indices) > 0
    begins = indptr[1:-1]
    rises[begins[(begins > 0) & (begins < len(indices))] - 1] = True
    return Seen(int(bits + UNSORTED * (not rises.all())), int(counts.max(initial=0)))


def rows(
    learner: linear,
    table: npt.NDArray[Any],
    numbers: npt.NDArray[np.float64],
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    labels: npt.NDArray[np.float64] | None,
    weights: npt.NDArray[np.float64] | None,
    intercept: bool,
    again: bool = False,
    seen: Seen = Seen(UNSORTED, None),
) -> npt.NDArray[np.float64]:
    """As `paroli.linear.native.rows`."""
    bets, xp = learner.bets, np
    template = learner.start(np.float64(0.0))
    state: Linear = unflatten(template, dict(zip(flatten(template), numbers, strict=True)))
    scores = np.empty(len(indptr) - 1)
    for r in range(len(scores)):
        place, x = _row(indices, values, indptr[r], indptr[r + 1], intercept, table.dtype)
        features = bets.unpack(xp, list(table[place].T))
        present = np.float64(len(x))
        features = bets.announce(NUMPY, state.bet, features, x, present)
        x = bets.counted(xp, features, x)
        bet, sums = bets.bet(NUMPY, state.bet, features, x)
        score = scores[r] = learner.score(xp, state, sums)
        y = np.float64(np.nan) if labels is None else labels[r]
        weight = np.float64(1.0) if weights is None else weights[r]
        if not weight > 0 or np.isnan(y):
            continue
        state, steps, each, unit = learner.observe(xp, state, sums, y, weight)
        for step in range(int(steps)):
            if step:
                bet, sums = bets.bet(NUMPY, state.bet, features, x)
                score = learner.score(xp, state, sums)
            numbers_of_bet = state.bet
            state, send = learner.settle(xp, state, sums, score, y, each)
            features = bets.update(NUMPY, numbers_of_bet, features, bet, send, np.float64(again))
        state = learner.finish(xp, state, unit)
        table[place] = np.stack(bets.pack(features), axis=1)
    numbers[:] = list(flatten(state).values())
    return scores


def _row(
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    begin: int,
    end: int,
    intercept: bool,
    dtype: np.dtype[Any],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Where a row's features are in the table, and their values: each once, and none is 0."""
    place, x = indices[begin:end].astype(np.int64) + 1, values[begin:end].astype(dtype)
    if (place[1:] <= place[:-1]).any():
        place, inverse = np.unique(place, return_inverse=True)
        total = np.zeros(len(place), dtype=dtype)
        np.add.at(total, inverse, x)
        x = total
    place, x = place[x != 0], x[x != 0]
    if intercept:
        place, x = np.append(0, place), np.append(np.ones(1, dtype=dtype), x)
    return place, x
