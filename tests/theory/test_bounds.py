"""`paroli.theory` itself: displays typed once more, prefixes, limits, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from paroli import theory

Array = npt.NDArray[np.float64]

RNG = np.random.default_rng(0)
T, D = 40, 3
G = RNG.standard_normal((T, D))
G /= 1.1 * np.abs(G).sum(axis=1, keepdims=True).max()
G[5] = 0.0
BETS = RNG.uniform(-0.5, 0.5, (T, D))
Z = G / (1 - (G * BETS).sum(axis=1, keepdims=True))
POINTS = RNG.standard_normal((T, D))
W_RING = np.array([0.4, -0.01, 0.0])

RUN_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "regret": lambda n, **k: theory.regret(G[:n], POINTS[:n], W_RING, **k),
    "wealth": lambda n, **k: theory.wealth(G[:n], POINTS[:n], 2.0, **k),
    "log_wealth": lambda n, **k: theory.log_wealth(G[:n], BETS[:n], 2.0, **k),
    "constant": lambda n, **k: theory.constant_log_wealth(G[:n], BETS[0], 2.0, **k),
    "constant bound": lambda n, **k: theory.constant_log_wealth_bound(G[:n], BETS[0], 2.0, **k),
    "best constant": lambda n, **k: theory.best_constant_log_wealth_bound(G[:n], W_RING, 2.0, **k),
    "general": lambda n, **k: theory.general_recursive_bound(
        G[:n],
        W_RING,
        2.0,
        theory.recorded_inner_regret(Z[:n], BETS[:n], W_RING, **k),
        **k,
    ),
    "nearly linear": lambda n, **k: theory.nearly_linear_bound(
        G[:n], 5 * W_RING, 2.0, 0.1, 0.2, as_printed=False, **k
    ),
    "recursive": lambda n, **k: theory.recursive_bound(
        G[:n], Z[:n], 5 * W_RING, 2.0, 0.3, 0.7, **k
    ),
    "diagonal": lambda n, **k: theory.diagonal_bound(G[:n], W_RING, 0.3, 0.7, **k),
    "diagonal G": lambda n, **k: theory.diagonal_G(G[:n], W_RING, 0.3, 0.7, **k),
    "ftrl": lambda n, **k: theory.ftrl_bound(G[:n], W_RING, 0.7, **k),
    "doubling": lambda n, **k: theory.doubling_bound(G[:n], 5 * W_RING, 0.3, 0.05, **k),
    "adagrad": lambda n, **k: theory.adagrad_reference(G[:n], W_RING, **k),
    "parameter-free": lambda n, **k: theory.parameter_free_reference(G[:n], W_RING, 0.3, **k),
    "full adagrad": lambda n, **k: theory.full_adagrad_reference(G[:n], W_RING, **k),
    "full newton": lambda n, **k: theory.full_newton_reference(G[:n], W_RING, **k),
    "newton": lambda n, **k: theory.newton_reference(G[:n], W_RING, 0.3, **k),
    "simple diagonal": lambda n, **k: theory.diagonal_reference(G[:n], W_RING, 0.3, **k),
    "simple recursive": lambda n, **k: theory.recursive_reference(G[:n], W_RING, 0.3, **k),
}
run_functions = pytest.mark.parametrize(
    "function", RUN_FUNCTIONS.values(), ids=RUN_FUNCTIONS.keys()
)


@run_functions
def test_rounds_are_prefixes(function: Callable[..., Any]) -> None:
    """In any order, repeated, from none to all; and without `rounds` a float for all."""
    rounds = [T, 1, 7, 0, 7, T - 1]
    values = function(T, rounds=rounds)
    assert isinstance(function(T), float)
    np.testing.assert_allclose(values, [function(n) for n in rounds], rtol=1e-9)
    np.testing.assert_array_equal(values, function(T, rounds=np.array(rounds)))
    assert function(T, rounds=[]).shape == (0,)


def log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def literal_diagonal(G_i: float, w: float, epsilon: float, eta: float) -> float:
    first = math.sqrt(
        (5 / (4 * eta) + G_i * (1 + 2 / eta))
        * max(
            log(w * (1 + 4 * G_i) ** eta * math.sqrt(2 / eta + G_i * (1 + 2 / eta)) / epsilon) - 1,
            1,
        )
    )
    second = 2 * max(
        log(w * (1 + 4 * G_i) ** eta * math.sqrt(4 + 5 / (4 * eta) + G_i * (1 + 2 / eta)) / epsilon)
        - 1,
        1,
    )
    return epsilon + 2 * w * max(first, second)


def literal_G(G_i: float, epsilon: float, eta: float) -> float:
    spread = 5 / (4 * eta) + G_i * (1 + 2 / eta)
    power = (1 + 4 * G_i) ** eta
    first = math.sqrt(spread * max(log(power * math.sqrt(spread) / (2 * epsilon)) - 1, 1))
    second = 2 * max(log(power * math.sqrt(4 + spread) / (2 * epsilon)) - 1, 1)
    return 2 * max(first, second)


@pytest.mark.parametrize("eta", [0.1, 0.5, 3.0])
@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 20.0])
@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0])
def test_thm_tighterdiag_as_printed(scale: float, epsilon: float, eta: float) -> None:
    g = np.clip(scale * RNG.standard_normal((500, 3)), -1, 1)
    w_ring = np.array([0.5, -0.01, 0.0])
    expected = sum(
        literal_diagonal(float(G_i), abs(float(w)), epsilon, eta)
        for G_i, w in zip((g**2).sum(axis=0), w_ring, strict=True)
    )
    assert theory.diagonal_bound(g, w_ring, epsilon, eta) == pytest.approx(expected, rel=1e-12)
    expected = sum(
        abs(float(w)) * literal_G(float(G_i), epsilon, eta)
        for G_i, w in zip((g**2).sum(axis=0), w_ring, strict=True)
    )
    assert theory.diagonal_G(g, w_ring, epsilon, eta) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("drift", [0.0, -0.2])
def test_thm_tighterrecursiveregret_as_printed(drift: float, size: float) -> None:
    """With Algorithm 2's z/2, twice its regret, and the two ε kept apart."""
    g = drift + 0.05 * RNG.standard_normal((2000, 2))
    z = g / (1 - (g * RNG.uniform(-0.5, 0.5, g.shape)).sum(axis=1, keepdims=True))
    w_ring, epsilon, inner_epsilon, eta = size * np.array([1.0, 0.5]), 0.3, 0.2, 0.7
    G_T = 2 * sum(
        x * literal_G(float(((z[:, i] / 2) ** 2).sum()), inner_epsilon, eta)
        for i, x in enumerate([1.0, 0.5])
    )
    signal = -float((g @ w_ring).sum()) / size >= 2 * G_T
    assert signal == (drift != 0)
    assert theory.full_matrix_case(g, z, w_ring, inner_epsilon, eta) == signal
    root = math.sqrt(4 * size**2 + float(((g @ w_ring) ** 2).sum()))
    shift = 2 * 2 * inner_epsilon - 1
    printed = epsilon + 4 * root * math.sqrt(max(log(2 * root / epsilon) + shift, 1))
    Q = math.sqrt(float(((g @ w_ring) ** 2).sum()))
    proved = epsilon + 4 * max(
        Q * math.sqrt(max(log(2 * Q / epsilon) + shift, 1)),
        2 * size * max(log(2 * root / epsilon) + shift, 1),
    )
    otherwise = epsilon + 2 * size * G_T
    settings = (g, z, w_ring, epsilon, inner_epsilon, eta)
    assert theory.recursive_bound(*settings) == pytest.approx(
        printed if signal else otherwise, rel=1e-12
    )
    assert theory.recursive_bound(*settings, as_printed=False) == pytest.approx(
        proved if signal else otherwise, rel=1e-12
    )


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("size", [1e-9, 0.1, 1e6])
def test_thm_generalrecursiveregret_as_printed(size: float, norm: float) -> None:
    """The search finds what a fine grid of c finds."""
    w_ring = size * np.array([3.0, -4.0, 0.0])
    length = float(np.linalg.norm(w_ring, norm))
    Z_T = float(((G @ w_ring / length) ** 2).sum())

    def inner_regret(c: Any) -> Any:
        return 0.3 + 0.1 * c + 7 * c**2

    c = np.geomspace(1e-12, 0.5, 200_001)
    expected = (
        2.0
        + length / c * (np.log(length / (c * 2.0)) - 1)
        + length * c * Z_T
        + length / c * inner_regret(c)
    ).min()
    value = theory.general_recursive_bound(G, w_ring, 2.0, inner_regret, norm)
    assert value == pytest.approx(expected, rel=1e-8)


