"""LM1B (two slices), a transformer foretells each next word: accuracy, log-perplexity, loss."""

from __future__ import annotations

from functools import partial

from ..training import grids
from ..training.command import run
from ..training.experiment import Experiment
from ..training.judges import all_of, level_with_adam, momentum_hurts
from ..training.setting import Setting, Source
from ..training.transformer import Transformer

FULL = Setting(
    Source("lm1b", 16_000, 64),
    Transformer(16_000),
    batch=32,
    steps=10 * (322_705 // 64 // 32),
    looks=20,
    measured_rows=1_000,
    autocast=True,
)
FEW_WORDS = 4_000
TINY = Transformer(FEW_WORDS, width=128, hidden=512)
CPU = Setting(Source("lm1b", FEW_WORDS, 32, test_rows=600), TINY, 16, 1_200, 8, 200)
SMALL = Setting(Source("lm1b", FEW_WORDS, 32, test_rows=200), TINY, 16, 200, 4, 100)
QUICK = Setting(Source("lm1b", FEW_WORDS, 32, test_rows=100), TINY, 16, 60, 4, 100)
SMOKE = Setting(
    Source("lm1b", 50, 12, 64, 32, made_up=True), Transformer(50, 1, 16, 2, 32), 8, 8, 2
)

EXPERIMENT = Experiment(
    name="lm1b-transformer",
    title="LM1B (two slices) with a transformer",
    claim="On transformers the algorithm is level with Adam or marginally ahead, and its momentum "
    "analogue seems to hurt.",
    sizes={
        "full": grids.full(FULL),
        "cpu": grids.cut(CPU, grids.ADAM_CPU),
        "small": grids.cut(SMALL),
        "quick": grids.cut(QUICK),
        "smoke": grids.smoke(SMOKE),
    },
    metric="test_loss",
    panels=grids.LANGUAGE,
    judge=all_of(level_with_adam, momentum_hurts),
    deviations=(
        *grids.COMMON_DEVIATIONS,
        "trained on the held-out shards 10 and 11 (0.3 million words) and tested on 12 and 13, not "
        "on the billion words: what can be had without the archive of 1.8 GB",
        "the 16,000 most frequent words instead of 32,000 parts of words; a pre-norm transformer "
        "of 2 layers of width 256, rows of 64 words; 10 epochs of batches of 32 rows",
        "the CPU-sized cut: 1,200 batches of 16 rows of 32 words, 4,000 kinds, width 128, 600 test "
        "rows",
        "the small cut: 200 batches of 16 rows of 32 words, 4,000 kinds, width 128, 200 test rows",
    ),
)

main = partial(run, EXPERIMENT)
