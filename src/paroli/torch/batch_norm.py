"""Batch-norm statistics of the weights that are in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_map


@torch.no_grad()
def update_batch_norm(
    model: torch.nn.Module,
    batches: Iterable[Any],
    forward: Callable[[Any], object] | None = None,
) -> None:
    """Take the running statistics of all batch norms anew, in one pass over ``batches``.

    Running statistics are those of the weights they were gathered with; the averaged weights need
    their own: after ``optimizer.eval()``, before evaluating or saving.

    Each batch counts alike, as in `torch.optim.swa_utils.update_bn`.  Unlike there, all else is in
    evaluation mode meanwhile, as it will be when the statistics are used: no dropout.  Modes,
    momenta and torch's random generators are left as they were, and if a batch fails, the
    statistics too.  A batch norm that no batch reaches keeps what it had; a model without batch
    norm is left alone, and so are the batches.

    Args:
        model: runs on one batch at a time; training goes on where it was.
        batches: such as a data loader.  The tensors in each batch are moved to the device of the
            model's first parameter.
        forward: what to do with a batch; None: ``model(batch)``, with the first of a tuple or list
            (the rest being targets), or ``model(**batch)`` for a dict.

    >>> import torch
    >>> from paroli.torch import update_batch_norm
    >>> norm = torch.nn.BatchNorm1d(1, affine=False)
    >>> update_batch_norm(norm, [torch.tensor([[1.0], [3.0]]), torch.tensor([[3.0], [5.0]])])
    >>> norm.running_mean
    tensor([3.])
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"update_batch_norm: model must be a torch.nn.Module, not {type(model).__name__}; "
            f"the order is update_batch_norm(model, batches)"
        )
    norms = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, _BatchNorm) and module.running_mean is not None
    }
    if not norms:
        return
    tensors = list(chain(model.parameters(), model.buffers()))
    device = tensors[0].device
    cuda = sorted({x.device.index for x in tensors if x.is_cuda})
    modes = [(module, module.training) for module in model.modules()]
    momenta = [(norm, norm.momentum) for norm in norms.values()]
    before = {name: [x.clone() for x in _statistics(norm)] for name, norm in norms.items()}
    reached: list[str] = []
    try:
        for module, _ in modes:  # not model.eval(), which some models override
            module.training = False
        for norm in norms.values():
            norm.reset_running_stats()
            norm.training, norm.momentum = True, None
        with torch.random.fork_rng(devices=cuda):
            count = 0
            for batch in batches:
                _run(model, tree_map(lambda x: _moved(x, device), batch), forward)
                count += 1
        reached = _checked(norms, count)
    except BaseException:
        reached = []
        raise
    finally:
        for module, training in modes:
            module.training = training
        for norm, momentum in momenta:
            norm.momentum = momentum
        for name in norms.keys() - set(reached):
            for x, old in zip(_statistics(norms[name]), before[name], strict=True):
                x.copy_(old)


def _statistics(norm: _BatchNorm) -> list[torch.Tensor]:
    found = (norm.running_mean, norm.running_var, norm.num_batches_tracked)
    return [x for x in found if x is not None]


def _moved(x: Any, device: torch.device) -> Any:
    return x.to(device) if hasattr(x, "to") else x


def _run(model: torch.nn.Module, batch: Any, forward: Callable[[Any], object] | None) -> None:
    if forward is not None:
        forward(batch)
    elif isinstance(batch, Mapping):
        model(**batch)
    else:
        model(batch[0] if isinstance(batch, (tuple, list)) else batch)


def _checked(norms: dict[str, _BatchNorm], count: int) -> list[str]:
    """The batch norms that batches reached: at least one, and none with NaN or inf."""
    if count == 0:
        raise ValueError(
            "update_batch_norm: there was no batch; nothing was changed.  A generator can be "
            "used once: pass a new one, or a data loader"
        )
    reached = [name for name, norm in norms.items() if int(norm.num_batches_tracked or 0) > 0]
    if not reached:
        raise ValueError(
            f"update_batch_norm: {count} batches, but none reached a batch norm of the model; "
            f"nothing was changed.  Does forward run this model?"
        )
    bad = [
        name
        for name in reached
        if not all(bool(torch.isfinite(x).all()) for x in _statistics(norms[name]))
    ]
    if bad:
        raise ValueError(
            f"update_batch_norm: NaN or inf in the statistics of {', '.join(map(repr, bad))}; "
            f"nothing was changed.  Look for them in the batches, or in the weights"
        )
    return reached
