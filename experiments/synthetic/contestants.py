"""Who plays: the paper's algorithm, what it is made of, what came before it, and Adagrad."""

from __future__ import annotations

from typing import NamedTuple

from paroli import (
    adagrad,
    ball,
    constrained,
    diagonal,
    dimension_free,
    ftrl,
    full_adagrad,
    full_newton,
    newton,
    percoordinate,
    recursive,
    rescaled,
    scinol,
)
from paroli.core.learner import Learner

UNBOUNDED = 1e9
"""A domain that no bet reaches: ScInOL without the outer layer has to find ẘ itself."""


class Contestant(NamedTuple):
    """A learner of the experiment."""

    key: str
    """Its name in the tables."""
    label: str
    """Its name for people."""
    learner: Learner
    cost: float
    """Microseconds a round, roughly: to start the long runs first."""
    family: str = ""
    """Who shares a grid of learning rates; the best of a family is chosen in hindsight."""

    @property
    def is_costly(self) -> bool:
        """Whether it gets fewer seeds: a round takes an eigendecomposition."""
        return isinstance(self.learner, full_adagrad)


NOTHING_TO_TUNE = (
    Contestant(
        "recursive-scinol",
        "Recursive: ScInOL, no cap",
        rescaled(recursive(scinol(cap=None))),
        100,
    ),
    Contestant(
        "recursive-scinol-cap",
        "Recursive: ScInOL, cap 0.1",
        rescaled(recursive(scinol())),
        100,
    ),
    Contestant(
        "recursive-diagonal",
        "Recursive: Algorithm 2",
        rescaled(recursive(diagonal())),
        75,
    ),
    Contestant(
        "scinol",
        "ScInOL alone",
        scinol(cap=None, domain=UNBOUNDED),
        50,
    ),
    Contestant(
        "diagonal",
        "Algorithm 2's bets alone",
        rescaled(percoordinate(recursive(ftrl()))),
        50,
    ),
    Contestant(
        "full-newton",
        "Full-matrix coin betting",
        rescaled(recursive(constrained(full_newton(), ball(0.5, norm=2)))),
        175,
    ),
    Contestant(
        "dimension-free",
        "Dimension-free coin betting",
        rescaled(dimension_free(recursive(newton()))),
        90,
    ),
)
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
FULL_RATES = (0.1, 0.3, 1.0)
QUICK_RATES = (0.03, 0.1, 0.3, 1.0, 3.0)
QUICK_FULL_RATES = (0.3,)


def contestants(quick: bool) -> list[Contestant]:
    """All of them; a quick run has smaller grids of learning rates."""
    rates, full_rates = (QUICK_RATES, QUICK_FULL_RATES) if quick else (RATES, FULL_RATES)
    return [
        *NOTHING_TO_TUNE,
        *(
            Contestant(f"adagrad-{lr:g}", f"Adagrad, rate {lr:g}", adagrad(lr), 32, "Adagrad")
            for lr in rates
        ),
        *(
            Contestant(
                f"full-adagrad-{lr:g}",
                f"Full-matrix Adagrad, rate {lr:g}",
                full_adagrad(lr),
                1000,
                "Full-matrix Adagrad",
            )
            for lr in full_rates
        ),
    ]
