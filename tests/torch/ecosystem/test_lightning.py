"""Lightning: the plain loop's weights, and the average wherever it validates or saves."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("lightning")
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from paroli.torch import RecursiveOptimizer
from paroli.torch.integrations.lightning import AveragedWeights
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

ACCUMULATE, CLIP, EPOCHS = 2, 0.5, 3
A_STEP = 6 // ACCUMULATE
"""How many steps make an epoch of six batches."""

# Lightning's advice on speed, and a way of looking at trees that this torch deprecates.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{message}")
    for message in (
        ".*does not have many workers",
        ".*The number of training batches",
        r"`isinstance\(treespec, LeafSpec\)` is deprecated:FutureWarning",
    )
]


def settings(opt: RecursiveOptimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)


class Module(LightningModule):
    """A model in training; it notes the weights that it is validated at."""

    def __init__(self, average: bool = True, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.model = made().to(dtype)
        self.average = average
        self.validated: dict[int, list[torch.Tensor]] = {}

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        return self.error(batch)

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("error", self.error(batch))
        self.validated[self.trainer.global_step] = weights(self.model)

    def error(self, batch: Any) -> torch.Tensor:
        x, y = batch
        dtype = self.model[0].weight.dtype
        return squared_error(self.model, (x.to(dtype), y.to(dtype)))

    def configure_optimizers(self) -> Any:
        opt = RecursiveOptimizer(self.model.parameters(), momentum=0.9, average=self.average)
        schedule = {"scheduler": settings(opt), "interval": "step"}
        return {"optimizer": opt, "lr_scheduler": schedule}


class Loader(DataLoader[Any]):
    """Batches in a fixed order, which go on in the middle of an epoch after a checkpoint."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(TensorDataset(*examples(seed=seed)), batch_size=SIZE)
        self.position, self.first = 0, 0

    def __iter__(self) -> Iterator[Any]:
        first, self.first = self.first, 0
        for self.position, batch in enumerate(super().__iter__(), start=1):
            if self.position > first:
                yield batch

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position % len(self)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.first = state["position"]


def trainer_of(folder: Path, *callbacks: Callback, **others: Any) -> Trainer:
    return Trainer(
        **{
            "accelerator": "cpu",
            "max_epochs": EPOCHS,
            "accumulate_grad_batches": ACCUMULATE,
            "gradient_clip_val": CLIP,
            "default_root_dir": folder,
            "logger": False,
            "enable_checkpointing": any(isinstance(c, ModelCheckpoint) for c in callbacks),
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "callbacks": list(callbacks),
        }
        | others
    )


def fit(module: Module, trainer: Trainer, resume: Path | None = None) -> None:
    trainer.fit(module, Loader(1), Loader(2), ckpt_path=resume)


def by_hand(steps: int) -> dict[str, list[torch.Tensor]]:
    """The training weights and their average after so many steps of a plain loop."""
    model = made()
    opt = RecursiveOptimizer(model.parameters(), momentum=0.9)
    batches = list(Loader())
    rounds = [batches[i : i + ACCUMULATE] for i in range(0, len(batches), ACCUMULATE)]
    plain_loop(
        model,
        opt,
        [rounds[t % len(rounds)] for t in range(steps)],
        squared_error,
        clip=CLIP,
        scheduler=settings(opt),
    )
    found = {"training": weights(model)}
    opt.eval()
    return found | {"average": weights(model)}


def saved(path: Path) -> list[torch.Tensor]:
    module = Module()
    module.load_state_dict(torch.load(path, weights_only=True)["state_dict"])
    return weights(module.model)


def training_weights(module: Module, trainer: Trainer) -> list[torch.Tensor]:
    trainer.optimizers[0].train()
    return weights(module.model)


def test_the_trainer_trains_as_a_plain_loop_does(tmp_path: Path) -> None:
    """With closures, gradient accumulation, clipping and a schedule, and without any callback."""
    module = Module()
    fit(module, trainer_of(tmp_path))
    assert_same(weights(module.model), by_hand(A_STEP * EPOCHS)["training"], weights(made()))
    assert_same(module.validated[A_STEP], by_hand(A_STEP)["training"], weights(made()))


def test_validation_is_at_the_average_and_training_goes_on_from_where_it_was(
    tmp_path: Path,
) -> None:
    """In the middle of an epoch and at its end; the sanity check comes before any step."""
    module = Module()
    trainer = trainer_of(tmp_path, AveragedWeights(), val_check_interval=2)
    fit(module, trainer)
    assert distance(module.validated.pop(0), weights(made())) == 0
    assert distance(module.validated.pop(1), weights(made())) == 0, "the average of the start"
    assert list(module.validated) == list(range(2, A_STEP * EPOCHS + 1))
    for step, found in module.validated.items():
        expected = by_hand(step)
        assert distance(expected["average"], expected["training"]) > 1e-3
        assert_same(found, expected["average"], weights(made()))
    assert_same(weights(module.model), expected["average"], weights(made()))
    assert_same(training_weights(module, trainer), expected["training"], weights(made()))


CHECKPOINTS: dict[str, Callable[[Path], ModelCheckpoint]] = {
    "after validation": lambda folder: ModelCheckpoint(
        folder, "{step}", monitor="error", mode="max", save_top_k=-1
    ),
    "after an epoch": lambda folder: ModelCheckpoint(
        folder, "{step}", save_on_train_epoch_end=True, save_top_k=-1
    ),
    "weights after validation": lambda folder: ModelCheckpoint(
        folder, "{step}", save_on_train_epoch_end=False, save_top_k=-1, save_weights_only=True
    ),
    "weights after an epoch": lambda folder: ModelCheckpoint(
        folder, "{step}", save_on_train_epoch_end=True, save_top_k=-1, save_weights_only=True
    ),
    "after a step": lambda folder: ModelCheckpoint(
        folder, "{step}", every_n_train_steps=2, save_top_k=-1
    ),
}


