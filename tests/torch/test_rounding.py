"""bfloat16 and float16 parameters: no frozen start, no drift, nothing lost."""

from typing import Any

import pytest
import torch

from paroli.core.compact import added, chance, seed_of_round
from paroli.torch import RecursiveOptimizer
from paroli.torch.space import NAMESPACE

DIMENSION = 16
SEED = seed_of_round(NAMESPACE, torch.tensor(7.0))
START = 8.0
UNIT = {torch.bfloat16: 2.0**-4, torch.float16: 2.0**-7}  # distance of neighbours from 8 to 16


def start() -> torch.Tensor:
    """Weights whose units in bfloat16 are larger than most increments."""
    return START + 4 * torch.rand(DIMENSION, generator=torch.Generator().manual_seed(0)).bfloat16()


def noise(t: int) -> torch.Tensor:
    """Gradients that depend on nothing, representable in every dtype here."""
    rng = torch.Generator().manual_seed(100 + t)
    return (torch.randn(DIMENSION, generator=rng) * 16).round() / 16


def add_rounded(
    point: torch.Tensor, increment: torch.Tensor, lost: torch.Tensor | None, seed: Any = None
) -> None:
    """Add in the precision of ``point``, as a step does."""
    kept_in = str(point.dtype).removeprefix("torch.")
    x, carried = point.float(), None if lost is None else lost.float()
    u = None
    if seed is not None:
        u = chance(NAMESPACE, torch.arange(len(x), dtype=torch.int32), seed)
    total, carried = added(NAMESPACE, x, increment, carried, kept_in, u)
    point.copy_(total)
    assert torch.equal(point.float(), total), "exactly what is kept"
    if lost is not None:
        lost.copy_(carried)


def drifted(dtype: torch.dtype, rounds: int = 2000, **settings: Any) -> torch.Tensor:
    """The trajectory under noise."""
    p = torch.nn.Parameter(start().to(dtype))
    opt = RecursiveOptimizer([p], average=False, **settings)
    seen = []
    torch.manual_seed(0)
    for t in range(rounds):
        p.grad = noise(t).to(dtype)
        opt.step()
        seen.append(p.detach().float().clone())
    return torch.stack(seen)


def test_a_long_bfloat16_run_tracks_the_float32_run() -> None:
    exact, half = drifted(torch.float32), drifted(torch.bfloat16)
    error = (half - exact).abs().max() / UNIT[torch.bfloat16]
    assert error < 0.75, "half a unit of rounding, and hardly any drift in 2000 rounds"


def test_without_compensation_it_drifts_or_stands_still() -> None:
    exact = drifted(torch.float32, 500)
    error = {
        (dtype, rounding): (drifted(dtype, 500, rounding=rounding) - exact).abs().max() / unit
        for dtype, unit in UNIT.items()
        for rounding in ("compensated", "nearest")
    }
    for dtype in UNIT:
        assert error[dtype, "compensated"] < 0.75
        assert error[dtype, "nearest"] > 1.5 * error[dtype, "compensated"]


def regression(dtype: torch.dtype, rounds: int = 500, **settings: Any) -> float:
    """How far from the solution a regression is over the last tenth of its rounds."""
    rng = torch.Generator().manual_seed(1)
    goal = start().float() + torch.randn(DIMENSION, generator=rng)
    p = torch.nn.Parameter(start().to(dtype))
    opt = RecursiveOptimizer([p], average=False, **settings)
    error = 0.0
    for t in range(rounds):
        x = torch.randn(16, DIMENSION, generator=rng)
        p.grad = (x.T @ torch.sign(x @ (p.detach().float() - goal)) / 16).to(dtype)
        opt.step()
        if t >= rounds * 0.9:
            error += (p.detach().float() - goal).norm().item() / (rounds * 0.1)
    return error


def test_a_bfloat16_regression_gets_as_near_as_rounding_lets_it() -> None:
    """Rounded to the nearest, the solution itself is unit · sqrt(dimension / 12) off."""
    floor = UNIT[torch.bfloat16] * (DIMENSION / 12) ** 0.5
    single = regression(torch.float32)
    compensated = regression(torch.bfloat16)
    assert compensated < single + 2 * floor
    assert compensated < regression(torch.bfloat16, rounding="nearest")


