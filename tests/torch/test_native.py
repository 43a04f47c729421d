"""Compiled loops play what torch's operators play: everywhere they are used, and nowhere else."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import paroli.torch.memory as memory
import paroli.torch.native as glue
from paroli import ball, constrained, diagonal, ons, polynomial, scinol
from paroli.native import build
from paroli.torch import RecursiveOptimizer
from tests.torch.test_golden import GOLDEN, SETTINGS, Trajectory

SHAPES = ((3, 5), (17,), (), (1,), (4, 3, 2, 2), (0,), (33,), (257, 131))
WAYS: list[dict[str, Any]] = [
    {},
    {"average": False},
    {"momentum": 0.9, "average": polynomial()},
    {"inner": diagonal()},
    {"inner": ons(tau=1.0)},
    {"inner": scinol(cap=None, rescale=False)},
    {"weight_decay": 0.1},
    {"maximize": True, "lr": 0.5},
    {"lr": torch.tensor(0.3), "weight_decay": 0.01, "momentum": 1.0},
    {"wealth": "group"},
    {"wealth": "tensor"},
    {"foreach": False},
    {"epsilon": 0.1},
]


def made(dtype: torch.dtype, shapes: Any = SHAPES) -> list[torch.nn.Parameter]:
    rng = torch.Generator().manual_seed(0)
    params = []
    for shape in shapes:
        value = torch.randn(shape, generator=rng, dtype=torch.float64).to(dtype)
        if value.ndim == 4:
            value = value.to(memory_format=torch.channels_last)
        params.append(torch.nn.Parameter(value))
    return params


def gradient(p: torch.Tensor, t: int, scale: float = 1.0) -> torch.Tensor:
    rng = torch.Generator().manual_seed(1000 * t + p.numel())
    noise = torch.randn(p.shape, generator=rng, dtype=torch.float64)
    return (scale * (noise + 0.3)).to(p.dtype)


def played(
    fused: bool, dtype: torch.dtype, rounds: int = 12, scale: float = 1.0, **settings: Any
) -> tuple[list[torch.nn.Parameter], RecursiveOptimizer]:
    params = made(dtype)
    half = len(params) // 2
    groups = [{"params": params[:half]}, {"params": params[half:], "lr": 0.7}]
    opt = RecursiveOptimizer(groups, fused=fused or False, **settings)
    for t in range(rounds):
        for k, p in enumerate(params):
            p.grad = gradient(p, t, scale)
            if k == 1 and t in (3, 4, 7):
                p.grad = None
        opt.step()
    return params, opt


def assert_same(
    a: tuple[list[torch.nn.Parameter], RecursiveOptimizer],
    b: tuple[list[torch.nn.Parameter], RecursiveOptimizer],
    rtol: float,
) -> None:
    for p, q in zip(a[0], b[0], strict=True):
        torch.testing.assert_close(p, q, rtol=rtol, atol=rtol)
        one, other = a[1].state[p], b[1].state[q]
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert value.dtype == other[key].dtype
            torch.testing.assert_close(value, other[key], rtol=rtol, atol=rtol, msg=key)
    one, other = a[1].diagnostics(), b[1].diagnostics()
    assert one == pytest.approx(other, rel=10 * rtol, abs=rtol)


@pytest.mark.parametrize("settings", WAYS, ids=repr)
def test_the_same_in_float64(settings: dict[str, Any]) -> None:
    fused, eager = (played(f, torch.float64, **settings) for f in (True, False))
    assert_same(fused, eager, 1e-11)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("rounding", ["compensated", "stochastic", "nearest"])
@pytest.mark.parametrize("settings", [{}, {"state_dtype": torch.bfloat16}], ids=repr)
def test_the_same_in_fewer_bits(dtype: torch.dtype, rounding: Any, settings: Any) -> None:
    """The chances are the same, so that hardly a number falls to the other side."""
    fused, eager = (played(f, dtype, 1, rounding=rounding, **settings) for f in (True, False))
    step = torch.finfo(dtype if dtype != torch.float32 else torch.bfloat16).eps
    for p, q in zip(fused[0], eager[0], strict=True):
        for key, value in {"point": p, **fused[1].state[p]}.items():
            other = q if key == "point" else eager[1].state[q][key]
            different = (value != other).double().mean() if value.numel() else 0.0
            if value.dtype not in (torch.float32, torch.float64):
                assert different < 0.01, key
            torch.testing.assert_close(value, other, rtol=2 * step, atol=1e-6, msg=key)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_gradients_of_any_size(scale: float) -> None:
    """Above 1e14 other loops are used: the square of 1e30 is no float32."""
    fused, eager = (played(f, torch.float32, scale=scale, average=False) for f in (True, False))
    for p, q in zip(fused[0], eager[0], strict=True):
        assert bool(torch.isfinite(p).all())
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


class Noisy(Trajectory):
    """The recorded run in float64, with every entry of the state a little off after each round."""

    def run(self, size: float, rounds: int, settings: dict[str, Any]) -> list[torch.Tensor]:
        opt = RecursiveOptimizer(self.params, average=False, fused=False, **settings)
        rng = torch.Generator().manual_seed(int(size > 0))
        for t in range(rounds):
            for p, g in zip(self.params, self.g, strict=True):
                p.grad = g[t].clone()
            opt.step()
            for state in opt.state.values():
                for key, part in state.items():
                    if key != "rounds":
                        off = 2 * torch.rand(part.shape, generator=rng, dtype=part.dtype) - 1
                        part.mul_(1 + size * off)
        return [p.detach().clone() for p in self.params]


OPERATIONS = 40
"""Roundings on the way from a round's state to the next, at most: each is half an eps."""


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the authors' trajectories are not there")
@pytest.mark.parametrize("name", SETTINGS)
def test_the_golden_runs_in_float32_up_to_its_roundings(name: str) -> None:
    """The bound: how far the exact run goes astray when each round is off by all its roundings.

    (A float32 parameter adds its own: half a unit a round where it is, in the worst case.)
    """
    settings = SETTINGS[name]
    rounds = min(60, Trajectory(name).rounds)
    eps = torch.finfo(torch.float32).eps
    exact = Noisy(name).run(0.0, rounds, settings)
    noisy = Noisy(name).run(OPERATIONS * eps / 2, rounds, settings)
    golden = Trajectory(name)
    params = [torch.nn.Parameter(p.detach().float()) for p in golden.params]
    opt = RecursiveOptimizer(
        params, average=False, fused=True, state_dtype=torch.float32, **settings
    )
    for t in range(rounds):
        for p, g in zip(params, golden.g, strict=True):
            p.grad = g[t].float()
        opt.step()
    for p, x, off, start in zip(params, exact, noisy, golden.start, strict=True):
        moved = (x - start).abs().max()
        bound = (off - x).abs().max() + eps * (rounds * x.abs().max() + OPERATIONS * moved)
        error = (p.double() - x).abs().max()
        assert error <= bound
        assert bound < max(0.05 * moved, 1e-4), "a bound that says something"


