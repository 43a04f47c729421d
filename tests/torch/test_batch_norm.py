"""update_batch_norm: the statistics are those of the weights in place, and nothing else changes."""

import collections
import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from paroli.torch import RecursiveOptimizer, update_batch_norm

Pair = collections.namedtuple("Pair", ["inputs", "targets"])


def made(dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 3, 3),
        nn.BatchNorm2d(3, momentum=0.3),
        nn.Dropout(dropout),
        nn.Flatten(),
        nn.Linear(12, 4),
        nn.BatchNorm1d(4, momentum=None),
    )


def inputs(count: int = 5) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(1)
    return [1 + 2 * torch.randn(6 + i, 2, 4, 4, generator=rng) for i in range(count)]


def everything(model: nn.Module) -> dict[str, Any]:
    return {
        "tensors": {name: x.clone() for name, x in model.state_dict().items()},
        "modes": [module.training for module in model.modules()],
        "momenta": [getattr(module, "momentum", 0) for module in model.modules()],
        "rng": torch.get_rng_state(),
    }


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return (
        all(torch.equal(a["tensors"][name], x) for name, x in b["tensors"].items())
        and a["modes"] == b["modes"]
        and a["momenta"] == b["momenta"]
        and torch.equal(a["rng"], b["rng"])
    )


def test_statistics_are_the_means_over_batches() -> None:
    model, batches = made(), inputs()
    update_batch_norm(model, batches)
    first = [model[0](x) for x in batches]
    expected = {
        "running_mean": sum(x.mean((0, 2, 3)) for x in first) / len(first),
        "running_var": sum(x.var((0, 2, 3)) for x in first) / len(first),
    }
    for name, value in expected.items():
        torch.testing.assert_close(getattr(model[1], name), value.detach())
    assert int(model[1].num_batches_tracked) == len(batches)


def test_it_is_what_swa_utils_gives() -> None:
    ours, theirs = made(), made()
    update_batch_norm(ours, inputs())
    update_bn([(x, None) for x in inputs()], theirs)
    for name, x in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], x), name


def test_dropout_is_off_as_it_is_when_the_statistics_are_used() -> None:
    plain, dropping = made(), made(dropout=0.9)
    for model in (plain, dropping):
        update_batch_norm(model, inputs())
    assert torch.equal(plain[5].running_var, dropping[5].running_var)


@pytest.mark.parametrize("training", [True, False])
def test_modes_momenta_weights_and_generators_stay(training: bool) -> None:
    model = made(dropout=0.5).train(training)
    model[2].train(not training)
    before = everything(model)
    update_batch_norm(model, (torch.rand(4, 2, 4, 4) + x.mean() for x in inputs()))
    after = everything(model)
    assert not torch.equal(after["tensors"]["1.running_mean"], before["tensors"]["1.running_mean"])
    for name in before["tensors"]:
        if "running" in name or "tracked" in name:
            after["tensors"][name] = before["tensors"][name]
    assert same(after, before)
    assert all(p.grad is None for p in model.parameters())


def test_shuffling_draws_leave_the_generator() -> None:
    data = torch.utils.data.TensorDataset(torch.cat(inputs()))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    before = torch.get_rng_state()
    update_batch_norm(made(), loader)
    assert torch.equal(torch.get_rng_state(), before)


class Named(nn.Module):
    """Takes its inputs by name, or two in a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Any, shift: Any = 0.0) -> torch.Tensor:
        if isinstance(x, tuple):
            x, shift = x
        return self.norm(x + shift)


BATCHES: dict[str, Callable[[torch.Tensor], Any]] = {
    "tensor": lambda x: x + 1,
    "pair": lambda x: (x + 1, torch.zeros(3)),
    "list": lambda x: [x + 1, "a label"],
    "named tuple": lambda x: Pair(x + 1, None),
    "nested": lambda x: ((x, torch.ones(2)), torch.zeros(3)),
    "dict": lambda x: {"x": x, "shift": torch.ones(2)},
    "ordered dict": lambda x: collections.OrderedDict(x=x, shift=1.0),
    "user dict": lambda x: collections.UserDict(x=x, shift=torch.ones(2)),
}


@pytest.mark.parametrize("kind", BATCHES)
def test_kinds_of_batches(kind: str) -> None:
    x = torch.randn(10, 2, generator=torch.Generator().manual_seed(0))
    model = Named()
    update_batch_norm(model, [BATCHES[kind](x)])
    torch.testing.assert_close(model.norm.running_mean, x.mean(0) + 1)


def test_a_function_may_run_the_batch() -> None:
    x = torch.randn(10, 2, generator=torch.Generator().manual_seed(0))
    model = Named()
    update_batch_norm(model, [{"image": x}], forward=lambda batch: model(batch["image"], 1.0))
    torch.testing.assert_close(model.norm.running_mean, x.mean(0) + 1)


class Elsewhere:
    """What a batch with a method `to` of its own is to us."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x
        self.asked: list[torch.device] = []

    def to(self, device: torch.device) -> torch.Tensor:
        self.asked.append(device)
        return self.x


