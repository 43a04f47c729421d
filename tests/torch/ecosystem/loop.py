"""The plain loop that everything else is compared with."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

SIZE = 8
"""Of a batch."""


def made() -> nn.Sequential:
    """A small network, always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1)).double()


def examples(count: int = 6 * SIZE, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=rng, dtype=torch.float64)
    return x, (x @ torch.tensor([[1.0], [-2.0], [3.0]], dtype=torch.float64)).abs()


def squared_error(model: nn.Module, batch: Any) -> torch.Tensor:
    x, y = batch
    error: torch.Tensor = ((model(x) - y) ** 2).mean()
    return error


def plain_loop(
    model: nn.Module,
    opt: torch.optim.Optimizer,
    rounds: Iterable[list[Any]],
    loss: Callable[[nn.Module, Any], torch.Tensor],
    *,
    clip: float | None = None,
    scheduler: Any = None,
) -> None:
    """One step for each list of batches, whose gradients add up to that of their mean."""
    model.train()
    for batches in rounds:
        opt.zero_grad()
        for batch in batches:
            (loss(model, batch) / len(batches)).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        if scheduler is not None:
            scheduler.step()


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def distance(a: list[torch.Tensor], b: list[torch.Tensor]) -> float:
    """The largest difference between two lists of tensors."""
    return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))


def assert_same(
    found: list[torch.Tensor],
    expected: list[torch.Tensor],
    start: list[torch.Tensor],
    rel: float = 1e-9,
) -> None:
    """Equal up to a small share of the distance that training has moved."""
    moved = distance(expected, start)
    assert moved > 1e-7, "nothing was trained, so nothing was compared"
    off = distance(found, expected) / moved
    assert off <= rel, f"off by {off} of the distance moved"
