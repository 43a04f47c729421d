"""Who plays: the paper's algorithm, what it is made of, what came before it, and tuned rivals."""

from __future__ import annotations

from collections.abc import Callable
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
    momentum,
    newton,
    ons,
    percoordinate,
    recursive,
    rescaled,
    scinol,
)
from paroli.core.learner import Learner

SCRIPT_RATE = "adagrad-0.01"
"""The one rate that the authors' script gives to Adagrad."""

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
        45,
    ),
    Contestant(
        "recursive-scinol-cap",
        "Recursive: ScInOL, cap 0.1",
        rescaled(recursive(scinol())),
        45,
    ),
    Contestant(
        "recursive-diagonal",
        "Recursive: Algorithm 2",
        rescaled(recursive(diagonal())),
        40,
    ),
    Contestant(
        "scinol",
        "ScInOL alone",
        scinol(cap=None, domain=UNBOUNDED),
        38,
    ),
    Contestant(
        "diagonal",
        "Algorithm 2's bets alone",
        rescaled(percoordinate(recursive(ftrl()))),
        38,
    ),
    Contestant(
        "full-newton",
        "Full-matrix coin betting",
        rescaled(recursive(constrained(full_newton(), ball(0.5, norm=2)))),
        80,
    ),
    Contestant(
        "dimension-free",
        "Dimension-free coin betting",
        rescaled(dimension_free(recursive(newton()))),
        55,
    ),
)


PLAIN, NEWTON = rescaled(recursive(scinol(cap=None))), rescaled(recursive(ons()))

OTHER_FORMS = (
    Contestant(
        "recursive-scinol-momentum", "Recursive: ScInOL, no cap, + momentum", momentum(PLAIN), 55
    ),
    Contestant(
        "recursive-scinol-momentum-twice",
        "Recursive: ScInOL, no cap, + momentum twice",
        momentum(momentum(PLAIN)),
        65,
    ),
    Contestant("recursive-ons", "Recursive: ONSBET", NEWTON, 40),
    Contestant("recursive-ons-momentum", "Recursive: ONSBET, + momentum", momentum(NEWTON), 50),
    Contestant(
        "recursive-ons-momentum-twice",
        "Recursive: ONSBET, + momentum twice",
        momentum(momentum(NEWTON)),
        60,
    ),
)
"""Made of the paper's parts, but not what it ran in Figure 1: the authors' other inner learner, and
the momentum analogue (the average that the appendix prints), once or around itself."""


class Family(NamedTuple):
    """Learners that differ in a learning rate."""

    name: str
    key: str
    learner: Callable[[float], Learner]
    cost: float
    rates: tuple[float, ...]
    quick_rates: tuple[float, ...]


TO_TUNE = (
    Family(
        "Adagrad",
        "adagrad",
        adagrad,
        20,
        (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
        (0.01, 0.03, 0.1, 0.3, 1.0),
    ),
    Family("Full-matrix Adagrad", "full-adagrad", full_adagrad, 540, (0.1, 0.3, 1.0), (0.3,)),
    Family(
        "Online Newton Step",
        "newton-step",
        lambda rate: rescaled(full_newton(eta=rate)),
        45,
        (0.1, 0.3, 1.0, 3.0, 10.0),
        (1.0,),
    ),
)


def contestants(quick: bool) -> list[Contestant]:
    """All of them; a quick run has smaller grids of learning rates."""
    return [
        *NOTHING_TO_TUNE,
        *(
            Contestant(
                f"{family.key}-{rate:g}",
                f"{family.name}, rate {rate:g}",
                family.learner(rate),
                family.cost,
                family.name,
            )
            for family in TO_TUNE
            for rate in (family.quick_rates if quick else family.rates)
        ),
    ]


def as_released(quick: bool) -> list[Contestant]:
    """The two of the authors' script, which has Adagrad with the rate 0.01 only."""
    return [
        player
        for player in contestants(quick)
        if player.key == "recursive-scinol" or player.family == "Adagrad"
    ]


def other_forms() -> list[Contestant]:
    """`OTHER_FORMS` beside the one that the paper ran, and Adagrad at the rates that matter."""
    plain, *rivals = as_released(quick=True)
    return [plain, *OTHER_FORMS, *(rival for rival in rivals if rival.key != SCRIPT_RATE)]
