r"""The margin domain: Algorithm 1 for linear models, which know x before they predict.

In a linear model the gradient is s·x, the slope s of the loss at the prediction times the row of
features x, and x is known first.  Algorithm 1 as printed confines every coordinate of v to
[-1/2, 1/2] and divides by the largest \|s\|·‖x‖₁: far too careful on rows of many features.  All
that its argument needs is that the *bet* p = x·v is at most 1/2, and that is a slab known before
the prediction: the constraint reduction (`paroli.core.constrained`) on a domain that varies with t.
With u the inner learner's point and \|s\| ≤ 1,

.. math::
    p_t &= \text{clip}(x_t \cdot u_t,\, -1/2,\, 1/2), \qquad m_t = \text{Wealth}_{t-1} \, p_t \\
    \text{Wealth}_t &= \text{Wealth}_{t-1} (1 - s_t p_t) \\
    z_t &= \frac{\tilde s_t \, x_t}{1 - s_t p_t}, \qquad
    \tilde s_t = 0 \text{ if } s_t (x_t \cdot u_t - p_t) < 0 \text{ else } s_t

where m is the margin played.  `paroli.theory_margin` has the theorem, its proof and its bound.

**Inside**, every coordinate works in the unit M = max \|x\| so far, known before the bet: multiply
a feature by a constant, and nothing changes.  When M grows, the sums of the past change their unit.
An outlying value, \|x\| > 3M, counts as one just above M, and M grows by 5% only: a few absurd
values cannot spoil a feature, and a feature that has really grown is followed within few rows (the
theorem counts them).  The wealth that a coordinate starts with is divided by the mean number of
features in a row, so that the first bets of a row do not depend on how many share it.

**Several inner learners** are added up: u = u¹ + u² + …, each told the same z.  The regret is then
at most the best one's, plus the wealth that the others started with.

**Momentum**: the mean of all iterates is added to the margin.  An iterate is Wealth · u, and u
stands still while x_i = 0, so with the clock C = Σ Wealth a coordinate keeps, for the sum of its
iterates, B + u·C with one number B, changed when u changes: B ← B + (u - u')·C.  A row therefore
costs what its non-zero features cost, exactly.

**Rows that are learned again** have told what they know: a weight that only they ask for is learned
by heart.  From the second pass on a coordinate is also told the gradient of a penalty on its
weight, a prior's share of it at each of its rows.

>>> import numpy as np
>>> from paroli.core.space import NUMPY
>>> brick = margin()
>>> numbers, features = brick.start(np.float64(0.0)), brick.fresh(np, np.zeros(2))
>>> x = np.array([1.0, -1000.0])  # what differs by a factor of 1,000 is learned alike
>>> for _ in range(200):
...     features = brick.announce(NUMPY, numbers, features, x, np.float64(2.0))
...     bet, sums = brick.bet(NUMPY, numbers, features, x)
...     m = brick.margin(np, numbers, sums)
...     after, send = brick.settle(np, numbers, sums, np.sign(m - 5.0))
...     features = brick.update(NUMPY, numbers, features, bet, send, np.float64(0.0))
...     numbers = after
>>> bool(abs(m - 5.0) < 1.0)
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from paroli.core.constrained import clip, truncated
from paroli.core.diagonal import diagonal
from paroli.core.learner import Coordinatewise, State, check_number
from paroli.core.scinol import scinol
from paroli.core.space import Array, Space, magnitude_ceiling
from paroli.core.wealth import (
    FOLD,
    HALF,
    Product,
    log_loss_gradient,
    plus,
    staked_product,
    times,
)

OUTLYING = 3.0
"""A value beyond this many M is an outlier."""

GROWTH = 1.05
"""By which factor an outlier lets M grow."""

ALGORITHM_2 = diagonal()
SCINOL = scinol(epsilon=2.0, cap=None, rescale=False)
BOTH: tuple[Coordinatewise, ...] = (diagonal(epsilon=0.3), SCINOL)
"""On real streams ScInOL is nearly always the better one, and much the better one where features
are correlated; Algorithm 2 is quicker where a stream changes.  Between 1 and 6 the wealth that
ScInOL starts with matters little."""


class Numbers(NamedTuple):
    """What all features have in common."""

    books: Product
    """The wealth."""
    wealth: Array
    """What is staked: the same, below a ceiling."""
    clock: Array
    """C, the sum of all wealths that iterates were staked with."""
    rounds: Array
    size: Array
    """The sum over rows of Σ (x/M)²: how many features they had, in effect."""
    rows: Array
    """How many rows that sum is of."""


class Features(NamedTuple):
    """What is kept for each feature; M = B = N = 0 for one that was never seen."""

    M: Array
    B: Array
    N: Array
    """In how many rows it was, each counted once; kept where there is a prior."""
    inner: tuple[State, ...]


class Bet(NamedTuple):
    """What is bet on each feature."""

    u: Array
    share: Array
    """x in units of M."""
    scale: Array
    """1/M."""


class Sums(NamedTuple):
    """What a row is summed up in."""

    x_u: Array
    x_sum: Array
    """Of x with the sum of all iterates."""
    size: Array


def largest(xp: Any, M: Array, x: Array) -> Array:
    """The largest value after x."""
    size = xp.abs(x)
    outlying = (size > OUTLYING * M) & (M > 0)
    return xp.where(outlying, GROWTH * M, xp.maximum(M, size))


def per_unit(xp: Any, M: Array) -> Array:
    """1/M, for features that were seen."""
    return 1 / xp.where(M > 0, M, 1.0)


def in_units(xp: Any, brick: Coordinatewise, state: State) -> State:
    """The state of a learner whose gradients come in units of the largest."""
    if brick.largest is None:
        return state
    one = xp.full_like(getattr(state, brick.largest), 1.0)
    return state._replace(**{brick.largest: one})


@dataclass(frozen=True)
class margin:
    r"""Algorithm 1 in the margin domain.

    Args:
        inner: what chooses the bet, coordinate by coordinate; several are added up.
        epsilon: initial wealth, in the unit of the labels.
        average: whether the mean of all iterates is added to the margin.
        keep: how much of a coordinate's sums is kept at each of its rows; 1: everything.
        prior: how strongly rows that are learned again are kept from being learned by heart: each
            weight w, in units of 1/M, has the penalty prior · w²/2 a pass, beyond \|w\| = 1 growing
            no faster; 0: none.
        ceiling: the largest logarithm of a wealth that is staked, at most; features in less than
            double precision need a lower one.
    """

    inner: tuple[Coordinatewise, ...] = BOTH
    epsilon: float = 1.0
    average: bool = True
    keep: float = 1.0
    prior: float = 0.0
    ceiling: float = math.log(magnitude_ceiling(np, np.float64))

    def __post_init__(self) -> None:
        check_number("margin", "epsilon", self.epsilon, low=0.0)
        check_number("margin", "keep", self.keep, low=0.0, high=1.0)
        check_number("margin", "prior", self.prior, low=-1e-300)
        if not self.inner or not all(isinstance(brick, Coordinatewise) for brick in self.inner):
            raise TypeError(
                f"margin: inner must be a tuple of coordinatewise learners such as "
                f"(diagonal(),), not {self.inner!r}"
            )

    # Features as columns --------------------------------------------------------------------

    def columns(self, xp: Any, like: Array) -> list[str]:
        """The names of what is kept for each feature."""
        kept = [len(brick.kept_leaf(brick.init_leaf(xp, like))) for brick in self.inner]
        first = [f"inner.{k}.0" for k in range(len(kept))]
        others = [f"inner.{k}.{i}" for k, count in enumerate(kept) for i in range(1, count)]
        return ["M", "B", *first, *others, *(["N"] if self.prior > 0 else [])]

    def unpack(self, xp: Any, columns: Sequence[Array]) -> Features:
        """Columns as features: the inner learners' largest gradient is 1."""
        M, B, *rest = columns
        N = rest.pop() if self.prior > 0 else xp.zeros_like(M)
        first = [rest.pop(0) for _ in self.inner]
        inner = []
        for brick, wealth in zip(self.inner, first, strict=True):
            state = in_units(xp, brick, brick.init_leaf(xp, M))
            others = [rest.pop(0) for _ in brick.kept_leaf(state)[1:]]
            inner.append(brick.restored_leaf(xp, state, [wealth, *others]))
        return Features(M, B, N, tuple(inner))

    def pack(self, features: Features) -> list[Array]:
        """The inverse of `unpack`.

        What the bets begin with comes last, and what they need last comes first: the bets of a row
        need not wait until B is known, the last thing that the row before has changed.
        """
        kept = [
            brick.kept_leaf(state) for brick, state in zip(self.inner, features.inner, strict=True)
        ]
        others = [column for own in kept for column in own[1:]]
        counted = [features.N] if self.prior > 0 else []
        return [features.M, features.B, *(own[0] for own in kept), *others, *counted]

    def fresh(self, xp: Any, like: Array) -> Features:
        """Features that were never seen."""
        zero = xp.zeros_like(like)
        return self.unpack(xp, [zero for _ in self.columns(xp, like)])

    # A round --------------------------------------------------------------------------------

    def start(self, zero: Any, *, unit: bool = True) -> Numbers:
        """Before the first row; without a unit as good as all wealth comes with `top_up`."""
        wealth = zero + (self.epsilon if unit else 1 / FOLD)
        return Numbers(Product(wealth, zero), wealth, zero, zero, zero, zero)

    def counted(self, xp: Any, features: Features, x: Array) -> Array:
        """As what an announced x counts."""
        return xp.minimum(xp.maximum(x, -features.M), features.M)

    def announce(
        self, space: Space, numbers: Numbers, features: Features, x: Array, present: Array
    ) -> Features:
        r"""Bring in x before the bet; ``present`` is how many features the row has.

        Nothing changes where \|x\| ≤ M.
        """
        xp = space.xp
        M = largest(xp, features.M, x)
        known = features.M > 0
        unit = xp.where(M > 0, M, 1.0)
        ratio = xp.where(known, features.M / unit, 1.0)
        # A new feature counts fully, any other at most so: no sum over this row is needed.
        share = space.cast((numbers.rows + 1) / (numbers.size + present), x)
        before, after = [], []
        for brick, state in zip(self.inner, features.inner, strict=True):
            new = brick.endowed_leaf(xp, in_units(xp, brick, brick.init_leaf(xp, x)), share)
            state = type(state)(*[xp.where(known, a, b) for a, b in zip(state, new, strict=True)])
            before.append(state)
            after.append(brick.weighed_leaf(xp, state, ratio, ratio * ratio))
        u = self.fraction(xp, tuple(before), per_unit(xp, features.M))
        moved = u - self.fraction(xp, tuple(after), per_unit(xp, M))
        B = features.B + moved * space.cast(numbers.clock, x)
        return Features(M, B, features.N, tuple(after))

    def fraction(self, xp: Any, inner: tuple[State, ...], scale: Array) -> Array:
        """u, what the inner learners bet together."""
        bets = [brick.bet_leaf(xp, s) for brick, s in zip(self.inner, inner, strict=True)]
        total = bets[0]
        for bet in bets[1:]:
            total = total + bet
        return total * scale

    def bet(self, space: Space, numbers: Numbers, features: Features, x: Array) -> tuple[Bet, Sums]:
        """What is bet on an announced row, and what it sums up to."""
        xp = space.xp
        scale = per_unit(xp, features.M)
        u, share = self.fraction(xp, features.inner, scale), x * scale
        sum_w = features.B + u * space.cast(numbers.clock, x)
        sums = Sums(space.sum(x * u), space.sum(x * sum_w), space.sum(share * share))
        return Bet(u, share, scale), sums

    def margin(self, xp: Any, numbers: Numbers, sums: Sums) -> Array:
        """The margin played."""
        m = numbers.wealth * clip(xp, sums.x_u, HALF)
        # Not a quotient: the reciprocal does not wait for the sum.
        return m + sums.x_sum * (1 / xp.maximum(numbers.rounds, 1.0)) if self.average else m

    def settle(self, xp: Any, numbers: Numbers, sums: Sums, slope: Array) -> tuple[Numbers, Array]:
        """The wealth after a slope within [-1, 1], and the factor of x in what is sent down."""
        p = clip(xp, sums.x_u, HALF)
        s_tilde = truncated(xp, slope, sums.x_u, p)
        books = times(xp, numbers.books, 1 - slope * p)
        # |z| ≤ 2M; 'we rescale the gradients by a factor of 2'.
        send = log_loss_gradient(s_tilde, slope * p) / 2
        wealth = staked_product(xp, books, self.ceiling)
        clock, rounds = numbers.clock + wealth, numbers.rounds + 1
        return Numbers(books, wealth, clock, rounds, numbers.size, numbers.rows), send

    def update(
        self,
        space: Space,
        numbers: Numbers,
        features: Features,
        bet: Bet,
        send: Array,
        again: Array,
    ) -> Features:
        """What a row changes; ``numbers`` are those of its bet, ``again`` is 1 or 0."""
        xp = space.xp
        g = bet.share * space.cast(send, bet.share)
        one, N = xp.full_like(g, 1.0), features.N
        there = xp.abs(bet.share) > 0
        if self.prior > 0:
            new = 1 - space.cast(again, g)
            w = self._weight(space, numbers, features, bet.u)
            pull = (1 - new) * (self.prior / 2) / xp.maximum(N, 1.0) * clip(xp, w / bet.scale, 1.0)
            g = xp.where(there, clip(xp, g + pull, 1.0), 0.0)
            N = N + xp.where(there, new, 0.0)
        inner = []
        for brick, state in zip(self.inner, features.inner, strict=True):
            if self.keep < 1:
                keep = xp.where(there, self.keep * one, one)
                state = brick.weighed_leaf(xp, state, keep, keep)
            inner.append(in_units(xp, brick, brick.update_leaf(xp, state, g, one)))
        u = self.fraction(xp, tuple(inner), bet.scale)
        B = features.B + (bet.u - u) * space.cast(numbers.clock, u)
        return Features(features.M, B, N, tuple(inner))

    def _weight(self, space: Space, numbers: Numbers, features: Features, u: Array) -> Array:
        xp = space.xp
        w = u * space.cast(numbers.wealth, u)
        if not self.average:
            return w
        sum_w = features.B + u * space.cast(numbers.clock, u)
        return w + sum_w / space.cast(xp.maximum(numbers.rounds, 1.0), u)

    def weights(self, space: Space, numbers: Numbers, features: Features) -> Array:
        """The weight of each feature: the margin is x·w while the bet is within its bounds."""
        u = self.fraction(space.xp, features.inner, per_unit(space.xp, features.M))
        return self._weight(space, numbers, features, u)

    # Bookkeeping ----------------------------------------------------------------------------

    def measured(self, numbers: Numbers, sums: Sums) -> Numbers:
        """After a row of this size."""
        return numbers._replace(size=numbers.size + sums.size, rows=numbers.rows + 1)

    def top_up(self, xp: Any, numbers: Numbers, unit: Array, before: Array) -> Numbers:
        """The unit of the labels has grown: more to start with, in the unit that is known now."""
        books = plus(xp, numbers.books, xp.maximum(unit - before, 0.0) * self.epsilon)
        return numbers._replace(books=books, wealth=staked_product(xp, books, self.ceiling))
