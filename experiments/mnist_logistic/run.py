"""MNIST, logistic regression: test accuracy and train loss."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..training.command import main as command
from ..training.experiment import Experiment, Size
from ..training.grids import (
    ADAGRAD,
    ADAGRAD_FEW,
    ADAGRAD_ONE,
    ADAM,
    ADAM_FEW,
    ADAM_ONE,
    BY_STEP,
    COMMON_DEVIATIONS,
)
from ..training.judges import same_train_loss
from ..training.perceptron import Perceptron
from ..training.setting import Setting, Source

EPOCH = 60_000 // 128
MNIST, MADE_UP = Source("mnist"), Source("mnist", rows=128, test_rows=64, made_up=True)

EXPERIMENT = Experiment(
    name="mnist-logistic",
    title="MNIST with logistic regression",
    claim="On this convex problem all optimizers come down to the same train loss.",
    sizes={
        "full": Size(Setting(MNIST, Perceptron(), 128, 20 * EPOCH, 20, 60_000), 3, ADAM, ADAGRAD),
        "small": Size(Setting(MNIST, Perceptron(), 128, 5 * EPOCH, 10), 1, ADAM_FEW, ADAGRAD_FEW),
        "quick": Size(Setting(MNIST, Perceptron(), 128, EPOCH, 5), 1, ADAM_FEW, ADAGRAD_FEW),
        "smoke": Size(Setting(MADE_UP, Perceptron(), 16, 8, 2), 2, ADAM_ONE, ADAGRAD_ONE),
    },
    metric="test_accuracy",
    panels=BY_STEP,
    judge=same_train_loss,
    deviations=(
        *COMMON_DEVIATIONS,
        "20 epochs of batches of 128, after which train loss still falls; the paper does not say "
        "how many steps it took",
    ),
)


def main(argv: Sequence[str]) -> int:
    """Run, write the tables, draw the figure, judge."""
    return command(EXPERIMENT, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
