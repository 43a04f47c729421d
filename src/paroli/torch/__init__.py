"""The PyTorch front end: storage and traversal, no formulas."""

from paroli.torch.batch_norm import update_batch_norm
from paroli.torch.optimizer import RecursiveOptimizer

__all__ = ["RecursiveOptimizer", "update_batch_norm"]
