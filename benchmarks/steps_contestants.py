"""The optimizers that are compared: ours, torch's, and what others offer in their place.

Each on its default settings; a learning rate, where one is needed, changes no time.  What is not
installed (``pip install "paroli[benchmarks]"``) takes no part, and the tables say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

import torch

Parameters: TypeAlias = Sequence[torch.Tensor]

OURS, EAGER, COMPILED = "paroli", "paroli, fused=False", "paroli, torch.compile"
REFERENCE = "Adam, fused"
"""What ratios are to."""


class Contestant(NamedTuple):
    """One optimizer, as users get it."""

    name: str
    module: str
    distribution: str
    make: Callable[[Parameters], Any]
    of_matrices: bool = False
    """Whether it multiplies or factors whole matrices: nothing for one core and large layers."""

    @property
    def installed(self) -> bool:
        """Whether it can take part."""
        return find_spec(self.module) is not None


def _of(name: str, module: str, distribution: str, what: str, **settings: Any) -> Contestant:
    def make(parameters: Parameters) -> Any:
        return getattr(import_module(module), what)(parameters, **settings)

    return Contestant(name, module, distribution, make)


def _torch(what: str, **settings: Any) -> Contestant:
    (kind,) = (key for key in settings if key in ("fused", "foreach"))
    return _of(f"{what}, {kind}", "torch.optim", "torch", what, **settings)


def _ours(name: str, **settings: Any) -> Contestant:
    return _of(name, "paroli.torch", "paroli", "RecursiveOptimizer", **settings)


def _compiled(parameters: Parameters) -> Any:
    """Ours with its step compiled as a whole, from the second on: the first makes the state."""
    optimizer = import_module("paroli.torch").RecursiveOptimizer(parameters)
    first, others = optimizer.step, torch.compile(optimizer.step)

    def step() -> None:
        (others if optimizer.state else first)()

    optimizer.step = step
    return optimizer


def _schedule_free(parameters: Parameters) -> Any:
    optimizer = import_module("schedulefree").AdamWScheduleFree(parameters)
    optimizer.train()  # it refuses to step otherwise
    return optimizer


def _mechanic(parameters: Parameters) -> Any:
    return import_module("mechanic_pytorch").mechanize(torch.optim.Adam)(parameters, lr=1.0)


def _muon(parameters: Parameters) -> Any:
    matrices = [p for p in parameters if p.ndim >= 2]
    others = [p for p in parameters if p.ndim < 2]
    groups = [{"params": matrices, "use_muon": True}, {"params": others, "use_muon": False}]
    return import_module("pytorch_optimizer").Muon([group for group in groups if group["params"]])


def _soap(parameters: Parameters) -> Any:
    return import_module("pytorch_optimizer").SOAP(parameters)


CONTESTANTS = (
    _ours(OURS),
    _torch("Adam", fused=True),
    _torch("Adam", foreach=True),
    Contestant("schedule-free AdamW", "schedulefree", "schedulefree", _schedule_free),
    _of("LDoG", "dog", "dog-optimizer", "LDoG"),
    _of("DoG", "dog", "dog-optimizer", "DoG"),
    _of("Prodigy", "prodigyopt", "prodigyopt", "Prodigy"),
    _of("D-Adaptation Adam", "dadaptation", "dadaptation", "DAdaptAdam"),
    _of("KT", "parameterfree", "parameterfree", "KT"),
    _of("COCOB", "parameterfree", "parameterfree", "COCOB"),
    Contestant("Mechanic(Adam)", "mechanic_pytorch", "mechanic-pytorch", _mechanic),
    _ours(EAGER, fused=False),
    Contestant(COMPILED, "paroli.torch", "paroli", _compiled),
    _torch("AdamW", fused=True),
    _torch("AdamW", foreach=True),
    _torch("Adagrad", fused=True),
    _torch("Adagrad", foreach=True),
    _torch("SGD", fused=True, momentum=0.9),
    _torch("SGD", foreach=True, momentum=0.9),
    Contestant("Muon", "pytorch_optimizer", "pytorch_optimizer", _muon, of_matrices=True),
    Contestant("SOAP", "pytorch_optimizer", "pytorch_optimizer", _soap, of_matrices=True),
)
"""Those that are wanted most come first: where memory or time ends, the last ones stay out."""
NAMES = tuple(one.name for one in CONTESTANTS)


def chosen(names: Sequence[str] | None) -> tuple[list[Contestant], list[str]]:
    """Those of these names (None: all), and the names of those that are not installed."""
    wanted = [one for one in CONTESTANTS if names is None or one.name in names]
    missing = [one.name for one in wanted if not one.installed]
    return [one for one in wanted if one.installed], missing


def versions(contestants: Iterable[Contestant]) -> str:
    """Of all that take part."""
    distributions = dict.fromkeys(one.distribution for one in contestants)
    return ", ".join(f"{name} {version(name)}" for name in distributions)
