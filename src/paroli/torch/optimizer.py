"""`RecursiveOptimizer` for PyTorch: groups, storage, checkpoints; the formulas are the core's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
import torch.distributed as dist
from torch.optim.optimizer import Optimizer

import paroli.core.momentum as momentum_brick
from paroli.core.averaged import Average, exponential
from paroli.core.inplace import (
    Count,
    Keeping,
    Place,
    brought_up,
    decay_share,
    increments,
    root_mean_square,
    stepped,
    told,
)
from paroli.core.lazy import Clock, ticked
from paroli.core.learner import Learner, Played, State, check_number, reduce
from paroli.core.recursive import recursive
from paroli.core.rescaled import rescaled
from paroli.core.scinol import scinol
from paroli.torch.layout import Layout
from paroli.torch.leaves import HALF_PRECISION, LAG, LOST, Leaf, at_least, like, local, split_over
from paroli.torch.memory import in_large_pages
from paroli.torch.native import (
    ON_ITS_OWN,
    Compiled,
    compiled_leaf,
    counted,
    counts,
    in_tensors,
    parts_of_sums,
    weighed,
    why_not,
    write_numbers,
)
from paroli.torch.rows import CLOCK, SINCE, Rows, touched
from paroli.torch.settled import Settled, Unit
from paroli.torch.space import NAMESPACE, DTensor, TorchSpace

Params: TypeAlias = Any
Wealth: TypeAlias = Literal["global", "group", "tensor"]

WEALTHS = ("global", "group", "tensor")
ROUNDINGS = ("compensated", "stochastic", "nearest")
ON_NONFINITE = ("skip", "raise")
ROUNDS, TRAINING_POINT = "rounds", "training_point"
"""Keys of ``state[p]`` beside those of the learner's state and of the modules that import these."""
LONGEST_DECAY = 0.999
"""Of averages whose distance from the parameter is kept in bfloat16."""
ROWS_AT_ONCE = 1 << 20
"""How many rows are brought up to date together, where it is all of them."""
SETTINGS = {
    "weight_decay": 0.0,
    "maximize": False,
    "foreach": None,
    "fused": None,
    "capturable": True,
    "training": True,
}
"""What a group has beside ``lr``; older checkpoints may lack some."""


