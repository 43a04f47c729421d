"""What a brick is: `init`, `play`, `terms`, `update`, and what it promises to those around it.

A *learner* plays online linear optimisation on a list of arrays.  A *reduction* is a learner built
on another.  Both are frozen dataclasses that hold settings only: their ``repr`` is the expression
that makes them, they hash and pickle, and the state is a separate nest of tuples and arrays (so a
JAX pytree, and a plain dict after `paroli.core.learner.flatten`).  A plain tuple in a state has one
entry for each leaf; everything else is named, and global.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

from paroli.core import norms
from paroli.core.space import Array, Leaves, Space

State: TypeAlias = Any


class Played(NamedTuple):
    """What a learner plays in a round, and what those below it play to that end."""

    w: Leaves
    """The point w_t, leaf by leaf."""
    inner: Any = ()
    """The `Played` of the learner below, if there is one, as the learner above keeps it."""


class Told(NamedTuple):
    """What a learner is told at the end of a round."""

    g: Leaves
    """The gradient, leaf by leaf."""
    norm: Array
    """‖g‖ in the learner's ``gradient_norm``; an upper bound of it where it does not `measure`."""
    g_max: Array
    """The known bound on the gradients: the paper's 1, which 'we may replace with any known bound
    g_max'.  Gradients come unscaled beside it, since a scale-free learner does not want them
    divided."""


class Learner(ABC):
    """The four functions of a brick, and its promises."""

    # Promises -------------------------------------------------------------------------------

    @property
    def norm(self) -> float:
        """The p of the norm in which bets are measured."""
        return math.inf

    @property
    def radius(self) -> float:
        """No bet's norm ever exceeds this (inf: the learner is unconstrained)."""
        return math.inf

    @property
    def gradient_norm(self) -> float:
        """The p of the norm in which gradients must not exceed g_max."""
        return norms.dual(self.norm)

    @property
    def limit(self) -> float:
        """Gradients may be as large as limit · g_max."""
        return 1.0

    @property
    def measures(self) -> bool:
        """‖g‖ itself enters the state; if not, an upper bound of it will do."""
        return True

    @property
    def lazy(self) -> bool:
        """A zero gradient leaves a coordinate's arrays as they are, so it can be skipped."""
        return False

    @property
    def still(self) -> bool:
        """A zero gradient leaves a coordinate's bet, too, as it is."""
        return False

    @property
    def lean_forms(self) -> dict[str, str]:
        """The parts of a leaf's state of which a few digits will do, and how they may be kept.

        By the names of `paroli.core.compact`.
        """
        return {}

    @property
    def least(self) -> dict[str, float]:
        """The parts of a leaf's state that never fall below a number, and that number.

        Of what is above 1e-15 a float32 has the square, and roots of sums need no care.
        """
        return {}

    # Functions ------------------------------------------------------------------------------

    @abstractmethod
    def init(self, space: Space, like: Leaves) -> State:
        """The state before the first round, for leaves shaped as ``like``."""

    @abstractmethod
    def play(self, space: Space, state: State) -> Played:
        """The point w_t to play, and what `terms` and `update` would compute again without it."""

    def terms(self, space: Space, played: Played, g: Leaves) -> tuple[Array, ...]:
        """This device's parts of the sums that `update` needs: the *reduce* of the round."""
        return ()

    @abstractmethod
    def update(
        self, space: Space, state: State, played: Played, told: Told, totals: tuple[Array, ...]
    ) -> State:
        """The state after the round, given what `terms` asked for, summed over all devices."""

    def bet(self, space: Space, state: State) -> Leaves:
        """The point w_t alone."""
        return self.play(space, state).w

    def announce(self, space: Space, state: State, x: Leaves) -> State:
        """Use what is known before the bet: this round's gradient is at most |x| coordinatewise.

        In a linear model x is the row of features.  Learners that have no use for it ignore it.
        """
        return state

    def stake(self, space: Space, state: State) -> tuple[Array, Leaves] | None:
        """Wealth and v, where bets are Wealth · v and v stays as it is where gradients are zero.

        What a sparse step needs to leave coordinates alone (`paroli.core.lazy`).  None: bets are
        not of this form.
        """
        if not self.still:
            return None
        v = self.bet(space, state)
        return space.number(1.0, v[0]), v

    def log_wealth(self, space: Space, state: State) -> Array:
        """The logarithm of the wealth, for learners that bet."""
        raise AttributeError(f"{self!r} does not bet: it has no wealth")

    def average(self, space: Space, state: State) -> Leaves:
        """The average of the points played, where `averaged` is in the stack."""
        raise AttributeError(f"{self!r} keeps no average: wrap it, averaged({self!r})")


