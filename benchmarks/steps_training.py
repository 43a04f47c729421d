"""Training from end to end: a small language model, whole training steps, all in turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from benchmarks.steps_contestants import COMPILED, Contestant
from benchmarks.turns import in_turns

VOCABULARY, WIDTH, HEADS, LAYERS = 512, 128, 4, 2
BATCH, LENGTH = 8, 64
TOKENS = BATCH * LENGTH
WARM_UP = 2


class LanguageModel(nn.Module):
    """A transformer that predicts the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.predict = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of the next token at each place."""
        x = self.words(tokens) + self.places
        scores: torch.Tensor = self.predict(self.layers(x, mask=self.mask, is_causal=True))
        return scores


class Training:
    """One contestant at work, always with the same start and the same batches."""

    def __init__(self, contestant: Contestant, device: torch.device, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = LanguageModel().to(device)
        self.optimizer = contestant.make(list(self.model.parameters()))
        self.batches = torch.Generator().manual_seed(seed)
        self.device = device
        for _ in range(WARM_UP):
            self.turn()

    def turn(self) -> list[float]:
        """Seconds of one training step."""
        text = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), generator=self.batches)
        text = text.to(self.device)
        self._wait()
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        scores = self.model(text[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())
        torch.autograd.backward(loss)
        self.optimizer.step()
        self._wait()
        return [time.perf_counter() - begin]

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


class Speeds(NamedTuple):
    """Seconds of training steps, and how many parameters were trained."""

    seconds: dict[str, list[float]]
    parameters: int


def speeds(
    contestants: Sequence[Contestant],
    device: torch.device,
    seed: int,
    rounds: int,
    seconds: float,
) -> Speeds:
    """Whole training steps of everybody, but not of what would be compiled for this alone."""
    runs = {one.name: Training(one, device, seed) for one in contestants if one.name != COMPILED}
    times = in_turns({name: run.turn for name, run in runs.items()}, rounds, seconds)
    first = next(iter(runs.values()))
    return Speeds(times, sum(p.numel() for p in first.model.parameters()))
