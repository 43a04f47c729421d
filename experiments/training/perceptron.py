"""Logistic regression, and fully connected networks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn


class Standardised(nn.Module):
    """Images of bytes as numbers of about mean 0 and variance 1, channel by channel."""

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, mean: tuple[float, ...], deviation: tuple[float, ...]) -> None:
        super().__init__()
        shape = (-1, 1, 1)
        self.register_buffer("mean", 255 * torch.tensor(mean).reshape(shape))
        self.register_buffer("deviation", 255 * torch.tensor(deviation).reshape(shape))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Bytes to numbers."""
        return (images - self.mean) / self.deviation


@dataclass(frozen=True)
class Perceptron:
    """On MNIST: no hidden layer is logistic regression."""

    hidden: tuple[int, ...] = ()

    def build(self) -> nn.Module:
        """The network, as torch initialises it; logistic regression starts at 0."""
        widths = (28 * 28, *self.hidden, 10)
        layers: list[nn.Module] = [Standardised((0.1307,), (0.3081,)), nn.Flatten()]
        for below, above in pairwise(widths):
            layers += [nn.Linear(below, above), nn.ReLU()]
        network = nn.Sequential(*layers[:-1])
        if not self.hidden:
            for p in network.parameters():
                nn.init.zeros_(p)
        return network
