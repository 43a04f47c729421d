r"""Adagrad, diagonal and full-matrix: what the paper measures itself against.

Duchi, Hazan & Singer (2011), with their learning rate:

.. math::
    w_{t+1} = w_t - \text{lr} \, \frac{g_t}{\sqrt{\sum_{s \le t} g_s^2}}
    \qquad\text{or}\qquad
    w_{t+1} = w_t - \text{lr} \left(\sum_{s \le t} g_s g_s^\top\right)^{-1/2} g_t.

Their regrets, for a learning rate tuned to ẘ, are ``eqn:diagada`` and ``eqn:fullmatrixada``.  The
full-matrix form takes an eigendecomposition, O(d³), each round.

>>> import numpy as np
>>> from paroli import OnlineLearner, adagrad
>>> learner = OnlineLearner(adagrad(lr=0.5), start=np.zeros(2))
>>> learner.update(np.array([4.0, -0.001]))
>>> learner.point
array([-0.5,  0.5])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from paroli.core import norms
from paroli.core.dense import joined, split
from paroli.core.learner import Coordinatewise, Learner, Played, Told, check_number
from paroli.core.space import Array, Leaves, Space


class AdagradState(NamedTuple):
    """The iterate and the root of the sum of squares, one entry for each coordinate."""

    w: Array
    S: Array


@dataclass(frozen=True)
class adagrad(Coordinatewise):
    """Diagonal Adagrad.

    Args:
        lr: the learning rate.
    """

    lr: float = 1.0

    def __post_init__(self) -> None:
        check_number("adagrad", "lr", self.lr, low=0.0)

    def init_leaf(self, xp: Any, leaf: Array) -> AdagradState:
        return AdagradState(xp.zeros_like(leaf), xp.zeros_like(leaf))

    def bet_leaf(self, xp: Any, state: AdagradState) -> Array:
        return state.w

    def update_leaf(self, xp: Any, state: AdagradState, g: Array, g_max: Array) -> AdagradState:
        S = xp.hypot(state.S, g)
        return AdagradState(state.w - self.lr * (g / xp.where(S > 0, S, 1.0)), S)


class FullAdagradState(NamedTuple):
    """The iterate, the largest entry m seen, and Σ g gᵀ / m² (the matrix itself could overflow)."""

    m: Array
    H: Array
    w: tuple[Array, ...]


@dataclass(frozen=True)
class full_adagrad(Learner):
    """Full-matrix Adagrad.

    Args:
        lr: the learning rate.
        tiny: eigenvalues below this share of the largest count as zero (their directions have no
            gradient, beyond rounding).
    """

    lr: float = 1.0
    tiny: float = 1e-12

    def __post_init__(self) -> None:
        check_number("full_adagrad", "lr", self.lr, low=0.0)
        check_number("full_adagrad", "tiny", self.tiny, low=0.0)

    @property
    def norm(self) -> float:
        return 2.0

    def init(self, space: Space, like: Leaves) -> FullAdagradState:
        flat = joined(space.xp, like)
        H = space.xp.zeros((flat.shape[0], flat.shape[0]), dtype=flat.dtype)
        w = tuple(space.xp.zeros_like(leaf) for leaf in like)
        return FullAdagradState(space.cast(space.number(0.0, flat), flat), H, w)

    def play(self, space: Space, state: FullAdagradState) -> Played:
        return Played(list(state.w))

    def update(
        self,
        space: Space,
        state: FullAdagradState,
        played: Played,
        told: Told,
        totals: tuple[Array, ...],
    ) -> FullAdagradState:
        xp = space.xp
        g = joined(xp, told.g)
        m = xp.maximum(state.m, space.cast(norms.largest_entry(space, told.g), g))
        safe = xp.where(m > 0, m, 1.0)
        g = g / safe
        ratio = state.m / safe
        H = state.H * (ratio * ratio) + g[:, None] * g[None, :]
        eigenvalues, Q = xp.linalg.eigh(H)
        floor = self.tiny * xp.max(eigenvalues)
        keep = eigenvalues > floor
        root = xp.where(keep, 1 / xp.sqrt(xp.where(keep, eigenvalues, 1.0)), 0.0)
        step = split(xp, Q @ (root * (Q.T @ g)), told.g)
        w = tuple(leaf - self.lr * s for leaf, s in zip(state.w, step, strict=True))
        return FullAdagradState(m, H, w)
