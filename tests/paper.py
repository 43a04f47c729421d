"""The oracle: every algorithm typed once more, as literally as its paper prints it.

Plain float64, a Python loop for every 'for i = 1 … d', wealth multiplied instead of summed in
logarithms, and sums over the past taken afresh from a list of the past.  It imports nothing from
the library and shares nothing of its structure, so that what both say can only be the algorithm.

A round is ``play()``, which gives w_t as one vector, then ``receive(g, g_max)``.  The gradient
comes as it is, beside a known bound on its size; whoever needs the paper's |g| ≤ 1 divides by it,
and a scale-free algorithm does not.  One that has a wealth gives it, summed over coordinates, by
``worth()``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

DUAL = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}


def length(g: Vector, p: float) -> float:
    """‖g‖_p."""
    if p == 1.0:
        return float(sum(abs(g)))
    if p == 2.0:
        return math.sqrt(sum(g * g))
    return float(max(abs(g)))


def clip(x: float, low: float, high: float) -> float:
    return max(low, min(x, high))


def sign(x: float) -> float:
    return float(x > 0) - float(x < 0)


class Algorithm:
    """What all have in common, and what the algorithm around it may count on."""

    accepts = 1.0  # gradients may be as large as accepts · g_max
    bets = math.inf  # the p of the norm in which its outputs are bounded
    gradients = math.inf  # the p of the norm in which its gradients have to be

    def play(self) -> Vector:
        raise NotImplementedError

    def receive(self, g: Vector, g_max: float) -> None:
        raise NotImplementedError

    def announce(self, x: Vector) -> None:
        """The features of a linear model, seen before playing: |g| ≤ |x|."""

    def worth(self) -> float:
        raise AttributeError("this one has no wealth")

    def average(self) -> Vector:
        raise AttributeError("this one keeps no average")


# Cutkosky & Sarlos (2019), Algorithms 1 and 2 -----------------------------------------------


class RecursiveOptimizer(Algorithm):
    """Algorithm 1."""

    def __init__(self, d: int, inner: Algorithm, epsilon: float) -> None:
        self.wealth = epsilon  # line 2
        self.inner = inner  # line 3
        self.bets = inner.bets
        self.gradients = DUAL[inner.bets]  # ‖·‖⋆

    def play(self) -> Vector:
        v = self.inner.play()  # line 5
        return self.wealth * v  # line 6

    def receive(self, g: Vector, g_max: float) -> None:
        v = self.inner.play()
        w = self.play()
        g = g / g_max  # line 7
        self.wealth = self.wealth - g @ w  # line 8
        z = g / (1 - g @ v)  # line 9
        # Section 5: 'we rescale the gradients by a factor of 2', for who accepts 1; the released
        # code multiplies by 1 - betting_domain.
        z = z * self.inner.accepts / 2
        self.inner.receive(z * g_max, g_max)  # line 10

    def announce(self, x: Vector) -> None:
        self.inner.announce(x)

    def worth(self) -> float:
        return float(self.wealth)


class DiagOptimizer(Algorithm):
    """Algorithm 2."""

    def __init__(self, d: int, epsilon: float, eta: float) -> None:
        self.d, self.eta = d, eta
        self.wealth = [epsilon for i in range(d)]  # line 2
        self.A = [5.0 for i in range(d)]  # line 3
        self.v = [0.0 for i in range(d)]  # line 3
        self.z: list[list[float]] = [[] for i in range(d)]

    def play(self) -> Vector:
        w = []
        for i in range(self.d):  # line 5
            x = self.v[i] * self.wealth[i]  # line 6
            w.append(clip(x, -1 / 2, 1 / 2))  # line 7
        return np.array(w)  # line 9

    def receive(self, g: Vector, g_max: float) -> None:
        g = g / g_max  # line 10
        w = self.play()
        for i in range(self.d):  # line 11
            x = self.v[i] * self.wealth[i]
            g_tilde = float(g[i])  # line 12
            if g[i] * (x - w[i]) < 0:  # line 13
                g_tilde = 0.0  # line 14
            self.wealth[i] = self.wealth[i] - x * g_tilde  # line 16
            self.z[i].append(g_tilde / (1 - g_tilde * self.v[i]))  # line 17
            self.A[i] = self.A[i] + self.z[i][-1] ** 2  # line 18
            v = -2 * self.eta * sum(self.z[i]) / self.A[i]
            self.v[i] = clip(v, -1 / 2, 1 / 2)  # line 19

    def worth(self) -> float:
        return sum(self.wealth)


class Ftrl(Algorithm):
    """The inner learner of Algorithm 2's proof: argmin over |v| ≤ 1/2 of Σ z·v + A v²/(4η)."""

    accepts = 2.0  # |z| ≤ 2

    def __init__(self, d: int, eta: float) -> None:
        self.eta = eta
        self.z: list[list[float]] = [[] for i in range(d)]

    def play(self) -> Vector:
        v = []
        for z in self.z:
            A = 5 + sum(z_t**2 for z_t in z)
            v.append(clip(-sum(z) / (2 * A / (4 * self.eta)), -1 / 2, 1 / 2))
        return np.array(v)

    def receive(self, g: Vector, g_max: float) -> None:
        for i, z in enumerate(self.z):
            z.append(float(g[i] / g_max))


class Doubling(Algorithm):
    """Appendix 'Optimal Logarithmic Factors', on every coordinate.

    The fraction is the leader of A v²/2, for which the appendix's display has the regret
    A x²/2 + Σ z²/(2A).  (Its text says η = 1, which would be the leader of A v²/4.)
    """

    def __init__(self, d: int, epsilon: float, A: float) -> None:
        self.epsilon = epsilon
        self.A = [A for i in range(d)]
        self.wealth = [epsilon for i in range(d)]
        self.z: list[list[float]] = [[] for i in range(d)]
        self.g: list[list[float]] = [[] for i in range(d)]

    def fraction(self, i: int) -> float:
        return clip(-sum(self.z[i]) / self.A[i], -1 / 2, 1 / 2)

    def play(self) -> Vector:
        return np.array([self.fraction(i) * wealth for i, wealth in enumerate(self.wealth)])

    def receive(self, g: Vector, g_max: float) -> None:
        for i in range(len(self.A)):
            v, g_i = self.fraction(i), float(g[i] / g_max)
            self.wealth[i] = self.wealth[i] - g_i * v * self.wealth[i]
            self.z[i].append(g_i / (1 - g_i * v))
            self.g[i].append(g_i)
            if 2 * sum(past**2 for past in self.g[i]) > self.A[i]:
                self.A[i] = 2 * self.A[i]
                self.wealth[i], self.z[i], self.g[i] = self.epsilon, [], []

    def worth(self) -> float:
        return sum(self.wealth)


# The authors' released inner learners --------------------------------------------------------

SMALL_VALUE = 1e-8


class AuthorsScinol(Algorithm):
    """The released code's SCINOL: the reward of each coordinate on top of a growing ε·M."""

    def __init__(
        self, d: int, epsilon: float, cap: float | None, rescale: bool, domain: float
    ) -> None:
        self.d, self.epsilon, self.cap, self.rescale = d, epsilon, cap, rescale
        self.domain, self.accepts = domain, 2 * (1 - min(domain, 1 / 2))
        self.maximum = [SMALL_VALUE for i in range(d)]
        self.reward = [0.0 for i in range(d)]
        self.sum_squares = [SMALL_VALUE for i in range(d)]
        self.sum = [0.0 for i in range(d)]

    def wealth(self, i: int) -> float:
        return self.reward[i] + self.epsilon * (self.maximum[i] if self.rescale else 1.0)

    def bet(self, i: int) -> float:
        scaling = 1 / math.sqrt(self.sum_squares[i] + self.maximum[i] ** 2)
        if self.cap is not None:
            scaling = min(scaling, self.cap / self.maximum[i])
        theta = -self.sum[i] * scaling
        return sign(theta) * min(abs(theta), 1.0) * scaling / 2 * self.wealth(i)

    def play(self) -> Vector:
        return np.array([clip(self.bet(i), -self.domain, self.domain) for i in range(self.d)])

    def receive(self, g: Vector, g_max: float) -> None:
        for i in range(self.d):
            x = self.bet(i)
            w = clip(x, -self.domain, self.domain)
            clipped = clip(float(g[i]), -self.maximum[i], self.maximum[i])
            truncated = clipped if clipped * (x - w) >= 0 else 0.0
            self.maximum[i] = max(self.maximum[i], abs(float(g[i])))
            self.reward[i] = self.reward[i] - x * truncated
            self.sum_squares[i] = self.sum_squares[i] + truncated**2
            self.sum[i] = self.sum[i] + truncated

    def worth(self) -> float:
        return sum(self.wealth(i) for i in range(self.d))


