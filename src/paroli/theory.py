r"""Regret, and every bound of the paper as a function of a recorded run.

A run is recorded as arrays with one row a round: the gradients g_t and the points w_t, both of
shape (T, d); a comparator ẘ is a vector of d numbers.  Points and comparators are measured from
where the learner started.

Every function of a run takes ``rounds=``, a sequence of prefix lengths, and then returns an array
with the value after each of these many rounds instead of one float after the last: a curve of
measured regret beside its bound costs little more than its last point.

Three kinds of functions are kept apart:

* *bounds* hold as they stand, constants included; what they assume is checked, and a run that
  breaks the assumption is refused;
* where a display of the paper is *not* implied by its proof, the function says so and offers what
  is: ``as_printed=False`` in `recursive_bound` and `balance_bound`, `doubling_bound` in place of
  `doubling_epoch_reference`;
* *references*, named so, are the O(·) displays with the constants dropped: shapes to draw beside a
  curve, and no more.

>>> import numpy as np
>>> from paroli import OnlineLearner, diagonal
>>> from paroli.theory import diagonal_bound, regret
>>> gradients = np.tile([[1.0, -0.5], [0.5, -0.5]], (100, 1))
>>> learner, points = OnlineLearner(diagonal(), start=np.zeros(2)), []
>>> for g in gradients:
...     points.append(learner.point)
...     learner.update(g)
>>> comparator = np.array([-0.5, 0.5])
>>> measured = regret(gradients, np.array(points), comparator, rounds=[10, 200])
>>> bound = diagonal_bound(gradients, comparator, epsilon=1.0, eta=0.5, rounds=[10, 200])
>>> measured.round(2), bound.round(2)
(array([1.7, 1.7]), array([13.49, 86.62]))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from paroli.core.norms import dual

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]
Rounds: TypeAlias = "Sequence[int] | IntArray | None"

Value: TypeAlias = Any
"""A float; an array with one entry a prefix where ``rounds`` is given."""

InnerRegret: TypeAlias = Callable[[Any], Any]
"""R^v at c·ẘ/‖ẘ‖ as a function of c in [0, 1/2], elementwise in an array of c.  Where ``rounds`` is
given the last axis of c runs over the prefixes."""


# The paper's constants, typed here and not taken from `paroli.core`: a bound must not move with the
# code that it bounds.
HALF = 0.5
INITIAL_A = 5.0


# What was played -----------------------------------------------------------------------------


def regret(
    gradients: npt.ArrayLike,
    points: npt.ArrayLike,
    comparator: npt.ArrayLike,
    *,
    rounds: Rounds = None,
) -> Value:
    r"""What was lost against playing the comparator all along (Section 1).

    .. math:: R_T(\mathring w) = \sum_{t=1}^T g_t \cdot (w_t - \mathring w)

    >>> regret([[1.0], [-1.0], [1.0]], [[0.0], [-1.0], [0.0]], [-0.5])
    1.5
    >>> regret([[1.0], [-1.0], [1.0]], [[0.0], [-1.0], [0.0]], [-0.5], rounds=[1, 2, 3])
    array([0.5, 1. , 1.5])
    """
    g = _matrix("gradients", gradients)
    w, w_ring = _matrix("points", points, g.shape), _vector("comparator", comparator, g)
    n = _prefixes(rounds, g)
    return _value(_running(n, _dots(g, w)) - _running(n, g @ w_ring), rounds)


def wealth(
    gradients: npt.ArrayLike, points: npt.ArrayLike, epsilon: float, *, rounds: Rounds = None
) -> Value:
    r"""The money of a bettor who started with ε (Section 2).

    .. math:: \text{Wealth}_T = \epsilon - \sum_{t=1}^T g_t \cdot w_t

    >>> wealth([[0.5], [0.5]], [[0.0], [-1.0]], epsilon=1.0, rounds=[1, 2])
    array([1. , 1.5])
    """
    _check_positive("epsilon", epsilon)
    g = _matrix("gradients", gradients)
    w = _matrix("points", points, g.shape)
    return _value(epsilon - _running(_prefixes(rounds, g), _dots(g, w)), rounds)


def log_wealth(
    gradients: npt.ArrayLike, bets: npt.ArrayLike, epsilon: float, *, rounds: Rounds = None
) -> Value:
    r"""The logarithm of the same money, from the betting fractions v_t (``eqn:logwealth``).

    .. math:: \log \text{Wealth}_T = \log \epsilon + \sum_{t=1}^T \log(1 - g_t \cdot v_t)

    It stays finite where the wealth itself has left the range of a float.

    >>> log_wealth([[0.5], [0.5]], [[0.0], [-0.5]], epsilon=1.0)  # log(5/4)
    0.22314355131420976
    """
    _check_positive("epsilon", epsilon)
    g = _matrix("gradients", gradients)
    v = _matrix("bets", bets, g.shape)
    growth = np.log1p(-_checked_outcomes(_dots(g, v)))
    total = _running(_prefixes(rounds, g), growth)
    return _value(math.log(epsilon) + total, rounds)  # eqn:logwealth


def betting_fractions(
    gradients: npt.ArrayLike, points: npt.ArrayLike, epsilon: float
) -> FloatArray:
    r"""The v_t behind the points played, which `log_wealth` turns back into wealth.

    .. math:: v_t = \frac{w_t}{\text{Wealth}_{t-1}}, \qquad \|v_t\| \le \tfrac12

    (``eqn:wlessthanwealth``).  This is the other direction of ``eqn:logwealth``; it needs a wealth
    within the float range.

    >>> betting_fractions([[0.5], [0.5]], [[0.25], [-0.4375]], epsilon=1.0)
    array([[ 0.25],
           [-0.5 ]])
    """
    g = _matrix("gradients", gradients)
    before = wealth(g, points, epsilon, rounds=range(len(g)))
    if not (before > 0).all():
        t = int(np.argmin(before > 0))
        raise ValueError(
            f"points: the wealth before round {t + 1} is {before[t]}, so they are not fractions of "
            f"a wealth that started at epsilon = {epsilon}; give the epsilon of the learner, and "
            f"points without its start"
        )
    fractions: FloatArray = _matrix("points", points, g.shape) / before[:, None]
    return fractions  # eqn:wlessthanwealth


# From wealth to regret -----------------------------------------------------------------------


def duality_bound(
    conjugate: Callable[[float], float], comparator_norm: float, epsilon: float
) -> float:
    r"""Wealth above f means regret below its Fenchel conjugate (``thm:duality``).

    .. math::
        \text{Wealth}_T
        \ge f\left(-\sum_{t=1}^T \frac{g_t \cdot \mathring w}{\|\mathring w\|}\right)
        \quad\Longrightarrow\quad R_T(\mathring w) \le \epsilon + f^\star(\|\mathring w\|)

    Args:
        conjugate: f⋆.
        comparator_norm: ‖ẘ‖.
        epsilon: initial wealth.

    >>> duality_bound(lambda y: exponential_conjugate(y, a=1.0, b=0.5), 0.5, epsilon=1.0)
    0.0
    """
    _check_positive("epsilon", epsilon)
    return epsilon + conjugate(comparator_norm)  # thm:duality


def exponential_conjugate(y: float, a: float, b: float) -> float:
    r"""The Fenchel conjugate of a · exp(b x) (``thm:conjugate``).

    .. math::
        f(x) = a e^{bx} \quad\Longrightarrow\quad
        f^\star(y) = \sup_x\, xy - f(x) = \frac{y}{b} \left(\log \frac{y}{ab} - 1\right)

    for a, b, y ≥ 0, with its limits where one of them is 0.

    >>> exponential_conjugate(1.0, a=1.0, b=1.0)
    -1.0
    >>> exponential_conjugate(0.0, a=1.0, b=1.0), exponential_conjugate(1.0, a=0.0, b=1.0)
    (0.0, inf)
    """
    for name, value in (("y", y), ("a", a), ("b", b)):
        _check_nonnegative(name, value)
    if y == 0:
        return 0.0 if b > 0 else -a  # with b = 0 the function is the constant a
    if a == 0 or b == 0:
        return math.inf
    return y / b * (math.log(y) - math.log(a) - math.log(b) - 1)  # thm:conjugate


def balance(A: float, B: float, C: float, D: float) -> float:
    r"""The left side of ``thm:balancelog``, minimised numerically.

    .. math:: \inf_{x \in [0, 1/2]} \frac{A}{x} \left[\log \frac{B}{x} - C\right] + D x

    >>> round(balance(1.0, 1.0, 0.0, 100.0), 3)
    27.417
    """
    log_B = _checked_balance(A, B, C, D)

    def objective(x: FloatArray) -> FloatArray:
        values: FloatArray = A / x * (log_B - np.log(x) - C) + D * x
        return values

    return float(_infimum(objective, ())) if A > 0 else 0.0


def balance_bound(A: float, B: float, C: float, D: float, *, as_printed: bool = False) -> float:
    r"""The right side of ``thm:balancelog``.

    .. math::
        2 \max\left[\sqrt{AD \max\left[\log\tfrac{B\sqrt D}{\sqrt A} - C,\, 1\right]},\;
        2A \max\left[\log\tfrac{B\sqrt{4A + D}}{\sqrt A} - C,\, 1\right]\right]

    The lemma prints 4A² for 4A.  Its proof sets x = 1/2 at the end, where log(B/x) is
    log(B√(4A)/√A), so it shows the form above, which is also the one that the paper's theorems use
    (with A = 1, or with A = ‖ẘ‖ and √(4 + ·) in the result).  With 4A² the lemma is false for small
    A:

    >>> A, B, C, D = 1e-10, 0.5 * math.exp(20), 0.0, 0.0
    >>> balance(A, B, C, D) <= balance_bound(A, B, C, D)
    True
    >>> balance(A, B, C, D) <= balance_bound(A, B, C, D, as_printed=True)
    False
    """
    log_B = _checked_balance(A, B, C, D)
    if A == 0:
        return 0.0
    four_A = 4 * A**2 if as_printed else 4 * A
    inside = log_B + 0.5 * (_log(D) - _log(A)) - C
    outside = log_B + 0.5 * (_log(four_A + D) - _log(A)) - C
    return float(
        2 * max(math.sqrt(A * D * max(inside, 1.0)), 2 * A * max(outside, 1.0))  # thm:balancelog
    )


# A constant bet ------------------------------------------------------------------------------


def constant_log_wealth(
    gradients: npt.ArrayLike, bet: npt.ArrayLike, epsilon: float, *, rounds: Rounds = None
) -> Value:
    r"""Log-wealth of always betting the same fraction v̊ (``eqn:logfixedwealth``).

    .. math::
        \log \text{Wealth}_T(\mathring v) = \log\epsilon + \sum_t \log(1 - g_t \cdot \mathring v)

    >>> round(constant_log_wealth([[1.0]] * 10, [-0.5], epsilon=1.0) / math.log(1.5), 12)
    10.0
    """
    _check_positive("epsilon", epsilon)
    g = _matrix("gradients", gradients)
    growth = np.log1p(-_checked_outcomes(g @ _vector("bet", bet, g)))
    total = _running(_prefixes(rounds, g), growth)
    return _value(math.log(epsilon) + total, rounds)  # eqn:logfixedwealth


def constant_log_wealth_bound(
    gradients: npt.ArrayLike, bet: npt.ArrayLike, epsilon: float, *, rounds: Rounds = None
) -> Value:
    r"""What a constant bet has at least (``eqn:logfixedwealthbound``).

    .. math::
        \log \text{Wealth}_T(\mathring v)
        \ge \log\epsilon + \sum_t -g_t \cdot \mathring v - (g_t \cdot \mathring v)^2

    since log(1 - x) ≥ -x - x² for x ≤ 1/2, which is checked.

    >>> constant_log_wealth_bound([[1.0]] * 10, [-0.5], epsilon=1.0)
    2.5
    """
    _check_positive("epsilon", epsilon)
    g = _matrix("gradients", gradients)
    outcome = g @ _vector("bet", bet, g)
    if (outcome > HALF * (1 + _tolerance(gradients))).any():
        t = int(np.argmax(outcome))
        raise ValueError(
            f"bet: log(1 - x) >= -x - x² needs x = g·v <= 1/2, but round {t + 1} has {outcome[t]}; "
            f"give a bet of norm at most 1/2 and gradients of dual norm at most 1"
        )
    total = _running(_prefixes(rounds, g), -outcome - outcome**2)
    return _value(math.log(epsilon) + total, rounds)  # eqn:logfixedwealthbound


def best_constant_bet(
    gradients: npt.ArrayLike, comparator: npt.ArrayLike, norm: float = math.inf
) -> FloatArray:
    r"""Section 2.1's oracle bet towards the comparator.

    .. math::
        \mathring v = -\frac{\mathring w}{\|\mathring w\|} \frac{S}{2|S| + 2Z}, \qquad
        S = \sum_t g_t \cdot \tfrac{\mathring w}{\|\mathring w\|}, \quad
        Z = \sum_t \left(g_t \cdot \tfrac{\mathring w}{\|\mathring w\|}\right)^2

    >>> best_constant_bet([[1.0, 0.0]] * 10, [-3.0, 0.0])
    array([-0.25,  0.  ])
    """
    g = _matrix("gradients", gradients)
    u, _ = _direction(comparator, g, norm)
    along = g @ u
    S, Z = float(along.sum()), float(along @ along)
    fraction = -S / (2 * abs(S) + 2 * Z) if S else 0.0
    return u * fraction


def best_constant_log_wealth_bound(
    gradients: npt.ArrayLike,
    comparator: npt.ArrayLike,
    epsilon: float,
    norm: float = math.inf,
    *,
    rounds: Rounds = None,
) -> Value:
    r"""The logarithm of Section 2.1's f: what `best_constant_bet` has at least.

    .. math:: \log \text{Wealth}_T(\mathring v) \ge \log\epsilon + \frac{S^2}{4|S| + 4Z}

    >>> best_constant_log_wealth_bound([[1.0, 0.0]] * 10, [-3.0, 0.0], epsilon=1.0)
    1.25
    """
    _check_positive("epsilon", epsilon)
    g = _checked_gradients(gradients, dual(norm), "Section 2.1")
    u, _ = _direction(comparator, g, norm)
    n, along = _prefixes(rounds, g), g @ u
    S, Z = np.abs(_running(n, along)), _running(n, along**2)
    denominator = 4 * S + 4 * Z
    gain = S * S / np.where(denominator > 0, denominator, 1.0)
    return _value(math.log(epsilon) + gain, rounds)


# Algorithm 1 ---------------------------------------------------------------------------------


def recorded_inner_regret(
    inner_gradients: npt.ArrayLike,
    bets: npt.ArrayLike,
    comparator: npt.ArrayLike,
    norm: float = math.inf,
    *,
    rounds: Rounds = None,
) -> InnerRegret:
    r"""The inner learner's regret as it was measured, for `general_recursive_bound`.

    .. math::
        c \mapsto R^v_T\left(c \tfrac{\mathring w}{\|\mathring w\|}\right)
        = \sum_t z_t \cdot v_t - c \sum_t z_t \cdot \tfrac{\mathring w}{\|\mathring w\|}

    >>> inner_regret = recorded_inner_regret([[1.0], [0.8]], [[0.0], [-0.25]], [-1.0])
    >>> inner_regret(0.5)
    array([0.7])
    """
    z = _matrix("inner_gradients", inner_gradients)
    v = _matrix("bets", bets, z.shape)
    u, _ = _direction(comparator, z, norm)
    n = _prefixes(rounds, z)
    own, along = _running(n, _dots(z, v)), _running(n, z @ u)
    return lambda c: own - c * along


def log_wealth_bound(
    gradients: npt.ArrayLike,
    bet: npt.ArrayLike,
    epsilon: float,
    inner_regret: float | FloatArray,
    *,
    rounds: Rounds = None,
) -> Value:
    r"""Algorithm 1 has the wealth of any constant bet, but for the inner regret.

    .. math::
        \log \text{Wealth}_T \ge \log\epsilon + \sum_t \left(-g_t \cdot \mathring v
        - (g_t \cdot \mathring v)^2\right) - R^v_T(\mathring v)

    (``eqn:regretrecursion``, where the second relation is printed as an equality.)

    Args:
        gradients: (T, d).
        bet: v̊, of norm at most 1/2.
        epsilon: initial wealth.
        inner_regret: the inner learner's regret at v̊, on the losses -log(1 - g·v) or, since they
            are convex, on the gradients z.

    >>> log_wealth_bound([[1.0]] * 10, [-0.5], epsilon=1.0, inner_regret=1.5)
    1.0
    """
    fixed = constant_log_wealth_bound(gradients, bet, epsilon, rounds=rounds)
    return fixed - inner_regret  # eqn:regretrecursion


def general_recursive_bound(
    gradients: npt.ArrayLike,
    comparator: npt.ArrayLike,
    epsilon: float,
    inner_regret: InnerRegret,
    norm: float = math.inf,
    *,
    rounds: Rounds = None,
) -> Value:
    r"""Algorithm 1 around any inner learner whatever (``thm:generalrecursiveregret``).

    .. math::
        R_T(\mathring w) \le \inf_{c \in [0, 1/2]} \epsilon
        + \frac{\|\mathring w\|}{c} \left(\log \frac{\|\mathring w\|}{c \epsilon} - 1\right)
        + \|\mathring w\| c Z
        + \frac{\|\mathring w\|}{c} R^v_T\left(c \tfrac{\mathring w}{\|\mathring w\|}\right),
        \qquad Z = \sum_t \left(g_t \cdot \tfrac{\mathring w}{\|\mathring w\|}\right)^2

    The infimum is searched on a grid of c, refined around its best entry.  Every c gives a valid
    bound; for a convex inner regret the objective is convex in 1/c, so the search finds the least.
    At ẘ = 0 the value is the limit ε - ε exp(-R^v(0)).

    Args:
        gradients: (T, d), with dual norms of at most 1.
        comparator: ẘ.
        epsilon: initial wealth.
        inner_regret: c -> R^v_T(c ẘ/‖ẘ‖), elementwise in an array of c; `recorded_inner_regret`
            makes one of a recorded run.
        norm: the p of the norm in which bets are at most 1/2: 1, 2 or inf.
        rounds: prefix lengths.

    >>> round(general_recursive_bound([[1.0]] * 100, [-2.0], 1.0, lambda c: 3 * c**2 + 1), 2)
    64.83
    """
    _check_positive("epsilon", epsilon)
    g = _checked_gradients(gradients, dual(norm), "thm:generalrecursiveregret")
    u, length = _direction(comparator, g, norm)
    Z = _running(_prefixes(rounds, g), (g @ u) ** 2)
    return _value(epsilon + _recursive_infimum(length, epsilon, Z, inner_regret), rounds)


def nearly_linear_bound(
    gradients: npt.ArrayLike,
    comparator: npt.ArrayLike,
    epsilon: float,
    inner_epsilon: float,
    inner_G: float | FloatArray,
    norm: float = math.inf,
    *,
    as_printed: bool = True,
    rounds: Rounds = None,
) -> Value:
    r"""Algorithm 1 around an inner learner with almost linear regret (``thm:recursiveregret``).

    With its constants, ``thm:tighterrecursiveregret``: let R^v_T(v̊) ≤ ε' + ‖v̊‖ G_T(v̊/‖v̊‖).  If
    -Σ g·ẘ/‖ẘ‖ ≥ 2 G_T(ẘ/‖ẘ‖), then

    .. math::
        R_T(\mathring w) \le \epsilon + 4 \sqrt{\left(4\|\mathring w\|^2 + \sum_t (g_t \cdot
        \mathring w)^2\right) \max\left[\log\left(\frac{2\sqrt{4\|\mathring w\|^2 + \sum_t (g_t
        \cdot \mathring w)^2}}{\epsilon}\right) + \epsilon' - 1,\, 1\right]}

    and otherwise R_T(ẘ) ≤ ε + 2 ‖ẘ‖ G_T(ẘ/‖ẘ‖).  The theorem writes ε for both the initial wealth
    and the inner regret at the origin; its proof keeps log Wealth ≥ log ε - ε' + …, which tells
    them apart as above.

    The first case as printed does not follow from the proof, and is false for far comparators.  The
    last step applies ``thm:balancelog`` and keeps one square root of its two branches; with
    L = log(2‖ẘ‖√(4+Z)/ε) + ε' - 1 and Z = Σ (g·ẘ/‖ẘ‖)² what is shown is (``as_printed=False``)

    .. math::
        R_T(\mathring w) \le \epsilon + 4 \|\mathring w\| \max\left[\sqrt{Z \max\left[
        \log\left(\tfrac{2\|\mathring w\|\sqrt Z}{\epsilon}\right) + \epsilon' - 1,\, 1\right]},\;
        2 \max[L,\, 1]\right]

    and the second branch, 8‖ẘ‖L, is above the printed 4‖ẘ‖√((4+Z)L) exactly where 4L > 4 + Z.  So
    the printed form holds where L ≤ 1 + Z/4, and fails for instance for d = 1, 10,000 gradients of
    -1/100, ε = 1 and ẘ = e^50: the regret is 99.7 ẘ, the printed bound 64.8 ẘ, the one shown
    420 ẘ.

    Args:
        gradients: (T, d), with dual norms of at most 1.
        comparator: ẘ.
        epsilon: initial wealth.
        inner_epsilon: ε', the inner regret at the origin.
        inner_G: G_T(ẘ/‖ẘ‖), one number or one for each of ``rounds``.
        norm: the p of the norm in which bets are at most 1/2: 1, 2 or inf.
        as_printed: the first case as the theorem prints it, or as its proof shows it.
        rounds: prefix lengths.

    >>> g = [[1.0]] * 100
    >>> round(nearly_linear_bound(g, [-2.0], 1.0, inner_epsilon=1.0, inner_G=60.0), 2)
    241.0
    >>> round(nearly_linear_bound(g, [-2.0], 1.0, inner_epsilon=1.0, inner_G=10.0), 2)
    158.11
    """
    _check_positive("epsilon", epsilon)
    _check_nonnegative("inner_epsilon", inner_epsilon)
    g = _checked_gradients(gradients, dual(norm), "thm:tighterrecursiveregret")
    u, length = _direction(comparator, g, norm)
    n, along = _prefixes(rounds, g), g @ u
    X, Z, G = -_running(n, along), _running(n, along**2), np.asarray(inner_G, dtype=np.float64)
    log_scale = math.log(2) + _log(length) - math.log(epsilon) + inner_epsilon - 1
    L = np.maximum(log_scale + 0.5 * np.log(4 + Z), 1.0)
    if as_printed:
        curved = np.sqrt((4 + Z) * L)
    else:
        curved = np.maximum(np.sqrt(Z * np.maximum(log_scale + 0.5 * _log(Z), 1.0)), 2 * L)
    case = np.where(X >= 2 * G, 4 * curved, 2 * G)
    return _value(epsilon + length * case, rounds)  # thm:tighterrecursiveregret


def recursive_bound(
    gradients: npt.ArrayLike,
    inner_gradients: npt.ArrayLike,
    comparator: npt.ArrayLike,
    epsilon: float,
    inner_epsilon: float,
    eta: float,
    *,
    as_printed: bool = True,
    rounds: Rounds = None,
) -> Value:
    r"""Algorithm 1 with Algorithm 2 inside (Section 5): `nearly_linear_bound` with ‖·‖_∞.

    Algorithm 2 needs gradients of at most 1 and is sent z/2, so its regret on z is twice
    ``thm:tighterdiag`` on z/2: with G = `diagonal_G` of z/2,

    .. math::
        R^v_T(\mathring v) \le 2 \left(d\, \epsilon_{\text{inner}}
        + \|\mathring v\|_\infty\, G(\mathring v / \|\mathring v\|_\infty)\right),

    which is ``thm:tighterrecursiveregret``'s assumption with ε' = 2 d ε_inner and G_T = 2 G.  Where
    -Σ g·ẘ/‖ẘ‖_∞ ≥ 2 G_T (see `full_matrix_case`) the result is the full-matrix bound, and
    otherwise ε + 2 ‖ẘ‖_∞ G_T, which grows like ``eqn:simplediag``.

    The full-matrix bound as printed holds where log(2‖ẘ‖_∞ √(4+Z)/ε) + 2 d ε_inner ≤ 2 + Z/4, and
    is false for some comparators far beyond; `nearly_linear_bound` says why.  Pass
    ``as_printed=False`` for the form that always holds.

    Args:
        gradients: (T, d), with ‖g_t‖₁ ≤ 1.
        inner_gradients: the z_t = g_t / (1 - g_t·v_t) of Algorithm 1 as printed (T, d), not halved.
        comparator: ẘ.
        epsilon: the wealth that `paroli.recursive` starts with.
        inner_epsilon: the wealth that `paroli.diagonal` starts with on each coordinate.
        eta: the η of `paroli.diagonal`.
        as_printed: the first case as the theorem prints it, or as its proof shows it.
        rounds: prefix lengths.

    >>> g = np.full((100, 1), 0.5)
    >>> v = np.linspace(0.0, -0.5, 100)[:, None]
    >>> round(recursive_bound(g, g / (1 - g * v), [-2.0], 1.0, inner_epsilon=1.0, eta=0.5), 2)
    103.31
    """
    name = "thm:tighterrecursiveregret"
    g = _checked_gradients(gradients, 1.0, name)
    G_T = _inner_G(g, inner_gradients, comparator, inner_epsilon, eta, rounds)
    return nearly_linear_bound(
        _like_given(g, gradients),
        comparator,
        epsilon,
        2 * g.shape[1] * inner_epsilon,
        G_T,
        as_printed=as_printed,
        rounds=rounds,
    )


def full_matrix_case(
    gradients: npt.ArrayLike,
    inner_gradients: npt.ArrayLike,
    comparator: npt.ArrayLike,
    inner_epsilon: float,
    eta: float,
    *,
    rounds: Rounds = None,
) -> Value:
    r"""Which case of ``thm:recursiveregret`` applies in `recursive_bound`.

    .. math:: -\sum_t g_t \cdot \tfrac{\mathring w}{\|\mathring w\|_\infty} \ge 2 G_T

    'there is some amount of signal in the gradients'.  A bool, or an array of them.

    >>> g = np.full((1000, 1), 0.5)
    >>> full_matrix_case(g, g, [-2.0], inner_epsilon=1.0, eta=0.5, rounds=[10, 1000])
    array([False,  True])
    """
    g = _checked_gradients(gradients, 1.0, "thm:tighterrecursiveregret")
    G_T = _inner_G(g, inner_gradients, comparator, inner_epsilon, eta, rounds)
    u, _ = _direction(comparator, g, math.inf)
    case = -_running(_prefixes(rounds, g), g @ u) >= 2 * G_T
    return bool(case[0]) if rounds is None else case


def _inner_G(
    g: FloatArray,
    inner_gradients: npt.ArrayLike,
    comparator: npt.ArrayLike,
    inner_epsilon: float,
    eta: float,
    rounds: Rounds,
) -> FloatArray:
    """G_T(ẘ/‖ẘ‖_∞) of Algorithm 2 that is sent z/2, one entry for each prefix."""
    z = _matrix("inner_gradients", inner_gradients, g.shape)
    _check_inner_gradients(z, g)
    u, _ = _direction(comparator, g, math.inf)
    n = _prefixes(rounds, g)
    return 2 * _diagonal_G(_running_products(n, z, z) / 4, u, inner_epsilon, eta)


# Algorithm 2 ---------------------------------------------------------------------------------


def ftrl_bound(
    inner_gradients: npt.ArrayLike,
    comparator: npt.ArrayLike,
    eta: float,
    *,
    rounds: Rounds = None,
) -> Value:
    r"""The innermost regret: `paroli.ftrl` on gradients |z| ≤ 2 (in ``thm:tighterdiag``'s proof).

    .. math::
        R^v_T(\mathring v) \le \sum_i \frac{A_{T,i}}{4\eta} \mathring v_i^2
        + \eta \sum_t \frac{z_{t,i}^2}{A_{t-1,i}}
        \le \sum_i \frac{A_{T,i}}{4\eta} \mathring v_i^2
        + \eta \log\left(1 + \sum_t z_{t,i}^2\right), \qquad A_{t,i} = 5 + \sum_{s \le t} z_{s,i}^2

    for ‖v̊‖_∞ ≤ 1/2.  The value is the first of the two.  (The proof prints A² in the second sum,
    which is a slip: the next line has A.)

    >>> round(ftrl_bound([[2.0], [-1.0]], [0.5], eta=0.5), 6)
    1.705556
    """
    _check_positive("eta", eta)
    z = _checked_gradients(inner_gradients, math.inf, "thm:tighterdiag's proof", 2.0)
    v_ring = _checked_comparator(comparator, z, "thm:tighterdiag's proof")
    n = _prefixes(rounds, z)
    squares = z * z
    A = INITIAL_A + np.cumsum(squares, axis=0)
    shares = squares / (A - squares)
    A_T = INITIAL_A + _running_products(n, z, z)
    second = eta * _running(n, shares.sum(axis=1))
    return _value(A_T @ v_ring**2 / (4 * eta) + second, rounds)


def diagonal_bound(
    gradients: npt.ArrayLike,
    comparator: npt.ArrayLike,
    epsilon: float,
    eta: float,
    *,
    rounds: Rounds = None,
) -> Value:
    r"""Algorithm 2: the first display of ``thm:tighterdiag`` (``thm:diaganalysis``'s constants).

    For ‖g_t‖_∞ ≤ 1 and ‖ẘ‖_∞ ≤ 1/2, with G_i = Σ_t g_{t,i}²,

    .. math::
        R_T(\mathring w) \le d\epsilon + 2 \sum_i |\mathring w_i| \max\Bigl[
        &\sqrt{\left[\tfrac{5}{4\eta} + G_i(1 + \tfrac2\eta)\right] \max\left[\log\left(\tfrac{
        |\mathring w_i| (1 + 4G_i)^\eta \sqrt{2/\eta + G_i(1 + 2/\eta)}}{\epsilon}\right) - 1,
        1\right]}, \\
        &2 \max\left[\log\left(\tfrac{|\mathring w_i| (1 + 4G_i)^\eta
        \sqrt{4 + 5/4\eta + G_i(1 + 2/\eta)}}{\epsilon}\right) - 1,\, 1\right] \Bigr]

    with the printed constants.  (The 2/η under the logarithm is 5/4η at the end of the proof; 2/η
    is the larger, so both hold.)

    Args:
        gradients: (T, d).
        comparator: ẘ, a point of the box that Algorithm 2 plays in.
        epsilon: the wealth that each coordinate starts with.
        eta: the η of Algorithm 2.
        rounds: prefix lengths.

    >>> round(diagonal_bound(np.ones((100, 1)), [-0.5], epsilon=1.0, eta=0.5), 2)
    48.1
    >>> diagonal_bound(np.ones((100, 2)), [0.0, 0.0], epsilon=1.0, eta=0.5)
    2.0
    """
    _check_positive("epsilon", epsilon)
    _check_positive("eta", eta)
    g = _checked_gradients(gradients, math.inf, "thm:tighterdiag")
    w_ring = np.abs(_checked_comparator(comparator, g, "thm:tighterdiag"))
    G = _running_products(_prefixes(rounds, g), g, g)
    logs = _log(w_ring) - math.log(epsilon) - 1
    largest = _diagonal_terms(G, eta, logs, under_root=2 / eta)
    return _value(g.shape[1] * epsilon + 2 * largest @ w_ring, rounds)  # thm:tighterdiag


def diagonal_G(
    gradients: npt.ArrayLike,
    direction: npt.ArrayLike,
    epsilon: float,
    eta: float,
    *,
    rounds: Rounds = None,
) -> Value:
    r"""The G of ``thm:tighterdiag``'s second display: R_T(ẘ) ≤ dε + ‖ẘ‖_∞ G(ẘ/‖ẘ‖_∞).

    .. math::
        G(x) = 2 \sum_i |x_i| \max\Bigl[
        &\sqrt{\left[\tfrac{5}{4\eta} + G_i(1 + \tfrac2\eta)\right] \max\left[\log\left(\tfrac{
        (1 + 4G_i)^\eta \sqrt{5/4\eta + G_i(1 + 2/\eta)}}{2\epsilon}\right) - 1, 1\right]}, \\
        &2 \max\left[\log\left(\tfrac{(1 + 4G_i)^\eta
        \sqrt{4 + 5/4\eta + G_i(1 + 2/\eta)}}{2\epsilon}\right) - 1,\, 1\right] \Bigr]

    This is linear in ‖ẘ‖_∞, which ``thm:recursiveregret`` asks of an inner learner
    (``thm:diaganalysis``).  It prints 5/4η where the first display has 2/η, so for ẘ at the edge of
    the box it can be a little below the first display; both are bounds.

    Args:
        gradients: (T, d).
        direction: x = ẘ/‖ẘ‖_∞.
        epsilon: the wealth that each coordinate starts with.
        eta: the η of Algorithm 2.
        rounds: prefix lengths.

    >>> round(1.0 + 0.5 * diagonal_G(np.ones((100, 1)), [-1.0], epsilon=1.0, eta=0.5), 2)
    48.09
    """
    g = _checked_gradients(gradients, math.inf, "thm:tighterdiag")
    x = _vector("direction", direction, g)
    G = _running_products(_prefixes(rounds, g), g, g)
    return _value(_diagonal_G(G, x, epsilon, eta), rounds)


def _diagonal_G(G: FloatArray, x: FloatArray, epsilon: float, eta: float) -> FloatArray:
    _check_positive("epsilon", epsilon)
    _check_positive("eta", eta)
    logs = np.full(x.shape, math.log(HALF) - math.log(epsilon) - 1)
    largest = _diagonal_terms(G, eta, logs, under_root=5 / (4 * eta))
    result: FloatArray = 2 * largest @ np.abs(x)
    return result  # thm:diaganalysis


def _diagonal_terms(
    G: FloatArray,
    eta: float,
    logs: FloatArray,
    under_root: float,
    growth: FloatArray | float = 1.0,
) -> FloatArray:
    """The max of the two branches, for each prefix and coordinate.

    ``growth`` is by how much the unit of the gradients has grown (`paroli.theory_margin`).
    """
    slope = G * (1 + 2 / eta)
    D = 5 / (4 * eta) + slope
    power = logs + eta * np.log1p(4 * growth**2 * G)
    inside = power + 0.5 * np.log(under_root + slope)
    outside = power + 0.5 * np.log(4 + D)
    largest: FloatArray = np.maximum(
        np.sqrt(D * np.maximum(inside, 1.0)), 2 * np.maximum(outside, 1.0)
    )
    return largest


# Optimal logarithmic factors -----------------------------------------------------------------


class Epoch(NamedTuple):
    """Rounds begin ≤ t < end of one coordinate in which `paroli.doubling` kept one regulariser."""

    coordinate: int
    begin: int
    end: int
    A: float


def doubling_epochs(gradients: npt.ArrayLike, A: float) -> list[Epoch]:
    """The epochs of `paroli.doubling`, which depend on nothing but the gradients.

    An epoch ends with the round in which 2 Σ g² has come to exceed A; the next one has 2A.  The
    sums are added up in the gradients' own dtype, so that the epochs are the learner's.

    >>> for epoch in doubling_epochs([[1.0]] * 5, A=1.0):
    ...     print(epoch)
    Epoch(coordinate=0, begin=0, end=1, A=1.0)
    Epoch(coordinate=0, begin=1, end=3, A=2.0)
    Epoch(coordinate=0, begin=3, end=5, A=4.0)
    """
    _check_positive("A", A)
    checked = _checked_gradients(gradients, math.inf, "'Optimal Logarithmic Factors'")
    g = _like_given(checked, gradients)
    epochs = []
    for i in range(g.shape[1]):
        squares = np.square(g[:, i])
        begin, regulariser = 0, g.dtype.type(A)
        while begin < len(squares):
            over = 2 * np.cumsum(squares[begin:]) > regulariser
            end = begin + int(np.argmax(over)) + 1 if over[-1] else len(squares)
            epochs.append(Epoch(i, begin, end, float(regulariser)))
            begin, regulariser = end, 2 * regulariser
    return epochs


def doubling_bound(
    gradients: npt.ArrayLike,
    comparator: npt.ArrayLike,
    epsilon: float,
    A: float,
    *,
    rounds: Rounds = None,
) -> Value:
    r"""The appendix's 'Optimal Logarithmic Factors' made exact, for `paroli.doubling`.

    In an epoch with the regulariser A_k v²/2, its leader has the regret

    .. math::
        R^v(x) \le \frac{A_k}{2} x^2 + \frac{1}{2} \sum_t \frac{z_t^2}{A_k}
        \le \frac{A_k}{2} x^2 + \frac{2 Z_k}{A_k}, \qquad Z_k = \sum_{t \in k} g_t^2,

    so by ``thm:generalrecursiveregret``, with the sum over the coordinates and over the epochs that
    the gradients make,

    .. math::
        R_T(\mathring w) \le \sum_{i, k} \inf_{c \in [0, 1/2]} \epsilon + \frac{|\mathring w_i|}{c}
        \left(\log \frac{|\mathring w_i|}{c \epsilon} - 1 + \frac{2 Z_k}{A_k}\right)
        + |\mathring w_i| c \left(Z_k + \frac{A_k}{2}\right).

    The sketch goes on with A_k/2 ≤ Z_k and 2Z_k/A_k ≤ 1 at once.  The first is wrong in an epoch
    that is not over, the second in one that is (by 2/A_k at most, for an epoch's last gradient may
    overshoot), so its display for one epoch, `doubling_epoch_reference`, is no bound.  Summed over
    the epochs the two agree, up to constants that depend on A, once the first epoch is over: a
    coordinate has at most 1 + log₂(1 + 2Z/A) epochs, Z_k ≤ A_k/2 + 1, and the last A_k is at most
    A + 2Z, so the bound above is of the printed order

    .. math::
        O\left(\epsilon \log Z + |\mathring w| \max\left[
        \sqrt{Z \max[\log(|\mathring w| \sqrt{2Z} / \epsilon), 1]},\;
        \log(Z) \max[\log(|\mathring w| \sqrt{4 + 2Z} / \epsilon), 1]\right]\right).

    Args:
        gradients: (T, d), with ‖g_t‖_∞ ≤ 1.
        comparator: ẘ.
        epsilon: the wealth that each coordinate starts each epoch with.
        A: the first epoch's regulariser.
        rounds: prefix lengths.

    >>> round(doubling_bound([[1.0]] * 100, [-2.0], epsilon=1.0, A=1.0), 2)
    218.43
    """
    _check_positive("epsilon", epsilon)
    epochs = doubling_epochs(gradients, A)
    g = _matrix("gradients", gradients)
    w_ring = np.abs(_vector("comparator", comparator, g))
    n = _prefixes(rounds, g)
    total = np.zeros(len(n))
    for i in range(g.shape[1]):
        own = [epoch for epoch in epochs if epoch.coordinate == i]
        begin = np.array([epoch.begin for epoch in own], dtype=np.intp)
        end = np.array([epoch.end for epoch in own], dtype=np.intp)
        regulariser = np.array([epoch.A for epoch in own])
        squares = np.concatenate([[0.0], np.cumsum(np.square(g[:, i]))])
        # An epoch's part of a prefix: whole, cut, or empty.
        cut = np.clip(n[:, None], begin, end)
        Z = squares[cut] - squares[begin]
        parts = epsilon + _recursive_infimum(
            float(w_ring[i]),
            epsilon,
            Z,
            lambda c, A=regulariser, Z=Z: A / 2 * c**2 + 2 * Z / A,  # type: ignore[misc]
        )
        total += np.where(cut > begin, parts, 0.0).sum(axis=1)
    return _value(total, rounds)


def doubling_epoch_reference(Z: float, comparator: float, epsilon: float) -> float:
    r"""What 'Optimal Logarithmic Factors' prints for one epoch on one coordinate: no bound.

    .. math::
        \epsilon + 2 |\mathring w| \max\left[
        \sqrt{2 Z_k \max\left[\log \tfrac{|\mathring w| \sqrt{2 Z_k}}{\epsilon},\, 1\right]},\;
        2 \max\left[\log \tfrac{|\mathring w| \sqrt{4 + 2 Z_k}}{\epsilon},\, 1\right]\right]

    It takes A_k/2 ≤ Z_k, which an unfinished epoch breaks: with `paroli.doubling` as it comes and
    all gradients equal to 1, the thirteenth epoch's regret at ẘ = -1 is 2.3 times this after 147 of
    its rounds.  `doubling_bound` is what holds.

    >>> round(doubling_epoch_reference(147.0, -1.0, epsilon=1.0), 2)
    58.81
    """
    _check_positive("epsilon", epsilon)
    _check_nonnegative("Z", Z)
    length = abs(comparator)
    log_scale = float(_log(length)) - math.log(epsilon)
    inside = max(log_scale + 0.5 * float(_log(2 * Z)), 1.0)
    outside = max(log_scale + 0.5 * math.log(4 + 2 * Z), 1.0)
    return epsilon + 2 * length * max(math.sqrt(2 * Z * inside), 2 * outside)


# What the paper compares with ----------------------------------------------------------------


def adagrad_reference(
    gradients: npt.ArrayLike, comparator: npt.ArrayLike, *, rounds: Rounds = None
) -> Value:
    r"""Diagonal Adagrad with the best learning rate (``eqn:diagada``).

    .. math:: \sum_i \|\mathring w\|_\infty \sqrt{\textstyle\sum_t g_{t,i}^2}

    Printed without its constant, which is 2√2 where the iterates stay within ‖ẘ‖_∞.

    >>> adagrad_reference([[3.0, 1.0], [4.0, 0.0]], [0.0, -2.0])
    12.0
    """
    G, w_ring = _squares(gradients, comparator, rounds)
    return _value(np.abs(w_ring).max() * np.sqrt(G).sum(axis=1), rounds)  # eqn:diagada


def parameter_free_reference(
    gradients: npt.ArrayLike, comparator: npt.ArrayLike, epsilon: float, *, rounds: Rounds = None
) -> Value:
    r"""The diagonal bound that needs no tuning, up to a constant (``eqn:diagparamfree``).

    .. math::
        \epsilon + \sum_i |\mathring w_i| \sqrt{\log\left(\tfrac{d |\mathring w_i| T}{\epsilon}
        \right) \textstyle\sum_t g_{t,i}^2}

    with 0 for the logarithm where it is negative.

    >>> parameter_free_reference([[3.0], [4.0]], [0.5], epsilon=1.0)
    1.0
    """
    _check_positive("epsilon", epsilon)
    G, w_ring = _squares(gradients, comparator, rounds)
    w_ring, T = np.abs(w_ring), _prefixes(rounds, _matrix("gradients", gradients))
    logs = _log(w_ring) + math.log(len(w_ring)) - math.log(epsilon) + _log(T)[:, None]
    roots = np.sqrt(np.maximum(logs, 0.0) * G)
    return _value(epsilon + roots @ w_ring, rounds)  # eqn:diagparamfree


def full_adagrad_reference(
    gradients: npt.ArrayLike, comparator: npt.ArrayLike, *, rounds: Rounds = None
) -> Value:
    r"""Full-matrix Adagrad with the best learning rate (``eqn:fullmatrixada``).

    .. math:: \|\mathring w\|_2 \,\text{Tr} \sqrt{\textstyle\sum_t g_t g_t^\top}

    >>> round(full_adagrad_reference([[3.0, 0.0], [0.0, 4.0]], [0.0, -2.0]), 12)
    14.0
    """
    g = _matrix("gradients", gradients)
    length = _norm(_vector("comparator", comparator, g), 2.0)
    ends, back = np.unique(_prefixes(rounds, g), return_inverse=True)
    gram, traces, begin = np.zeros((g.shape[1], g.shape[1])), [], 0
    for end in ends:
        gram, begin = gram + g[begin:end].T @ g[begin:end], end
        eigenvalues = np.linalg.eigvalsh(gram)
        traces.append(np.sqrt(np.maximum(eigenvalues, 0.0)).sum())
    return _value(length * np.array(traces)[back], rounds)  # eqn:fullmatrixada


def full_newton_reference(
    gradients: npt.ArrayLike, comparator: npt.ArrayLike, *, rounds: Rounds = None
) -> Value:
    r"""The improved full-matrix bounds, without constants and logarithms (``eqn:fullmatrixcoin``).

    .. math:: \sqrt{d \textstyle\sum_t \langle g_t, \mathring w \rangle^2}

    >>> full_newton_reference([[3.0, 1.0], [4.0, 1.0]], [2.0, 0.0])
    14.142135623730951
    """
    g = _matrix("gradients", gradients)
    d = g.shape[1]
    return math.sqrt(d) * _along(g, comparator, rounds)  # eqn:fullmatrixcoin


def newton_reference(
    gradients: npt.ArrayLike,
    comparator: npt.ArrayLike,
    epsilon: float,
    norm: float = 2.0,
    *,
    rounds: Rounds = None,
) -> Value:
    r"""Coin betting with the Online Newton Step, up to a constant (``eqn:ons``).

    .. math::
        \|\mathring w\| \sqrt{\log\left(\tfrac{\|\mathring w\| T^{4.5}}{\epsilon}\right)
        \textstyle\sum_t \|g_t\|_\star^2}

    with 0 for the logarithm where it is negative.

    >>> round(newton_reference([[0.6, 0.8]] * 100, [1.0, 0.0], epsilon=1.0), 2)
    45.52
    """
    _check_positive("epsilon", epsilon)
    g = _matrix("gradients", gradients)
    w_ring = _norm(_vector("comparator", comparator, g), norm)
    T = _prefixes(rounds, g)
    squares = _running(T, _row_norms(g, dual(norm)) ** 2)
    logs = np.maximum(_log(w_ring) - math.log(epsilon) + 4.5 * _log(T), 0.0)
    return _value(w_ring * np.sqrt(logs * squares), rounds)  # eqn:ons


def diagonal_reference(
    gradients: npt.ArrayLike, comparator: npt.ArrayLike, epsilon: float, *, rounds: Rounds = None
) -> Value:
    r"""What Algorithm 1 with Algorithm 2 inside has in all cases (``eqn:simplediag``).

    .. math:: \epsilon + \sum_i |\mathring w_i| \sqrt{\textstyle\sum_t g_{t,i}^2}

    without constants and logarithms; by Cauchy-Schwarz at most ε + ‖ẘ‖₂ √(Σ ‖g_t‖₂²).

    >>> diagonal_reference([[3.0, 1.0], [4.0, 0.0]], [1.0, -2.0], epsilon=1.0)
    8.0
    """
    _check_positive("epsilon", epsilon)
    G, w_ring = _squares(gradients, comparator, rounds)
    return _value(epsilon + np.sqrt(G) @ np.abs(w_ring), rounds)  # eqn:simplediag


def recursive_reference(
    gradients: npt.ArrayLike, comparator: npt.ArrayLike, epsilon: float, *, rounds: Rounds = None
) -> Value:
    r"""What Algorithm 1 has where there is signal: the first case of ``thm:recursiveregret``.

    .. math:: \epsilon + \sqrt{\textstyle\sum_t (g_t \cdot \mathring w)^2}

    without constants and logarithms.

    >>> recursive_reference([[3.0, 1.0], [4.0, 1.0]], [2.0, 0.0], epsilon=1.0)
    11.0
    """
    _check_positive("epsilon", epsilon)
    g = _matrix("gradients", gradients)
    return epsilon + _along(g, comparator, rounds)  # thm:recursiveregret


def _squares(
    gradients: npt.ArrayLike, comparator: npt.ArrayLike, rounds: Rounds
) -> tuple[FloatArray, FloatArray]:
    """Σ_t g_{t,i}² for each prefix and coordinate, and ẘ."""
    g = _matrix("gradients", gradients)
    w_ring = _vector("comparator", comparator, g)
    return _running_products(_prefixes(rounds, g), g, g), w_ring


def _along(g: FloatArray, comparator: npt.ArrayLike, rounds: Rounds) -> Value:
    """√Σ_t (g_t·ẘ)²."""
    w_ring = _vector("comparator", comparator, g)
    return _value(np.sqrt(_running(_prefixes(rounds, g), (g @ w_ring) ** 2)), rounds)


# Infima --------------------------------------------------------------------------------------

SMALLEST_C = 1e-300
"""Where the search for a betting fraction begins: tiny comparators have tiny best fractions."""

GRID = 41
"""Entries of the grid; each pass narrows the interval 20 times."""

PASSES = 6
"""Enough for 6 digits of the fraction, and 12 of the value, for it is flat at its least."""


def _infimum(objective: Callable[[FloatArray], FloatArray], shape: tuple[int, ...]) -> FloatArray:
    """The least of a function that falls and then rises on (0, 1/2], searched on grids of log c."""
    low, high = np.full(shape, math.log(SMALLEST_C)), np.full(shape, math.log(HALF))
    steps = np.linspace(0.0, 1.0, GRID).reshape(-1, *(1 for _ in shape))
    least = np.full(shape, math.inf)
    for _ in range(PASSES):
        grid = low + (high - low) * steps
        with np.errstate(over="ignore", invalid="ignore"):
            values = objective(np.minimum(np.exp(grid), HALF))
        values = np.where(np.isnan(values), math.inf, values)
        best = np.argmin(values, axis=0, keepdims=True)
        least = np.minimum(least, np.take_along_axis(values, best, axis=0)[0])
        low = np.take_along_axis(grid, np.maximum(best - 1, 0), axis=0)[0]
        high = np.take_along_axis(grid, np.minimum(best + 1, GRID - 1), axis=0)[0]
    return least


def _recursive_infimum(
    length: float, epsilon: float, Z: FloatArray, inner_regret: InnerRegret
) -> FloatArray:
    """The infimum of thm:generalrecursiveregret without its first ε, for each entry of Z."""
    if length == 0:
        # c = 0 is the best: eqn:wealthbound says that Wealth >= ε exp(-R^v(0)).
        at_origin = np.asarray(inner_regret(np.zeros(Z.shape)), dtype=np.float64)
        largest = math.log(np.finfo(np.float64).max) - 1
        wealth_kept = np.exp(np.minimum(-at_origin, largest)) * np.ones(Z.shape)
        result: FloatArray = -epsilon * wealth_kept  # eqn:wealthbound
        return result
    log_ratio = math.log(length) - math.log(epsilon)

    def objective(c: FloatArray) -> FloatArray:
        growth = log_ratio - np.log(c) - 1 + inner_regret(c)
        values: FloatArray = length / c * growth + length * c * Z  # eqn:expandedbound
        return values

    return _infimum(objective, Z.shape)  # thm:generalrecursiveregret


# Sums over prefixes --------------------------------------------------------------------------


def _prefixes(rounds: Rounds, g: FloatArray) -> IntArray:
    """The prefix lengths asked for, the whole run where none are."""
    if rounds is None:
        return np.array([len(g)], dtype=np.intp)
    n = np.asarray(rounds)
    if n.ndim != 1 or (n.size and n.dtype.kind not in "iu"):
        raise TypeError(
            f"rounds: expected a sequence of whole numbers such as range(1, {len(g) + 1}), "
            f"not {rounds!r}"
        )
    if n.size and (n.min() < 0 or n.max() > len(g)):
        raise ValueError(
            f"rounds: the run has {len(g)} rounds, so prefix lengths must be in 0..{len(g)}, "
            f"not {n.min()}..{n.max()}"
        )
    return n.astype(np.intp)


def _running(n: IntArray, terms: FloatArray) -> FloatArray:
    """Σ_{t ≤ n} of one number a round."""
    return np.concatenate([[0.0], np.cumsum(terms)])[n]


def _running_products(n: IntArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Σ_{t ≤ n} a_{t,i} b_{t,i} for each prefix and coordinate."""
    ends, back = np.unique(n, return_inverse=True)
    sums, begin = np.zeros((len(ends), a.shape[1])), 0
    for k, end in enumerate(ends):
        np.einsum("ti,ti->i", a[begin:end], b[begin:end], out=sums[k])
        begin = end
    result: FloatArray = np.cumsum(sums, axis=0)[back]
    return result


def _dots(a: FloatArray, b: FloatArray) -> FloatArray:
    """a_t · b_t, round by round."""
    result: FloatArray = np.einsum("ti,ti->t", a, b)
    return result


def _value(values: FloatArray, rounds: Rounds) -> Value:
    return float(values[0]) if rounds is None else values


def _log(x: Any) -> Any:
    """The logarithm with -inf at 0: it only ever meets a maximum with 1."""
    with np.errstate(divide="ignore"):
        return np.log(x)


# Norms and checks ----------------------------------------------------------------------------


BLOCK = 2**14
"""Rounds looked at together, where the intermediate results are as large as the run."""


def _norm(x: FloatArray, p: float) -> float:
    largest = float(np.abs(x).max())
    if p == math.inf or largest == 0:
        return largest
    return float(largest * np.linalg.norm(x / largest, p))  # squares neither overflow nor vanish


def _row_norms(g: FloatArray, p: float) -> FloatArray:
    result: FloatArray
    if p == math.inf:
        result = np.maximum(g.max(axis=1), -g.min(axis=1))
    else:
        result = np.abs(g).sum(axis=1) if p == 1.0 else np.sqrt(_dots(g, g))
    return result


def _direction(comparator: npt.ArrayLike, g: FloatArray, p: float) -> tuple[FloatArray, float]:
    """ẘ/‖ẘ‖ and ‖ẘ‖; at ẘ = 0 the direction is 0 as well."""
    dual(p)
    w_ring = _vector("comparator", comparator, g)
    length = _norm(w_ring, p)
    return (w_ring / length if length > 0 else w_ring), length


def _tolerance(given: npt.ArrayLike) -> float:
    """A few units in the last place of what was recorded, for sums over the coordinates."""
    array = np.asarray(given)
    eps = np.finfo(array.dtype if array.dtype.kind == "f" else np.float64).eps
    return float(eps * (4 + array.shape[-1]))


def _matrix(name: str, given: npt.ArrayLike, shape: tuple[int, ...] | None = None) -> FloatArray:
    array = _real(name, given)
    if array.ndim != 2 or array.shape[1] == 0:
        hint = f", so {name}.reshape(-1, 1) for one coordinate" if array.ndim == 1 else ""
        raise ValueError(f"{name}: expected shape (T, d), one row a round, got {array.shape}{hint}")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name}: expected the gradients' shape {shape}, got {array.shape}")
    return _finite(name, array)


def _vector(name: str, given: npt.ArrayLike, g: FloatArray) -> FloatArray:
    array = _real(name, given)
    if array.shape != (g.shape[1],):
        raise ValueError(
            f"{name}: expected one number for each of the gradients' {g.shape[1]} coordinates, "
            f"shape {(g.shape[1],)}, got {array.shape}"
        )
    return _finite(name, array)


def _real(name: str, given: npt.ArrayLike) -> FloatArray:
    if np.iscomplexobj(given):
        raise TypeError(f"{name}: expected real numbers, got {np.asarray(given).dtype}")
    return np.asarray(given, dtype=np.float64)


def _finite(name: str, array: FloatArray) -> FloatArray:
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(k) for k in np.argwhere(~finite)[0])
        raise ValueError(
            f"{name}: {np.count_nonzero(~finite)} entries are NaN or inf, the first at {where}; no "
            f"bound speaks of such a run: leave those rounds out, as the learner did"
        )
    return array


def _like_given(g: FloatArray, given: npt.ArrayLike) -> npt.NDArray[np.floating[Any]]:
    """The checked array in the dtype it was given in."""
    dtype = np.asarray(given).dtype
    return g.astype(dtype) if dtype.kind == "f" else g


def _checked_gradients(
    given: npt.ArrayLike, p: float, theorem: str, bound: float = 1.0
) -> FloatArray:
    g = _matrix("gradients", given)
    lengths = _row_norms(g, p)
    allowed = bound * (1 + _tolerance(given))
    if len(g) and lengths.max() > allowed:
        t, name = int(np.argmax(lengths)), {1.0: "‖g‖₁", 2.0: "‖g‖₂", math.inf: "‖g‖_∞"}[p]
        raise ValueError(
            f"gradients: {theorem} assumes {name} <= {bound:g}, but round {t + 1} has "
            f"{lengths[t]}; divide the gradients by a bound on their norm before they reach the "
            f"learner (the regret is then divided by it too)"
        )
    return g


def _check_inner_gradients(z: FloatArray, g: FloatArray) -> None:
    """Refuse what is no z = g/(1 - g·v) with |g·v| ≤ 1/2, above all the halved one."""
    smallest = float(np.finfo(np.float32).smallest_normal)  # below it products keep few digits
    for begin in range(0, len(g), BLOCK):
        z_part, g_part = z[begin : begin + BLOCK], g[begin : begin + BLOCK]
        size, forward = np.abs(g_part), z_part * np.sign(g_part)
        within = (forward >= 2 / 3 * (1 - 1e-5) * size - smallest) & (
            np.abs(z_part) <= 2 * (1 + 1e-5) * size + smallest
        )
        if not within.all():
            t, i = (int(k) for k in np.argwhere(~within)[0])
            raise ValueError(
                f"inner_gradients: z = g/(1 - g·v) with |g·v| <= 1/2 is between 2/3 and 2 times g, "
                f"but in round {begin + t + 1}, coordinate {i}, z is {z_part[t, i]} and g is "
                f"{g_part[t, i]}; give the z of Algorithm 1 as printed, not halved"
            )


def _checked_comparator(comparator: npt.ArrayLike, g: FloatArray, theorem: str) -> FloatArray:
    w_ring = _vector("comparator", comparator, g)
    largest = float(np.abs(w_ring).max())
    if largest > HALF * (1 + _tolerance(comparator)):
        raise ValueError(
            f"comparator: {theorem} holds within the box that is played in, ‖ẘ‖_∞ <= 1/2, but it "
            f"is {largest}; give one in the box, or play and bound `recursive`, which has no box"
        )
    return w_ring


def _checked_outcomes(outcome: FloatArray) -> FloatArray:
    if not (outcome < 1).all():
        t = int(np.argmax(outcome))
        raise ValueError(
            f"bets: g·v must stay below 1, or the wealth is lost, but round {t + 1} has "
            f"{outcome[t]}; give fractions v_t = w_t / Wealth_(t-1), not the points w_t"
        )
    return outcome


def _checked_balance(A: float, B: float, C: float, D: float) -> float:
    for name, value in (("A", A), ("B", B), ("C", C), ("D", D)):
        _check_nonnegative(name, value)
    return float(_log(B))


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}: expected a number, got {value!r}")


def _check_positive(name: str, value: float) -> None:
    _check_number(name, value)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name}: expected a finite number above 0, got {value!r}")


def _check_nonnegative(name: str, value: float) -> None:
    _check_number(name, value)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}: expected a finite number of at least 0, got {value!r}")
