"""OnlineLearner: ask and tell, refusals that change nothing, copies, pickles, plain dicts."""

import copy
import pickle
import re

import numpy as np
import pytest

import paroli
from paroli import (
    OnlineLearner,
    adagrad,
    averaged,
    box,
    constrained,
    diagonal,
    dimension_free,
    doubling,
    momentum,
    recursive,
    rescaled,
    scinol,
    scinol1,
)
from paroli.core.learner import Learner, flatten

STACKS: list[Learner] = [
    recursive(inner=diagonal()),
    averaged(momentum(rescaled(recursive(scinol())), decay=0.9)),
    dimension_free(doubling()),
    scinol1(),
]
SHAPES = [(3,), (2, 2), ()]


def gradients(rounds: int, dtype: type = np.float64, seed: int = 0) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [
        [np.asarray(rng.uniform(-0.1, 0.1, shape), dtype=dtype) for shape in SHAPES]
        for _ in range(rounds)
    ]


def started(stack: Learner, dtype: type = np.float64) -> OnlineLearner:
    return OnlineLearner(stack, [np.ones(shape, dtype) for shape in SHAPES])


def bits(learner: OnlineLearner) -> dict[str, bytes]:
    """Everything a learner holds, to the bit."""
    saved = learner.state_dict()
    parts = {f"start {i}": leaf.tobytes() for i, leaf in enumerate(saved["start"])}
    return parts | {path: part.tobytes() for path, part in saved["state"].items()}


def same(a: OnlineLearner, b: OnlineLearner) -> bool:
    return bits(a) == bits(b)