class AuthorsOnsBet(Algorithm):
    """The released code's ONSBET, which sees the gradient divided by g_max."""

    def __init__(
        self, d: int, epsilon: float, eta: float | None, tau: float, domain: float
    ) -> None:
        self.d, self.domain = d, domain
        self.accepts = 2 * (1 - min(domain, 1 / 2))
        self.eta = newton_rate(domain) if eta is None else eta
        self.wealth = [epsilon for i in range(d)]
        self.maximum = [SMALL_VALUE for i in range(d)]
        self.sum_squares = [tau for i in range(d)]
        self.v = [0.0 for i in range(d)]

    def play(self) -> Vector:
        x = [self.v[i] * self.wealth[i] for i in range(self.d)]
        return np.array([clip(x_i, -self.domain, self.domain) for x_i in x])

    def receive(self, g: Vector, g_max: float) -> None:
        w = self.play()
        for i in range(self.d):
            x, g_i = self.v[i] * self.wealth[i], float(g[i] / g_max)
            self.maximum[i] = max(self.maximum[i], abs(g_i))
            truncated = g_i if g_i * (x - w[i]) >= 0 else 0.0
            self.wealth[i] = self.wealth[i] - x * truncated
            z = truncated / ((1 - self.v[i] * truncated) * self.maximum[i])
            self.sum_squares[i] = self.sum_squares[i] + z**2
            v = self.v[i] - self.eta * z / self.sum_squares[i]
            self.v[i] = clip(v, -self.domain, self.domain)

    def worth(self) -> float:
        return sum(self.wealth)


# Kempka, Kotłowski & Warmuth (2019) ----------------------------------------------------------


class Scinol1(Algorithm):
    """ScInOL 1; a gradient larger than any x announced counts as large as the largest of those."""

    def __init__(self, d: int, epsilon: float) -> None:
        self.d, self.epsilon = d, epsilon
        self.M = [0.0 for i in range(d)]
        self.S2 = [0.0 for i in range(d)]
        self.G = [0.0 for i in range(d)]
        self.beta = [1.0 for i in range(d)]
        self.t = 1

    def announce(self, x: Vector) -> None:
        for i in range(self.d):
            if x[i] != 0:
                self.M[i] = max(self.M[i], abs(float(x[i])))
                total = self.S2[i] + self.M[i] ** 2
                bound = self.epsilon * total / (float(x[i]) ** 2 * self.t)
                self.beta[i] = min(self.beta[i], bound)

    def play(self) -> Vector:
        w = []
        for i in range(self.d):
            if self.G[i] == 0:
                w.append(0.0)
                continue
            root = math.sqrt(self.S2[i] + self.M[i] ** 2)
            theta = self.G[i] / root
            w.append(self.beta[i] * sign(theta) * (math.exp(abs(theta) / 2) - 1) / (2 * root))
        return np.array(w)

    def receive(self, g: Vector, g_max: float) -> None:
        counted = [clip(float(g[i]), -self.M[i], self.M[i]) for i in range(self.d)]
        self.announce(g)
        for i in range(self.d):
            self.G[i] = self.G[i] - counted[i]
            self.S2[i] = self.S2[i] + counted[i] ** 2
        self.t += 1


class Scinol2(Algorithm):
    """ScInOL 2; a gradient larger than any x announced counts as large as the largest of those."""

    def __init__(self, d: int, epsilon: float) -> None:
        self.d = d
        self.M = [0.0 for i in range(d)]
        self.S2 = [0.0 for i in range(d)]
        self.G = [0.0 for i in range(d)]
        self.eta = [epsilon for i in range(d)]

    def announce(self, x: Vector) -> None:
        for i in range(self.d):
            self.M[i] = max(self.M[i], abs(float(x[i])))

    def play(self) -> Vector:
        w = []
        for i in range(self.d):
            if self.G[i] == 0:
                w.append(0.0)
                continue
            root = math.sqrt(self.S2[i] + self.M[i] ** 2)
            theta = self.G[i] / root
            w.append(sign(theta) * min(abs(theta), 1.0) / (2 * root) * self.eta[i])
        return np.array(w)

    def receive(self, g: Vector, g_max: float) -> None:
        w = self.play()
        for i in range(self.d):
            counted = clip(float(g[i]), -self.M[i], self.M[i])
            self.eta[i] = self.eta[i] - counted * float(w[i])
            self.G[i] = self.G[i] - counted
            self.S2[i] = self.S2[i] + counted**2
        self.announce(g)

    def worth(self) -> float:
        return sum(self.eta)


