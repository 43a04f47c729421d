"""The loaders on small files in every form they may have, and the real sets where they are."""

import gzip
import hashlib
import io
import lzma
import os
import socket
import struct
import tarfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from experiments.data import cifar10, files, imdb, lm1b, mnist, ptb
from experiments.data.files import DataError, Home, fetch, given
from experiments.data.words import END, UNKNOWN, Vocabulary, padded, windows, words

RNG = np.random.default_rng(0)
REAL = os.environ.get(files.VARIABLE)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder; whoever opens a connection fails."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv(files.VARIABLE, str(folder))
    monkeypatch.setattr(socket, "socket", no_network)
    return folder


def no_network(*_: object, **__: object) -> NoReturn:
    raise OSError("the network was touched")


def sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def put(path: Path, content: bytes) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return content


def archive(path: Path, contents: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


# Where files come from -------------------------------------------------------------------------


def test_given_knows_every_packing_and_place(root: Path) -> None:
    assert given("set", "a.txt") is None
    for path in (root / "a.txt.xz", root / "set" / "a.txt.gz", root / "set" / "a.txt"):
        put(path, b"")
        assert given("set", "missing.txt", "a.txt") == path


def test_content_unpacks(tmp_path: Path) -> None:
    for suffix, pack in (("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)):
        put(tmp_path / f"a.txt{suffix}", pack(b"words"))
        assert files.content(tmp_path / f"a.txt{suffix}") == b"words"
    for suffix in (".gz", ".xz"):
        put(tmp_path / f"b{suffix}", b"not packed")
        with pytest.raises(DataError, match=r"cannot be unpacked.*fetch it anew"):
            files.content(tmp_path / f"b{suffix}")


def test_a_missing_file_says_what_to_do(root: Path) -> None:
    home = Home("https://example.org/sets/a.tar.gz", "md5:0")
    with pytest.raises(DataError, match=r"has no set/a.tar.gz or b.bin .*example.org.*unset") as e:
        fetch("set", home, "b.bin")
    assert str(root) in str(e.value)


def test_a_missing_folder_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(files.VARIABLE, "/nowhere")
    with pytest.raises(DataError, match="/nowhere is no folder"):
        given("set", "a")


def test_without_a_folder_the_cache_serves_and_then_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(files.VARIABLE, raising=False)
    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(socket, "socket", no_network)
    home = Home("https://example.org/a.txt", sha256(b"words"))
    cached = tmp_path / "set" / "a.txt"
    put(cached, b"words")
    assert fetch("set", home) == cached
    cached.unlink()
    with pytest.raises(
        DataError, match=r"https://example.org/a.txt could not be fetched.*set/a.txt"
    ):
        fetch("set", home)


def test_other_content_is_refused(tmp_path: Path) -> None:
    assert files.check(tmp_path, b"words", sha256(b"words")) == b"words"
    with pytest.raises(DataError, match=r"not what was published.*delete it"):
        files.check(tmp_path, b"swords", sha256(b"words"))


# The sets --------------------------------------------------------------------------------------


def idx(array: np.ndarray[Any, Any]) -> bytes:
    head = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


def test_mnist(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [RNG.integers(0, 256, shape) for shape in ((5, 28, 28), (5,), (3, 28, 28), (3,))]
    checksums = {}
    for name, array in zip(mnist.FILES, arrays, strict=True):
        put(root / "mnist" / f"{name}.gz", gzip.compress(idx(array)))
        checksums[name] = ("", sha256(idx(array)))
    monkeypatch.setattr(mnist, "FILES", checksums)
    split = mnist.load()
    assert split.inputs.shape == (5, 1, 28, 28)
    for found, array in zip(split, arrays, strict=True):
        np.testing.assert_array_equal(found.reshape(array.shape), array)
    (root / "mnist" / f"{next(iter(checksums))}.gz").write_bytes(gzip.compress(idx(arrays[2])))
    with pytest.raises(DataError, match="not what was published"):
        mnist.load()


def compact(records: np.ndarray[Any, Any]) -> bytes:
    """The compact form, pixel by pixel, from its description."""
    n = len(records)
    red, green, blue = records[:, 1:].reshape(n, 3, 32, 32).transpose(1, 0, 2, 3).astype(int)
    planes = [green, red - green, blue - green]
    residuals = np.zeros((3, n, 32, 32), int)
    for k, plane in enumerate(planes):
        for m, i, j in np.ndindex(n, 32, 32):
            left, above = plane[m, i, j - 1], plane[m, i - 1, j]
            if i == j == 0:
                prediction = 0
            elif i == 0 or j == 0:
                prediction = left if i == 0 else above
            else:  # the median of the three
                prediction = sorted([left, above, left + above - plane[m, i - 1, j - 1]])[1]
            residuals[k, m, i, j] = plane[m, i, j] - prediction
    residuals[2] -= residuals[1] >> 1
    packed = ((residuals + 128) & 255).astype(np.uint8)
    return struct.pack("<I", n) + records[:, 0].tobytes() + packed.tobytes()


def test_cifar10_in_all_three_forms(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = {}
    for k, name in enumerate(cifar10.FILES):
        smooth = RNG.integers(0, 256, (2, 3, 1, 1)) + RNG.integers(-40, 40, (2, 3, 32, 32))
        batches[name] = np.full((2, cifar10.RECORD), k, np.uint8)
        batches[name][:, 1:] = (smooth & 255).reshape(2, -1)
    monkeypatch.setattr(cifar10, "FILES", {k: sha256(v.tobytes()) for k, v in batches.items()})
    tar = root / "cifar10" / "cifar-10-binary.tar.gz"
    archive(tar, {f"cifar-10-batches-bin/{k}.bin": v.tobytes() for k, v in batches.items()})
    from_archive = cifar10.load()
    tar.unlink()
    for name, records in batches.items():
        packed = lzma.compress(compact(records))
        put(root / "cifar10" / f"cifar10_{name}.res.xz", packed)
    from_compact = cifar10.load()
    for name, records in batches.items():
        (root / "cifar10" / f"cifar10_{name}.res.xz").unlink()
        put(root / "cifar-10-batches-bin" / f"{name}.bin", records.tobytes())
    from_files = cifar10.load()
    for split in (from_archive, from_compact, from_files):
        assert split.inputs.shape == (10, 3, 32, 32)
        np.testing.assert_array_equal(split.targets, np.repeat(range(5), 2))
        np.testing.assert_array_equal(split.test_targets, [5, 5])
        np.testing.assert_array_equal(
            split.inputs[2:4].reshape(2, -1), batches["data_batch_2"][:, 1:]
        )
        np.testing.assert_array_equal(
            split.test_inputs.reshape(2, -1), batches["test_batch"][:, 1:]
        )


REVIEWS = {
    ("train", 0, 0): "Bad, bad film.<br />It's long",
    ("train", 1, 0): "A good film",
    ("test", 0, 7): "a bad bad bad thing",
    ("test", 1, 12): "Good ẘ",
}


def test_imdb_in_both_forms(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imdb, "COUNTS", dict.fromkeys(imdb.COUNTS, 1))
    lines = [f"{part}\t{label}\t{n}\t8\t{text}" for (part, label, n), text in REVIEWS.items()]
    table = "\n".join(["\t".join(imdb.COLUMNS), *lines, ""])
    put(root / "imdb" / "imdb_labeled.tsv.xz", lzma.compress(table.encode()))
    from_table = imdb.load(vocabulary=5, length=4)
    (root / "imdb" / "imdb_labeled.tsv.xz").unlink()
    folders = {0: "neg", 1: "pos"}
    members = {
        f"aclImdb/{part}/{folders[label]}/{n}_8.txt": text.encode()
        for (part, label, n), text in reversed(REVIEWS.items())
    }
    archive(
        root / "imdb" / "aclImdb_v1.tar.gz",
        {"aclImdb/train/unsup/0_0.txt": b"no", "aclImdb/README": b"", **members},
    )
    from_archive = imdb.load(vocabulary=5, length=4)
    for split in (from_table, from_archive):
        # Numbers: 2 'bad', 3 'film', 4 ','; 1 all others, 0 after the end.
        np.testing.assert_array_equal(split.inputs, [[2, 4, 2, 3], [1, 1, 3, 0]])
        np.testing.assert_array_equal(split.test_inputs, [[1, 2, 2, 2], [1, 1, 0, 0]])
        np.testing.assert_array_equal(split.targets, [0, 1])
        np.testing.assert_array_equal(split.test_targets, [0, 1])


def test_imdb_words_are_no_marks_of_the_page() -> None:
    _, review = imdb._named("train", 0, 1, "Bad film.<br />It's")
    assert review.words == ["bad", "film", ".", "it's"]


def test_imdb_counts_and_columns_are_checked(root: Path) -> None:
    head = "\t".join(imdb.COLUMNS)
    table = put(root / "imdb_labeled.tsv", f"{head}\ntrain\t0\t0\t1\tno\n".encode())
    with pytest.raises(DataError, match=r"expected reviews.*12500.*found"):
        imdb.load(5, 4)
    put(root / "imdb_labeled.tsv", table.replace(b"rating", b"stars"))
    with pytest.raises(DataError, match="expected the columns"):
        imdb.load(5, 4)


def test_ptb(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"ptb.train.txt": b" a b <unk> \n a b a \n", "ptb.test.txt": b" b c \n a b \n"}
    monkeypatch.setattr(ptb, "FILES", {name: sha256(text) for name, text in texts.items()})
    for name, text in texts.items():
        put(root / "ptb" / f"{name}.gz", gzip.compress(text))
    split = ptb.load(vocabulary=5, length=2)
    # 2 'a', 3 the end of a line, 4 'b'; 1 unknown.
    np.testing.assert_array_equal(split.inputs, [[2, 4], [1, 3], [2, 4]])
    np.testing.assert_array_equal(split.targets, [[4, 1], [3, 2], [4, 2]])
    np.testing.assert_array_equal(split.test_inputs, [[4, 1], [3, 2]])
    np.testing.assert_array_equal(split.test_targets, [[1, 3], [2, 4]])


def test_lm1b_in_both_forms(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = {10: b"a b\n", 11: b"a c a\n", 12: b"b b\n", 13: b"c\n"}
    texts = {name: b"".join(shards[i] for i in slice_) for name, (slice_, _) in lm1b.SLICES.items()}
    slices = {n: (s, sha256(texts[n])) for n, (s, _) in lm1b.SLICES.items()}
    monkeypatch.setattr(lm1b, "SLICES", slices)
    for name, text in texts.items():
        put(root / "lm1b" / f"{name}.xz", lzma.compress(text))
    from_slices = lm1b.load(vocabulary=4, length=3)
    for name in texts:
        (root / "lm1b" / f"{name}.xz").unlink()
    archive(
        root / "lm1b" / f"{lm1b.NAME}.tar.gz",
        {f"{lm1b.FOLDER}/news.en.heldout-{i:05}-of-00050": text for i, text in shards.items()},
    )
    from_archive = lm1b.load(vocabulary=4, length=3)
    for split in (from_slices, from_archive):
        # 2 'a', 3 the end of a line; 1 all others.
        np.testing.assert_array_equal(split.inputs, [[2, 1, 3], [2, 1, 2]])
        np.testing.assert_array_equal(split.targets, [[1, 3, 2], [1, 2, 3]])
        np.testing.assert_array_equal(split.test_inputs, [[1, 1, 3]])


# Words -----------------------------------------------------------------------------------------


def test_vocabulary_ranks_by_frequency_then_alphabet() -> None:
    known = Vocabulary([["b", "a", UNKNOWN], ["c", "c", END]], 5)
    assert known.words == ["<pad>", UNKNOWN, "c", END, "a"]
    assert len(known) == 5
    np.testing.assert_array_equal(known.ids(["a", "b", "c", "d"]), [4, 1, 2, 1])


def test_words() -> None:
    assert words("It's 10:30, isn't it?") == ["it's", "10", ":", "30", ",", "isn't", "it", "?"]


def test_padded_and_windows() -> None:
    texts = [np.array([1, 2, 3], np.int32), np.array([4], np.int32)]
    np.testing.assert_array_equal(padded(texts, 2), [[1, 2], [4, 0]])
    rows, following = windows(np.arange(8, dtype=np.int32), 3)
    np.testing.assert_array_equal(rows, [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(following, rows + 1)


# The real ones ---------------------------------------------------------------------------------


@pytest.mark.skipif(not REAL, reason=f"{files.VARIABLE} names no folder with the real data")
def test_the_real_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", no_network)
    digits = mnist.load()
    assert digits.inputs.shape == (60_000, 1, 28, 28)
    assert np.bincount(digits.test_targets).tolist() == [
        *(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
    ]
    treebank = ptb.load(10_001, 64)
    assert treebank.inputs.shape == (929_588 // 64, 64)
    assert treebank.inputs.max() == 10_000
    news = lm1b.load(10_000, 32)
    assert news.inputs.shape == ((310_490 + 12_216 - 1) // 32, 32)  # an end a sentence
