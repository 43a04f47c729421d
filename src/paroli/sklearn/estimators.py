"""`RecursiveClassifier` and `RecursiveRegressor`: scikit-learn's manners around `LinearLearner`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from paroli.linear.combined import combined as combined_learners
from paroli.linear.learner import CLASSIFYING, INNER, LOSSES, LinearLearner

Floats = npt.NDArray[np.float64]


def _has_probabilities(model: Any) -> bool:
    return bool(model.loss == "logistic")


class _Recursive(BaseEstimator):  # type: ignore[misc]
    """What the two have in common."""

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  # scikit-learn's own form
        "n_passes": [Interval(Integral, 1, None, closed="left")],
        "shuffle": ["boolean"],
        "prior": [Interval(Real, 0, None, closed="left")],
        "half_life": [None, Interval(Real, 0, None, closed="neither")],
        "variant": [StrOptions({"margin", "paper"})],
        "inner": [StrOptions(set(INNER))],
        "average": ["boolean"],
        "fit_intercept": ["boolean"],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
    }

    def _new_learner(self, X: Any, classes: int) -> LinearLearner:
        options = {
            name: getattr(self, name)
            for name in ("loss", "half_life", "inner", "average", "quantile", "delta", "variant")
            if hasattr(self, name)
        }
        return LinearLearner(
            dimensions=X.shape[1],
            precision=X.dtype.name,
            classes=classes,
            intercept=self.fit_intercept,
            prior=self.prior if self.n_passes > 1 else 0.0,
            **options,
        )

    def _validated(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        X, y = validate_data(
            self,
            X,
            y,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            y_numeric=isinstance(self, RegressorMixin),
        )
        _refuse_infinite(X)
        return X, y

    def _checked_for_prediction(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(
            self,
            X,
            reset=False,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
        )
        _refuse_infinite(X)
        return X

    def _scores(self, X: Any) -> Floats:
        X = self._checked_for_prediction(X)
        learner: LinearLearner = self.learner_
        return learner.predict_batch(_rows(X, None, None))

    def _fit(self, X: Any, labels: Floats, weights: Floats | None, learner: LinearLearner) -> None:
        rng = check_random_state(self.random_state)
        if not (self.warm_start and hasattr(self, "learner_")):
            self._loss, self._weight = 0.0, 0.0
        for number in range(self.n_passes):
            order = rng.permutation(len(labels)) if self.shuffle else slice(None)
            own = None if weights is None else weights[order]
            self._learn(learner, X[order], labels[order], own, again=number > 0)
            if number == 0:
                validated = self._loss, self._weight
        # What was learned before cannot be validated by learning it again.
        self._loss, self._weight = validated
        self._done(learner)

    def _learn(
        self,
        learner: LinearLearner,
        X: Any,
        labels: Floats,
        weights: Floats | None,
        *,
        again: bool = False,
    ) -> None:
        scores = learner.partial_fit_batch(_rows(X, labels, weights), again=again)
        self._loss += learner.total_loss(scores, labels, weights)
        self._weight += float(len(labels) if weights is None else weights.sum())

    def _done(self, learner: LinearLearner) -> None:
        self.learner_ = learner

    @property
    def progressive_loss_(self) -> float:
        """The mean loss over all rows of the first pass, each predicted before it was learned."""
        check_is_fitted(self)
        return self._loss / self._weight if self._weight else float("nan")

    @property
    def coef_(self) -> Floats:
        """The weights of the features."""
        check_is_fitted(self)
        every = np.arange(self.n_features_in_, dtype=np.int32)
        weights: Floats = np.atleast_2d(self.learner_.weights_at(every).T)
        return weights if isinstance(self, ClassifierMixin) else weights[0]

    @property
    def intercept_(self) -> Any:
        """The weights of the constant feature; in a regression with the mean of the labels."""
        check_is_fitted(self)
        found = self.learner_.intercepts()
        return found if isinstance(self, ClassifierMixin) else float(found[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


class RecursiveClassifier(ClassifierMixin, _Recursive):  # type: ignore[misc]
    """A linear classifier that learns row by row, with nothing to tune.

    No learning rate, no scaling of features: multiply a column by any number and the predictions
    stay as they are.  ``partial_fit`` learns rows in the order in which they come, each once; a
    missing value (NaN) is skipped.  More than two classes are learned one against all others.

    Args:
        loss: ``'logistic'``, which has probabilities, or ``'hinge'``.
        n_passes: how often `fit` goes over the rows.
        shuffle: whether `fit` brings them into a random order first, anew in each pass.
        prior: how strongly further passes are kept from learning the rows by heart; 0: not at all.
        half_life: for streams that change: after how many of its rows a feature has half forgotten
            what it saw.
        variant: ``'margin'``, or ``'paper'``: Algorithm 1 as printed, far too careful on rows of
            many features.
        inner: ``'both'``, or one of the inner learners: ``'diagonal'`` (Algorithm 2), ``'scinol'``.
        average: whether the mean of all iterates is added to the last one.
        fit_intercept: whether there is a constant feature.
        class_weight: weights of the classes by label, ``'balanced'``, or None.
        warm_start: whether `fit` goes on with what was learned.
        random_state: of the order.

    Attributes:
        classes_: the labels.
        coef_: (1 or classes, features).
        intercept_: (1 or classes,).
        progressive_loss_: the mean loss of each row before it was learned: an honest estimate of
            what comes, without a held-out set.
        learner_: the `paroli.linear.LinearLearner`.

    >>> import numpy as np
    >>> X = np.array([[1.0, np.nan], [-1.0, 50.0], [2.0, 10.0], [-2.0, np.nan]] * 50)
    >>> model = RecursiveClassifier(random_state=0).fit(X, ["yes", "no"] * 100)
    >>> model.predict([[3.0, np.nan], [-0.5, 20.0]]).tolist()
    ['yes', 'no']
    """

    _parameter_constraints = {  # noqa: RUF012
        **_Recursive._parameter_constraints,
        "loss": [StrOptions(set(CLASSIFYING))],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }
    classes_: npt.NDArray[Any]

    def __init__(
        self,
        loss: str = "logistic",
        *,
        n_passes: int = 1,
        shuffle: bool = True,
        prior: float = 3.0,
        half_life: float | None = None,
        variant: str = "margin",
        inner: str = "both",
        average: bool = True,
        fit_intercept: bool = True,
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.prior = prior
        self.half_life = half_life
        self.variant = variant
        self.inner = inner
        self.average = average
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RecursiveClassifier:
        """Learn the rows, ``n_passes`` times."""
        self._validate_params()
        goes_on = self.warm_start and hasattr(self, "learner_")
        X, y = self._validated(X, y, reset=not goes_on)
        classes = self.classes_ if goes_on else np.unique(y)
        _check_targets(y, classes)
        if goes_on:
            learner = self.learner_
        else:
            _check_classes(classes)
            self.classes_ = classes
            learner = self._new_learner(X, len(classes))
        labels = self._labels(y)
        self._fit(X, labels, self._weights(X, y, sample_weight), learner)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> RecursiveClassifier:
        """Learn rows, in their order; the first call needs all ``classes`` there will be."""
        self._validate_params()
        first = not hasattr(self, "learner_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight 'balanced' needs all rows at once: give partial_fit the weights, "
                "as a dict, that compute_class_weight('balanced', classes=..., y=...) finds"
            )
        X, y = self._validated(X, y, reset=first)
        _check_targets(y, np.unique(classes) if first else self.classes_)
        if first:
            classes = np.unique(classes)
            _check_classes(classes)
            learner = self._new_learner(X, len(classes))
            self.classes_, self._loss, self._weight = classes, 0.0, 0.0
        else:
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError(
                    f"classes {classes!r} differ from those of the first call, {self.classes_!r}"
                )
            learner = self.learner_
        labels = self._labels(y)
        self._learn(learner, X, labels, self._weights(X, y, sample_weight))
        self._done(learner)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Scores: positive for the second class; a column for each of more than two."""
        return self._scores(X)

    def predict(self, X: Any) -> Any:
        """The likeliest class of each row."""
        scores = self._scores(X)
        best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
        return self.classes_[best]

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class."""
        check_is_fitted(self)
        shares = self.learner_.outputs(self._scores(X))
        return shares if shares.ndim == 2 else np.stack([1 - shares, shares], axis=1)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Floats:
        """Its logarithm."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def _labels(self, y: Any) -> Floats:
        """Which class each row has, as the learner is told; classes must be known."""
        # No classes are sorted that need not be: two are told apart by one comparison.
        two = len(self.classes_) == 2
        found = (y == self.classes_[1]).astype(np.intp) if two else self._places(y)
        unknown = np.asarray(self.classes_[found] != y)
        if unknown.any():
            raise ValueError(
                f"y has classes that the model does not know: {np.unique(y[unknown]).tolist()}; it "
                f"knows {self.classes_.tolist()}"
            )
        place: Floats = found.astype(np.float64)
        return 2 * place - 1 if two else place

    def _places(self, y: Any) -> npt.NDArray[np.intp]:
        last = len(self.classes_) - 1
        return np.asarray(np.minimum(np.searchsorted(self.classes_, y), last), dtype=np.intp)

    def _weights(self, X: Any, y: Any, sample_weight: Any) -> Floats | None:
        weights = _weights_of(sample_weight, X)
        if self.class_weight is not None:
            weights = np.ones(len(y)) if weights is None else weights
            present = np.unique(y)
            by_class = compute_class_weight(self.class_weight, classes=present, y=y)
            weights = weights * by_class[np.searchsorted(present, y)]
        return weights


