"""CIFAR-10, ResNet-32: test accuracy and train loss, by step and by time."""

from __future__ import annotations

from functools import partial

from ..training import grids
from ..training.command import run
from ..training.experiment import Experiment
from ..training.judges import all_of, momentum_helps, slightly_behind_adam
from ..training.resnet import ResNet
from ..training.setting import Setting, Source

FULL = Setting(Source("cifar10"), ResNet(5), 128, 60 * (50_000 // 128), 30, augment=True)
CPU = Setting(Source("cifar10", test_rows=2_000), ResNet(1), 32, 3_200, 10, 1_000, augment=True)
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
        "full": grids.full(FULL),
        "cpu": grids.cut(CPU, grids.ADAM_CPU),
        "small": grids.cut(SMALL),
        "quick": grids.cut(QUICK),
        "smoke": grids.smoke(SMOKE),
    },
    metric="test_accuracy",
    panels=grids.BY_STEP_AND_TIME,
    judge=all_of(slightly_behind_adam, momentum_helps),
    deviations=(
        *grids.COMMON_DEVIATIONS,
        "60 epochs of batches of 128, shifted and mirrored; at the average of the weights, the "
        "batch-norm statistics are taken anew from the latest 50 batches",
        "the CPU-sized cut: ResNet-8 instead of ResNet-32, all 50,000 images, 3,200 batches of 32, "
        "2,000 test images",
        "the small cut: 4,000 images, 120 batches of 32, 500 test images",
    ),
)

main = partial(run, EXPERIMENT)
