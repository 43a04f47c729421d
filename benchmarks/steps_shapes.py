"""Lists of tensors to be stepped: real networks', many small ones, and one of any size."""

from __future__ import annotations

from math import prod
from typing import TypeAlias

Shapes: TypeAlias = list[tuple[int, ...]]


def resnet18() -> Shapes:
    """ResNet-18's 62 tensors, for ImageNet."""

    def block(narrow: int, wide: int) -> Shapes:
        return [(wide, narrow, 3, 3), (wide,), (wide,), (wide, wide, 3, 3), (wide,), (wide,)]

    found: Shapes = [(64, 3, 7, 7), (64,), (64,), *block(64, 64), *block(64, 64)]
    for narrow, wide in ((64, 128), (128, 256), (256, 512)):
        found += block(narrow, wide)
        found += [(wide, narrow, 1, 1), (wide,), (wide,)]
        found += block(wide, wide)
    return [*found, (1000, 512), (1000,)]


def gpt2() -> Shapes:
    """The 148 tensors of the smallest GPT-2."""
    d = 768
    norm: Shapes = [(d,), (d,)]
    attention: Shapes = [(d, 3 * d), (3 * d,), (d, d), (d,)]
    mlp: Shapes = [(d, 4 * d), (4 * d,), (4 * d, d), (d,)]
    return [(50257, d), (1024, d), *(12 * (norm + attention + norm + mlp)), *norm]


SHAPES: dict[str, Shapes] = {
    "1e4": [(10_000,)],
    "1e5": [(100_000,)],
    "1000x1000": [(1000,) for _ in range(1000)],
    "1e6": [(1_000_000,)],
    "1e7": [(10_000_000,)],
    "resnet18": resnet18(),
    "1e8": [(100_000_000,)],
    "gpt2": gpt2(),
    "1e9": [(1_000_000_000,)],
}
"""By growing size: what a step costs on one tells who fits into the next."""
FLAT = tuple(name for name, shapes in SHAPES.items() if len(shapes) == 1)
LISTS = {
    "resnet18": "ResNet-18, 62 tensors",
    "gpt2": "GPT-2, 148 tensors",
    "1000x1000": "1,000 tensors of 1,000",
}


def size(shapes: Shapes) -> int:
    """How many parameters there are.

    >>> size(SHAPES["resnet18"]), len(SHAPES["resnet18"])
    (11689512, 62)
    >>> size(SHAPES["gpt2"]), len(SHAPES["gpt2"])
    (124439808, 148)
    """
    return sum(prod(shape) for shape in shapes)
