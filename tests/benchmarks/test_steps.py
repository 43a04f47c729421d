"""The benchmark of steps runs from end to end, and counts what it says it counts."""

import doctest
import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from benchmarks import steps_counting as counting  # noqa: E402
from benchmarks import steps_pages as pages  # noqa: E402
from benchmarks import steps_tables as tables  # noqa: E402
from benchmarks.steps_contestants import COMPILED, CONTESTANTS, OURS, REFERENCE, Contestant, chosen  # noqa: E402
from benchmarks.steps_first import in_fresh_processes  # noqa: E402
from benchmarks.steps_racing import COPY, Needs, Racer, admitted, race  # noqa: E402
from benchmarks.steps_shapes import FLAT, SHAPES, size  # noqa: E402
from paroli.native.build import available  # noqa: E402
from tests.benchmarks.running import RESULTS, ROOT, run  # noqa: E402

PAGES = ("README.md", "docs/performance.md")
MOST_BYTES_OF_A_PICTURE = 150_000
CPU = torch.device("cpu")
needs_a_compiler = pytest.mark.skipif(not available(), reason="no C compiler")


def copy_of_pages(folder: Path) -> Path:
    """The pages, with nothing measured in them yet."""
    for page in PAGES:
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / page).read_text("utf-8")
        for block in pages.BLOCKS:
            filled = f"(<!-- {block} -->).*?(<!-- /{block} -->)"
            text = re.sub(filled, r"\1\n\2", text, flags=re.DOTALL)
        (folder / page).write_text(text, "utf-8")
    return folder


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_of_pages(tmp_path_factory.mktemp("steps"))
    parts = ("--only", "1e4", "training", "--optimizers", OURS, REFERENCE)
    run("steps", *parts, "--rounds", "3", "--out", str(folder / "results"), "--pages", str(folder))
    return folder


def table(out: Path, which: tables.Table) -> tuple[dict[str, str], list[dict[str, str]]]:
    found = tables.read(out / "results", "cpu", which)
    assert found is not None
    assert tuple(found[1][0]) == which.columns
    return found


def test_the_table_of_steps(out: Path) -> None:
    head, rows = table(out, tables.STEPS)
    assert set(head) == {"device", "versions", "threads", "seed"}
    assert f"torch {torch.__version__}" in head["versions"]
    by_name = {row["optimizer"]: row for row in rows}
    assert list(by_name) == [COPY, OURS, REFERENCE]
    reference = float(by_name[REFERENCE]["us_median"])
    for row in rows:
        assert (row["shape"], row["tensors"], row["parameters"]) == ("1e4", "1", "10000")
        low, median, high = (float(row[f"us_{q}"]) for q in ("p10", "median", "p90"))
        assert 0 < low <= median <= high
        ratio = median / reference
        assert float(row["ratio_to_fused_adam"]) == pytest.approx(ratio, rel=0.01, abs=0.01)
    adam = by_name[REFERENCE]
    counted = [float(adam[f"{what}_bytes"]) for what in ("state", "moved", "transient")]
    assert counted == pytest.approx([8, 28, 0], abs=0.01)
    assert by_name[COPY]["moved_bytes"] == "8.00"


def test_the_table_of_training(out: Path) -> None:
    head, rows = table(out, tables.TRAINING)
    assert "transformer" in head["training"]
    assert [row["optimizer"] for row in rows] == [OURS, REFERENCE]
    for row in rows:
        low, median, high = (float(row[f"tokens_per_s_{q}"]) for q in ("p10", "median", "p90"))
        assert 0 < low <= median <= high
    assert float(rows[1]["ratio_to_fused_adam"]) == 1


