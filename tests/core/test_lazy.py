"""Coordinates that stood still, read later: the same as if they had moved round by round."""

from typing import Any

import numpy as np
import pytest

from paroli import averaged, exponential, polynomial, recursive, rescaled, scinol, uniform
from paroli.core.averaged import moved
from paroli.core.lazy import Clock, settled, ticked
from paroli.core.learner import tell
from paroli.core.space import NUMPY

ROUNDS = 120
KINDS = [uniform(), polynomial(3.0), exponential(0.9)]


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@pytest.mark.parametrize("schedule", ["constant", "decaying"])
def test_settled_coordinates_are_where_rounds_would_have_brought_them(
    kind: Any, schedule: str
) -> None:
    """The recursions of the docstring, taken one at a time by every coordinate."""
    rng = np.random.default_rng(0)
    brick = rescaled(recursive(scinol()))
    state = brick.init(NUMPY, [np.zeros(6)])
    x, x_bar = np.zeros(6), np.zeros(6)  # round by round
    lazy_x, lazy_bar = np.zeros(6), np.zeros(6)  # when read
    now = Clock(*(np.float64(0.0) for _ in Clock._fields))
    since = [now] * 6
    for t in range(1, ROUNDS + 1):
        lr = 1.0 if schedule == "constant" else 1 - t / (2 * ROUNDS)
        touched = np.flatnonzero(rng.random(6) < 0.3) if t % 7 else np.arange(0)
        wealth, (v,) = brick.stake(NUMPY, state)  # type: ignore[misc]
        for i in touched:  # a read, before the round
            lazy_x[i], lazy_bar[i] = settled(np, lazy_x[i], lazy_bar[i], v[i], since[i], now)
            since[i] = now
        np.testing.assert_allclose(lazy_x[touched], x[touched], rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(lazy_bar[touched], x_bar[touched], rtol=1e-13, atol=1e-13)

        g = np.zeros(6)
        g[touched] = rng.standard_normal(len(touched)) + 0.3
        before = brick.bet(NUMPY, state)[0]
        state = tell(NUMPY, brick, state, [g])
        increment = lr * (brick.bet(NUMPY, state)[0] - before)
        share = kind.share(np, np.float64(t))
        x_bar = moved(x_bar, x, share)
        x = x + increment

        lazy_bar[touched] = moved(lazy_bar[touched], lazy_x[touched], share)
        lazy_x[touched] += increment[touched]
        new_wealth, _ = brick.stake(NUMPY, state)  # type: ignore[misc]
        now = ticked(np, now, lr * (new_wealth - wealth), share)
        for i in touched:
            since[i] = now
    assert np.abs(x).min() > 0


def test_stacks_whose_bets_do_not_stay_say_so() -> None:
    brick = averaged(recursive(scinol()))
    assert brick.stake(NUMPY, brick.init(NUMPY, [np.zeros(2)])) is None
