"""RecursiveOptimizer: what users of torch optimizers rely on, and refusals that change nothing."""

import copy
import pickle
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler
from torch.utils._python_dispatch import TorchDispatchMode

import paroli.core.momentum as momentum_brick
from paroli import (
    OnlineLearner,
    box,
    constrained,
    diagonal,
    ftrl,
    full_newton,
    newton,
    ons,
    percoordinate,
    perleaf,
    polynomial,
    recursive,
    rescaled,
    scinol,
    uniform,
)
from paroli.core.learner import Learner
from paroli.torch import RecursiveOptimizer

SHAPES = [(3, 2), (4,), ()]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"average": False},
    {"momentum": 0.9, "average": polynomial()},
    {"wealth": "group", "weight_decay": 0.1},
    {"wealth": "tensor", "momentum": 1.0},
    {"inner": ons(tau=1.0)},
]
INNER: list[Learner] = [
    scinol(),
    scinol(rescale=False, cap=None),
    ons(),
    diagonal(),
    ftrl(),
    newton(),
    percoordinate(diagonal()),
    perleaf(newton()),
]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(dtype: torch.dtype = torch.float64, seed: int = 1) -> list[torch.nn.Parameter]:
    rng = generator(seed)
    return [torch.nn.Parameter(torch.randn(s, generator=rng, dtype=dtype)) for s in SHAPES]