class Coordinatewise(Learner):
    """A learner that treats every coordinate alone: three elementwise functions of one leaf.

    They are what a kernel inlines and what a sparse step applies to the coordinates it touches.
    """

    @property
    def measures(self) -> bool:
        return False

    @property
    def lazy(self) -> bool:
        return True

    @property
    def still(self) -> bool:
        return self.lazy

    @property
    def gradient_norm(self) -> float:
        return math.inf

    @abstractmethod
    def init_leaf(self, xp: Any, leaf: Array) -> State:
        """The state of one leaf."""

    @abstractmethod
    def bet_leaf(self, xp: Any, state: State) -> Array:
        """What to play on one leaf."""

    @abstractmethod
    def update_leaf(self, xp: Any, state: State, g: Array, g_max: Array) -> State:
        """The state of one leaf after the gradient g, whose entries are at most limit · g_max."""

    def wealth_leaf(self, xp: Any, state: State) -> Array:
        """The wealth of each coordinate, for learners that bet."""
        raise AttributeError(f"{self!r} does not bet: it has no wealth")

    def log_wealth_leaf(self, xp: Any, state: State) -> Array:
        """Its logarithm: for learners that keep it, since the wealth itself may have no float."""
        return xp.log(self.wealth_leaf(xp, state))

    def announce_leaf(self, xp: Any, state: State, x: Array) -> State:
        """See `Learner.announce`."""
        return state

    @property
    def largest(self) -> str | None:
        """The part of a leaf's state that is the largest gradient known, where there is one.

        Whoever sends gradients in units of it need not keep it: it is 1.
        """
        return None

    def kept_leaf(self, state: State) -> tuple[Array, ...]:
        """The fewest numbers that say all about a leaf whose `largest` gradient is known."""
        return tuple(getattr(state, name) for name in state._fields if name != self.largest)

    def restored_leaf(self, xp: Any, like: State, kept: Sequence[Array]) -> State:
        """The state that `kept_leaf` is of; ``like`` is any state with that largest gradient."""
        names = [name for name in like._fields if name != self.largest]
        return like._replace(**dict(zip(names, kept, strict=True)))

    def endowed_leaf(self, xp: Any, state: State, share: Array) -> State:
        """The state with this share of its wealth."""
        raise NotImplementedError(f"{self!r} does not say how to change its wealth")

    def weighed_leaf(self, xp: Any, state: State, linear: Array, squares: Array) -> State:
        """The state with its sums of gradients times ``linear``, and of squares times ``squares``.

        (r, r²) is a change of unit, (r, r) forgets.  The wealth stays.
        """
        raise NotImplementedError(f"{self!r} does not say what its sums are")

    def init(self, space: Space, like: Leaves) -> State:
        return tuple(self.init_leaf(space.xp, leaf) for leaf in like)

    def play(self, space: Space, state: State) -> Played:
        return Played([self.bet_leaf(space.xp, leaf) for leaf in state])  # alg:diag lines 5, 8

    def update(
        self, space: Space, state: State, played: Played, told: Told, totals: tuple[Array, ...]
    ) -> State:
        # A gradient that breaks its promise is scaled back to it; so is rounding at its edge.
        g_max = space.xp.maximum(told.norm / self.limit, told.g_max)
        return tuple(
            self.update_leaf(space.xp, leaf, g, space.cast(g_max, g))
            for leaf, g in zip(state, told.g, strict=True)  # alg:diag lines 11, 20
        )

    def announce(self, space: Space, state: State, x: Leaves) -> State:
        return tuple(self.announce_leaf(space.xp, s, a) for s, a in zip(state, x, strict=True))

    def log_wealth(self, space: Space, state: State) -> Array:
        return norms.log_total(space, [self.log_wealth_leaf(space.xp, leaf) for leaf in state])


class Reduction(Learner):
    """A learner built on another, ``learner``, whose promises are its own unless it says so.

    Its state is a tuple whose field ``inner`` is the other's state.
    """

    learner: Learner

    def __post_init__(self) -> None:
        check_learner(type(self).__name__, "learner", self.learner)

    @property
    def norm(self) -> float:
        return self.learner.norm

    @property
    def radius(self) -> float:
        return self.learner.radius

    @property
    def gradient_norm(self) -> float:
        return self.learner.gradient_norm

    @property
    def limit(self) -> float:
        return self.learner.limit

    @property
    def measures(self) -> bool:
        return self.learner.measures

    @property
    def lazy(self) -> bool:
        return self.learner.lazy

    @property
    def lean_forms(self) -> dict[str, str]:
        return self.learner.lean_forms

    @property
    def least(self) -> dict[str, float]:
        return self.learner.least

    def play(self, space: Space, state: State) -> Played:
        inner = self.learner.play(space, state.inner)
        return Played(inner.w, inner)

    def terms(self, space: Space, played: Played, g: Leaves) -> tuple[Array, ...]:
        return self.learner.terms(space, played.inner, g)

    def announce(self, space: Space, state: State, x: Leaves) -> State:
        return state._replace(inner=self.learner.announce(space, state.inner, x))

    def log_wealth(self, space: Space, state: State) -> Array:
        return self.learner.log_wealth(space, state.inner)

    def average(self, space: Space, state: State) -> Leaves:
        return self.learner.average(space, state.inner)


