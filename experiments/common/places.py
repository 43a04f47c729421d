"""Where results go."""

from __future__ import annotations

import os
from pathlib import Path

EXPERIMENTS = Path(__file__).parents[1]
IN_CHECKOUT = __package__.startswith("experiments.")
VARIABLE = "PAROLI_RESULTS"


def results_of(folder: str) -> Path:
    """In a checkout an experiment's own results; in an installed package a folder here.

    Unless `PAROLI_RESULTS` names another place for all of them.
    """
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE]) / folder
    return EXPERIMENTS / folder / "results" if IN_CHECKOUT else Path("paroli-results") / folder


def is_home() -> bool:
    """Whether results go into the checkout, so that its documents follow them."""
    return IN_CHECKOUT and VARIABLE not in os.environ