def gradients(t: int, params: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    rng = generator(1000 + t)
    return [torch.randn(p.shape, generator=rng, dtype=p.dtype) + 0.5 for p in params]


def give(params: list[torch.nn.Parameter], t: int, factor: float = 1.0) -> None:
    for p, g in zip(params, gradients(t, params), strict=True):
        p.grad = g * factor


def run(
    opt: torch.optim.Optimizer, params: list[torch.nn.Parameter], rounds: Iterable[int]
) -> None:
    for t in rounds:
        give(params, t)
        opt.step()


def in_groups(params: list[torch.nn.Parameter]) -> list[dict[str, Any]]:
    return [{"params": params[:1]}, {"params": params[1:]}]


def bits(opt: torch.optim.Optimizer) -> dict[str, bytes]:
    """The parameters and everything an optimizer holds, to the bit."""
    params = [p for group in opt.param_groups for p in group["params"]]
    found = {f"point {i}": raw(p) for i, p in enumerate(params)}
    for i, p in enumerate(params):
        found |= {f"{key} {i}": raw(value) for key, value in opt.state.get(p, {}).items()}
    return found


def raw(x: torch.Tensor) -> bytes:
    return x.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def points(params: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    return [p.detach().clone() for p in params]


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


# What is played ---------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", INNER, ids=repr)
@pytest.mark.parametrize("momentum", [None, 0.9])
def test_every_inner_learner_plays_as_it_does_online(
    inner: Learner, momentum: float | None
) -> None:
    params = made()
    learner: Learner = rescaled(recursive(inner, 2.0))
    if momentum is not None:
        learner = momentum_brick.momentum(learner, momentum)
    online = OnlineLearner(learner, [p.detach().numpy().copy() for p in params])
    opt = RecursiveOptimizer(params, inner=inner, epsilon=2.0, momentum=momentum)
    for t in range(25):
        give(params, t)
        opt.step()
        online.update([g.numpy() for g in gradients(t, params)])
    for p, start, x in zip(params, made(), online.point, strict=True):
        moved = float((p - start).detach().abs().max())
        assert moved > 0
        torch.testing.assert_close(p.detach(), torch.as_tensor(x), rtol=0.0, atol=1e-10 * moved)


@pytest.mark.parametrize("kind", [uniform(), polynomial(3.0), True], ids=repr)
def test_the_average_is_the_average_of_the_iterates(kind: Any) -> None:
    params = made()
    opt = RecursiveOptimizer(params, average=kind)
    mean = points(params)
    for t in range(20):
        share = float(opt.average.share(torch, torch.tensor(t + 1.0, dtype=torch.float64)))
        mean = [m + share * (p.detach() - m) for m, p in zip(mean, params, strict=True)]
        give(params, t)
        opt.step()
    opt.eval()
    for p, m in zip(params, mean, strict=True):
        torch.testing.assert_close(p.detach(), m, rtol=1e-12, atol=1e-12)


def test_one_wealth_or_many() -> None:
    def trajectory(split: bool, wealth: Any) -> list[torch.Tensor]:
        params = made()
        opt = RecursiveOptimizer(in_groups(params) if split else params, wealth=wealth)
        run(opt, params, range(20))
        assert (
            len([k for k in opt.diagnostics() if k.startswith("log_wealth")])
            == {
                "global": 1,
                "group": 1 + split,
                "tensor": 3,
            }[wealth]
        )
        return points(params)

    def alone(which: slice) -> list[torch.Tensor]:
        params = made()
        opt = RecursiveOptimizer(params[which])
        run(opt, params, range(20))
        return points(params[which])

    assert equal(trajectory(True, "global"), trajectory(False, "global"))
    assert equal(trajectory(False, "group"), trajectory(False, "global"))
    assert equal(trajectory(True, "group"), alone(slice(0, 1)) + alone(slice(1, 3)))
    each = alone(slice(0, 1)) + alone(slice(1, 2)) + alone(slice(2, 3))
    assert equal(trajectory(True, "tensor"), each)
    assert not equal(trajectory(False, "tensor"), trajectory(False, "global"))


def test_maximize_is_minimizing_the_negative() -> None:
    up, down = made(), made()
    climbing = RecursiveOptimizer([{"params": up, "maximize": True}])
    descending = RecursiveOptimizer(down)
    for t in range(10):
        give(up, t)
        give(down, t, -1.0)
        climbing.step()
        descending.step()
    assert equal(points(up), points(down))


def test_complex_parameters_are_their_real_views() -> None:
    rng = generator()
    start = torch.randn(5, generator=rng, dtype=torch.complex128)
    z = torch.nn.Parameter(start.clone())
    x = torch.nn.Parameter(torch.view_as_real(start).clone())
    a, b = RecursiveOptimizer([z], momentum=0.9), RecursiveOptimizer([x], momentum=0.9)
    for t in range(20):
        g = torch.randn(5, generator=rng, dtype=torch.complex128)
        z.grad = g.clone() if t % 2 else g.conj().resolve_conj().conj()  # lazily conjugated too
        x.grad = torch.view_as_real(g).clone()
        a.step()
        b.step()
    assert torch.equal(torch.view_as_real(z.detach()), x.detach())
    a.eval()
    b.eval()
    assert torch.equal(torch.view_as_real(z.detach()), x.detach())


# Learning rates, schedules, decay ----------------------------------------------------------------


def test_a_group_s_lr_scales_its_share_and_nothing_else() -> None:
    plain, scaled = made(), made()
    a = RecursiveOptimizer(in_groups(plain))
    b = RecursiveOptimizer([{"params": scaled[:1], "lr": 0.25}, {"params": scaled[1:]}])
    run(a, plain, range(10))
    run(b, scaled, range(10))
    start = made()[0]
    torch.testing.assert_close(scaled[0] - start, 0.25 * (plain[0] - start))
    assert equal(points(scaled[1:]), points(plain[1:])), "the estimate is shared"
    assert a.diagnostics()["log_wealth"] == b.diagnostics()["log_wealth"]


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_tensor_lr_is_a_number(shape: tuple[int, ...]) -> None:
    a, b = made(torch.float32), made(torch.float32)
    with_tensor = RecursiveOptimizer(a, lr=torch.full(shape, 0.5))
    with_number = RecursiveOptimizer(b, lr=0.5)
    run(with_tensor, a, range(5))
    run(with_number, b, range(5))
    assert equal(points(a), points(b))
    with_tensor.param_groups[0]["lr"].fill_(0.0)
    before = points(a)
    run(with_tensor, a, range(5, 7))
    assert equal(points(a), before)


SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda t: 1 / (1 + t)),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda t: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [1, 3]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.5, 4),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.1, 1.0, 4),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 6),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 10),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, 3, cycle_momentum=False),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 1.0, 10, cycle_momentum=False),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1), lr_scheduler.StepLR(o, 1)], [2]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.5), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    "SWALR": lambda o: torch.optim.swa_utils.SWALR(o, 0.05, anneal_epochs=3),
}