def test_doubling_bound_as_derived() -> None:
    """Epochs by hand: A = 0.05, 0.1, …; each with its own infimum."""
    g, w, epsilon, A = G[:, :1], 2.0, 0.3, 0.05
    total, Z_k = 0.0, 0.0
    c = np.geomspace(1e-9, 0.5, 100_001)
    for t in range(T):
        Z_k += float(g[t, 0]) ** 2
        if 2 * Z_k > A or t == T - 1:
            inner = A / 2 * c**2 + 2 * Z_k / A
            total += (epsilon + w / c * (np.log(w / (c * epsilon)) - 1 + inner) + w * c * Z_k).min()
            A, Z_k = 2 * A, 0.0
    assert theory.doubling_bound(g, [w], epsilon, 0.05) == pytest.approx(total, rel=1e-7)


def test_references_as_printed() -> None:
    squares = (G**2).sum(axis=0)
    w = np.abs(W_RING)
    assert theory.adagrad_reference(G, W_RING) == pytest.approx(0.4 * np.sqrt(squares).sum())
    expected = 1e-6 + sum(
        w[i] * math.sqrt(math.log(D * w[i] * T / 1e-6) * squares[i]) for i in range(2)
    )
    assert theory.parameter_free_reference(G, W_RING, 1e-6) == pytest.approx(expected)
    singular = np.linalg.svd(G, compute_uv=False)
    expected = np.linalg.norm(W_RING) * singular.sum()
    assert theory.full_adagrad_reference(G, W_RING) == pytest.approx(expected)
    along = ((G @ W_RING) ** 2).sum()
    assert theory.full_newton_reference(G, W_RING) == pytest.approx(math.sqrt(D * along))
    length = np.linalg.norm(W_RING)
    expected = length * math.sqrt(math.log(length * T**4.5 / 0.1) * squares.sum())
    assert theory.newton_reference(G, W_RING, 0.1) == pytest.approx(expected)
    assert theory.diagonal_reference(G, W_RING, 0.1) == pytest.approx(0.1 + w @ np.sqrt(squares))
    assert theory.recursive_reference(G, W_RING, 0.1) == pytest.approx(0.1 + math.sqrt(along))


# Limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradients", [G, np.zeros((7, D))], ids=["some", "none"])
def test_a_comparator_of_zero(gradients: Array) -> None:
    """What is promised at the origin: never to lose more than the initial wealth."""
    zero = np.zeros(D)
    assert theory.diagonal_bound(gradients, zero, 0.25, 0.5) == D * 0.25
    for as_printed in (True, False):
        bound = theory.recursive_bound(
            gradients, gradients, zero, 0.25, 1.0, 0.5, as_printed=as_printed
        )
        assert bound == 0.25
    general = theory.general_recursive_bound(gradients, zero, 0.25, lambda c: 2.0 + c)
    assert general == pytest.approx(0.25 * (1 - math.exp(-2.0)))
    near = theory.general_recursive_bound(gradients, [1e-12, 0, 0], 0.25, lambda c: 2.0 + c)
    assert general == pytest.approx(near, abs=1e-9)
    epochs = theory.doubling_epochs(gradients, 1.0)
    assert 0 <= theory.doubling_bound(gradients, zero, 0.25, 1.0) <= len(epochs) * 0.25
    assert theory.best_constant_bet(gradients, zero).tolist() == [0, 0, 0]
    assert theory.parameter_free_reference(gradients, zero, 0.25) == 0.25
    assert theory.newton_reference(gradients, zero, 0.25) == 0.0


