"""The trajectories of the authors' released code, followed to rounding."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paroli import OnlineLearner, momentum, ons, recursive, rescaled, scinol
from paroli.core.learner import Learner, State, flatten
from tests.core.spaces import Library, TorchLibrary, Vector, vector

GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden"
CLOSE = 1e-9
"""Relative to the distance moved."""

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no trajectories at {GOLDEN}")

RELEASED: dict[str, Learner] = {
    "ons": rescaled(recursive(ons(tau=60.0))),
    "scinol": rescaled(recursive(scinol())),
    "scinol_cap03": rescaled(recursive(scinol(cap=0.3))),
    "scinol_epsilon": rescaled(recursive(scinol(epsilon=0.3), epsilon=0.1)),
    "scinol_momentum_ema09": momentum(rescaled(recursive(scinol())), decay=0.9),
    "scinol_momentum_uniform": momentum(rescaled(recursive(scinol())), decay=1.0),
    "scinol_spike": rescaled(recursive(scinol())),
}


def leaves(recorded: Any, letter: str) -> list[Vector]:
    """The arrays letter_0, letter_1, … of a file."""
    count = sum(name.startswith("x0_") for name in recorded.files)
    return [recorded[f"{letter}_{i}"] for i in range(count)]


def rows(recorded: Any, letter: str) -> Vector:
    """The same as a matrix with a row for each round."""
    parts = leaves(recorded, letter)
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def check(points: Vector, log_wealth: float, state: State, recorded: Any) -> None:
    """``points`` has a row for what is played after each gradient."""
    start = vector(leaves(recorded, "x0"))
    truth = rows(recorded, "x")
    moved = np.abs(truth - start).max(axis=1, keepdims=True)
    assert (np.abs(points - truth) <= CLOSE * moved).all()
    assert math.exp(log_wealth) == pytest.approx(float(recorded["wealth"]), rel=CLOSE)
    (g_max,) = (part for path, part in flatten(state).items() if path.split(".")[-1] == "g_max")
    assert float(g_max) == pytest.approx(float(recorded["g_max"]), rel=CLOSE)


def test_every_file_is_followed() -> None:
    assert {path.stem for path in GOLDEN.glob("*.npz")} == RELEASED.keys()


@pytest.mark.parametrize("name", RELEASED)
def test_released_code_by_online_learner(name: str) -> None:
    with np.load(GOLDEN / f"{name}.npz") as recorded:
        start = leaves(recorded, "x0")
        gradients = leaves(recorded, "g")
        learner = OnlineLearner(RELEASED[name], start=start)
        points = []
        for t in range(len(gradients[0])):
            learner.update([g[t] for g in gradients])
            points.append(vector(learner.point))
        check(np.array(points), learner.log_wealth, learner.state, recorded)


@pytest.mark.parametrize("library", [Library(), TorchLibrary()], ids=lambda library: library.name)
@pytest.mark.parametrize("name", RELEASED)
def test_released_code_by_the_core(name: str, library: Library) -> None:
    with np.load(GOLDEN / f"{name}.npz") as recorded:
        start = leaves(recorded, "x0")
        shapes = [leaf.shape for leaf in start]
        played = library.play(RELEASED[name], shapes, rows(recorded, "g"))
        assert played.log_wealth is not None
        points = vector(start) + played.points[1:]
        check(points, played.log_wealth, played.state, recorded)