def test_no_scheduler_is_forgotten() -> None:
    known = {
        name
        for name, kind in vars(lr_scheduler).items()
        if isinstance(kind, type) and issubclass(kind, lr_scheduler.LRScheduler)
    } - {"LRScheduler", "_LRScheduler"}
    assert known <= set(SCHEDULES)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("tensor", [False, True])
def test_schedules_multiply_the_increments(name: str, tensor: bool) -> None:
    """An increment does not depend on lr but in proportion."""
    params, plain = made(), made()
    # PyTorch's own schedulers compare and copy tensor learning rates with a warning or two.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lr = torch.tensor(1.0, dtype=torch.float64) if tensor else 1.0
        opt, base = RecursiveOptimizer(params, lr=lr), RecursiveOptimizer(plain)
        schedule = SCHEDULES[name](opt)
        seen = []
        for t in range(8):
            seen.append(float(opt.param_groups[0]["lr"]))
            before, before_plain = points(params), points(plain)
            run(opt, params, [t])
            run(base, plain, [t])
            for p, a, q, b in zip(params, before, plain, before_plain, strict=True):
                torch.testing.assert_close(p - a, seen[-1] * (q - b), rtol=1e-6, atol=1e-12)
            if name == "ReduceLROnPlateau":
                schedule.step(1.0)
            else:
                schedule.step()
    assert len(set(seen)) > 1


def test_weight_decay_follows_the_increments() -> None:
    params, plain = made(), made()
    decayed = RecursiveOptimizer(params, weight_decay=0.5, average=False)
    free = RecursiveOptimizer(plain, average=False)
    run(decayed, params, [0])
    run(free, plain, [0])
    start = points(made())
    free_step = [p.detach() - s for p, s in zip(plain, start, strict=True)]
    rms = torch.cat([s.reshape(-1) for s in free_step]).square().mean().sqrt()
    for p, s, step in zip(params, start, free_step, strict=True):
        torch.testing.assert_close(p.detach(), s + step - 0.5 * rms * s)
    before = points(params)
    give(params, 1, 0.0)
    decayed.step()
    assert equal(points(params), before), "no gradient, no increment, no decay"


# Steps that change nothing -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rounding", ["compensated", "stochastic", "nearest"])
@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_zero_lr_and_zero_gradients_leave_parameters_as_they_are(
    settings: dict[str, Any], rounding: Any, dtype: torch.dtype
) -> None:
    params = made(dtype)
    opt = RecursiveOptimizer(in_groups(params), rounding=rounding, **settings)
    run(opt, params, range(3))
    with torch.no_grad():
        params[0][0].copy_(torch.tensor([0.0, -0.0]))
    before = [raw(p) for p in params]
    for _ in range(4):
        give(params, 0, 0.0)
        opt.step()
    assert [raw(p) for p in params] == before
    for group in opt.param_groups:
        group["lr"] = 0.0
    run(opt, params, range(3, 8))
    assert [raw(p) for p in params] == before


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_nonfinite_gradients_change_no_bit(
    settings: dict[str, Any], dtype: torch.dtype, bad: float
) -> None:
    params = made(dtype)
    opt = RecursiveOptimizer(in_groups(params), **settings)
    run(opt, params, range(5))
    before = bits(opt)
    for i, p in enumerate(params):
        give(params, 5)
        p.grad.view(-1)[i % p.numel()] = bad
        opt.step()
        assert bits(opt) == before
        opt.on_nonfinite = "raise"
        with pytest.raises(RuntimeError, match=rf"{[0, 0, 1][i]} of group {[0, 1, 1][i]};.*not"):
            opt.step()
        assert bits(opt) == before
        opt.on_nonfinite = "skip"
    run(opt, params, [6])
    assert bits(opt) != before
    assert all(bool(torch.isfinite(p).all()) for p in params)