def test_no_gradients_at_all() -> None:
    g = np.zeros((7, 1))
    assert theory.regret(g, g, [5.0]) == 0.0
    assert theory.diagonal_bound(g, [-0.5], 1.0, 0.5) > 1.0
    assert theory.recursive_bound(g, g, [5.0], 1.0, 1.0, 0.5) >= 1.0
    assert theory.doubling_bound(g, [5.0], 1.0, 1.0) >= 0.0
    assert theory.best_constant_log_wealth_bound(g, [5.0], 1.0) == 0.0
    assert theory.full_adagrad_reference(g, [5.0]) == 0.0


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e-100, 1e100, 1e300])
def test_comparators_of_any_size(size: float) -> None:
    w_ring = np.array([size, -size, 0.0])
    for as_printed in (True, False):
        bound = theory.recursive_bound(G, Z, w_ring, 1.0, 1.0, 0.5, as_printed=as_printed)
        assert 1.0 <= bound < math.inf
    inner_regret = theory.recorded_inner_regret(Z, BETS, w_ring)
    assert math.isfinite(theory.general_recursive_bound(G, w_ring, 1.0, inner_regret))
    assert math.isfinite(theory.doubling_bound(G, w_ring, 1.0, 1.0))


def test_winnings_beyond_the_float_range() -> None:
    """A very negative inner regret: the wealth has no float, and the bound is as low as any."""
    value = theory.general_recursive_bound(G, np.zeros(D), 1.0, lambda c: -1e6 + 0 * c)
    assert -math.inf < value < -1e300
    assert theory.general_recursive_bound(G, W_RING, 1.0, lambda c: -1e6 + 0 * c) < -1e300


# Refusals ------------------------------------------------------------------------------------

ONE = np.array([[1.0], [0.5]])
NAN = np.array([[1.0], [math.nan]])

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a vector of gradients": (
        lambda: theory.regret(ONE[:, 0], ONE[:, 0], [1.0]),
        r"gradients: expected shape \(T, d\).*gradients.reshape\(-1, 1\)",
    ),
    "points of another shape": (
        lambda: theory.regret(ONE, ONE[:1], [1.0]),
        r"points: expected the gradients' shape \(2, 1\), got \(1, 1\)",
    ),
    "a comparator of another shape": (
        lambda: theory.regret(ONE, ONE, [1.0, 2.0]),
        r"comparator: expected one number for each .* 1 coordinates",
    ),
    "NaN": (lambda: theory.regret(NAN, ONE, [1.0]), r"gradients: 1 entries are NaN or inf.*\(1, 0"),
    "an infinite comparator": (
        lambda: theory.diagonal_bound(ONE, [math.inf], 1.0, 0.5),
        "comparator: 1 entries are NaN or inf",
    ),
    "a large gradient, Algorithm 2": (
        lambda: theory.diagonal_bound(1.01 * ONE, [0.5], 1.0, 0.5),
        r"thm:tighterdiag assumes ‖g‖_∞ <= 1, but round 1 has 1.01; divide the gradients",
    ),
    "a large gradient, Algorithm 1": (
        lambda: theory.recursive_bound(
            np.full((2, 2), 0.6), np.full((2, 2), 0.6), [1.0, 1.0], 1.0, 1.0, 0.5
        ),
        r"assumes ‖g‖₁ <= 1, but round 1 has 1.2",
    ),
    "a large gradient, in a 2-norm": (
        lambda: theory.general_recursive_bound(2 * ONE, [1.0], 1.0, lambda c: c, norm=2),
        r"assumes ‖g‖₂ <= 1",
    ),
    "a large gradient, doubling": (
        lambda: theory.doubling_bound(2 * ONE, [1.0], 1.0, 1.0),
        r"assumes ‖g‖_∞ <= 1",
    ),
    "a comparator outside of the box": (
        lambda: theory.diagonal_bound(ONE, [-0.51], 1.0, 0.5),
        r"‖ẘ‖_∞ <= 1/2, but it is 0.51",
    ),
    "halved inner gradients": (
        lambda: theory.recursive_bound(ONE, ONE / 2, [1.0], 1.0, 1.0, 0.5),
        r"between 2/3 and 2 times g, but in round 1, coordinate 0, z is 0.5 and g is 1.0.*halved",
    ),
    "inner gradients of the wrong sign": (
        lambda: theory.recursive_bound(ONE, -ONE, [1.0], 1.0, 1.0, 0.5),
        r"inner_gradients: z = g/\(1 - g·v\)",
    ),
    "no wealth": (lambda: theory.wealth(ONE, ONE, 0.0), "epsilon: expected a finite number above"),
    "no eta": (lambda: theory.diagonal_bound(ONE, [0.5], 1.0, 0.0), "eta: expected"),
    "no regulariser": (lambda: theory.doubling_bound(ONE, [0.5], 1.0, -1.0), "A: expected"),
    "a negative A": (lambda: theory.balance_bound(-1.0, 1.0, 0.0, 1.0), "A: expected"),
    "points for bets": (
        lambda: theory.log_wealth(ONE, 5 * ONE, 1.0),
        r"bets: g·v must stay below 1.* round 1 has 5.0; give fractions",
    ),
    "a bet above a half": (
        lambda: theory.constant_log_wealth_bound(ONE, [0.75], 1.0),
        r"bet: .*g·v <= 1/2, but round 1 has 0.75",
    ),
    "points that lose everything": (
        lambda: theory.betting_fractions(ONE, 5 * ONE, 1.0),
        r"the wealth before round 2 is -4.0.*give the epsilon of the learner",
    ),
    "prefixes that are too long": (
        lambda: theory.regret(ONE, ONE, [1.0], rounds=[3]),
        r"prefix lengths must be in 0\.\.2, not 3\.\.3",
    ),
    "an unknown norm": (
        lambda: theory.general_recursive_bound(ONE, [1.0], 1.0, lambda c: c, norm=3),
        "no norm is known by p = 3",
    ),
}


