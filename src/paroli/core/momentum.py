r"""The momentum analogue: play the iterate plus a running average of iterates.

The appendix ('Momentum Analog') replaces w_t by w_t + w̄_t with

.. math::
    \overline{w}_t = \frac{\sum_{s \le t} \|g_s\|_\star^2 \, w_s}{\sum_{s \le t} \|g_s\|_\star^2}.

The length of g_t is not known when w_t is played.  As in the authors' released code, an iterate
enters the average with the length of the gradient that led to it, ‖g_{t-1}‖⋆²; and the sums may
forget, multiplied by ``decay`` each round (their code's 0.9; the printed average is ``decay=1``).

>>> import numpy as np
>>> from paroli import OnlineLearner, diagonal, momentum, recursive
>>> plain = OnlineLearner(recursive(diagonal()), start=np.zeros(1))
>>> offset = OnlineLearner(momentum(recursive(diagonal())), start=np.zeros(1))
>>> for _ in range(3):
...     plain.update(np.array([0.5]))
...     offset.update(np.array([0.5]))
>>> bool(offset.point < plain.point < 0)
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from paroli.core.averaged import moved
from paroli.core.learner import Learner, Played, Reduction, State, Told, check_number
from paroli.core.space import Array, Leaves, Space


class MomentumState(NamedTuple):
    """The average, and the root of the sum of squared lengths that weighs it."""

    norm: Array
    w_bar: tuple[Array, ...]
    inner: State


@dataclass(frozen=True)
class momentum(Reduction):
    """A learner whose iterates are offset by their average.

    Args:
        learner: any learner.
        decay: how much of the weights is kept each round; 1: the printed average.
    """

    learner: Learner
    decay: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("momentum", "decay", self.decay, low=0.0, high=1.0)

    average = Learner.average  # one below is of other points than those that are played

    @property
    def measures(self) -> bool:
        return True

    @property
    def lazy(self) -> bool:
        return False  # the average moves towards whatever is played

    @property
    def radius(self) -> float:
        return 2 * self.learner.radius

    def init(self, space: Space, like: Leaves) -> MomentumState:
        w_bar = tuple(space.xp.zeros_like(leaf) for leaf in like)
        return MomentumState(space.number(0.0, like[0]), w_bar, self.learner.init(space, like))

    def play(self, space: Space, state: MomentumState) -> Played:
        inner = self.learner.play(space, state.inner)
        w = [leaf + offset for leaf, offset in zip(inner.w, state.w_bar, strict=True)]
        return Played(w, inner)

    def update(
        self,
        space: Space,
        state: MomentumState,
        played: Played,
        told: Told,
        totals: tuple[Array, ...],
    ) -> MomentumState:
        xp = space.xp
        inner = self.learner.update(space, state.inner, played.inner, told, totals)
        norm = xp.hypot(math.sqrt(self.decay) * state.norm, told.norm)
        share = told.norm / xp.where(norm > 0, norm, 1.0)
        share = share * share
        w_bar = tuple(
            moved(offset, leaf, space.cast(share, leaf))
            for offset, leaf in zip(state.w_bar, self.learner.bet(space, inner), strict=True)
        )
        return MomentumState(norm, w_bar, inner)
