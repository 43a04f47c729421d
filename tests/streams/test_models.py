"""Model files: the same bits again, damage noticed, the old or the new one at any moment."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from paroli.streams import models
from paroli.streams.models import Model, ModelError
from tests.streams.processes import running


def model(seed: int = 0) -> Model:
    rng = np.random.default_rng(seed)
    table = np.where(rng.random((500, 3)) < 0.01, rng.standard_normal((500, 3)), 0.0)
    learner = {"features": table, "numbers": rng.random(7), "loss": "logistic", "rows": seed}
    return Model(learner, {"seed": seed})


def assert_same(one: Model, other: Model) -> None:
    assert one.run == other.run
    assert list(one.learner) == list(other.learner)
    for name, value in one.learner.items():
        again = other.learner[name]
        if isinstance(value, np.ndarray):
            assert isinstance(again, np.ndarray)
            assert (again.dtype, again.shape) == (value.dtype, value.shape)
            assert again.tobytes() == value.tobytes()
        else:
            assert type(again) is type(value)
            assert again == value or (value != value and again != again)


# Round trips ---------------------------------------------------------------------------------

ARRAYS = npst.arrays(
    dtype=st.sampled_from([np.float64, np.float32, np.int64, np.uint8, np.bool_]),
    shape=npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=30),
    fill=st.just(0),
)
SCALARS = st.one_of(st.floats(), st.integers(), st.text(), st.booleans())


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(content=st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), ARRAYS | SCALARS))
def test_what_is_loaded_is_what_was_saved(content: dict[str, Any]) -> None:
    saved = Model(content, {"anything": [1, None, "x"]})
    data = models.to_bytes(saved)
    assert_same(models.from_bytes(data), saved)
    assert models.to_bytes(models.from_bytes(data)) == data


def test_signs_of_zeros_and_kinds_of_nan_are_kept() -> None:
    odd = np.zeros(100)
    odd[[3, 50]] = -0.0, np.float64.fromhex("0x1p-1074")
    odd.view(np.uint64)[70] = 0x7FF8DEADBEEF0000
    assert_same(models.from_bytes(models.to_bytes(Model({"a": odd}, {}))), Model({"a": odd}, {}))


def test_mostly_zeros_take_little_room() -> None:
    table = np.zeros((1 << 16, 8))
    table[::100] = 1.5
    assert len(models.to_bytes(Model({"a": table}, {}))) < table.nbytes / 50


@pytest.mark.parametrize("value", [np.array([{}]), [1, 2], None, b"x"])
def test_only_plain_data_is_kept(value: Any) -> None:
    with pytest.raises(TypeError, match=r"x is an? .*: a model holds"):
        models.to_bytes(Model({"x": value}, {}))


# Damage --------------------------------------------------------------------------------------


def test_every_byte_counts(tmp_path: Path) -> None:
    data = models.to_bytes(model())
    path = tmp_path / "m"
    original, refusals = models.from_bytes(data), list[str]()
    for place in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        try:
            loaded = models.load(path)
        except ModelError as error:
            refusals.append(str(error))
        else:  # such as a date in the zip, which nobody reads
            assert_same(loaded, original)
    assert all(refusal.startswith(f"{path}: ") for refusal in refusals)
    assert len(refusals) > len(data) / 7 / 2


@pytest.mark.parametrize("length", [0, 1, 100, -1, -30])
def test_a_part_of_a_model_is_none(tmp_path: Path, length: int) -> None:
    path = tmp_path / "m"
    path.write_bytes(models.to_bytes(model())[:length])
    with pytest.raises(ModelError, match=f"{path}: this is not a model, or "):
        models.load(path)


def test_other_files_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with pytest.raises(ModelError, match="m: cannot be read: No such file"):
        models.load(path)
    np.savez(path.with_suffix(".npz"), a=np.ones(3))
    with pytest.raises(ModelError, match=r"a zip but not a model: there is no header.json in it"):
        models.load(path.with_suffix(".npz"))


def altered(change: Callable[[dict[str, Any]], None], members: dict[str, bytes]) -> bytes:
    """A model file with another header, and a right checksum of it."""
    with zipfile.ZipFile(io.BytesIO(models.to_bytes(model()))) as archive:
        content = {name: archive.read(name) for name in archive.namelist()} | members
    header = json.loads(content[models.HEADER])
    change(header)
    content[models.HEADER] = json.dumps(header).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.comment = models.hashlib.sha256(content[models.HEADER]).hexdigest().encode()
        for name, data in content.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_a_newer_model_asks_for_a_newer_paroli() -> None:
    later, text = models.VERSION + 1, r"the form {} of paroli .* reads the form {}: install a newer"
    with pytest.raises(ModelError, match=text.format(later, models.VERSION)):
        models.from_bytes(altered(lambda header: header.update(version=later), {}))


def test_a_model_of_an_older_form_is_refused() -> None:
    with pytest.raises(ModelError, match=r"the form 1 of paroli .*: learn the model anew"):
        models.from_bytes(altered(lambda header: header.update(version=1), {}))


def test_another_kind_of_file_is_named() -> None:
    with pytest.raises(ModelError, match="this is a 'cake', not a 'paroli model'"):
        models.from_bytes(altered(lambda header: header.update(kind="cake"), {}))


def test_nothing_in_a_file_runs() -> None:
    out = io.BytesIO()
    np.save(out, np.array([{}]), allow_pickle=True)
    pickled = {"numbers.npy": out.getvalue()}
    digest = models.hashlib.sha256(out.getvalue()).hexdigest()
    data = altered(lambda header: header["sha256"].update({"numbers.npy": digest}), pickled)
    with pytest.raises((ModelError, ValueError), match=r"pickle|Object arrays"):
        models.from_bytes(data)


# Writing in one step -------------------------------------------------------------------------


class BrokenError(Exception):
    """What stands for a loss of power."""


STEPS = ["mkstemp", "fdopen", "fchmod", "fsync", "replace", "open again", "fsync again"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("after", [False, True])
def test_whatever_breaks_the_old_model_or_the_new_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    path = tmp_path / "m"
    models.save(path, model(1))
    name = step.split()[0]
    module = models.tempfile if name == "mkstemp" else os
    function, calls = getattr(module, name), []

    def breaking(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) <= step.count("again"):
            return function(*arguments, **options)
        result = function(*arguments, **options) if after else None
        if name == "fdopen" and after:
            result.close()
        if name == "open" and after:
            os.close(result)
        if name == "mkstemp" and after:
            os.close(result[0])
        raise BrokenError

    monkeypatch.setattr(module, name, breaking)
    with pytest.raises(BrokenError):
        models.save(path, model(2))
    monkeypatch.undo()
    is_new = STEPS.index(step) > STEPS.index("replace") or (step == "replace" and after)
    assert_same(models.load(path), model(2 if is_new else 1))
    left = [file.name for file in tmp_path.iterdir()]
    assert left == ["m"] or (step in ("mkstemp", "fdopen") and after)


def test_links_and_permissions_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    models.save(real, model(1))
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(real.stat().st_mode) == 0o666 & ~umask
    real.chmod(0o640)
    link.symlink_to("real")
    models.save(link, model(2))
    assert link.is_symlink()
    assert_same(models.load(real), model(2))
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


SAVER = """
import sys, itertools
from paroli.streams import models
from tests.streams.test_models import model
import numpy as np
print("ready", flush=True)
for seed in itertools.cycle([1, 2]):
    big = dict(model(seed).learner, big=np.full(300_000, float(seed)))
    models.save(sys.argv[1], models.Model(big, {"seed": seed}))
    print(seed, flush=True)
"""


def test_kill_9_while_saving_leaves_a_whole_model(tmp_path: Path) -> None:
    path, rng = tmp_path / "m", random.Random(0)
    for _ in range(8):
        with running(
            [sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(rng.randint(2, 4)):  # it is in the middle of the next save
                assert process.stdout.readline().strip() in ("ready", "1", "2")
            time.sleep(rng.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
        loaded = models.load(path)
        seed = loaded.run["seed"]
        assert_same(
            Model({**model(seed).learner}, {}),
            Model({name: loaded.learner[name] for name in model(seed).learner}, {}),
        )
        assert (np.asarray(loaded.learner["big"]) == seed).all()


def test_an_array_that_was_exchanged_is_noticed() -> None:
    out = io.BytesIO()
    np.save(out, np.zeros(7))
    with pytest.raises(ModelError, match=r"this is damaged: numbers\.npy is not what was written"):
        models.from_bytes(altered(lambda header: None, {"numbers.npy": out.getvalue()}))
