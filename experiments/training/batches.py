"""The rows on the device, and which of them a step takes."""

from __future__ import annotations

import numpy as np
import torch

from .setting import Setting

SHIFT = 4
"""Images are padded by so many pixels, and cropped at random."""


class Batches:
    """The data of a run; the batch of a step depends on nothing but the seed and the step."""

    def __init__(self, setting: Setting, seed: int, device: torch.device) -> None:
        split = setting.source.load()
        self.inputs, self.targets, self.test_inputs, self.test_targets = (
            torch.from_numpy(array).to(device) for array in split
        )
        self.setting, self.seed, self.device = setting, seed, device
        self.per_epoch = len(self.inputs) // setting.batch
        if self.per_epoch == 0:
            raise ValueError(
                f"a batch of {setting.batch} needs as many training rows, not {len(self.inputs)}"
            )
        self._epoch = -1
        self._order = torch.empty(0)

    def at(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The inputs and targets of a step, counted from 0."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(_seed(0, self.seed, epoch))
            order = torch.randperm(len(self.inputs), generator=generator)
            self._epoch, self._order = epoch, order.to(self.device)
        rows = self._order[place * self.setting.batch : (place + 1) * self.setting.batch]
        x, y = self.inputs[rows], self.targets[rows]
        if self.setting.augment:
            x = _augmented(x, torch.Generator().manual_seed(_seed(1, self.seed, step)))
        return x, y

    def measured(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The training rows that are measured."""
        rows = self.setting.measured_rows
        return self.inputs[:rows], self.targets[:rows]


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _augmented(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each image shifted and perhaps mirrored, the usual way for CIFAR-10."""
    count, _, height, width = images.shape
    draws = torch.randint(0, 2 * SHIFT + 1, (2, count, 1), generator=generator).to(images.device)
    mirrored = (torch.rand(count, 1, generator=generator) < 0.5).to(images.device)
    along = torch.arange(width, device=images.device)
    down, across = draws[0] + along[:height], draws[1] + torch.where(mirrored, along.flip(0), along)
    padded = torch.nn.functional.pad(images, (SHIFT,) * 4)
    each = torch.arange(count, device=images.device)[:, None, None]
    return padded[each, :, down[:, :, None], across[:, None, :]].permute(0, 3, 1, 2)
