"""The runs that `test_sharding` compares with a single process.

``python -m tests.torch.sharding_worker FOLDER`` plays every case, and each rank saves what it saw.
All cases of a world size share a process group, and all ranks the imports of one process: starting
costs more than the runs.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from paroli.torch import RecursiveOptimizer

STEPS = 40
LOOKS = (1, 10, 20, STEPS)
POISONED = 10
SAVED = 20
OPTIONS: dict[str, Any] = {"momentum": 0.9}


class Net(nn.Module):
    """Even over 2 and 4 ranks (up), uneven and empty (down, norm), a single element (gain)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.up = nn.Linear(6, 8)
        self.down = nn.Linear(8, 3)
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tail(self.head(x))

    def head(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.up(self.norm(x)))

    def tail(self, h: torch.Tensor) -> torch.Tensor:
        return self.down(h) * self.gain


def net() -> Net:
    torch.manual_seed(0)
    return Net().double()


def batch(step: int, part: int = 0, parts: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of one data-parallel rank; the mean over the parts' means is the whole's mean."""
    torch.manual_seed(step)
    x = torch.randn(8, 6, dtype=torch.float64)
    y = torch.stack([x.sum(1), x[:, 0] * x[:, 1], 3 - x[:, 2]], dim=1)
    return x[part::parts], y[part::parts]


def loss_of(prediction: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ((prediction - y) ** 2).mean()


@dataclass
class Job:
    """A model on this rank, how its gradients come about, and its optimizer."""

    model: nn.Module
    named: dict[str, nn.Parameter]
    options: dict[str, Any] = field(default_factory=dict)
    data: tuple[int, int] = (0, 1)
    backward: Callable[[int], None] | None = None
    wrap: Callable[..., Any] = RecursiveOptimizer
    poison_data: bool = False
    checkpoint: bool = False

    def gradients(self, step: int, poisoned: bool) -> None:
        if self.backward is not None:
            self.backward(step)
        else:
            x, y = batch(step, *self.data)
            if poisoned and self.poison_data:
                x[0, 0] = torch.nan
            loss_of(self.model(x), y).backward()
        if poisoned and not self.poison_data:
            grads = [local(p.grad) for p in self.named.values() if p.grad is not None]
            next(grad for grad in grads if grad.numel()).view(-1)[0] = torch.nan


def local(x: Any) -> torch.Tensor:
    return x.to_local() if hasattr(x, "to_local") else x


def full(x: Any) -> torch.Tensor:
    return (x.full_tensor() if hasattr(x, "full_tensor") else x).detach().clone()


def groups(named: dict[str, nn.Parameter], apart: bool) -> Any:
    """All parameters, or two groups that differ."""
    if not apart:
        return list(named.values())
    small = [p for name, p in named.items() if name.startswith(("norm", "gain"))]
    large = [p for name, p in named.items() if not name.startswith(("norm", "gain"))]
    return [{"params": small, "lr": 0.5}, {"params": large, "weight_decay": 0.1}]


def play(
    job: Job, poisoned: bool = False, apart: bool = False, first: int = 0, folder: str | None = None
) -> dict[str, Any]:
    """Train, and keep what is to be compared."""
    opt = job.wrap(groups(job.named, apart), **OPTIONS | job.options)
    own = getattr(opt, "optim", opt)  # ZeroRedundancyOptimizer keeps this rank's optimizer there
    seen: dict[str, Any] = {"points": {}}
    if folder is not None and first:
        load(job, own, folder)
    for step in range(first, STEPS):
        opt.zero_grad()
        last = not dist.is_initialized() or dist.get_rank() == dist.get_world_size() - 1
        job.gradients(step, poisoned and step == POISONED and last)
        if step == LOOKS[1]:
            seen["communications"] = communications(own.step)
            if own is not opt:
                opt._sync_params()  # what its step does after the local one
        else:
            opt.step()
        if step + 1 in LOOKS:
            seen["points"][step + 1] = {name: full(p) for name, p in job.named.items()}
        if folder is not None and step + 1 == SAVED and not first:
            save(job, own, folder)
    mine = {id(p) for group in own.param_groups for p in group["params"]}
    before = [local(p).clone() for p in job.named.values()]
    own.eval()
    seen["average"] = {name: full(p) for name, p in job.named.items() if id(p) in mine}
    own.train()
    after = [local(p) for p in job.named.values()]
    seen["train_is_exact"] = all(map(torch.equal, before, after))
    return seen


def communications(step: Callable[[], Any]) -> dict[str, int]:
    if not dist.is_initialized():
        step()
        return {}
    from torch.distributed.tensor.debug import CommDebugMode

    mode = CommDebugMode()
    with mode:
        step()
    return {str(op): count for op, count in mode.get_comm_counts().items() if count}


def save(job: Job, opt: Any, folder: str) -> None:
    """A sharded checkpoint, and one in a single file."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    model, optim = get_state_dict(job.model, opt)
    dcp.save({"model": model, "optim": optim}, checkpoint_id=f"{folder}/sharded")
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    model, optim = get_state_dict(job.model, opt, options=options)
    if dist.get_rank() == 0:
        torch.save({"model": model, "optim": optim}, f"{folder}/full.pt")


def load(job: Job, opt: Any, folder: str) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_state_dict,
        set_model_state_dict,
        set_optimizer_state_dict,
        set_state_dict,
    )

    several = dist.is_initialized()
    if folder.endswith("full.pt"):
        # Not `set_state_dict`, which takes the empty state of the other ranks for no model at all.
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=several)
        first = not several or dist.get_rank() == 0
        state = torch.load(folder) if first else {"model": {}, "optim": {}}
        set_model_state_dict(job.model, state["model"], options=options)
        set_optimizer_state_dict(job.model, opt, state["optim"], options=options)
    else:
        model, optim = get_state_dict(job.model, opt)
        state = {"model": model, "optim": optim}
        dcp.load(state, checkpoint_id=folder, no_dist=not several)
        set_state_dict(
            job.model, opt, model_state_dict=state["model"], optim_state_dict=state["optim"]
        )


