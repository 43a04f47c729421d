"""`RecursiveOptimizer` for PyTorch: groups, storage, checkpoints; the formulas are the core's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
import torch.distributed as dist
from torch.optim.optimizer import Optimizer

import paroli.core.momentum as momentum_brick
from paroli.core.averaged import Average, exponential, moved
from paroli.core.learner import Learner, Played, State, Told, check_number, reduce
from paroli.core.recursive import recursive
from paroli.core.rescaled import rescaled
from paroli.core.scinol import scinol
from paroli.torch.layout import Layout
from paroli.torch.rounding import add_rounded
from paroli.torch.space import DTensor, TorchSpace

Params: TypeAlias = Any
Unit: TypeAlias = list[tuple[torch.Tensor, dict[str, Any]]]
"""Parameters that share a wealth, each with its group."""
Wealth: TypeAlias = Literal["global", "group", "tensor"]

WEALTHS = ("global", "group", "tensor")
ROUNDINGS = ("compensated", "stochastic", "nearest")
ON_NONFINITE = ("skip", "raise")
AVERAGE, ROUNDS, LOST, TRAINING_POINT = "average", "rounds", "lost", "training_point"
"""Keys of ``state[p]`` beside those of the learner's state."""
HALF_PRECISION = (torch.bfloat16, torch.float16)


