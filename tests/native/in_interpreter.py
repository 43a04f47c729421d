"""The kernels in Triton's interpreter; `test_triton` runs this file where Triton interprets."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import paroli.torch.native as native
from paroli import (
    ball,
    box,
    constrained,
    descent,
    diagonal,
    ons,
    polynomial,
    scinol,
    scinol1,
    scinol2,
)
from paroli.torch import RecursiveOptimizer
from paroli.torch.triton import KernelLeaf
from tests.torch.test_golden import GOLDEN, SETTINGS, Trajectory

SHAPES = [(1032,), (7,), (0,), (33, 5), (4,), (8, 16), ()]
EVEN_ROWS = 3
"""Two of the first, and the one of the last but one."""
ROUNDS = 6


@pytest.fixture(autouse=True)
def kernels_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(native.MADE_FOR, "cpu", native.MADE_FOR["cuda"])
    monkeypatch.setitem(native.MISSING, "cpu", native.MISSING["cuda"])


def params_of(dtype: torch.dtype, layout: str = "plain") -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    found = []
    for shape in SHAPES:
        x = torch.randn(shape, dtype=torch.float64, generator=generator).to(dtype)
        if layout == "misaligned":
            x = torch.zeros(x.numel() + 1, dtype=dtype)[1:].view(shape).copy_(x)
        if layout == "transposed" and x.ndim == 2:
            x = x.t().contiguous().t()
        found.append(torch.nn.Parameter(x))
    return found


def step(params: list[torch.nn.Parameter], opt: RecursiveOptimizer, t: int, **how: Any) -> None:
    generator = torch.Generator().manual_seed(100 + t)
    for p in params:
        g = torch.randn(p.shape, dtype=torch.float64, generator=generator).to(p.dtype)
        p.grad = g.t().contiguous().t() if how.get("turned") and g.ndim == 2 else g
    if how.get("spoilt"):
        assert params[3].grad is not None
        params[3].grad[-1] = how["spoilt"]
    opt.step()


def kernel_leaves(opt: RecursiveOptimizer) -> list[KernelLeaf]:
    found = [leaf.native[1] for leaf in dict.fromkeys(opt._leaf_of.values())]
    assert all(isinstance(one, KernelLeaf) for one in found)
    return found


def everything(opt: RecursiveOptimizer, params: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    """Points and states, copied."""
    kept = [value for p in params for value in opt.state[p].values()]
    return [x.detach().clone() for x in (*params, *kept)]


@pytest.mark.parametrize(
    ("dtype", "layout", "settings"),
    [
        (torch.float32, "plain", {"foreach": False, "inner": scinol(cap=None)}),
        (torch.float32, "misaligned", {"weight_decay": 0.1, "maximize": True}),
        (torch.float32, "transposed", {"lr": 0.3}),
        (torch.float64, "plain", {"momentum": 0.9, "inner": scinol(cap=None)}),
        (torch.bfloat16, "plain", {}),
        (torch.bfloat16, "misaligned", {"rounding": "stochastic"}),
        (torch.bfloat16, "plain", {"state_dtype": torch.bfloat16, "average": False}),
        (torch.float16, "plain", {"rounding": "nearest"}),
        (torch.float16, "plain", {"inner": ons()}),
        (torch.float32, "plain", {"inner": diagonal(), "average": polynomial()}),
        (torch.float64, "plain", {"inner": constrained(scinol1(), box())}),
        (torch.float32, "plain", {"inner": constrained(scinol2(), box()), "average": False}),
    ],
    ids=str,
)
def test_kernels_do_what_operators_do(
    dtype: torch.dtype, layout: str, settings: dict[str, Any]
) -> None:
    runs = []
    for fused in (True, False):
        params = params_of(dtype, layout)
        opt = RecursiveOptimizer(params, fused=fused, **settings)
        for t in range(ROUNDS):
            step(params, opt, t, turned=t % 2 == 1)
        runs.append((params, everything(opt, params), opt.diagnostics()))
        if fused:
            kernel_leaves(opt)
    (_, mine, looks), (_, others, eager) = runs
    for a, b in zip(mine, others, strict=True):
        # Sums are in another order, and a hypot may be rounded the other way: in each round a dozen
        # operations, each off by a unit of the arithmetic's last place.  What is kept in less may
        # besides be on the other side of a rounding, now and then.
        unit = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
        near = 12 * ROUNDS * unit
        if torch.finfo(a.dtype).eps > unit:
            assert (a != b).sum() <= 1 + a.numel() // 20
            near += 2 * torch.finfo(a.dtype).eps
        largest = float(b.abs().max()) if b.numel() else 0.0
        torch.testing.assert_close(a, b, rtol=near, atol=near * largest)
    assert looks == pytest.approx(eager, rel=1e-6)


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the authors' trajectories are not here")
@pytest.mark.parametrize(
    "name", ["ons", "scinol", "scinol_spike", "scinol_momentum_ema09", "scinol_momentum_uniform"]
)
def test_golden(name: str) -> None:
    golden = Trajectory(name)
    opt = RecursiveOptimizer(golden.params, average=False, fused=True, **SETTINGS[name])
    golden.follow(opt, range(min(golden.rounds, 25)))
    kernel_leaves(opt)


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the authors' trajectories are not here")
def test_golden_in_float32() -> None:
    """The bet is -G s² wealth / 2: to first order, what its factors have picked up adds up.

    In each round G takes in one rounding, S and so each s three (z, hypot), the wealth five
    (z, s, x, the product, the sum); reading the bet has five of its own, and the point one a round.
    """
    golden = Trajectory("scinol")
    params = [torch.nn.Parameter(start.float()) for start in golden.start]
    opt = RecursiveOptimizer(params, average=False, fused=True, state_dtype=torch.float32)
    unit = torch.finfo(torch.float32).eps / 2
    moved = 0.0
    for t in range(25):
        for p, g in zip(params, golden.g, strict=True):
            p.grad = g[t].float()
        opt.step()
        for p, x, start in zip(params, golden.x, golden.start, strict=True):
            moved = max(moved, float((x[t] - start).abs().max()))
            roundings = (1 + 2 * 3 + 5) * (t + 1) + 5
            bound = unit * (roundings * moved + (t + 2) * float(x[t].abs().max()))
            assert float((p.detach().double() - x[t]).abs().max()) <= bound
    kernel_leaves(opt)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9, "weight_decay": 0.1}], ids=str)
def test_a_round_that_does_not_count_leaves_everything_to_the_bit(
    dtype: torch.dtype, bad: float, settings: dict[str, Any]
) -> None:
    if settings and math.isnan(bad):
        pytest.skip("inf is the harder one")
    params = params_of(dtype)
    opt = RecursiveOptimizer(params, fused=True, **settings)
    for t in range(2):
        step(params, opt, t)
    before = everything(opt, params)
    step(params, opt, 2, spoilt=bad)
    for a, b in zip(everything(opt, params), before, strict=True):
        assert torch.equal(a, b)
    step(params, opt, 3)
    assert not torch.equal(params[0], before[0])
    assert all(bool(torch.isfinite(x).all()) for x in everything(opt, params))


def test_a_scale_and_a_verdict_of_amp() -> None:
    found = []
    for fused in (True, False):
        params = params_of(torch.float32)
        opt = RecursiveOptimizer(params, fused=fused)
        opt.grad_scale = torch.tensor(1024.0)  # type: ignore[attr-defined]
        for t in range(4):
            opt.found_inf = torch.tensor(float(t == 2))  # type: ignore[attr-defined]
            step(params, opt, t)
        found.append(everything(opt, params))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-9)


class Branching:
    """Somebody's own average, which asks a tensor."""

    def share(self, xp: Any, t: Any) -> Any:
        return 1 / t if t < 3 else xp.asarray(0.25)


