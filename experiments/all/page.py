"""The report: one page of HTML that needs no other file, and one of Markdown."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from ..common.report import (
    NOT,
    NOT_RUN,
    ON_CPU,
    OTHER_SCALE,
    PARTLY,
    REPRODUCED,
    Section,
    markdown_table,
)

TITLE = "The paper's experiments, reproduced"
LEAD = (
    "Every figure of 'Matrix-Free Preconditioning in Online Learning' (Cutkosky and Sarlos, ICML "
    "2019): what it claims, in our words, what was run, and whether it holds. Figure 2 of the "
    "paper's text shows the first panels of LM1B and of CIFAR-10 again."
)
VERDICTS = (
    "Verdicts are computed from the tables of the runs. 'Reproduced', 'partly' (by another form or "
    "iterate than the paper's, or in part) and 'not' are of runs at full size. Of smaller networks "
    "on fewer rows, as one CPU core can train them, a claim may hold or not 'on a CPU-sized cut', "
    "which proves nothing about the full size; still smaller cuts get no verdict."
)
SHARED = "What several experiments do otherwise"
"""The heading above deviations that are not one experiment's own."""
MANY = 2
ANCHOR = SHARED.lower().replace(" ", "-")
BADGES = {
    REPRODUCED: "yes",
    PARTLY: "partly",
    NOT: "no",
    ON_CPU[REPRODUCED]: "cut yes",
    ON_CPU[PARTLY]: "cut partly",
    ON_CPU[NOT]: "cut no",
    NOT_RUN: "unknown",
    OTHER_SCALE: "unknown",
}
"""How verdicts look: those of a cut have an outline only."""
TEMPLATE = Path(__file__).with_name("page.html")


def html(sections: Sequence[Section]) -> str:
    """The page, its pictures within."""
    template = Template(TEMPLATE.read_text(encoding="utf-8"))
    summary = _html_table(
        ("experiment", "claim", "verdict"),
        [
            ("" if i else _link(section), escape(finding.claim), _badge(finding.verdict))
            for section in sections
            for i, finding in enumerate(section.findings)
        ],
    )
    shared = _shared(sections)
    body = "\n".join(_html_section(section, shared) for section in sections)
    return template.substitute(
        title=TITLE,
        lead=escape(LEAD),
        verdicts=escape(VERDICTS),
        summary=summary,
        sections=body,
        shared=_html_shared(shared),
    )


def _shared(sections: Sequence[Section]) -> list[str]:
    """Deviations of more than `MANY` experiments, each once."""
    counts = Counter(text for section in sections for text in section.deviations)
    return [text for text, count in counts.items() if count > MANY]


def _html_shared(shared: Sequence[str]) -> str:
    return f'<div id="shared"><h2>{SHARED}</h2>{_html_list(shared)}</div>' if shared else ""


def _html_list(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"


def _link(section: Section) -> str:
    return f'<a href="#{section.name}">{escape(section.title)}</a>'


def _badge(verdict: str) -> str:
    return f'<span class="badge {BADGES[verdict]}">{verdict}</span>'


def _html_section(section: Section, shared: Sequence[str]) -> str:
    parts = [
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2>',
        f'<p class="claim">{escape(section.claim)}</p>',
    ]
    for picture in section.pictures:
        encoded = base64.b64encode(picture.read_bytes()).decode("ascii")
        title = escape(section.title, quote=True)
        parts.append(f'<img alt="{title}" src="data:image/png;base64,{encoded}">')
    parts += [
        f"<p>{_badge(f.verdict)} <b>{escape(f.claim)}.</b> {escape(f.measured)}.</p>"
        for f in section.findings
    ]
    if section.rows:
        cells = [tuple(map(escape, row)) for row in section.rows]
        table = _html_table(tuple(map(escape, section.heads)), cells)
        parts.append(f"<details><summary>The numbers</summary>{table}</details>")
    own = [text for text in section.deviations if text not in shared]
    more = (
        f' (and <a href="#shared">{SHARED.lower()}</a>)'
        if len(own) < len(section.deviations)
        else ""
    )
    parts += [
        f"<p>What is done otherwise{more}:</p>{_html_list(own)}",
        f"<p class='made'><code>{escape(section.command)}</code><br>{escape(section.made_by)}</p>",
        "</section>",
    ]
    return "\n".join(parts)


def _html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already."""
    lines = ["<table><tr>", *(f"<th>{head}</th>" for head in heads), "</tr>"]
    for row in rows:
        lines += ["<tr>", *(f"<td>{cell}</td>" for cell in row), "</tr>"]
    return "".join([*lines, "</table>"])


def markdown(sections: Sequence[Section], home: Path) -> str:
    """The page for the documentation, which lies in the folder ``home`` and links the pictures."""
    lines = [f"# {TITLE}", "", LEAD, "", VERDICTS, "", "Written by `paroli reproduce all`.", ""]
    shared = _shared(sections)
    heads = ("experiment", "claim", "verdict", "command")
    summary = [
        (section.title, finding.claim, finding.verdict, f"`{section.command}`")
        for section in sections
        for finding in section.findings
    ]
    lines += markdown_table(heads, summary)
    for section in sections:
        lines += ["", f"## {section.title}", "", f"**The claim.** {section.claim}", ""]
        for picture in section.pictures:
            relative = picture.resolve().relative_to(home.resolve().parent)
            lines += [f"![{section.title}](../{relative.as_posix()})", ""]
        lines += [f"- **{f.verdict}**: {f.claim}. {f.measured}." for f in section.findings]
        if section.rows:
            lines += ["", *markdown_table(section.heads, section.rows)]
        own = [text for text in section.deviations if text not in shared]
        more = f" (and what is [below](#{ANCHOR}))" if len(own) < len(section.deviations) else ""
        lines += ["", f"What is done otherwise{more}:", "", *(f"- {text}" for text in own)]
        lines += ["", f"Made by `{section.command}`: {section.made_by}"]
    if shared:
        lines += ["", f"## {SHARED}", "", *(f"- {text}" for text in shared)]
    return "\n".join(lines) + "\n"
