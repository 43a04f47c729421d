"""Independent jobs on all cores, under one progress bar that moves within jobs."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing.queues import SimpleQueue
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Job = TypeVar("Job")
Result = TypeVar("Result")
Report = Callable[[float], None]
"""How a job says that it has done so much more of its work."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""A process a core is all the parallelism there is room for; and sums are taken in one order."""

_reports: SimpleQueue[float]


def _start_worker(reports: SimpleQueue[float]) -> None:
    global _reports
    _reports = reports


def _work(function: Callable[[Job, Report], Result], job: Job) -> Result:
    return function(job, lambda done: _reports.put(done))


def run_jobs(
    function: Callable[[Job, Report], Result],
    jobs: Sequence[Job],
    work: Sequence[float],
    processes: int,
    console: Console,
) -> list[Result]:
    """The results of ``function(job, report)``, in the order of ``jobs``.

    Args:
        function: of a module's top level; it reports as it goes along, ``work`` in total.
        jobs: picklable; they are started in this order, so put the long ones first.
        work: how much work each is, in any unit.
        processes: how many run at once.
        console: where the progress bar goes.
    """
    # Fresh interpreters read these before they import NumPy; so they are set here, not there.
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    # 'spawn' is what every platform has, and copies no lock that some thread holds.
    context = multiprocessing.get_context("spawn")
    reports: SimpleQueue[float] = context.SimpleQueue()
    executor = ProcessPoolExecutor(processes, context, _start_worker, (reports,))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    try:
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task(f"0 of {len(jobs)} runs", total=sum(work))
            futures = [executor.submit(_work, function, job) for job in jobs]
            pending: set[Future[Result]] = set(futures)
            while pending:
                done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()  # an error ends everything now, not after the last job
                while not reports.empty():
                    progress.advance(bar, reports.get())
                ended = len(jobs) - len(pending)
                progress.update(bar, description=f"{ended} of {len(jobs)} runs")
            progress.update(bar, completed=sum(work))
        return [future.result() for future in futures]
    finally:
        executor.shutdown(cancel_futures=True)
        reports.close()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
