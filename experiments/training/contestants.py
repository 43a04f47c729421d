"""Who trains: the paper's optimizer as it was run and as we ship it; Adam and Adagrad."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch.optim.optimizer import Optimizer

from paroli.torch import RecursiveOptimizer

RELEASED_DECAY, PRINTED_DECAY = 0.9, 1.0
"""Of the momentum analogue: in the authors' code, and in the appendix."""

DEFAULT_RATES = {"Adam": 1e-3, "Adagrad": 1e-2}
"""Torch's."""


class Contestant(NamedTuple):
    """An optimizer and how it is evaluated."""

    key: str
    """Its name in the tables and files."""
    label: str
    """Its name for people."""
    cost: float
    """Seconds a step, roughly and relatively: to start the long runs first."""
    momentum: float | None = None
    averaged: bool = False
    """Evaluated at the average of its iterates."""
    family: str = ""
    """Who shares a grid of learning rates; the best of a family is chosen in hindsight."""
    rate: float = 0.0
    """The learning rate, of those that have one."""

    def build(self, parameters: Iterable[torch.nn.Parameter]) -> Optimizer:
        """The optimizer."""
        if self.family == "Adam":
            return torch.optim.Adam(parameters, lr=self.rate)
        if self.family == "Adagrad":
            return torch.optim.Adagrad(parameters, lr=self.rate)
        return RecursiveOptimizer(parameters, momentum=self.momentum, average=self.averaged)

    @property
    def is_default(self) -> bool:
        """Whether it needs no choice: nothing to tune, or left at its default."""
        return not self.family or self.rate == DEFAULT_RATES[self.family]


NOTHING_TO_TUNE = (
    Contestant("recursive", "Recursive, as the paper ran it", 4.0),
    Contestant(
        "recursive-momentum", "Recursive + momentum (as released)", 4.5, momentum=RELEASED_DECAY
    ),
    Contestant(
        "recursive-momentum-printed",
        "Recursive + momentum (as printed)",
        4.5,
        momentum=PRINTED_DECAY,
    ),
    Contestant("recursive-shipped", "Recursive, as shipped (averaged)", 5.0, averaged=True),
    Contestant(
        "recursive-shipped-momentum",
        "Recursive, shipped, + momentum",
        5.5,
        momentum=RELEASED_DECAY,
        averaged=True,
    ),
)


def grid(family: str, rates: Sequence[float]) -> list[Contestant]:
    """One contestant a learning rate; the default one is always among them."""
    every = sorted({*rates, DEFAULT_RATES[family]})
    return [
        Contestant(
            f"{family.lower()}-{rate:g}", f"{family}, {rate:g}", 1.0, family=family, rate=rate
        )
        for rate in every
    ]
