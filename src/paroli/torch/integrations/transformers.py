"""`AveragedWeights` for the Trainer of Hugging Face's transformers."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback


class AveragedWeights(TrainerCallback):  # type: ignore[misc]  # no types are imported
    """Every checkpoint, and the model that training leaves, hold the averaged weights.

    The Trainer itself calls ``optimizer.eval()`` to evaluate and ``optimizer.train()`` to go on.
    It does not when it saves, nor when training ends.  Without this callback a checkpoint holds
    the average only where an evaluation came just before it; and where training is stopped without
    one, ``load_best_model_at_end`` would have the best weights taken for training weights.

    Checkpoints resume exactly: the optimizer's state knows which weights were in place.

    ::

        trainer = Trainer(model, args, ..., callbacks=[AveragedWeights()])
    """

    def on_step_end(
        self, args: Any, state: Any, control: Any, *, optimizer: Any, **others: Any
    ) -> None:
        # The Trainer's own callback has come before, and has decided.  Those that come later and
        # end training are heard at the end of the epoch, which always comes, and before the best
        # model is loaded.
        if control.should_save or control.should_training_stop:
            optimizer.eval()

    def on_epoch_end(
        self, args: Any, state: Any, control: Any, *, optimizer: Any, **others: Any
    ) -> None:
        self.on_step_end(args, state, control, optimizer=optimizer)
