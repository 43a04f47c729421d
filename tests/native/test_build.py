"""Compiling and keeping: what is loaded is what was asked for, and errors say what to do."""

import os
import stat
from pathlib import Path

import pytest

from paroli.native import NoCompilerError, build, load

SOURCE = "int answer(void) { return %d; }"


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PAROLI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def fresh_compiler() -> object:
    build._compiler.cache_clear()
    yield
    build._compiler.cache_clear()


def test_another_source_is_another_library(own_cache: Path) -> None:
    assert load("answer", SOURCE % 1).answer() == 1
    assert load("answer", SOURCE % 2).answer() == 2
    assert len(list(own_cache.glob("answer-*.so"))) == 2


def test_what_was_compiled_is_found_again(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load("answer", SOURCE % 3)
    monkeypatch.setattr(build, "_compile", None)  # calling it would be an error
    assert load("answer", SOURCE % 3).answer() == 3


def test_flags_are_part_of_the_name(own_cache: Path) -> None:
    source = "int answer(void) { return ANSWER; }"
    assert load("answer", source, ["-DANSWER=4"]).answer() == 4
    assert load("answer", source, ["-DANSWER=5"]).answer() == 5


def test_nothing_is_left_of_a_failure(own_cache: Path) -> None:
    with pytest.raises(NoCompilerError, match=r"(?s)failed:.*expected"):
        load("broken", "int answer(void) { return }")
    assert list(own_cache.iterdir()) == []


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, fresh_compiler: None) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -with flags")
    with pytest.raises(NoCompilerError, match=r"tried no-such-compiler.*install gcc or clang"):
        load("answer", SOURCE % 6)
    assert not build.available()


def test_the_compiler_that_was_asked_for(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_compiler: None
) -> None:
    note, wrapper = tmp_path / "called", tmp_path / "my cc"
    wrapper.write_text(f'#!/bin/sh\necho called >> "{note}"\nexec cc "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", f"'{wrapper}'")
    assert load("answer", SOURCE % 7).answer() == 7
    assert note.exists()


def test_a_folder_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("PAROLI_CACHE", str(blocked))
    with pytest.raises(NoCompilerError, match="set PAROLI_CACHE"):
        load("answer", SOURCE % 8)


def test_a_folder_of_somebody_else_is_not_loaded_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can write there could have us run what he likes."""
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("PAROLI_CACHE", str(open_to_all))
    with pytest.raises(NoCompilerError, match="set PAROLI_CACHE"):
        load("answer", SOURCE % 9)
    assert os.listdir(open_to_all) == []
