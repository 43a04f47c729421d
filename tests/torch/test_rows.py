"""Sparse gradients: what the dense step would do, at the cost of the touched rows."""

import copy
import io
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from paroli import (
    box,
    constrained,
    diagonal,
    exponential,
    ftrl,
    ons,
    percoordinate,
    polynomial,
    recursive,
    scinol,
    uniform,
)
from paroli.torch import RecursiveOptimizer, rows_on_demand
from paroli.torch.rows import CLOCK, SINCE, touched

WORDS, WIDTH = 40, 3
INNER = [
    scinol(),
    scinol(cap=None, rescale=False),
    ons(tau=1.0),
    diagonal(),
    ftrl(),
    percoordinate(diagonal()),
    constrained(scinol(), box(-0.2, 0.2)),
]
TRIAL = pytest.mark.parametrize("on_demand", [False, True])


class Model(nn.Module):
    """Looks words up twice, in two ways, and adds what has no rows."""

    def __init__(self, sparse: bool, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(WORDS, WIDTH, sparse=sparse, dtype=dtype)
        self.bags = nn.EmbeddingBag(WORDS, WIDTH, mode="sum", sparse=sparse, dtype=dtype)
        self.out = nn.Linear(WIDTH, 1, dtype=dtype)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        bag = self.bags(rows, offsets=torch.tensor([0]))
        return self.out(self.words(rows).sum(0) + bag[0])


def schedule(rounds: int, seed: int = 0) -> list[torch.Tensor]:
    """Rows with repetitions, few words often, and now and then none at all."""
    rng = torch.Generator().manual_seed(seed)
    found = []
    for t in range(rounds):
        count = 0 if t % 7 == 3 else int(torch.randint(1, 6, (), generator=rng))
        rows = (torch.rand(count, generator=rng) ** 3 * WORDS).long()
        found.append(torch.cat([rows, rows[:1]]))
    return found


class Training:
    """A model, its optimizer, and a stream of rows."""

    def __init__(
        self,
        sparse: bool,
        on_demand: bool = False,
        dtype: torch.dtype = torch.float64,
        **settings: Any,
    ) -> None:
        self.model = Model(sparse, dtype)
        self.opt = RecursiveOptimizer(self.model.parameters(), **settings)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.99)
        if on_demand:
            self.handles = rows_on_demand(self.model, self.opt)

    def run(self, rounds: list[torch.Tensor]) -> None:
        for t, rows in enumerate(rounds):
            self.opt.zero_grad()
            goal = 3 * torch.sin(torch.tensor(float(t)))
            (self.model(rows) - goal).abs().sum().backward()
            self.opt.step()
            self.scheduler.step()

    def points(self) -> list[torch.Tensor]:
        self.opt.settle()
        return [p.detach().clone() for p in self.model.parameters()]

    def averages(self) -> list[torch.Tensor]:
        self.opt.eval()
        found = [p.detach().clone() for p in self.model.parameters()]
        self.opt.train()
        return found


def assert_close(a: list[torch.Tensor], b: list[torch.Tensor], tolerance: float = 1e-12) -> None:
    """To a share of the distance moved."""
    start = list(Model(False, a[0].dtype).parameters())
    moved = max(float((y - x).detach().abs().max()) for x, y in zip(start, b, strict=True))
    for x, y in zip(a, b, strict=True):
        assert float((x - y).abs().max()) <= tolerance * moved
    assert moved > 0.01


@TRIAL
@pytest.mark.parametrize("inner", INNER, ids=repr)
def test_sparse_is_dense(inner: Any, on_demand: bool) -> None:
    sparse, dense = Training(True, on_demand, inner=inner), Training(False, inner=inner)
    for part in (schedule(60), schedule(60, seed=1)):
        sparse.run(part)
        dense.run(part)
        assert_close(sparse.points(), dense.points())
        assert_close(sparse.averages(), dense.averages())


@pytest.mark.parametrize("average", [False, uniform(), polynomial(3.0), exponential(0.9)], ids=repr)
@pytest.mark.parametrize("settings", [{}, {"wealth": "tensor"}, {"wealth": "group"}], ids=repr)
def test_every_average_and_wealth(average: Any, settings: dict[str, Any]) -> None:
    settings = {**settings, "average": average}
    sparse, dense = Training(True, True, **settings), Training(False, **settings)
    for training in (sparse, dense):
        training.run(schedule(100))
    assert_close(sparse.points(), dense.points())
    if average is not False:
        assert_close(sparse.averages(), dense.averages())


@pytest.mark.parametrize("settings", [{"momentum": 0.9}, {"weight_decay": 0.1}], ids=repr)
def test_what_moves_every_row_is_exact_too(settings: dict[str, Any]) -> None:
    """At the cost of all rows."""
    sparse, dense = Training(True, **settings), Training(False, **settings)
    for training in (sparse, dense):
        training.run(schedule(60))
    assert_close(sparse.points(), dense.points())
    assert_close(sparse.averages(), dense.averages())


