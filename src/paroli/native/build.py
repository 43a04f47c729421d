"""C source in, loaded library out: compiled once by the system's compiler, kept for the next time.

What is compiled for a user's own processor is worth more here than what could be shipped: the loops
are simple, and what they cost is how wide their vectors are.  A library is kept under the hash of
all that went into it (source, compiler, flags, processor), so that nothing stale is ever loaded,
and is put in place by renaming: processes that compile the same at once do no harm to each other.

``PAROLI_CACHE`` says where libraries are kept (else the user's cache folder), ``CC`` which compiler
makes them.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

COMPILERS = ("cc", "gcc", "clang")
FLAGS = (
    "-std=gnu11",
    "-O3",
    "-fPIC",
    "-shared",
    "-fwrapv",  # hashes of 32 bits overflow on purpose
    "-fno-math-errno",  # a square root is an instruction
    "-fno-trapping-math",  # a branch may become a choice
    "-ffp-contract=off",  # a product that is rounded twice less would not cancel its equal
    "-fopenmp-simd",  # of OpenMP, what needs no library: sums in any order where it is asked for
)
FOR_THIS_PROCESSOR = (("-march=native",), ("-mcpu=native",), ())
"""Tried in this order: not every compiler knows every one."""


class NoCompilerError(RuntimeError):
    """No C compiler, or one that does not compile."""


def load(name: str, source: str, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Compile C source, or find what was compiled before, and load it.

    Args:
        name: what to call the file, for those who look into the folder.
        source: one translation unit.
        flags: beside `FLAGS`; "-lm" is always last.

    >>> square = load("square", "double square(double x) { return x * x; }").square
    >>> square.restype, square.argtypes = ctypes.c_double, [ctypes.c_double]
    >>> square(3.0)
    9.0
    """
    command, version = _compiler()
    made_of = "\0".join((source, version, _processor(), *FLAGS, *flags))
    key = hashlib.sha256(made_of.encode()).hexdigest()[:24]
    for folder in _folders():
        path = folder / f"{name}-{key}.so"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _ours_alone(folder):
                continue
            if not path.is_file():
                _compile(command, source, flags, path)
            return ctypes.CDLL(str(path))
        except OSError:  # not writable, or not executable from there
            continue
    raise NoCompilerError(
        "paroli: no folder to keep compiled code in: set PAROLI_CACHE to one that can be written "
        "and executed from, and that nobody else can write to"
    )


def written(name: str, suffix: str, text: str) -> Path:
    """A file of that text, kept where libraries are, under its hash."""
    key = hashlib.sha256(text.encode()).hexdigest()[:24]
    for folder in _folders():
        path = folder / f"{name}-{key}{suffix}"
        try:
            if not path.is_file():
                folder.mkdir(parents=True, exist_ok=True)
                handle, made = tempfile.mkstemp(prefix=path.stem, suffix=".tmp", dir=folder)
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(made, path)
            return path
        except OSError:  # not writable
            continue
    raise OSError("paroli: no folder to keep generated code in: set PAROLI_CACHE to one")


def available() -> bool:
    """Whether there is a compiler that compiles."""
    try:
        _compiler()
    except NoCompilerError:
        return False
    return True


def _ours_alone(folder: Path) -> bool:
    """Whether nobody else can have put anything there: what is loaded is run."""
    seen = folder.stat()
    return seen.st_uid in (os.getuid(), 0) and not seen.st_mode & 0o022


def _compile(command: Sequence[str], source: str, flags: Sequence[str], path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="paroli-") as scratch:
        c_file = Path(scratch) / "source.c"
        c_file.write_text(source, encoding="utf-8")
        handle, made = tempfile.mkstemp(prefix=path.stem, suffix=".tmp", dir=path.parent)
        os.close(handle)
        try:
            for processor in FOR_THIS_PROCESSOR:
                done = subprocess.run(
                    [*command, *FLAGS, *processor, *flags, "-o", made, str(c_file), "-lm"],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if done.returncode == 0:
                    os.replace(made, path)
                    return
        finally:
            Path(made).unlink(missing_ok=True)
    raise NoCompilerError(f"paroli: {shlex.join(command)} failed:\n{done.stderr[-4000:]}")


@cache
def _compiler() -> tuple[tuple[str, ...], str]:
    """The command of the compiler, and what it says it is."""
    asked = os.environ.get("CC")
    for command in (shlex.split(asked),) if asked else tuple((name,) for name in COMPILERS):
        if command and shutil.which(command[0]):
            said = subprocess.run(
                [*command, "--version"], capture_output=True, text=True, check=False
            )
            if said.returncode == 0:
                return tuple(command), f"{shlex.join(command)}\n{said.stdout}"
    tried = asked or ", ".join(COMPILERS)
    raise NoCompilerError(
        f"paroli: no C compiler (tried {tried}): install gcc or clang, or name one in CC"
    )


@cache
def _processor() -> str:
    """What ``native`` means here: folders may be shared by machines."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            told = [line for line in file if line.startswith(("model name", "flags", "Features"))]
        return platform.machine() + "".join(sorted(set(told)))
    except OSError:
        return f"{platform.machine()} {platform.processor()} {sys.platform}"


def _folders() -> list[Path]:
    """Where to keep libraries, the best first."""
    own = os.environ.get("PAROLI_CACHE")
    if own:
        return [Path(own)]
    home = os.environ.get("XDG_CACHE_HOME")
    cache_home = Path(home) if home else Path.home() / ".cache"
    return [cache_home / "paroli", Path(tempfile.gettempdir()) / f"paroli-{os.getuid()}"]