def test_a_first_gradient_that_is_nan() -> None:
    start = points(made())
    params = made()
    opt = RecursiveOptimizer([("w", params[0]), ("b", params[1])], on_nonfinite="raise")
    give(params[:2], 0, 0.0)
    params[1].grad = params[1].grad / 0.0
    with pytest.raises(RuntimeError, match="gradient of parameter 'b'"):
        opt.step()
    assert not opt.state
    opt.on_nonfinite = "skip"
    opt.step()
    assert equal(points(params), start)
    twins = made()
    other = RecursiveOptimizer(twins[:2])
    run(opt, params[:2], range(5))
    run(other, twins[:2], range(5))
    assert equal(points(params), points(twins)), "as if it had not been"


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_first_gradient_of_zeros_and_one_that_jumps(
    settings: dict[str, Any], dtype: torch.dtype
) -> None:
    params = made(dtype)
    start = points(params)
    opt = RecursiveOptimizer(in_groups(params), **settings)
    give(params, 0, 0.0)
    opt.step()
    assert equal(points(params), start)
    run(opt, params, range(20))
    give(params, 20, 1e6)
    opt.step()
    run(opt, params, range(21, 60))
    assert all(bool(torch.isfinite(p).all()) for p in params)


def test_a_single_number_and_a_frozen_model() -> None:
    p = torch.nn.Parameter(torch.tensor(3.0))
    opt = RecursiveOptimizer([p])
    for _ in range(300):
        opt.zero_grad()
        (p - 1.0).abs().backward()
        opt.step()
    opt.eval()
    assert abs(p.item() - 1.0) < 0.1
    frozen = torch.nn.Linear(2, 2).requires_grad_(False)
    opt = RecursiveOptimizer(frozen.parameters(), momentum=0.9)
    before = points(list(frozen.parameters()))
    opt.step()
    opt.eval()
    opt.train()
    assert equal(points(list(frozen.parameters())), before)
    assert opt.diagnostics() == {}


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_half_the_parameters_frozen_from_step_100(settings: dict[str, Any]) -> None:
    params = made()
    opt = RecursiveOptimizer(in_groups(params), **settings)
    run(opt, params, range(100))
    still = points(params[:1])
    for t in range(100, 140):
        give(params, t)
        params[0].grad = None
        opt.step()
    assert equal(points(params[:1]), still)
    assert all(bool(torch.isfinite(p).all()) for p in params)
    run(opt, params, range(140, 150))
    assert all(bool(torch.isfinite(p).all()) for p in params)
    assert not equal(points(params[:1]), still)


def test_the_average_of_what_stands_still_gets_there() -> None:
    params = made()
    opt = RecursiveOptimizer(params, average=uniform())
    run(opt, params, range(10))
    still = params[0].detach().clone()
    opt.eval()
    seen = params[0].detach().clone()
    opt.train()
    params[0].requires_grad_(False)
    for t in range(10, 40):
        give(params, t)
        params[0].grad = None
        opt.step()
    opt.eval()
    torch.testing.assert_close(params[0].detach(), (10 * seen + 30 * still) / 40)


def test_parameters_without_gradients_cost_and_change_nothing() -> None:
    params = made()
    opt = RecursiveOptimizer(params)
    before = points(params)
    opt.step()
    assert equal(points(params), before)
    assert not opt.state
    params[1].grad = torch.ones(4, dtype=torch.float64)
    opt.step()
    assert list(opt.state) == [params[1]]
    assert torch.equal(params[0], before[0])


# The rest of a training loop ---------------------------------------------------------------------