class RecursiveRegressor(RegressorMixin, _Recursive):  # type: ignore[misc]
    """A linear regressor that learns row by row, with nothing to tune.

    Features and labels may be of any scale: labels are centred by their running mean, and
    predictions kept within their range.

    Args:
        loss: ``'squared'``, ``'absolute'``, ``'quantile'``, ``'huber'``, or ``'poisson'`` for
            counts.
        quantile: which quantile to predict, for that loss.
        delta: where the Huber loss becomes linear, in the unit of the labels.
        n_passes: how often `fit` goes over the rows.
        shuffle: whether `fit` brings them into a random order first, anew in each pass.
        prior: how strongly further passes are kept from learning the rows by heart; 0: not at all.
        half_life: for streams that change: after how many of its rows a feature has half forgotten
            what it saw.
        variant: ``'margin'``, or ``'paper'``: Algorithm 1 as printed, far too careful on rows of
            many features.
        inner: ``'both'``, or one of the inner learners: ``'diagonal'`` (Algorithm 2), ``'scinol'``.
        average: whether the mean of all iterates is added to the last one.
        fit_intercept: whether there is a constant feature.
        warm_start: whether `fit` goes on with what was learned.
        random_state: of the order.

    Attributes:
        coef_: (features,).
        intercept_: a float.
        progressive_loss_: the mean loss of each row before it was learned.
        learner_: the `paroli.linear.LinearLearner`.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((2000, 2)) * [1.0, 1e6]
    >>> model = RecursiveRegressor(random_state=0).fit(X, 7 + X @ [3.0, 1e-6])
    >>> (model.coef_ * [1, 1e6]).round(1), round(model.intercept_, 1)
    (array([3., 1.]), 7.0)
    """

    _parameter_constraints = {  # noqa: RUF012
        **_Recursive._parameter_constraints,
        "loss": [StrOptions(set(LOSSES) - set(CLASSIFYING))],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
        "delta": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        loss: str = "squared",
        *,
        quantile: float = 0.5,
        delta: float = 1.0,
        n_passes: int = 1,
        shuffle: bool = True,
        prior: float = 3.0,
        half_life: float | None = None,
        variant: str = "margin",
        inner: str = "both",
        average: bool = True,
        fit_intercept: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.quantile = quantile
        self.delta = delta
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.prior = prior
        self.half_life = half_life
        self.variant = variant
        self.inner = inner
        self.average = average
        self.fit_intercept = fit_intercept
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RecursiveRegressor:
        """Learn the rows, ``n_passes`` times."""
        self._validate_params()
        goes_on = self.warm_start and hasattr(self, "learner_")
        X, y = self._validated(X, y, reset=not goes_on)
        learner = self.learner_ if goes_on else self._new_learner(X, 2)
        self._fit(X, y.astype(np.float64), _weights_of(sample_weight, X), learner)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> RecursiveRegressor:
        """Learn rows, in their order."""
        self._validate_params()
        first = not hasattr(self, "learner_")
        X, y = self._validated(X, y, reset=first)
        if first:
            learner = self._new_learner(X, 2)
            self._loss, self._weight = 0.0, 0.0
        else:
            learner = self.learner_
        self._learn(learner, X, y.astype(np.float64), _weights_of(sample_weight, X))
        self._done(learner)
        return self

    def predict(self, X: Any) -> Floats:
        """The value of each row; of counts the mean."""
        check_is_fitted(self)
        learner: LinearLearner = self.learner_
        return learner.outputs(self._scores(X))


def combined(models: Sequence[Any]) -> Any:
    """Estimators fitted on different rows as one that predicts (`paroli.linear.combined`).

    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((900, 2))
    >>> y = X[:, 0] > X[:, 1]
    >>> shards = [RecursiveClassifier().fit(X[k::3], y[k::3]) for k in range(3)]
    >>> bool(combined(shards).score(X, y) > 0.95)
    True
    """
    for model in models:
        check_is_fitted(model)
    first = models[0]
    for model in models[1:]:
        if type(model) is not type(first) or model.n_features_in_ != first.n_features_in_:
            raise ValueError("combined: the models must be alike in kind and features")
        if isinstance(first, ClassifierMixin) and not np.array_equal(
            model.classes_, first.classes_
        ):
            raise ValueError(
                f"combined: the models know different classes, {first.classes_!r} and "
                f"{model.classes_!r}; give partial_fit all classes"
            )
    result = copy(first)
    result.learner_ = combined_learners([model.learner_ for model in models])
    result._loss = sum(model._loss for model in models)
    result._weight = sum(model._weight for model in models)
    return result


def _rows(X: Any, labels: Floats | None, weights: Floats | None) -> Any:
    """Sparse rows without what is missing or zero."""
    if not sp.issparse(X):
        X = sp.csr_array(X)
    elif not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    indptr, indices, values = X.indptr, X.indices, X.data
    missing = np.isnan(values)
    if missing.any():
        before = np.concatenate([[0], np.cumsum(~missing)])
        indptr, indices, values = before[indptr], indices[~missing], values[~missing]
    return SimpleNamespace(
        indptr=indptr,
        indices=indices,
        values=values,
        labels=labels,
        weights=weights,
        dimensions=X.shape[1],
    )


def _refuse_infinite(X: Any) -> None:
    values = X.data if sp.issparse(X) else X
    if np.isinf(values).any():
        raise ValueError("Input X contains infinity or a value too large for its dtype")


def _weights_of(sample_weight: Any, X: Any) -> Floats | None:
    if sample_weight is None:
        return None
    weights: Floats = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    return weights


def _check_targets(y: Any, classes: Any) -> None:
    """Refuse labels that are no classes; those that are unknown are refused later."""
    # What two classes are says as much as all labels do, and sorts nothing.
    check_classification_targets(classes if len(classes) == 2 else y)


def _check_classes(classes: Any) -> None:
    if len(classes) < 2:
        raise ValueError(f"a classifier needs two classes or more, got one class: {classes!r}")
