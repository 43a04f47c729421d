"""The table from the paper to the code: complete, up to date, and it notices a lost home."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import paper_to_code  # noqa: E402


def test_the_page_is_what_the_marks_say() -> None:
    written = paper_to_code.PAGE.read_text(encoding="utf-8")
    assert written == paper_to_code.page(), "run: python docs/paper_to_code.py"


def test_every_line_and_label_has_a_home() -> None:
    homes = paper_to_code.collect()
    for algorithm, lines in paper_to_code.ALGORITHMS.items():
        assert {n for key in homes if key[0] == algorithm for n in [key[1]]} == set(lines)
    assert set(paper_to_code.LABELS) <= set(homes)


def test_a_line_that_loses_its_home_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "paroli"
    for path in paper_to_code.SOURCE.rglob("*.py"):
        copy = source / path.relative_to(paper_to_code.SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8")
        if path.name == "recursive.py":
            text = "\n".join(line for line in text.splitlines() if "# line 8" not in line)
        copy.write_text(text, encoding="utf-8")
    monkeypatch.setattr(paper_to_code, "SOURCE", source)
    with pytest.raises(SystemExit, match=re.escape("('alg:recurse', 8)")):
        paper_to_code.page()
    (source / "core" / "recursive.py").write_text("x = 1  # line 13\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="alg:recurse has no line 13"):
        paper_to_code.page()


def test_no_label_of_the_paper_is_missing() -> None:
    folder = ROOT.parent / "shared" / "paper"
    sources = sorted(folder.glob("*.txt"))
    if not sources:
        pytest.skip("the paper's source is not beside the repository")
    text = sources[0].read_text(encoding="utf-8")
    labels = set(re.findall(r"\\label\{((?:eqn|thm|alg):\w+)\}", text))
    assert labels == set(paper_to_code.LABELS) | set(paper_to_code.ALGORITHMS)


def test_no_algorithm_of_the_paper_has_other_lines() -> None:
    folder = ROOT.parent / "shared" / "paper"
    sources = sorted(folder.glob("*.txt"))
    if not sources:
        pytest.skip("the paper's source is not beside the repository")
    text = sources[0].read_text(encoding="utf-8")
    for body in re.findall(r"\\begin\{algorithmic\}(.*?)\\end\{algorithmic\}", text, re.DOTALL):
        label = "alg:recurse" if "RecursiveOptimizer" in body else "alg:diag"
        printed = re.findall(r"\\(?:Procedure|State|For|If|EndFor|EndIf|EndProcedure)\b", body)
        assert len(printed) == len(paper_to_code.ALGORITHMS[label])