def test_closures() -> None:
    params = made()
    opt = RecursiveOptimizer(params)

    def closure() -> torch.Tensor:
        opt.zero_grad()
        loss = sum((p**2).sum() for p in params)
        loss.backward()
        return loss

    losses = [opt.step(closure).item() for _ in range(60)]
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_groups_added_in_the_middle_join_the_wealth(settings: dict[str, Any]) -> None:
    params = made()
    opt = RecursiveOptimizer(params[:2], **settings)
    run(opt, params[:2], range(10))
    wealth = opt.diagnostics().get("log_wealth")
    late = points(params[2:])
    opt.add_param_group({"params": params[2:], "lr": 0.5})
    assert opt.diagnostics().get("log_wealth") == wealth
    run(opt, params, range(10, 20))
    assert not equal(points(params[2:]), late)
    if opt.wealth == "global":
        a, b = (opt.state[p]["log_wealth"] for p in (params[0], params[2]))
        assert a is b


def test_clipping_and_accumulation() -> None:
    clipped, halves, whole = made(), made(), made()
    a, b, c = (RecursiveOptimizer(p) for p in (clipped, halves, whole))
    for t in range(5):
        give(clipped, t, 100.0)
        torch.nn.utils.clip_grad_norm_(clipped, 1.0)
        norm = torch.cat([p.grad.reshape(-1) for p in clipped]).norm()
        assert float(norm) == pytest.approx(1.0, rel=1e-6)
        a.step()
        give(whole, t)
        c.step()
        for p, g in zip(halves, gradients(t, halves), strict=True):
            p.grad = None
            for _ in range(2):
                (p * (g / 2)).sum().backward()
        b.step()
    assert equal(points(halves), points(whole))
    assert all(bool(torch.isfinite(p).all()) for p in clipped)


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_gradscaler_skips_whole_and_unscales_exactly(settings: dict[str, Any]) -> None:
    scaled, plain = made(torch.float32), made(torch.float32)
    a, b = RecursiveOptimizer(scaled, **settings), RecursiveOptimizer(plain, **settings)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=3)
    for t in range(12):
        a.zero_grad()
        scaler.scale(
            sum((p * g).sum() for p, g in zip(scaled, gradients(t, scaled), strict=True))
        ).backward()
        overflow = t in (0, 5)
        if overflow:
            scaled[2].grad.fill_(torch.inf)
        before, size = bits(a), scaler.get_scale()
        if t % 4 == 3:
            scaler.unscale_(a)
        scaler.step(a)
        scaler.update()
        assert not hasattr(a, "found_inf")
        if not overflow:
            run(b, plain, [t])
        elif t > 0:
            assert bits(a) == before
            assert scaler.get_scale() == size / 2
        assert equal(points(scaled), points(plain))
    assert scaler.get_scale() > 2.0**10


def test_gradscaler_s_verdict_skips_also_where_nonfinite_raises() -> None:
    params = made(torch.float32)
    opt = RecursiveOptimizer(params, on_nonfinite="raise")
    run(opt, params, range(3))
    before = bits(opt)
    give(params, 3, torch.inf)
    opt.grad_scale, opt.found_inf = torch.tensor([8.0]), torch.tensor([1.0])
    opt.step()
    assert bits(opt) == before


def test_hooks() -> None:
    params = made()
    opt = RecursiveOptimizer(params)
    calls: list[str] = []
    opt.register_step_pre_hook(lambda *_: calls.append("before"))
    opt.register_step_post_hook(lambda *_: calls.append("after"))
    run(opt, params, range(2))
    assert calls == ["before", "after"] * 2
    opt.register_state_dict_pre_hook(lambda _: calls.append("saving"))
    opt.register_state_dict_post_hook(lambda _, saved: saved | {"extra": 1})
    saved = opt.state_dict()
    assert (calls[-1], saved["extra"]) == ("saving", 1)

    def halved(_: Any, loaded: dict[str, Any]) -> dict[str, Any]:
        loaded = copy.deepcopy(loaded)
        for state in loaded["state"].values():
            state["wealth"] /= 2
        return loaded

    fresh = RecursiveOptimizer(params)
    fresh.register_load_state_dict_pre_hook(halved)
    fresh.register_load_state_dict_post_hook(lambda o: o.state[params[1]]["G"].fill_(7.0))
    fresh.load_state_dict(saved)
    mine, theirs = fresh.state[params[1]], opt.state[params[1]]
    assert torch.equal(mine["wealth"], theirs["wealth"] / 2), "what a pre-hook made is loaded"
    assert torch.equal(mine["G"], torch.full_like(mine["G"], 7.0)), "a post-hook comes last"
    fresh.load_state_dict(saved)
    assert len(fresh._optimizer_load_state_dict_pre_hooks) == 1
    opt.register_state_dict_pre_hook(lambda o: o.state.__setitem__("note", 1))
    assert opt.state_dict()["state"]["note"] == 1, "hooks may put notes beside the parameters'"


