"""MNIST: 60,000 and 10,000 grey digits of 28 x 28."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from .files import DataError, Home, check, content, fetch
from .split import Split

HOME = "https://storage.googleapis.com/cvdf-datasets/mnist/"

FILES = {
    "train-images-idx3-ubyte": (
        "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    "train-labels-idx1-ubyte": (
        "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    "t10k-images-idx3-ubyte": (
        "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    "t10k-labels-idx1-ubyte": (
        "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
}
"""Published checksums: of the gzip file at home, and of what is in it."""


def load() -> Split:
    """Images as bytes of (n, 1, 28, 28), labels 0 to 9."""
    train, train_labels, test, test_labels = (_read(name) for name in FILES)
    return Split(
        train[:, None],
        train_labels.astype(np.int64),
        test[:, None],
        test_labels.astype(np.int64),
    )


def _read(name: str) -> npt.NDArray[np.uint8]:
    at_home, unpacked = FILES[name]
    path = fetch("mnist", Home(f"{HOME}{name}.gz", at_home))
    data = check(path, content(path), unpacked)
    zero, kind, dimensions = struct.unpack_from(">HBB", data)
    if (zero, kind) != (0, 8):
        raise DataError(f"{path}: an idx file of bytes begins with 0, 0, 8, not with {data[:3]!r}")
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
