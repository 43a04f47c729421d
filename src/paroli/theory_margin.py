r"""Regret in the margin domain, and what the guard against outliers costs: statements and proofs.

The paper's theorems are about vectors v with ‖v‖ ≤ 1/2.  `paroli.core.margin` plays linear models,
where x_t is known before the bet, and confines only the bet x_t·v.  What it guarantees is this.

**Setting.**  In round t the values x_t come first (as they count: see the guard below), then the
learner bets p_t = clip(x_t·u_t, ±1/2) of its wealth, i.e. plays the margin m_t = Wealth p_t; then
comes a slope \|s_t\| ≤ 1.  Let M_{t,i} = max_{r≤t} \|x_{r,i}\|, M_i = M_{T,i}, let ρ_i be M_i over
the first non-zero \|x_{t,i}\|, and let ε_i be the wealth with which coordinate i starts in each of
the K inner learners, one of which is Algorithm 2.

**Theorem 1 (margin domain).**  For every ẘ, with L = max_t \|x_t·ẘ\| and
Z = Σ_t (s_t x_t·ẘ)² / L²,

.. math::
    \sum_t s_t (m_t - x_t \cdot \mathring w) \le \epsilon + \inf_c \left\{
        \frac{L}{c} \left(\log \frac{L}{c \epsilon} - 1\right) + L c Z
        + \frac{L}{c} R^v\left(c\, \tfrac{\mathring w}{L}\right) \right\}

over all 0 < c ≤ 1/2 with c \|ẘ_i\| M_i ≤ L/2 for every i, where R^v is the inner learners' regret,
which Theorem 2 bounds.

*Proof.*  Let v̊ = c ẘ/L, so \|x_t·v̊\| ≤ c ≤ 1/2 in every round: v̊ lies in every slab.  The function
ℓ(p) = -log(1 - s p) is convex on \|p\| ≤ 1/2, so ℓ(p_t) - ℓ(x_t·v̊) ≤ s_t/(1 - s_t p_t) ·
(p_t - x_t·v̊).  Where the clip is active and s_t pushes outward, s_t (p_t - x_t·v̊) ≤ 0, since x_t·v̊
is within [-1/2, 1/2] and p_t is its end; there z_t = 0.  Where it is active and s_t pushes inward,
s_t p_t ≤ s_t x_t·u_t.  In each case ℓ(p_t) - ℓ(x_t·v̊) ≤ z_t·(u_t - v̊).  Summing, and with
-log(1 - a) ≤ a + a² for \|a\| ≤ 1/2,

.. math::
    \log \text{Wealth}_T \ge \log \epsilon - \sum_t s_t x_t \cdot \mathring v
        - \sum_t (s_t x_t \cdot \mathring v)^2 - R^v(\mathring v),

which is ``eqn:regretrecursion`` with x·v̊ in the place of the norm; the rest is the proof of
``thm:generalrecursiveregret``, with the seminorm max_t \|x_t·ẘ\| in the place of ‖ẘ‖.  (If L = 0
the regret is at most ε, because wealth stays positive.)  ∎

**Theorem 2 (units that grow, and learners added up).**  With the inner gradients z_t/2 in units of
M_t and the sums of the past changing their unit when M grows, for every v̊ with \|v̊_i\| M_i ≤ 1/2,

.. math::
    R^v(\mathring v) \le 2 \sum_i \left[ B_i\left(M_i |\mathring v_i|\right)
        + (K - 1)\, \epsilon_i \right]

where B_i is coordinate i's part of the bound of ``thm:tighterdiag`` with the initial wealth ε_i,
G_i = Σ_t (s_t x_{t,i} / M_i)², and ρ_i² G_i in the place of G_i in log (1 + 4 G_i)^η only.

*Proof.*  Adding learners: u = Σ_k u^k and z·(u - v̊) = z·(u¹ - v̊) + Σ_{k>1} z·u^k, and a bettor
never loses more than the wealth it started with.  The factor 2 undoes the halving.  For Algorithm
2, look at one coordinate in fixed units: the gradients g_t = z_t/2 have \|g_t\| ≤ \|s_t x_t\| ≤ M_t
since 1 - s p ≥ 1/2; the fraction of wealth that it bets minimises v Σ z + A_t v²/(4η) over
\|v\| ≤ 1/(2 M_t), with A_t = 5 M_t² + Σ z², where M_t is known before the bet.  Regulariser and
indicator of the domain only grow, so the analysis of the regularised leader goes through as in the
paper with Σ_t z_t²/A_t ≤ Σ_t z_t² / (M_1² + Σ_{r≤t} z_r²) ≤ log(1 + 4 Σ g²/M_1²), because
z_t² ≤ 4 M_t².  In units of M_T that is log(1 + 4 ρ² G), and all else is as printed.  Clipping the
bet to \|u\| ≤ 1/(2 M_t) is the constraint reduction on intervals that shrink to one that has v̊.  ∎

**Theorem 3 (the guard).**  A value beyond 3 M_{t-1} counts as ±1.05 M_{t-1}, and that is the new
M_t.  Against the values as they came, regret is larger by Σ_t s_t (x_t^{counted} - x_t)·ẘ at most.
If \|x_{t,i}\| ≤ b_i throughout and a_i is the first non-zero one, coordinate i is guarded in at
most n_i = ⌈log(b_i / 3a_i) / log 1.05⌉ rounds (none if b_i ≤ 3 a_i), and all of them together cost
at most Σ_i \|ẘ_i\| Σ_{k=1}^{n_i} (b_i - 1.05^k a_i): a number that does not grow with T.

*Proof.*  After k guarded rounds M ≥ 1.05^k a_i, and a guarded round needs b_i > 3M.  In the k-th
the value counts as at least 1.05^k a_i, and its sign is right.  ∎

>>> import numpy as np
>>> rows, slopes = np.array([[1.0, 0.5]] * 100), np.full(100, -1.0)
>>> round(margin_bound(rows, slopes, [1.0, 1.0], endowment=[0.5, 0.5]), 1)
297.4
>>> round(guard_bound([[1.0], [1e3]], [2.0]))
225388
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from paroli.theory import FloatArray, _diagonal_terms, _recursive_infimum

# The constants, typed here and not taken from `paroli.core`, as in `paroli.theory`.
OUTLYING = 3.0
GROWTH = 1.05
HALF = 0.5


def margin_regret(
    rows: npt.ArrayLike, slopes: npt.ArrayLike, margins: npt.ArrayLike, comparator: npt.ArrayLike
) -> float:
    r"""What was lost against the comparator's margins.

    .. math:: \sum_t s_t (m_t - x_t \cdot \mathring w)

    >>> margin_regret([[1.0], [2.0]], [1.0, -1.0], [0.5, 0.0], [1.0])
    1.5
    """
    x, s, w = _checked(rows, slopes, comparator)
    return float(s @ (np.asarray(margins, dtype=np.float64) - x @ w))


def margin_bound(
    rows: npt.ArrayLike,
    slopes: npt.ArrayLike,
    comparator: npt.ArrayLike,
    *,
    epsilon: float = 1.0,
    endowment: npt.ArrayLike = 1.0,
    eta: float = 0.5,
    learners: int = 1,
) -> float:
    """The bound on `margin_regret` of Theorems 1 and 2.

    Args:
        rows: the x_t as they counted, (T, d).
        slopes: the s_t, within [-1, 1].
        comparator: ẘ.
        epsilon: initial wealth.
        endowment: the initial wealth of each coordinate in each inner learner.
        eta: of Algorithm 2.
        learners: how many inner learners are added up; one of them is Algorithm 2.

    >>> margin_bound([[1.0]] * 9, [1.0] * 9, [0.0], epsilon=0.5)
    0.5
    """
    x, s, w = _checked(rows, slopes, comparator)
    if (np.abs(s) > 1).any():
        raise ValueError(f"slopes: the theorem is about slopes within [-1, 1], not {s[0]}")
    L = float(np.abs(x @ w).max(initial=0.0))
    if L == 0:
        return epsilon
    M = np.abs(x).max(axis=0)
    seen = M > 0
    x, w, M = x[:, seen], w[seen], M[seen]
    start = np.broadcast_to(np.asarray(endowment, dtype=np.float64), seen.shape)[seen]
    first = np.abs(x)[(x != 0).argmax(axis=0), np.arange(len(M))]
    G = np.sum((s[:, None] * x / M) ** 2, axis=0)
    Z = np.asarray(np.sum((s * (x @ w) / L) ** 2))

    def inner_regret(c: Any) -> FloatArray:
        size = np.asarray(c)[..., None] * np.abs(w) * M / L
        with np.errstate(divide="ignore"):
            logs = np.log(size) - np.log(start) - 1
        terms = _diagonal_terms(G, eta, logs, 2 / eta, growth=M / first)
        own = np.where(size > 0, size * terms, 0.0)
        regret = 2 * np.sum(2 * own + learners * start, axis=-1)
        return np.where((size <= HALF).all(axis=-1), regret, math.inf)

    return float(epsilon + _recursive_infimum(L, epsilon, Z, inner_regret))


def guard_rounds(values: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """In how many rounds each coordinate is guarded, at most (Theorem 3).

    >>> guard_rounds([[1.0, 1.0], [3.0, 1e3]])
    array([  0, 120])
    """
    a, b = _first_and_largest(values)
    with np.errstate(divide="ignore"):
        needed = np.ceil(np.log(b / (OUTLYING * a)) / math.log(GROWTH))
    return np.maximum(needed, 0).astype(np.intp)


def guard_bound(values: npt.ArrayLike, comparator: npt.ArrayLike) -> float:
    """What the guard costs against a comparator, at most (Theorem 3).

    Args:
        values: the x_t as they came, (T, d).
        comparator: ẘ.

    >>> guard_bound([[1.0], [2.0]], [5.0])
    0.0
    """
    a, b = _first_and_largest(values)
    n, w = guard_rounds(values), np.abs(np.asarray(comparator, dtype=np.float64))
    # The sum of 1.05^k over k = 1 ... n is geometric.
    powers = GROWTH * (GROWTH**n - 1) / (GROWTH - 1)
    return float(np.sum(w * (n * b - a * powers)))


def _first_and_largest(values: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    size = np.abs(np.asarray(values, dtype=np.float64))
    largest = size.max(axis=0)
    first = size[(size > 0).argmax(axis=0), np.arange(size.shape[1])]
    return np.where(largest > 0, first, 1.0), np.where(largest > 0, largest, 1.0)


def _checked(
    rows: npt.ArrayLike, slopes: npt.ArrayLike, comparator: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    x, s = np.asarray(rows, dtype=np.float64), np.asarray(slopes, dtype=np.float64)
    w = np.asarray(comparator, dtype=np.float64)
    if x.ndim != 2 or s.shape != x.shape[:1] or w.shape != x.shape[1:]:
        raise ValueError(
            f"expected rows (T, d), slopes (T,) and a comparator (d,), not {x.shape}, {s.shape} "
            f"and {w.shape}"
        )
    return x, s, w