class Round(NamedTuple):
    """What is known of a unit's round before anything changes."""

    moving: Unit
    fresh: list[torch.Tensor]
    """Those whose state was made for this round."""
    leaves: list[Leaf]
    """Those that are stepped by torch's operators."""
    natives: dict[Compiled, float]
    """Those that are stepped by compiled code, and the weight of this rank's copy."""
    everything: list[Leaf]
    """Both, in the order of parameters."""
    everywhere: TorchSpace
    """Where sums over both go."""
    space: TorchSpace
    numbers: dict[str, torch.Tensor]
    state: State
    played: Played
    g: list[torch.Tensor]
    norm: Any
    totals: tuple[Any, ...]
    """Tensors; numbers of NumPy's where loops on the CPU step all there is."""


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
    group or tensor its own.  *Per group:* ``lr``, ``weight_decay``, ``maximize``, ``foreach``,
    ``fused``.

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
        foreach: keep the tensors of a group end to end and step them together, which is quicker
            than one by one and the same up to the order of sums; None: wherever it is possible.
        fused: step in loops that are compiled for this processor from the very same formulas,
            instead of torch's operators, or in kernels for this GPU (Triton); None: on the CPU,
            wherever there is a C compiler; True: wherever the parameters are, with an error where
            that is not possible; False: never.
        capturable: nothing has to be asked for: once its state is made, a step can be captured in a
            CUDA graph.  (Torch looks for the setting.)
        on_nonfinite: a gradient with NaN or inf: "skip" the step, for all parameters, without
            looking at it from the host, or "raise" (which has to look).  Either way nothing
            changes.  A step that a `torch.amp.GradScaler` calls off is skipped in any case.
        state_dtype: dtype of the learner's state; None: float64 for float64 parameters, for all
            others float32, with what needs few digits in bfloat16: ScInOL's bets, its largest
            gradients (rounded up), the root of their squares and the average's distance from the
            parameter (both rounded by chance).  All in bfloat16 is noisier.
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
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = True,
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
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "fused": fused,
            "capturable": capturable,
            "training": True,
        }
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
        if foreach and fused:
            raise ValueError(
                "RecursiveOptimizer: foreach=True asks for torch's operators and fused=True for "
                "compiled loops: choose one, or leave both None"
            )
        if foreach and (wealth == "tensor" or not self.layout.joinable):
            raise ValueError(
                "RecursiveOptimizer: foreach=True, but with wealth='tensor' or an inner learner "
                "that keeps numbers for each tensor they are stepped one by one: leave it None"
            )
        self._on_demand: dict[torch.Tensor, None] = {}
        self._leaf_of: dict[torch.Tensor, Leaf] = {}
        self._strides: dict[int, tuple[Any, float, Any]] = {}
        """Sum of squares of the last increments, how many they are, and lr; by group."""
        self._settled: Settled | None = None
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
        units = self._units_settled() or list(self._units())
        rounds = [self._begin(k, unit) for k, unit in enumerate(units)]
        begun = [one for one in rounds if one is not None]
        if begun:
            finite = self._finite(begun)
            for unit, one in zip(units, rounds, strict=True):
                count = self._count(unit, one, finite)
                if count is not None:
                    stakes = None if one is None else self._end(one, count)
                    if one is None or len(one.moving) < len(unit) or self._on_demand:
                        count = in_tensors(count)
                        self._move_averages_of_the_rest(unit, count)
                        self._move_clocks(unit, one, stakes, count)
            self._settle_down(units, rounds)
        return loss

    def _units_settled(self) -> list[Unit] | None:
        """The units as they were in the last step; None: something has changed."""
        settled = self._settled
        if settled is None or torch.compiler.is_compiling():
            return None
        if not settled.holds(self.param_groups, self.state):
            self._settled = None
            return None
        return settled.units

    def _settle_down(self, units: list[Unit], rounds: list[Round | None]) -> None:
        """After a step that was like the next one will be, remember what it found out."""
        if self._settled is not None or self._on_demand or torch.compiler.is_compiling():
            return
        leaves, spaces = [], []
        for unit, one in zip(units, rounds, strict=True):
            if one is None or len(one.moving) < len(unit):
                return
            if any(self._leaf_of.get(leaf.params[0]) is not leaf for leaf in one.everything):
                return
            leaves.append(one.everything)
            spaces.append(one.everywhere)
        self._settled = Settled(self.param_groups, self.state, units, leaves, spaces)

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

    def _begin(self, k: int, unit: Unit) -> Round | None:
        """Play, and take the sums of the round; None: no parameter has a gradient."""
        without = [p.grad is None for p, _ in unit]
        if all(without):
            return None
        if self._settled is not None and not any(without):
            moving, fresh = unit, []
            everything, everywhere = self._settled.leaves[k], self._settled.spaces[k]
        else:
            moving = [pair for pair, none in zip(unit, without, strict=True) if not none]
            fresh = self._ensure_state(unit, moving)
            everything = self._moving_leaves(moving)
            everywhere = self._space(everything)
        numbers = self.state[moving[0][0]]
        scale = getattr(self, "grad_scale", None)
        made = [self._native(leaf, scale, everywhere.device) for leaf in everything]
        weights = everywhere.weights or [1.0] * len(made)
        natives = {
            native: weight
            for native, weight in zip(made, weights, strict=True)
            if native is not None
        }
        eager = [i for i, native in enumerate(made) if native is None]
        known = {name: numbers[name] for name in self.layout.numbers}
        beside = parts_of_sums(natives, known, scale, alone=not eager and everywhere.group is None)
        head = moving, fresh
        if not eager:
            norm, *some = everywhere.total(*beside)
            nobody = everywhere.of_some((), ())
            rest: Any = (nobody, numbers, (), Played([]), [], norm, tuple(some))
            return Round(*head, [], natives, everything, everywhere, *rest)
        leaves = [everything[i] for i in eager]
        space = everywhere.of_some(eager, beside)
        state = self._nested(numbers, leaves)
        g = [leaf.gradient(scale) for leaf in leaves]
        played = self.learner.play(space, state)
        norm, totals = reduce(space, self.learner, played, g)
        space.beside = ()
        rest = (space, numbers, state, played, g, norm, totals)
        return Round(*head, leaves, natives, everything, everywhere, *rest)

    def _native(
        self, leaf: Leaf, scale: torch.Tensor | None, device: torch.device
    ) -> Compiled | None:
        """The compiled form of a leaf, where it may have one and can."""
        asked = leaf.group["fused"]
        if asked is False or torch.compiler.is_compiling():
            return None
        if asked is None and device.type not in ON_ITS_OWN:
            return None
        native = compiled_leaf(leaf, self.learner, self.layout, scale is not None, device)
        if native is None and asked:
            reason = why_not(leaf, device) or "its learner's sums are not of one pass"
            raise RuntimeError(
                f"RecursiveOptimizer: fused=True, but parameter {self._name(leaf.params[0])} "
                f"cannot be stepped in compiled code: {reason}; leave fused None"
            )
        return native

    def _nested(self, numbers: dict[str, torch.Tensor], leaves: Sequence[Leaf]) -> State:
        parts = [{key: leaf.read(key) for key in self.layout.parts} for leaf in leaves]
        scalars = {key: numbers[key].reshape(()) for key in self.layout.numbers}
        return self.layout.nested(scalars, parts)

    def _count(self, unit: Unit, begun: Round | None, finite: Any) -> Count | None:
        """What the round has to say to all parameters of a unit; None: it has never stepped."""
        if begun is None:
            some = next((self.state[p] for p, _ in unit if self.state.get(p)), None)
        else:
            some = begun.numbers
        if some is None:
            return None
        natives = () if begun is None else tuple(begun.natives)
        return counted(natives, some[ROUNDS], self.average, finite)

    def _end(self, begun: Round, count: Count) -> torch.Tensor | None:
        """Tell the learner, and move; where the round does not count, to where everything is.

        Returns how much the stake changed, if bets are of that form.
        """
        space, learner, leaves = begun.space, self.learner, begun.leaves
        stakes: torch.Tensor | None = None
        places: list[Place] = []
        moves: list[torch.Tensor] = []
        if leaves:
            for leaf in leaves:
                if isinstance(leaf, Rows):
                    self._bring_up(leaf)
            places = [leaf.place() for leaf in leaves]
            new = told(
                space,
                learner,
                self.layout,
                begun.state,
                begun.played,
                begun.g,
                begun.norm,
                begun.totals,
                count,
                [leaf.keeping for leaf in leaves],
                [place.number for place in places],
            )
            before, after = learner.stake(space, begun.state), learner.stake(space, new)
            if before is not None and after is not None:
                stakes = after[0] - before[0]
            moves = increments(learner.play(space, new), begun.played)
        for native in begun.natives:
            native.tell((begun.norm, *begun.totals), count)
        decays = self._decays(begun, moves)
        for leaf, place, move in zip(leaves, places, moves, strict=True):
            lr: Any = leaf.group["lr"]
            if isinstance(lr, torch.Tensor):
                lr = space.cast(lr, move).reshape(())
            share = decays.get(id(leaf.group))
            decay = None if share is None else space.cast(share, move)
            leaf.move(stepped(space, place, leaf.keeping, move, lr, decay, count))
        numbers = self._end_natives(begun, decays)
        if leaves:
            numbers, parts = self.layout.flat(new, len(leaves))
            for leaf, mine in zip(leaves, parts, strict=True):
                for key, value in mine.items():
                    leaf.put(key, value)
        write_numbers(begun.numbers, numbers)
        return stakes

    def _end_natives(self, begun: Round, decays: dict[int, torch.Tensor]) -> dict[str, Any]:
        """Change what is stepped by compiled code; the new global numbers."""
        numbers: dict[str, Any] = {}
        squares: dict[int, list[tuple[Any, float]]] = {}
        for native, weight in begun.natives.items():
            group = native.leaf.group
            found, numbers = native.finish(decays.get(id(group)))
            squares.setdefault(id(group), []).append((found, weight))
        for k, group in enumerate(self.param_groups):
            if id(group) in squares and id(group) not in decays:
                self._note_stride(begun, k, weighed(squares[id(group)]))
        return numbers

    def _finite(self, rounds: list[Round]) -> Any:
        """Whether the step counts: a number on the device, looked at only to raise."""
        sums = [number for begun in rounds for number in (begun.norm, *begun.totals)]
        found_inf = getattr(self, "found_inf", None)
        natives = [native for begun in rounds for native in begun.natives]
        finite = counts(natives, sums, found_inf)
        if self.process_group is not None and self.wealth == "tensor":  # all other sums crossed
            finite = torch.as_tensor(finite)
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
                self._leaf_of.pop(p, None)
        bad = {
            p: None
            for begun in rounds
            for leaf in (*begun.leaves, *(native.leaf for native in begun.natives))
            for p, g in zip(leaf.params, leaf.parted(leaf.gradient(None)), strict=True)
            if not bool(torch.isfinite(g).all())
        }
        names = [self._name(p) for begun in rounds for p, _ in begun.moving if p in bad]
        where = f"parameter {', '.join(names)}" if names else "another rank, or in their sum alone"
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

    def _move_averages_of_the_rest(self, unit: Unit, count: Count) -> None:
        """Parameters without a gradient stand still, and their averages move towards them."""
        if count.share is None:
            return
        rest = [
            (p, group)
            for p, group in unit
            if p.grad is None and self.state.get(p) and not self._waits(p, group)
        ]
        for leaf in self._leaves(rest):
            place = leaf.place()
            still = torch.zeros_like(place.x)
            space = TorchSpace(still.device)
            lag: Any = stepped(space, place, leaf.keeping, still, 1.0, None, count).lag
            leaf.put(LAG, lag)

    def _decays(self, begun: Round, moves: list[torch.Tensor]) -> dict[int, torch.Tensor]:
        """For each group, by its id, the share by which weight decay shrinks it, if any."""
        decaying: list[dict[str, Any]] = []
        sums: list[torch.Tensor] = []
        space, leaves = begun.space, begun.leaves
        # Where ranks hold different parameters, a group may have none here: it adds zeros.
        for k, group in enumerate(self.param_groups):
            here = [i for i, leaf in enumerate(leaves) if leaf.group is group]
            natives = [native for native in begun.natives if native.leaf.group is group]
            decays = group["weight_decay"] != 0
            if not here and not decays:
                continue
            if not here and not natives and self.process_group is None:
                continue
            squares = torch.zeros((), dtype=space.scalar, device=space.device)
            if here:
                mine = [moves[i] for i in here]
                part = space.of_some(here, ())
                squares = squares + part.dot(mine, mine)
            if natives and decays:
                squares = squares + weighed(
                    [(native.squares(), begun.natives[native]) for native in natives]
                )
            if not (natives and not decays):  # else the last loop will know
                self._note_stride(begun, k, squares)
            if decays:
                decaying.append(group)
                sums += [squares, torch.full_like(squares, self._size(begun, group))]
        totals = space.total(*sums)
        return {
            id(group): decay_share(
                NAMESPACE, group["weight_decay"], totals[2 * k], totals[2 * k + 1]
            )
            for k, group in enumerate(decaying)
        }

    def _size(self, begun: Round, group: dict[str, Any]) -> float:
        """How many entries of a group this rank counts for."""
        weights = begun.space.weights or [1.0] * len(begun.leaves)
        eager = sum(
            weight * leaf.point().numel()
            for leaf, weight in zip(begun.leaves, weights, strict=True)
            if leaf.group is group
        )
        return eager + sum(
            weight * native.size
            for native, weight in begun.natives.items()
            if native.leaf.group is group
        )

    def _note_stride(self, begun: Round, k: int, squares: Any) -> None:
        """Remember how far this step went, for `diagnostics`."""
        group = self.param_groups[k]
        lr = group["lr"]
        lr = lr.clone() if isinstance(lr, torch.Tensor) else lr  # schedules write to it
        self._strides[k] = squares, self._size(begun, group), lr

    # Rows on demand -------------------------------------------------------------------------

    @torch.no_grad()
    def settle(self, *params: torch.Tensor) -> None:
        """Bring all rows of embeddings under `rows_on_demand` up to date, at the cost of all rows.

        Needed before reading their weights by other ways than the module's forward or
        ``state_dict()``: copying the model, saving a weight by hand, summing its norm.  `eval`
        and `state_dict` do it themselves.

        Args:
            params: which; none: all of them.
        """
        for p in params or self._on_demand:
            own = self.state.get(p, {})
            if CLOCK in own and self._training:
                for first in range(0, len(p), ROWS_AT_ONCE):
                    last = min(first + ROWS_AT_ONCE, len(p))
                    self.bring_up(p, torch.arange(first, last, device=p.device))
                own[CLOCK].zero_()
                own[SINCE].zero_()

    def wait_for_rows(self, p: torch.Tensor) -> None:
        """Leave rows of p alone while they have no gradient; `rows_on_demand` sees to the reads."""
        stake = self.learner.stake(TorchSpace(torch.device("cpu")), self.layout.template)
        if stake is None:
            raise ValueError(
                f"RecursiveOptimizer: rows of {self._name(p)} cannot be brought up to date later, "
                f"since bets of {self.learner!r} are not wealth times what stays without a "
                f"gradient; use momentum=None and an inner learner such as scinol(), or leave "
                f"rows_on_demand away: sparse gradients are then stepped at the cost of all rows"
            )
        if isinstance(p, DTensor):
            raise TypeError(
                f"RecursiveOptimizer: rows of {self._name(p)} are on several ranks; leave "
                f"rows_on_demand away, or keep this weight out of sharding"
            )
        self._on_demand[p] = None

    @torch.no_grad()
    def bring_up(self, p: torch.Tensor, rows: torch.Tensor) -> None:
        """Bring some rows of p up to date before they are read."""
        if not self._training or CLOCK not in self.state.get(p, {}):
            return
        group = next(g for g in self.param_groups if any(q is p for q in g["params"]))
        leaf = self._rows(p, group, rows)
        leaf.quietly = True
        self._bring_up(leaf)

    def _bring_up(self, leaf: Rows) -> None:
        """Move rows to where rounds without gradients have moved them."""
        (p,) = leaf.params
        own = self.state[p]
        space = TorchSpace(local(p).device)
        stake = self.learner.stake(space, self._nested(own, [leaf]))
        assert stake is not None, "rows_on_demand has looked"
        _, (v,) = stake
        since = leaf.get(SINCE)
        ones = [1] * (v.ndim - 1)
        then = Clock(*(column.reshape(-1, *ones) for column in since.unbind(1)))
        now = Clock(*own[CLOCK].unbind())
        seed = own[ROUNDS].to(torch.int32).reshape(())
        leaf.move(brought_up(space, leaf.place(), leaf.keeping, v, then, now, seed))
        leaf.put(SINCE, own[CLOCK].expand_as(since))

    def _move_clocks(
        self,
        unit: Unit,
        begun: Round | None,
        stakes: torch.Tensor | None,
        count: Count,
    ) -> None:
        """Let the rows that wait know what happened."""
        for p, group in unit if self._on_demand else ():
            if self._waits(p, group):
                clock = self.state[p][CLOCK]
                space = TorchSpace(clock.device)
                nothing = torch.zeros_like(clock[0])
                moved_by = nothing
                if p.grad is not None and stakes is not None:
                    moved_by = (stakes.to(clock.device) * group["lr"]).reshape(())
                now = ticked(
                    space.xp,
                    Clock(*clock.unbind()),
                    moved_by,
                    nothing if count.share is None else count.share.to(clock.device),
                )
                clock.copy_(torch.stack(now))
                for leaf in () if begun is None else begun.leaves:
                    if isinstance(leaf, Rows) and leaf.params[0] is p:
                        leaf.put(SINCE, clock.expand_as(leaf.get(SINCE)))

    def _waits(self, p: torch.Tensor, group: dict[str, Any]) -> bool:
        """Whether rows of p are left alone in this round."""
        if p not in self._on_demand or CLOCK not in self.state.get(p, {}):
            return False
        return p.grad is None or self._by_rows(p, group)

    def _by_rows(self, p: torch.Tensor, group: dict[str, Any]) -> bool:
        """Whether only the touched rows of p are stepped."""
        return p.grad is not None and p.grad.is_sparse and group["weight_decay"] == 0

    def _rows(self, p: torch.Tensor, group: dict[str, Any], *which: Any) -> Rows:
        keeping = self._keeping(p)
        return Rows(p, group, self._parts_of(p), keeping, self._computed_in(p), *which)

    # Storage --------------------------------------------------------------------------------

    def _computed_in(self, p: torch.Tensor) -> torch.dtype:
        """The dtype of the arithmetic."""
        least = torch.promote_types(local(p).dtype, torch.float32)
        return torch.promote_types(least, self.state_dtype or least)

    def _kept_in(self, p: torch.Tensor, key: str) -> torch.dtype:
        """The dtype of a part of the learner's state."""
        if self.state_dtype is not None:
            return self.state_dtype
        full = self._computed_in(p)
        lean = full == torch.float32 and key in self.layout.lean_forms
        return torch.bfloat16 if lean else full

    def _keeping(self, p: torch.Tensor) -> Keeping:
        """In how many bits what belongs to p is kept."""
        point, full = local(p), self._computed_in(p)

        def form(dtype: torch.dtype, lean: str = "half") -> str:
            if dtype == torch.bfloat16:
                return lean
            return "single" if dtype == torch.float32 != full else "whole"

        return Keeping(
            {
                key: form(self._kept_in(p, key), self.layout.lean_forms.get(key, "half"))
                for key in self.layout.parts
            },
            form(self._lag_in(point)),
            str(point.dtype).removeprefix("torch."),
            self.rounding == "stochastic",
        )

    def _lag_in(self, point: torch.Tensor) -> torch.dtype:
        """The dtype of the average's distance from the parameter.

        bfloat16 does for an average that forgets: rounding by chance adds up over what it remembers
        to about a hundredth of the distance.
        """
        full = torch.promote_types(point.dtype, torch.float32)
        forgets = isinstance(self.average, exponential) and self.average.decay <= LONGEST_DECAY
        lean = self.state_dtype in (None, torch.bfloat16) and full == torch.float32
        return torch.bfloat16 if lean and forgets else full

    def _ensure_state(self, unit: Unit, moving: Unit) -> list[torch.Tensor]:
        """Make the state of parameters that have their first gradient, and name those."""
        fresh = [(p, group) for p, group in moving if not self.state.get(p)]
        if fresh:
            settled = [self.state[p] for p, _ in unit if self.state.get(p)]
            if settled:
                keys = (*self.layout.numbers, ROUNDS)
                numbers = {key: settled[0][key] for key in keys}
            else:
                space = TorchSpace(local(fresh[0][0]).device)
                numbers = self.layout.init_numbers(space)
                numbers[ROUNDS] = torch.zeros(1, dtype=space.scalar, device=space.device)
        for bucket in self._buckets(fresh):
            params = [p for p, _ in bucket]
            self._store(bucket, self._init_parts(params))
            for p in params:
                self.state[p].update(numbers)
        loose: Unit = []
        for p, group in moving:
            leaf = self._leaf_of.get(p)
            if leaf is None or leaf.group is not group or not leaf.has(p, self.state[p]):
                loose.append((p, group))
        for bucket in self._buckets(loose):  # loaded, copied, moved or laid otherwise from outside
            params = [p for p, _ in bucket]
            states = [self._parts_of(p) for p in params]
            together = Leaf(params, {}, {}, self._keeping(params[0]), torch.float32)
            parts = {key: together.arranged([own[key] for own in states]) for key in states[0]}
            self._store(bucket, parts)
        for p in self._on_demand:
            if self.state.get(p) and CLOCK not in self.state[p]:
                device, scalar = local(p).device, TorchSpace(local(p).device).scalar
                count = len(Clock._fields)
                self.state[p][CLOCK] = torch.zeros(count, dtype=scalar, device=device)
                self.state[p][SINCE] = torch.zeros(p.shape[0], count, dtype=scalar, device=device)
        return [p for p, _ in fresh]

    def _buckets(self, some: Unit) -> list[Unit]:
        """Those that are stored end to end, together."""
        found: dict[Any, Unit] = {}
        for i, (p, group) in enumerate(some):
            part = local(p)
            which = [k for k, other in enumerate(self.param_groups) if other is group]
            key: Any = (which[0], part.dtype, part.device, split_over(p), isinstance(p, DTensor))
            together = group["foreach"] is not False and self.layout.joinable
            if not together or self.wealth == "tensor" or p in self._on_demand:
                key = i
            found.setdefault(key, []).append((p, group))
        return list(found.values())

    def _init_parts(self, params: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        """The state of parameters before their first round, end to end."""
        first, computed_in = local(params[0]), self._computed_in(params[0])
        if len(params) == 1:
            leaf = torch.zeros_like(first, dtype=computed_in)  # in the same order of memory
        else:
            count = sum(local(p).numel() for p in params)
            leaf = torch.zeros(count, dtype=computed_in, device=first.device)
        parts = {
            key: part.to(self._kept_in(params[0], key))
            for key, part in self.layout.init_leaf(TorchSpace(first.device), leaf).items()
        }
        if self.average is not None:
            parts[LAG] = torch.zeros_like(leaf, dtype=self._lag_in(first))
        if first.dtype in HALF_PRECISION and self.rounding == "compensated":
            parts[LOST] = torch.zeros_like(leaf, dtype=first.dtype)
        return parts

    def _store(self, bucket: Unit, parts: dict[str, torch.Tensor]) -> None:
        """Keep the parts of these parameters' state, and views of them in ``state[p]``."""
        params, group = [p for p, _ in bucket], bucket[0][1]
        leaf = Leaf(params, group, parts, self._keeping(params[0]), self._computed_in(params[0]))
        leaf.mark = self.layout.parts[0]
        for key, whole in parts.items():
            in_large_pages(whole)
            for p, part in zip(params, leaf.parted(whole), strict=True):
                self.state[p][key] = like(p, part)
        for p in params:
            in_large_pages(local(p))
            leaf.views[p] = self.state[p][leaf.mark]
            self._leaf_of[p] = leaf

    def _moving_leaves(self, moving: Unit) -> list[Leaf]:
        """What the learner is told of in this round."""
        if not self._on_demand:
            return self._leaves(moving)
        leaves = self._leaves([(p, group) for p, group in moving if not self._waits(p, group)])
        for p, group in moving:
            if self._waits(p, group):
                assert p.grad is not None
                leaves.append(self._rows(p, group, *touched(p.grad)))
            elif p in self._on_demand:
                self.settle(p)
        return leaves

    def _leaves(self, some: Unit) -> list[Leaf]:
        """Parameters as they are stored; singly where not all of a leaf are there."""
        wholes = [self._leaf_of.get(p) for p, _ in some]
        count = Counter(wholes)
        found: list[Leaf] = []
        for (p, group), whole in zip(some, wholes, strict=True):
            if whole is None or count[whole] < len(whole.params):
                found.append(
                    Leaf([p], group, self._parts_of(p), self._keeping(p), self._computed_in(p))
                )
            elif whole.params[0] is p:
                found.append(whole)
        return found

    def _parts_of(self, p: torch.Tensor) -> dict[str, torch.Tensor]:
        """What ``state[p]`` has for each entry, or row, of p."""
        keys = (*self.layout.parts, LAG, LOST, SINCE)
        return {key: local(part) for key, part in self.state[p].items() if key in keys}

    def _space(self, leaves: list[Leaf]) -> TorchSpace:
        """Where this unit's sums go: this process, or the ranks that share its tensors."""
        params = [p for leaf in leaves for p in leaf.params]
        device = local(params[0]).device
        masks = [leaf.mask for leaf in leaves]
        some_masked = masks if any(mask is not None for mask in masks) else None
        # A tensor of its own wealth has nothing to do with those of other ranks.
        group = None if self.wealth == "tensor" else self.process_group
        meshes = {p.device_mesh for p in params if isinstance(p, DTensor)}
        if not meshes:
            return TorchSpace(device, None, group, some_masked)
        ranks, size = _ranks_of(meshes)
        weights = [split_over(leaf.params[0]) / size for leaf in leaves]
        return TorchSpace(device, weights, ranks if group is None else group, some_masked)

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
        self.settle()
        for p, state in self.state.items():
            if LAG in state:
                point = local(p)
                state[TRAINING_POINT] = like(p, point.clone())
                point.copy_(at_least(point, torch.float32) + local(state[LAG]))
        for group in self.param_groups:
            group["training"] = False

    @torch.no_grad()
    def train(self) -> None:
        """Put the training weights back, exactly."""
        if self._training:
            return
        if any(LAG in state and TRAINING_POINT not in state for state in self.state.values()):
            raise RuntimeError(
                "RecursiveOptimizer: the checkpoint was saved in eval mode and loaded without the "
                "training weights (torch.distributed.checkpoint loads only what a fresh optimizer "
                "has); save in train mode"
            )
        for p, state in self.state.items():
            if LAG in state:
                local(p).copy_(local(state.pop(TRAINING_POINT)))
        for group in self.param_groups:
            group["training"] = True

    # Looking --------------------------------------------------------------------------------

    @torch.no_grad()
    def diagnostics(self) -> dict[str, float]:
        """Numbers to plot, as floats: reading them waits for the device, stepping never does.

        ``log_wealth`` and ``g_max`` of each unit that has its own (with ``/0``, ``/1``, … where
        there are several).  For each group the effective step size ``step/0``, …: the root mean
        square of the last increments; and ``bet/0``, …: that of Wealth · v, the distance of the
        weights from the start as the learner sees it.  (Both on this rank, where weights are
        sharded: looking needs no other rank.)
        """
        found: dict[str, float] = {}
        units = [[(p, g) for p, g in unit if self.state.get(p)] for unit in self._units()]
        units = [unit for unit in units if unit]
        for i, unit in enumerate(units):
            suffix = f"/{i}" if len(units) > 1 else ""
            leaves = self._leaves(unit)
            numbers = self.state[unit[0][0]]
            state = self._nested(numbers, leaves)
            space = self._space(leaves)
            found[f"log_wealth{suffix}"] = float(self.learner.log_wealth(space, state))
            found[f"g_max{suffix}"] = float(numbers["g_max"])
            bets = self.learner.bet(space, state)
            for k, group in enumerate(self.param_groups):
                mine = [w for w, leaf in zip(bets, leaves, strict=True) if leaf.group is group]
                if mine:
                    here = TorchSpace(space.device)
                    size = here.number(sum(w.numel() for w in mine), mine[0])
                    found[f"bet/{k}"] = float(
                        root_mean_square(NAMESPACE, here.dot(mine, mine), size)
                    )
        here = TorchSpace(torch.device("cpu"))
        for k, (squares, size, lr) in sorted(self._strides.items()):
            known = here.number(float(squares), None), here.number(size, None)
            found[f"step/{k}"] = float(root_mean_square(NAMESPACE, *known)) * float(lr)
        return found

    # Checkpoints ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything that training needs to go on; rows that wait are brought up to date first."""
        self.settle()
        found: dict[str, Any] = super().state_dict()
        found["state"] = {
            i: {key: value for key, value in own.items() if key not in (CLOCK, SINCE)}
            if isinstance(own, dict)
            else own  # what a hook has put beside the parameters' state
            for i, own in found["state"].items()
        }
        return found

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
            own, point = self.state[p], local(p)
            numbers = (*self.layout.numbers, ROUNDS)
            dtypes = {LAG: self._lag_in(point), LOST: point.dtype, TRAINING_POINT: point.dtype}
            for key, value in saved[i].items():
                if isinstance(value, torch.Tensor):
                    dtype = (
                        value.dtype if key in numbers else dtypes.get(key, self._kept_in(p, key))
                    )
                    own[key] = value.to(device=point.device, dtype=dtype, copy=True)
            if self.average is not None and LAG not in own:  # a new one, from here
                own[LAG] = like(p, torch.zeros(point.shape, dtype=dtypes[LAG], device=point.device))
                own.pop(ROUNDS, None)
            own.setdefault(ROUNDS, torch.zeros_like(own[self.layout.numbers[0]]))
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
            "_on_demand",
        )
        return super().__getstate__() | {name: getattr(self, name) for name in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._leaf_of, self._strides, self._settled = {}, {}, None
        for group in self.param_groups:
            for name, value in SETTINGS.items():
                group.setdefault(name, value)

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