@pytest.mark.parametrize(
    ("kind", "validating"),
    [(kind, True) for kind in CHECKPOINTS]
    + [(kind, False) for kind in CHECKPOINTS if "validation" not in kind],
)
def test_checkpoints_hold_the_average(tmp_path: Path, kind: str, validating: bool) -> None:
    module = Module()
    trainer = trainer_of(
        tmp_path,
        CHECKPOINTS[kind](tmp_path),
        AveragedWeights(),
        **({} if validating else {"limit_val_batches": 0}),
    )
    fit(module, trainer)
    end = by_hand(A_STEP * EPOCHS)
    assert_same(weights(module.model), end["average"], weights(made()))
    found = {int(path.stem.removeprefix("step=")): path for path in tmp_path.glob("*.ckpt")}
    assert len(found) >= EPOCHS
    for step, path in found.items():
        assert_same(saved(path), by_hand(step)["average"], weights(made()))
    assert_same(training_weights(module, trainer), end["training"], weights(made()))


RESUMABLE = [kind for kind in CHECKPOINTS if "weights" not in kind]


@pytest.mark.parametrize("kind", RESUMABLE)
@pytest.mark.parametrize("callbacks", [[], [AveragedWeights()]], ids=["plain", "callback"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.filterwarnings("ignore:The dirpath has changed")
def test_resumed_training_is_uninterrupted_training(
    tmp_path: Path, kind: str, callbacks: list[Callback], dtype: torch.dtype
) -> None:
    whole = Module(dtype=dtype)
    trainer = trainer_of(tmp_path, CHECKPOINTS[kind](tmp_path), *callbacks)
    fit(whole, trainer)
    expected = training_weights(whole, trainer)
    paths = sorted(tmp_path.glob("*.ckpt"))
    assert len(paths) >= EPOCHS
    for path in paths:
        resumed = Module(dtype=dtype)
        folder = tmp_path / "resumed" / path.stem
        resaving = CHECKPOINTS[kind](folder)  # whose state is in the checkpoint
        trainer = trainer_of(folder, resaving, *callbacks)
        fit(resumed, trainer, resume=path)
        assert distance(training_weights(resumed, trainer), expected) == 0
        for step, found in resumed.validated.items():
            assert distance(found, whole.validated[step]) == 0


def test_the_best_checkpoint_is_an_average_and_tests_as_such(tmp_path: Path) -> None:
    module = Module()
    best = CHECKPOINTS["after validation"](tmp_path)
    trainer = trainer_of(tmp_path, best, AveragedWeights())
    fit(module, trainer)
    (result,) = trainer.validate(module, Loader(2), ckpt_path=best.best_model_path)
    assert result["error"] == pytest.approx(float(best.best_model_score))


def test_fitting_again_goes_on(tmp_path: Path) -> None:
    """The module may keep its optimizer from one `fit` to the next."""
    module = Module()
    configured = module.configure_optimizers()
    module.configure_optimizers = lambda: configured
    fit(module, trainer_of(tmp_path, AveragedWeights(), max_epochs=1))
    trainer = trainer_of(tmp_path, AveragedWeights(), max_epochs=2)
    fit(module, trainer)
    expected = by_hand(A_STEP * 3)
    assert_same(weights(module.model), expected["average"], weights(made()))


def test_without_an_average_the_callback_does_nothing(tmp_path: Path) -> None:
    module = Module(average=False)
    fit(module, trainer_of(tmp_path, AveragedWeights()))
    assert_same(weights(module.model), by_hand(A_STEP * EPOCHS)["training"], weights(made()))


class ByHand(Module):
    """Manual optimization: two optimizers, of which one is ours, and looks through the wrapper."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.other = nn.Linear(3, 1).double()
        self.seen: list[dict[str, float]] = []

    def configure_optimizers(self) -> Any:
        return [
            RecursiveOptimizer(self.model.parameters(), momentum=0.9),
            torch.optim.SGD(self.other.parameters(), 0.1),
        ]

    def training_step(self, batch: Any, index: int) -> None:
        ours, theirs = self.optimizers()
        ours.zero_grad()
        theirs.zero_grad()
        self.manual_backward(self.error(batch) + squared_error(self.other, batch))
        ours.step()
        theirs.step()
        before = weights(self.model)
        ours.eval()
        with pytest.raises(RuntimeError, match=r"call opt\.train\(\)"):
            ours.step()
        ours.train()
        assert distance(weights(self.model), before) == 0
        self.seen.append(ours.diagnostics())


def test_the_wrapper_that_modules_see_switches_and_looks(tmp_path: Path) -> None:
    """Lightning's wrapper is an object of its own: it would lose what is written to `self`."""
    module = ByHand()
    trainer = trainer_of(
        tmp_path,
        AveragedWeights(),
        accumulate_grad_batches=1,
        gradient_clip_val=None,
    )
    fit(module, trainer)
    model = made()
    opt = RecursiveOptimizer(model.parameters(), momentum=0.9)
    plain_loop(model, opt, [[batch] for batch in Loader()] * EPOCHS, squared_error)
    assert module.seen[-1] == pytest.approx(opt.diagnostics())
    opt.eval()
    assert_same(weights(module.model), weights(model), weights(made()))
