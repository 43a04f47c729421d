"""accelerate: what it wraps is what it was."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("accelerate")
from accelerate import Accelerator

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

ACCUMULATE, CLIP = 2, 0.5


class Run:
    """A model in training under an Accelerator."""

    def __init__(self, folder: Path | None = None) -> None:
        self.accelerator = Accelerator(
            cpu=True, gradient_accumulation_steps=ACCUMULATE, project_dir=folder
        )
        model = made()
        opt = RecursiveOptimizer(model.parameters(), momentum=0.9)
        loader = DataLoader(TensorDataset(*examples()), batch_size=SIZE)
        schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
        self.inner = opt
        self.model, self.opt, self.loader, self.schedule = self.accelerator.prepare(
            model, opt, loader, schedule
        )

    def epochs(self, count: int) -> list[torch.Tensor]:
        """Train, and look at the weights."""
        self.model.train()
        for _ in range(count):
            for batch in self.loader:
                with self.accelerator.accumulate(self.model):
                    self.accelerator.backward(squared_error(self.model, batch))
                    if self.accelerator.sync_gradients:
                        self.accelerator.clip_grad_norm_(self.model.parameters(), CLIP)
                    self.opt.step()
                    self.schedule.step()
                    self.opt.zero_grad()  # not before: it acts in those rounds that step
        return weights(self.model)


def by_hand(epochs: int) -> tuple[nn.Module, RecursiveOptimizer]:
    model = made()
    opt = RecursiveOptimizer(model.parameters(), momentum=0.9)
    batches = list(DataLoader(TensorDataset(*examples()), batch_size=SIZE))
    rounds = [batches[i : i + ACCUMULATE] for i in range(0, len(batches), ACCUMULATE)]
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    plain_loop(model, opt, rounds * epochs, squared_error, clip=CLIP, scheduler=schedule)
    return model, opt


def test_it_trains_as_a_plain_loop_does() -> None:
    """With gradient accumulation, clipping and a schedule."""
    model, _ = by_hand(2)
    assert_same(Run().epochs(2), weights(model), weights(made()))


def test_eval_and_train_reach_the_optimizer() -> None:
    """So that what is `prepare`d is switched as what was given."""
    run, (model, opt) = Run(), by_hand(1)
    training = run.epochs(1)
    run.opt.eval()
    opt.eval()
    assert_same(weights(run.model), weights(model), weights(made()))
    assert distance(weights(model), training) > 1e-5
    run.opt.train()
    assert distance(weights(run.model), training) == 0


@pytest.mark.parametrize("evaluating", [False, True])
def test_a_saved_state_resumes(tmp_path: Path, evaluating: bool) -> None:
    run = Run(tmp_path)
    run.epochs(1)
    if evaluating:
        run.opt.eval()
    run.accelerator.save_state(str(tmp_path / "state"))
    run.opt.train()
    whole = run.epochs(1)

    other = Run(tmp_path)
    other.accelerator.load_state(str(tmp_path / "state"))
    other.opt.train()
    assert distance(other.epochs(1), whole) == 0
    other.opt.eval()
    run.opt.eval()
    assert distance(weights(other.model), weights(run.model)) == 0


def test_a_step_while_the_average_is_in_place_is_refused() -> None:
    run = Run()
    run.epochs(1)
    run.opt.eval()
    with pytest.raises(RuntimeError, match=r"call opt\.train\(\)"):
        run.epochs(1)


def test_diagnostics_are_the_inner_optimizer_s() -> None:
    run = Run()
    run.epochs(1)
    found: dict[str, Any] = run.opt.optimizer.diagnostics()
    assert found == run.inner.diagnostics()
