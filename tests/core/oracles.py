"""From a brick of the library to the algorithm of `tests.paper` that it claims to be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from paroli.core.learner import Learner
from tests import paper

Shapes = Sequence[tuple[int, ...]]
Builder = Callable[[Any, Shapes], paper.Algorithm]


def size(shapes: Shapes) -> int:
    return sum(math.prod(shape) for shape in shapes)


def recursive(brick: Any, shapes: Shapes) -> paper.Algorithm:
    return paper.RecursiveOptimizer(size(shapes), oracle(brick.inner, shapes), brick.epsilon)


def dimension_free(brick: Any, shapes: Shapes) -> paper.Algorithm:
    magnitude, direction = oracle(brick.magnitude, [()]), oracle(brick.direction, shapes)
    return paper.DimensionFree(size(shapes), magnitude, direction)


def constrained(brick: Any, shapes: Shapes) -> paper.Algorithm:
    inner, domain = oracle(brick.learner, shapes), brick.domain
    if type(domain).__name__ == "box":
        return paper.ConstrainedToBox(size(shapes), inner, domain.low, domain.high)
    if domain.norm == math.inf:
        return paper.ConstrainedToBox(size(shapes), inner, -domain.radius, domain.radius)
    return paper.ConstrainedToBall(size(shapes), inner, domain.radius, domain.norm)


def averaged(brick: Any, shapes: Shapes) -> paper.Algorithm:
    weights = {
        "uniform": lambda kind: paper.uniform_weights,
        "polynomial": lambda kind: paper.polynomial_weights(kind.power),
        "exponential": lambda kind: paper.exponential_weights(kind.decay),
    }[type(brick.kind).__name__](brick.kind)
    return paper.Averaged(size(shapes), oracle(brick.learner, shapes), weights)


def perleaf(brick: Any, shapes: Shapes) -> paper.Algorithm:
    ends = np.cumsum([size([shape]) for shape in shapes]).tolist()
    blocks = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
    copies = [oracle(brick.learner, [shape]) for shape in shapes]
    return paper.Copies(size(shapes), list(zip(blocks, copies, strict=True)))


def percoordinate(brick: Any, shapes: Shapes) -> paper.Algorithm:
    d = size(shapes)
    return paper.Copies(d, [(slice(i, i + 1), oracle(brick.learner, [()])) for i in range(d)])


BUILDERS: dict[str, Builder] = {
    "adagrad": lambda b, s: paper.Adagrad(size(s), b.lr),
    "averaged": averaged,
    "constrained": constrained,
    "descent": lambda b, s: paper.ProjectedDescent(size(s), b.ball_radius),
    "diagonal": lambda b, s: paper.DiagOptimizer(size(s), b.epsilon, b.eta),
    "dimension_free": dimension_free,
    "doubling": lambda b, s: paper.Doubling(size(s), b.epsilon, b.A),
    "ftrl": lambda b, s: paper.Ftrl(size(s), b.eta),
    "full_adagrad": lambda b, s: paper.FullAdagrad(size(s), b.lr, b.tiny),
    "full_newton": lambda b, s: paper.FullNewtonStep(size(s), b.eta, b.tau),
    "momentum": lambda b, s: paper.Momentum(size(s), oracle(b.learner, s), b.decay),
    "newton": lambda b, s: paper.NewtonStep(size(s), b.eta, b.tau, b.domain),
    "ons": lambda b, s: paper.AuthorsOnsBet(size(s), b.epsilon, b.eta, b.tau, b.domain),
    "percoordinate": percoordinate,
    "perleaf": perleaf,
    "recursive": recursive,
    "rescaled": lambda b, s: paper.Rescaled(size(s), oracle(b.learner, s), b.g_max),
    "scinol": lambda b, s: paper.AuthorsScinol(size(s), b.epsilon, b.cap, b.rescale, b.domain),
    "scinol1": lambda b, s: paper.Scinol1(size(s), b.epsilon),
    "scinol2": lambda b, s: paper.Scinol2(size(s), b.epsilon),
    "skeleton": lambda b, s: paper.KrichevskyTrofimov(size(s), b.epsilon),
}


def oracle(brick: Learner, shapes: Shapes) -> paper.Algorithm:
    """The literal algorithm for a stack of bricks on leaves of these shapes."""
    return BUILDERS[type(brick).__name__](brick, shapes)
