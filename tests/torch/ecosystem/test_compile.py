"""`torch.compile` of the step, and of a whole training step, without a break and without rerun."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from paroli.torch import RecursiveOptimizer
from tests.torch.ecosystem.loop import (
    SIZE,
    assert_same,
    examples,
    plain_loop,
    squared_error,
    weights,
)

BATCHES = list(zip(*(x.split(SIZE) for x in examples()), strict=True))
WARM = 3
"""Steps until everything is compiled: the first makes the state, the second finds it."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def compiled(function: Any, **settings: Any) -> Any:
    # All but the last part of the way, the code for the machine, which takes much longer.
    return torch.compile(function, **{"backend": "aot_eager", "fullgraph": True} | settings)


def made() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 1).double()


def graphs() -> int:
    found: int = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    return found


def breaks() -> list[str]:
    return list(torch._dynamo.utils.counters["graph_break"])


def in_training() -> tuple[nn.Module, RecursiveOptimizer]:
    model = made()
    return model, RecursiveOptimizer(model.parameters(), momentum=0.9)


def by_hand(schedule: bool = False) -> dict[str, list[torch.Tensor]]:
    model, opt = in_training()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9) if schedule else None
    plain_loop(model, opt, [[b] for b in BATCHES], squared_error, scheduler=scheduler)
    found = {"training": weights(model)}
    opt.eval()
    return found | {"average": weights(model)}


def check(model: nn.Module, opt: RecursiveOptimizer, **settings: Any) -> None:
    expected = by_hand(**settings)
    assert_same(weights(model), expected["training"], weights(made()))
    opt.eval()
    assert_same(weights(model), expected["average"], weights(made()))


def test_a_step_is_one_graph_and_is_compiled_once() -> None:
    model, opt = in_training()
    forward, step = compiled(model), compiled(lambda: opt.step())
    for t, batch in enumerate(BATCHES):
        opt.zero_grad()
        squared_error(forward, batch).backward()
        with torch._dynamo.config.patch(error_on_recompile=t >= WARM):
            step()
        if t == WARM:  # to look, and to go on
            opt.eval()
            opt.train()
    assert not breaks()
    check(model, opt)


def test_forward_backward_and_step_are_one_graph() -> None:
    """What needs care is torch's: its `backward` by a setting, and `zero_grad` by hand."""
    if not hasattr(torch._dynamo.config, "trace_autograd_ops"):
        pytest.skip("this torch does not compile backward() as part of a function")
    model, opt = in_training()

    def train_step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = squared_error(model, (x, y))
        loss.backward()
        opt.step()
        for p in model.parameters():
            p.grad = None
        return loss.detach()

    whole = compiled(train_step)
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        for t, batch in enumerate(BATCHES):
            with torch._dynamo.config.patch(error_on_recompile=t >= WARM):
                whole(*batch)
    assert not breaks()
    check(model, opt)


def test_a_train_step_as_people_write_it() -> None:
    """With a schedule too, whose every value would be a reason to compile again."""
    model, opt = in_training()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)

    def train_step(batch: Any) -> None:
        opt.zero_grad()
        squared_error(model, batch).backward()
        opt.step()

    step = compiled(train_step, fullgraph=False, backend="eager")
    for t, batch in enumerate(BATCHES):
        step(batch)
        scheduler.step()
        if t == WARM - 1:
            settled = graphs()
    assert graphs() == settled
    # torch's own functions interrupt, the scheduler's hold on `step` among them, and nothing else.
    torchs = ("zero_grad", "Tensor.backward()", "lr_scheduler.py")
    assert not [reason for reason in breaks() if not any(name in reason for name in torchs)]
    check(model, opt, schedule=True)