# Copies and checkpoints --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("evaluating", [False, True])
@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_copies_pickles_and_checkpoints_go_on_bit_for_bit(
    settings: dict[str, Any], evaluating: bool, dtype: torch.dtype
) -> None:
    params = made(dtype)
    opt = RecursiveOptimizer(in_groups(params), **settings)
    run(opt, params, range(10))
    if evaluating and opt.average is not None:
        opt.eval()
    before = bits(opt)
    restored = RecursiveOptimizer(in_groups([torch.nn.Parameter(p) for p in points(params)]))
    restored = RecursiveOptimizer(restored.param_groups, **settings)
    restored.load_state_dict(pickle.loads(pickle.dumps(opt.state_dict())))
    twins = [copy.deepcopy(opt), pickle.loads(pickle.dumps(opt)), restored]
    results = []
    for twin in [*twins, opt]:
        assert bits(twin) == before
        twin.train()
        run(twin, [p for group in twin.param_groups for p in group["params"]], range(10, 20))
        if twin.average is not None:
            twin.eval()
        results.append(bits(twin))
        assert repr(twin) == repr(opt) or twin is not opt
    assert results[0] == results[1] == results[2] == results[3] != before


def test_a_checkpoint_is_a_copy_and_plain() -> None:
    params = made()
    opt = RecursiveOptimizer(params)
    run(opt, params, range(5))
    saved = opt.state_dict()
    other = RecursiveOptimizer(made())
    other.load_state_dict(saved)
    frozen = copy.deepcopy(saved)
    run(other, [p for group in other.param_groups for p in group["params"]], range(5))
    for i, state in saved["state"].items():
        assert all(torch.equal(value, frozen["state"][i][key]) for key, value in state.items())
        assert {type(value) for value in state.values()} == {torch.Tensor}
    a, b = list(other.state.values())[:2]
    assert a["log_wealth"] is b["log_wealth"], "global numbers are one again"


def test_state_has_its_own_dtype_across_checkpoints() -> None:
    half, single = made(torch.bfloat16), made(torch.float32)
    a = RecursiveOptimizer(half)
    run(a, half, range(5))
    own = {key: value.dtype for key, value in a.state[half[0]].items()}
    assert own == {
        "x": torch.bfloat16,
        "wealth": torch.float32,
        "M": torch.bfloat16,
        "S": torch.bfloat16,
        "G": torch.float32,
        "lag": torch.bfloat16,
        "lost": torch.bfloat16,
        "log_wealth": torch.float64,
        "g_max": torch.float64,
        "rounds": torch.float64,
    }
    again = RecursiveOptimizer(made(torch.bfloat16))
    again.load_state_dict(a.state_dict())
    first = next(iter(again.state.values()))
    assert {key: value.dtype for key, value in first.items()} == own
    b = RecursiveOptimizer(single)
    b.load_state_dict(a.state_dict())
    run(b, single, range(5, 8))
    wide = made(torch.float64)
    c = RecursiveOptimizer(wide)
    c.load_state_dict(b.state_dict())
    assert c.state[wide[0]]["S"].dtype == torch.float64
    run(c, wide, range(8, 10))


def test_a_checkpoint_without_an_average_gets_a_new_one() -> None:
    params = made()
    opt = RecursiveOptimizer(params, average=False)
    run(opt, params, range(5))
    other = RecursiveOptimizer(params, average=uniform())
    other.load_state_dict(opt.state_dict())
    here = points(params)
    run(other, params, [5])
    other.eval()
    assert equal(points(params), here), "the average over the one point since"
    back = RecursiveOptimizer(params, average=False)
    back.load_state_dict(opt.state_dict())
    run(back, params, [6])


def test_a_checkpoint_of_another_learner_is_refused() -> None:
    params = made()
    opt = RecursiveOptimizer(params)
    run(opt, params, range(2))
    with pytest.raises(ValueError, match=r"lacks \['v'|lacks \['A', 'v'\]"):
        RecursiveOptimizer(params, inner=ons()).load_state_dict(opt.state_dict())


def test_older_checkpoints_lack_group_settings() -> None:
    params = made()
    opt = RecursiveOptimizer(params)
    run(opt, params, range(2))
    saved = opt.state_dict()
    for key in ("weight_decay", "maximize", "training"):
        del saved["param_groups"][0][key]
    opt.load_state_dict(saved)
    run(opt, params, [2])


# Averaged weights --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_eval_and_train_are_exact_and_idempotent(dtype: torch.dtype) -> None:
    params = made(dtype)
    opt = RecursiveOptimizer(params)
    opt.eval()
    opt.train()
    run(opt, params, range(10))
    before, iterate = bits(opt), points(params)
    average = [(p.float() if p.element_size() == 2 else p) + opt.state[p]["lag"] for p in params]
    average = [x.detach().to(dtype) for x in average]
    opt.train()
    assert bits(opt) == before
    for _ in range(2):
        opt.eval()
        assert equal(points(params), average)
        opt.eval()
        assert equal(points(params), average)
        opt.train()
        opt.train()
        assert equal(points(params), iterate)
        assert bits(opt) == before


def test_a_step_in_eval_mode_is_an_error() -> None:
    params = made()
    opt = RecursiveOptimizer(params)
    run(opt, params, range(3))
    opt.eval()
    before = bits(opt)
    give(params, 3)
    with pytest.raises(RuntimeError, match=r"averaged weights are in place.*opt\.train\(\)"):
        opt.step()
    assert bits(opt) == before
    opt.add_param_group({"params": torch.nn.Parameter(torch.zeros(2))})
    opt.train()
    opt.step()
    with pytest.raises(RuntimeError, match="average=False"):
        RecursiveOptimizer(params, average=False).eval()


# Costs and looks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "dtype", "bytes_each"),
    [
        ({}, torch.float32, 16),
        ({"average": False}, torch.float32, 14),
        ({"average": uniform()}, torch.float32, 18),
        ({"state_dtype": torch.float32}, torch.float32, 24),
        ({"average": False, "momentum": 0.9}, torch.float32, 18),
        ({}, torch.bfloat16, 18),
        ({"rounding": "stochastic", "average": False}, torch.bfloat16, 14),
        ({"state_dtype": torch.bfloat16, "average": False}, torch.float32, 10),
    ],
    ids=repr,
)
def test_bytes_of_state(settings: dict[str, Any], dtype: torch.dtype, bytes_each: int) -> None:
    p = torch.nn.Parameter(torch.zeros(1000, dtype=dtype))
    opt = RecursiveOptimizer([p], **settings)
    p.grad = torch.ones_like(p)
    opt.step()
    state = opt.state[p].values()
    assert sum(v.nbytes for v in state if v.numel() == 1000) == 1000 * bytes_each
    assert sum(v.nbytes for v in state if v.numel() == 1) <= 32


