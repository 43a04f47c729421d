"""MNIST, a fully connected network of two hidden layers: test accuracy and train loss."""

from __future__ import annotations

from functools import partial

from ..training import grids
from ..training.command import run
from ..training.experiment import Experiment
from ..training.judges import level_with_adam
from ..training.perceptron import Perceptron
from ..training.setting import Setting, Source

EPOCH = 60_000 // 128
MNIST, MADE_UP = Source("mnist"), Source("mnist", rows=128, test_rows=64, made_up=True)
NETWORK = Perceptron((256, 256))
FULL = grids.full(Setting(MNIST, NETWORK, 128, 5 * EPOCH, 15))

EXPERIMENT = Experiment(
    name="mnist-mlp",
    title="MNIST with a two-layer fully connected network",
    claim="On networks the algorithm is competitive: level with Adam, or ahead of it.",
    sizes={
        "full": FULL,
        "cpu": FULL,
        "small": grids.cut(Setting(MNIST, NETWORK, 128, 3 * EPOCH, 10)),
        "quick": grids.cut(Setting(MNIST, NETWORK, 128, EPOCH, 5)),
        "smoke": grids.smoke(Setting(MADE_UP, Perceptron((16,)), 16, 8, 2)),
    },
    metric="test_accuracy",
    panels=grids.BY_STEP,
    judge=level_with_adam,
    deviations=(
        *grids.COMMON_DEVIATIONS,
        "two hidden layers of 256, as in Tensor2Tensor's basic_fc_small; 5 epochs of batches of "
        "128; the paper does not say how many steps it took",
    ),
)

main = partial(run, EXPERIMENT)
