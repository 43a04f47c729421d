"""The paper's claims about networks, judged from the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..common.report import NOT, PARTLY, REPRODUCED, Finding
from .figures import LABELS
from .runs import HIGHER_IS_BETTER, Curves, chosen

AS_RUN = ("recursive", "recursive-momentum", "recursive-momentum-printed")
AS_SHIPPED = ("recursive-shipped", "recursive-shipped-momentum")
WITH_MOMENTUM = {"as released": "recursive-momentum", "as printed": "recursive-momentum-printed"}

SAME = 0.01
"""Losses that differ by less of the smaller one are the same."""

SLIGHTLY = 0.02
"""Accuracies that differ by less are slightly different."""


ACCURACY_OF_ONE_SEED, LOSS_OF_ONE_SEED = 0.005, 0.01
"""Where there is one seed only, and so no range, what differs by less is level."""


def same_train_loss(curves: Mapping[str, Curves], metric: str) -> list[Finding]:
    """The convex case: everyone ends at one train loss, within `SAME`; partly: some of ours do."""
    column = "train_loss"
    some = [curves[key] for key in _ours(curves)]
    tuned = [chosen(curves, family, column) for family in ("Adam", "Adagrad")]
    losses = {
        curve.contestant.label: curve.median(column)
        for curve in (*some, *tuned)
        if curve is not None
    }
    ends = {label: float(median[-1]) for label, median in losses.items()}
    least = min(ends.values())
    excess = {label: end / least - 1 for label, end in ends.items()}
    ours = [excess[curves[key].contestant.label] for key in _ours(curves)]
    everyone, some_of_ours = max(excess.values()) <= SAME, min(ours) <= SAME
    verdict = REPRODUCED if everyone else PARTLY if some_of_ours else NOT
    listed = ", ".join(f"{label} +{part:.1%}" for label, part in excess.items())
    every = np.array(list(losses.values()))
    spread = every.max(0) / every.min(0) - 1
    halfway = spread[len(spread) // 2]
    text = (
        f"the least is {least:.4g}; above it: {listed}; the largest excess was {halfway:.1%} "
        f"halfway and is {spread[-1]:.1%} at the end"
    )
    return [Finding(f"the same train loss for all at the end, within {SAME:.0%}", text, verdict)]


def level_with_adam(curves: Mapping[str, Curves], metric: str) -> list[Finding]:
    """Ahead of Adam's best rate, or level: the ranges over seeds overlap."""
    rival = chosen(curves, "Adam", metric)
    if rival is None:
        return []
    holds = {key: _ahead_or_level(curves[key], rival, metric) for key in _ours(curves)}
    claim = f"ahead of Adam's best rate, or level, in {LABELS[metric]}"
    return [Finding(claim, _compared(curves, rival, metric), _of_forms(holds))]


def slightly_behind_adam(curves: Mapping[str, Curves], metric: str) -> list[Finding]:
    """At most `SLIGHTLY` behind Adam's best rate."""
    rival = chosen(curves, "Adam", metric)
    if rival is None:
        return []
    holds = {
        key: rival.score(metric) - curves[key].score(metric) <= SLIGHTLY for key in _ours(curves)
    }
    claim = f"at most slightly (by {SLIGHTLY:g}) behind Adam's best rate in {LABELS[metric]}"
    return [Finding(claim, _compared(curves, rival, metric), _of_forms(holds))]


def momentum_helps(curves: Mapping[str, Curves], metric: str) -> list[Finding]:
    """Better with the momentum analogue than without."""
    return _momentum(curves, metric, helps=True)


def momentum_hurts(curves: Mapping[str, Curves], metric: str) -> list[Finding]:
    """Worse with the momentum analogue than without."""
    return _momentum(curves, metric, helps=False)


def all_of(
    *judges: Callable[[Mapping[str, Curves], str], list[Finding]],
) -> Callable[[Mapping[str, Curves], str], list[Finding]]:
    """What several judges find."""
    return lambda curves, metric: [f for judge in judges for f in judge(curves, metric)]


def _momentum(curves: Mapping[str, Curves], metric: str, helps: bool) -> list[Finding]:
    """As claimed: better or worse in the median, and the ranges over seeds apart."""
    claim = f"momentum {'helps' if helps else 'hurts'}, in {LABELS[metric]}"
    if "recursive" not in curves:
        return []
    without = curves["recursive"]
    parts, as_claimed = [f"without {_text(without, metric)}"], []
    for name, key in WITH_MOMENTUM.items():
        if key not in curves:
            continue
        other = curves[key]
        better, worse = (other, without) if helps else (without, other)
        apart = not _ahead_or_level(worse, better, metric)
        as_claimed.append(apart)
        parts.append(f"{name} {_text(other, metric)}")
    verdict = REPRODUCED if all(as_claimed) else PARTLY if any(as_claimed) else NOT
    return [Finding(claim, ", ".join(parts), verdict)]


def _ours(curves: Mapping[str, Curves]) -> list[str]:
    return [key for key in (*AS_RUN, *AS_SHIPPED) if key in curves]


def _of_forms(holds: Mapping[str, bool]) -> str:
    """Of one that the paper ran: reproduced; of one that only we have: partly."""
    if any(holds.get(key, False) for key in AS_RUN):
        return REPRODUCED
    return PARTLY if any(holds.get(key, False) for key in AS_SHIPPED) else NOT


def _ahead_or_level(ours: Curves, rival: Curves, metric: str) -> bool:
    """Level: the ranges over seeds overlap, or what is between them one seed cannot tell."""
    alone = len(ours.seeds) == 1 or len(rival.seeds) == 1
    if metric in HIGHER_IS_BETTER:
        slack = ACCURACY_OF_ONE_SEED if alone else 0.0
        return bool(ours.best(metric).max() >= rival.best(metric).min() - slack)
    slack = LOSS_OF_ONE_SEED if alone else 0.0
    return bool(ours.best(metric).min() <= rival.best(metric).max() + slack)


def _compared(curves: Mapping[str, Curves], rival: Curves, metric: str) -> str:
    parts = [
        f"{curves[key].contestant.label} {_text(curves[key], metric)}" for key in _ours(curves)
    ]
    return ", ".join([*parts, f"{rival.contestant.label} {_text(rival, metric)}"])


def _text(curve: Curves, metric: str) -> str:
    return f"{curve.score(metric):.4g}"