def reduce(
    space: Space, learner: Learner, played: Played, g: Leaves, absolute_sum: Array | None = None
) -> tuple[Array, tuple[Array, ...]]:
    """All sums of a round: ‖g‖ and the learner's terms, in one `Space.total` where possible.

    Whoever has this device's `norms.absolute_sum` of g already can pass it on.
    """
    terms = learner.terms(space, played, g)
    if learner.gradient_norm == 1.0:  # a plain sum: it travels with the others
        if absolute_sum is None:
            absolute_sum = norms.absolute_sum(space, g)
        norm, *totals = space.total(absolute_sum, *terms)
        return norm, tuple(totals)
    return norms.norm(space, g, learner.gradient_norm), space.total(*terms)


def tell(
    space: Space,
    learner: Learner,
    state: State,
    g: Leaves,
    played: Played | None = None,
    absolute_sum: Array | None = None,
) -> State:
    """One round's end for any stack: reduce, then scalars and the map.

    The bound on the gradients is the paper's 1; `rescaled` puts its own in its place.
    """
    if played is None:
        played = learner.play(space, state)
    norm, totals = reduce(space, learner, played, g, absolute_sum)
    told = Told(g, norm, space.number(1.0, g[0]))  # alg:recurse lines 4, 7, 11-12
    return learner.update(space, state, played, told, totals)  # alg:diag lines 4, 10, 21-22


def tell_below(
    space: Space, learner: Learner, state: State, played: Played, told: Told, p: float | None
) -> State:
    """Hand an altered gradient down: its sums have to be taken anew.

    ``told.norm`` is an upper bound of ‖g‖_p, hence of ‖g‖_q for every q ≥ p: the norm costs no sum
    of its own unless the learner `measures` it, needs a q < p, or p is None: nothing is known.
    """
    if learner.measures or p is None or learner.gradient_norm < p:
        norm, totals = reduce(space, learner, played, told.g)
        told = told._replace(norm=norm)
    else:
        totals = space.total(*learner.terms(space, played, told.g))
    return learner.update(space, state, played, told, totals)


def flatten(state: State, path: str = "") -> dict[str, Array]:
    """A nest of tuples as a flat dict from dotted paths to arrays.

    >>> class Pair(NamedTuple):
    ...     a: float
    ...     b: tuple[float, ...]
    >>> flatten(Pair(1.0, (2.0, 3.0)))
    {'a': 1.0, 'b.0': 2.0, 'b.1': 3.0}
    """
    if not isinstance(state, tuple):
        return {path: state}
    names = getattr(state, "_fields", range(len(state)))
    flat: dict[str, Array] = {}
    for name, part in zip(names, state, strict=True):
        flat.update(flatten(part, f"{path}.{name}" if path else str(name)))
    return flat


def unflatten(template: State, flat: dict[str, Array], path: str = "") -> State:
    """The inverse of `flatten`, shaped as ``template``."""
    if not isinstance(template, tuple):
        return flat[path]
    names = getattr(template, "_fields", range(len(template)))
    parts = [
        unflatten(part, flat, f"{path}.{name}" if path else str(name))
        for name, part in zip(names, template, strict=True)
    ]
    return type(template)(*parts) if hasattr(template, "_fields") else tuple(parts)


def check_learner(owner: str, name: str, value: object) -> None:
    """Refuse what is not a learner, with the hint that fits the usual slip."""
    if isinstance(value, type) and issubclass(value, Learner):
        raise TypeError(
            f"{owner}: {name} is the class {value.__name__}; call it: {value.__name__}()"
        )
    if not isinstance(value, Learner):
        raise TypeError(f"{owner}: {name} must be a learner such as diagonal(), not {value!r}")


def check_number(owner: str, name: str, value: object, low: float, high: float = math.inf) -> None:
    """Refuse a setting that is not a number in (low, high], or (low, inf) where high is inf."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{owner}: {name} must be a number, not {value!r}")
    if not low < float(value) <= high or math.isinf(float(value)):
        bounds = f"in ({low}, {high}]" if math.isfinite(high) else f"finite and above {low}"
        raise ValueError(f"{owner}: {name} must be {bounds}, not {value!r}")
