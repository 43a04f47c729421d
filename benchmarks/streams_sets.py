"""Real data sets as streams of sparse rows with labels -1 and +1, in a fixed random order.

They are read from a folder with the files below, as their homes give them, xz-compressed where
the name says so; a set whose file is not there is left out.  Nothing is scaled: what a file says
is what a learner gets.

======================  =========================================  ================================
set                     file                                       label +1
======================  =========================================  ================================
a9a                     sparse/a9a.xz                              as in the file
adult                   uci/adult.data.xz                          income above 50K
bank                    uci/bank-additional-full.csv.xz            yes
covertype               uci/covtype.csv.xz, 100,000 rows           class 2
shuttle                 uci/shuttle.trn.xz                         class 1
rcv1 sample             sparse/vw_rcv1_small.dat.xz                as in the file
madelon                 uci/madelon.mat                            as in the file
20 newsgroups           text/20newsgroups-train.tab.xz             comp.* and sci.*
imdb                    imdb/imdb_labeled.tsv.xz                   positive
mnist                   mnist/train-images-idx3-ubyte.gz           even digits
======================  =========================================  ================================
"""

from __future__ import annotations

import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import OneHotEncoder

Set: TypeAlias = tuple[Any, Any]
"""Sparse rows, and labels."""


def lines(path: Path) -> list[str]:
    """The lines of a compressed text."""
    with lzma.open(path, "rt", encoding="utf-8", errors="replace") as file:
        return file.read().split("\n")


def _a9a(data: Path) -> Set:
    with lzma.open(data / "sparse/a9a.xz") as file:
        X, y = load_svmlight_file(io.BytesIO(file.read()))
    return X, y


def _table(rows: list[list[str]], numeric: list[int], label: str) -> Set:
    cells = np.array(rows, dtype=object)
    names = [k for k in range(cells.shape[1] - 1) if k not in numeric]
    X = sp.hstack([cells[:, numeric].astype(float), OneHotEncoder().fit_transform(cells[:, names])])
    return X.tocsr(), np.where(cells[:, -1] == label, 1.0, -1.0)


def _adult(data: Path) -> Set:
    rows = [line.split(", ") for line in lines(data / "uci/adult.data.xz") if ", " in line]
    return _table(rows, [0, 2, 4, 10, 11, 12], ">50K")


def _bank(data: Path) -> Set:
    text = lines(data / "uci/bank-additional-full.csv.xz")
    rows = [line.replace('"', "").split(";") for line in text[1:] if line]
    return _table(rows, [0, 10, 11, 12, 13, 15, 16, 17, 18, 19], "yes")


def _covertype(data: Path) -> Set:
    rows = np.loadtxt(lines(data / "uci/covtype.csv.xz")[1:-1], delimiter=",")
    return sp.csr_matrix(rows[:, :-1]), np.where(rows[:, -1] == 2, 1.0, -1.0)


def _shuttle(data: Path) -> Set:
    rows = np.loadtxt(lines(data / "uci/shuttle.trn.xz"))
    return sp.csr_matrix(rows[:, :-1]), np.where(rows[:, -1] == 1, 1.0, -1.0)


def _rcv1(data: Path) -> Set:
    text = [line for line in lines(data / "sparse/vw_rcv1_small.dat.xz") if line]
    indptr, indices, values = [0], [], []
    for line in text:
        for token in line.split("|", 1)[1].split()[1:]:
            name, _, value = token.partition(":")
            indices.append(int(name))
            values.append(float(value or 1))
        indptr.append(len(indices))
    return sp.csr_matrix((values, indices, indptr)), np.array([float(t.split()[0]) for t in text])


def _madelon(data: Path) -> Set:
    from scipy.io import loadmat

    content = loadmat(data / "uci/madelon.mat")
    return sp.csr_matrix(content["X"].astype(float)), np.where(content["Y"].ravel() > 0, 1.0, -1.0)


def _newsgroups(data: Path) -> Set:
    text = lines(data / "text/20newsgroups-train.tab.xz")[3:]
    rows = [line.split("\t", 1) for line in text if "\t" in line]
    words = CountVectorizer(binary=True, token_pattern=r"\S+")
    X = words.fit_transform([row[1] for row in rows]).astype(float)
    return X, np.array([1.0 if row[0].startswith(("comp", "sci")) else -1.0 for row in rows])


def _imdb(data: Path) -> Set:
    rows = [line.split("\t") for line in lines(data / "imdb/imdb_labeled.tsv.xz")[1:] if line]
    X = CountVectorizer(binary=True).fit_transform([row[4] for row in rows]).astype(float)
    return X, np.array([1.0 if row[1] == "1" else -1.0 for row in rows])


def _mnist(data: Path) -> Set:
    with gzip.open(data / "mnist/train-images-idx3-ubyte.gz") as file:
        X = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 784).astype(float)
    with gzip.open(data / "mnist/train-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read()[8:], np.uint8)
    return sp.csr_matrix(X), np.where(y % 2 == 0, 1.0, -1.0)


SETS: dict[str, Callable[[Path], Set]] = {
    "a9a": _a9a,
    "adult": _adult,
    "bank": _bank,
    "covertype": _covertype,
    "shuttle": _shuttle,
    "rcv1 sample": _rcv1,
    "madelon": _madelon,
    "20 newsgroups": _newsgroups,
    "imdb": _imdb,
    "mnist": _mnist,
}
MOST_ROWS = 100_000


def sets(data: Path, seed: int, names: list[str] | None = None) -> Iterator[tuple[str, Any, Any]]:
    """The sets that are there, each in an order of its own."""
    for name in names or SETS:
        try:
            X, y = SETS[name](data)
        except FileNotFoundError as error:
            print(f"{name}: left out, {error.filename} is not there")
            continue
        order = np.random.default_rng(seed).permutation(len(y))[:MOST_ROWS]
        X = sp.csr_matrix(X)[order]
        X.sort_indices()
        yield name, X, y[order]


def rows(X: Any, y: Any) -> Any:
    """As `paroli.linear.LinearLearner` takes them."""
    return SimpleNamespace(
        indptr=X.indptr.astype(np.int64),
        indices=X.indices.astype(np.int32),
        values=X.data,
        labels=y,
        weights=None,
        dimensions=X.shape[1],
    )


def log_loss(scores: Any, y: Any) -> float:
    """Mean log-loss of scores that are log-odds."""
    return float(np.logaddexp(0, -y * scores).mean())
