"""What PyTorch asks of its own optimizers, asked through its own description of one."""

import copy
import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from paroli import ons, polynomial
from paroli.torch import RecursiveOptimizer

pytest.importorskip("expecttest", reason="torch.testing._internal needs expecttest")
from torch.testing._internal.common_optimizers import (
    ErrorOptimizerInput,
    OptimizerErrorEnum,
    OptimizerInfo,
    OptimizerInput,
    get_error_inputs_for_all_optims,
)

KWARGS: list[dict[str, Any]] = [
    {},
    {"lr": 0.5},
    {"lr": torch.tensor(0.5)},
    {"weight_decay": 0.1},
    {"weight_decay": 0.1, "maximize": True},
    {"momentum": 0.9, "average": polynomial()},
    {"average": False},
    {"wealth": "tensor"},
    {"inner": ons(tau=1.0), "state_dtype": torch.float64},
]


def inputs(device: str, dtype: torch.dtype | None = None) -> list[OptimizerInput]:
    return [OptimizerInput(params=None, kwargs=dict(kwargs), desc=str(kwargs)) for kwargs in KWARGS]


def refused(device: str, dtype: torch.dtype) -> list[ErrorOptimizerInput]:
    own = ErrorOptimizerInput(
        OptimizerInput(params=None, kwargs={"epsilon": -1.0}, desc="initial wealth"),
        error_type=ValueError,
        error_regex="epsilon must be",
    )
    return [*get_error_inputs_for_all_optims(device, dtype), own]


INFO = OptimizerInfo(
    RecursiveOptimizer,
    optim_inputs_func=inputs,
    optim_error_inputs_func=refused,
    supported_impls=(),
    not_og_supported_flags=(),
)
MADE = [pytest.param(given.kwargs, id=given.desc) for given in INFO.optim_inputs_func("cpu")]
ERRORS = INFO.optim_error_inputs_func("cpu", torch.float32)


class Task:
    """A linear model, a bowl to slide down, and its optimizer."""

    def __init__(self, kwargs: dict[str, Any], named: bool = False) -> None:
        rng = torch.Generator().manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(10, 5, generator=rng))
        self.bias = torch.nn.Parameter(torch.randn(10, generator=rng))
        self.x = torch.randn(5, generator=rng)
        self.sign = -1.0 if kwargs.get("maximize") else 1.0
        params: list[Any] = [self.weight, self.bias]
        if named:
            params = [("weight", self.weight), ("bias", self.bias)]
        # A tensor lr that a schedule changes in place is one optimizer's own.
        self.opt = INFO.optim_cls(params, **copy.deepcopy(kwargs))

    def loss(self) -> torch.Tensor:
        return self.sign * (self.weight.mv(self.x) + self.bias).square().sum()

    def closure(self) -> torch.Tensor:
        self.opt.zero_grad()
        loss = self.loss()
        loss.backward()
        return loss

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self.opt.step(self.closure)

    def points(self) -> list[torch.Tensor]:
        return [self.weight.detach().clone(), self.bias.detach().clone()]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(map(torch.equal, a, b))


@pytest.mark.parametrize(
    "given", [pytest.param(e, id=e.optimizer_error_input.desc) for e in ERRORS]
)
def test_wrong_arguments(given: ErrorOptimizerInput) -> None:
    assert given.error_on == OptimizerErrorEnum.CONSTRUCTION_ERROR
    wrong = given.optimizer_error_input
    expect = pytest.warns if issubclass(given.error_type, Warning) else pytest.raises
    with expect(given.error_type, match=given.error_regex):
        INFO.optim_cls(wrong.params, **wrong.kwargs)


@pytest.mark.parametrize("kwargs", MADE)
@pytest.mark.parametrize("schedules", [(), *INFO.scheduler_inputs], ids=len)
def test_it_goes_the_right_way_with_schedules_too(kwargs: dict[str, Any], schedules: Any) -> None:
    task = Task(kwargs)
    made = [schedule(task.opt) for schedule in schedules]
    before = task.sign * task.loss().item()
    for _ in range(30):
        task.run(1)
        for schedule in made:
            if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
                schedule.step(task.loss().detach())
            else:
                schedule.step()
    assert task.sign * task.loss().item() < before


@pytest.mark.parametrize("kwargs", MADE)
def test_groups_have_their_own_lr_and_decay(kwargs: dict[str, Any]) -> None:
    def moved(**own: Any) -> list[torch.Tensor]:
        task = Task(kwargs)
        start = task.points()
        groups = [{"params": [task.weight], **own}, {"params": [task.bias]}]
        task.opt = INFO.optim_cls(groups, **copy.deepcopy(kwargs))
        for _ in range(5):
            task.weight.grad = torch.ones_like(task.weight) * task.sign
            task.bias.grad = torch.ones_like(task.bias) * task.sign
            task.opt.step()
        return [p - q for p, q in zip(task.points(), start, strict=True)]

    plain, small, decayed = moved(), moved(lr=1e-3), moved(weight_decay=0.9)
    assert small[0].abs().max() < plain[0].abs().max() / 100
    assert not torch.equal(decayed[0], plain[0])
    assert torch.equal(small[1], plain[1])
    assert torch.equal(decayed[1], plain[1])


@pytest.mark.parametrize("kwargs", MADE)
def test_no_gradients_and_zero_gradients_move_nothing(kwargs: dict[str, Any]) -> None:
    task = Task(kwargs)
    task.run(2)
    before = task.points()
    for fill in (True, False):
        task.opt.zero_grad(set_to_none=fill)
        task.opt.step()
        assert same(task.points(), before)
        task.weight.grad, task.bias.grad = map(torch.zeros_like, (task.weight, task.bias))


@pytest.mark.parametrize("kwargs", MADE)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("named_there", [False, True])
def test_files_load_under_weights_only_with_names_or_without(
    kwargs: dict[str, Any], named: bool, named_there: bool
) -> None:
    task, other = Task(kwargs, named), Task(kwargs, named_there)
    task.run(3)
    file = io.BytesIO()
    torch.save(task.opt.state_dict(), file)
    file.seek(0)
    other.opt.load_state_dict(torch.load(file, weights_only=True))
    with torch.no_grad():
        other.weight.copy_(task.weight)
        other.bias.copy_(task.bias)
    task.run(3)
    other.run(3)
    assert same(task.points(), other.points())
    assert all(state for state in other.opt.state.values()), "no state is empty"


@pytest.mark.parametrize("kwargs", MADE)
def test_it_can_be_printed_and_copied_whole(kwargs: dict[str, Any]) -> None:
    task = Task(kwargs)
    task.run(1)
    assert "Parameter Group 0" in repr(task.opt)

    def public(opt: Any) -> Iterator[str]:
        return (name for name in vars(opt) if not name.startswith("_"))

    twin = copy.deepcopy(task.opt)
    assert set(public(task.opt)) <= set(public(twin))


@pytest.mark.parametrize("kwargs", MADE)
def test_non_contiguous_parameters(kwargs: dict[str, Any]) -> None:
    a, b = Task(kwargs), Task(kwargs)
    b.weight = torch.nn.Parameter(torch.empty_strided((10, 5), (1, 10)).copy_(a.weight.detach()))
    assert not b.weight.is_contiguous()
    b.opt = INFO.optim_cls([b.weight, b.bias], **copy.deepcopy(kwargs))
    a.run(5)
    b.run(5)
    for p, q in zip(a.points(), b.points(), strict=True):
        torch.testing.assert_close(p, q)