@pytest.mark.parametrize("rounding", ["compensated", "stochastic"])
@pytest.mark.parametrize("state_dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("dtype", UNIT, ids=str)
def test_nothing_is_frozen_at_the_start(
    dtype: torch.dtype, state_dtype: Any, rounding: Any
) -> None:
    """The first gradient only sets the scale; from the second on weights move."""
    p = torch.nn.Parameter(0.25 * torch.ones(DIMENSION, dtype=dtype))
    opt = RecursiveOptimizer([p], rounding=rounding, state_dtype=state_dtype)
    for _ in range(3):
        p.grad = torch.full_like(p, 0.5)
        opt.step()
    assert bool((p < 0.25).all())


@pytest.mark.parametrize("rounding", ["compensated", "stochastic", "nearest"])
def test_a_float16_parameter_stops_at_the_end_of_its_range_and_comes_back(rounding: Any) -> None:
    """The wealth of a steady gradient passes 65504 within some hundred rounds."""
    p = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
    opt = RecursiveOptimizer([p], rounding=rounding)
    for sign, rounds in ((1, 300), (-1, 300)):
        for _ in range(rounds):
            p.grad = torch.tensor([sign, -sign], dtype=torch.float16)
            opt.step()
            assert bool(torch.isfinite(p).all())
        assert p.tolist() == [-sign * 65504.0, sign * 65504.0]


def test_what_is_wider_than_the_state_keeps_its_precision() -> None:
    p = torch.nn.Parameter(torch.full((DIMENSION,), 1 + 2.0**-40, dtype=torch.float64))
    opt = RecursiveOptimizer([p], state_dtype=torch.float32)
    p.grad = torch.zeros_like(p)
    opt.step()
    opt.eval()
    assert bool((p == 1 + 2.0**-40).all())


@pytest.mark.parametrize("dtype", UNIT, ids=str)
def test_what_rounding_loses_is_carried(dtype: torch.dtype) -> None:
    point, lost = torch.full((5,), START, dtype=dtype), torch.zeros(5, dtype=dtype)
    increment = torch.tensor([1.0, -1.0, 0.3, -0.7, 0.01]) * UNIT[dtype] / 10
    for _ in range(1000):
        add_rounded(point, increment, lost, None)
    torch.testing.assert_close(
        point.float() + lost.float(), START + 1000 * increment, rtol=0.0, atol=UNIT[dtype]
    )


@pytest.mark.parametrize("dtype", UNIT, ids=str)
def test_no_increment_changes_nothing_even_at_a_tie(dtype: torch.dtype) -> None:
    """What is carried is itself rounded, and may so become exactly half a unit."""
    unit = UNIT[dtype]
    point = torch.tensor([START, START + unit, START - unit / 2, -START - unit], dtype=dtype)
    for half in (unit / 2, -unit / 2):
        before, lost = point.clone(), torch.full_like(point, half)
        add_rounded(point, torch.zeros(4), lost, None)
        assert torch.equal(point, before)
        assert torch.equal(lost, torch.full_like(point, half))


@pytest.mark.parametrize("dtype", UNIT, ids=str)
def test_stochastic_rounding_is_right_in_the_mean(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    unit, count = UNIT[dtype], 20_000
    tiny = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    for value, gap in (
        (START + 0.3 * unit, unit),
        (-START - 0.3 * unit, unit),
        (START - 0.1 * unit, unit / 2),  # a power of two: neighbours differ in distance
        (0.3 * tiny, tiny),
        (-0.3 * tiny, tiny),
    ):
        if abs(value) < torch.finfo(torch.float32).smallest_normal:
            continue  # bfloat16's smallest numbers: float32 arithmetic may flush them to zero
        point = torch.zeros(count, dtype=dtype)
        add_rounded(point, torch.full((count,), value), None, SEED)
        assert len(point.unique()) == 2
        assert bool(((point.double() - value).abs() < gap).all())
        assert abs(point.double().mean().item() - value) < 4 * gap / (2 * count**0.5)
    exact = torch.full((100,), START, dtype=dtype)
    add_rounded(exact, torch.full((100,), unit), None, SEED)
    assert bool((exact == START + unit).all())


@pytest.mark.parametrize("dtype", UNIT, ids=str)
def test_stochastic_rounding_forgets_from_round_to_round(dtype: torch.dtype) -> None:
    """The same value at the same place is rounded up in some rounds and down in others."""
    value, rounds = START + 0.3 * UNIT[dtype], 4000
    seen = torch.zeros(rounds, 3, dtype=torch.float64)
    for t in range(rounds):
        point = torch.zeros(3, dtype=dtype)
        seed = seed_of_round(NAMESPACE, torch.tensor(float(t)))
        add_rounded(point, torch.full((3,), value), None, seed)
        seen[t] = point.double()
    error = (seen.mean(0) - value).abs() / UNIT[dtype]
    assert bool((error < 4 / (2 * rounds**0.5)).all())
    assert abs(torch.corrcoef(seen.T)[0, 1]) < 4 / rounds**0.5
    lagged = torch.corrcoef(torch.stack([seen[1:, 0], seen[:-1, 0]]))
    assert abs(lagged[0, 1]) < 4 / rounds**0.5


def test_copies_of_a_tensor_are_rounded_alike() -> None:
    """Whatever torch's generators are at: on ranks that train copies they differ."""
    points = []
    for seed in (0, 1):
        p = torch.nn.Parameter(start())
        opt = RecursiveOptimizer([p], rounding="stochastic", state_dtype=torch.bfloat16)
        torch.manual_seed(seed)
        for t in range(50):
            p.grad = noise(t).bfloat16()
            opt.step()
        points.append(p.detach().clone())
    assert torch.equal(*points)
    assert not torch.equal(points[0], start())
