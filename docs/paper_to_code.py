"""Write `paper-to-code.md`: where every line, equation and theorem of the paper lives in the code.

The source carries marks: ``# line 8`` at the end of a line of code (in the file of its algorithm;
elsewhere ``# alg:diag line 8``), and the paper's labels, ``eqn:…`` and ``thm:…``, in comments and
docstrings.  This script collects them by syntax tree, so the table names functions, not line
numbers, and changes only when something moves.  Run it after moving a mark:

    python docs/paper_to_code.py
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "paroli"
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "paper-to-code.md"

ALGORITHMS = {
    "alg:recurse": {
        1: "the procedure, with its parameter ε",
        2: "initial wealth",
        3: "initialise the inner learner",
        4: "for each round",
        5: "the inner learner's output v",
        6: "the iterate: wealth times v",
        7: "output it, receive the gradient",
        8: "the new wealth",
        9: "the gradient of the log-loss, z",
        10: "send z to the inner learner",
        11: "end of the rounds",
        12: "end of the procedure",
    },
    "alg:diag": {
        1: "the procedure, with its parameters ε and η",
        2: "initial wealth of each coordinate",
        3: "initial A and v",
        4: "for each round",
        5: "for each coordinate",
        6: "the unclipped bet x",
        7: "the clipped bet w",
        8: "end of the coordinates",
        9: "output w",
        10: "receive the gradient",
        11: "for each coordinate",
        12: "take the gradient as it is …",
        13: "… unless it pushes a clipped bet outward:",
        14: "then it is dropped",
        15: "end of the condition",
        16: "the new wealth",
        17: "the gradient of the log-loss, z",
        18: "the new A",
        19: "the new betting fraction v",
        20: "end of the coordinates",
        21: "end of the rounds",
        22: "end of the procedure",
    },
}
HOME_FILES = {"recursive.py": "alg:recurse", "diagonal.py": "alg:diag"}

LABELS = {
    "eqn:diagada": "regret of diagonal Adagrad",
    "eqn:diagparamfree": "diagonal regret without tuning to the comparator",
    "eqn:fullmatrixada": "regret of full-matrix Adagrad",
    "eqn:fullmatrixcoin": "the improved full-matrix regret",
    "eqn:wlessthanwealth": "never bet more than half",
    "eqn:logfixedwealth": "log-wealth of a fixed betting fraction",
    "eqn:logfixedwealthbound": "its lower bound",
    "eqn:logwealth": "log-wealth of varying fractions",
    "eqn:regretrecursion": "log-wealth through the inner learner's regret",
    "eqn:ons": "regret of coin betting by Online Newton Steps",
    "eqn:simplediag": "the diagonal bound that always holds",
    "eqn:wealthbound": "wealth as a function of the sum of gradients",
    "eqn:expandedbound": "the conjugate of that function",
    "thm:duality": "from wealth to regret",
    "thm:recursiveregret": "the two cases of Algorithm 1's regret",
    "thm:generalrecursiveregret": "Algorithm 1's regret around any inner learner",
    "thm:diaganalysis": "Algorithm 2's regret",
    "thm:conjugate": "conjugate of an exponential",
    "thm:balancelog": "the best trade-off of a logarithm and a line",
    "thm:tighterrecursiveregret": "Algorithm 1's regret with all constants",
    "thm:tighterdiag": "Algorithm 2's regret with all constants",
}

NUMBERS = r"\d+(?:\s*[-–]\s*\d+)?"
LINE_MARK = re.compile(
    rf"#.*?(?:(?P<algorithm>alg:\w+) )?\blines? (?P<numbers>{NUMBERS}(?:, {NUMBERS})*)"
)
LABEL_MARK = re.compile(r"\b(?:eqn|thm):[a-z]+\b")


class Homes(dict[tuple[str, int] | str, list[str]]):
    """From (algorithm, line) or label to the functions that carry its mark."""

    def add(self, key: tuple[str, int] | str, home: str) -> None:
        """Note one home of a line or label, once."""
        if home not in self.setdefault(key, []):
            self[key].append(home)


def enclosing(tree: ast.Module) -> Iterator[tuple[range, str]]:
    """Every class and function with the lines that it spans, outer before inner."""

    def visit(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[range, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                inner = (*names, child.name)
                yield range(child.lineno, (child.end_lineno or child.lineno) + 1), ".".join(inner)
                yield from visit(child, inner)

    return visit(tree, ())


def numbers(text: str) -> Iterator[int]:
    """The numbers in '2, 4-6'."""
    for part in text.split(","):
        ends = [int(end) for end in re.split(r"[-–]", part)]
        yield from range(ends[0], ends[-1] + 1)


def collect() -> Homes:
    """Read all marks of the source."""
    homes = Homes()
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        scopes = list(enclosing(ast.parse(text)))
        for number, line in enumerate(text.splitlines(), start=1):
            inside = [name for span, name in scopes if number in span]
            place = path.relative_to(SOURCE).as_posix()
            home = f"`{place}` {inside[-1]}" if inside else f"`{place}`"
            for mark in LINE_MARK.finditer(line):
                algorithm = mark["algorithm"] or HOME_FILES.get(path.name)
                if algorithm is not None:
                    for n in numbers(mark["numbers"]):
                        if n not in ALGORITHMS[algorithm]:
                            raise SystemExit(f"{place}:{number}: {algorithm} has no line {n}")
                        homes.add((algorithm, n), home)
            for label in LABEL_MARK.findall(line):
                if label not in LABELS:
                    raise SystemExit(f"{place}:{number}: the paper has no label {label}")
                homes.add(label, home)
    return homes


def tests_named_by(label: str) -> list[str]:
    """The tests that carry a label in their name, as ``test_thm_duality`` does."""
    name = re.compile(rf"def (test_{label.replace(':', '_')}(?:_\w+)?)\(")
    found: list[str] = []
    for path in sorted(TESTS.rglob("test_*.py")):
        found += name.findall(path.read_text(encoding="utf-8"))
    return found


def page() -> str:
    """The page as Markdown; raises SystemExit if a line or label has lost its home."""
    homes = collect()
    keys: list[tuple[str, int] | str] = [
        *((algorithm, n) for algorithm, lines in ALGORITHMS.items() for n in lines),
        *LABELS,
    ]
    homeless = [key for key in keys if key not in homes]
    if homeless:
        raise SystemExit(f"without a home in the code: {homeless}")
    rows = ["# From the paper to the code", ""]
    rows += ["Generated by `docs/paper_to_code.py` from the marks in the source.", ""]
    for algorithm, lines in ALGORITHMS.items():
        rows += [f"## {algorithm}", "", "| line | says | home |", "|---|---|---|"]
        rows += [
            f"| {n} | {says} | {'; '.join(homes[algorithm, n])} |" for n, says in lines.items()
        ]
        rows.append("")
    rows += [
        "## Equations and theorems",
        "",
        "| label | says | home | tests |",
        "|---|---|---|---|",
    ]
    for label, says in LABELS.items():
        tests = ", ".join(f"`{test}`" for test in tests_named_by(label))
        rows.append(f"| {label} | {says} | {'; '.join(homes[label])} | {tests} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)
