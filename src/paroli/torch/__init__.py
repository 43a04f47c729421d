"""The PyTorch front end: storage and traversal, no formulas."""

from paroli.torch.batch_norm import update_batch_norm
from paroli.torch.optimizer import RecursiveOptimizer
from paroli.torch.rows import rows_on_demand

__all__ = ["RecursiveOptimizer", "rows_on_demand", "update_batch_norm"]
