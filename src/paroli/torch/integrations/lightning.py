"""`AveragedWeights` for Lightning."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback

from paroli.torch.optimizer import RecursiveOptimizer


class AveragedWeights(Callback):  # type: ignore[misc]  # no types are imported
    """Validation, checkpoints and the model that training leaves have the averaged weights.

    From the start of a validation, the end of an epoch or the saving of a checkpoint until the
    next training batch begins, the average is in place.  Not only while validation runs: Lightning
    saves checkpoints right after it, when hooks for its end have already been called.

    Checkpoints resume exactly: the optimizer's state knows which weights were in place.  One kind
    is out of reach: ``ModelCheckpoint(every_n_train_steps=..., save_weights_only=True)`` tells no
    callback, and keeps the training weights unless a validation came just before.

    ::

        trainer = Trainer(..., callbacks=[AveragedWeights()])
    """

    def on_train_batch_start(self, trainer: Any, *others: Any) -> None:
        for optimizer in _averaging(trainer):
            optimizer.train()

    def on_validation_start(self, trainer: Any, *others: Any) -> None:
        for optimizer in _averaging(trainer):
            optimizer.eval()

    on_train_epoch_end = on_validation_start  # the last one comes when training ends

    def on_save_checkpoint(self, trainer: Any, module: Any, checkpoint: dict[str, Any]) -> None:
        # It was put together before anyone was asked: in the middle of an epoch, while training.
        if _averaging(trainer):
            self.on_validation_start(trainer)
            strategy = trainer.strategy
            checkpoint["state_dict"] = strategy.lightning_module_state_dict()
            checkpoint["optimizer_states"] = [
                strategy.optimizer_state(optimizer) for optimizer in trainer.optimizers
            ]


def _averaging(trainer: Any) -> list[RecursiveOptimizer]:
    return [
        optimizer
        for optimizer in trainer.optimizers
        if isinstance(optimizer, RecursiveOptimizer) and optimizer.average is not None
    ]
