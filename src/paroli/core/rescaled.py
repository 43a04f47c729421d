r"""An unknown bound on the gradients: use the largest length seen so far.

The theory needs ‖g‖⋆ ≤ g_max with g_max known.  The appendix ('Dealing with unknown bound on g_t')
replaces it by the running maximum

.. math:: g_{\max} \leftarrow \max(g_{\max}, \|g_t\|_\star)

which grows only at the beginning of a typical run.  This is a heuristic: no algorithm can be almost
linear in ‖ẘ‖ and adapt to an unknown final g_max at once (Cutkosky & Boahen, 2017).

>>> import numpy as np
>>> from paroli import OnlineLearner, diagonal, recursive, rescaled
>>> learner = OnlineLearner(rescaled(recursive(diagonal())), start=np.zeros(2))
>>> learner.update(np.array([3e8, -4e8]))
>>> float(learner.state.g_max)
700000000.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from paroli.core.learner import Learner, Played, Reduction, State, Told, check_number
from paroli.core.space import Array, Leaves, Space


class RescaledState(NamedTuple):
    """The largest length seen, and the learner's own state."""

    g_max: Array
    inner: State


@dataclass(frozen=True)
class rescaled(Reduction):
    """A learner for gradients of unknown size.

    Args:
        learner: any learner; it is told the bound found here in place of the paper's 1.
        g_max: where the bound starts; a true bound, where one is known, keeps the theorems.
    """

    learner: Learner
    g_max: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("rescaled", "g_max", self.g_max, low=0.0)

    @property
    def measures(self) -> bool:
        return True

    def init(self, space: Space, like: Leaves) -> RescaledState:
        return RescaledState(space.number(self.g_max, like[0]), self.learner.init(space, like))

    def update(
        self,
        space: Space,
        state: RescaledState,
        played: Played,
        told: Told,
        totals: tuple[Array, ...],
    ) -> RescaledState:
        xp = space.xp
        # Near the end of the float range the bound stops, and the learner scales g back to it.
        norm = xp.clip(told.norm, 0.0, space.magnitude_ceiling(told.g))
        g_max = xp.maximum(state.g_max, norm)
        told = told._replace(g_max=g_max)
        inner = self.learner.update(space, state.inner, played.inner, told, totals)
        return RescaledState(g_max, inner)

    def stake(self, space: Space, state: RescaledState) -> tuple[Array, Leaves] | None:
        return self.learner.stake(space, state.inner)
