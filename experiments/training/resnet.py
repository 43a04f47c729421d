"""The residual networks of He et al. (2016) for CIFAR-10: 6n + 2 layers, 16, 32 and 64 channels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (everybody calls it so)
from torch import nn

from .perceptron import Standardised


@dataclass(frozen=True)
class ResNet:
    """``blocks`` a stage: 5 give ResNet-32."""

    blocks: int = 5

    def build(self) -> nn.Module:
        """The network, with He's initialisation."""
        layers: list[nn.Module] = [
            Standardised((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
            _convolution(3, 16, 1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        ]
        channels = 16
        for stage in (16, 32, 64):
            for _ in range(self.blocks):
                layers.append(_Block(channels, stage))
                channels = stage
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class _Block(nn.Module):
    """Two convolutions beside a path that has no weights (their option A)."""

    def __init__(self, channels: int, new: int) -> None:
        super().__init__()
        self.stride = 1 if channels == new else 2
        self.added = new - channels
        self.first = _convolution(channels, new, self.stride)
        self.first_norm = nn.BatchNorm2d(new)
        self.second = _convolution(new, new, 1)
        self.second_norm = nn.BatchNorm2d(new)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        if self.added:  # every other pixel, and zeros for the channels that are new
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.added))
        return F.relu(x + y)


def _convolution(channels: int, new: int, stride: int) -> nn.Conv2d:
    layer = nn.Conv2d(channels, new, 3, stride, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer
