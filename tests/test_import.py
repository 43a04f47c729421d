"""`import paroli` needs NumPy alone, and the repr, hash and equality of bricks are values."""

import subprocess
import sys

import paroli
from paroli import diagonal, momentum, recursive, rescaled, scinol

NAMES = [
    *("recursive", "diagonal", "scinol", "ons", "constrained", "rescaled", "momentum"),
    *("averaged", "doubling", "OnlineLearner"),
]
HEAVY = ("torch", "jax", "tensorflow", "sklearn", "scipy", "matplotlib", "rich", "numba", "pandas")


def test_import_brings_no_framework() -> None:
    code = (
        "import sys; before = set(sys.modules); import paroli; new = set(sys.modules) - before;"
        "print(*sorted({name.split('.')[0] for name in new} - set(sys.stdlib_module_names)))"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    imported = {name for name in result.stdout.split() if not name.startswith("_")}
    assert imported == {"numpy", "paroli"}, imported
    assert not imported & set(HEAVY)


def test_import_takes_less_than_300_milliseconds() -> None:
    # CPU time, and the best of three: how busy the machine is does not count.
    code = "import time; t = time.process_time(); import paroli; print(time.process_time() - t)"
    command = [sys.executable, "-c", code]
    seconds = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(seconds) < 0.3


def test_the_names_that_others_call() -> None:
    for name in NAMES:
        assert name in paroli.__all__
        assert callable(getattr(paroli, name))
    assert sorted(paroli.__all__) == sorted(set(paroli.__all__))


def test_bricks_are_values() -> None:
    stack = momentum(rescaled(recursive(inner=scinol(cap=0.1))), decay=0.9)
    again = momentum(rescaled(recursive(inner=scinol(cap=0.1))), decay=0.9)
    assert stack == again
    assert hash(stack) == hash(again)
    assert stack != momentum(rescaled(recursive(inner=scinol(cap=0.3))), decay=0.9)
    assert eval(repr(stack), vars(paroli)) == stack
    assert repr(recursive(inner=diagonal(epsilon=1.0, eta=0.5), epsilon=1.0)) == (
        "recursive(inner=diagonal(epsilon=1.0, eta=0.5), epsilon=1.0)"
    )