def test_an_average_that_cannot_be_traced() -> None:
    found = []
    for fused in (True, False):
        params = params_of(torch.float32)
        opt = RecursiveOptimizer(params, fused=fused, average=Branching())
        for t in range(4):
            step(params, opt, t)
        opt.eval()
        found.append(params)
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


def test_addresses_are_written_only_where_they_have_changed() -> None:
    params = params_of(torch.float32)
    opt = RecursiveOptimizer(params, fused=True)
    step(params, opt, 0)
    (mine,) = kernel_leaves(opt)
    mine.host.fill_(-1)  # whoever read this would fall
    opt.step()
    assert (mine.host == -1).all()
    mine.host[:, 2] = torch.from_numpy(mine.memory.begins)
    mine.host[:, 3] = torch.from_numpy(mine.memory.counts)
    kept = params[0].grad
    step(params, opt, 1)
    assert kept is not params[0].grad
    assert mine.table[0, 0] == params[0].grad.data_ptr()  # type: ignore[union-attr]


def test_rows_that_lie_evenly_come_first_and_all_are_there() -> None:
    params = params_of(torch.float32)
    opt = RecursiveOptimizer(params, fused=True)
    step(params, opt, 0)
    (mine,) = kernel_leaves(opt)
    tensor, offset = mine.tensor_of.numpy(), mine.offset_of.numpy()
    left = np.minimum(mine.memory.counts[tensor] - offset, 1024)
    assert left.sum() == mine.size
    places = mine.memory.begins[tensor] + offset
    even = (left % 8 == 0) & (places % 8 == 0)
    assert even[: mine.even_rows].all()
    assert mine.even_rows == EVEN_ROWS
    assert len(set(places.tolist())) == mine.rows


def test_an_inner_learner_whose_sums_are_not_of_one_pass_is_refused_by_name() -> None:
    params = params_of(torch.float32)
    inner = constrained(descent(), ball(norm=2))
    opt = RecursiveOptimizer(params, fused=True, inner=inner)
    before = [p.detach().clone() for p in params]
    with pytest.raises(RuntimeError, match=r"parameter 0 of group 0 cannot be stepped.*one pass"):
        step(params, opt, 0)
    assert all(torch.equal(p, kept) for p, kept in zip(params, before, strict=True))
