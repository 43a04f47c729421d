"""IMDB: 25,000 film reviews to train on and 25,000 to test on, half of each favourable.

In the user's folder it may be the archive from its home, or a table ``imdb_labeled.tsv`` of these
reviews with the columns split, label, id, rating, text.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .files import DataError, Home, content, fetch, given
from .split import Split
from .words import Vocabulary, padded, words

HOME = Home(
    "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    "md5:7c2ac02c03563afcf9b574c7e56c153a",
)
TABLE = "imdb_labeled.tsv"
COLUMNS = ["split", "label", "id", "rating", "text"]
COUNTS = {(part, label): 12_500 for part in ("train", "test") for label in (0, 1)}


class Review(NamedTuple):
    """A review: of "train" or "test", and its label: 1 for a favourable one."""

    part: str
    label: int
    words: list[str]


def load(vocabulary: int, length: int) -> Split:
    """The first words of each review as numbers, labels 0 and 1.

    Args:
        vocabulary: how many words have numbers of their own.
        length: how many words of a review are kept.
    """
    reviews = _reviews()
    parts = [[r for r in reviews if r.part == part] for part in ("train", "test")]
    known = Vocabulary((review.words for review in parts[0]), vocabulary)
    arrays = []
    for part in parts:
        arrays.append(padded([known.ids(review.words) for review in part], length))
        arrays.append(np.array([review.label for review in part], np.int64))
    return Split(*arrays)


def _reviews() -> list[Review]:
    """All reviews, in the order of split, label and number, whatever form there is of them."""
    path = given("imdb", TABLE)
    named = _of_table(path) if path is not None else _of_archive(fetch("imdb", HOME, TABLE))
    named.sort(key=lambda pair: pair[0])
    reviews = [review for _, review in named]
    counts = {key: sum((r.part, r.label) == key for r in reviews) for key in COUNTS}
    if counts != COUNTS:
        raise DataError(f"IMDB: expected reviews {COUNTS}, found {counts}: fetch it anew")
    return reviews


Named = list[tuple[tuple[str, int, int], Review]]


def _of_table(path: Path) -> Named:
    head, *lines = content(path).decode("utf-8").rstrip("\n").split("\n")
    if head.split("\t") != COLUMNS:
        raise DataError(f"{path}: expected the columns {COLUMNS}, found {head!r}")
    named = []
    for line in lines:
        part, label, number, _, text = line.split("\t")
        named.append(_named(part, int(label), int(number), text))
    return named


def _of_archive(path: Path) -> Named:
    """Files are called such as aclImdb/train/pos/123_9.txt: the number, then the rating."""
    named = []
    with tarfile.open(path) as files:
        for member in files:
            folder, _, name = member.name.rpartition("/")
            _, _, place = folder.partition("/")
            if member.isfile() and place in ("train/neg", "train/pos", "test/neg", "test/pos"):
                part, _, label = place.partition("/")
                number = int(name.partition("_")[0])
                file = files.extractfile(member)
                text = "" if file is None else file.read().decode("utf-8")
                named.append(_named(part, int(label == "pos"), number, text))
    return named


def _named(part: str, label: int, number: int, text: str) -> tuple[tuple[str, int, int], Review]:
    return (part, label, number), Review(part, label, words(text.replace("<br />", " ")))
