"""MNIST, logistic regression: test accuracy and train loss."""

from __future__ import annotations

from functools import partial

from ..training import grids
from ..training.command import run
from ..training.experiment import Experiment
from ..training.judges import same_train_loss
from ..training.perceptron import Perceptron
from ..training.setting import Setting, Source

EPOCH = 60_000 // 128
MNIST, MADE_UP = Source("mnist"), Source("mnist", rows=128, test_rows=64, made_up=True)
LONG = Setting(MNIST, Perceptron(), 128, 100 * EPOCH, 20, 60_000)

EXPERIMENT = Experiment(
    name="mnist-logistic",
    title="MNIST with logistic regression",
    claim="On this convex problem all optimizers come down to the same train loss.",
    sizes={
        "full": grids.full(Setting(MNIST, Perceptron(), 128, 20 * EPOCH, 20, 60_000)),
        "cpu": grids.cut(LONG, grids.ADAM_FEW, (3e-2, 1e-1, 3e-1)),
        "small": grids.cut(Setting(MNIST, Perceptron(), 128, 5 * EPOCH, 10)),
        "quick": grids.cut(Setting(MNIST, Perceptron(), 128, EPOCH, 5)),
        "smoke": grids.smoke(Setting(MADE_UP, Perceptron(), 16, 8, 2)),
    },
    metric="test_accuracy",
    panels=grids.BY_STEP,
    judge=same_train_loss,
    deviations=(
        *grids.COMMON_DEVIATIONS,
        "20 epochs of batches of 128, after which train loss still falls; the paper does not say "
        "how many steps it took",
        "the CPU-sized cut: one seed and fewer rates, but 100 epochs",
    ),
)

main = partial(run, EXPERIMENT)
