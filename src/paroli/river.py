"""River's manners: one row at a time, a dict from names to values.

Nothing here needs River; where it is installed, its metrics and ``evaluate`` take the models for
classifiers and regressors of its own.  Features may appear at any time, under any name; text
becomes a feature of its own for each value; missing values (None, NaN) are skipped.

>>> model = RecursiveClassifier()
>>> for t in range(200):
...     x = {"size": t % 7, "colour": "red" if t % 3 else "blue", "weight": None}
...     model.learn_one(x, bool(t % 3))
>>> model.predict_one({"size": 2, "colour": "blue"})
False
>>> round(model.predict_proba_one({"colour": "red", "new": 1.0})[True], 1)
1.0
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from paroli.linear.learner import RANGE, LinearLearner
from paroli.linear.native import OneRow

INITIAL_ROOM = 64


class _OneByOne:
    """What the two have in common."""

    _supervised = True

    def __init__(self, **options: Any) -> None:
        self.options = options = {"precision": "float64", **options}
        self._learner = LinearLearner(dimensions=INITIAL_ROOM, **options)
        self._smallest, self._largest = RANGE[options["precision"]]
        self._places: dict[Hashable, int] = {}
        self._one: OneRow | None = None

    def _row(self, x: Mapping[Hashable, Any], *, new: bool) -> tuple[list[int], list[float]]:
        """Places and values; names that are ``new`` get a place, or are left out."""
        places = self._places
        indices: list[int] = []
        values: list[float] = []
        known = len(places)
        for name, value in x.items():
            if isinstance(value, str):
                name, value = (name, value), 1.0
            elif value is None or value != value:
                continue
            elif not self._smallest < value < self._largest:
                if -self._smallest <= value <= self._smallest:
                    continue
                if not -self._largest < value < -self._smallest:
                    self._forget(known)
                    raise ValueError(
                        f"{name!r} is {value}: values must be finite, and at most "
                        f"{self._largest:g}; nothing was learned"
                    )
            place = places.get(name)
            if place is None:
                if not new:
                    continue
                place = places[name] = len(places)
            indices.append(place)
            values.append(value)
        return indices, values

    def _forget(self, known: int) -> None:
        for name in list(self._places)[known:]:
            del self._places[name]

    def _played(self, indices: list[int], values: list[float], y: float | None, w: float) -> float:
        if len(self._places) > self._learner.dimensions:
            self._learner.grow(2 * len(self._places))
            self._one = None
        if self._one is None:
            self._one = self._learner.one_row()
        if self._one is not None:
            return self._one(indices, values, y, w)
        rows = SimpleNamespace(
            indptr=np.array([0, len(indices)]),
            indices=np.array(indices, dtype=np.int32),
            values=np.array(values, dtype=np.float64),
            labels=None if y is None else np.array([y]),
            weights=np.array([w]),
            dimensions=self._learner.dimensions,
        )
        learner = self._learner
        scores = learner.predict_batch(rows) if y is None else learner.partial_fit_batch(rows)
        return float(scores[0])

    def _learn(self, x: Mapping[Hashable, Any], y: float, w: float) -> None:
        if not (math.isfinite(y) and math.isfinite(w) and w >= 0):
            raise ValueError(
                f"y must be finite, w finite and at least 0, not {y} and {w}; nothing was learned"
            )
        self._played(*self._row(x, new=True), y, w)

    def _score(self, x: Mapping[Hashable, Any]) -> float:
        return self._played(*self._row(x, new=False), None, 1.0)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_one": None}

    @property
    def weights(self) -> dict[Hashable, float]:
        """The present weight of each feature by name; of text by (name, value)."""
        places = np.array(list(self._places.values()), dtype=np.int32)
        return dict(zip(self._places, self._learner.weights_at(places).tolist(), strict=True))

    def clone(self, new_params: Mapping[str, Any] | None = None) -> Any:
        """The same, knowing nothing."""
        return type(self)(**{**self.options, **(new_params or {})})

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{type(self).__name__}({options})"


class RecursiveClassifier(_OneByOne):
    """A binary classifier, of False and True.

    Args:
        options: of `paroli.linear.LinearLearner`.
    """

    _multiclass = False  # what River's metrics ask

    def learn_one(self, x: Mapping[Hashable, Any], y: bool, w: float = 1.0) -> None:
        """Learn a row of weight ``w``."""
        if y not in (False, True):
            raise ValueError(f"y must be False or True, not {y!r}; nothing was learned")
        self._learn(x, 1.0 if y else -1.0, w)

    def predict_proba_one(self, x: Mapping[Hashable, Any]) -> dict[bool, float]:
        """The probabilities of False and True."""
        p = float(self._learner.outputs(np.array(self._score(x))))
        return {False: 1 - p, True: p}

    def predict_one(self, x: Mapping[Hashable, Any]) -> bool:
        """The likelier one."""
        return self._score(x) > 0


class RecursiveRegressor(_OneByOne):
    """A regressor.

    Args:
        loss: of `paroli.linear.LinearLearner`.
        options: the same.

    >>> model = RecursiveRegressor()
    >>> for t in range(300):
    ...     model.learn_one({"x": t * 7 % 10}, 1000 + 5 * (t * 7 % 10))
    >>> round(model.predict_one({"x": 3}))
    1015
    """

    def __init__(self, loss: str = "squared", **options: Any) -> None:
        super().__init__(loss=loss, **options)

    def learn_one(self, x: Mapping[Hashable, Any], y: float, w: float = 1.0) -> None:
        """Learn a row of weight ``w``."""
        if self.options["loss"] == "poisson" and y < 0:
            raise ValueError(f"y must be 0 or more, not {y}; nothing was learned")
        self._learn(x, float(y), w)

    def predict_one(self, x: Mapping[Hashable, Any]) -> float:
        """The value."""
        return float(self._learner.outputs(np.array(self._score(x))))


try:
    from river import base as _base
except ImportError:
    pass
else:
    _base.Classifier.register(RecursiveClassifier)
    _base.Regressor.register(RecursiveRegressor)
