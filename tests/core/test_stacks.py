"""New learners are found, and every one that is shipped has an oracle."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from paroli import OnlineLearner
from paroli.core import skeleton
from paroli.core.learner import Learner, State, flatten
from tests.core.oracles import BUILDERS
from tests.core.spaces import LIBRARIES, Library, split
from tests.core.stacks import (
    CLASSES,
    LEAVES,
    REDUCTIONS,
    SHAPES,
    STACKS,
    any_scale,
    learners,
    leaves,
    stacks,
    stream,
)
from tests.core.test_parity import CLOSE, FEW, Truth, deviation


def test_every_shipped_learner_has_an_oracle() -> None:
    assert {cls.__name__ for cls in CLASSES} == BUILDERS.keys()


def test_every_shipped_learner_is_played() -> None:
    """No class falls through: each is a leaf or a reduction, and occurs in some stack."""
    made = {type(leaf) for leaf in LEAVES} | set(REDUCTIONS)
    assert made == set(CLASSES)
    played = " ".join(map(repr, STACKS))
    assert [cls.__name__ for cls in CLASSES if f"{cls.__name__}(" not in played] == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stack", STACKS, ids=repr)
def test_a_round_changes_no_shape_and_no_dtype(stack: Learner, dtype: type) -> None:
    """What compiled loops ask of a state, and what a saved one is checked for."""
    learner = OnlineLearner(stack, [np.zeros(shape, dtype) for shape in SHAPES])
    before = signature(learner.state)
    for g in stream(3, 0).astype(dtype):
        learner.update(split(g, SHAPES))
    assert signature(learner.state) == before
    assert {leaf.dtype for leaf in learner.point} == {np.dtype(dtype)}


def signature(state: State) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    return {path: (part.dtype, part.shape) for path, part in flatten(state).items()}


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """A copy of the skeleton under another name, in a file outside the package."""
    source = Path(skeleton.__file__).read_text(encoding="utf-8")
    path = tmp_path_factory.mktemp("core") / "newcomer.py"
    path.write_text(source.replace("skeleton", "newcomer"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("newcomer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["newcomer"] = module  # dataclasses look a class's module up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules["newcomer"]


def of_the_skeleton() -> list[Learner]:
    return stacks([leaf for leaf in LEAVES if type(leaf) is skeleton.skeleton], REDUCTIONS)


def of_the_newcomer(module: ModuleType) -> list[Learner]:
    return stacks(leaves(learners([module])), REDUCTIONS)


def test_a_newcomer_is_found(newcomer: ModuleType) -> None:
    names = [repr(stack).replace("newcomer", "skeleton") for stack in of_the_newcomer(newcomer)]
    assert names == [repr(stack) for stack in of_the_skeleton()]
    assert len(names) > len(REDUCTIONS)


@pytest.mark.parametrize("library", LIBRARIES[1:], ids=lambda library: library.name)
@pytest.mark.parametrize("index", range(len(of_the_skeleton())))
def test_a_newcomer_plays_alike_everywhere(
    index: int, library: Library, newcomer: ModuleType
) -> None:
    """Without an oracle, NumPy is the measure for all other libraries."""
    stack = of_the_newcomer(newcomer)[index]
    gradients = stream(60, 0, any_scale(stack))[: FEW.get(library.name, 60)]
    numpy = LIBRARIES[0].play(stack, SHAPES, gradients)
    assert np.abs(numpy.points).max() > 0
    played = library.play(stack, SHAPES, gradients)
    assert deviation(played.points, Truth(numpy.points, None, None)) <= CLOSE