@needs_a_compiler
def test_the_table_of_arrays(out: Path) -> None:
    _, rows = table(out, tables.ARRAYS)
    by_name = {row["array"]: row for row in rows}
    for row in rows:
        parts = [int(row[key]) for key in ("first", "read", "written")]
        assert int(row["moved"]) == sum(parts)
    assert by_name["gradient"]["written"] == "0"
    assert by_name["point"]["first"] == by_name["lag"]["first"] == "0"  # sums know no point
    for name in set(by_name) - {"gradient"}:
        assert int(by_name[name]["written"]) == counting.BYTES[by_name[name]["dtype"]]
    ours = next(r for r in table(out, tables.STEPS)[1] if r["optimizer"] == OURS)
    kept = sum(counting.BYTES[by_name[n]["dtype"]] for n in set(by_name) - {"gradient", "point"})
    assert float(ours["state_bytes"]) == pytest.approx(kept, abs=0.01)
    moved = sum(int(row["moved"]) for row in rows)
    assert float(ours["moved_bytes"]) == pytest.approx(moved, abs=0.1)


def test_the_pages_and_the_picture(out: Path) -> None:
    _, rows = table(out, tables.STEPS)
    (ours,) = (row for row in rows if row["optimizer"] == OURS)
    readme, page = ((out / name).read_text("utf-8") for name in PAGES)
    assert f"| **{OURS}** | {float(ours['state_bytes']):.0f} |" in readme
    for block in pages.BLOCKS:
        inside = page.partition(f"<!-- {block} -->")[2].partition(f"<!-- /{block} -->")[0]
        assert (f"**{OURS}**" in inside) == (block in ("steps", "roofline", "training"))
    assert f"({float(ours['ratio_to_fused_adam']):.2f})" in page
    picture = (out / "results" / "steps-cpu.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) <= MOST_BYTES_OF_A_PICTURE


def test_the_committed_pages_are_of_the_committed_tables(tmp_path: Path) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    copy_of_pages(tmp_path)
    drawn = pages.draw(tmp_path / "results", tmp_path)
    for page in PAGES:
        now = (tmp_path / page).read_text("utf-8")
        assert now == (ROOT / page).read_text("utf-8"), "run: python -m benchmarks.steps_pages"
    for picture in drawn:
        if picture.suffix == ".png":
            assert (RESULTS / picture.name).stat().st_size <= MOST_BYTES_OF_A_PICTURE


def test_without_a_single_tensor_there_is_no_figure(out: Path, tmp_path: Path) -> None:
    folder = copy_of_pages(tmp_path)
    head, rows = table(out, tables.STEPS)
    values = [["gpt2", *list(row.values())[1:]] for row in rows]
    (folder / "results").mkdir()
    tables.write(folder / "results", "cpu", tables.STEPS, head, values)
    drawn = pages.draw(folder / "results", folder)
    assert drawn == [folder / name for name in PAGES]
    assert "GPT-2, 148 tensors" in (folder / "README.md").read_text("utf-8")


def test_a_page_without_the_place_for_a_table_is_an_error(out: Path, tmp_path: Path) -> None:
    folder = copy_of_pages(tmp_path)
    (folder / "README.md").write_text("# nothing", "utf-8")
    with pytest.raises(ValueError, match=r"README.md: expected one <!-- steps -->"):
        pages.draw(out / "results", folder)


def test_the_first_step_of_a_fresh_process() -> None:
    (start,) = in_fresh_processes([REFERENCE], threads=1)
    assert (start.optimizer, start.cache) == (REFERENCE, "")
    assert all(seconds > 0 for seconds in start[2:])


@pytest.mark.parametrize("name", ["turns", "steps_shapes"])
def test_examples(name: str) -> None:
    failed, tried = doctest.testmod(import_module(f"benchmarks.{name}"))
    assert (failed, tried > 0) == (0, True)


# Counting ---------------------------------------------------------------------------------------

N = 1000


@pytest.mark.parametrize(
    ("operation", "bytes_each"),
    [
        (lambda x, y: x + y, 12),
        (lambda x, y: x.add_(y), 12),
        (lambda x, y: x.add_(1), 8),
        (lambda x, y: x.copy_(y), 8),
        (lambda x, y: x.zero_(), 4),
        (lambda x, y: torch.add(x, 1, out=y), 8),
        (lambda x, y: x.view(10, 100), 0),
        (lambda x, y: torch.empty_like(x), 0),
        (lambda x, y: torch.zeros_like(x), 4),
        (lambda x, y: x + torch.ones(1).expand(N), 8 + 2 * 4 / N),  # made, then read
        (lambda x, y: torch._foreach_mul_([x, y], 2.0), 16),
    ],
)
def test_traffic(operation: Any, bytes_each: int) -> None:
    x, y = torch.zeros(N), torch.zeros(N)
    with counting.Traffic() as traffic:
        operation(x, y)
    assert traffic.bytes == round(bytes_each * N)


class Holding:
    """An optimizer that holds so many floats for a while, never all at once."""

    def __init__(self, p: Any) -> None:
        self.state = {p: {"kept": torch.zeros(N), "nested": [torch.zeros(2, N)]}, "other": p.grad}

    def step(self) -> None:
        for _ in range(3):
            first = torch.zeros(N)
            second = torch.zeros(2 * N)
            del first, second


def test_state_and_transient_bytes() -> None:
    p = torch.nn.Parameter(torch.zeros(N))
    p.grad = torch.zeros(N)
    optimizer = Holding(p)
    assert counting.state_bytes(optimizer, [p]) == 3 * 4 * N
    assert counting.transient_bytes(optimizer, CPU) == 3 * 4 * N


def named(*names: str) -> list[Contestant]:
    return [Contestant(name, "torch", "torch", lambda parameters: None) for name in names]


def test_who_is_admitted() -> None:
    some = named("slow", "large", "wasteful", "fit", "late")
    needs = {
        "slow": Needs(4, 0, seconds=1.0),
        "large": Needs(40, 0, 0),
        "wasteful": Needs(4, 40, 0),
        "fit": Needs(8, 20, 0),
        "late": Needs(10, 2, 0),  # beside what the one before it holds for a while
    }
    inside, outside = admitted(some, 100, needs, memory=100 * 50, seconds=10)
    assert [one.name for one in inside] == ["fit"]
    why = {"slow": "time", "large": "memory", "wasteful": "memory", "late": "memory"}
    assert outside == why


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [([1.0, 0.2, 0.3], 0.3), ([1.0, 1.0, 0.3], 0.3), ([1.1, 1.2, 1.3], None), ([0.1, 2, 3], 3)],
)
def test_who_takes_all_the_time_leaves(seconds: list[float], expected: float | None) -> None:
    """A first step may be slow, one that compiles too; but not all of them."""
    left = iter(seconds)

    def stopwatch(work: Any) -> float:
        work()
        return next(left)

    start = [torch.zeros(3), torch.zeros(2, 2)]
    (adam,) = (one for one in CONTESTANTS if one.name == REFERENCE)
    racer = Racer(adam, start, (start, start))
    assert racer.warmed_up(stopwatch, most=1.0) == expected


