"""`RecursiveOptimizer` for PyTorch: groups, storage, checkpoints; the formulas are the core's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard
from torch.optim.optimizer import Optimizer

import paroli.core.momentum as momentum_brick
from paroli.core.averaged import Average, exponential, moved
from paroli.core.learner import Learner, Played, Told, check_number, reduce
from paroli.core.recursive import recursive
from paroli.core.rescaled import rescaled
from paroli.core.scinol import scinol
from paroli.torch.layout import Layout
from paroli.torch.rounding import add_rounded
from paroli.torch.space import TorchSpace

Params: TypeAlias = Any
Wealth: TypeAlias = Literal["global", "group", "tensor"]

WEALTHS = ("global", "group", "tensor")
ROUNDINGS = ("compensated", "stochastic", "nearest")
ON_NONFINITE = ("skip", "raise")
AVERAGE, ROUNDS, LOST, TRAINING_POINT = "average", "rounds", "lost", "training_point"
"""Keys of ``state[p]`` beside those of the learner's state."""


class RecursiveOptimizer(Optimizer):
    r"""Training without a learning rate.

    Plays, by `paroli.recursive` inside `paroli.rescaled`, from the parameters' start:

    .. math::
        x_t = \text{start} + \text{Wealth}_{t-1} v_t, \qquad
        x_{t+1} = x_t + \text{lr} \, (\text{Wealth}_t v_{t+1} - \text{Wealth}_{t-1} v_t)

    The start is not stored: an iterate moves by the difference of two bets.  ``lr`` therefore
    multiplies what every schedule means by it, the increment; it is 1, and nobody has to set it.

    *One for all:* the wealth, g·v and the largest gradient length are shared by all parameters,
    in all groups and on all ranks, unless ``wealth="group"`` or ``wealth="tensor"`` gives each
    group or tensor its own.  *Per group:* ``lr``, ``weight_decay``, ``maximize``.

    *Averaged weights:* `eval` puts the running average of the iterates in place, `train` puts the
    iterate back.  Whoever never asks for the average calls neither.

    Args:
        params: tensors, named tensors, or groups, as for every torch optimizer.
        lr: a factor on the increments; schedulers change it; groups may have their own.
        inner: the learner that chooses the betting fraction; None: ``scinol()``.
        epsilon: initial wealth.
        momentum: decay of the average offset that is added to the iterate (1: as the paper prints
            it, 0.9: the authors' released value); None: no offset.
        average: which average of the iterates `eval` shows; True: ``exponential()``; False: none,
            which saves its memory.
        weight_decay: each step also shrinks every parameter by this share of the root mean square
            of the group's increments: as in AdamW, decay is in proportion to how far a step goes.
        wealth: "global", "group" or "tensor".
        maximize: climb instead of descending.
        on_nonfinite: a gradient with NaN or inf: "skip" the step without looking at it from the
            host, or "raise" (which has to look).  Either way nothing changes.
        state_dtype: dtype of the state; None: the parameter's, or float32 for half precision.
        rounding: how increments reach bfloat16 and float16 parameters: "compensated" carries the
            rounding error along (2 bytes a parameter), "stochastic" rounds up or down at random so
            that the mean is right, "nearest" loses increments below half a unit.
        process_group: ranks that hold *different* parameters of one model (pipelines, ZeRO-style
            wrappers); sums go over them.  Nothing is needed for DDP, FSDP2 or DTensors.

    >>> import torch
    >>> from paroli.torch import RecursiveOptimizer
    >>> model = torch.nn.Linear(2, 1, bias=False)
    >>> opt = RecursiveOptimizer(model.parameters())
    >>> x = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    >>> for _ in range(1000):
    ...     opt.zero_grad()
    ...     (model(x) - torch.tensor([[5.0], [1.0]])).abs().mean().backward()
    ...     opt.step()
    >>> opt.eval()
    >>> bool((model(x) - torch.tensor([[5.0], [1.0]])).abs().mean() < 0.1)
    True
    >>> opt.train()
    """

    _step_supports_amp_scaling = True  # torch.amp.GradScaler hands over its scale and its verdict

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 1.0,
        *,
        inner: Learner | None = None,
        epsilon: float = 1.0,
        momentum: float | None = None,
        average: bool | Average = True,
        weight_decay: float = 0.0,
        wealth: Wealth = "global",
        maximize: bool = False,
        on_nonfinite: Literal["skip", "raise"] = "skip",
        state_dtype: torch.dtype | None = None,
        rounding: Literal["compensated", "stochastic", "nearest"] = "compensated",
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        for name, value, known in (
            ("wealth", wealth, WEALTHS),
            ("rounding", rounding, ROUNDINGS),
            ("on_nonfinite", on_nonfinite, ON_NONFINITE),
        ):
            if value not in known:
                raise ValueError(
                    f"RecursiveOptimizer: {name} must be one of {known}, not {value!r}"
                )
        if isinstance(average, bool):
            self.average: Average | None = exponential() if average else None
        else:
            self.average = average
        learner: Learner = rescaled(recursive(scinol() if inner is None else inner, epsilon))
        if momentum is not None:
            learner = momentum_brick.momentum(learner, momentum)
        self.learner = learner
        self.layout = Layout(learner)
        self.wealth = wealth
        self.on_nonfinite = on_nonfinite
        self.state_dtype = state_dtype
        self.rounding = rounding
        self.process_group = process_group
        defaults = {"lr": lr, "weight_decay": weight_decay, "maximize": maximize, "training": True}
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, at any time: they join the wealth that there is, and bet 0 at first."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        lr, decay = group["lr"], group["weight_decay"]
        if isinstance(lr, torch.Tensor):
            if lr.numel() != 1:
                raise ValueError(f"RecursiveOptimizer: a tensor lr has one entry, not {lr.numel()}")
        elif lr != 0:
            check_number("RecursiveOptimizer", "lr", lr, low=0.0)
        if decay != 0:
            check_number("RecursiveOptimizer", "weight_decay", decay, low=0.0)
        group["training"] = self._training

    # Steps ----------------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; the closure, if given, evaluates the loss and its gradients."""
        if not self._training:
            raise RuntimeError(
                "RecursiveOptimizer: the averaged weights are in place; call opt.train() before "
                "going on with training (and opt.eval() again to evaluate)"
            )
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for unit in self._units():
            moving = [(p, group) for p, group in unit if p.grad is not None]
            if moving:
                self._step_unit([p for p, _ in unit], moving)
        return loss

    def _units(self) -> Iterator[list[tuple[torch.Tensor, dict[str, Any]]]]:
        """The sets of parameters that share a wealth, each with its group."""
        groups = [[(p, group) for p in group["params"]] for group in self.param_groups]
        if self.wealth == "global":
            yield [pair for group in groups for pair in group]
        elif self.wealth == "group":
            yield from groups
        else:
            yield from ([pair] for group in groups for pair in group)

    def _step_unit(
        self,
        everyone: list[torch.Tensor],
        moving: list[tuple[torch.Tensor, dict[str, Any]]],
    ) -> None:
        params = [p for p, _ in moving]
        self._ensure_state(everyone, params)
        space = self._space(params)
        own = [self.state[p] for p in params]
        points = [_local(p) for p in params]
        learner, layout = self.learner, self.layout
        state = layout.gather(own)
        g = [self._gradient(p, group) for p, group in moving]

        played = learner.play(space, state)
        norm, totals = reduce(space, learner, played, g)
        finite = self._finite(norm, totals, params)
        zero = torch.zeros_like(norm)
        norm = torch.where(finite, norm, zero)
        totals = tuple(torch.where(finite, number, zero) for number in totals)
        g = [torch.where(finite.to(leaf.device), leaf, 0.0) for leaf in g]
        told = Told(g, norm, space.number(1.0, g[0]))
        new = learner.update(space, state, played, told, totals)
        next_played = learner.play(space, new)

        self._move_average(space, own, points, finite)
        layout.scatter(own, state, new, finite, everything=not learner.lazy)
        self._move_points(space, moving, own, points, played, next_played, finite)

    def _finite(
        self, norm: torch.Tensor, totals: tuple[torch.Tensor, ...], params: list[torch.Tensor]
    ) -> torch.Tensor:
        """Whether the round counts: a number on the device, looked at only to raise."""
        finite = torch.isfinite(norm)
        for number in totals:
            finite = finite & torch.isfinite(number)
        found_inf = getattr(self, "found_inf", None)
        if found_inf is not None:
            finite = finite & (found_inf.to(finite.device).reshape(()) == 0)
        elif self.on_nonfinite == "raise" and not bool(finite):
            bad = [
                i
                for i, p in enumerate(params)
                if p.grad is not None and not bool(torch.isfinite(_local(p.grad)).all())
            ]
            raise RuntimeError(
                f"RecursiveOptimizer: NaN or inf in the gradient of parameter(s) {bad} (counted "
                f"among those with gradients; on this rank); nothing was changed"
            )
        return finite

    def _gradient(self, p: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        """This rank's part of the gradient, real, unscaled, in the state's dtype."""
        grad = p.grad
        assert grad is not None
        if grad.is_sparse:
            grad = grad.to_dense()
        if isinstance(p, DTensor) and isinstance(grad, DTensor):
            grad = grad.redistribute(placements=p.placements)
        g = _local(grad).to(self._dtype(p))
        scale = getattr(self, "grad_scale", None)
        if scale is not None:
            g = g / scale.to(device=g.device, dtype=g.dtype).reshape(())
        return -g if group["maximize"] else g

    def _move_average(
        self,
        space: TorchSpace,
        own: list[dict[str, Any]],
        points: list[torch.Tensor],
        finite: torch.Tensor,
    ) -> None:
        if self.average is None:
            return
        rounds = own[0][ROUNDS]
        t = rounds.reshape(()).to(space.scalar) + 1
        share = torch.where(finite, self.average.share(space.xp, t), 0.0)
        for state, point in zip(own, points, strict=True):
            average = _local(state[AVERAGE])
            average.copy_(moved(average, point.to(average.dtype), space.cast(share, average)))
        rounds.add_(finite.to(rounds.dtype).reshape(1))

    def _move_points(
        self,
        space: TorchSpace,
        moving: list[tuple[torch.Tensor, dict[str, Any]]],
        own: list[dict[str, Any]],
        points: list[torch.Tensor],
        played: Played,
        next_played: Played,
        finite: torch.Tensor,
    ) -> None:
        increments = [new - old for new, old in zip(next_played.w, played.w, strict=True)]
        decays = self._decays(space, moving, increments)
        for (_, group), state, point, increment, decay in zip(
            moving, own, points, increments, decays, strict=True
        ):
            lr = group["lr"]
            if decay is not None:
                increment = increment - decay * point.to(increment.dtype)
            if isinstance(lr, torch.Tensor):
                lr = lr.to(device=increment.device, dtype=increment.dtype).reshape(())
            increment = torch.where(finite.to(increment.device), increment * lr, 0.0)
            if point.dtype == increment.dtype:
                point.add_(increment)
            else:
                lost = _local(state[LOST]) if LOST in state else None
                add_rounded(point, increment, lost, stochastic=self.rounding == "stochastic")

    def _decays(
        self,
        space: TorchSpace,
        moving: list[tuple[torch.Tensor, dict[str, Any]]],
        increments: list[torch.Tensor],
    ) -> list[torch.Tensor | None]:
        """For each parameter the share by which weight decay shrinks it, if any."""
        shares: list[torch.Tensor | None] = [None] * len(moving)
        for group in self.param_groups:
            here = [i for i, (_, mine) in enumerate(moving) if mine is group]
            if not here or group["weight_decay"] == 0:
                continue
            weights = None if space.weights is None else [space.weights[i] for i in here]
            part = TorchSpace(space.device, weights, space.group)
            leaves = [increments[i] for i in here]
            size = part.number(sum(moving[i][0].numel() for i in here), leaves[0])
            rms = torch.sqrt(part.total(part.dot(leaves, leaves))[0] / torch.clamp(size, min=1.0))
            for i in here:
                shares[i] = space.cast(group["weight_decay"] * rms, increments[i])
        return shares

    # Storage --------------------------------------------------------------------------------

    def _dtype(self, p: torch.Tensor) -> torch.dtype:
        dtype = p.dtype.to_real() if p.dtype.is_complex else p.dtype
        if self.state_dtype is not None:
            return self.state_dtype
        return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype

    def _ensure_state(self, everyone: list[torch.Tensor], params: list[torch.Tensor]) -> None:
        """Make the state of parameters that have their first gradient."""
        fresh = [p for p in params if not self.state[p]]
        if not fresh:
            return
        space = TorchSpace(_local(params[0]).device)
        settled = [self.state[p] for p in everyone if self.state.get(p)]
        if settled:
            numbers = {
                key: settled[0][key] for key in (*self.layout.numbers, ROUNDS) if key in settled[0]
            }
        else:
            numbers = self.layout.init_numbers(space)
            if self.average is not None:
                numbers[ROUNDS] = torch.zeros(1, dtype=space.scalar, device=space.device)
        for p in fresh:
            local = _local(p)
            leaf = torch.zeros(local.shape, dtype=self._dtype(p), device=local.device)
            state = self.state[p]
            for key, part in self.layout.init_leaf(space, leaf).items():
                state[key] = _like(p, part)
            if self.average is not None:
                state[AVERAGE] = _like(p, local.to(leaf.dtype, copy=True))
            if local.dtype != leaf.dtype and self.rounding == "compensated":
                state[LOST] = _like(p, torch.zeros_like(local))
            state.update(numbers)

    def _space(self, params: list[torch.Tensor]) -> TorchSpace:
        """Where this unit's sums go: this process, or the ranks that share its tensors."""
        device = _local(params[0]).device
        if self.process_group is not None:
            return TorchSpace(device, None, self.process_group)
        meshes = [p.device_mesh for p in params if isinstance(p, DTensor)]
        if not meshes:
            return TorchSpace(device)
        widest = max(meshes, key=lambda mesh: mesh.size())
        weights = [_split_over(p) / widest.size() for p in params]
        return TorchSpace(device, weights, _ranks_of(widest))

    # Averaged weights -----------------------------------------------------------------------

    @property
    def _training(self) -> bool:
        groups = self.param_groups
        return groups[0]["training"] if groups else True

    @torch.no_grad()
    def eval(self) -> None:
        """Put the averaged weights in place, for evaluating or saving the model."""
        if self.average is None:
            raise RuntimeError(
                "RecursiveOptimizer: made with average=False, so it keeps no average"
            )
        if not self._training:
            return
        for p, state in self.state.items():
            if AVERAGE in state:
                point = _local(p)
                state[TRAINING_POINT] = _like(p, point.clone())
                point.copy_(_local(state[AVERAGE]))
        for group in self.param_groups:
            group["training"] = False

    @torch.no_grad()
    def train(self) -> None:
        """Put the training weights back, exactly."""
        if self._training:
            return
        for p, state in self.state.items():
            if TRAINING_POINT in state:
                _local(p).copy_(_local(state.pop(TRAINING_POINT)))
        for group in self.param_groups:
            group["training"] = True

    # Looking --------------------------------------------------------------------------------

    @torch.no_grad()
    def diagnostics(self) -> dict[str, float]:
        """Numbers to plot, as floats: reading them waits for the device, stepping never does.

        ``log_wealth`` and ``g_max`` of each unit that has its own (with ``/0``, ``/1``, … where
        there are several), and for each group the root mean square distance of its weights'
        bets from the start, ``bet/0``: Wealth · v, the size of what the learner stakes.
        """
        found: dict[str, float] = {}
        units = [unit for unit in self._units() if any(self.state.get(p) for p, _ in unit)]
        for i, unit in enumerate(units):
            suffix = f"/{i}" if len(units) > 1 else ""
            params = [p for p, _ in unit if self.state.get(p)]
            own = [self.state[p] for p in params]
            state = self.layout.gather(own)
            space = self._space(params)
            found[f"log_wealth{suffix}"] = float(self.learner.log_wealth(space, state))
            found[f"g_max{suffix}"] = float(own[0]["g_max"])
            for k, group in enumerate(self.param_groups):
                here = [j for j, p in enumerate(params) if any(p is q for q in group["params"])]
                if here:
                    w = self.learner.bet(space, state)
                    squares = sum(float((w[j].double() ** 2).sum()) for j in here)
                    count = max(1, sum(w[j].numel() for j in here))
                    found[f"bet/{k}"] = (squares / count) ** 0.5
        return found

    # Checkpoints ----------------------------------------------------------------------------

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume; across devices, and with the state's own dtypes whatever the parameters' are."""
        super().load_state_dict(state_dict)
        # torch casts floating-point state to the parameter's dtype; ours has reasons for its own.
        saved = state_dict["state"]
        ids = [i for group in state_dict["param_groups"] for i in group["params"]]
        params = [p for group in self.param_groups for p in group["params"]]
        for i, p in zip(ids, params, strict=True):
            for key, value in saved.get(i, {}).items():
                if isinstance(value, torch.Tensor):
                    self.state[p][key] = value.to(device=_local(p).device).clone()
        self._share_numbers()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("weight_decay", 0.0)
            group.setdefault("maximize", False)
            group.setdefault("training", True)

    def _share_numbers(self) -> None:
        """Let all parameters of a unit hold the very same global numbers again."""
        for unit in self._units():
            own = [self.state[p] for p, _ in unit if self.state.get(p)]
            for key in (*self.layout.numbers, ROUNDS):
                for state in own[1:]:
                    if key in own[0]:
                        state[key] = own[0][key]


def _local(x: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor, real: a view, so that writing to it writes to the tensor."""
    local: torch.Tensor = x.to_local() if isinstance(x, DTensor) else x
    return torch.view_as_real(local) if local.is_complex() else local


def _like(p: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
    """State of this rank's part of p, sharded as p is, so that checkpoints can be resharded."""
    if not isinstance(p, DTensor):
        return local
    whole: torch.Tensor = DTensor.from_local(
        local, p.device_mesh, p.placements, run_check=False, shape=p.shape, stride=p.stride()
    )
    return whole


def _split_over(p: torch.Tensor) -> int:
    """Over how many ranks the entries of p are divided."""
    if not isinstance(p, DTensor):
        return 1
    ranks = 1
    for size, placement in zip(p.device_mesh.shape, p.placements, strict=True):
        if isinstance(placement, Shard):
            ranks *= size
    return ranks


def _ranks_of(mesh: Any) -> Any:
    """All ranks of a mesh as one group."""
    if mesh.size() == dist.get_world_size():
        return dist.group.WORLD
    if mesh.ndim == 1:
        return mesh.get_group()
    return mesh._flatten().get_group()
