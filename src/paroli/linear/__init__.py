"""Linear models that learn from streams of sparse rows, with nothing to tune.

Storage and traversal only: what is computed is `paroli.core.linear`'s.
"""

from paroli.linear.combined import Combined, combined
from paroli.linear.learner import LinearLearner

__all__ = ["Combined", "LinearLearner", "combined"]
