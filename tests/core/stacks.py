"""Stacks of bricks for the tests, put together from whatever `paroli.core` holds.

A new file in that package joins by being there: its learners are found by class, those that can be
made without arguments are put into every reduction, and new reductions go around every learner.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import pkgutil
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

import paroli.core
from paroli import (
    adagrad,
    averaged,
    ball,
    box,
    constrained,
    descent,
    diagonal,
    dimension_free,
    doubling,
    exponential,
    ftrl,
    full_adagrad,
    full_newton,
    momentum,
    newton,
    ons,
    percoordinate,
    perleaf,
    polynomial,
    recursive,
    rescaled,
    scinol,
    scinol1,
    scinol2,
    uniform,
)
from paroli.core.learner import Coordinatewise, Learner, Reduction

SHAPES: list[tuple[int, ...]] = [(3,), (2, 2), ()]
DIMENSION = 8
HALF = 0.5

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "averaged": [{"kind": uniform()}, {"kind": polynomial(3.0)}, {"kind": exponential(0.9)}],
    "constrained": [
        {"domain": box(-0.3, 0.4)},
        {"domain": ball(0.4, norm=1)},
        {"domain": ball(0.4, norm=2)},
        {"domain": ball(0.4, norm=math.inf)},
    ],
    "momentum": [{"decay": 1.0}, {"decay": 0.9}],
}
"""With which settings a reduction is tried; one that is not here is tried with its own."""

VARIANTS: list[Learner] = [
    adagrad(lr=0.3),
    descent(ball_radius=0.7),
    diagonal(epsilon=0.3, eta=0.8),
    doubling(epsilon=0.3, A=5.0),
    ftrl(eta=0.2),
    full_adagrad(lr=0.3),
    full_newton(eta=0.7, tau=3.0),
    newton(domain=0.3, tau=3.0),
    newton(eta=0.7),
    ons(epsilon=0.3, eta=0.7),
    ons(tau=60.0, domain=0.3),
    scinol(epsilon=0.3, cap=None),
    scinol(rescale=False),
    scinol(cap=0.3, domain=0.2),
    scinol1(epsilon=0.3),
    scinol2(epsilon=0.3),
]
"""The shipped learners with other settings than their own."""

NEST: list[Learner] = [
    # What the paper's experiments ran, and what its theorems are about.
    momentum(rescaled(recursive(scinol())), decay=0.9),
    averaged(momentum(rescaled(recursive(scinol())))),
    averaged(momentum(rescaled(recursive(diagonal()))), exponential()),
    averaged(rescaled(recursive(ons(tau=60.0))), polynomial()),
    recursive(diagonal(epsilon=0.3, eta=0.8), epsilon=0.1),
    rescaled(recursive(diagonal()), g_max=3.0),
    # Algorithm 2 as Algorithm 1 in one dimension.
    constrained(percoordinate(recursive(ftrl())), box(-0.5, 0.5)),
    recursive(constrained(percoordinate(recursive(newton())), box())),
    # The predecessor, lifted in each of its ways.
    percoordinate(recursive(newton())),
    dimension_free(recursive(newton())),
    dimension_free(doubling()),
    recursive(constrained(full_newton(), ball(0.5, norm=2))),
    recursive(constrained(dimension_free(doubling()), ball(0.5, norm=2))),
    recursive(constrained(dimension_free(recursive(ftrl())), box())),
    dimension_free(recursive(diagonal()), constrained(adagrad(), ball(1.0, norm=2))),
    rescaled(dimension_free(recursive(newton()))),
    # Recursion within recursion, and reductions within it.
    recursive(constrained(recursive(diagonal()), box())),
    recursive(constrained(recursive(constrained(recursive(ftrl()), box())), box())),
    recursive(constrained(doubling(), box())),
    recursive(constrained(momentum(diagonal()), box())),
    recursive(constrained(momentum(recursive(scinol()), decay=0.9), box())),
    recursive(constrained(momentum(adagrad()), ball(0.5, norm=2))),
    recursive(constrained(rescaled(recursive(diagonal())), box())),
    recursive(rescaled(diagonal())),
    recursive(averaged(diagonal())),
    recursive(constrained(constrained(adagrad(), ball(2.0, norm=1)), box())),
    # A wealth for each leaf or coordinate.
    perleaf(recursive(diagonal())),
    perleaf(momentum(rescaled(recursive(scinol())))),
    recursive(perleaf(diagonal())),
    momentum(rescaled(perleaf(recursive(diagonal())))),
    percoordinate(momentum(rescaled(recursive(ftrl())), decay=0.9)),
    percoordinate(averaged(constrained(descent(), ball(0.5, norm=2)))),
    percoordinate(dimension_free(doubling())),
    constrained(rescaled(dimension_free(recursive(newton()))), ball(0.4, norm=2)),
    constrained(rescaled(recursive(diagonal())), box(-0.2, 0.1)),
]


def modules() -> list[ModuleType]:
    """Every module of the package."""
    found = pkgutil.iter_modules(paroli.core.__path__, f"{paroli.core.__name__}.")
    return [importlib.import_module(module.name) for module in found]


def learners(of: Iterable[ModuleType]) -> list[type[Learner]]:
    """The concrete learner classes that these modules define, by name."""
    found = [
        value
        for module in of
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Learner)
        and value.__module__ == module.__name__
        and not value.__name__.startswith("_")
        and not inspect.isabstract(value)
    ]
    return sorted(found, key=lambda cls: cls.__name__)


def required(cls: type[Learner]) -> list[str]:
    """The settings without a default."""
    return [
        field.name
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]


def leaves(classes: Iterable[type[Learner]]) -> list[Learner]:
    """A learner of every class that can be made without arguments, hence without another."""
    return [cls() for cls in classes if dataclasses.is_dataclass(cls) and not required(cls)]


def reductions(classes: Iterable[type[Learner]]) -> list[type[Learner]]:
    """The classes that need exactly one other learner."""
    return [cls for cls in classes if dataclasses.is_dataclass(cls) and len(required(cls)) == 1]


def around(leaf: Learner, reduction: type[Learner]) -> list[Learner]:
    """The reduction around this leaf with every setting, as far as it makes sense."""
    name = reduction.__name__
    if name == "recursive":
        domain = box() if leaf.norm == math.inf else ball(0.5, norm=leaf.norm)
        return [recursive(leaf if leaf.radius <= HALF else constrained(leaf, domain))]
    if name == "percoordinate" and not isinstance(leaf, Coordinatewise):
        return []  # what has a matrix or a length for all coordinates is no learner for one
    return [reduction(leaf, **settings) for settings in SETTINGS.get(name, [{}])]  # type: ignore[call-arg]


def stacks(leaves: Sequence[Learner], reductions: Sequence[type[Learner]]) -> list[Learner]:
    """Every leaf alone and in every reduction."""
    return [
        stack
        for leaf in leaves
        for stack in (leaf, *(made for cls in reductions for made in around(leaf, cls)))
    ]


CLASSES = learners(modules())
LEAVES = leaves(CLASSES)
REDUCTIONS = reductions(CLASSES)
# A dict, since the same stack may come up twice.
STACKS = list(
    dict.fromkeys(
        [
            *stacks(LEAVES, REDUCTIONS),
            *stacks(VARIANTS, [cls for cls in REDUCTIONS if cls.__name__ == "recursive"]),
            *NEST,
        ]
    )
)


def any_scale(stack: Learner) -> bool:
    """Whether the gradients may have any size: a bound is found before anything needs one."""
    while isinstance(stack, Reduction):
        if isinstance(stack, rescaled):
            return True
        stack = stack.learner
    return False


def stream(rounds: int, seed: int, any_scale: bool = False) -> npt.NDArray[np.float64]:
    """Gradients in rows, ‖g‖₁ < 1 unless ``any_scale``: every 40 rounds another kind of weather."""
    rng = np.random.default_rng(seed)
    drift = rng.choice([-1.0, 1.0], DIMENSION)
    rows = []
    for t in range(rounds):
        kind = t // 40 % 8
        g = rng.normal(size=DIMENSION)
        size = rng.uniform(0.3, 0.99)
        if kind in (1, 5):  # a steady drift, then the opposite one: bets grow and are cut down
            g = drift * rng.uniform(0.5, 1.5, DIMENSION) * (1 if kind == 1 else -1)
        elif kind in (2, 6):  # sparse, and steady on a few coordinates
            g = drift * rng.uniform(0.5, 1.5, DIMENSION) * (1 if kind == 2 else -1)
            g = np.where(np.arange(DIMENSION) // 2 == t // 5 % 4, g, 0.0)
        elif kind == 3 and rng.uniform() < 0.5:
            g = np.zeros(DIMENSION)
        elif kind == 4:  # a spike now and then
            size = 0.99 if rng.uniform() < 0.1 else 0.02
        elif kind == 7:  # one coordinate at a time
            g = np.where(np.arange(DIMENSION) == rng.integers(DIMENSION), g, 0.0)
        rows.append(g / max(abs(g).sum(), 1e-300) * size)
        if any_scale:
            rows[-1] = rows[-1] * 1e3 * 10 ** rng.uniform(-1, 1)
    return np.array(rows)
