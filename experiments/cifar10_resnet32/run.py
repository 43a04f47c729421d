"""CIFAR-10, ResNet-32: test accuracy and train loss, by step and by time."""

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
    BY_STEP_AND_TIME,
    COMMON_DEVIATIONS,
)
from ..training.judges import all_of, momentum_helps, slightly_behind_adam
from ..training.resnet import ResNet
from ..training.setting import Setting, Source

FULL = Setting(Source("cifar10"), ResNet(5), 128, 60 * (50_000 // 128), 30, augment=True)
SMALL = Setting(
    Source("cifar10", rows=4_000, test_rows=500), ResNet(5), 32, 120, 4, 300, augment=True
)
QUICK = Setting(
    Source("cifar10", rows=2_000, test_rows=300), ResNet(5), 32, 40, 4, 300, augment=True
)
SMOKE = Setting(
    Source("cifar10", rows=64, test_rows=32, made_up=True), ResNet(1), 8, 4, 2, augment=True
)

EXPERIMENT = Experiment(
    name="cifar10-resnet32",
    title="CIFAR-10 with ResNet-32",
    claim="Here the algorithm is slightly worse than Adam, and its momentum analogue helps.",
    sizes={
        "full": Size(FULL, 3, ADAM, ADAGRAD),
        "small": Size(SMALL, 1, ADAM_FEW, ADAGRAD_FEW),
        "quick": Size(QUICK, 1, ADAM_FEW, ADAGRAD_FEW),
        "smoke": Size(SMOKE, 2, ADAM_ONE, ADAGRAD_ONE),
    },
    metric="test_accuracy",
    panels=BY_STEP_AND_TIME,
    judge=all_of(slightly_behind_adam, momentum_helps),
    deviations=(
        *COMMON_DEVIATIONS,
        "60 epochs of batches of 128, shifted and mirrored; at the average of the weights, the "
        "batch-norm statistics are taken anew from the latest 50 batches",
        "the small cut: 4,000 images, 120 batches of 32, 500 test images",
    ),
)


def main(argv: Sequence[str]) -> int:
    """Run, write the tables, draw the figure, judge."""
    return command(EXPERIMENT, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
