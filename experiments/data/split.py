"""What a loader returns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt


class Split(NamedTuple):
    """Rows to train on and rows to test on: arrays whose first axis is the row."""

    inputs: npt.NDArray[Any]
    targets: npt.NDArray[Any]
    test_inputs: npt.NDArray[Any]
    test_targets: npt.NDArray[Any]
