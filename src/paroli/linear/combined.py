r"""Models trained apart, on shards of the rows, as one: the mean of their weights.

A shard's model cannot go on as if it had seen the other shards' rows: its wealth and its sums are
its own.  But the score is linear in the weights and the losses are convex in it, so that the mean
of the models, weighed by the rows that each has learned, does at most as badly as they do in the
mean (Jensen), and is better by what their errors have in them by chance.  Of a feature that not all
have seen, the mean is over those that have: the others know nothing of it.

Every shard spends rows on learning the same things: what is lost against one pass over all rows is
in `benchmarks/results/streams-shards.csv`.  It is little where a shard alone does nearly as well,
and most of what there is to gain where features are correlated and one model needs all rows.

>>> import numpy as np
>>> from paroli.linear import LinearLearner
>>> from types import SimpleNamespace
>>> shards = []
>>> for seed in range(3):
...     x = np.random.default_rng(seed).standard_normal(500)
...     shard = LinearLearner("squared", 1)
...     _ = shard.partial_fit_batch(SimpleNamespace(
...         indptr=np.arange(501), indices=np.zeros(500, dtype=np.int32), values=x,
...         labels=4 * x + 1, weights=None, dimensions=1,
...     ))
...     shards.append(shard)
>>> combined(shards).weights_at(np.array([0])).round(1)
array([4.])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from paroli.linear.learner import Floats, LinearLearner, Rows, checked

_HOW = ("loss", "classes", "quantile", "delta", "intercept")


class Combined:
    """A linear model that predicts and does not learn.

    Args:
        learners: trained apart, alike in loss and classes.
    """

    def __init__(self, learners: Sequence[LinearLearner]) -> None:
        if not learners:
            raise ValueError("combined: there are no learners")
        first = learners[0]
        for learner in learners[1:]:
            odd = [name for name in _HOW if learner.options[name] != first.options[name]]
            if odd:
                raise ValueError(
                    f"combined: the learners differ in {odd[0]}: {first.options[odd[0]]!r} and "
                    f"{learner.options[odd[0]]!r}"
                )
        self.options = dict(first.options)
        self._like = first
        self.dimensions = max(learner.dimensions for learner in learners)
        models = len(first.intercepts())
        total, seen = np.zeros((2, self.dimensions, models))
        learned = np.array([learner.learned() for learner in learners])
        shares = learned / learned.sum() if learned.any() else learned
        self._intercepts = np.zeros(models)
        for learner, share in zip(learners, shares, strict=True):
            every = np.arange(learner.dimensions, dtype=np.int32)
            known = learner.seen_at(every)
            weights = learner.weights_at(every).reshape(len(every), models)
            total[: len(every)] += share * weights
            seen[: len(every)] += share * known[:, None]
            self._intercepts += share * learner.intercepts()
        self._weights = total / np.where(seen > 0, seen, 1.0)

    def predict_batch(self, batch: Rows) -> Floats:
        """Scores of the rows."""
        batch = checked(batch, self.options["precision"], labelled=False)
        place = np.minimum(batch.indices, self.dimensions - 1)
        values = np.where(batch.indices < self.dimensions, batch.values, 0.0)
        products = self._weights[place] * values[:, None]
        scores: Floats = np.tile(self._intercepts, (len(batch.indptr) - 1, 1))
        row = np.repeat(np.arange(len(scores)), np.diff(batch.indptr))
        np.add.at(scores, row, products)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def partial_fit_batch(self, batch: Rows, *, again: bool = False) -> Floats:
        """Refused."""
        raise TypeError("a combined model does not learn: let its shards learn, combine them anew")

    def outputs(self, scores: Floats) -> Floats:
        """As `LinearLearner.outputs`."""
        return self._like.outputs(scores)

    def losses(self, scores: Floats, labels: Floats) -> Floats:
        """As `LinearLearner.losses`."""
        return self._like.losses(scores, labels)

    def weights_at(self, indices: npt.NDArray[np.int32]) -> Floats:
        """The weight of each feature; (n, classes) for more than two."""
        found: Floats = self._weights[np.asarray(indices)]
        return found[:, 0] if found.shape[1] == 1 else found

    def intercepts(self) -> Floats:
        """The constant part of each model's score."""
        return self._intercepts.copy()


def combined(learners: Sequence[LinearLearner]) -> Combined:
    """Learners trained on different rows as one model."""
    return Combined(learners)
