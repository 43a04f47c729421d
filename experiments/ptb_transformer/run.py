"""Penn Treebank, a transformer foretells each next word: accuracy, log-perplexity, train loss."""

from __future__ import annotations

from functools import partial

from ..training import grids
from ..training.command import run
from ..training.experiment import Experiment
from ..training.judges import all_of, level_with_adam, momentum_hurts
from ..training.setting import Setting, Source
from ..training.transformer import Transformer

WORDS = 10_001
"""Padding and all the 10,000 kinds of words there are."""

FULL = Setting(
    Source("ptb", WORDS, 64),
    Transformer(WORDS),
    batch=32,
    steps=12 * (929_588 // 64 // 32),
    looks=24,
    measured_rows=1_000,
    autocast=True,
)
FEW_WORDS = 4_000
TINY = Transformer(FEW_WORDS, width=128, hidden=512)
CPU = Setting(Source("ptb", FEW_WORDS, 32, test_rows=800), TINY, 16, 2_400, 12, 200)
SMALL = Setting(Source("ptb", FEW_WORDS, 32, test_rows=200), TINY, 16, 200, 4, 100)
QUICK = Setting(Source("ptb", FEW_WORDS, 32, test_rows=100), TINY, 16, 60, 4, 100)
SMOKE = Setting(Source("ptb", 50, 12, 64, 32, made_up=True), Transformer(50, 1, 16, 2, 32), 8, 8, 2)

EXPERIMENT = Experiment(
    name="ptb-transformer",
    title="Penn Treebank with a transformer",
    claim="On transformers the algorithm is level with Adam or marginally ahead, and its momentum "
    "analogue seems to hurt.",
    sizes={
        "full": grids.full(FULL),
        "cpu": grids.cut(CPU, grids.ADAM_CPU, (3e-3, 1e-2, 3e-2, 1e-1)),
        "small": grids.cut(SMALL),
        "quick": grids.cut(QUICK),
        "smoke": grids.smoke(SMOKE),
    },
    metric="test_loss",
    panels=grids.LANGUAGE,
    judge=all_of(level_with_adam, momentum_hurts),
    deviations=(
        *grids.COMMON_DEVIATIONS,
        "a pre-norm transformer of 2 layers of width 256, rows of 64 words that know nothing of "
        "the words before them; 12 epochs of batches of 32 rows",
        "the CPU-sized cut: 2,400 batches of 16 rows of 32 words, 4,000 kinds, width 128, 800 test "
        "rows",
        "the small cut: 200 batches of 16 rows of 32 words, 4,000 kinds, width 128, 200 test rows",
    ),
)

main = partial(run, EXPERIMENT)