# Cutkosky & Orabona (2018) -------------------------------------------------------------------


def newton_rate(domain: float) -> float:
    return 0.5 / (domain - domain**2 * math.log(1 + 1 / domain))


class NewtonStep(Algorithm):
    """The Online Newton Step in one dimension, on every coordinate."""

    accepts = 2.0

    def __init__(self, d: int, eta: float | None, tau: float, domain: float) -> None:
        self.tau, self.domain = tau, domain
        self.eta = newton_rate(domain) if eta is None else eta
        self.v = [0.0 for i in range(d)]
        self.z: list[list[float]] = [[] for i in range(d)]

    def play(self) -> Vector:
        return np.array(self.v)

    def receive(self, g: Vector, g_max: float) -> None:
        for i, z in enumerate(self.z):
            z.append(float(g[i] / g_max))
            A = self.tau + sum(z_t**2 for z_t in z)
            self.v[i] = clip(self.v[i] - self.eta / A * z[-1], -self.domain, self.domain)


class FullNewtonStep(Algorithm):
    """The Online Newton Step with its matrix A = τI + Σ z zᵀ, solved afresh each round."""

    accepts = 2.0
    bets = 2.0
    gradients = 2.0

    def __init__(self, d: int, eta: float | None, tau: float) -> None:
        self.eta = newton_rate(1 / 2) if eta is None else eta
        self.A = tau * np.identity(d)
        self.v = np.zeros(d)

    def play(self) -> Vector:
        return self.v

    def receive(self, g: Vector, g_max: float) -> None:
        z = g / g_max
        self.A = self.A + np.outer(z, z)
        self.v = self.v - self.eta * np.linalg.solve(self.A, z)


class ConstrainedToBox(Algorithm):
    """Algorithm 2's lines 7 and 12 to 15 around any algorithm."""

    def __init__(self, d: int, inner: Algorithm, low: float, high: float) -> None:
        self.d, self.inner, self.low, self.high = d, inner, low, high
        self.accepts, self.gradients = inner.accepts, inner.gradients

    def play(self) -> Vector:
        return np.array([clip(float(x), self.low, self.high) for x in self.inner.play()])

    def receive(self, g: Vector, g_max: float) -> None:
        x, w = self.inner.play(), self.play()
        g_tilde = np.array(g)
        for i in range(self.d):
            if g[i] * (x[i] - w[i]) < 0:
                g_tilde[i] = 0.0
        self.inner.receive(g_tilde, g_max)

    def announce(self, x: Vector) -> None:
        self.inner.announce(x)

    def worth(self) -> float:
        return self.inner.worth()


class ConstrainedToBall(Algorithm):
    """The unconstrained-to-constrained reduction on ‖w‖_p ≤ radius, p = 1 or 2.

    The gradient of the distance to the ball, at x outside, is x/‖x‖₂ or sign(x).  In the 1-norm the
    altered gradient may be twice as long as g, so half of it is sent.
    """

    def __init__(self, d: int, inner: Algorithm, radius: float, p: float) -> None:
        self.d, self.inner, self.radius, self.bets = d, inner, radius, p
        self.accepts, self.gradients = inner.accepts, inner.gradients

    def excess(self, x: Vector) -> float:
        """The share of x by which it is too long."""
        long = length(x, self.bets)
        return 1 - self.radius / long if long > self.radius else 0.0

    def play(self) -> Vector:
        x = self.inner.play()
        return x - self.excess(x) * x

    def receive(self, g: Vector, g_max: float) -> None:
        x = self.inner.play()
        g_tilde = np.array(g)
        if self.excess(x) > 0:
            outward = self.excess(x) * x  # x - w
            push = max(0.0, -(g @ outward) / length(outward, self.bets))
            if self.bets == 2.0:
                normal = outward / length(outward, 2.0)
            else:
                normal = np.array([sign(float(x_i)) for x_i in outward])
            g_tilde = g + push * normal
        if self.bets == 1.0:
            g_tilde = g_tilde / 2
        self.inner.receive(g_tilde, g_max)

    def announce(self, x: Vector) -> None:
        self.inner.announce(x)

    def worth(self) -> float:
        return self.inner.worth()