class Round(NamedTuple):
    """What is known of a unit's round before anything changes."""

    moving: Unit
    fresh: list[torch.Tensor]
    """Those whose state was made for this round."""
    space: TorchSpace
    state: State
    played: Played
    g: list[torch.Tensor]
    norm: torch.Tensor
    totals: tuple[torch.Tensor, ...]


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
        on_nonfinite: a gradient with NaN or inf: "skip" the step, for all parameters, without
            looking at it from the host, or "raise" (which has to look).  Either way nothing
            changes.  A step that a `torch.amp.GradScaler` calls off is skipped in any case.
        state_dtype: dtype of the learner's state; None: the parameter's, or float32 for half
            precision.  The average has the parameter's, but at least float32.
        rounding: how increments reach bfloat16 and float16 parameters: "compensated" carries the
            rounding error along (2 bytes a parameter), "stochastic" rounds up or down at random so
            that the mean is right, "nearest" loses increments below half a unit.
        process_group: ranks that hold *different* parameters of one model (pipelines, ZeRO-style
            wrappers); sums go over them, and each needs a gradient in every step.  Where these are
            DTensors, all ranks of their meshes belong to it.  Nothing is needed for DDP, FSDP2 or
            DTensors alone.

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
        if state_dtype not in (None, torch.bfloat16, torch.float32, torch.float64):
            raise ValueError(
                f"RecursiveOptimizer: state_dtype must be None, torch.float64, torch.float32 or "
                f"torch.bfloat16, not {state_dtype!r}: it starts at 1e-8 and grows from there"
            )
        if isinstance(average, bool):
            self.average: Average | None = exponential() if average else None
        elif isinstance(average, type) or not callable(getattr(average, "share", None)):
            raise TypeError(
                f"RecursiveOptimizer: average must be True, False or such as exponential(), "
                f"not {average!r}"
            )
        else:
            self.average = average
        defaults = {"lr": lr, "weight_decay": weight_decay, "maximize": maximize, "training": True}
        _check_settings(defaults)
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
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, at any time: they join the wealth that there is, and bet 0 at first."""
        if isinstance(param_group, dict):  # torch refuses the rest
            _check_settings(self.defaults | param_group)  # before anything is added
        training = self._training
        super().add_param_group(param_group)
        self.param_groups[-1]["training"] = training

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
        if self.process_group is not None:
            self._check_takes_part()
        rounds = [
            self._begin(unit) for unit in self._units() if any(p.grad is not None for p, _ in unit)
        ]
        if rounds:
            finite = self._finite(rounds)
            self._move_averages(finite)
            for played_round in rounds:
                self._end(played_round, finite)
        return loss

    def _check_takes_part(self) -> None:
        """A rank with nothing to add would leave the others waiting for its sums."""
        units = list(self._units())
        if not all(units) or all(p.grad is None for unit in units for p, _ in unit):
            raise RuntimeError(
                "RecursiveOptimizer: with process_group, every rank needs a gradient in every "
                "step, and with wealth='group' a parameter in every group: the other ranks wait "
                "for its sums"
            )

    def _units(self) -> Iterator[Unit]:
        """The sets of parameters that share a wealth."""
        groups = [[(p, group) for p in group["params"]] for group in self.param_groups]
        if self.wealth == "global":
            yield [pair for group in groups for pair in group]
        elif self.wealth == "group":
            yield from groups
        else:
            yield from ([pair] for group in groups for pair in group)

    def _begin(self, unit: Unit) -> Round:
        """Play, and take the sums of the round."""
        moving = [(p, group) for p, group in unit if p.grad is not None]
        params = [p for p, _ in moving]
        fresh = self._ensure_state([p for p, _ in unit], params)
        space = self._space(params)
        state = self.layout.gather([self.state[p] for p in params])
        g = [self._gradient(p, group) for p, group in moving]
        played = self.learner.play(space, state)
        norm, totals = reduce(space, self.learner, played, g)
        return Round(moving, fresh, space, state, played, g, norm, totals)

    def _end(self, begun: Round, finite: torch.Tensor) -> None:
        """Tell the learner, and move; where the round does not count, to where everything is."""
        space, played, learner = begun.space, begun.played, self.learner
        finite = finite.to(space.device)
        zero = torch.zeros_like(begun.norm)
        norm = torch.where(finite, begun.norm, zero)
        totals = tuple(torch.where(finite, number, zero) for number in begun.totals)
        g = [torch.where(finite.to(leaf.device), leaf, 0.0) for leaf in begun.g]
        told = Told(g, norm, space.number(1.0, g[0]))
        new = learner.update(space, begun.state, played, told, totals)
        next_played = learner.play(space, new)

        own = [self.state[p] for p, _ in begun.moving]
        self.layout.scatter(own, begun.state, new, finite, everything=not learner.lazy)
        self._move_points(space, begun.moving, played, next_played, finite)

    def _finite(self, rounds: list[Round]) -> torch.Tensor:
        """Whether the step counts: a number on the device, looked at only to raise."""
        numbers = [number for begun in rounds for number in (begun.norm, *begun.totals)]
        finite = torch.isfinite(numbers[0])
        for number in numbers[1:]:
            finite = finite & torch.isfinite(number).to(finite.device)
        found_inf = getattr(self, "found_inf", None)
        if found_inf is not None:
            finite = finite & (found_inf.to(finite.device).reshape(()) == 0)
        if self.process_group is not None and self.wealth == "tensor":  # all other sums crossed
            everywhere = TorchSpace(finite.device, group=self.process_group)
            finite = everywhere.total((~finite).to(everywhere.scalar))[0] == 0
        if found_inf is None and self.on_nonfinite == "raise" and not bool(finite):
            self._refuse(rounds)
        return finite

    def _refuse(self, rounds: list[Round]) -> None:
        """Say where NaN or inf is, and leave no trace."""
        for begun in rounds:
            for p in begun.fresh:
                del self.state[p]
        bad = [
            self._name(p)
            for begun in rounds
            for (p, _), g in zip(begun.moving, begun.g, strict=True)
            if not bool(torch.isfinite(g).all())
        ]
        where = f"parameter {', '.join(bad)}" if bad else "another rank, or in their sum alone"
        raise RuntimeError(
            f"RecursiveOptimizer: NaN or inf in the gradient of {where}; nothing was changed "
            f"(on_nonfinite='skip' would pass over such steps)"
        )

    def _name(self, p: torch.Tensor) -> str:
        """What to call a parameter: its name, if the optimizer was given named parameters."""
        for k, group in enumerate(self.param_groups):
            for i, other in enumerate(group["params"]):
                if other is p:
                    names = group.get("param_names")
                    return repr(names[i]) if names else f"{i} of group {k}"
        raise KeyError("not a parameter of this optimizer")

    def _gradient(self, p: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        """This rank's part of the gradient, real, unscaled, in the state's dtype."""
        grad = p.grad
        assert grad is not None
        if grad.is_sparse:
            grad = grad.to_dense()
        if isinstance(p, DTensor) and isinstance(grad, DTensor):
            grad = grad.redistribute(placements=p.placements)
        g = _local(grad.resolve_conj()).to(self._dtype(p))
        scale = getattr(self, "grad_scale", None)
        if scale is not None:
            g = g / scale.to(device=g.device, dtype=g.dtype).reshape(())
        return -g if group["maximize"] else g

    def _move_averages(self, finite: torch.Tensor) -> None:
        """Move each average towards its iterate, also where parameters stand still meanwhile."""
        if self.average is None:
            return
        for unit in self._units():
            own = [
                (_local(self.state[p][AVERAGE]), _local(p), self.state[p])
                for p, _ in unit
                if AVERAGE in self.state.get(p, {})
            ]
            if not own:
                continue
            rounds = own[0][2][ROUNDS]
            counts = finite.to(rounds.device)
            space = TorchSpace(rounds.device)
            share = self.average.share(space.xp, rounds.reshape(()) + 1)
            share = torch.where(counts, share, 0.0)
            for average, point, _ in own:
                point = point.to(average.dtype)
                average.copy_(moved(average, point, space.cast(share, average)))
            rounds.add_(counts.to(rounds.dtype).reshape(1))

    def _move_points(
        self,
        space: TorchSpace,
        moving: Unit,
        played: Played,
        next_played: Played,
        finite: torch.Tensor,
    ) -> None:
        increments = [
            _at_least_float32(new) - _at_least_float32(old)
            for new, old in zip(next_played.w, played.w, strict=True)
        ]
        decays = self._decays(space, moving, increments)
        for (p, group), increment, decay in zip(moving, increments, decays, strict=True):
            point, lr = _local(p), group["lr"]
            if decay is not None:
                increment = increment - decay * point.to(increment.dtype)
            if isinstance(lr, torch.Tensor):
                lr = lr.to(device=increment.device, dtype=increment.dtype).reshape(())
            # x + -0.0 is x to the bit, for x = -0.0 too.
            increment = torch.where(finite.to(increment.device), increment * lr, -0.0)
            if point.dtype in HALF_PRECISION:
                lost = self.state[p].get(LOST)
                add_rounded(
                    point,
                    increment,
                    None if lost is None else _local(lost),
                    stochastic=self.rounding == "stochastic",
                )
            else:
                point.add_(increment)

    def _decays(
        self,
        space: TorchSpace,
        moving: Unit,
        increments: list[torch.Tensor],
    ) -> list[torch.Tensor | None]:
        """For each parameter the share by which weight decay shrinks it, if any."""
        shares: list[torch.Tensor | None] = [None] * len(moving)
        decaying: list[tuple[dict[str, Any], list[int]]] = []
        sums: list[torch.Tensor] = []
        # Where ranks hold different parameters, a group may have none here: it adds zeros.
        for group in self.param_groups:
            here = [i for i, (_, mine) in enumerate(moving) if mine is group]
            if group["weight_decay"] == 0 or not (here or self.process_group is not None):
                continue
            weights = [1.0 if space.weights is None else space.weights[i] for i in here]
            sizes = [increments[i].numel() for i in here]
            part = TorchSpace(space.device, weights)
            leaves = [increments[i] for i in here]
            decaying.append((group, here))
            sums.append(part.dot(leaves, leaves) if here else part.number(0.0, increments[0]))
            size = sum(weight * n for weight, n in zip(weights, sizes, strict=True))
            sums.append(part.number(size, increments[0]))
        totals = space.total(*sums)
        for k, (group, here) in enumerate(decaying):
            rms = torch.sqrt(totals[2 * k] / torch.clamp(totals[2 * k + 1], min=1.0))
            for i in here:
                shares[i] = space.cast(group["weight_decay"] * rms, increments[i])
        return shares

    # Storage --------------------------------------------------------------------------------

    def _dtype(self, p: torch.Tensor) -> torch.dtype:
        return self.state_dtype or _at_least_float32(_local(p)).dtype

    def _ensure_state(
        self, everyone: list[torch.Tensor], params: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Make the state of parameters that have their first gradient, and name those."""
        fresh = [p for p in params if not self.state.get(p)]
        if not fresh:
            return fresh
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
                state[AVERAGE] = _like(p, _at_least_float32(local).clone())
            if local.dtype in HALF_PRECISION and self.rounding == "compensated":
                state[LOST] = _like(p, torch.zeros_like(local))
            state.update(numbers)
        return fresh

    def _space(self, params: list[torch.Tensor]) -> TorchSpace:
        """Where this unit's sums go: this process, or the ranks that share its tensors."""
        device = _local(params[0]).device
        # A tensor of its own wealth has nothing to do with those of other ranks.
        group = None if self.wealth == "tensor" else self.process_group
        meshes = {p.device_mesh for p in params if isinstance(p, DTensor)}
        if not meshes:
            return TorchSpace(device, None, group)
        ranks, size = _ranks_of(meshes)
        weights = [_split_over(p) / size for p in params]
        return TorchSpace(device, weights, ranks if group is None else group)

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
                point, average = _local(p), _local(state[AVERAGE])
                if point.dtype == average.dtype:
                    _swap(point, average)
                else:  # the average has more bits than the parameter can hold for it
                    state[TRAINING_POINT] = _like(p, point.clone())
                    point.copy_(average)
        for group in self.param_groups:
            group["training"] = False

    @torch.no_grad()
    def train(self) -> None:
        """Put the training weights back, exactly."""
        if self._training:
            return
        for p, state in self.state.items():
            if AVERAGE not in state or _local(p).dtype == _local(state[AVERAGE]).dtype:
                continue
            if TRAINING_POINT not in state:
                raise RuntimeError(
                    "RecursiveOptimizer: the checkpoint was saved in eval mode and loaded without "
                    "the training weights, which half precision keeps apart (torch.distributed."
                    "checkpoint loads only what a fresh optimizer has); save in train mode"
                )
        for p, state in self.state.items():
            if TRAINING_POINT in state:
                _local(p).copy_(_local(state.pop(TRAINING_POINT)))
            elif AVERAGE in state:
                _swap(_local(p), _local(state[AVERAGE]))
        for group in self.param_groups:
            group["training"] = True

    # Looking --------------------------------------------------------------------------------

    @torch.no_grad()
    def diagnostics(self) -> dict[str, float]:
        """Numbers to plot, as floats: reading them waits for the device, stepping never does.

        ``log_wealth`` and ``g_max`` of each unit that has its own (with ``/0``, ``/1``, … where
        there are several), and for each group the root mean square distance of its weights'
        bets from the start, ``bet/0``: Wealth · v, the size of what the learner stakes (on this
        rank, where weights are sharded: looking needs no other rank).
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
        """Resume; across devices and dtypes."""
        seen: list[dict[str, Any]] = []
        # The last of the pre-hooks sees what is loaded, the first of the post-hooks has the word
        # before anyone else looks.
        hooks = (
            self.register_load_state_dict_pre_hook(lambda _, loaded: seen.append(loaded)),
            self.register_load_state_dict_post_hook(
                lambda _: self._restore_state(seen[0]), prepend=True
            ),
        )
        try:
            super().load_state_dict(state_dict)
        finally:
            for hook in hooks:
                hook.remove()

    def _restore_state(self, loaded: dict[str, Any]) -> None:
        """Take tensors over once more: torch has cast all of them to the parameter's dtype."""
        saved = loaded["state"]
        ids = [i for group in loaded["param_groups"] for i in group["params"]]
        params = [p for group in self.param_groups for p in group["params"]]
        for i, p in zip(ids, params, strict=True):
            if not saved.get(i):
                continue
            missing = set(self.layout.keys.values()) - set(saved[i])
            if missing:
                raise ValueError(
                    f"RecursiveOptimizer: the loaded state lacks {sorted(missing)}; it is not of "
                    f"{self.learner!r}: make the optimizer with the settings it was saved with"
                )
            own, local = self.state[p], _local(p)
            numbers = (*self.layout.numbers, ROUNDS)
            dtypes = {
                key: _at_least_float32(local).dtype if key == AVERAGE else local.dtype
                for key in (AVERAGE, LOST, TRAINING_POINT)
            }
            for key, value in saved[i].items():
                if isinstance(value, torch.Tensor):
                    dtype = value.dtype if key in numbers else dtypes.get(key, self._dtype(p))
                    own[key] = value.to(device=local.device, dtype=dtype, copy=True)
            if self.average is not None and AVERAGE not in own:  # a new one, from here
                own[AVERAGE] = _like(p, _at_least_float32(local).clone())
                own[ROUNDS] = torch.zeros_like(own[self.layout.numbers[0]])
        self._share_numbers()

    def __getstate__(self) -> dict[str, Any]:
        # torch keeps the three things that load_state_dict can bring; copies need the rest too.
        own = (
            "average",
            "learner",
            "layout",
            "wealth",
            "on_nonfinite",
            "state_dtype",
            "rounding",
            "process_group",
        )
        return super().__getstate__() | {name: getattr(self, name) for name in own}

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


