r"""A round played on parameters in place: by increments, counted only if all is finite.

What is played is x = start + bet.  The start need not be stored, since an iterate moves by the
difference of two bets,

.. math::
    x_{t+1} = x_t + \text{lr} \, (w_{t+1} - w_t - \text{decay}_t \, x_t),

where lr is a factor that schedules may change and decay_t is a share of the increments' root mean
square (`decay_share`).  The averaged point is kept as its distance from the iterate, its ``lag``,
which takes fewer bits than the point itself.  Bets are those of the state *as it is kept*
(`paroli.core.compact`), so that what was played and what the next round remembers is the same.

A round with NaN or inf in a sum does not count: everything stays, to the bit.

The functions are in the order of a round: `received`, `paroli.core.learner.reduce`, `counts`,
`told`, `increments`, `stepped`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from paroli.core.averaged import Average, moved
from paroli.core.compact import DIGITS, added, chance, compact, seed_of_round
from paroli.core.lazy import Clock, settled
from paroli.core.learner import Learner, Played, State, Told
from paroli.core.space import Array, Leaves, Space


class Layout(Protocol):
    """How a learner's nested state is kept: global numbers, and for each leaf its parts."""

    least: dict[str, float]
    """The parts that never fall below a number, and that number."""

    def nested(self, numbers: dict[str, Array], leaves: list[dict[str, Array]]) -> State: ...

    def flat(self, state: State, count: int) -> tuple[dict[str, Array], list[dict[str, Array]]]: ...


class Place(NamedTuple):
    """One leaf's point as a step finds it, in the dtype of the arithmetic."""

    x: Array
    lag: Array | None
    """By how much the averaged point differs from x; None: there is no average."""
    lost: Array | None
    """What rounding took from x so far, where that is carried."""
    number: Array
    """Which entry is which: for chances; None where none are taken."""


class Keeping(NamedTuple):
    """In how many bits a leaf is kept between rounds."""

    forms: Mapping[str, str]
    """Of the parts of its state, by their names; those that are missing are kept whole."""
    lag_form: str
    precision: str
    """Of the point."""
    by_chance: bool
    """Whether the point is rounded by chance, where that is not float32 or better."""

    @property
    def takes_chances(self) -> bool:
        """Whether anything is rounded by chance."""
        by_chance = self.by_chance and self.precision in DIGITS
        return by_chance or "half" in (self.lag_form, *self.forms.values())


class Count(NamedTuple):
    """What there is to say to all leaves in a round."""

    finite: Array
    """Whether this one counts."""
    share: Array | None
    """How far averages move towards their points."""
    seed: Array
    """For the chances of this round."""


def received(space: Space, g: Array, scale: Array | None, maximize: bool) -> Array:
    """A gradient as the learner is told of it: unscaled, and downhill."""
    if scale is not None:
        g = g / space.cast(scale, g)
    return -g if maximize else g


def counts(xp: Any, sums: Sequence[Array], found_inf: Array | float | None = None) -> Array:
    """Whether a round counts: nothing that enters it is NaN or inf, and nobody calls it off."""
    finite = xp.isfinite(sums[0])
    for number in sums[1:]:
        finite = finite & xp.isfinite(number)
    return finite if found_inf is None else finite & (found_inf == 0)


def counted(xp: Any, t: Array, average: Average | None, finite: Array) -> tuple[Array, Count]:
    """The number of rounds that counted, and what there is to say; t: how many before this one."""
    share = None if average is None else xp.where(finite, average.share(xp, t + 1), 0.0)
    return xp.where(finite, t + 1, t), Count(finite, share, seed_of_round(xp, t))


def told(
    space: Space,
    learner: Learner,
    layout: Layout,
    state: State,
    played: Played,
    g: Leaves,
    norm: Array,
    totals: tuple[Array, ...],
    count: Count,
    keepings: Sequence[Keeping],
    numbers: Sequence[Array],
) -> State:
    """The learner's state after the round, as it is kept; or as it was."""
    xp = space.xp
    finite = count.finite
    g = [xp.where(space.onto(finite, leaf), leaf, 0.0) for leaf in g]
    message = Told(g, xp.where(finite, norm, 0.0), space.number(1.0, g[0]))
    totals = tuple(xp.where(finite, number, 0.0) for number in totals)
    new = learner.update(space, state, played, message, totals)
    old_globals, old_parts = layout.flat(state, len(g))
    new_globals, new_parts = layout.flat(new, len(g))
    for key, value in new_globals.items():
        new_globals[key] = xp.where(finite, value, old_globals[key])
    for parts, old, keeping, number in zip(new_parts, old_parts, keepings, numbers, strict=True):
        for key, value in parts.items():
            if not learner.lazy:  # a lazy learner was told a zero gradient
                value = xp.where(space.onto(finite, value), value, old[key])
            seed = space.onto(count.seed, value)
            parts[key] = compact(xp, value, keeping.forms.get(key, "whole"), number, seed)
    return layout.nested(new_globals, new_parts)


def increments(after: Played, before: Played) -> Leaves:
    """By how much bets move points."""
    return [new - old for new, old in zip(after.w, before.w, strict=True)]


def stepped(
    space: Space,
    place: Place,
    keeping: Keeping,
    increment: Array,
    lr: Array,
    decay: Array | None,
    count: Count,
) -> Place:
    """A leaf after the round: the point moved, and the average moved towards where it was."""
    xp = space.xp
    x, lag, lost, number = place
    finite, seed = space.onto(count.finite, x), space.onto(count.seed, x)
    step = increment if decay is None else increment - decay * x
    step = xp.where(finite, step * lr, 0.0)
    chances = None
    if keeping.by_chance and keeping.precision in DIGITS:
        chances = chance(xp, number, seed)
    new, lost = added(xp, x, step, lost, keeping.precision, chances)
    if lag is not None and count.share is not None:
        behind = moved(lag, 0.0, space.cast(count.share, x)) + (x - new)
        lag = xp.where(finite, compact(xp, behind, keeping.lag_form, number, seed), lag)
    return Place(new, lag, lost, number)


def brought_up(
    space: Space, place: Place, keeping: Keeping, v: Array, since: Clock, now: Clock, seed: Array
) -> Place:
    """A leaf that stood still, where rounds without gradients have moved it meanwhile."""
    x, lag, lost, number = place
    exact = x if lost is None else x + lost
    point, average = settled(space.xp, exact, x if lag is None else x + lag, v, since, now)
    step = space.cast(point - exact, x)
    new, lost = added(space.xp, x, step, lost, keeping.precision, None)
    if lag is not None:
        behind = space.cast(average - new, x)
        lag = compact(space.xp, behind, keeping.lag_form, number, seed)
    return Place(new, lag, lost, number)


def decay_share(xp: Any, weight_decay: Any, squares: Array, size: Array) -> Array:
    """The share by which a step shrinks its parameters: of the increments' root mean square."""
    return weight_decay * root_mean_square(xp, squares, size)


def root_mean_square(xp: Any, squares: Array, size: Array) -> Array:
    """From a sum of squares and how many they are."""
    return xp.sqrt(squares / xp.maximum(size, 1.0))