def test_settings_that_change_on_the_way() -> None:
    """Weight decay for a while, a weight that stands still for a while, a while of dense ones."""
    results = []
    for on_demand in (True, False):
        training = Training(on_demand, on_demand)
        training.run(schedule(20))
        training.opt.param_groups[0]["weight_decay"] = 0.1
        training.run(schedule(20, seed=1))
        training.opt.param_groups[0]["weight_decay"] = 0.0
        training.run(schedule(20, seed=2))
        training.model.words.weight.requires_grad_(False)
        training.run(schedule(20, seed=3))
        training.model.words.weight.requires_grad_(True)
        training.model.words.sparse = False
        training.run(schedule(20, seed=4))
        training.model.words.sparse = on_demand
        training.run(schedule(20, seed=5))
        results.append((training.points(), training.averages()))
    for sparse, dense in zip(*results, strict=True):
        assert_close(sparse, dense)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("settings", [{}, {"state_dtype": torch.bfloat16}], ids=repr)
def test_fewer_bits(dtype: torch.dtype, settings: dict[str, Any]) -> None:
    """Rounding happens at other times, so it is not the same to the bit."""
    sparse, dense = (Training(s, s, dtype=dtype, **settings) for s in (True, False))
    for training in (sparse, dense):
        training.run(schedule(60))
    a, b = ([p.double() for p in training.points()] for training in (sparse, dense))
    start = [p.detach().double() for p in Model(False, dtype).parameters()]
    moved = max(float((y - x).abs().max()) for x, y in zip(start, b, strict=True))
    bound = 1e-5 if dtype == torch.float32 and not settings else 0.2
    for x, y in zip(a, b, strict=True):
        assert float((x - y).abs().max()) <= bound * moved


# Bad gradients ----------------------------------------------------------------------------------


@TRIAL
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_bad_gradients_change_nothing(bad: float, on_demand: bool) -> None:
    training = Training(True, on_demand)
    training.run(schedule(20))
    before = training.points() + training.averages()
    training.opt.zero_grad()
    (training.model(torch.tensor([1, 5, 1])) * bad).sum().backward()
    training.opt.step()
    after = training.points() + training.averages()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    training.opt = copy.deepcopy(training.opt)
    training.opt.on_nonfinite = "raise"
    for p, grad in zip(
        training.opt.param_groups[0]["params"], training.model.parameters(), strict=True
    ):
        p.grad = grad.grad
    with pytest.raises(RuntimeError, match="NaN or inf in the gradient of parameter 0 of group 0"):
        training.opt.step()


def test_zero_gradients_move_nothing() -> None:
    training = Training(True, True)
    training.run(schedule(20))
    before = training.points()
    training.opt.zero_grad()
    (training.model(torch.tensor([1, 5, 1])) * 0).sum().backward()
    training.opt.step()
    assert all(torch.equal(a, b) for a, b in zip(before, training.points(), strict=True))


# Reads ------------------------------------------------------------------------------------------


