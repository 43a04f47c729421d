"""Programs that tests talk to: one that hangs is ended, and its test fails."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any

PATIENCE = 120
"""Seconds; a hundred times what the slowest takes."""


@contextlib.contextmanager
def running(command: Sequence[str], **pipes: Any) -> Iterator[subprocess.Popen[Any]]:
    """A program while it runs."""
    with subprocess.Popen(command, **pipes) as process:
        guard = threading.Timer(PATIENCE, process.kill)
        guard.start()
        try:
            yield process
        finally:
            guard.cancel()