@pytest.mark.parametrize(("call", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals_say_what_and_why(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


def test_prefixes_are_whole_numbers() -> None:
    for rounds in ([0.5], 1, [[1]]):
        with pytest.raises(TypeError, match="rounds: expected a sequence of whole numbers"):
            theory.regret(ONE, ONE, [1.0], rounds=rounds)  # type: ignore[arg-type]


def test_complex_numbers_are_refused() -> None:
    for name, arguments in (
        ("gradients", (1j * ONE, ONE, [1.0])),
        ("points", (ONE, 1j * ONE, [1.0])),
        ("comparator", (ONE, ONE, [1j])),
    ):
        with pytest.raises(TypeError, match=f"{name}: expected real numbers, got complex128"):
            theory.regret(*arguments)


@pytest.mark.parametrize("value", ["1", None, True])
def test_settings_are_numbers(value: Any) -> None:
    with pytest.raises(TypeError, match="epsilon: expected a number, got"):
        theory.diagonal_bound(ONE, [0.5], epsilon=value, eta=0.5)
    with pytest.raises(TypeError, match="inner_epsilon: expected a number, got"):
        theory.nearly_linear_bound(ONE, [0.5], 1.0, inner_epsilon=value, inner_G=1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_at_the_edge_is_not_refused(dtype: Any) -> None:
    """Gradients brought to length 1 by division are a few units in the last place off."""
    g = RNG.standard_normal((2000, 30)).astype(dtype)
    for norm, dual in ((math.inf, 1), (2.0, 2), (1.0, math.inf)):
        unit = g / np.linalg.norm(g, dual, axis=1, keepdims=True).astype(dtype)
        theory.general_recursive_bound(unit, np.ones(30), 1.0, lambda c: c, norm)
    unit = g / np.abs(g).sum(axis=1, keepdims=True)
    assert theory.recursive_bound(unit, unit, np.ones(30), 1.0, 1.0, 0.5) > 0
    theory.diagonal_bound(unit, np.full(30, 0.5, dtype) * (1 + np.finfo(dtype).eps), 1.0, 0.5)
