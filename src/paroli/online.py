"""Ask and tell in NumPy: the way to play any stack of bricks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from paroli.core.learner import Learner, Played, State, check_learner, flatten, tell, unflatten
from paroli.core.norms import absolute_sum
from paroli.core.space import NUMPY

FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
Point: TypeAlias = "FloatArray | list[FloatArray]"

FORMAT = 1
"""Version of the plain dict that `OnlineLearner.state_dict` makes."""


class OnlineLearner:
    r"""An online learning algorithm playing round after round, in NumPy.

    Each round, play `point`, see the loss there, and tell its (sub)gradient by `update`:

    .. math:: x_t = \text{start} + w_t, \qquad g_t \in \partial \ell_t(x_t).

    Args:
        learner: a brick, or a stack of bricks such as ``rescaled(recursive(inner=scinol()))``.
        start: where to begin: a float32 or float64 array, or a list of them.

    >>> import numpy as np
    >>> from paroli import OnlineLearner, averaged, diagonal, recursive, rescaled
    >>> target = np.array([1.0, -2.0])
    >>> learner = OnlineLearner(averaged(rescaled(recursive(diagonal()))), start=np.zeros(2))
    >>> for _ in range(3000):
    ...     learner.update(np.sign(learner.point - target))  # the gradient of |x - target|
    >>> bool(np.abs(learner.average - target).max() < 0.1)
    True
    """

    def __init__(self, learner: Learner, start: npt.ArrayLike | Sequence[npt.ArrayLike]) -> None:
        check_learner("OnlineLearner", "learner", learner)
        self.learner = learner
        self._is_list = isinstance(start, list | tuple)
        leaves = list(start) if self._is_list else [start]  # type: ignore[arg-type]
        if not leaves:
            raise ValueError("start is an empty list: give at least one array")
        self._start = [_checked_start(self._name(i), leaf) for i, leaf in enumerate(leaves)]
        self._state: State = learner.init(NUMPY, self._start)
        self._played: Played | None = None

    # Playing --------------------------------------------------------------------------------

    @property
    def point(self) -> Any:
        """What to play now: start + w_t, shaped as start; yours to keep and to change."""
        return self._shaped(self._play().w)

    def update(self, g: npt.ArrayLike | Sequence[npt.ArrayLike]) -> None:
        """Take the round's gradient at `point`.

        A gradient with NaN or inf, of a wrong shape or dtype, is refused by an error that names the
        leaf, and nothing changes.
        """
        leaves = self._checked("the gradient", g)
        with np.errstate(over="ignore"):
            size = absolute_sum(NUMPY, leaves)
        if not size < self._largest:  # NaN and inf anywhere end up in the sum
            leaves, size = self._tamed(leaves), None
        self._state = tell(NUMPY, self.learner, self._state, leaves, self._play(), size)
        self._played = None

    def announce(self, x: npt.ArrayLike | Sequence[npt.ArrayLike]) -> None:
        """Say before playing that this round's gradient is a slope in [-1, 1] times x.

        In a linear model x is the row of features.  `scinol1` and `scinol2` make use of it.
        """
        leaves = self._checked("the announcement", x)
        self._refuse_nonfinite("the announcement", leaves)
        self._state = self.learner.announce(NUMPY, self._state, leaves)
        self._played = None

    # Looking --------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state, a nest of named tuples of arrays; read it, but do not write to it."""
        return self._state

    @property
    def log_wealth(self) -> float:
        """The logarithm of the wealth."""
        return float(self.learner.log_wealth(NUMPY, self._state))

    @property
    def average(self) -> Any:
        """The average of the points played so far, where `averaged` is in the stack."""
        return self._shaped(self.learner.average(NUMPY, self._state))

    def __repr__(self) -> str:
        shapes = ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in self._start)
        return f"<OnlineLearner {self.learner!r} on {shapes}>"

    # Keeping --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything as a plain dict of strings, numbers and arrays, copied.

        >>> import numpy as np
        >>> from paroli import OnlineLearner, diagonal
        >>> learner = OnlineLearner(diagonal(), start=np.zeros(2))
        >>> sorted(learner.state_dict()["state"])
        ['0.A', '0.sum_z', '0.wealth']
        """
        return {
            "format": FORMAT,
            "learner": repr(self.learner),
            "start": [leaf.copy() for leaf in self._start],
            "state": {path: np.array(part) for path, part in flatten(self._state).items()},
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Resume from `state_dict`, bit for bit; what doesn't fit is refused, nothing changed."""
        missing = {"format", "learner", "start", "state"} - set(saved)
        if missing:
            raise ValueError(f"the saved state lacks {sorted(missing)}: it is no state_dict()")
        if saved["format"] != FORMAT:
            raise ValueError(
                f"the saved state has format {saved['format']!r}, this version reads {FORMAT}"
            )
        if saved["learner"] != repr(self.learner):
            raise ValueError(
                f"the saved state is of {saved['learner']}, this learner is {self.learner!r}"
            )
        start, state = list(saved["start"]), dict(saved["state"])
        if len(start) != len(self._start):
            raise ValueError(f"the saved state has {len(start)} leaves, not {len(self._start)}")
        for i, (old, new) in enumerate(zip(self._start, start, strict=True)):
            _check_fits(f"saved start, {self._name(i)}", new, old.shape, old.dtype)
            _check_finite(f"saved start, {self._name(i)}", new)
        expected = flatten(self.learner.init(NUMPY, self._start))
        if state.keys() != expected.keys():
            odd = sorted(state.keys() ^ expected.keys())
            raise ValueError(f"the saved state does not have the parts of this learner's: {odd}")
        for path, part in expected.items():
            part = np.asarray(part)
            _check_fits(f"saved state, {path}", state[path], part.shape, part.dtype)
            _check_finite(f"saved state, {path}", state[path])
        self._start = [np.array(leaf) for leaf in start]
        self._played = None
        self._state = unflatten(
            self._state, {path: np.array(part)[()] for path, part in state.items()}
        )

    # Checking -------------------------------------------------------------------------------

    def _play(self) -> Played:
        """What the current state plays, computed once a round."""
        if self._played is None:
            self._played = self.learner.play(NUMPY, self._state)
        return self._played

    @property
    def _largest(self) -> float:
        """The largest ‖g‖₁ whose sums all stay in the float range."""
        return NUMPY.magnitude_ceiling(self._start)

    def _name(self, i: int) -> str:
        return f"leaf {i}" if self._is_list else "the array"

    def _shaped(self, w: list[FloatArray]) -> Point:
        # NumPy makes a number of the sum of two arrays of shape (), and a number is no array.
        points: list[FloatArray] = [
            np.asarray(start + leaf) for start, leaf in zip(self._start, w, strict=True)
        ]
        return points if self._is_list else points[0]

    def _checked(self, what: str, g: Any) -> list[FloatArray]:
        if not self._is_list:
            leaves = [g]
        elif isinstance(g, list | tuple):
            leaves = list(g)
        else:
            raise TypeError(f"{what} must be a list of arrays as start was, not {type(g).__name__}")
        if len(leaves) != len(self._start):
            raise ValueError(f"{what} has {len(leaves)} leaves, start had {len(self._start)}")
        for i, (start, leaf) in enumerate(zip(self._start, leaves, strict=True)):
            if not (
                type(leaf) is np.ndarray and leaf.shape == start.shape and leaf.dtype == start.dtype
            ):
                leaves[i] = np.asarray(leaf)
                _check_fits(f"{what}, {self._name(i)}", leaves[i], start.shape, start.dtype)
        return leaves

    def _refuse_nonfinite(self, what: str, leaves: list[FloatArray]) -> None:
        for i, leaf in enumerate(leaves):
            _check_finite(f"{what}, {self._name(i)}", leaf)

    def _tamed(self, leaves: list[FloatArray]) -> list[FloatArray]:
        """Finite gradients whose sums would not be: scaled back by a power of two."""
        self._refuse_nonfinite("the gradient", leaves)
        entries = sum(leaf.size for leaf in leaves)
        largest = max(float(np.abs(leaf).max()) for leaf in leaves)
        exponent = math.frexp(self._largest)[1] - math.frexp(largest)[1] - entries.bit_length()
        return [np.ldexp(leaf, min(exponent, 0)) for leaf in leaves]


