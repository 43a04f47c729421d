"""Model files: arrays and a header in a zip, checked to the last bit, replaced in one step.

Data and no code: nothing in a file can run.  A file is a zip of ``.npy`` arrays and
``header.json``, which has the SHA-256 of every array and is itself checked by the zip's comment.
Arrays that are mostly zeros are kept as their other entries and where these are.  The same model is
the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import paroli

KIND = "paroli model"
VERSION = 2
"""Of the file's form, which is that of the learner's tables and numbers.  Others are refused."""

HEADER = "header.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date that a zip knows: files do not depend on the clock
_SPARSE_BELOW = 0.5
"""Share of entries that are not zero below which they are kept alone (at most as large then)."""

Content: TypeAlias = Mapping[str, npt.NDArray[Any] | float | int | str]


class ModelError(Exception):
    """A file that is no model, or damaged, or of another form; the message names it."""


@dataclass(frozen=True)
class Model:
    """What a file holds: the learner's content, and what the run wants to remember in JSON."""

    learner: Content
    run: Mapping[str, Any]


def save(path: str | Path, model: Model) -> None:
    """Write a model, so that at any moment the path holds the old one or the new one, whole."""
    replace_file(Path(path), to_bytes(model))


def load(path: str | Path) -> Model:
    """Read a model; everything is checked before anything is believed."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return from_bytes(data)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def replace_file(path: Path, data: bytes) -> None:
    """Put data at the path in one step, on the disk when this returns."""
    target = Path(os.path.realpath(path))  # a link stays a link
    handle, temporary = tempfile.mkstemp(
        prefix=f".{target.name}.", suffix=".tmp", dir=target.parent
    )
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), _mode(target))
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name, too, survives a loss of power
    finally:
        os.close(folder)


def _mode(target: Path) -> int:
    """Permissions: those of the file that is replaced, or those of any new file."""
    if target.exists():
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


# To and from bytes ---------------------------------------------------------------------------


def to_bytes(model: Model) -> bytes:
    """The file's content."""
    members: dict[str, bytes] = {}
    described: dict[str, dict[str, Any]] = {}
    for name, value in model.learner.items():
        if isinstance(value, np.ndarray):
            described[name], arrays = _packed(name, value)
            members.update({f"{key}.npy": _npy(array) for key, array in arrays.items()})
        else:
            described[name] = _described(name, value)
    header = {
        "kind": KIND,
        "version": VERSION,
        "paroli": paroli.__version__,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
        "learner": described,
        "run": model.run,
    }
    header_data = json.dumps(header, indent=1, allow_nan=False).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = hashlib.sha256(header_data).hexdigest().encode()
        for name, data in {HEADER: header_data, **members}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
    return out.getvalue()


def from_bytes(data: bytes) -> Model:
    """The model in a file's content."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            comment = archive.comment.decode("ascii", "replace")
            members = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError) as error:
        raise ModelError(f"this is not a model, or only a part of one ({error})") from error
    header_data = members.pop(HEADER, None)
    if header_data is None:
        raise ModelError(f"this is a zip but not a model: there is no {HEADER} in it")
    if hashlib.sha256(header_data).hexdigest() != comment:
        raise ModelError(f"this is not a model, or a damaged one: {HEADER} is not what was written")
    header = json.loads(header_data)
    if header.get("kind") != KIND:
        raise ModelError(f"this is a {header.get('kind')!r}, not a {KIND!r}")
    if header["version"] != VERSION:
        newer = header["version"] > VERSION
        raise ModelError(
            f"this has the form {header['version']} of paroli {header['paroli']}; paroli "
            f"{paroli.__version__} reads the form {VERSION}: "
            + ("install a newer one" if newer else "learn the model anew, or use that version")
        )
    for name, digest in header["sha256"].items():
        if name not in members or hashlib.sha256(members[name]).hexdigest() != digest:
            raise ModelError(f"this is damaged: {name} is not what was written")
    return Model(
        {name: _unpacked(name, how, members) for name, how in header["learner"].items()},
        header["run"],
    )


def _described(name: str, value: float | int | str) -> dict[str, Any]:
    if isinstance(value, bool | int | str):
        return {"is": type(value).__name__, "value": value}
    if isinstance(value, np.integer):
        return {"is": "int", "value": int(value)}
    if isinstance(value, float | np.floating):
        return {"is": "float", "value": float(value).hex()}  # to the last bit; NaN and inf too
    raise TypeError(f"{name} is a {type(value).__name__}: a model holds arrays, numbers and text")


def _packed(
    name: str, array: npt.NDArray[Any]
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    if array.dtype.hasobject:
        raise TypeError(f"{name} is an array of objects: a model holds plain numbers")
    if array.size == 0:
        return {"is": "array"}, {name: array}
    bits = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    places = np.flatnonzero(bits.any(axis=1))  # by bits: -0.0 is not nothing
    index = np.dtype(np.uint32 if array.size < 1 << 32 else np.uint64)
    size = len(places) * (index.itemsize + array.dtype.itemsize)
    if size > _SPARSE_BELOW * array.nbytes:
        return {"is": "array"}, {name: array}
    return (
        {"is": "mostly zeros", "shape": list(array.shape)},
        {name: array.reshape(-1)[places], f"{name}.places": places.astype(index)},
    )


def _unpacked(name: str, how: Mapping[str, Any], members: Mapping[str, bytes]) -> Any:
    kind = how["is"]
    if kind in ("array", "mostly zeros"):
        array = _from_npy(members[f"{name}.npy"])
        if kind == "array":
            return array
        whole = np.zeros(math.prod(how["shape"]), array.dtype)
        whole[_from_npy(members[f"{name}.places.npy"])] = array
        return whole.reshape(how["shape"])
    return float.fromhex(how["value"]) if kind == "float" else how["value"]


def _npy(array: npt.NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def _from_npy(data: bytes) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    return array
