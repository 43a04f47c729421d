"""Files of data sets: what `PAROLI_DATA` has, or the canonical ones, fetched once and checked.

Checksums are the published ones.  Where a copy may be packed in another way than at home, it is the
unpacked content that is compared.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pooch
import requests  # what pooch downloads with

VARIABLE = "PAROLI_DATA"
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
}


class DataError(Exception):
    """What the user is told: which file is missing or wrong, and what to do."""


class Home(NamedTuple):
    """Where a file is published, and its checksum there."""

    url: str
    checksum: str
    """Such as "md5:...", of the file as it is served."""

    @property
    def name(self) -> str:
        """The file's name."""
        return self.url.rpartition("/")[2]


def given(folder: str, *names: str) -> Path | None:
    """The first of these files that the user's folder has, in any of the `PACKINGS`.

    None, if there is no such folder or it has none of them.
    """
    root = os.environ.get(VARIABLE)
    if not root:
        return None
    if not Path(root).is_dir():
        raise DataError(f"{VARIABLE}={root} is no folder; unset it to fetch the data instead")
    places = [place / name for name in names for place in (Path(root) / folder, Path(root))]
    for place in places:
        for packing in PACKINGS:
            path = place.with_name(place.name + packing)
            if path.is_file():
                return path
    return None


def fetch(folder: str, home: Home, *also_known_as: str) -> Path:
    """The canonical file: from the user's folder, the cache or, if neither has it, its home.

    With `PAROLI_DATA` set, nothing is ever downloaded.
    """
    found = given(folder, home.name)
    if found is not None:
        return found
    if os.environ.get(VARIABLE):
        names = " or ".join((home.name, *also_known_as))
        raise DataError(
            f"{VARIABLE}={os.environ[VARIABLE]} has no {folder}/{names} (or .gz, or .xz of it): "
            f"put there what {home.url} serves, or unset {VARIABLE} to have it fetched"
        )
    cache = cache_folder() / folder
    try:
        return Path(pooch.retrieve(home.url, home.checksum, fname=home.name, path=cache))
    except (OSError, ValueError, requests.RequestException) as error:
        raise DataError(
            f"{home.url} could not be fetched ({error}); fetch it elsewhere, put it into a folder "
            f"as {folder}/{home.name}, and set {VARIABLE} to that folder"
        ) from error


def cache_folder() -> Path:
    """Where fetched files stay."""
    return Path(pooch.os_cache("paroli"))


def content(path: Path) -> bytes:
    """What is in a file, unpacked."""
    packing = path.suffix if path.suffix in PACKINGS else ""
    try:
        return PACKINGS[packing](path.read_bytes())
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise DataError(f"{path} cannot be unpacked ({error}): fetch it anew") from error


def check(path: Path, unpacked: bytes, checksum: str) -> bytes:
    """The same bytes, if they are the published ones."""
    algorithm, _, expected = checksum.partition(":")
    found = hashlib.new(algorithm, unpacked).hexdigest()
    if found != expected:
        raise DataError(
            f"{path} is not what was published: {algorithm} {found} instead of {expected}; "
            f"delete it, and fetch it anew"
        )
    return unpacked
