"""LM1B: slices of the one billion word benchmark's held-out part, 0.3 million words each.

Trained is on the shards 10 and 11 of 50, tested on 12 and 13: what can be had without the archive
of 1.8 GB, which serves as well.
"""

from __future__ import annotations

import tarfile

from .files import DataError, Home, check, content, fetch, given
from .split import Split
from .words import END, Vocabulary, windows

NAME = "1-billion-word-language-modeling-benchmark-r13output"
HOME = Home(
    f"http://www.statmt.org/lm-benchmark/{NAME}.tar.gz",
    "sha256:01ba60381110baf7f189dfd2b8374de371e8c9a340835793f190bdae9e90a34e",
)
FOLDER = f"{NAME}/heldout-monolingual.tokenized.shuffled"
SLICES = {
    "1b_benchmark.dev.tokens": (
        (10, 11),
        "sha256:17cb1e765cc0ccbf2b25d6dfd5e7d03bc776882e579e77ed9626d65eb3bbdec7",
    ),
    "1b_benchmark.test.tokens": (
        (12, 13),
        "sha256:63c566dee364763db09e6bb9abd83f77830c4932fc852bf2f9a563b527654fd0",
    ),
}
"""The slices: their shards, and the checksum of these one after the other (our own count: only the
whole archive's is published)."""


def load(vocabulary: int, length: int) -> Split:
    """Rows of the stream of words, and of the words that follow.

    Args:
        vocabulary: how many words have numbers of their own.
        length: words a row.
    """
    train, test = (_words(name) for name in SLICES)
    known = Vocabulary([train], vocabulary)
    return Split(*windows(known.ids(train), length), *windows(known.ids(test), length))


def _words(name: str) -> list[str]:
    shards, checksum = SLICES[name]
    path = given("lm1b", name)
    if path is not None:
        text = content(path)
    else:
        path = fetch("lm1b", HOME, name)
        with tarfile.open(path) as files:
            parts = [files.extractfile(f"{FOLDER}/news.en.heldout-{i:05}-of-00050") for i in shards]
            if None in parts:
                raise DataError(f"{path}: expected the shards {shards} in {FOLDER}")
            text = b"".join(part.read() for part in parts if part is not None)
    return check(path, text, checksum).decode("utf-8").replace("\n", f" {END} ").split()