def test_a_race() -> None:
    adam = [one for one in CONTESTANTS if one.name in (REFERENCE, "SGD, foreach")]
    found, outside = race(adam, [(3,), (2, 2)], CPU, seed=0, rounds=4, seconds=1e3)
    assert list(found) == [COPY, *(one.name for one in adam)]
    assert not outside
    assert all(len(result.seconds) >= 4 for result in found.values())
    assert found[REFERENCE].operators == 4


def test_the_lists_of_tensors() -> None:
    flat = {name: size(SHAPES[name]) for name in FLAT}
    assert flat == {f"1e{k}": 10**k for k in range(4, 10)}
    assert (len(SHAPES["1000x1000"]), size(SHAPES["1000x1000"])) == (1000, 10**6)
    sizes = [size(shapes) for shapes in SHAPES.values()]
    assert sizes == sorted(sizes)


def test_what_is_not_installed_is_named() -> None:
    here, missing = chosen(None)
    assert {OURS, REFERENCE} <= {one.name for one in here}
    assert len(here) + len(missing) == len(CONTESTANTS)
    assert all(one.installed for one in here)


@pytest.mark.parametrize(
    "one", [c for c in CONTESTANTS if c.installed and c.name != COMPILED], ids=lambda c: c.name
)
def test_every_contestant_moves(one: Contestant) -> None:
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(s)) for s in ((3, 4), (4,))]
    before = [p.detach().clone() for p in parameters]
    optimizer = one.make(parameters)
    for _ in range(3):
        for p in parameters:
            p.grad = p.detach().clone()
        optimizer.step()
    assert all((p != x).any() for p, x in zip(parameters, before, strict=True))
