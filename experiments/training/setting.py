"""What a run depends on, beside its optimizer and its seed: the data, the network, how long."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from ..data import cifar10, imdb, lm1b, mnist, ptb
from ..data.split import Split


class Network(Protocol):
    """How a network is made: a small frozen dataclass, so that its repr says it all."""

    def build(self) -> torch.nn.Module:
        """A network whose initial weights come from torch's global generator."""
        ...


@dataclass(frozen=True)
class Source:
    """Which rows of which data set."""

    name: str
    """A module of ``experiments/data``."""
    vocabulary: int = 0
    length: int = 0
    """Of texts: how many words are numbered, and how many a row has."""
    rows: int | None = None
    test_rows: int | None = None
    """The first so many of a fixed shuffle; None: all."""
    made_up: bool = False
    """Random rows of the same form that can be learnt: to try the machinery without the data."""

    def load(self) -> Split:
        """The rows; read once in a process."""
        return _load(self)


@cache
def _load(source: Source) -> Split:
    split = _made_up(source) if source.made_up else _whole(source)
    generator = np.random.default_rng(0)
    order = generator.permutation(len(split.inputs))[: source.rows]
    test_order = generator.permutation(len(split.test_inputs))[: source.test_rows]
    return Split(
        split.inputs[order],
        split.targets[order],
        split.test_inputs[test_order],
        split.test_targets[test_order],
    )


def _whole(source: Source) -> Split:
    if source.name == "mnist":
        return mnist.load()
    if source.name == "cifar10":
        return cifar10.load()
    texts = {"imdb": imdb.load, "ptb": ptb.load, "lm1b": lm1b.load}
    return texts[source.name](source.vocabulary, source.length)


def _made_up(source: Source) -> Split:
    """Images with a brighter band a class; texts in which few words follow on each."""
    generator = np.random.default_rng(1)
    counts = (source.rows or 256, source.test_rows or 64)
    arrays: list[npt.NDArray[Any]] = []
    for count in counts:
        if source.name in ("mnist", "cifar10"):
            shape = (1, 28, 28) if source.name == "mnist" else (3, 32, 32)
            labels = generator.integers(0, 10, count)
            images = generator.integers(0, 128, (count, *shape))
            for image, label in zip(images, labels, strict=True):
                image[:, 2 * label : 2 * label + 3] += 127
            arrays += [images.astype(np.uint8), labels]
        elif source.name == "imdb":
            labels = generator.integers(0, 2, count)
            words = generator.integers(2, source.vocabulary, (count, source.length))
            words[:, ::4] = np.where(labels, 2, 3)[:, None]
            arrays += [words.astype(np.int32), labels]
        else:
            words = generator.integers(2, source.vocabulary, (count, source.length + 1))
            words[:, 1::2] = words[:, :-1:2]
            arrays += [words[:, :-1].astype(np.int32), words[:, 1:]]
    return Split(*arrays)


@dataclass(frozen=True)
class Setting:
    """A training run without its optimizer and its seed."""

    source: Source
    network: Network
    batch: int
    steps: int
    looks: int = 20
    """How often it is measured, beside at the start; evenly spaced."""
    measured_rows: int = 10_000
    """Of the training rows: the first so many are measured."""
    augment: bool = False
    """Images are shifted by up to 4 pixels and mirrored, at random."""
    autocast: bool = False
    """Bfloat16 where torch sees fit; on GPUs only."""

    def marks(self) -> list[int]:
        """The steps after which it is measured."""
        return sorted({round(self.steps * i / self.looks) for i in range(self.looks + 1)})
