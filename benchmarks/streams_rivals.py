"""The learners that are compared on streams: each gives the score of a row before it learns it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.streams_sets import rows
from paroli.linear import LinearLearner

Scores: TypeAlias = Any
FARTHEST = 30.0
"""Probabilities of 0 and 1 count as log-odds of this."""

RATES = (0.03, 0.1, 0.25, 0.5, 1.0, 3.0, 10.0)
VOWPAL_WABBIT = {
    "Vowpal Wabbit": "",
    "Vowpal Wabbit --coin": "--coin",
    "Vowpal Wabbit --ftrl": "--ftrl",
    "Vowpal Wabbit --pistol": "--pistol",
}
SMALL_RATES = (1e-5, 1e-4, 1e-3, 0.01)
"""Plain Adagrad needs these, too, where features are large."""

GRIDS = {
    "Vowpal Wabbit, best of 7 rates": [f"-l {rate}" for rate in RATES],
    "Adagrad (Vowpal Wabbit --adaptive), best of 11 rates": [
        f"--adaptive -l {rate}" for rate in (*SMALL_RATES, *RATES)
    ],
}


def ours(X: Any, y: Any, **options: Any) -> Scores:
    """One pass of `LinearLearner`."""
    return LinearLearner(dimensions=X.shape[1], **options).partial_fit_batch(rows(X, y))


def as_text(X: Any, y: Any) -> str:
    """Rows in Vowpal Wabbit's text format."""
    parts = []
    for t in range(len(y)):
        begin, end = X.indptr[t], X.indptr[t + 1]
        row = zip(X.indices[begin:end].tolist(), X.data[begin:end].tolist(), strict=True)
        parts.append(f"{y[t]:g} | " + " ".join(f"{i}:{x:.9g}" for i, x in row))
    return "\n".join(parts) + "\n"


@contextmanager
def text_file(X: Any, y: Any) -> Iterator[Path]:
    """The same in a file, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.vw"
        path.write_text(as_text(X, y), encoding="ascii")
        yield path


def vowpal_wabbit(path: Path, bits: int, options: str, test: Path | None = None) -> Scores:
    """One pass over a text file; with ``test``, the scores of that one afterwards."""
    import vowpalwabbit

    with tempfile.TemporaryDirectory() as folder:
        scores, model = Path(folder) / "scores", Path(folder) / "model"
        common = f"--loss_function logistic -b {bits} --quiet"
        learn = f"-d {path} {common} {options}"
        keep = f"-f {model}" if test else f"-p {scores}"
        vowpalwabbit.Workspace(f"{learn} {keep}").finish()
        if test:
            vowpalwabbit.Workspace(f"-d {test} -t -i {model} -p {scores} --quiet").finish()
        return np.array([float(line) for line in scores.read_text().split("\n") if line])


def sgd(X: Any, y: Any, **options: Any) -> Scores:
    """scikit-learn's SGDClassifier, row by row."""
    from sklearn.linear_model import SGDClassifier

    model, scores = SGDClassifier(loss="log_loss", **options), np.zeros(len(y))
    for t in range(len(y)):
        row = X[t : t + 1]
        if t:
            scores[t] = model.decision_function(row)[0]
        model.partial_fit(row, y[t : t + 1], classes=[-1.0, 1.0])
    return scores


def river(X: Any, y: Any, optimizer: Callable[[], Any]) -> Scores:
    """River's logistic regression, row by row."""
    from river import linear_model

    model: Any = linear_model.LogisticRegression(optimizer())
    scores = np.zeros(len(y))
    for t in range(len(y)):
        begin, end = X.indptr[t], X.indptr[t + 1]
        row = dict(zip(X.indices[begin:end].tolist(), X.data[begin:end].tolist(), strict=True))
        p = min(max(model.predict_proba_one(row)[True], 0.0), 1.0)
        with np.errstate(divide="ignore"):
            scores[t] = np.clip(np.log(p) - np.log1p(-p), -FARTHEST, FARTHEST)
        model.learn_one(row, bool(y[t] > 0))
    return scores


WIDE = 1000
"""Beyond so many features, River's Adam and FTRL take hours: a row costs what all of them do."""


def river_optimizers(features: int) -> dict[str, Callable[[], Any]]:
    """River's optimizers with their own defaults."""
    if find_spec("river") is None:
        print("River is not installed: left out")
        return {}
    from river import optim

    chosen = [optim.SGD, optim.AdaGrad]
    if features <= WIDE:
        chosen += [optim.Adam, optim.FTRLProximal]
    return {f"River {cls.__name__}": cls for cls in chosen}
