"""The trajectories of the authors' code, followed: in one list, in groups, from a checkpoint."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from paroli import ons, scinol
from paroli.torch import RecursiveOptimizer

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"
SETTINGS: dict[str, dict[str, Any]] = {
    "ons": {"inner": ons(tau=60.0)},
    "scinol": {},
    "scinol_cap03": {"inner": scinol(cap=0.3)},
    "scinol_epsilon": {"inner": scinol(epsilon=0.3), "epsilon": 0.1},
    "scinol_momentum_ema09": {"momentum": 0.9},
    "scinol_momentum_uniform": {"momentum": 1.0},
    "scinol_spike": {},
}
LEAVES = 4
SOON = 200  # rounds after which the splits of the same run have shown what they have to

pytestmark = [
    pytest.mark.skipif(
        not GOLDEN.is_dir(), reason="the authors' trajectories are not beside the repository"
    ),
    pytest.mark.parametrize("name", SETTINGS),
]


class Trajectory:
    """One recorded run, and parameters that follow it."""

    def __init__(self, name: str) -> None:
        with np.load(GOLDEN / f"{name}.npz") as file:
            self.start = [torch.tensor(file[f"x0_{i}"]) for i in range(LEAVES)]
            self.g = [torch.tensor(file[f"g_{i}"]) for i in range(LEAVES)]
            self.x = [torch.tensor(file[f"x_{i}"]) for i in range(LEAVES)]
            self.wealth, self.g_max = float(file["wealth"]), float(file["g_max"])
        self.params = [torch.nn.Parameter(start.clone()) for start in self.start]
        self.rounds = len(self.g[0])

    def follow(self, opt: RecursiveOptimizer, rounds: range) -> None:
        """Step, and compare to 1e-9 of the distance moved."""
        for t in rounds:
            for p, g in zip(self.params, self.g, strict=True):
                p.grad = g[t].clone()
            opt.step()
            leaves = zip(self.params, self.x, self.start, strict=True)
            error, moved = map(
                max,
                zip(*[(dist(p, x[t]), dist(start, x[t])) for p, x, start in leaves], strict=True),
            )
            assert error <= 1e-9 * moved, f"round {t}"


def dist(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.detach() - b).abs().max())


@pytest.mark.parametrize("foreach", [False, True])
def test_one_list(name: str, foreach: bool) -> None:
    golden = Trajectory(name)
    opt = RecursiveOptimizer(golden.params, average=False, foreach=foreach, **SETTINGS[name])
    golden.follow(opt, range(golden.rounds))
    found = opt.diagnostics()
    assert np.exp(found["log_wealth"]) == pytest.approx(golden.wealth, rel=1e-9)
    assert found["g_max"] == pytest.approx(golden.g_max, rel=1e-12)


def test_groups_one_added_later_and_resumed(name: str) -> None:
    golden = Trajectory(name)
    rounds = min(golden.rounds, SOON)
    stop = int(np.random.default_rng(len(name)).integers(1, rounds))

    def made() -> RecursiveOptimizer:
        a, b, c, d = golden.params
        opt = RecursiveOptimizer(
            [{"params": [b, c], "lr": 1.0}, {"params": [a]}], average=False, **SETTINGS[name]
        )
        opt.add_param_group({"params": d})
        return opt

    opt = made()
    golden.follow(opt, range(stop))
    saved = copy.deepcopy(opt.state_dict())
    resumed = made()
    resumed.load_state_dict(saved)
    golden.follow(resumed, range(stop, rounds))
    for i, state in opt.state_dict()["state"].items():
        for key, value in state.items():
            assert torch.equal(value, saved["state"][i][key]), "resuming took the old state along"


@pytest.mark.parametrize("foreach", [False, True])
def test_compiled(name: str, foreach: bool) -> None:
    """The whole step as one graph; the code generator itself has its own test."""
    if not foreach and name != "scinol_momentum_ema09":
        pytest.skip("the largest of the graphs is enough")
    torch.compiler.reset()  # torch counts the graphs of a function, whosever method it is
    golden = Trajectory(name)
    opt = RecursiveOptimizer(golden.params, average=False, foreach=foreach, **SETTINGS[name])
    opt.step = torch.compile(opt.step, fullgraph=True, backend="aot_eager")  # type: ignore[method-assign]
    golden.follow(opt, range(min(golden.rounds, SOON)))