class ProjectedDescent(Algorithm):
    """Gradient descent on ‖y‖₂ ≤ r with the step √2 r / √Σ‖g‖²."""

    bets = 2.0
    gradients = 2.0

    def __init__(self, d: int, radius: float) -> None:
        self.radius = radius
        self.y = np.zeros(d)
        self.past: list[Vector] = []

    def play(self) -> Vector:
        return self.y

    def receive(self, g: Vector, g_max: float) -> None:
        self.past.append(g)
        squares = sum(float(past @ past) for past in self.past)
        if squares > 0:
            y = self.y - math.sqrt(2) * self.radius / math.sqrt(squares) * g
            self.y = y if length(y, 2.0) <= self.radius else self.radius * y / length(y, 2.0)


class DimensionFree(Algorithm):
    """w = m·y, a length times a direction."""

    bets = 2.0
    gradients = 2.0

    def __init__(self, d: int, magnitude: Algorithm, direction: Algorithm) -> None:
        self.magnitude, self.direction = magnitude, direction

    def play(self) -> Vector:
        return self.magnitude.play()[0] * self.direction.play()

    def receive(self, g: Vector, g_max: float) -> None:
        slope = g @ self.direction.play()
        self.magnitude.receive(np.array([slope]), g_max)
        self.direction.receive(g, g_max)

    def worth(self) -> float:
        return self.magnitude.worth()


# The appendix 'Experimental Details' ---------------------------------------------------------


class Wrapped(Algorithm):
    """What an algorithm around another passes on."""

    def __init__(self, inner: Algorithm) -> None:
        self.inner = inner
        self.accepts, self.bets, self.gradients = inner.accepts, inner.bets, inner.gradients

    def play(self) -> Vector:
        return self.inner.play()

    def announce(self, x: Vector) -> None:
        self.inner.announce(x)

    def worth(self) -> float:
        return self.inner.worth()


class Rescaled(Wrapped):
    """'Dealing with unknown bound on g_t'."""

    def __init__(self, d: int, inner: Algorithm, g_max: float) -> None:
        super().__init__(inner)
        self.g_max = g_max

    def receive(self, g: Vector, g_max: float) -> None:
        self.g_max = max(self.g_max, length(g, self.gradients))
        self.inner.receive(g, self.g_max)

    def average(self) -> Vector:
        return self.inner.average()


class Momentum(Wrapped):
    """'Momentum Analog', with the released code's order: ‖g_{t-1}‖ weighs w_t."""

    def __init__(self, d: int, inner: Algorithm, decay: float) -> None:
        super().__init__(inner)
        self.d, self.decay = d, decay
        self.weights: list[float] = []
        self.points: list[Vector] = []

    def play(self) -> Vector:
        offset = np.zeros(self.d)
        if sum(self.weights) > 0:
            offset = np.array(self.weights) @ np.array(self.points) / sum(self.weights)
        return self.inner.play() + offset

    def receive(self, g: Vector, g_max: float) -> None:
        self.inner.receive(g, g_max)
        self.weights = [self.decay * weight for weight in self.weights]
        self.weights.append(length(g, self.gradients) ** 2)
        self.points.append(self.inner.play())


class Averaged(Wrapped):
    """All points played with all their weights; ``reweighed`` gives the weights after round t."""

    def __init__(
        self, d: int, inner: Algorithm, reweighed: Callable[[list[float], int], list[float]]
    ) -> None:
        super().__init__(inner)
        self.d, self.reweighed = d, reweighed
        self.weights: list[float] = []
        self.points: list[Vector] = []

    def receive(self, g: Vector, g_max: float) -> None:
        self.points.append(self.inner.play())
        self.weights = self.reweighed(self.weights, len(self.points))
        self.inner.receive(g, g_max)

    def average(self) -> Vector:
        return np.array(self.weights) @ np.array(self.points) / sum(self.weights)


def uniform_weights(weights: list[float], t: int) -> list[float]:
    """All alike."""
    return [1.0 for s in range(t)]


