"""From text to numbers: words, a vocabulary, rows of one length."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]

PADDING, UNKNOWN, END = "<pad>", "<unk>", "<eos>"
PADDING_ID = 0
WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?|[^\sa-z0-9]")


class Vocabulary:
    """The most frequent words, numbered from the most frequent one; 0 is padding, 1 all others."""

    def __init__(self, texts: Iterable[Sequence[str]], size: int) -> None:
        counts = Counter(word for text in texts for word in text)
        for special in (PADDING, UNKNOWN):
            counts.pop(special, None)
        # Of words that are equally frequent the order of the alphabet decides, not that of reading.
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        self.words = [PADDING, UNKNOWN, *ranked][:size]
        self._ids = {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, text: Sequence[str]) -> Ids:
        """The numbers of words."""
        unknown = self._ids[UNKNOWN]
        return np.array([self._ids.get(word, unknown) for word in text], np.int32)


def words(text: str) -> list[str]:
    """Lower-case words and signs of running text."""
    return WORD.findall(text.lower())


def padded(texts: Sequence[Ids], length: int) -> Ids:
    """One row a text: its first ``length`` words, then padding."""
    rows = np.zeros((len(texts), length), np.int32)
    for row, text in zip(rows, texts, strict=True):
        row[: min(len(text), length)] = text[:length]
    return rows


def windows(stream: Ids, length: int) -> tuple[Ids, npt.NDArray[np.int64]]:
    """A stream cut into rows, and beside each word the one that follows it."""
    count = (len(stream) - 1) // length
    used = stream[: count * length + 1]
    return used[:-1].reshape(count, length), used[1:].reshape(count, length).astype(np.int64)