@pytest.mark.parametrize("stack", STACKS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_list_of_leaves_plays_as_one_array_does(stack: Learner, dtype: type) -> None:
    together = OnlineLearner(stack, np.ones(8, dtype))
    apart = started(stack, dtype)
    for g in gradients(50, dtype):
        together.update(np.concatenate([np.ravel(leaf) for leaf in g]))
        apart.update(g)
    joined = np.concatenate([np.ravel(leaf) for leaf in apart.point])
    # Only the order of the sums over coordinates differs.
    np.testing.assert_allclose(joined, together.point, rtol=100 * np.finfo(dtype).eps)
    assert [leaf.shape for leaf in apart.point] == SHAPES
    assert {leaf.dtype for leaf in apart.point} == {np.dtype(dtype)}
    assert together.point.dtype == dtype


@pytest.mark.parametrize("shape", [(2, 3), (1,), ()])
def test_an_array_in_an_array_out(shape: tuple[int, ...]) -> None:
    learner = OnlineLearner(averaged(diagonal()), np.ones(shape))
    learner.update(np.full(shape, 0.5))
    for out in (learner.point, learner.average):
        assert type(out) is np.ndarray
        assert out.shape == shape


@pytest.mark.parametrize("stack", STACKS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_pickles_and_dicts_go_on_bit_for_bit(stack: Learner, dtype: type) -> None:
    learner = started(stack, dtype)
    stream = gradients(40, dtype)
    for g in stream[:20]:
        learner.update(g)
    restored = started(stack, dtype)
    restored.load_state_dict(learner.state_dict())
    twins = [
        copy.copy(learner),
        copy.deepcopy(learner),
        pickle.loads(pickle.dumps(learner)),
        restored,
    ]
    before = bits(learner)
    for twin in twins:
        assert bits(twin) == before
        for g in stream[20:]:
            twin.update(g)
    assert bits(learner) == before, "a twin's updates reached the original"
    for g in stream[20:]:
        learner.update(g)
    assert all(same(twin, learner) for twin in twins)
    assert bits(learner) != before


def test_the_plain_dict_is_plain() -> None:
    saved = started(STACKS[1]).state_dict()
    assert set(saved) == {"format", "learner", "start", "state"}
    assert saved["learner"] == repr(STACKS[1])
    assert eval(saved["learner"], vars(paroli)) == STACKS[1], "a repr makes its learner"
    assert all(type(part) is np.ndarray for part in saved["state"].values())
    saved["start"][0][:] = 99.0
    saved["state"]["t"][...] = 99.0
    assert started(STACKS[1]).state_dict()["state"]["t"] == 0.0


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda d: d.pop("state"), "lacks"),
        (lambda d: d.update(format=2), "format 2"),
        (lambda d: d.update(learner="diagonal()"), "is of diagonal()"),
        (lambda d: d["start"].pop(), "has 2 leaves, not 3"),
        (lambda d: d["start"].__setitem__(0, np.zeros(4)), "leaf 0: expected shape"),
        (lambda d: d["state"].pop("log_wealth"), "log_wealth"),
        (lambda d: d["state"].update({"inner.0.A": np.zeros(2)}), "inner.0.A: expected shape"),
        (
            lambda d: d["state"].update({"inner.0.A": np.array([5.0, np.nan, 5.0])}),
            "inner.0.A, has 1 entries that are NaN or inf",
        ),
        (lambda d: d["state"].update(log_wealth=np.array(np.inf)), "log_wealth, has 1 entries"),
        (lambda d: d["start"].__setitem__(0, np.full(3, np.nan)), "leaf 0, has 3 entries"),
        (
            lambda d: d["state"].update({"inner.0.A": np.zeros(3, np.float32)}),
            "inner.0.A: expected float64, got float32",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused(spoil, says: str) -> None:  # type: ignore[no-untyped-def]
    learner = started(recursive(diagonal()))
    for g in gradients(5):
        learner.update(g)
    saved = learner.state_dict()
    spoil(saved)
    before = bits(learner)
    with pytest.raises((ValueError, TypeError), match=re.escape(says)):
        learner.load_state_dict(saved)
    assert bits(learner) == before


def spoiled(leaf: int, value: float) -> list[np.ndarray]:
    g = gradients(1)[0]
    g[leaf] = np.array(g[leaf])
    g[leaf][(0,) * g[leaf].ndim] = value
    return g


BAD_GRADIENTS = {
    "nan": (spoiled(1, np.nan), ValueError, "leaf 1, has 1 entries that are NaN or inf"),
    "inf": (spoiled(0, np.inf), ValueError, "leaf 0, has 1 entries that are NaN or inf"),
    "minus inf": (spoiled(2, -np.inf), ValueError, "leaf 2"),
    "inf - inf": ([np.array([np.inf, -np.inf, 0.0]), *gradients(1)[0][1:]], ValueError, "leaf 0"),
    "shape": ([np.zeros(4), *gradients(1)[0][1:]], ValueError, "leaf 0: expected shape (3,)"),
    "broadcastable shape": ([*gradients(1)[0][:2], np.zeros(1)], ValueError, "leaf 2: expected"),
    "transposed": ([np.zeros((3, 1)), *gradients(1)[0][1:]], ValueError, "leaf 0"),
    "float32": (gradients(1, np.float32)[0], TypeError, "leaf 0: expected float64, got float32"),
    "int": ([np.zeros(3, int), *gradients(1)[0][1:]], TypeError, "got int64"),
    "complex": ([np.zeros(3, complex), *gradients(1)[0][1:]], TypeError, "got complex128"),
    "text": ([np.array(["a", "b", "c"]), *gradients(1)[0][1:]], TypeError, "leaf 0"),
    "None": ([None, *gradients(1)[0][1:]], TypeError, "leaf 0"),
    "too few leaves": (gradients(1)[0][:2], ValueError, "has 2 leaves, start had 3"),
    "empty": ([], ValueError, "has 0 leaves, start had 3"),
    "an array for a list": (np.zeros(3), TypeError, "must be a list of arrays"),
}


@pytest.mark.parametrize("bad", BAD_GRADIENTS)
@pytest.mark.parametrize("stack", STACKS, ids=repr)
def test_a_bad_gradient_is_refused_and_nothing_changes(stack: Learner, bad: str) -> None:
    g, error, says = BAD_GRADIENTS[bad]
    learner = started(stack)
    for good in gradients(5):
        learner.update(good)
    before = bits(learner)
    with pytest.raises(error, match=re.escape(says)):
        learner.update(g)
    if bad != "an array for a list":
        with pytest.raises(error):
            learner.announce(g)
    assert bits(learner) == before
    learner.update(gradients(1)[0])


def test_an_array_learner_refuses_what_is_no_array_of_its_shape() -> None:
    learner = OnlineLearner(diagonal(), np.zeros(3))
    for g in (np.zeros(2), [np.zeros(3)], 0.0, np.float64(1.0), None, "abc", [1, 2, 3]):
        with pytest.raises((ValueError, TypeError)):
            learner.update(g)
    learner.update([0.1, 0.2, 0.3])  # a list of floats is the array it says


@pytest.mark.parametrize(
    ("start", "error", "says"),
    [
        ([], ValueError, "empty list"),
        (np.zeros(0), ValueError, "no entries"),
        ([np.zeros(2), np.zeros((3, 0))], ValueError, "leaf 1"),
        (np.zeros(3, int), TypeError, "expected float32 or float64, got int64"),
        (np.zeros(3, np.float16), TypeError, "got float16"),
        ([np.zeros(2), np.array([1.0, np.nan])], ValueError, "leaf 1, has entries"),
        (None, TypeError, "got object"),
    ],
)
def test_a_bad_start_is_refused(start: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        OnlineLearner(diagonal(), start)  # type: ignore[arg-type]


def test_a_class_for_a_learner_is_refused_with_a_hint() -> None:
    with pytest.raises(TypeError, match=re.escape("call it: diagonal()")):
        OnlineLearner(diagonal, np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=re.escape("call it: scinol()")):
        recursive(scinol)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a learner"):
        rescaled("scinol")  # type: ignore[arg-type]


def test_bets_that_may_exceed_a_half_are_refused_with_the_cure() -> None:
    for bold in (adagrad(), momentum(diagonal()), scinol(domain=0.75)):
        with pytest.raises(ValueError, match="wrap it: ") as caught:
            recursive(bold)
        cure = str(caught.value).split("wrap it: ")[1]
        stack = recursive(eval(cure, vars(paroli)))
        OnlineLearner(stack, np.zeros(2)).update(np.array([0.5, -0.5]))
    with pytest.raises(ValueError, match="unit ball") as caught:
        dimension_free(doubling(), direction=adagrad())
    assert eval(str(caught.value).split("wrap it: ")[1], vars(paroli)).radius == 1.0


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "1", None, True])
def test_settings_are_checked(value: object) -> None:
    for make in (
        lambda: recursive(diagonal(), epsilon=value),  # type: ignore[arg-type]
        lambda: diagonal(epsilon=value),  # type: ignore[arg-type]
        lambda: diagonal(eta=value),  # type: ignore[arg-type]
        lambda: rescaled(diagonal(), g_max=value),  # type: ignore[arg-type]
        lambda: adagrad(lr=value),  # type: ignore[arg-type]
    ):
        with pytest.raises((ValueError, TypeError), match=r"must be"):
            make()
    with pytest.raises(ValueError, match="decay"):
        momentum(diagonal(), decay=1.5)


def test_nobody_writes_to_the_callers_arrays_nor_through_ours() -> None:
    start, g = np.ones(3), np.full(3, 0.1)
    learner = OnlineLearner(averaged(momentum(rescaled(recursive(scinol())))), start)
    for _ in range(5):
        learner.update(g)
    start[:] = 7.0
    point, average = learner.point, learner.average
    before = bits(learner)
    point[:] = 8.0
    average[:] = 9.0
    g[:] = 10.0
    assert bits(learner) == before
    assert (learner.point != 8.0).all()
    frozen = np.full(3, 0.1)
    frozen.flags.writeable = False
    learner.update(frozen)
    assert (frozen == 0.1).all()


def test_what_a_stack_does_not_have_is_an_error_that_says_so() -> None:
    with pytest.raises(AttributeError, match=re.escape("averaged(diagonal(")):
        _ = OnlineLearner(diagonal(), np.zeros(1)).average
    with pytest.raises(AttributeError, match="has no wealth"):
        _ = OnlineLearner(adagrad(), np.zeros(1)).log_wealth
    assert OnlineLearner(diagonal(epsilon=0.5), np.zeros(4)).log_wealth == pytest.approx(np.log(2))
    assert isinstance(OnlineLearner(recursive(diagonal()), np.zeros(4)).log_wealth, float)


def test_average_is_of_the_points_played() -> None:
    learner = OnlineLearner(averaged(rescaled(recursive(diagonal()))), np.full(2, 3.0))
    played = []
    for _ in range(20):
        played.append(learner.point)
        learner.update(np.sign(learner.point))
    np.testing.assert_allclose(learner.average, np.mean(played, axis=0), rtol=1e-14)


def test_no_average_of_points_that_were_not_played() -> None:
    """Below what moves the point, `averaged` sees others than those that are played."""
    for stack in (constrained(averaged(adagrad()), box(-0.2, 0.2)), momentum(averaged(adagrad()))):
        learner = OnlineLearner(stack, np.zeros(1))
        learner.update(np.ones(1))
        with pytest.raises(AttributeError, match=re.escape(f"averaged({stack!r})")):
            _ = learner.average


def test_every_state_is_flat_arrays() -> None:
    for stack in STACKS:
        learner = started(stack)
        learner.update(gradients(1)[0])
        assert all(
            isinstance(part, np.ndarray | np.generic) for part in flatten(learner.state).values()
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stack", [*STACKS, diagonal(), adagrad()], ids=repr)
def test_gradients_at_both_ends_of_the_float_range(stack: Learner, dtype: type) -> None:
    largest = np.finfo(dtype).max
    learner = OnlineLearner(stack, np.zeros(5, dtype))
    rng = np.random.default_rng(1)
    for scale in (1.0, largest, float(np.finfo(dtype).tiny), largest, 1.0, 0.0):
        for _ in range(20):
            learner.update((rng.uniform(-1, 1, 5) * scale).astype(dtype))
            assert np.isfinite(learner.point).all()
    assert all(np.isfinite(part).all() for part in flatten(learner.state).values())