def test_any_number_of_threads_plays_the_same() -> None:
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            p = torch.nn.Parameter(torch.zeros(3 * glue.WORTH_A_THREAD + 7))
            opt = RecursiveOptimizer([p])
            for t in range(3):
                p.grad = gradient(p, t)
                opt.step()
            numbers = opt.state[p]["log_wealth"], opt.state[p]["g_max"]
            found.append((p.detach().clone(), *(number.clone() for number in numbers)))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:  # to the bit: sums are added up in the order of rows
        assert all(map(torch.equal, other, found[0]))


def loops_of(opt: RecursiveOptimizer) -> list[glue.NativeLeaf]:
    return [leaf.native[1] for leaf in set(opt._leaf_of.values()) if leaf.native and leaf.native[1]]


def test_they_are_used_by_themselves_and_not_where_they_are_refused() -> None:
    assert loops_of(played(False, torch.float32)[1]) == []
    params = made(torch.float32)
    opt = RecursiveOptimizer(params)
    for p in params:
        p.grad = gradient(p, 0)
    opt.step()
    (loops,) = loops_of(opt)
    assert loops.size == sum(p.numel() for p in params)


def test_points_that_lie_anywhere() -> None:
    """Misaligned views and gradients in another order of memory are stepped in place."""
    results = []
    for fused in (None, False):
        buffer = torch.linspace(-1.0, 1.0, 103)
        p = torch.nn.Parameter(buffer[1:101].view(10, 10))
        q = torch.nn.Parameter(torch.randn(10, 6, generator=torch.Generator().manual_seed(0)).t())
        opt = RecursiveOptimizer([p, q], fused=fused)
        for t in range(4):
            p.grad = gradient(p, t).t().contiguous().t()
            q.grad = gradient(q, t).contiguous()
            opt.step()
        assert bool(loops_of(opt)) == (fused is None)
        assert buffer[0] == -1.0
        assert buffer[101:].tolist() == torch.linspace(-1.0, 1.0, 103)[101:].tolist()
        results.append((p.detach().clone(), q.detach().clone(), p.data_ptr()))
    torch.testing.assert_close(results[0][:2], results[1][:2])


