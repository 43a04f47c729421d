"""IMDB, is a film review favourable, with a transformer: test accuracy and train loss."""

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
from ..training.judges import all_of, level_with_adam, momentum_hurts
from ..training.setting import Setting, Source
from ..training.transformer import Transformer

FULL = Setting(
    Source("imdb", vocabulary=20_000, length=256),
    Transformer(20_000, classes=2),
    batch=32,
    steps=8 * (25_000 // 32),
    looks=24,
    measured_rows=5_000,
    autocast=True,
)
TINY = Transformer(10_000, width=128, hidden=512, classes=2)
SMALL = Setting(Source("imdb", 10_000, 64, 6_000, 1_000), TINY, 32, 160, 4, 300)
QUICK = Setting(Source("imdb", 10_000, 64, 3_000, 500), TINY, 32, 60, 4, 300)
SMOKE = Setting(
    Source("imdb", 50, 12, 64, 32, made_up=True), Transformer(50, 1, 16, 2, 32, classes=2), 8, 8, 2
)

EXPERIMENT = Experiment(
    name="imdb-transformer",
    title="IMDB sentiment classification with a transformer",
    claim="On transformers the algorithm is level with Adam or marginally ahead, and its momentum "
    "analogue seems to hurt.",
    sizes={
        "full": Size(FULL, 3, ADAM, ADAGRAD),
        "small": Size(SMALL, 1, ADAM_FEW, ADAGRAD_FEW),
        "quick": Size(QUICK, 1, ADAM_FEW, ADAGRAD_FEW),
        "smoke": Size(SMOKE, 2, ADAM_ONE, ADAGRAD_ONE),
    },
    metric="test_accuracy",
    panels=BY_STEP,
    judge=all_of(level_with_adam, momentum_hurts),
    deviations=(
        *COMMON_DEVIATIONS,
        "a pre-norm transformer of 2 layers of width 256 over the first 256 words of a review, out "
        "of the 20,000 most frequent ones; the mean over the words is judged; 8 epochs of batches "
        "of 32",
        "the small cut: 6,000 reviews of 64 words, 160 batches of 32, width 128, 1,000 to test on",
    ),
)


def main(argv: Sequence[str]) -> int:
    """Run, write the tables, draw the figure, judge."""
    return command(EXPERIMENT, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
