"""One round of `paroli.core.inplace` on one leaf, traced: what compiled loops and kernels are of.

A round comes in two passes over memory.  The first takes the sums that are needed before anything
changes, the last one changes everything; between them are global numbers only.  (With weight decay
a pass between the two measures the increments.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paroli.core.inplace import (
    Count,
    Keeping,
    Layout,
    Place,
    increments,
    received,
    stepped,
    told,
)
from paroli.core.learner import Learner, reduce
from paroli.native.trace import (
    NAMESPACE,
    Node,
    TraceSpace,
    entry,
    number,
    place,
    summand,
    truth,
)


class Form(NamedTuple):
    """All that decides what the passes look like."""

    learner: Learner
    names: tuple[str, ...]
    """Of the global numbers of the state."""
    parts: tuple[tuple[str, str], ...]
    """Names of the parts of a leaf's state, and the precision in which each is kept."""
    gradient: str
    point: str
    computed: str
    """Precisions."""
    lag: str | None
    lost: str | None
    forms: tuple[tuple[str, str], ...]
    lag_form: str
    by_chance: bool
    maximize: bool
    scaled: bool
    """Whether gradients are divided by ``scale``."""

    @property
    def stored(self) -> dict[str, str]:
        """All arrays beside gradient and point, and the precision of each."""
        stored = dict(self.parts)
        if self.lag is not None:
            stored["lag"] = self.lag
        if self.lost is not None:
            stored["lost"] = self.lost
        return stored


class Traced(NamedTuple):
    """The passes as nodes, and the global numbers that they take."""

    sums: list[Node]
    """What the first pass adds up."""
    squares: Node
    """What is added up to the sum of the squares of the increments."""
    results: dict[str, Node]
    """What the last pass writes: by the names of arrays, and the point."""
    numbers: dict[str, Node]
    """The new global numbers, by the names of the state's."""
    inputs: tuple[str, ...]


GIVEN = ("share", "seed", "lr", "decay", "scale")
"""Numbers beside those of the state and the totals."""


def traced(form: Form, layout: Layout, looks: bool) -> Traced:
    """A round of this form.

    Args:
        form: see there.
        layout: how the learner's state is kept.
        looks: whether a round may turn out not to count once it is under way: ``finite`` is then
            an input too, and where it is false everything stays.
    """
    space = TraceSpace()
    computed = np.dtype(form.computed)
    numbers = {name: number(name) for name in form.names}
    parts = {name: entry(name, computed) for name, _ in form.parts}
    keeping = Keeping(dict(form.forms), form.lag_form, form.point, form.by_chance)
    g = received(
        space, entry("gradient", computed), number("scale") if form.scaled else None, form.maximize
    )
    state = layout.nested(dict(numbers), [parts])
    played = form.learner.play(space, state)
    norm, totals = reduce(space, form.learner, played, [g])
    sums = [summand(total) for total in space.totalled]
    has_lag = form.lag is not None
    finite = truth("finite") if looks else Node("constant", (), "truth", np.bool_, True)
    share = number("share") if has_lag else None
    count = Count(finite, share, NAMESPACE.integer(number("seed")))
    here = Place(
        entry("point", computed),
        entry("lag", computed) if has_lag else None,
        entry("lost", computed) if form.lost else None,
        place("i"),
    )
    new = told(
        space,
        form.learner,
        layout,
        state,
        played,
        [g],
        norm,
        totals,
        count,
        [keeping],
        [here.number],
    )
    (move,) = increments(form.learner.play(space, new), played)
    squares = summand(space.dot([move], [move]))
    lr, decay = space.cast(number("lr"), move), space.cast(number("decay"), move)
    there = stepped(space, here, keeping, move, lr, decay, count)
    new_numbers, (new_parts,) = layout.flat(new, 1)
    results = dict(new_parts)
    if there.lag is not None:
        results["lag"] = there.lag
    if there.lost is not None:
        results["lost"] = there.lost
    results["point"] = there.x
    totalled = tuple(f"total_{k}" for k in range(len(sums)))
    return Traced(
        sums,
        squares,
        results,
        {name: new_numbers[name] for name in form.names},
        (*totalled, *form.names, *GIVEN, *(["finite"] if looks else [])),
    )
