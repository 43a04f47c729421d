"""The example that plots diagnostics: what it logs can be read back."""

import math
import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("tensorboard")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tensorboard_diagnostics.py"


def test_diagnostics_are_logged_at_every_step_that_was_asked_for(tmp_path: Path) -> None:
    runpy.run_path(str(EXAMPLE))["main"](tmp_path, steps=40, every=2)
    events = EventAccumulator(str(tmp_path)).Reload()
    logged = {name: events.Scalars(name) for name in events.Tags()["scalars"]}
    assert logged.keys() >= {"paroli/log_wealth", "paroli/g_max", "paroli/bet/0", "paroli/bet/1"}
    last = logged.pop("loss/average")
    for name, scalars in logged.items():
        assert [scalar.step for scalar in scalars] == list(range(2, 41, 2)), name
        assert all(math.isfinite(scalar.value) for scalar in scalars), name
    assert logged["paroli/log_wealth"][-1].value > logged["paroli/log_wealth"][0].value
    assert last[0].value < logged["loss/batch"][0].value
