"""The harness: networks, batches, the loop, tables and verdicts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

torch = pytest.importorskip("torch")

from experiments.common.report import (  # noqa: E402
    NOT,
    NOT_RUN,
    ON_CPU,
    OTHER_SCALE,
    PARTLY,
    REPRODUCED,
    Finding,
)
from experiments.data import mnist  # noqa: E402
from experiments.data.split import Split  # noqa: E402
from experiments.mnist_logistic.run import EXPERIMENT as LOGISTIC  # noqa: E402
from experiments.ptb_transformer.run import EXPERIMENT as PTB  # noqa: E402
from experiments.training import figures, judges, loop, report, resnet, runs  # noqa: E402
from experiments.training import setting as settings  # noqa: E402
from experiments.training.batches import Batches, _augmented  # noqa: E402
from experiments.training.contestants import NOTHING_TO_TUNE, Contestant, grid  # noqa: E402
from experiments.training.experiment import Size  # noqa: E402
from experiments.training.figures import LABELS, highlighted  # noqa: E402
from experiments.training.loop import Look, Run, train  # noqa: E402
from experiments.training.perceptron import Perceptron, Standardised  # noqa: E402
from experiments.training.resnet import ResNet  # noqa: E402
from experiments.training.runs import Curves  # noqa: E402
from experiments.training.setting import Setting, Source  # noqa: E402
from experiments.training.transformer import Transformer  # noqa: E402
from paroli.torch import RecursiveOptimizer  # noqa: E402

OURS = {contestant.key: contestant for contestant in NOTHING_TO_TUNE}
ADAM = grid("Adam", [])[0]

DIGITS = Setting(Source("mnist", made_up=True), Perceptron((16,)), 16, 30, 6)
IMAGES = Setting(
    Source("cifar10", rows=64, test_rows=32, made_up=True), ResNet(1), 8, 6, 3, augment=True
)
REVIEWS = Setting(
    Source("imdb", 50, 12, 128, 64, made_up=True),
    Transformer(50, 1, 16, 2, 32, classes=2),
    16,
    60,
    6,
)
TEXT = Setting(
    Source("ptb", 50, 12, 128, 64, made_up=True), Transformer(50, 1, 16, 2, 32), 16, 60, 6
)


def trained(setting: Setting, contestant: Contestant, seed: int = 1) -> list[Look]:
    return train(Run(setting, contestant, seed, "cpu"), lambda _: None, Path("/nowhere/at-all"))


def numbers(looks: list[Look]) -> np.ndarray:
    """All but the seconds."""
    return np.array([[*look[:2], *look[3:]] for look in looks])


# Networks --------------------------------------------------------------------------------------


def test_resnet32_has_32_layers_with_weights() -> None:
    network = ResNet(5).build()
    layers = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    assert len(layers) == 32
    # He et al. count 0.46 million.
    assert sum(p.numel() for p in network.parameters()) == 464_154
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    assert network(images).shape == (2, 10)


def test_a_block_is_beside_a_path_without_weights() -> None:
    for channels, new in ((4, 4), (4, 8)):
        block = resnet._Block(channels, new).eval()
        torch.nn.init.zeros_(block.second_norm.weight)
        x = torch.randn(2, channels, 8, 8)
        y = block(x)
        if channels == new:
            torch.testing.assert_close(y, x.relu())
        else:  # every other pixel, and zeros for the channels that are new
            torch.testing.assert_close(y[:, :channels], x[:, :, ::2, ::2].relu())
            assert (y[:, channels:] == 0).all()


def test_bytes_become_numbers_of_mean_0_and_variance_1() -> None:
    split = Source("mnist", made_up=True).load()
    images = torch.from_numpy(split.inputs).double() / 255
    found = Standardised((float(images.mean()),), (float(images.std()),))(
        torch.from_numpy(split.inputs)
    )
    assert float(found.mean()) == pytest.approx(0, abs=1e-5)
    assert float(found.std()) == pytest.approx(1, abs=1e-5)
    # Networks begin with it.
    assert isinstance(Perceptron().build()[0], Standardised)
    assert isinstance(ResNet(1).build()[0], Standardised)


def test_perceptron_widths_and_start() -> None:
    logistic, deep = Perceptron().build(), Perceptron((8, 4)).build()
    assert [p.shape for p in logistic.parameters()] == [(10, 784), (10,)]
    assert all((p == 0).all() for p in logistic.parameters())
    assert [p.shape[0] for p in deep.parameters() if p.ndim == 2] == [8, 4, 10]
    assert sum(isinstance(m, torch.nn.ReLU) for m in deep.modules()) == 2


def test_a_writer_sees_no_word_to_come() -> None:
    network = Transformer(50, 2, 16, 2, 32).build().eval()
    words = torch.randint(2, 50, (3, 12))
    others = words.clone()
    others[:, 7:] = torch.randint(2, 50, (3, 5))
    with torch.no_grad():
        torch.testing.assert_close(network(words)[:, :7], network(others)[:, :7])
        assert not torch.allclose(network(words)[:, 7:], network(others)[:, 7:])
        swapped = words[:, [1, 0, *range(2, 12)]]
        assert not torch.allclose(network(words)[:, 2:], network(swapped)[:, 2:])


def test_a_reader_does_not_see_padding() -> None:
    network = Transformer(50, 2, 16, 2, 32, classes=2).build().eval()
    words = torch.randint(2, 50, (3, 12))
    padded = torch.cat([words, torch.zeros(3, 4, dtype=words.dtype)], dim=1)
    with torch.no_grad():
        torch.testing.assert_close(network(words), network(padded))
        assert torch.isfinite(network(torch.zeros_like(words))).all()
        assert not torch.allclose(network(words), network(words.flip(1)))


# Batches ---------------------------------------------------------------------------------------


def test_every_row_once_an_epoch_and_never_the_same_order() -> None:
    batches = Batches(DIGITS, 3, torch.device("cpu"))
    assert batches.per_epoch == 256 // 16
    epochs = [
        torch.cat([batches.at(step)[0] for step in range(first, first + 16)]) for first in (0, 16)
    ]
    rows = batches.inputs.flatten(1).sort(0).values
    for epoch in epochs:
        torch.testing.assert_close(epoch.flatten(1).sort(0).values, rows)
    assert not torch.equal(*epochs)
    again, other = (Batches(DIGITS, seed, torch.device("cpu")) for seed in (3, 4))
    torch.testing.assert_close(again.at(17), batches.at(17))
    assert not torch.equal(other.at(17)[0], batches.at(17)[0])


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(ValueError, match="a batch of 512 needs as many training rows, not 256"):
        Batches(replace(DIGITS, batch=512), 0, torch.device("cpu"))


def test_augmented_images_are_shifted_and_mirrored() -> None:
    images = torch.randint(1, 256, (120, 3, 32, 32), dtype=torch.uint8)
    found = _augmented(images, torch.Generator().manual_seed(0))
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)))
    seen = set()
    for before, after in zip(padded, found.numpy(), strict=True):
        crops = {
            (dy, dx, mirrored): before[:, dy : dy + 32, dx : dx + 32][
                :, :, :: -1 if mirrored else 1
            ]
            for dy in range(9)
            for dx in range(9)
            for mirrored in (False, True)
        }
        seen |= {key for key, crop in crops.items() if np.array_equal(crop, after)}
    assert len(seen) > 60
    for i, values in enumerate((9, 9, 2)):
        assert len({key[i] for key in seen}) == values


def test_images_are_changed_anew_at_every_step() -> None:
    def of_one_image(setting: Setting, seed: int) -> Batches:
        batches = Batches(setting, seed, torch.device("cpu"))
        batches.inputs = batches.inputs[:1].repeat(len(batches.inputs), 1, 1, 1)
        return batches  # only the changes differ

    batches = of_one_image(IMAGES, 3)
    first, second, again = (batches.at(step)[0] for step in (0, 1, 0))
    assert not torch.equal(first, second)
    assert torch.equal(first, again)
    assert not torch.equal(of_one_image(IMAGES, 4).at(0)[0], first)
    plain = of_one_image(replace(IMAGES, augment=False), 3)
    assert (plain.at(0)[0] == batches.inputs[0]).all()


def test_a_source_keeps_the_first_rows_of_one_shuffle(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, test_rows = np.arange(100)[:, None], np.arange(1000, 1030)[:, None]
    split = Split(rows, rows[:, 0] % 10, test_rows, test_rows[:, 0] % 10)
    monkeypatch.setattr(mnist, "load", lambda: split)

    def loaded(count: int | None, test_count: int | None) -> Split:
        settings._load.cache_clear()  # what another process would read
        return Source("mnist", rows=count, test_rows=test_count).load()

    few, more, whole = loaded(16, 8), loaded(32, 8), loaded(None, None)
    for found in (few, more):
        np.testing.assert_array_equal(found.inputs, whole.inputs[: len(found.inputs)])
        np.testing.assert_array_equal(found.test_inputs, whole.test_inputs[:8])
    assert (len(few.inputs), len(more.inputs)) == (16, 32)
    # Each row once, training rows and test rows apart, and everyone with its own target.
    np.testing.assert_array_equal(np.sort(whole.inputs, axis=0), rows)
    np.testing.assert_array_equal(np.sort(whole.test_inputs, axis=0), test_rows)
    assert not np.array_equal(whole.inputs, rows)
    np.testing.assert_array_equal(whole.targets, whole.inputs[:, 0] % 10)
    np.testing.assert_array_equal(whole.test_targets, whole.test_inputs[:, 0] % 10)
    settings._load.cache_clear()


# The loop --------------------------------------------------------------------------------------


class Interrupted(Exception):  # noqa: N818 (it is none)
    pass


@pytest.mark.parametrize("contestant", [OURS["recursive-shipped-momentum"], ADAM])
@pytest.mark.parametrize("setting", [DIGITS, IMAGES, REVIEWS, TEXT])
def test_an_interrupted_run_goes_on_as_if_nothing_had_been(
    setting: Setting, contestant: Contestant, tmp_path: Path
) -> None:
    run, saved = Run(setting, contestant, 1, "cpu"), tmp_path / "saved.pt"
    whole = train(run, lambda _: None, saved, save_every=0)
    assert not saved.exists()
    reported: list[float] = []

    def report_until(done: float) -> None:
        reported.append(done)
        if len(reported) == 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        train(run, report_until, saved, save_every=0)
    assert saved.exists()
    reported = []
    resumed = train(run, reported.append, saved, save_every=0)
    assert reported[0] == setting.marks()[1]  # what was done before
    assert sum(reported) == setting.steps
    np.testing.assert_array_equal(numbers(resumed), numbers(whole))
    assert not saved.exists()


def test_the_file_of_another_run_is_not_used(tmp_path: Path) -> None:
    saved = tmp_path / "saved.pt"
    interrupted = iter([None, None, Interrupted()])

    def stop(_: float) -> None:
        if (error := next(interrupted)) is not None:
            raise error

    with pytest.raises(Interrupted):
        train(Run(DIGITS, ADAM, 1, "cpu"), stop, saved, save_every=0)
    other = train(Run(DIGITS, ADAM, 2, "cpu"), lambda _: None, saved, save_every=0)
    np.testing.assert_array_equal(numbers(other), numbers(trained(DIGITS, ADAM, 2)))


def test_looks_are_those_of_a_plain_loop() -> None:
    looks = trained(DIGITS, ADAM)
    assert [look.step for look in looks] == [0, 5, 10, 15, 20, 25, 30]
    assert [look.epoch for look in looks] == [step / 16 for step in (0, 5, 10, 15, 20, 25, 30)]
    torch.manual_seed(1)
    network = DIGITS.network.build()
    optimizer = torch.optim.Adam(network.parameters())
    batches = Batches(DIGITS, 1, torch.device("cpu"))
    losses = []
    for step in range(10):
        x, y = batches.at(step)
        loss = torch.nn.functional.cross_entropy(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    scores = network(batches.test_inputs)
    expected = torch.nn.functional.cross_entropy(scores, batches.test_targets).item()
    assert looks[2].test_loss == pytest.approx(expected, rel=1e-5)
    accuracy = (scores.argmax(1) == batches.test_targets).double().mean().item()
    assert looks[2].test_accuracy == accuracy
    assert looks[2].batch_loss == pytest.approx(np.mean(losses[5:]), rel=1e-5)
    scores = network(batches.inputs)
    expected = torch.nn.functional.cross_entropy(scores, batches.targets).item()
    assert looks[2].train_loss == pytest.approx(expected, rel=1e-5)
    accuracy = (scores.argmax(1) == batches.targets).double().mean().item()
    assert looks[2].train_accuracy == pytest.approx(accuracy)
    assert looks[-1].train_loss < 0.5 * looks[0].train_loss


def test_only_the_first_rows_are_measured() -> None:
    looks = trained(replace(DIGITS, measured_rows=10), ADAM)
    assert {round(10 * look.train_accuracy, 6) % 1 for look in looks} == {0}
    assert looks[0].train_loss == pytest.approx(
        trained(replace(DIGITS, measured_rows=10), ADAM, 1)[0].train_loss
    )
    assert looks[0].train_loss != trained(DIGITS, ADAM)[0].train_loss


def test_nothing_is_dropped_when_measured() -> None:
    setting = replace(REVIEWS, network=replace(REVIEWS.network, dropout=0.5), steps=2, looks=1)
    looks = trained(setting, ADAM)
    torch.manual_seed(1)
    network = setting.network.build().eval()
    batches = Batches(setting, 1, torch.device("cpu"))
    expected = torch.nn.functional.cross_entropy(network(batches.test_inputs), batches.test_targets)
    assert looks[0].test_loss == pytest.approx(expected.item(), rel=1e-5)


def test_the_average_is_the_optimizers_own() -> None:
    looks = trained(DIGITS, OURS["recursive-shipped"])
    torch.manual_seed(1)
    network = DIGITS.network.build()
    optimizer = RecursiveOptimizer(network.parameters())
    batches = Batches(DIGITS, 1, torch.device("cpu"))
    for step in range(10):
        x, y = batches.at(step)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    optimizer.eval()
    scores = network(batches.test_inputs)
    expected = torch.nn.functional.cross_entropy(scores, batches.test_targets).item()
    assert looks[2].test_loss == pytest.approx(expected, rel=1e-5)


def test_seconds_are_those_of_training_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    plain_step, plain_measure = loop.take_step, loop._measure

    def step(*arguments: object) -> torch.Tensor:
        nonlocal now
        now += 1
        return plain_step(*arguments)

    def measure(*arguments: object) -> tuple[float, float]:
        nonlocal now
        now += 1000
        return plain_measure(*arguments)

    monkeypatch.setattr(loop, "take_step", step)
    monkeypatch.setattr(loop, "_measure", measure)
    monkeypatch.setattr(loop, "_clock", lambda run: now)
    run, saved = Run(DIGITS, ADAM, 1, "cpu"), tmp_path / "saved.pt"
    reports = iter([None, None, Interrupted()])

    def stop(_: float) -> None:
        if (error := next(reports)) is not None:
            raise error

    with pytest.raises(Interrupted):
        train(run, stop, saved, save_every=0)
    assert saved.exists()
    looks = train(run, lambda _: None, saved, save_every=0)
    assert [look.seconds for look in looks] == [look.step for look in looks]


def test_the_average_is_evaluated_and_training_knows_nothing_of_it() -> None:
    last, average = (trained(IMAGES, OURS[key]) for key in ("recursive", "recursive-shipped"))
    np.testing.assert_allclose(
        [look.batch_loss for look in last], [look.batch_loss for look in average], rtol=1e-5
    )
    assert last[0].test_loss == average[0].test_loss
    assert all(a.test_loss != b.test_loss for a, b in zip(last[1:], average[1:], strict=True))


def test_batch_norm_is_that_of_the_averaged_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    with_statistics = trained(IMAGES, OURS["recursive-shipped"])
    monkeypatch.setattr(loop, "update_batch_norm", lambda network, batches: None)
    without = trained(IMAGES, OURS["recursive-shipped"])
    assert with_statistics[-1].batch_loss == without[-1].batch_loss
    assert with_statistics[-1].test_loss != without[-1].test_loss


def test_a_run_that_diverges_ends() -> None:
    adam = Contestant("adam-inf", "Adam", 1.0, family="Adam", rate=float("inf"))
    looks = trained(DIGITS, adam)
    assert len(looks) == 2
    assert not np.isfinite(looks[-1].train_loss)


def test_contestants_are_what_they_are_called() -> None:
    weights = [torch.nn.Parameter(torch.zeros(3))]
    built = {key: contestant.build(weights) for key, contestant in OURS.items()}
    assert all(isinstance(optimizer, RecursiveOptimizer) for optimizer in built.values())
    averaged = {key for key, optimizer in built.items() if optimizer.average is not None}
    assert averaged == {"recursive-shipped", "recursive-shipped-momentum"}
    assert built["recursive"].learner == RecursiveOptimizer(weights).learner
    for key, decay in (("recursive-momentum", 0.9), ("recursive-momentum-printed", 1.0)):
        assert built[key].learner == RecursiveOptimizer(weights, momentum=decay).learner
    adams = grid("Adam", [1e-4, 1e-2])
    assert [c.build(weights).param_groups[0]["lr"] for c in adams] == [1e-4, 1e-3, 1e-2]
    assert [c.is_default for c in adams] == [False, True, False]
    assert isinstance(adams[0].build(weights), torch.optim.Adam)
    (adagrad,) = grid("Adagrad", [])
    assert isinstance(adagrad.build(weights), torch.optim.Adagrad)
    assert adagrad.build(weights).defaults["lr"] == torch.optim.Adagrad(weights).defaults["lr"]


# Tables ----------------------------------------------------------------------------------------


def test_tables_are_of_one_run_and_say_so(tmp_path: Path) -> None:
    run = Run(DIGITS, ADAM, 1, "cpu")
    assert not runs.is_done(tmp_path, run)
    looks = trained(DIGITS, ADAM)
    runs.write(tmp_path, run, 2, looks)
    assert runs.is_done(tmp_path, run)
    head, _ = runs.read_table(runs.path_of(tmp_path, run))
    assert runs.versions(tmp_path, [run]) == {runs.sources(runs.head(run, 1))}
    assert {key for key, _ in runs.sources(head)} == {
        "source of paroli/core",
        "source of paroli/torch",
        "source of the experiment",
    }
    others = [run._replace(setting=replace(DIGITS, steps=31)), run._replace(seed=2)]
    assert not any(runs.is_done(tmp_path, other) for other in others)
    head, rows = runs.read_table(runs.path_of(tmp_path, run))
    for key in ("source of paroli/core", "source of paroli/torch", "torch", "device", "numpy"):
        assert head[key]
    assert head["seconds"] == "CPU time of one thread, 2 processes at once"
    assert head["configuration"] == repr(DIGITS)
    assert list(rows[0]) == list(Look._fields)
    (curve,) = runs.read(tmp_path, [run, *others]).values()
    found = np.array([curve.columns[name][0] for name in Look._fields]).T
    np.testing.assert_allclose(found, np.array(looks), rtol=1e-4)


def test_the_fingerprint_is_of_every_file_that_the_numbers_depend_on() -> None:
    shown_only = {"command", "experiment", "figures", "grids", "judges", "report", "runs"}
    files = {path.stem for path in Path(runs.__file__).parent.glob("[a-z]*.py")}
    assert files - shown_only == set(runs.PARTS)
    assert all(source.exists() for source in runs.SOURCES)
    assert Path(mnist.__file__).parent in runs.SOURCES


def curve(key: str, *ends: float, family: str = "", rate: float = 0.0, column: str) -> Curves:
    """A contestant whose seeds see these values in the middle, and worse ones at the ends."""
    worse = -0.1 if column in runs.HIGHER_IS_BETTER else 0.1
    values = np.array([[end + 5 * worse, end, end + worse] for end in ends])
    seeds = tuple(range(len(ends)))
    return Curves(Contestant(key, key, 1.0, family=family, rate=rate), seeds, {column: values})


def curves(column: str, **ends: list[float]) -> dict[str, Curves]:
    """By key; those called adam_2 belong to a family."""
    found = {}
    for key, values in ends.items():
        family, _, rate = key.partition("_")
        if family in ("adam", "adagrad"):
            made = curve(
                key, *values, family=family.title(), rate=float(rate) / 1000, column=column
            )
        else:
            made = curve(key.replace("_", "-"), *values, column=column)
        found[made.contestant.key] = made
    return found


def test_the_best_of_a_family_is_the_test_metrics_choice() -> None:
    accuracies = curves("test_accuracy", adam_1=[0.5, 0.6, 0.7], adam_3=[0.1, 0.65, 0.9])
    best = runs.chosen(accuracies, "Adam", "test_accuracy")
    assert best is not None
    assert best.contestant.key == "adam_3"
    assert best.score("test_accuracy") == 0.65
    losses = curves("test_loss", adam_1=[0.5, 0.6, 0.7], adam_3=[0.1, 0.65, 0.9])
    best = runs.chosen(losses, "Adam", "test_loss")
    assert best is not None
    assert best.contestant.key == "adam_1"
    untuned = runs.default(losses, "Adam")
    assert untuned is not None
    assert untuned.contestant.key == "adam_1"
    assert runs.chosen(losses, "Adagrad", "test_loss") is None


def test_a_diverged_run_is_the_worst() -> None:
    both = curves("test_loss", adam_1=[0.5], adam_3=[0.4])
    both["adam_3"].columns["test_loss"][:] = np.nan
    best = runs.chosen(both, "Adam", "test_loss")
    assert best is not None
    assert best.contestant.key == "adam_1"
    assert both["adam_3"].score("test_loss") == np.inf


def test_highlighted_names_the_best_and_the_default() -> None:
    shown = highlighted(
        curves("test_loss", recursive=[1.0], adam_1=[0.5], adam_3=[0.4], adagrad_10=[0.3]),
        "test_loss",
    )
    assert shown == {
        "recursive": "recursive",
        "adam_3": "Adam, best rate in hindsight (0.003)",
        "adam_1": "Adam, default rate (0.001)",
        "adagrad_10": "Adagrad, best rate in hindsight (0.01), its default",
    }


# Figures ---------------------------------------------------------------------------------------


def test_panels_are_laid_out_as_they_are_listed_and_draw_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []

    def keep(figure: Figure, path: Path) -> Path:
        drawn.append(figure)
        return path

    monkeypatch.setattr(figures, "save", keep)
    setting = replace(DIGITS, steps=4, looks=2)
    tiny = Size(setting, 2, (1e-3, 3e-3), (1e-2,))
    planned = tiny.runs("cpu")
    for i, run in enumerate(planned):
        rows = [Look(step, 0.5, 10 + step, *(i + step + k for k in range(5))) for step in (0, 2, 4)]
        runs.write(tmp_path, run, 1, rows)
    curves = runs.read(tmp_path, planned)
    assert figures.draw(PTB, curves, tmp_path, "full", len(planned)) == tmp_path / "figure.png"
    figures.draw(PTB, curves, tmp_path, "cpu", len(planned) + 1)
    figure, unfinished = drawn
    assert figure.get_suptitle() == "Penn Treebank with a transformer (median and range over seeds)"
    assert "transformer, on a CPU-sized cut (median" in unfinished.get_suptitle()
    assert unfinished.get_suptitle().endswith(f"; {len(planned)} of {len(planned) + 1} runs)")
    panels = [panel for row in PTB.panels for panel in row]
    assert len(figure.axes) == len(panels) == 6
    for ax, panel in zip(figure.axes, panels, strict=True):
        assert (ax.get_xlabel(), ax.get_ylabel()) == (LABELS[panel.against], LABELS[panel.column])
        lines = {str(line.get_label()): line for line in ax.lines}
        bands = iter(ax.collections)
        for key, label in highlighted(curves, PTB.metric).items():
            line, columns = lines.pop(label), curves[key].columns
            np.testing.assert_array_equal(line.get_xdata(), columns[panel.against][0])
            np.testing.assert_array_equal(line.get_ydata(), columns[panel.column].mean(0))
            (outline,) = (path.vertices for path in next(bands).get_paths())
            assert outline[:, 1].min() == columns[panel.column].min()
            assert outline[:, 1].max() == columns[panel.column].max()
        (thin,) = lines.values()  # the rate that is neither best nor the default
        np.testing.assert_array_equal(
            thin.get_ydata(), curves["adam-0.003"].columns[panel.column].mean(0)
        )
        assert thin.get_linewidth() < line.get_linewidth()


# Verdicts --------------------------------------------------------------------------------------


def verdict(findings: list[Finding]) -> str:
    (finding,) = findings
    return finding.verdict


@pytest.mark.parametrize(
    ("recursive", "shipped", "expected"),
    [
        ([0.90, 0.91, 0.92], [0.5, 0.5, 0.5], REPRODUCED),  # ahead
        ([0.85, 0.85, 0.88], [0.5, 0.5, 0.5], REPRODUCED),  # level: the ranges overlap
        ([0.85, 0.85, 0.86], [0.9, 0.9, 0.9], PARTLY),  # only what we ship
        ([0.85, 0.85, 0.86], [0.5, 0.5, 0.5], NOT),
    ],
)
def test_level_with_adam(recursive: list[float], shipped: list[float], expected: str) -> None:
    rivals = {"adam_1": [0.1, 0.2, 0.3], "adam_3": [0.87, 0.88, 0.89]}  # 0.001 is the default
    found = curves("test_accuracy", recursive=recursive, recursive_shipped=shipped, **rivals)
    findings = judges.level_with_adam(found, "test_accuracy")
    assert verdict(findings) == expected
    assert "adam_3 0.88" in findings[0].measured
    # A loss is judged the other way round.
    turned = {key.replace("-", "_"): list(1 - c.best("test_accuracy")) for key, c in found.items()}
    assert verdict(judges.level_with_adam(curves("test_loss", **turned), "test_loss")) == expected


@pytest.mark.parametrize(
    ("recursive", "shipped", "expected"),
    [
        ([0.86], [0.5], REPRODUCED),
        ([0.84], [0.87], PARTLY),
        ([0.84], [0.84], NOT),
        ([0.95], [0.5], REPRODUCED),
    ],
)
def test_slightly_behind_adam(recursive: list[float], shipped: list[float], expected: str) -> None:
    rivals = {"adam_1": [0.5], "adam_3": [0.875]}
    found = curves("test_accuracy", recursive=recursive, recursive_shipped=shipped, **rivals)
    assert verdict(judges.slightly_behind_adam(found, "test_accuracy")) == expected


@pytest.mark.parametrize(
    ("released", "printed", "helps", "hurts"),
    [
        ([0.9, 0.9], [0.9, 0.9], REPRODUCED, NOT),
        ([0.9, 0.9], [0.86, 0.87], PARTLY, NOT),  # one of them level
        ([0.8, 0.8], [0.8, 0.8], NOT, REPRODUCED),
        ([0.86, 0.87], [0.86, 0.87], NOT, NOT),
    ],
)
def test_momentum(released: list[float], printed: list[float], helps: str, hurts: str) -> None:
    found = curves(
        "test_accuracy",
        recursive=[0.85, 0.87],
        recursive_momentum=released,
        recursive_momentum_printed=printed,
    )
    assert verdict(judges.momentum_helps(found, "test_accuracy")) == helps
    assert verdict(judges.momentum_hurts(found, "test_accuracy")) == hurts


@pytest.mark.parametrize(
    ("column", "near", "far"),
    [("test_accuracy", 0.8955, 0.8945), ("test_loss", 0.909, 0.911)],
)
def test_what_one_seed_cannot_tell_is_level(column: str, near: float, far: float) -> None:
    for ours, expected in ((near, REPRODUCED), (far, NOT)):
        one = curves(column, recursive=[ours], adam_1=[0.9])
        assert verdict(judges.level_with_adam(one, column)) == expected
        two = curves(column, recursive=[ours, ours], adam_1=[0.9, 0.9])
        assert verdict(judges.level_with_adam(two, column)) == NOT
        # Level is neither helped nor hurt.
        one = curves(column, recursive=[0.9], recursive_momentum=[ours])
        hurt = REPRODUCED if expected == NOT else NOT
        assert verdict(judges.momentum_hurts(one, column)) == hurt


@pytest.mark.parametrize(
    ("recursive", "adagrad", "expected"),
    [(0.2015, 0.2, REPRODUCED), (0.2, 0.21, PARTLY), (0.21, 0.2, NOT)],
)
def test_same_train_loss_looks_at_the_end(recursive: float, adagrad: float, expected: str) -> None:
    def ending(*lasts: float) -> list[float]:
        return [last - 0.1 for last in lasts]  # the end is worse by 0.1 than the best

    found = curves(
        "train_loss",
        recursive=ending(0.1, recursive, 0.9),
        adam_1=ending(0.2),
        adam_3=ending(0.5),
        adagrad_10=ending(adagrad),
    )
    findings = judges.same_train_loss(found, "test_accuracy")
    assert verdict(findings) == expected
    assert "adam_3" not in findings[0].measured
    # Halfway all are lower by 0.1.
    ends = np.array([recursive, 0.2, adagrad])
    at_end, halfway = (values.max() / values.min() - 1 for values in (ends, ends - 0.1))
    said = f"the largest excess was {halfway:.1%} halfway and is {at_end:.1%} at the end"
    assert findings[0].measured.endswith(said)


# Sections --------------------------------------------------------------------------------------


def test_a_section_is_of_the_largest_size_that_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAROLI_RESULTS", str(tmp_path))
    setting = replace(DIGITS, steps=4, looks=2)
    tiny = Size(setting, 2, (1e-3,), (1e-2,))
    experiment = replace(
        LOGISTIC, sizes={"full": tiny._replace(seeds=3), "small": tiny, "quick": tiny}
    )
    sizes = ("full", "small")
    found = report.section(experiment, sizes)
    assert [finding.verdict for finding in found.findings] == [NOT_RUN]
    assert found.rows == []
    planned = experiment.sizes["full"].runs("cpu")
    for run in planned:
        looks = [Look(step, step / 2, 0.1 * step, *[0.5] * 5) for step in setting.marks()]
        if run.seed < 2:
            runs.write(experiment.folder("small"), run, 1, looks)
        if run != planned[-1]:
            runs.write(experiment.folder("full"), run, 1, looks)
    found = report.section(experiment, sizes)
    assert [finding.verdict for finding in found.findings] == [OTHER_SCALE]
    assert found.findings[0].measured.startswith("on a small cut: ")
    assert found.findings[0].measured.endswith("(reproduced)")
    assert found.command == "paroli reproduce mnist-logistic --size small"
    assert len(found.rows) == 7
    assert "2 seeds" in found.made_by
    runs.write(experiment.folder("full"), planned[-1], 1, looks)
    found = report.section(experiment, sizes)
    assert [finding.verdict for finding in found.findings] == [REPRODUCED]
    assert found.command == "paroli reproduce mnist-logistic"
    # A cut of fewer networks that train longer adds what it found, in its own words.
    longer = Size(replace(setting, steps=6, looks=2), 1, (1e-3,), (1e-2,))
    experiment = replace(experiment, sizes={**experiment.sizes, "cpu": longer})
    assert report.section(experiment, ("full", "cpu")) == found
    for run in longer.runs("cpu"):
        assert report.section(experiment, ("full", "cpu")) == found
        looks = [Look(step, step / 2, 0.1 * step, *[0.5] * 5) for step in (0, 3, 6)]
        runs.write(experiment.folder("cpu"), run, 1, looks)
    both = report.section(experiment, ("full", "cpu"))
    assert [finding.verdict for finding in both.findings] == [REPRODUCED, ON_CPU[REPRODUCED]]
    assert both.findings[1].claim == f"{found.findings[0].claim} (6 steps, one seed)"
    assert both._replace(findings=found.findings) == found
    # One that does not train longer is only shown where there is nothing else.
    shorter = replace(experiment, sizes={**experiment.sizes, "cpu": tiny})
    assert report.section(shorter, ("full", "cpu")).findings == found.findings
    assert report.section(experiment, ("quick",)).findings[0].verdict == NOT_RUN
