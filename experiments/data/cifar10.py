"""CIFAR-10: 50,000 and 10,000 colour images of 32 x 32 in ten classes.

In the user's folder it may be the archive from its home, the six binary files unpacked from it, or
a lossless compact form of these (``cifar10_data_batch_1.res.xz`` and so on).
"""

from __future__ import annotations

import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .files import DataError, Home, check, content, fetch, given
from .split import Split

HOME = Home(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "md5:c32a1d4ab5d03f1284b67883e8d87530",
)
FILES = {
    "data_batch_1": "md5:5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2": "md5:5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3": "md5:942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4": "md5:ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5": "md5:53f37980c15c3d472c316c40844f3f0d",
    "test_batch": "md5:803d5f7f4d78ea53de84dbe85f74fb6d",
}
"""Published checksums of the binary files in the archive."""

SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE
"""Bytes of one image in a binary file: its label, then red, green and blue, row by row."""

Plane = npt.NDArray[np.int16]


def load() -> Split:
    """Images as bytes of (n, 3, 32, 32), labels 0 to 9."""
    records = [np.frombuffer(_read(name), np.uint8).reshape(-1, RECORD) for name in FILES]
    train, test = np.concatenate(records[:-1]), records[-1]
    return Split(*_images(train), *_images(test))


def _images(
    records: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    return records[:, 1:].reshape(-1, 3, SIDE, SIDE), records[:, 0].astype(np.int64)


def _read(name: str) -> bytes:
    """A binary file, whatever form there is of it."""
    path = given("cifar10", f"{name}.bin", f"cifar-10-batches-bin/{name}.bin")
    if path is not None:
        return check(path, content(path), FILES[name])
    path = given("cifar10", f"cifar10_{name}.res")
    if path is not None:
        return check(path, unpack(content(path)), FILES[name])
    path = fetch("cifar10", HOME, "cifar-10-batches-bin/*.bin", "cifar10_*.res")
    return check(path, _member(path, f"cifar-10-batches-bin/{name}.bin"), FILES[name])


def _member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as files:
        member = files.extractfile(name)
        if member is None:
            raise DataError(f"{archive}: expected a file {name} in it")
        return member.read()


# The compact form ------------------------------------------------------------------------------
#
# n, n labels, then the residuals of three planes: green, red - green, blue - green.  Each value is
# predicted from its neighbours; a residual is value - prediction + 128, modulo 256.  From that of
# blue - green half of that of red - green is subtracted too.


def unpack(compact: bytes) -> bytes:
    """The binary file whose compact form this is."""
    (n,) = struct.unpack_from("<I", compact)
    labels = np.frombuffer(compact, np.uint8, n, 4)
    stored = np.frombuffer(compact, np.uint8, offset=4 + n).reshape(3, n, SIDE, SIDE)
    # Pixel by pixel over all images at once.
    residuals = stored.transpose(0, 2, 3, 1).astype(np.int16) - 128
    green, red, blue, red_less, blue_less = (np.zeros((SIDE, SIDE, n), np.int16) for _ in range(5))
    for i, j in np.ndindex(SIDE, SIDE):
        green[i, j] = (_prediction(green, i, j) + residuals[0, i, j]) & 255
        predicted = _prediction(red_less, i, j)
        red[i, j] = (green[i, j] + predicted + residuals[1, i, j]) & 255
        red_less[i, j] = red[i, j] - green[i, j]
        half = (red_less[i, j] - predicted) >> 1
        predicted = _prediction(blue_less, i, j)
        blue[i, j] = (green[i, j] + predicted + residuals[2, i, j] + half) & 255
        blue_less[i, j] = blue[i, j] - green[i, j]
    images = np.stack([red, green, blue]).astype(np.uint8).transpose(3, 0, 1, 2).reshape(n, -1)
    return np.concatenate([labels[:, None], images], axis=1).tobytes()


def _prediction(plane: Plane, i: int, j: int) -> Any:
    """From the pixels to the left and above: the one of them, or their plane through the corner."""
    if i == j == 0:
        return np.int16(0)
    if i == 0:
        return plane[0, j - 1]
    if j == 0:
        return plane[i - 1, 0]
    left, above = plane[i, j - 1], plane[i - 1, j]
    plain = left + above - plane[i - 1, j - 1]
    return np.clip(plain, np.minimum(left, above), np.maximum(left, above))
