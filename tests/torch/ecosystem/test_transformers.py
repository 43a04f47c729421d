"""Hugging Face's Trainer: the plain loop's weights, and the average wherever it looks or saves."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from safetensors.torch import load_file
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from paroli.torch import RecursiveOptimizer
from paroli.torch.integrations.transformers import AveragedWeights
from tests.torch.ecosystem.loop import assert_same, distance, plain_loop, weights

STEPS, ACCUMULATE, CLIP, BATCH = 6, 2, 0.5, 4
FLOAT32 = 1e-6  # in which the models of transformers take their losses, whatever they are in


def made(dtype: torch.dtype = torch.float64) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=19, n_positions=6, n_embd=8, n_layer=1, n_head=2, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config).to(dtype)


def sentences(seed: int, count: int = 48) -> list[dict[str, torch.Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    rows = torch.randint(19, (count, 6), generator=rng).sort(1).values
    return [{"input_ids": row, "labels": row} for row in rows]


class Recorder(TrainerCallback):
    """What an observer sees at each evaluation."""

    def __init__(self) -> None:
        self.at_evaluations: dict[int, list[torch.Tensor]] = {}

    def on_evaluate(self, args: Any, state: Any, control: Any, *, model: Any, **kw: Any) -> None:
        self.at_evaluations[state.global_step] = weights(model)


class Collator:
    """Stacks rows, and remembers in which order they came."""

    def __init__(self) -> None:
        self.seen: list[torch.Tensor] = []

    def __call__(self, rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        ids = torch.stack([row["input_ids"] for row in rows])
        if len(ids) == BATCH:  # training's; those of evaluations are larger
            self.seen.append(ids)
        return {"input_ids": ids, "labels": ids.clone()}


def trainer_of(
    model: GPT2LMHeadModel, folder: Path, arguments: dict[str, Any], **others: Any
) -> Trainer:
    args = TrainingArguments(
        output_dir=str(folder),
        **{
            "max_steps": STEPS,
            "per_device_train_batch_size": BATCH,
            "gradient_accumulation_steps": ACCUMULATE,
            "max_grad_norm": CLIP,
            "use_cpu": True,
            "report_to": "none",
            "disable_tqdm": True,
            "logging_strategy": "no",
            "save_strategy": "no",
            "dataloader_pin_memory": False,
        }
        | arguments,
    )
    return Trainer(model, args, train_dataset=sentences(1), eval_dataset=sentences(2, 8), **others)


def with_optimizer(model: GPT2LMHeadModel, decay: float = 0.9) -> dict[str, Any]:
    opt = RecursiveOptimizer(model.parameters(), momentum=0.9)
    return {"optimizers": (opt, torch.optim.lr_scheduler.ExponentialLR(opt, decay))}


def by_hand(batches: list[torch.Tensor], steps: int = STEPS) -> dict[str, list[torch.Tensor]]:
    """The training weights and their average after so many steps of a plain loop."""
    model = made()
    opt, scheduler = with_optimizer(model)["optimizers"]
    rounds = [batches[i : i + ACCUMULATE] for i in range(0, len(batches), ACCUMULATE)][:steps]
    assert len(rounds) == steps
    plain_loop(
        model,
        opt,
        rounds,
        lambda model, ids: model(input_ids=ids, labels=ids).loss,
        clip=CLIP,
        scheduler=scheduler,
    )
    found = {"training": weights(model)}
    opt.eval()
    return found | {"average": weights(model)}


def saved(folder: Path) -> list[torch.Tensor]:
    model = made()
    model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    return weights(model)  # the head is tied to the embedding and not saved


def test_the_trainer_trains_as_a_plain_loop_does(tmp_path: Path) -> None:
    """With gradient accumulation, clipping and a schedule."""
    model, collator = made(), Collator()
    start = weights(model)
    trainer_of(model, tmp_path, {}, data_collator=collator, **with_optimizer(model)).train()
    assert_same(weights(model), by_hand(collator.seen)["training"], start, FLOAT32)


def test_a_class_and_its_settings_will_do(tmp_path: Path) -> None:
    """The Trainer makes two groups, with and without decay, and its own schedule."""
    model = made()
    trainer = trainer_of(
        model,
        tmp_path,
        {"weight_decay": 0.1, "learning_rate": 0.5, "lr_scheduler_type": "constant"},
        optimizer_cls_and_kwargs=(RecursiveOptimizer, {"momentum": 0.9}),
    )
    trainer.train()
    groups = trainer.optimizer.param_groups
    assert isinstance(trainer.optimizer.optimizer, RecursiveOptimizer)
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert [group["lr"] for group in groups] == [1.0, 1.0], "learning_rate is for others"
    assert all(p.ndim == 1 for p in groups[1]["params"])
    assert distance(weights(model), weights(made())) > 1e-5


def test_evaluation_is_at_the_average_and_training_goes_on_from_where_it_was(
    tmp_path: Path,
) -> None:
    """No glue: the Trainer calls `eval` and `train`."""
    model, collator, recorder = made(), Collator(), Recorder()
    start = weights(model)
    trainer = trainer_of(
        model,
        tmp_path,
        {"eval_strategy": "steps", "eval_steps": 3, "eval_on_start": True},
        data_collator=collator,
        callbacks=[recorder],
        **with_optimizer(model),
    )
    trainer.train()
    assert distance(recorder.at_evaluations[0], start) == 0
    for step in (3, STEPS):
        expected = by_hand(collator.seen, step)
        assert distance(expected["average"], expected["training"]) > 1e-5
        assert_same(recorder.at_evaluations[step], expected["average"], start, FLOAT32)
    trainer.optimizer.train()
    assert_same(weights(model), by_hand(collator.seen)["training"], start, FLOAT32)


CHECKPOINTS: dict[str, dict[str, Any]] = {
    "evaluated before": {"eval_strategy": "steps", "eval_steps": 3},
    "not evaluated": {},
}


@pytest.mark.parametrize("arguments", CHECKPOINTS.values(), ids=CHECKPOINTS)
@pytest.mark.parametrize("callbacks", [[], [AveragedWeights()]], ids=["plain", "callback"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_resumed_training_is_uninterrupted_training(
    tmp_path: Path, arguments: dict[str, Any], callbacks: list[Any], dtype: torch.dtype
) -> None:
    arguments = arguments | {"save_strategy": "steps", "save_steps": 3}

    def run(folder: Path, **more: Any) -> list[torch.Tensor]:
        torch.manual_seed(len(more))  # not what reproduces it
        model = made(dtype)
        trainer = trainer_of(model, folder, arguments, callbacks=callbacks, **with_optimizer(model))
        trainer.train(**more)
        trainer.optimizer.train()
        return weights(model)

    whole = run(tmp_path)
    resumed = run(tmp_path / "resumed", resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert distance(resumed, whole) == 0


def test_checkpoints_hold_the_average(tmp_path: Path) -> None:
    """With the callback, whether an evaluation came before or not; also the model at the end."""
    model, collator = made(), Collator()
    start = weights(model)
    trainer = trainer_of(
        model,
        tmp_path,
        {"save_strategy": "steps", "save_steps": 4},
        data_collator=collator,
        callbacks=[AveragedWeights()],
        **with_optimizer(model),
    )
    trainer.train()
    for step in (4, STEPS):
        average = by_hand(collator.seen, step)["average"]
        assert_same(saved(tmp_path / f"checkpoint-{step}"), average, start, FLOAT32)
    trainer.save_model(str(tmp_path / "end"))
    assert_same(saved(tmp_path / "end"), average, start, FLOAT32)


def test_a_checkpoint_at_the_end_of_an_epoch_holds_the_average(tmp_path: Path) -> None:
    model, collator = made(), Collator()
    start = weights(model)
    trainer = trainer_of(
        model,
        tmp_path,
        {"save_strategy": "epoch", "max_steps": -1, "num_train_epochs": 2},
        data_collator=collator,
        callbacks=[AveragedWeights()],
        **with_optimizer(model),
    )
    trainer.train()
    average = by_hand(collator.seen, 6)["average"]
    assert_same(saved(tmp_path / "checkpoint-6"), average, start, FLOAT32)


class Stop(TrainerCallback):
    """Ends training where no evaluation comes."""

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        control.should_training_stop = state.global_step == STEPS - 1


def test_the_best_model_is_an_average_and_evaluates_as_such(tmp_path: Path) -> None:
    model = made()
    trainer = trainer_of(
        model,
        tmp_path,
        {
            "eval_strategy": "steps",
            "eval_steps": 2,
            "save_strategy": "steps",
            "save_steps": 2,
            "load_best_model_at_end": True,
            "metric_for_best_model": "loss",
            "greater_is_better": True,  # so that the best is not the last
        },
        callbacks=[AveragedWeights(), Stop()],
        **with_optimizer(model),
    )
    trainer.train()
    assert trainer.state.best_global_step == 2
    assert distance(weights(model), saved(tmp_path / "checkpoint-2")) == 0
    assert trainer.evaluate()["eval_loss"] == pytest.approx(trainer.state.best_metric, rel=1e-6)


@pytest.mark.xfail(
    raises=RuntimeError, reason="eval() refuses where average=False, and the Trainer calls it"
)
def test_an_optimizer_without_average_evaluates_at_its_weights(tmp_path: Path) -> None:
    model = made()
    trainer = trainer_of(
        model,
        tmp_path,
        {"eval_strategy": "steps", "eval_steps": 2},
        optimizer_cls_and_kwargs=(RecursiveOptimizer, {"average": False}),
    )
    trainer.train()