def test_what_has_gaps_is_left_to_torch() -> None:
    p = torch.nn.Parameter(torch.zeros(10, 4)[:, ::2])
    p.grad = torch.ones_like(p)
    opt = RecursiveOptimizer([p])
    opt.step()
    p.grad = torch.ones_like(p)
    opt.step()
    assert loops_of(opt) == []
    assert bool((p < 0).all())
    with pytest.raises(RuntimeError, match=r"fused=True, but parameter 0 of group 0.*not dense"):
        RecursiveOptimizer([p], fused=True).step()


def test_points_may_move_between_steps() -> None:
    results = []
    for swap in (False, True):
        p = torch.nn.Parameter(torch.ones(50))
        opt = RecursiveOptimizer([p])
        for t in range(4):
            if swap:
                p.data = p.detach().clone()
                gc.collect()
            p.grad = gradient(p, t)
            opt.step()
        results.append(p.detach().clone())
    assert torch.equal(*results)


def test_autograd_sees_the_change() -> None:
    p = torch.nn.Parameter(torch.ones(5))
    opt = RecursiveOptimizer([p])
    loss = (p * p).sum()
    p.grad = torch.ones(5)
    opt.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_round_that_does_not_count_leaves_every_bit(bad: float) -> None:
    params, opt = played(True, torch.float32)
    before = [p.detach().clone() for p in params]
    states = [{k: v.clone() for k, v in opt.state[p].items()} for p in params]
    for p in params:
        p.grad = gradient(p, 0)
    params[0].grad[0, 0] = bad
    opt.step()
    for p, x, state in zip(params, before, states, strict=True):
        assert p.detach().numpy().tobytes() == x.numpy().tobytes()
        for key, value in state.items():
            assert torch.equal(opt.state[p][key], value), key


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CC", "no-such-compiler")
    caches = (build._compiler, glue.no_compiler)
    for cache in caches:
        cache.cache_clear()
    yield
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


def test_without_a_compiler_torch_steps(no_compiler: None) -> None:
    p = torch.nn.Parameter(torch.ones(5))
    for t in range(3):
        p.grad = gradient(p, t)
        opt = RecursiveOptimizer([p])
        opt.step()
    assert loops_of(opt) == []
    with pytest.raises(RuntimeError, match=r"no C compiler.*leave fused None"):
        RecursiveOptimizer([p], fused=True).step()


def test_an_inner_learner_of_another_norm_is_left_to_torch() -> None:
    """Its gradients are measured by their largest entry: no plain sum."""
    p = torch.nn.Parameter(torch.ones(5))
    opt = RecursiveOptimizer([p], inner=constrained(diagonal(), ball(0.5, norm=1)))
    p.grad = torch.ones(5)
    opt.step()
    assert loops_of(opt) == []
    with pytest.raises(RuntimeError, match="not of one pass"):
        RecursiveOptimizer([p], inner=constrained(diagonal(), ball(0.5, norm=1)), fused=True).step()


def test_the_setting_is_checked_and_loads_from_older_files() -> None:
    p = torch.nn.Parameter(torch.ones(5))
    with pytest.raises(ValueError, match="fused"):
        RecursiveOptimizer([p], fused=True, foreach=True)
    opt = RecursiveOptimizer([p])
    p.grad = torch.ones(5)
    opt.step()
    saved = opt.state_dict()
    for group in saved["param_groups"]:
        del group["fused"]
    other = RecursiveOptimizer([p])
    other.load_state_dict(saved)
    other.step()
    assert other.param_groups[0]["fused"] is None


def test_numbers_cost_no_synchronising_operator() -> None:
    x = torch.tensor([2.5], dtype=torch.float64)
    with torch.autograd.profiler.profile() as seen:
        assert glue.number_of(x) == 2.5
    names = {event.name for event in seen.function_events}
    assert not names & {"aten::item", "aten::_local_scalar_dense"}


def test_sums_are_in_double_precision_but_for_short_runs() -> None:
    """A million gradients of 0.1 are 1e5, not what float32 makes of it (off by 1e-3 or more)."""
    p = torch.nn.Parameter(torch.zeros(1_000_003))
    p.grad = torch.full_like(p, 0.1)
    opt = RecursiveOptimizer([p])
    opt.step()
    g_max = opt.diagnostics()["g_max"]
    assert g_max == pytest.approx(float(np.float32(0.1)) * 1_000_003, rel=1e-6)


