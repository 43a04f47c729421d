"""LM1B (two slices), a transformer foretells each next word: accuracy, log-perplexity, loss."""

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
    COMMON_DEVIATIONS,
    LANGUAGE,
)
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
        "full": Size(FULL, 3, ADAM, ADAGRAD),
        "small": Size(SMALL, 1, ADAM_FEW, ADAGRAD_FEW),
        "quick": Size(QUICK, 1, ADAM_FEW, ADAGRAD_FEW),
        "smoke": Size(SMOKE, 2, ADAM_ONE, ADAGRAD_ONE),
    },
    metric="test_loss",
    panels=LANGUAGE,
    judge=all_of(level_with_adam, momentum_hurts),
    deviations=(
        *COMMON_DEVIATIONS,
        "trained on the held-out shards 10 and 11 (0.3 million words) and tested on 12 and 13, not "
        "on the billion words: what can be had without the archive of 1.8 GB",
        "the 16,000 most frequent words instead of 32,000 parts of words; a pre-norm transformer "
        "of 2 layers of width 256, rows of 64 words; 10 epochs of batches of 32 rows",
        "the small cut: 200 batches of 16 rows of 32 words, 4,000 kinds, width 128, 200 test rows",
    ),
)


def main(argv: Sequence[str]) -> int:
    """Run, write the tables, draw the figure, judge."""
    return command(EXPERIMENT, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