def _check_fits(what: str, leaf: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if not isinstance(leaf, np.ndarray) or leaf.dtype != dtype:
        found = leaf.dtype if isinstance(leaf, np.ndarray) else type(leaf).__name__
        raise TypeError(
            f"{what}: expected {dtype}, got {found}; convert it, .astype({dtype.name!r})"
        )
    if leaf.shape != shape:
        raise ValueError(f"{what}: expected shape {shape}, got {leaf.shape}")


def _check_finite(what: str, leaf: FloatArray) -> None:
    finite = np.isfinite(leaf)
    if not finite.all():
        where = tuple(int(k) for k in np.argwhere(~finite)[0])
        raise ValueError(
            f"{what}, has {np.count_nonzero(~finite)} entries that are NaN or inf (the first is "
            f"{leaf[where]} at index {where}); nothing was changed"
        )


def _checked_start(name: str, given: Any) -> FloatArray:
    leaf: FloatArray = np.array(given)
    if leaf.dtype not in (np.float32, np.float64):
        raise TypeError(f"start, {name}: expected float32 or float64, got {leaf.dtype}")
    if leaf.size == 0:
        raise ValueError(f"start, {name}, has no entries (shape {leaf.shape})")
    if not np.isfinite(leaf).all():
        raise ValueError(f"start, {name}, has entries that are NaN or inf")
    return leaf
