"""IMDB, is a film review favourable, with a transformer: test accuracy and train loss."""

from __future__ import annotations

from functools import partial

from ..training import grids
from ..training.command import run
from ..training.experiment import Experiment
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
CPU = Setting(
    Source("imdb", 10_000, 128, test_rows=1_500),
    Transformer(10_000, width=64, hidden=256, classes=2),
    batch=16,
    steps=1_000,
    looks=5,
    measured_rows=500,
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
        "full": grids.full(FULL),
        "cpu": grids.cut(CPU, grids.ADAM_CPU, (3e-3, 1e-2)),
        "small": grids.cut(SMALL),
        "quick": grids.cut(QUICK),
        "smoke": grids.smoke(SMOKE),
    },
    metric="test_accuracy",
    panels=grids.BY_STEP,
    judge=all_of(level_with_adam, momentum_hurts),
    deviations=(
        *grids.COMMON_DEVIATIONS,
        "a pre-norm transformer of 2 layers of width 256 over the first 256 words of a review, out "
        "of the 20,000 most frequent ones; the mean over the words is judged; 8 epochs of batches "
        "of 32",
        "the CPU-sized cut: all 25,000 reviews, 128 words each, 1,000 batches of 16, width 64, "
        "1,500 to test on",
        "the small cut: 6,000 reviews of 64 words, 160 batches of 32, width 128, 1,000 to test on",
    ),
)

main = partial(run, EXPERIMENT)
