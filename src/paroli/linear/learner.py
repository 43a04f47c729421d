"""A linear model in plain arrays, learned block by block: what the front ends share.

>>> import numpy as np
>>> from types import SimpleNamespace
>>> learner = LinearLearner(loss="squared", dimensions=1)
>>> x = np.random.default_rng(0).uniform(0, 100, 2000)
>>> rows = SimpleNamespace(
...     indptr=np.arange(2001), indices=np.zeros(2000, dtype=np.int32), values=x,
...     labels=3 * x + 2, weights=None, dimensions=1,
... )
>>> before = learner.partial_fit_batch(rows)  # predictions, each made before its row was learned
>>> float(abs(before - rows.labels)[-1000:].max().round(1))
0.5
>>> learner.weights_at(np.array([0])).round(1), learner.intercepts().round(0)
(array([3.]), array([2.]))
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from paroli.core import losses
from paroli.core.learner import Coordinatewise, flatten, unflatten
from paroli.core.linear import Linear, linear
from paroli.core.margin import ALGORITHM_2, BOTH, SCINOL, margin
from paroli.core.printed import printed
from paroli.core.space import NUMPY, magnitude_ceiling
from paroli.linear import native, plain
from paroli.native.build import NoCompilerError

Floats: TypeAlias = npt.NDArray[np.float64]
Inner: TypeAlias = Literal["both", "diagonal", "scinol"]
Variant: TypeAlias = Literal["margin", "paper"]
Precision: TypeAlias = Literal["float32", "float64"]

INNER: dict[str, tuple[Coordinatewise, ...]] = {
    "both": BOTH,
    "diagonal": (ALGORITHM_2,),
    "scinol": (SCINOL,),
}
LOSSES = ("logistic", "hinge", "squared", "absolute", "quantile", "huber", "poisson")
RANGE = {"float32": (1e-18, 1e18), "float64": (1e-150, 1e150)}
"""What values may be: below, they count as 0; above, they are refused.  Products of two of them,
and quotients, stay far within the float range."""

CLASSIFYING = ("logistic", "hinge")


class Rows(Protocol):
    """A block of rows: what the learner reads of `paroli.streams.batch.Batch`."""

    @property
    def indptr(self) -> npt.NDArray[np.int64]: ...
    @property
    def indices(self) -> npt.NDArray[np.int32]: ...
    @property
    def values(self) -> npt.NDArray[Any]: ...
    @property
    def labels(self) -> Floats | None: ...
    @property
    def weights(self) -> Floats | None: ...
    @property
    def dimensions(self) -> int: ...


class LinearLearner:
    """A linear model, or one for each class where there are more than two.

    Args:
        loss: one of `LOSSES`.
        dimensions: how many features there can be; rows with more let the model grow.
        classes: of a classification; labels are -1 and +1 for two, 0 to classes - 1 for more.
        quantile: which one, for the loss of that name.
        delta: where the Huber loss becomes linear, in the unit of the labels.
        half_life: after how many of its rows a feature has half forgotten what it saw; None: never.
        prior: how strongly rows that are learned ``again`` are kept from being learned by heart (3
            is a good measure); 0: not at all, and features need less room.
        variant: ``"margin"``, or ``"paper"``: Algorithm 1 as printed with Algorithm 2 inside, the
            bound on the gradients being the largest so far.
        inner: the learner of the bets: Algorithm 2, ScInOL, or both added up.
        epsilon: initial wealth.
        average: whether the mean of all iterates is added to predictions.
        intercept: whether every row has the constant feature 1.
        precision: of what is kept for each feature; numbers that all have in common are float64.
    """

    def __init__(
        self,
        loss: str = "logistic",
        dimensions: int = 0,
        classes: int = 2,
        *,
        quantile: float = 0.5,
        delta: float = 1.0,
        half_life: float | None = None,
        prior: float = 0.0,
        variant: Variant = "margin",
        inner: Inner = "both",
        epsilon: float = 1.0,
        average: bool = True,
        intercept: bool = True,
        precision: Precision = "float32",
    ) -> None:
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}, not {loss!r}")
        if inner not in INNER:
            raise ValueError(f"inner must be one of {', '.join(INNER)}, not {inner!r}")
        if variant not in ("margin", "paper"):
            raise ValueError(f"variant must be 'margin' or 'paper', not {variant!r}")
        if variant == "paper":
            if inner == "scinol":
                raise ValueError("variant 'paper' has Algorithm 2 inside: leave inner as it is")
            inner = "diagonal"
        if precision not in ("float32", "float64"):
            raise ValueError(f"precision must be 'float32' or 'float64', not {precision!r}")
        if half_life is not None and not half_life > 0:
            raise ValueError(f"half_life must be positive, or None, not {half_life!r}")
        self.options: dict[str, Any] = {
            "loss": loss, "classes": int(classes), "quantile": float(quantile),
            "delta": float(delta), "half_life": None if half_life is None else float(half_life),
            "prior": float(prior), "variant": variant, "inner": inner,
            "epsilon": float(epsilon), "average": bool(average),
            "intercept": bool(intercept), "precision": precision,
        }  # fmt: skip
        settings: dict[str, dict[str, float]] = {
            "quantile": {"q": quantile},
            "huber": {"delta": delta},
        }
        self.loss: losses.Loss = getattr(losses, loss)(**settings.get(loss, {}))
        self.learner = linear(
            self.loss,
            (margin if variant == "margin" else printed)(
                INNER[inner],
                epsilon=epsilon,
                average=average,
                prior=float(prior),
                keep=1.0 if half_life is None else 0.5 ** (1 / half_life),
                ceiling=math.log(magnitude_ceiling(np, np.dtype(precision))),
            ),
        )
        models = classes if loss in CLASSIFYING and classes > 2 else 1
        columns = len(self.learner.bets.columns(np, np.zeros(1)))
        self._tables = [native.aligned(dimensions + 1, columns, precision) for _ in range(models)]
        start = list(flatten(self.learner.start(np.float64(0.0))).values())
        self._numbers = np.array([start] * models, dtype=np.float64)

    # Learning -------------------------------------------------------------------------------

    @property
    def dimensions(self) -> int:
        """How many features there are."""
        return len(self._tables[0]) - 1

    def partial_fit_batch(self, batch: Rows, *, again: bool = False) -> Floats:
        """Learn row by row; return each row's score before it was learned.

        A row with weight 0 or label NaN is scored and not learned.  ``again`` says that the rows
        were learned before: see ``prior``.
        """
        batch = checked(batch, self.options["precision"])
        assert batch.labels is not None
        self._check_labels(batch.labels)
        self.grow(batch.dimensions)
        if len(self._tables) == 1:
            return self._rows(0, batch, batch.labels, again)
        known = np.isfinite(batch.labels)
        scores = []
        for k in range(len(self._tables)):
            one_against_all = np.where(batch.labels == k, 1.0, -1.0)
            one_against_all[~known] = np.nan
            scores.append(self._rows(k, batch, one_against_all, again))
        return np.stack(scores, axis=1)

    def predict_batch(self, batch: Rows) -> Floats:
        """Scores of the rows; the state does not change."""
        batch = checked(batch, self.options["precision"], labelled=False)
        if batch.dimensions > self.dimensions:
            batch = _without_unknown(batch, self.dimensions)
        scores = [self._rows(k, batch, None) for k in range(len(self._tables))]
        return scores[0] if len(scores) == 1 else np.stack(scores, axis=1)

    def one_row(self) -> native.OneRow | None:
        """The row loop for single rows, good until the learner `grow`s; None without a compiler.

        What is given to it is not checked.
        """
        if len(self._tables) > 1 or not _native():
            return None
        intercept = bool(self.options["intercept"])
        return native.OneRow(self.learner, self._tables[0], self._numbers[0], intercept)

    def grow(self, dimensions: int) -> None:
        """Make room for features that appear late."""
        more = dimensions - self.dimensions
        if more > 0:
            self._tables = [_copied(table, len(table) + more) for table in self._tables]

    def _rows(self, k: int, batch: _Rows, labels: Floats | None, again: bool = False) -> Floats:
        numbers = self._numbers[k]
        loop = native.rows if _native() else plain.rows
        return loop(
            self.learner, self._tables[k], numbers, batch.indptr, batch.indices, batch.values,
            labels, batch.weights, bool(self.options["intercept"]), again, batch.seen,
        )  # fmt: skip

    def _check_labels(self, labels: Floats) -> None:
        two = self.options["loss"] in CLASSIFYING and self.options["classes"] == 2
        if two and (np.abs(labels) == 1).all():  # nearly always
            return
        given = labels[~np.isnan(labels)]
        if self.options["loss"] not in CLASSIFYING:
            allowed = np.isfinite(given)
            what = "finite numbers"
            if self.options["loss"] == "poisson":
                allowed &= given >= 0
                what += ", 0 or more"
        elif self.options["classes"] > 2:
            allowed = (given >= 0) & (given < self.options["classes"]) & (given == np.floor(given))
            what = f"whole numbers from 0 to {self.options['classes'] - 1}"
        else:
            allowed = np.abs(given) == 1
            what = "-1 and +1"
        if not allowed.all():
            raise ValueError(
                f"labels must be {what}, or NaN for rows not to learn; got "
                f"{given[np.argmin(allowed)]}; nothing was learned"
            )

    # Looking --------------------------------------------------------------------------------

    def losses(self, scores: Floats, labels: Floats) -> Floats:
        """The loss of each row; NaN where the label is NaN."""
        if len(self._tables) == 1:
            return np.asarray(self.loss.value(np, scores, labels))
        known = np.isfinite(labels)
        of = np.where(known, labels, 0).astype(np.int64)
        shares = self.outputs(scores)[np.arange(len(of)), of]
        return np.where(known, -np.log(np.maximum(shares, np.finfo(np.float64).tiny)), np.nan)

    def total_loss(self, scores: Floats, labels: Floats, weights: Floats | None = None) -> float:
        """The sum of the rows' losses, each times its weight."""
        if len(self._tables) == 1 and _native():
            precision = self.options["precision"]
            return native.total_loss(self.learner, precision, scores, labels, weights)
        if weights is None:
            return float(np.nansum(self.losses(scores, labels)))
        used = weights > 0
        return float(np.nansum(weights[used] * self.losses(scores[used], labels[used])))

    def outputs(self, scores: Floats) -> Floats:
        """Probabilities (of +1; of each class), counts' means, or values."""
        if self.options["loss"] == "poisson":
            return np.exp(scores)
        if self.options["loss"] not in CLASSIFYING:
            return scores
        return _softmax(scores) if scores.ndim == 2 else _sigmoid(scores)

    def weights_at(self, indices: npt.NDArray[np.int32]) -> Floats:
        """The present weight of each feature; (n, classes) for more than two."""
        place = np.asarray(indices, dtype=np.int64) + 1
        weights = [self._weights(k, place) for k in range(len(self._tables))]
        return weights[0] if len(weights) == 1 else np.stack(weights, axis=1)

    def seen_at(self, indices: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Which features were ever learned."""
        return self._known(np.asarray(indices, dtype=np.int64) + 1)

    def _known(self, place: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        M: npt.NDArray[Any] = self._tables[0][:, 0]
        return (place < len(M)) & (M[np.minimum(place, len(M) - 1)] > 0)

    def learned(self) -> float:
        """The weight of all rows learned."""
        return float(self._state(0).labels.weight)

    def intercepts(self) -> Floats:
        """The weight of the constant feature in each model, and what labels were centred by."""
        place = np.zeros(1, dtype=np.int64)
        found = np.zeros(len(self._tables))
        for k in range(len(found)):
            mean = self._state(k).labels.mean
            if self.options["loss"] == "poisson":
                mean = np.log(mean) if mean > 0 else 0.0
            if self.options["intercept"]:
                found[k] = self._weights(k, place)[0]
            found[k] += 0.0 if self.options["loss"] in CLASSIFYING else mean
        return found

    def _state(self, k: int) -> Linear:
        template = self.learner.start(np.float64(0.0))
        state: Linear = unflatten(
            template, dict(zip(flatten(template), self._numbers[k], strict=True))
        )
        return state

    def _weights(self, k: int, place: npt.NDArray[np.int64]) -> Floats:
        table, bets = self._tables[k], self.learner.bets
        known = self._known(place)
        features = bets.unpack(np, list(table[place[known]].T))
        result = np.zeros(len(place))
        result[known] = bets.weights(NUMPY, self._state(k).bet, features)
        return result

    # Keeping --------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, npt.NDArray[Any] | float | int | str]:
        """All there is to know, as plain data."""
        options = {key: value for key, value in self.options.items() if value is not None}
        return {
            **options,
            "numbers": self._numbers.copy(),
            **{f"features.{k}": table.copy() for k, table in enumerate(self._tables)},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> LinearLearner:
        """A learner that goes on bit for bit where the one of `to_arrays` stood."""
        given = {key: value for key, value in arrays.items() if not isinstance(value, np.ndarray)}
        learner = cls(**given)
        numbers = np.array(arrays["numbers"], dtype=np.float64)
        if numbers.shape != learner._numbers.shape:
            raise ValueError(
                f"the saved numbers have the shape {numbers.shape}, this version's have "
                f"{learner._numbers.shape}: the model was saved by another version"
            )
        tables = [arrays[f"features.{k}"] for k in range(len(learner._tables))]
        for saved, own in zip(tables, learner._tables, strict=True):
            if saved.ndim != 2 or saved.shape[1] != own.shape[1] or saved.dtype != own.dtype:
                raise ValueError(
                    f"the saved features are {saved.dtype}{list(saved.shape)}, expected "
                    f"{own.dtype} with {own.shape[1]} columns"
                )
        learner._numbers = numbers
        learner._tables = [_copied(table, len(table)) for table in tables]
        return learner


def _copied(table: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """A table with these features, and room for as many as ``rows``."""
    copy = native.aligned(rows, table.shape[1], table.dtype)
    copy[: len(table)] = table
    return copy


_told: list[bool] = []


def _native() -> bool:
    """Whether the row loop is compiled; if not, said once."""
    if not _told:
        try:
            native.warm_up()
            _told.append(True)
        except NoCompilerError as error:
            _told.append(False)
            warnings.warn(
                f"{error}; until then rows are learned in NumPy, which gives the same and takes "
                "some hundred times as long",
                RuntimeWarning,
                stacklevel=4,
            )
    return _told[0]


def checked(batch: Rows, precision: str, *, labelled: bool = True) -> _Rows:
    """The batch in the types that the row loop reads; what would corrupt the state is refused."""
    values = np.ascontiguousarray(batch.values)
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    indptr = np.ascontiguousarray(batch.indptr, dtype=np.int64)
    indices = np.ascontiguousarray(batch.indices, dtype=np.int32)
    rows = len(indptr) - 1
    if len(values) != len(indices):
        raise ValueError(f"there are {len(indices)} indices but {len(values)} values")
    # Whichever is narrower: a float64 limit is beyond what a float32 can be compared with.
    smallest, largest = RANGE[
        "float64" if values.dtype.name == precision == "float64" else "float32"
    ]
    look = native.look if _native() else plain.look
    seen = (
        look(indptr, indices, values, batch.dimensions, smallest, largest)
        if rows >= 0
        else plain.Seen(plain.BROKEN, None)
    )
    if seen.bits & plain.BROKEN:
        raise ValueError("indptr must rise from 0 to the number of indices")
    if seen.bits & plain.OUTSIDE:
        raise ValueError(f"indices must be from 0 to dimensions - 1 = {batch.dimensions - 1}")
    if seen.bits & plain.REFUSED:
        bad = values[np.argmin(np.abs(values) <= largest)]
        raise ValueError(
            f"values must be finite, and at most {largest:g} in {precision}, not {bad}: leave "
            "missing ones out, and give large ones another unit; nothing was learned"
        )
    if seen.bits & plain.TINY:
        values = np.where(np.abs(values) < smallest, values.dtype.type(0), values)
    labels = weights = None
    if labelled:
        if batch.labels is None:
            raise ValueError("there are no labels to learn from")
        labels = np.ascontiguousarray(batch.labels, dtype=np.float64)
        if labels.shape != (rows,):
            raise ValueError(f"there are {rows} rows but labels of shape {labels.shape}")
        if batch.weights is not None:
            weights = np.ascontiguousarray(batch.weights, dtype=np.float64)
            if weights.shape != (rows,):
                raise ValueError(f"there are {rows} rows but weights of shape {weights.shape}")
            if not (np.isfinite(weights) & (weights >= 0)).all():
                raise ValueError("weights must be finite and at least 0; nothing was learned")
    return _Rows(indptr, indices, values, labels, weights, batch.dimensions, seen)


class _Rows:
    def __init__(
        self,
        indptr: npt.NDArray[np.int64],
        indices: npt.NDArray[np.int32],
        values: npt.NDArray[Any],
        labels: Floats | None,
        weights: Floats | None,
        dimensions: int,
        seen: plain.Seen,
    ) -> None:
        self.indptr, self.indices, self.values = indptr, indices, values
        self.labels, self.weights, self.dimensions = labels, weights, dimensions
        self.seen = seen


def _without_unknown(batch: _Rows, dimensions: int) -> _Rows:
    """Features beyond the model's have no weight."""
    known = batch.indices < dimensions
    before = np.concatenate([[0], np.cumsum(known)])
    return _Rows(
        before[batch.indptr], batch.indices[known], batch.values[known],
        batch.labels, batch.weights, dimensions, batch.seen,
    )  # fmt: skip


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))


def _softmax(scores: Floats) -> Floats:
    """The odds of each class against all others, scaled to add up to 1.

    Scaling the probabilities instead leaves the likeliest class far too doubtful.
    """
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Floats = odds / odds.sum(axis=1, keepdims=True)
    return shares
