"""Sizes, learning rates, panels and deviations that experiments share."""

from __future__ import annotations

from .experiment import Panel, Size
from .setting import Setting

ADAM = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
ADAGRAD = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
ADAM_FEW = (3e-4, 1e-3, 3e-3)
ADAGRAD_FEW = (1e-2, 3e-2, 1e-1)
ADAM_CPU = (3e-4, 1e-3, 3e-3, 1e-2)
"""Short runs like high rates: with fewer of them the best one would be the last one."""
ADAM_ONE, ADAGRAD_ONE = (1e-3,), (1e-2,)
"""Half a power of ten apart; `contestants.grid` adds the default where it is missing."""

BY_STEP = ((Panel("test_accuracy", "step"), Panel("train_loss", "step")),)
BY_STEP_AND_TIME = (
    (Panel("test_accuracy", "step"), Panel("test_accuracy", "seconds")),
    (Panel("train_loss", "step"), Panel("train_loss", "seconds")),
)
LANGUAGE = (
    BY_STEP_AND_TIME[0],
    (Panel("test_loss", "step"), Panel("test_loss", "seconds")),
    BY_STEP_AND_TIME[1],
)
"""As the paper lays them out."""

COMMON_DEVIATIONS = (
    "PyTorch instead of Tensor2Tensor; float32 (transformers on GPUs: bfloat16 autocast)",
    "learning rates are constant: no warm-up, no decay, no weight decay, no clipping, for anyone",
    "Adam and Adagrad: torch's defaults (rates 0.001 and 0.01; Adagrad's sums start at 0), and "
    "grids half a power of ten apart for both; the paper took Tensor2Tensor's rates",
    "the momentum analogue in both its forms: decay 0.9, as in the released code, and the average "
    "that the appendix prints; the paper does not say which one its figures show",
    "train loss is that of the evaluated weights on fixed training rows, without augmentation or "
    "dropout; seconds are those of training alone",
)


def full(setting: Setting) -> Size:
    """Every rate, three seeds."""
    return Size(setting, 3, ADAM, ADAGRAD)


def cut(
    setting: Setting,
    adam: tuple[float, ...] = ADAM_FEW,
    adagrad: tuple[float, ...] = ADAGRAD_FEW,
) -> Size:
    """Some rates, one seed."""
    return Size(setting, 1, adam, adagrad)


def smoke(setting: Setting) -> Size:
    """The default rates: to try the machinery."""
    return Size(setting, 2, ADAM_ONE, ADAGRAD_ONE)
