"""What else a training script brings: groups as timm makes them, averages and clips of torch."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from paroli import uniform
from paroli.torch import RecursiveOptimizer
from tests.torch.ecosystem.loop import (
    SIZE,
    assert_same,
    distance,
    examples,
    made,
    plain_loop,
    squared_error,
    weights,
)

BATCHES = list(zip(*(x.split(SIZE) for x in examples(40 * SIZE)), strict=True))
LAYER_DECAY, DECAY = 0.75, 0.05


def layer_of(name: str) -> int:
    return int(name.split(".")[0]) // 2


def groups_of(model: nn.Sequential) -> list[dict[str, Any]]:
    """Decay for matrices alone, and smaller steps the farther a layer is from the output."""
    last = max(layer_of(name) for name, _ in model.named_parameters())
    groups: dict[tuple[int, bool], dict[str, Any]] = {}
    for name, p in model.named_parameters():
        layer, decays = layer_of(name), p.ndim > 1
        group = groups.setdefault(
            (layer, decays),
            {
                "params": [],
                "weight_decay": DECAY if decays else 0.0,
                "lr_scale": LAYER_DECAY ** (last - layer),
            },
        )
        group["params"].append(p)
    return list(groups.values())


class Warmup:
    """A schedule as timm writes one: it sets every group's lr, times its `lr_scale`."""

    def __init__(self, opt: torch.optim.Optimizer, steps: int) -> None:
        self.opt, self.steps = opt, steps
        self.step(0)

    def step(self, t: int) -> None:
        for group in self.opt.param_groups:
            group["lr"] = self.value(t) * group.get("lr_scale", 1.0)

    def value(self, t: int) -> float:
        return min(1.0, (t + 1) / self.steps)


def given_gradients(t: int, model: nn.Module) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(t)
    return [0.3 + torch.randn(p.shape, generator=rng, dtype=p.dtype) for p in model.parameters()]


def test_timm_s_groups_and_schedules() -> None:
    """Each group moves by lr times what it would move by, decays as it says, and bets as ever."""
    model, plain = made(), made()
    opt = RecursiveOptimizer(groups_of(model))
    bare = RecursiveOptimizer(plain.parameters())
    schedule = Warmup(opt, 5)
    assert [group["lr_scale"] for group in opt.param_groups] == [LAYER_DECAY] * 2 + [1.0] * 2
    expected = weights(model)
    for t in range(10):
        before = weights(plain)
        for p, q, g in zip(
            model.parameters(), plain.parameters(), given_gradients(t, model), strict=True
        ):
            p.grad, q.grad = g.clone(), g.clone()
        opt.step()
        bare.step()
        increments = [q - b for q, b in zip(weights(plain), before, strict=True)]
        for (name, _), point, increment in zip(
            model.named_parameters(), expected, increments, strict=True
        ):  # here every group has a single tensor
            decay = DECAY * float(increment.square().mean().sqrt()) if point.ndim > 1 else 0.0
            lr = schedule.value(t) * LAYER_DECAY ** (1 - layer_of(name))
            point += lr * (increment - decay * point)
        schedule.step(t + 1)
    assert_same(weights(model), expected, weights(made()))
    found, alone = opt.diagnostics(), bare.diagnostics()
    assert found["log_wealth"] == pytest.approx(alone["log_wealth"], rel=1e-12)


def test_groups_resume_with_their_scales() -> None:
    model, other = made(), made()
    opt = RecursiveOptimizer(groups_of(model))
    plain_loop(model, opt, [[b] for b in BATCHES[:20]], squared_error)
    other.load_state_dict(model.state_dict())
    resumed = RecursiveOptimizer(groups_of(other), lr=0.1)
    resumed.load_state_dict(opt.state_dict())
    for group in (*opt.param_groups, *resumed.param_groups):
        group["lr"] *= group["lr_scale"]
    plain_loop(model, opt, [[b] for b in BATCHES[20:]], squared_error)
    plain_loop(other, resumed, [[b] for b in BATCHES[20:]], squared_error)
    assert distance(weights(other), weights(model)) == 0


def test_torch_s_averaged_model_beside_it() -> None:
    """It sees the training weights, and ours is the same average of the weights played."""
    model = made()
    opt = RecursiveOptimizer(model.parameters(), average=uniform())
    beside = AveragedModel(model)
    for batch in BATCHES:
        beside.update_parameters(model)
        plain_loop(model, opt, [[batch]], squared_error)
    opt.eval()
    assert_same(weights(model), weights(beside.module), weights(made()))


def test_a_factor_on_all_gradients_changes_nothing() -> None:
    """So a loss may be summed or averaged; and this is why `lr` is not a factor on gradients.

    As long as gradients are not as tiny as what the state starts with.
    """

    def trained(factor: float) -> list[torch.Tensor]:
        model = made()
        opt = RecursiveOptimizer(model.parameters(), momentum=0.9)
        rounds = [[batch] for batch in BATCHES]
        plain_loop(model, opt, rounds, lambda model, b: factor * squared_error(model, b))
        return weights(model)

    for factor, rel in ((1e-2, 1e-6), (1e2, 1e-8), (1e8, 1e-8)):
        assert_same(trained(factor), trained(1.0), weights(made()), rel)


def test_clipping_that_never_clips_changes_nothing_and_one_that_does_helps_nobody_up() -> None:
    """Clipped gradients are what the optimizer is told, and what it takes for their size."""
    sizes = {}
    for clip in (None, 1e9, 0.1):
        model = made()
        opt = RecursiveOptimizer(model.parameters(), momentum=0.9)
        plain_loop(model, opt, [[b] for b in BATCHES], squared_error, clip=clip)
        sizes[clip] = (weights(model), opt.diagnostics()["g_max"])
    assert distance(sizes[1e9][0], sizes[None][0]) == 0
    assert distance(sizes[0.1][0], sizes[None][0]) > 1e-3
    assert sizes[0.1][1] < sizes[None][1]
