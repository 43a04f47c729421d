"""The margin domain typed as it is defined: loops over all features, nothing lazy, nothing shared.

Every iterate is added up where the library keeps a clock; M, the sums and the wealths of every
coordinate stand in plain lists.
"""

# ruff: noqa: B023  # what is defined in a round is called in that round only

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[int, float]


def loss_value(name: str, s: float, y: float, q: float, delta: float) -> float:
    r = s - y
    if name == "logistic":
        return math.log1p(math.exp(-y * s)) if y * s > -700 else -y * s
    if name == "hinge":
        return max(0.0, 1 - y * s)
    if name == "squared":
        return r * r / 2
    if name == "absolute":
        return abs(r)
    if name == "quantile":
        return max((1 - q) * r, -q * r)
    if name == "huber":
        return r * r / 2 if abs(r) <= delta else delta * (abs(r) - delta / 2)
    return math.exp(s) - y * s


def loss_slope(name: str, s: float, y: float, q: float, delta: float) -> float:
    r = s - y
    if name == "logistic":
        return -y / (1 + math.exp(min(y * s, 700.0)))
    if name == "hinge":
        return -y if y * s < 1 else 0.0
    if name == "squared":
        return r
    if name == "absolute":
        return float((r > 0) - (r < 0))
    if name == "quantile":
        return 1 - q if r > 0 else -q if r < 0 else 0.0
    if name == "huber":
        return min(max(r, -delta), delta)
    return math.exp(min(s, 700.0)) - y


class Diagonal:
    """Algorithm 2 on gradients of at most 1."""

    def __init__(self, wealth: float) -> None:
        self.wealth, self.squares, self.sum_z = wealth, 0.0, 0.0

    def unit(self, r: float) -> None:
        self.squares, self.sum_z = self.squares * r * r, self.sum_z * r

    def forget(self, keep: float) -> None:
        self.squares, self.sum_z = self.squares * keep, self.sum_z * keep

    def _v(self) -> float:
        return min(max(-self.sum_z / (5 + self.squares), -0.5), 0.5)

    def bet(self) -> float:
        return min(max(self._v() * self.wealth, -0.5), 0.5)

    def learn(self, g: float) -> None:
        v = self._v()
        x = v * self.wealth
        if g * (x - self.bet()) < 0:
            g = 0.0
        self.wealth -= x * g
        z = g / (1 - g * v)
        self.squares, self.sum_z = self.squares + z * z, self.sum_z + z


class Scinol:
    """ScInOL on gradients of at most 1, where the largest is known to be 1."""

    def __init__(self, wealth: float) -> None:
        self.wealth, self.squares, self.sum_g = wealth, 1e-8, 0.0

    def unit(self, r: float) -> None:
        self.squares, self.sum_g = self.squares * r * r, self.sum_g * r

    def forget(self, keep: float) -> None:
        self.squares, self.sum_g = self.squares * keep, self.sum_g * keep

    def _v(self) -> float:
        scale = math.sqrt(self.squares + 1)
        return min(max(-self.sum_g / scale, -1.0), 1.0) / (2 * scale)

    def bet(self) -> float:
        return min(max(self._v() * self.wealth, -0.5), 0.5)

    def learn(self, g: float) -> None:
        x = self._v() * self.wealth
        if g * (x - self.bet()) < 0:
            g = 0.0
        self.wealth *= 1 - self._v() * g
        self.squares, self.sum_g = self.squares + g * g, self.sum_g + g


INNER = {
    "both": ((Diagonal, 0.3), (Scinol, 2.0)),
    "diagonal": ((Diagonal, 1.0),),
    "scinol": ((Scinol, 2.0),),
}