# Ways to distribute --------------------------------------------------------------------------


def single() -> Job:
    model = net()
    return Job(model, dict(model.named_parameters()))


def ddp() -> Job:
    model = net()
    wrapped = nn.parallel.DistributedDataParallel(model)
    data = (dist.get_rank(), dist.get_world_size())
    return Job(wrapped, dict(model.named_parameters()), data=data, poison_data=True)


def mesh(*sizes: int, names: tuple[str, ...] = ("dp", "tp")) -> Any:
    return dist.init_device_mesh("cpu", sizes, mesh_dim_names=names[: len(sizes)])


def sharded(model: Net, over: Any) -> None:
    from torch.distributed.fsdp import fully_shard

    for part in (model.up, model.down, model):
        fully_shard(part, mesh=over)


def fsdp() -> Job:
    model = net()
    sharded(model, mesh(dist.get_world_size()))
    data = (dist.get_rank(), dist.get_world_size())
    return Job(model, dict(model.named_parameters()), data=data)


def hybrid() -> Job:
    model = net()
    sharded(model, mesh(2, dist.get_world_size() // 2))
    data = (dist.get_rank(), dist.get_world_size())
    return Job(model, dict(model.named_parameters()), data=data)


def tensor_parallel(model: Net, over: Any) -> None:
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    parallelize_module(model, over, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def tp() -> Job:
    model = net()
    tensor_parallel(model, mesh(dist.get_world_size(), names=("tp",)))
    return Job(model, dict(model.named_parameters()))


def fsdp_tp() -> Job:
    model, both = net(), mesh(2, dist.get_world_size() // 2)
    tensor_parallel(model, both["tp"])
    sharded(model, both["dp"])
    data = (both.get_local_rank("dp"), 2)
    return Job(model, dict(model.named_parameters()), data=data)


def placed(model: Net, where: dict[str, tuple[Any, list[Any]]]) -> Job:
    """Parameters with any placements; gradients from a plain copy, on every rank the same."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    copy = net()
    for name, (over, placements) in where.items():
        owner, _, last = name.rpartition(".")
        module = model.get_submodule(owner)
        p = getattr(module, last)
        setattr(module, last, nn.Parameter(distribute_tensor(p.detach(), over, placements)))
    named = dict(model.named_parameters())

    def backward(step: int) -> None:
        copy.zero_grad()
        with torch.no_grad():
            for p, q in zip(named.values(), copy.parameters(), strict=True):
                q.copy_(full(p))
        x, y = batch(step)
        loss_of(copy(x), y).backward()
        for p, q in zip(named.values(), copy.parameters(), strict=True):
            assert q.grad is not None
            if isinstance(p, DTensor):
                p.grad = distribute_tensor(q.grad, p.device_mesh, p.placements, src_data_rank=None)
            else:
                p.grad = q.grad.clone()

    return Job(model, named, backward=backward)


def placements() -> Job:
    from torch.distributed.tensor import Replicate, Shard

    line = mesh(dist.get_world_size())
    return placed(
        net(),
        {
            "up.weight": (line, [Shard(1)]),
            "up.bias": (line, [Replicate()]),
            "down.weight": (line, [Shard(0)]),
        },
    )


def mixed_meshes() -> Job:
    """Neither mesh holds the other: sums go over all ranks."""
    from torch.distributed.tensor import Replicate, Shard

    both = mesh(2, 2)
    return placed(
        net(),
        {
            "up.weight": (both["dp"], [Shard(0)]),
            "up.bias": (both["dp"], [Replicate()]),
            "down.weight": (both["tp"], [Shard(1)]),
        },
    )


def nested_meshes() -> Job:
    """A mesh and its parts, twice in the same direction among them."""
    from torch.distributed.tensor import Replicate, Shard

    both = mesh(2, 2)
    return placed(
        net(),
        {
            "norm.weight": (both["tp"], [Shard(0)]),
            "up.weight": (both, [Shard(0), Shard(0)]),
            "up.bias": (both, [Replicate(), Shard(0)]),
            "down.weight": (both, [Shard(1), Replicate()]),
            "down.bias": (both, [Replicate(), Replicate()]),
        },
    )


def half_of_the_ranks() -> Job:
    """Two trainings side by side, each on a 2-D mesh that is not the world."""
    from torch.distributed.tensor import Replicate, Shard

    cube = mesh(2, 2, 1, names=("which", "dp", "tp"))
    part = cube["dp", "tp"]
    names = ("up.weight", "up.bias", "down.weight")
    return placed(net(), {name: (part, [Shard(0), Replicate()]) for name in names})


def pipeline() -> Job:
    """The first half of the ranks hold the head, the second half the tail."""
    return staged(shard=False)


def fsdp_pipeline() -> Job:
    return staged(shard=True)


def staged(shard: bool) -> Job:
    model, world, rank = net(), dist.get_world_size(), dist.get_rank()
    stages = mesh(2, world // 2, names=("stage", "dp"))
    stage, column = stages.get_local_rank("stage"), stages.get_local_rank("dp")
    head = {n: p for n, p in model.named_parameters() if n.startswith(("norm", "up"))}
    mine = nn.Sequential(model.norm, model.up, nn.Tanh()) if stage == 0 else Tail(model)
    if shard:
        from torch.distributed.fsdp import fully_shard

        fully_shard(mine, mesh=stages["dp"])
    parts = world // 2
    group = dist.group.WORLD if shard else stages["stage"].get_group()

    def backward(step: int) -> None:
        x, y = batch(step, column, parts) if shard else batch(step)
        if stage == 0:
            h = mine(x)
            dist.send(h.detach(), rank + parts)
            back = torch.empty_like(h)
            dist.recv(back, rank + parts)
            h.backward(back)
        else:
            h = torch.empty(len(x), 8, dtype=x.dtype)
            dist.recv(h, rank - parts)
            h.requires_grad_()
            loss_of(mine(h), y).backward()
            assert h.grad is not None
            dist.send(h.grad, rank - parts)

    # Sharding replaced the parameters: find them again under the whole model's names.
    named = {n: p for n, p in model.named_parameters() if (n in head) == (stage == 0)}
    if stage == 1:
        named["gain"] = mine.gain  # type: ignore[assignment]
    return Job(mine, named, {"process_group": group}, backward=backward)


class Tail(nn.Module):
    def __init__(self, whole: Net) -> None:
        super().__init__()
        self.down, self.gain = whole.down, whole.gain

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return self.down(h) * self.gain


def zero() -> Job:
    """ZeroRedundancyOptimizer: all ranks have all parameters, each steps with its own."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    job = ddp()
    optimizer = functools.partial(RecursiveOptimizer, process_group=dist.group.WORLD)

    def wrap(params: Any, **options: Any) -> Any:
        return ZeroRedundancyOptimizer(params, optimizer_class=optimizer, **options)

    job.wrap = wrap
    return job


@dataclass(frozen=True)
class Case:
    """What to run: a way to distribute, and settings."""

    build: Callable[[], Job]
    options: tuple[tuple[str, Any], ...] = ()
    poisoned: bool = False
    apart: bool = False
    first: int = 0
    folder: str | None = None
    sums: int | None = 1
    """How many communications a step should take; None: it is not this case's matter."""

    def play(self, build: Callable[[], Job], folder: str) -> dict[str, Any]:
        job = build()
        job.options = {**job.options, **dict(self.options)}
        at = None if self.folder is None else str(Path(folder) / self.folder)
        first = self.first if build is self.build else 0
        keeps = None if build is not self.build else at
        return play(job, self.poisoned, self.apart, first, keeps)


DECAY = (("weight_decay", 0.1),)
BY_GROUP, BY_TENSOR = (("wealth", "group"),), (("wealth", "tensor"),)

CASES: dict[int, dict[str, Case]] = {
    4: {
        "fsdp": Case(fsdp),
        "fsdp-poisoned-decay": Case(fsdp, DECAY, poisoned=True, sums=2),
        "hybrid-poisoned": Case(hybrid, poisoned=True),
        "fsdp-tp": Case(fsdp_tp),
        "mixed-meshes": Case(mixed_meshes, poisoned=True),
        "nested-meshes-decay": Case(nested_meshes, DECAY, sums=2),
        "half-of-the-ranks": Case(half_of_the_ranks),
        "fsdp-pipeline-poisoned-decay": Case(fsdp_pipeline, DECAY, poisoned=True, sums=2),
        "zero-decay": Case(zero, DECAY, apart=True, sums=2),
        "fsdp-tp-save": Case(
            fsdp_tp, DECAY, poisoned=True, apart=True, folder="checkpoint", sums=2
        ),
    },
    2: {
        "ddp": Case(ddp, sums=0),
        "ddp-poisoned-decay": Case(ddp, DECAY, poisoned=True, sums=0),
        "fsdp": Case(fsdp),
        "fsdp-by-group": Case(fsdp, BY_GROUP, apart=True, sums=None),
        "fsdp-by-tensor": Case(fsdp, BY_TENSOR, sums=None),
        "tp-poisoned-decay": Case(tp, DECAY, poisoned=True, sums=2),
        "placements": Case(placements, poisoned=True),
        "pipeline": Case(pipeline),
        "pipeline-poisoned-decay": Case(pipeline, DECAY, poisoned=True, apart=True, sums=2),
        "pipeline-by-tensor": Case(pipeline, BY_TENSOR, poisoned=True),
        "load-sharded": Case(
            fsdp, DECAY, True, True, SAVED, folder="checkpoint/sharded", sums=None
        ),
        "load-full": Case(fsdp, DECAY, True, True, SAVED, folder="checkpoint/full.pt", sums=None),
    },
}


def play_rank(rank: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    # Of torch's own machinery, not of what is tested.
    warnings.simplefilter("ignore")
    store = dist.FileStore(f"{folder}/store-{world}", world)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=30)
    )
    seen: dict[str, Any] = {}
    for name, case in CASES[world].items():
        started = time.perf_counter()
        try:
            seen[name] = case.play(case.build, folder)
        except Exception:
            # The other ranks may be waiting for this one: going on would mix up the cases.
            seen[name] = {"failed": traceback.format_exc()}
            break
        if rank == 0:
            print(f"{world} ranks, {name}: {time.perf_counter() - started:.1f} s", flush=True)
    torch.save(seen, f"{folder}/seen-{world}-{rank}.pt")
    if all("failed" not in case for case in seen.values()):
        dist.barrier()  # who leaves early cuts the others off
    os._exit(0)  # taking the group down could wait for ranks that have failed


def main(folder: str) -> None:
    # What the ranks would each import in their turn.
    import torch.distributed.checkpoint.state_dict
    import torch.distributed.fsdp
    import torch.distributed.optim
    import torch.distributed.tensor.debug
    import torch.distributed.tensor.parallel  # noqa: F401

    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    for world in CASES:  # four ranks first: two ranks load what they saved
        ranks = [
            context.Process(target=play_rank, args=(rank, world, folder), daemon=True)
            for rank in range(world)
        ]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()


if __name__ == "__main__":
    main(sys.argv[1])
