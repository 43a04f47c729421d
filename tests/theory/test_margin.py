"""The margin domain's theorems, with their constants and without slack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paroli import diagonal, scinol, theory_margin
from paroli.core.margin import largest, margin
from paroli.core.space import NUMPY

Array = npt.NDArray[np.float64]

ROWS = ["dense", "sparse", "growing", "one line", "outliers", "bits", "scales"]
SLOPES = ["signs", "drift", "against", "outward", "turning", "hinge"]
INNER = [(diagonal(),), (diagonal(), scinol(cap=None, rescale=False)), (diagonal(0.3, 2.0),)]


@dataclass(frozen=True)
class Run:
    came: Array
    counted: Array
    slopes: Array
    margins: Array
    endowment: Array
    eta: float
    learners: int


def play(rows: str, slopes: str, seed: int, T: int, d: int, inner: int) -> Run:
    """The brick against rows and slopes of a kind; slopes may look at the margin."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((T, d))
    if rows == "sparse":
        x[rng.random((T, d)) < 0.7] = 0
    elif rows == "growing":
        x *= 1.02 ** np.arange(T)[:, None]
    elif rows == "one line":
        x = x[:, :1] * rng.standard_normal(d)
    elif rows == "outliers":
        x[rng.random((T, d)) < 0.02] *= 1e4
    elif rows == "bits":
        x = (x > 0).astype(float)
    elif rows == "scales":
        x *= 10 ** rng.uniform(-9, 9, d)
    truth = rng.standard_normal(d) / np.where(x.any(axis=0), np.abs(x).max(axis=0), 1)
    brick = margin(INNER[inner], average=False)
    numbers, features = brick.start(np.float64(0.0)), brick.fresh(np, np.zeros(d))
    used, told, played, endowment = [], [], [], np.ones(d)
    for t in range(T):
        present = np.float64(max(np.count_nonzero(x[t]), 1))
        share = (numbers.rows + 1) / (numbers.size + present)
        new = (features.M == 0) & (x[t] != 0)
        endowment[new] = share * INNER[inner][0].epsilon  # type: ignore[attr-defined]
        features = brick.announce(NUMPY, numbers, features, x[t], present)
        within = brick.counted(np, features, x[t])
        bet, sums = brick.bet(NUMPY, numbers, features, within)
        m = float(brick.margin(np, numbers, sums))
        own = x[t] @ truth
        s = {
            "signs": np.sign(x[t].sum() + 0.1),
            "drift": -np.clip(own, -1, 1),
            "against": np.sign(m) or 1.0,
            "outward": -np.sign(m) or 1.0,
            "turning": (np.sign(m) or 1.0) * (-1) ** (t // 40 + 1),
            "hinge": -np.sign(own) * (np.sign(own) * m < 1),
        }[slopes]
        after, send = brick.settle(np, numbers, sums, np.float64(s))
        features = brick.update(NUMPY, numbers, features, bet, send, np.float64(0.0))
        numbers = brick.measured(after, sums)
        used.append(within)
        told.append(float(s))
        played.append(m)
    return Run(
        x,
        np.array(used),
        np.array(told),
        np.array(played),
        endowment,
        INNER[inner][0].eta,  # type: ignore[attr-defined]
        len(INNER[inner]),
    )


RUNS = st.builds(
    play,
    rows=st.sampled_from(ROWS),
    slopes=st.sampled_from(SLOPES),
    seed=st.integers(0, 2**16),
    T=st.integers(1, 200),
    d=st.integers(1, 5),
    inner=st.integers(0, len(INNER) - 1),
)


def comparators(x: Array, s: Array) -> list[Array]:
    """In hindsight good ones, of several sizes, and some that are not."""
    M = np.abs(x).max(axis=0)
    M = np.where(M > 0, M, 1.0)
    directions = [-(s @ x) / M**2, -np.sign(s @ x) / M, np.ones(x.shape[1]) / M]
    directions += [(np.arange(x.shape[1]) == 0) / M]
    found = []
    for w in directions:
        L = np.abs(x @ w).max()
        if L > 0:
            found += [w / L * size for size in (1e-3, 0.3, 1.0, 30.0, 1e3)]
    return found


@settings(derandomize=True, deadline=None, max_examples=150)
@given(run=RUNS)
def test_thm_margin_domain(run: Run) -> None:
    for w in comparators(run.counted, run.slopes):
        bound = theory_margin.margin_bound(
            run.counted,
            run.slopes,
            w,
            endowment=run.endowment,
            eta=run.eta,
            learners=run.learners,
        )
        assert theory_margin.margin_regret(run.counted, run.slopes, run.margins, w) <= bound


@settings(derandomize=True, deadline=None, max_examples=100)
@given(run=RUNS)
def test_thm_guard(run: Run) -> None:
    guarded = np.abs(run.came) > np.abs(run.counted) * (1 + 1e-12)
    assert (guarded.sum(axis=0) <= theory_margin.guard_rounds(run.came)).all()
    rng = np.random.default_rng(0)
    w = rng.standard_normal(run.came.shape[1])
    cost = np.abs(run.slopes[:, None] * (run.counted - run.came) * w).sum()
    assert cost <= theory_margin.guard_bound(run.came, w) * (1 + 1e-9)


def test_guard_is_needed_often() -> None:
    """The bound is no idle number: a feature that jumps by 1,000 is guarded as often as it says."""
    values = np.array([[1.0]] + [[1000.0]] * 200)
    M, count = 1.0, 0
    for (x,) in values[1:]:
        new = float(largest(np, np.float64(M), np.float64(x)))
        count += new < x
        M = new
    assert count == theory_margin.guard_rounds(values)[0] == 120


def test_bad_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="within \\[-1, 1\\]"):
        theory_margin.margin_bound([[1.0]], [2.0], [1.0])
    with pytest.raises(ValueError, match="expected rows"):
        theory_margin.margin_bound([[1.0]], [1.0], [1.0, 2.0])