def test_a_forward_reads_what_is_up_to_date() -> None:
    sparse, dense = Training(True, True), Training(False)
    for training in (sparse, dense):
        training.run(schedule(30))
    rows = torch.arange(WORDS)
    assert not torch.allclose(sparse.model.words.weight, dense.model.words.weight, rtol=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(sparse.model(rows), dense.model(rows), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(sparse.model.words.weight, dense.model.words.weight)


def test_a_second_forward_leaves_the_graph_of_the_first_alone() -> None:
    training = Training(True, True)
    training.run(schedule(30))
    weights = torch.ones(3, dtype=torch.float64, requires_grad=True)
    rows = torch.tensor([1, 2, 3])
    first = training.model.bags(rows, torch.tensor([0]), per_sample_weights=weights)
    training.model.bags(torch.arange(WORDS), torch.tensor([0]))
    first.sum().backward()
    expected = training.model.bags.weight.detach()[rows].sum(1)
    torch.testing.assert_close(weights.grad, expected)


@pytest.mark.parametrize("first", ["model", "optimizer"])
def test_checkpoints_are_up_to_date_and_go_on(first: str) -> None:
    whole, dense = Training(True, True), Training(False)
    whole.run(schedule(30))
    dense.run(schedule(30))
    both = {"model": whole.model, "optimizer": whole.opt}
    order = ["model", "optimizer"] if first == "model" else ["optimizer", "model"]
    file = io.BytesIO()
    torch.save({name: both[name].state_dict() for name in order}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    torch.testing.assert_close(saved["model"]["words.weight"], dense.model.words.weight.detach())
    assert not any({CLOCK, SINCE} & set(own) for own in saved["optimizer"]["state"].values())
    for on_demand in (True, False):
        resumed = Training(True, on_demand)
        resumed.model.load_state_dict(saved["model"])
        resumed.opt.load_state_dict(saved["optimizer"])
        resumed.scheduler = torch.optim.lr_scheduler.ExponentialLR(resumed.opt, 0.99)
        reference = copy.deepcopy(dense)
        reference.scheduler = torch.optim.lr_scheduler.ExponentialLR(reference.opt, 0.99)
        for training in (resumed, reference):
            training.run(schedule(30, seed=1))
        assert_close(resumed.points(), reference.points())


def test_copies_go_on_by_themselves() -> None:
    training, dense = Training(True, True), Training(False)
    training.run(schedule(30))
    model, opt = copy.deepcopy((training.model, training.opt))
    training.run(schedule(30, seed=1))
    twin = Training(True)
    twin.model, twin.opt = model, opt
    twin.scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    twin.run(schedule(30, seed=1))
    dense.run(schedule(30))
    dense.scheduler = torch.optim.lr_scheduler.ExponentialLR(dense.opt, 0.99)
    dense.run(schedule(30, seed=1))
    assert_close(twin.points(), dense.points())


def test_without_the_hooks_all_is_as_it_was() -> None:
    training, dense = Training(True, True), Training(False)
    training.run(schedule(20))
    dense.run(schedule(20))
    training.opt.settle()
    for handle in training.handles:
        handle.remove()
    with torch.no_grad():
        torch.testing.assert_close(training.model.words.weight, dense.model.words.weight)


# Costs ------------------------------------------------------------------------------------------


class Sizes(TorchDispatchMode):
    """The largest number of entries that any operator returned, and what waits for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        self.waiting: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        in_place = str(func).split(".")[1].endswith("_") or "view" in str(func)
        if any(name in str(func) for name in ("_local_scalar_dense", "nonzero", "unique")):
            self.waiting.append(str(func))
        if isinstance(found, torch.Tensor) and not in_place and func.__name__ not in VIEWS:
            self.largest = max(
                self.largest, found._values().numel() if found.is_sparse else found.numel()
            )
        return found


VIEWS = ("detach.default", "alias.default", "slice.Tensor", "select.int", "unbind.int")


def test_a_step_makes_nothing_as_large_as_the_vocabulary_and_waits_for_nothing() -> None:
    words = nn.Embedding(10_000, 2, sparse=True)
    opt = RecursiveOptimizer(words.parameters())
    rows_on_demand(words, opt)

    def round_(rows: torch.Tensor) -> None:
        opt.zero_grad()
        words(rows).square().sum().backward()
        opt.step()

    round_(torch.tensor([1, 2]))
    with Sizes() as sizes:
        for _ in range(3):
            round_(torch.tensor([3, 4, 3]))
    assert sizes.largest < 20
    assert sizes.waiting == []


def test_touched_rows() -> None:
    rows, values = torch.tensor([[5, 1, 5, 2]]), torch.arange(8.0).reshape(4, 2)
    grad = torch.sparse_coo_tensor(rows, values, (7, 2), check_invariants=True)
    found, sums, mask = touched(grad)
    assert found.tolist() == [1, 2, 5, 5]
    assert sums.tolist() == [[2, 3], [6, 7], [4, 6], [4, 6]]
    assert mask is not None
    assert mask.reshape(-1).tolist() == [True, True, True, False]
    found, sums, mask = touched(grad.coalesce())
    assert found.tolist() == [1, 2, 5]
    assert mask is None


# Refusals ---------------------------------------------------------------------------------------


def test_what_cannot_wait_is_refused() -> None:
    model = Model(True)
    for settings in ({"momentum": 0.9}, {"inner": constrained(recursive(diagonal()), box())}):
        opt = RecursiveOptimizer(model.parameters(), **settings)
        with pytest.raises(ValueError, match=r"rows of 0 of group 0 cannot be brought up to date"):
            rows_on_demand(model, opt)
    with pytest.raises(ValueError, match=r"no nn\.Embedding or nn\.EmbeddingBag with sparse=True"):
        rows_on_demand(Model(False), RecursiveOptimizer(Model(False).parameters()))


def test_shared_weights_are_stepped_whole() -> None:
    """A gradient that is dense, because another layer reads all rows."""
    results = []
    for sparse in (True, False):
        torch.manual_seed(0)
        words = nn.Embedding(WORDS, WIDTH, sparse=sparse, dtype=torch.float64)
        opt = RecursiveOptimizer(words.parameters())
        if sparse:
            rows_on_demand(words, opt)
        for rows in schedule(30):
            opt.zero_grad()
            nn.functional.linear(words(rows), words.weight).square().mean().backward()
            opt.step()
        results.append(words.weight.detach().clone())
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)
