"""Embeddings whose rows are brought up to date when they are next read.

A gradient of ``nn.Embedding(sparse=True)`` touches some rows, but a step moves them all: every
iterate is start + Wealth · v, and the wealth has changed.  The rows without gradient move by global
numbers only, so they can wait until somebody looks (`paroli.core.lazy`).  Who looks, in training,
is the embedding's own forward: `rows_on_demand` lets it bring the rows of its input up to date
first, and a step then costs what the touched rows cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from paroli.core.inplace import Keeping
from paroli.torch.leaves import Leaf, local

if TYPE_CHECKING:
    from paroli.torch.optimizer import RecursiveOptimizer

CLOCK, SINCE = "clock", "since"
"""Keys of ``state[p]``: what `paroli.core.lazy.Clock` shows, and what it showed each row last."""


class Rows(Leaf):
    """Some rows of one parameter.

    Args:
        p: the parameter.
        rows: which; a row may be there several times if all its values are alike.
        values: their gradients, if they have any.
        mask: 1 for one entry of each row, else 0; None: no row is there twice.
    """

    def __init__(
        self,
        p: torch.Tensor,
        group: dict[str, Any],
        storage: dict[str, torch.Tensor],
        keeping: Keeping,
        computed_in: torch.dtype,
        rows: torch.Tensor,
        values: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
    ) -> None:
        super().__init__([p], group, storage, keeping, computed_in)
        self.rows, self.values, self.mask = rows, values, mask
        self.quietly = False
        """Whether to move past autograd's count of changes: a graph that has read these rows, up to
        date, has read what is there afterwards."""

    def _gradient_of(self, p: torch.Tensor) -> torch.Tensor:
        assert self.values is not None
        return self.values

    def get(self, key: str) -> torch.Tensor:
        return self.storage[key].index_select(0, self.rows)

    def put(self, key: str, value: torch.Tensor) -> None:
        whole = self.storage[key]
        whole.index_copy_(0, self.rows, value.to(whole.dtype))

    def point(self) -> torch.Tensor:
        return local(self.params[0]).index_select(0, self.rows)

    def set_point(self, x: torch.Tensor) -> None:
        (p,) = self.params
        whole = local(p.data if self.quietly else p)
        whole.index_copy_(0, self.rows, x.to(whole.dtype))

    def numbers(self) -> torch.Tensor:
        point = local(self.params[0])
        count = point[0].numel()
        each = torch.arange(count, dtype=torch.int32, device=point.device).view(point.shape[1:])
        first = (self.rows * count).to(torch.int32).reshape(-1, *[1] * each.ndim)
        return first + each


def touched(
    grad: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The rows of a sparse gradient, their values, and a mask as `Rows` wants them.

    Unlike `torch.Tensor.coalesce`, it need not know how many rows there are: a count that the host
    would have to wait for.
    """
    (rows,), values = grad._indices(), grad._values()
    if grad.is_coalesced():
        return rows, values, None
    rows, order = torch.sort(rows, stable=True)
    first = torch.ones_like(rows, dtype=torch.bool)
    first[1:] = rows[1:] != rows[:-1]
    number = torch.cumsum(first, 0) - 1
    sums = torch.zeros_like(values).index_add_(0, number, values[order])
    mask = first.reshape(-1, *[1] * (values.ndim - 1))
    return rows, sums[number], mask


class BringUp:
    """What an embedding does before it reads: a hook that copies and pickles with its optimizer."""

    def __init__(self, optimizer: RecursiveOptimizer) -> None:
        self.optimizer = optimizer

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before a forward: the rows that it will read."""
        rows = args[0] if args else kwargs["input"]
        weight: Any = module.weight
        self.optimizer.bring_up(weight, rows.reshape(-1))

    def whole(self, module: nn.Module, prefix: str, keep_vars: bool) -> None:
        """Before a ``state_dict()``: all rows."""
        weight: Any = module.weight
        self.optimizer.settle(weight)


def rows_on_demand(model: nn.Module, optimizer: RecursiveOptimizer) -> list[RemovableHandle]:
    """Let sparse embeddings bring their rows up to date when they are read.

    For every ``nn.Embedding`` and ``nn.EmbeddingBag`` with ``sparse=True`` whose weight the
    optimizer has.  A step then costs what the touched rows cost, whatever the size of the
    vocabulary, and training yields what it yields without.

    What is read by the module's own forward, in its ``state_dict()``, or after
    ``optimizer.eval()`` is up to date.  One limit remains: who reads ``weight`` by other ways
    (a norm, a copy of the model, another layer that shares it) calls ``optimizer.settle()`` first.

    Args:
        model: with the embeddings.
        optimizer: that has their weights; with momentum its bets depend on when a row was last
            seen in more ways than can be kept, and it is refused.

    Returns:
        Handles of the hooks; after ``optimizer.settle()`` they may be removed.

    >>> import torch
    >>> from paroli.torch import RecursiveOptimizer, rows_on_demand
    >>> words = torch.nn.EmbeddingBag(10_000, 4, sparse=True)
    >>> opt = RecursiveOptimizer(words.parameters())
    >>> handles = rows_on_demand(words, opt)
    >>> words(torch.tensor([[3, 7, 7]])).sum().backward()
    >>> opt.step()
    """
    known = {p for group in optimizer.param_groups for p in group["params"]}
    found = [
        module
        for module in model.modules()
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag))
        and module.sparse
        and module.weight in known
    ]
    if not found:
        raise ValueError(
            "rows_on_demand: the model has no nn.Embedding or nn.EmbeddingBag with sparse=True "
            "whose weight the optimizer has; make them with sparse=True"
        )
    for module in found:
        optimizer.wait_for_rows(module.weight)
    handles = []
    for module in found:
        hook = BringUp(optimizer)
        handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
        handles.append(module.register_state_dict_pre_hook(hook.whole))  # type: ignore[no-untyped-call]
    return handles
