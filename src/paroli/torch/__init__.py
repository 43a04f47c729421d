"""The PyTorch front end: storage and traversal, no formulas."""

from paroli.torch.optimizer import RecursiveOptimizer

__all__ = ["RecursiveOptimizer"]