def polynomial_weights(power: float) -> Callable[[list[float], int], list[float]]:
    """Γ(t + power) / Γ(t), relative to the first: a polynomial in t of this degree."""

    def reweighed(weights: list[float], t: int) -> list[float]:
        return [*weights, weights[-1] * (t - 1 + power) / (t - 1) if weights else 1.0]

    return reweighed


def exponential_weights(decay: float) -> Callable[[list[float], int], list[float]]:
    """What is there keeps its share min(decay, (t - 1)/(t + 9)); the new point has the rest."""

    def reweighed(weights: list[float], t: int) -> list[float]:
        kept = min(decay, (t - 1) / (t + 9))
        return [*(kept * weight for weight in weights), 1 - kept]

    return reweighed


# Many copies, and what the paper compares with ------------------------------------------------


class Copies(Algorithm):
    """An algorithm of its own for every block of coordinates."""

    def __init__(self, d: int, copies: Sequence[tuple[slice, Algorithm]]) -> None:
        self.copies = copies
        one = copies[0][1]
        self.accepts = one.accepts
        if len(copies) < d:  # on one coordinate all norms are the same
            self.bets, self.gradients = one.bets, one.gradients

    def play(self) -> Vector:
        return np.concatenate([copy.play() for _, copy in self.copies])

    def receive(self, g: Vector, g_max: float) -> None:
        for block, copy in self.copies:
            copy.receive(g[block], g_max)

    def announce(self, x: Vector) -> None:
        for block, copy in self.copies:
            copy.announce(x[block])

    def average(self) -> Vector:
        return np.concatenate([copy.average() for _, copy in self.copies])

    def worth(self) -> float:
        return sum(copy.worth() for _, copy in self.copies)


class Adagrad(Algorithm):
    """Duchi, Hazan & Singer (2011), diagonal."""

    def __init__(self, d: int, lr: float) -> None:
        self.lr = lr
        self.w = [0.0 for i in range(d)]
        self.past: list[list[float]] = [[] for i in range(d)]

    def play(self) -> Vector:
        return np.array(self.w)

    def receive(self, g: Vector, g_max: float) -> None:
        for i, past in enumerate(self.past):
            past.append(float(g[i]))
            if past[-1] != 0:
                root = math.sqrt(sum(g_t**2 for g_t in past))
                self.w[i] = self.w[i] - self.lr * past[-1] / root


class FullAdagrad(Algorithm):
    """Duchi, Hazan & Singer (2011), full-matrix, with the pseudo-inverse where Σ g gᵀ is singular.

    (Σ g gᵀ)^(-1/2) comes from the singular values of the matrix whose rows are the gradients, so
    that no eigenvalue of its square is ever rounded.
    """

    bets = 2.0
    gradients = 2.0

    def __init__(self, d: int, lr: float, tiny: float) -> None:
        self.lr, self.tiny = lr, tiny
        self.w = np.zeros(d)
        self.past: list[Vector] = []

    def play(self) -> Vector:
        return self.w

    def receive(self, g: Vector, g_max: float) -> None:
        self.past.append(g)
        _, s, V = np.linalg.svd(np.array(self.past), full_matrices=False)
        step = np.zeros(len(g))
        for k in range(len(s)):
            if s[k] ** 2 > self.tiny * s[0] ** 2:
                step = step + V[k] * (V[k] @ g) / s[k]
        self.w = self.w - self.lr * step


class KrichevskyTrofimov(Algorithm):
    """Orabona & Tommasi (2017): bet the fraction -Σg / (1 + Σ|g|) on every coordinate."""

    def __init__(self, d: int, epsilon: float) -> None:
        self.wealth = [epsilon for i in range(d)]
        self.past: list[list[float]] = [[] for i in range(d)]

    def play(self) -> Vector:
        w = []
        for wealth, past in zip(self.wealth, self.past, strict=True):
            w.append(-sum(past) / (1 + sum(abs(g) for g in past)) * wealth)
        return np.array(w)

    def receive(self, g: Vector, g_max: float) -> None:
        w = self.play()
        for i, past in enumerate(self.past):
            self.wealth[i] = self.wealth[i] - float(g[i] / g_max * w[i])
            past.append(float(g[i] / g_max))

    def worth(self) -> float:
        return sum(self.wealth)