def _check_settings(group: dict[str, Any]) -> None:
    """Refuse settings of a group that cannot be meant."""
    lr, decay = group["lr"], group["weight_decay"]
    if isinstance(lr, torch.Tensor):
        if lr.numel() != 1:
            raise ValueError(
                f"RecursiveOptimizer: Tensor lr must be 1-element, not of {lr.numel()} elements; "
                f"several groups may have one each"
            )
    elif lr != 0:
        check_number("RecursiveOptimizer", "lr", lr, low=0.0)
    if decay != 0:
        check_number("RecursiveOptimizer", "weight_decay", decay, low=0.0)


def _swap(a: torch.Tensor, b: torch.Tensor) -> None:
    """Exchange the contents of two tensors."""
    kept = a.clone()
    a.copy_(b)
    b.copy_(kept)


def _local(x: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor, real: a view, so that writing to it writes to the tensor."""
    local: torch.Tensor = x.to_local() if isinstance(x, DTensor) else x
    return torch.view_as_real(local) if local.is_complex() else local


def _at_least_float32(x: torch.Tensor) -> torch.Tensor:
    """A tensor, or a copy in float32 if its own precision is less."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _like(p: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
    """State of this rank's part of p, sharded as p is, so that checkpoints can be resharded."""
    if not isinstance(p, DTensor):
        return local
    shape, stride = p.shape, p.stride()
    if p.is_complex():  # real and imaginary parts
        shape, stride = torch.Size((*shape, 2)), (*(2 * step for step in stride), 1)
    whole: torch.Tensor = DTensor.from_local(
        local, p.device_mesh, p.placements, run_check=False, shape=shape, stride=stride
    )
    return whole


def _split_over(p: torch.Tensor) -> int:
    """Over how many ranks the entries of p are divided."""
    if not isinstance(p, DTensor):
        return 1
    ranks = 1
    for size, placement in zip(p.device_mesh.shape, p.placements, strict=True):
        # Not `is_shard`: the strided shards of FSDP2 over tensor parallelism deny being shards.
        if not placement.is_replicate():
            ranks *= size
    return ranks


def _ranks_of(meshes: set[Any]) -> tuple[Any, int]:
    """All ranks of several meshes as one group, and how many they are."""
    widest = max(meshes, key=lambda mesh: mesh.size())
    world = dist.get_world_size()
    if len(meshes) > 1:
        held = set(widest.mesh.flatten().tolist())
        if not all(held.issuperset(mesh.mesh.flatten().tolist()) for mesh in meshes):
            return dist.group.WORLD, world  # crossing meshes: what they span together
    if widest.size() == world:
        return dist.group.WORLD, world
    if widest.ndim == 1:
        return widest.get_group(), widest.size()
    return widest._flatten().get_group(), widest.size()
