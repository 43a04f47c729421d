"""What RecursiveOptimizer is doing, in TensorBoard.

    pip install "paroli[torch]" tensorboard
    python examples/tensorboard_diagnostics.py
    tensorboard --logdir runs

Trains a small network on made-up data, and logs whatever `diagnostics()` tells: the logarithm of
the wealth, which is how much the bets have won; the largest gradient; and for each parameter group
how much is staked.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from paroli.torch import RecursiveOptimizer


def main(folder: Path, steps: int = 500, every: int = 10) -> None:
    """Train for so many steps, and log every so many: looking waits for the device."""
    torch.manual_seed(0)
    inputs = torch.randn(1024, 8)
    targets = torch.sin(inputs @ torch.randn(8, 4)).sum(1, keepdim=True)

    model = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 1))
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = RecursiveOptimizer(
        [{"params": matrices, "weight_decay": 0.01}, {"params": vectors}]
    )

    with SummaryWriter(str(folder)) as writer:
        for step in range(1, steps + 1):
            batch = torch.randint(len(inputs), (64,))
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs[batch]), targets[batch])
            loss.backward()
            optimizer.step()
            if step % every == 0:
                writer.add_scalar("loss/batch", loss.item(), step)
                for name, value in optimizer.diagnostics().items():
                    writer.add_scalar(f"paroli/{name}", value, step)

        optimizer.eval()
        with torch.no_grad():
            loss = nn.functional.mse_loss(model(inputs), targets)
        writer.add_scalar("loss/average", loss.item(), steps)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--steps", type=int, default=500)
    arguments = parser.parse_args()
    main(arguments.folder, arguments.steps)