def test_batches_go_where_the_model_is() -> None:
    batch = Elsewhere(torch.ones(3, 2))
    update_batch_norm(Named(), [{"x": batch}])
    assert batch.asked == [torch.device("cpu")]
    meta = nn.BatchNorm1d(2, device="meta")
    seen: list[torch.device] = []
    with pytest.raises(RuntimeError, match="meta"):  # which has no numbers to take statistics of
        update_batch_norm(meta, [torch.ones(3, 2)], forward=lambda x: seen.append(x.device))
    assert seen == [torch.device("meta")]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu() -> None:
    model, on_cpu = made(dropout=0.5).cuda(), made()
    update_batch_norm(model, [(x, 0) for x in inputs()])
    update_batch_norm(on_cpu, inputs())
    torch.testing.assert_close(model[5].running_var.cpu(), on_cpu[5].running_var)
    before = torch.cuda.get_rng_state()
    update_batch_norm(model, (torch.rand(4, 2, 4, 4, device="cuda") for _ in range(3)))
    assert torch.equal(torch.cuda.get_rng_state(), before)


# What is left alone -----------------------------------------------------------------------------


def test_models_without_batch_norm_leave_the_batches_alone() -> None:
    def batches() -> Iterator[torch.Tensor]:
        raise AssertionError("looked at")
        yield torch.zeros(0)

    update_batch_norm(nn.Linear(2, 2), batches())
    update_batch_norm(nn.BatchNorm1d(2, track_running_stats=False), batches())
    update_batch_norm(nn.InstanceNorm1d(2, track_running_stats=True), batches())


def test_a_batch_norm_that_no_batch_reaches_keeps_what_it_had() -> None:
    model = made()
    model(inputs()[0])
    before = everything(model)["tensors"]
    update_batch_norm(model, inputs(), forward=lambda x: model[0:2](x))
    assert not torch.equal(model[1].running_mean, before["1.running_mean"])
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert torch.equal(getattr(model[5], name), before[f"5.{name}"]), name


def failing() -> Iterator[torch.Tensor]:
    yield inputs()[0]
    raise OSError("disk")


@pytest.mark.parametrize(
    ("batches", "error", "says"),
    [
        ([], ValueError, "there was no batch; nothing was changed"),
        (iter(()), ValueError, "A generator can be used once"),
        (failing, OSError, "disk"),
        ([*inputs(2), torch.zeros(5, 7)], RuntimeError, "size|dim|input"),
        ([inputs()[0] * torch.nan], ValueError, "NaN or inf in the statistics of '1', '5'"),
        ([torch.zeros(1, 2, 3, 3)], ValueError, "more than 1 value per channel"),
    ],
)
def test_what_fails_changes_nothing(batches: Any, error: type[Exception], says: str) -> None:
    model = made(dropout=0.5)
    model(inputs()[0])
    before = everything(model)
    with pytest.raises(error, match=says):
        update_batch_norm(model, batches() if callable(batches) else batches)
    assert same(everything(model), before)


def test_a_function_that_runs_another_model_is_noticed() -> None:
    model = made()
    other = copy.deepcopy(model)
    before = everything(model)
    with pytest.raises(ValueError, match=r"5 batches, but none reached.*Does forward run this"):
        update_batch_norm(model, inputs(), forward=other)
    assert same(everything(model), before)


def test_the_order_of_update_bn_is_refused() -> None:
    with pytest.raises(TypeError, match=r"update_batch_norm\(model, batches\)"):
        update_batch_norm(inputs(), made())  # type: ignore[arg-type]


# Beside the optimizer ---------------------------------------------------------------------------


def test_the_average_gets_its_own_and_training_goes_on_as_if_nothing_had_been() -> None:
    results = []
    for looks in (False, True):
        model = made(dropout=0.2)
        opt = RecursiveOptimizer(model.parameters())
        torch.manual_seed(2)
        for t in range(8):
            for x in inputs():
                opt.zero_grad()
                model(x).square().mean().backward()
                opt.step()
            if looks and t == 4:
                opt.eval()
                update_batch_norm(model, inputs())
                mean = sum(model[0](x).mean((0, 2, 3)) for x in inputs()) / len(inputs())
                torch.testing.assert_close(model[1].running_mean, mean.detach())
                opt.train()
        results.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
