"""Sharded training is the single-process training: two and four gloo processes, in float64."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs torch.distributed with gloo", allow_module_level=True)

from paroli.torch import RecursiveOptimizer  # noqa: E402
from tests.torch.sharding_worker import (  # noqa: E402
    CASES,
    DECAY,
    SAVED,
    STEPS,
    net,
    play,
    single,
)

TOLERANCE = 1e-10
PATIENCE = 500.0
ROOT = Path(__file__).resolve().parents[2]
ALL = [(world, name) for world, cases in CASES.items() for name in cases]
COMMUNICATING = [(world, name) for world, name in ALL if CASES[world][name].sums is not None]

Seen = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sharding")


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[int, Seen]:
    """What each rank saw in each case; a case that was not reached is missing."""
    ranks = subprocess.Popen(
        [sys.executable, "-m", "tests.torch.sharding_worker", str(folder)],
        env=environment(),
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        ranks.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(ranks.pid, signal.SIGKILL)
        ranks.wait()
    return {world: collected(world, folder) for world in CASES}


def environment() -> dict[str, str]:
    paths = [str(ROOT), *filter(None, sys.path)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


def collected(world: int, folder: Path) -> Seen:
    files = [folder / f"seen-{world}-{rank}.pt" for rank in range(world)]
    by_rank = [torch.load(file) if file.exists() else {} for file in files]
    return {name: [seen[name] for seen in by_rank if name in seen] for name in CASES[world]}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def all_ranks(runs: dict[int, Seen], world: int, name: str) -> list[dict[str, Any]]:
    seen = runs[world].get(name, [])
    failures = [rank["failed"] for rank in seen if "failed" in rank]
    assert not failures, "\n".join(failures)
    assert len(seen) == world, f"{len(seen)} of {world} ranks got here (an earlier case failed?)"
    return seen


def alone(world: int, name: str, folder: Path) -> dict[str, Any]:
    """The same training in this process."""
    return CASES[world][name].play(single, str(folder))


def length(tensors: dict[str, Any]) -> float:
    return float(torch.cat([tensor.reshape(-1) for tensor in tensors.values()]).norm())


def deviation(ranks: list[dict[str, Any]], single_process: dict[str, Any]) -> float:
    """The largest distance of any rank's weights or averages, in units of the distance moved."""
    start = {name: p.detach() for name, p in net().named_parameters()}
    end = single_process["points"][STEPS]
    moved = length({name: end[name] - start[name] for name in start})
    pairs = []
    for rank in ranks:
        pairs += [(points, single_process["points"][at]) for at, points in rank["points"].items()]
        pairs.append((rank["average"], single_process["average"]))
    found = [length({n: mine[n] - theirs[n] for n in mine}) for mine, theirs in pairs if mine]
    return max(found) / moved


@pytest.mark.parametrize(("world", "name"), ALL)
def test_equals_a_single_process(
    world: int, name: str, runs: dict[int, Seen], folder: Path
) -> None:
    ranks = all_ranks(runs, world, name)
    single_process = alone(world, name, folder)
    found = deviation(ranks, single_process)
    print(f"{world} {name}: {found:.1e} of the distance moved")
    assert found < TOLERANCE
    held = set().union(*(rank["average"] for rank in ranks))
    assert held == set(single_process["average"])
    assert all(rank["train_is_exact"] for rank in ranks)


@pytest.mark.parametrize(("world", "name"), ALL)
def test_ranks_agree_to_the_last_bit(world: int, name: str, runs: dict[int, Seen]) -> None:
    """Ranks that hold the same never drift apart."""
    ranks = all_ranks(runs, world, name)
    for kept in ("average", "points"):
        first: dict[str, Any] = {}
        for rank in ranks:
            tensors = rank[kept] if kept == "average" else rank[kept][STEPS]
            for parameter, tensor in tensors.items():
                assert torch.equal(first.setdefault(parameter, tensor), tensor), parameter


@pytest.mark.parametrize(("world", "name"), COMMUNICATING)
def test_one_small_all_reduce_a_step(world: int, name: str, runs: dict[int, Seen]) -> None:
    """And one more where weight decay asks how far the step goes; none where nothing is sharded."""
    wanted = CASES[world][name].sums
    for rank in all_ranks(runs, world, name):
        assert sum(rank["communications"].values()) == wanted, rank["communications"]
        assert all("all_reduce" in op or "allreduce" in op for op in rank["communications"])


@pytest.mark.parametrize("file", ["sharded", "full.pt"])
@pytest.mark.filterwarnings("ignore::UserWarning:torch")  # torch's own, on the way to no_dist
def test_checkpoint_of_four_ranks_goes_on_in_a_single_process(
    file: str, runs: dict[int, Seen], folder: Path
) -> None:
    all_ranks(runs, 4, "fsdp-tp-save")
    settings = {"poisoned": True, "apart": True}
    job = single()
    job.options = dict(DECAY)
    resumed = play(job, **settings, first=SAVED, folder=str(folder / "checkpoint" / file))
    assert deviation([resumed], alone(4, "fsdp-tp-save", folder)) < TOLERANCE


def test_nothing_is_asked_of_torch_without_distributed() -> None:
    """Some builds of torch have no torch.distributed."""
    code = """
import sys, torch
torch.distributed.is_available = lambda: False
sys.modules["torch.distributed.tensor"] = None
from paroli.torch import RecursiveOptimizer
model = torch.nn.Linear(2, 1)
optimizer = RecursiveOptimizer(model.parameters(), weight_decay=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
"""
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True, timeout=PATIENCE)


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("wealth", ["global", "group"])
def test_a_rank_with_nothing_to_add_says_so(wealth: Any, one_rank: None) -> None:
    """Instead of leaving the others waiting for it."""
    p = torch.nn.Parameter(torch.ones(2))
    world = torch.distributed.group.WORLD
    optimizer = RecursiveOptimizer([p], wealth=wealth, process_group=world)
    with pytest.raises(RuntimeError, match="every rank needs a gradient"):
        optimizer.step()
    p.grad = torch.ones(2)
    for _ in range(3):
        optimizer.step()
    assert not torch.equal(p.detach(), torch.ones(2))


def test_state_of_complex_shards_has_two_parts(one_rank: None) -> None:
    from torch.distributed.tensor import Shard, distribute_tensor

    line = torch.distributed.init_device_mesh("cpu", (1,))
    whole = torch.ones(3, 2, dtype=torch.complex128)
    p = torch.nn.Parameter(distribute_tensor(whole, line, [Shard(0)]))
    p.grad = distribute_tensor(whole, line, [Shard(0)])
    optimizer = RecursiveOptimizer([p])
    optimizer.step()
    assert optimizer.state[p]["lag"].shape == (3, 2, 2)
    assert optimizer.state[p]["lag"].full_tensor().shape == (3, 2, 2)