def play(
    rows: Sequence[Row],
    labels: Sequence[float],
    weights: Sequence[float],
    d: int,
    *,
    loss: str = "logistic",
    quantile: float = 0.5,
    delta: float = 1.0,
    inner: str = "both",
    epsilon: float = 1.0,
    average: bool = True,
    half_life: float | None = None,
    prior: float = 0.0,
    first: int | None = None,
) -> list[float]:
    """The scores, each before its row is learned; feature d is the constant one.

    Rows after the ``first`` ones were learned before.
    """
    of_labels = loss not in ("logistic", "hinge", "poisson")
    keep = 1.0 if half_life is None else 0.5 ** (1 / half_life)
    M: list[float] = [0.0] * (d + 1)
    learners: list[list[Any]] = [[] for _ in range(d + 1)]
    sum_w = [0.0] * (d + 1)
    N = [0] * (d + 1)
    wealth = math.exp(-700) if of_labels else epsilon
    rounds, size, sized = 0, 0.0, 0
    mean = low = high = total = 0.0
    seen = 0
    scores = []

    def u(i: int) -> float:
        return sum(each.bet() for each in learners[i]) / M[i] if M[i] else 0.0

    for t, (row, y, weight) in enumerate(zip(rows, labels, weights, strict=True)):
        again = first is not None and t >= first
        x = [row.get(i, 0.0) for i in range(d)] + [1.0]
        learned = weight > 0 and not math.isnan(y)
        present = sum(value != 0 for value in x)
        kept = ([*M], [[(each.__class__, {**vars(each)}) for each in all_] for all_ in learners])
        for i in range(d + 1):
            a = abs(x[i])
            if a == 0:
                continue
            if M[i] == 0:
                M[i] = a
                share = (sized + 1) / (size + present)
                learners[i] = [cls(share * start) for cls, start in INNER[inner]]
            elif a > M[i]:
                new = 1.05 * M[i] if a > 3 * M[i] else a
                for each in learners[i]:
                    each.unit(M[i] / new)
                M[i] = new
            x[i] = min(max(x[i], -M[i]), M[i])

        def score() -> tuple[float, float, float]:
            p_hat = sum(x[i] * u(i) for i in range(d + 1))
            p = min(max(p_hat, -0.5), 0.5)
            m = wealth * p
            if average:
                m += sum(x[i] * sum_w[i] for i in range(d + 1)) / max(rounds, 1)
            if of_labels:
                m = min(max(mean + m, low), high)
            elif loss == "poisson":
                m += math.log(mean) if mean > 0 else 0.0
                m = min(m, math.log(high)) if high > 0 else m
            return m, p_hat, p

        scores.append(score()[0])
        if not learned:
            # Whatever a row without a label showed is not kept.
            M[:] = kept[0]
            learners = []
            for states in kept[1]:
                learners.append([cls.__new__(cls) for cls, _ in states])
                for each, (_, values) in zip(learners[-1], states, strict=True):
                    vars(each).update(values)
            continue
        span = high - low
        total += weight
        mean += (y - mean) * weight / total
        low, high = (min(low, y), max(high, y)) if seen else (y, y)
        seen += 1
        size += sum((x[i] / M[i]) ** 2 for i in range(d + 1) if M[i])
        sized += 1
        ratio = min(weight * seen / total, 1000.0)
        steps = max(1, math.ceil(ratio - 1e-9))
        each_weighs = min(ratio / steps, 1.0)
        _, p_hat, p = score()
        at = scores[-1]  # the prediction that was made, not what it would be with the label known
        for step in range(steps):
            if step:
                at, p_hat, p = score()
            steepest = {"squared": high - low, "huber": delta, "poisson": high}.get(loss, 1.0)
            s = loss_slope(loss, at, y, quantile, delta) / steepest if steepest > 0 else 0.0
            s = min(max(s, -1.0), 1.0) * each_weighs
            factor = 0.0 if s * (p_hat - p) < 0 else s / (1 - s * p) / 2
            pulls = [0.0] * (d + 1)
            for i in range(d + 1):
                if M[i] and again:
                    w = wealth * u(i) + (sum_w[i] / max(rounds, 1) if average else 0.0)
                    pulls[i] = prior / 2 / max(N[i], 1) * min(max(w * M[i], -1.0), 1.0)
            wealth *= 1 - s * p
            rounds += 1
            for i in range(d + 1):
                if M[i]:
                    if x[i] != 0:
                        g = min(max(factor * x[i] / M[i] + pulls[i], -1.0), 1.0)
                        for each in learners[i]:
                            each.forget(keep)
                            each.learn(g)
                        N[i] += not again
                    sum_w[i] += wealth * u(i)
        if of_labels:
            wealth += epsilon * max(high - low - span, 0.0)
    return scores
