"""A transformer that normalises before each layer: of words that follow, or of whole texts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (everybody calls it so)
from torch import nn

from ..data.words import PADDING_ID


@dataclass(frozen=True)
class Transformer:
    """With ``classes`` it judges a text, without it foretells each next word."""

    vocabulary: int
    layers: int = 2
    width: int = 256
    heads: int = 4
    hidden: int = 1024
    dropout: float = 0.1
    classes: int = 0

    def build(self) -> nn.Module:
        """The network; nothing in it needs a learning rate that warms up."""
        return _Reader(self) if self.classes else _Writer(self)


class _Body(nn.Module):
    def __init__(self, shape: Transformer, causal: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        nn.init.normal_(self.embedding.weight, std=shape.width**-0.5)
        self.scale = math.sqrt(shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        self.layers = nn.ModuleList(_Layer(shape, causal) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, words: torch.Tensor, present: torch.Tensor | None = None) -> torch.Tensor:
        x = self.scale * self.embedding(words)
        x = self.dropout(x + _positions(x.shape[-2], x.shape[-1], x.device))
        for layer in self.layers:
            x = layer(x, present)
        out: torch.Tensor = self.norm(x)
        return out


class _Layer(nn.Module):
    def __init__(self, shape: Transformer, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = shape.heads, causal
        self.attention_norm = nn.LayerNorm(shape.width)
        self.queries_keys_values = nn.Linear(shape.width, 3 * shape.width)
        self.mix = nn.Linear(shape.width, shape.width)
        self.hidden_norm = nn.LayerNorm(shape.width)
        self.widen = nn.Linear(shape.width, shape.hidden)
        self.narrow = nn.Linear(shape.hidden, shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: torch.Tensor, present: torch.Tensor | None) -> torch.Tensor:
        x = x + self.dropout(self._attention(self.attention_norm(x), present))
        y = self.narrow(self.dropout(F.relu(self.widen(self.hidden_norm(x)))))
        out: torch.Tensor = x + self.dropout(y)
        return out

    def _attention(self, x: torch.Tensor, present: torch.Tensor | None) -> torch.Tensor:
        rows, length, width = x.shape
        split = self.queries_keys_values(x).view(rows, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        mask = None if present is None else present[:, None, None]
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal)
        mixed: torch.Tensor = self.mix(y.transpose(1, 2).reshape(rows, length, width))
        return mixed


class _Writer(nn.Module):
    """Scores of all words for each next one; the embedding is used at both ends."""

    def __init__(self, shape: Transformer) -> None:
        super().__init__()
        self.body = _Body(shape, causal=True)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = F.linear(self.body(words), self.body.embedding.weight)
        return scores


class _Reader(nn.Module):
    """Scores of the classes, from the mean over the words that are there."""

    def __init__(self, shape: Transformer) -> None:
        super().__init__()
        self.body = _Body(shape, causal=False)
        self.head = nn.Linear(shape.width, shape.classes)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        present = words != PADDING_ID
        x = self.body(words, present) * present[:, :, None]
        scores: torch.Tensor = self.head(x.sum(1) / present.sum(1, keepdim=True).clamp(min=1))
        return scores


def _positions(length: int, width: int, device: torch.device) -> torch.Tensor:
    """Sines and cosines of Vaswani et al. (2017), sines first."""
    rates = torch.exp(-math.log(10_000.0) * torch.arange(width // 2, device=device) / (width // 2))
    angles = torch.arange(length, device=device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