class Syncs(TorchDispatchMode):
    """Counts the operators that wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(name in str(func) for name in ("_local_scalar_dense", "nonzero", "is_nonzero")):
            self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("inner", INNER[:4], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("settings", [*SETTINGS[:-1], {"rounding": "stochastic"}], ids=repr)
def test_a_step_waits_for_no_device(
    settings: dict[str, Any], dtype: torch.dtype, inner: Learner
) -> None:
    params = made(dtype)
    opt = RecursiveOptimizer(params, lr=torch.tensor(1.0), inner=inner, **settings)
    with Syncs() as syncs:
        run(opt, params, range(2))
        opt.grad_scale, opt.found_inf = torch.tensor([8.0]), torch.tensor([1.0])
        run(opt, params, range(2))
        assert syncs.seen == []
        opt.diagnostics()
        assert syncs.seen, "the count counts"


@pytest.mark.parametrize("warm", [0, 1])
def test_a_compiled_step_is_the_step(warm: int) -> None:
    """As one graph; the first step, which makes the state, in it or not."""
    torch.compiler.reset()  # torch counts the graphs of a function, whosever method it is
    eager, compiled = (torch.nn.Parameter(torch.arange(6.0)) for _ in range(2))
    a, b = RecursiveOptimizer([eager]), RecursiveOptimizer([compiled])
    step = torch.compile(b.step, fullgraph=True, backend="aot_eager")
    for t in range(6):
        g = torch.sin(torch.arange(6.0) * (t + 1))
        eager.grad, compiled.grad = g.clone(), g.clone()
        a.step()
        if t < warm:
            b.step()
        else:
            step()
        torch.testing.assert_close(compiled, eager, rtol=1e-6, atol=1e-7)


def test_diagnostics_are_floats() -> None:
    params = made()
    opt = RecursiveOptimizer(in_groups(params))
    assert opt.diagnostics() == {}
    run(opt, params, range(5))
    found = opt.diagnostics()
    assert set(found) == {"log_wealth", "g_max", "bet/0", "bet/1", "step/0", "step/1"}
    assert {type(value) for value in found.values()} == {float}
    start = made()
    w = (params[0] - start[0]).detach()
    assert found["bet/0"] == pytest.approx(float(w.square().mean().sqrt()))


def test_diagnostics_have_the_step_sizes() -> None:
    params = made()
    opt = RecursiveOptimizer([{"params": params[:1], "lr": 0.5}, {"params": params[1:]}])
    run(opt, params, range(5))
    before = points(params)
    run(opt, params, range(5, 6))
    moved = [p - q for p, q in zip(points(params), before, strict=True)]
    found = opt.diagnostics()
    for k, mine in enumerate((moved[:1], moved[1:])):
        entries = torch.cat([x.reshape(-1) for x in mine])
        assert found[f"step/{k}"] == pytest.approx(float(entries.square().mean().sqrt()))


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"lr": -1.0}, ValueError, "lr must be finite and above 0"),
        ({"lr": "fast"}, TypeError, "lr must be a number"),
        ({"lr": torch.ones(2)}, ValueError, "Tensor lr must be 1-element, not of 2"),
        ({"weight_decay": -0.1}, ValueError, "weight_decay must be"),
        ({"epsilon": 0.0}, ValueError, "epsilon must be"),
        ({"momentum": 2.0}, ValueError, "decay must be"),
        ({"inner": scinol}, TypeError, "call it"),
        ({"inner": constrained(full_newton(), box())}, ValueError, "keeps P, an array over all"),
        ({"wealth": "each"}, ValueError, "wealth must be one of"),
        ({"rounding": "up"}, ValueError, "rounding must be one of"),
        ({"on_nonfinite": "ignore"}, ValueError, "on_nonfinite must be one of"),
        ({"average": uniform}, TypeError, "average must be"),
        ({"average": 0.9}, TypeError, "average must be"),
        ({"state_dtype": torch.float16}, ValueError, "state_dtype must be"),
    ],
)
def test_settings_that_are_refused(
    settings: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        RecursiveOptimizer(made(), **settings)


def test_a_refused_group_is_not_added() -> None:
    params = made()
    opt = RecursiveOptimizer(params[:1])
    with pytest.raises(ValueError, match="lr must be"):
        opt.add_param_group({"params": params[1:], "lr": -1.0})
    assert len(opt.param_groups) == 1
