"""MNIST, a fully connected network of two hidden layers: test accuracy and train loss."""

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
from ..training.judges import level_with_adam
from ..training.perceptron import Perceptron
from ..training.setting import Setting, Source

EPOCH = 60_000 // 128
MNIST, MADE_UP = Source("mnist"), Source("mnist", rows=128, test_rows=64, made_up=True)
NETWORK = Perceptron((256, 256))

EXPERIMENT = Experiment(
    name="mnist-mlp",
    title="MNIST with a two-layer fully connected network",
    claim="On networks the algorithm is competitive: level with Adam, or ahead of it.",
    sizes={
        "full": Size(Setting(MNIST, NETWORK, 128, 5 * EPOCH, 15), 3, ADAM, ADAGRAD),
        "small": Size(Setting(MNIST, NETWORK, 128, 3 * EPOCH, 10), 1, ADAM_FEW, ADAGRAD_FEW),
        "quick": Size(Setting(MNIST, NETWORK, 128, EPOCH, 5), 1, ADAM_FEW, ADAGRAD_FEW),
        "smoke": Size(Setting(MADE_UP, Perceptron((16,)), 16, 8, 2), 2, ADAM_ONE, ADAGRAD_ONE),
    },
    metric="test_accuracy",
    panels=BY_STEP,
    judge=level_with_adam,
    deviations=(
        *COMMON_DEVIATIONS,
        "two hidden layers of 256, as in Tensor2Tensor's basic_fc_small; 5 epochs of batches of "
        "128; the paper does not say how many steps it took",
    ),
)


def main(argv: Sequence[str]) -> int:
    """Run, write the tables, draw the figure, judge."""
    return command(EXPERIMENT, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
