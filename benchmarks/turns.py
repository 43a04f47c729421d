"""Whoever is measured takes turns: a noisy neighbour hits all, and ratios stay what they are."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

Turn: TypeAlias = Callable[[], Sequence[float]]
"""One turn: it returns what it measured, once or several times."""
LEAST_ROUNDS = 3


def in_turns(
    players: Mapping[str, Turn], rounds: int, seconds: float | None = None
) -> dict[str, list[float]]:
    """What everybody measured in so many rounds, or in those that fit into ``seconds``.

    >>> in_turns({"one": lambda: [1.0], "two": lambda: [2.0, 3.0]}, rounds=2)
    {'one': [1.0, 1.0], 'two': [2.0, 3.0, 2.0, 3.0]}
    """
    found: dict[str, list[float]] = {name: [] for name in players}
    begin = time.monotonic()
    for played in range(rounds):
        late = seconds is not None and time.monotonic() - begin > seconds
        if late and played >= LEAST_ROUNDS:
            break
        for name, turn in players.items():
            found[name] += turn()
    return found


def on_one_core(burst: Callable[[], None], count: int) -> Turn:
    """CPU seconds of one of the ``count`` things that a burst does, measured over all of them."""

    def turn() -> list[float]:
        begin = time.process_time()
        burst()
        return [(time.process_time() - begin) / count]

    return turn


def spread(values: Sequence[float], parts: int) -> tuple[float, float, float]:
    """The median between the lowest and the highest of the quantiles that make so many parts.

    >>> spread([1.0, 2.0, 3.0, 4.0, 5.0], 4)
    (2.0, 3.0, 4.0)
    """
    if len(values) == 1:
        return values[0], values[0], values[0]
    cuts = statistics.quantiles(values, n=parts, method="inclusive")
    return cuts[0], statistics.median(values), cuts[-1]