def test_memory_may_be_laid_otherwise_between_steps() -> None:
    """As ``model.to(memory_format=...)`` does: what is kept lies as the parameters do."""
    for fused in (None, False):
        for layers in (1, 2):
            found = []
            for relaid in (False, True):
                torch.manual_seed(0)
                model = torch.nn.Sequential(*(torch.nn.Conv2d(3, 3, 3) for _ in range(layers)))
                opt = RecursiveOptimizer(model.parameters(), fused=fused, state_dtype=torch.float32)
                x = torch.randn(2, 3, 12, 12)
                for t in range(6):
                    if t == 3 and relaid:
                        model.to(memory_format=torch.channels_last)
                    opt.zero_grad()
                    model(x).square().sum().backward()
                    opt.step()
                assert bool(loops_of(opt)) == (fused is None)
                found.append([p.detach().clone() for p in model.parameters()])
            for a, b in zip(*found, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_a_gradient_that_is_negated_when_it_is_read() -> None:
    results = []
    for lazily in (False, True):
        p = torch.nn.Parameter(torch.ones(5))
        opt = RecursiveOptimizer([p])
        for t in range(3):
            g = gradient(p, t)
            p.grad = torch._neg_view(-g) if lazily else g
            assert p.grad.is_neg() == lazily
            opt.step()
        results.append(p.detach().clone())
    assert torch.equal(*results)


def changes(name: str, opt: RecursiveOptimizer, params: list[torch.nn.Parameter]) -> None:
    """What may happen between steps, without consequences."""
    state = opt.state[params[1]]
    if name == "part replaced":
        state["wealth"], state["x"] = state["wealth"].clone(), state["x"].clone()
    elif name == "state replaced":
        opt.state[params[1]] = {key: value.clone() for key, value in state.items()}
        for key in (*opt.layout.numbers, "rounds"):
            opt.state[params[1]][key] = opt.state[params[0]][key]
    elif name == "loaded":
        opt.load_state_dict(opt.state_dict())
    elif name == "order of a group":
        opt.param_groups[0]["params"].reverse()
    elif name == "group replaced":
        opt.param_groups[0] = dict(opt.param_groups[0])
    elif name == "by torch for once":
        opt.param_groups[0]["fused"] = False


CHANGES = ("part replaced", "state replaced", "loaded", "order of a group", "group replaced")


@pytest.mark.parametrize("name", [*CHANGES, "by torch for once"])
def test_what_changes_between_steps_is_noticed(name: str) -> None:
    results = []
    for change in (False, True):
        params = made(torch.float64, ((3,), (4, 2), (5,)))
        opt = RecursiveOptimizer(params)
        for t in range(8):
            if t == 4 and change:
                changes(name, opt, params)
            if t == 6 and change:
                opt.param_groups[0]["fused"] = None
            for p in params:
                p.grad = gradient(p, t)
            opt.step()
        results.append((params, opt))
    assert_same(*results, 1e-11)


def test_a_parameter_that_joins_late_is_noticed() -> None:
    params = made(torch.float32, ((3,), (4,)))
    opt = RecursiveOptimizer(params[:1])
    for t in range(6):
        if t == 3:
            opt.add_param_group({"params": params[1:]})
        for p in params:
            p.grad = gradient(p, t)
        before = params[1].detach().clone()
        opt.step()
        assert torch.equal(before, params[1]) == (t < 4)  # its first bet is of 1e-8


def test_a_parameter_that_is_taken_out_stands_still() -> None:
    params = made(torch.float32, ((3,), (4,)))
    opt = RecursiveOptimizer(params)
    for t in range(6):
        if t == 4:
            del opt.param_groups[0]["params"][1]
        for p in params:
            p.grad = gradient(p, t)
        before = params[1].detach().clone()
        opt.step()
        assert torch.equal(before, params[1]) == (t < 1 or t >= 4)


def test_steps_of_the_same_parameters_look_nothing_up() -> None:
    params = made(torch.float32)
    opt = RecursiveOptimizer(params)
    for t in range(3):
        for p in params:
            p.grad = gradient(p, t)
        opt.step()
    settled = opt._settled
    assert settled is not None
    params[2].grad = None
    opt.step()
    assert opt._settled is settled
    opt.state[params[0]]["x"] = opt.state[params[0]]["x"].clone()
    opt.step()
    assert opt._settled is None


def test_large_arrays_are_asked_to_be_in_large_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int]] = []

    def advise(*what: int) -> int:
        asked.append(what)
        return 0

    monkeypatch.setattr(memory, "_advice", lambda: advise)
    page = memory.LARGE_PAGE
    x = torch.zeros(3 * page // 4 + 5)
    memory.in_large_pages(x)
    assert [what for *_, what in asked] == [memory.HUGEPAGE, memory.COLLAPSE]
    for begin, length, _ in asked:
        assert begin % page == length % page == 0
        assert x.data_ptr() <= begin
        assert 2 * page <= length <= x.data_ptr() + x.nbytes - begin
    memory.in_large_pages(torch.zeros(1000))
    memory.in_large_pages(torch.zeros(page, 2)[:, 0])
    assert len(asked) == 2
    monkeypatch.undo()
    x = torch.arange(float(page))
    memory.in_large_pages(x)
    assert torch.equal(x, torch.arange(float(page)))
