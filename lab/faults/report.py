"""The table of scores, and the section of a page in the documentation."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from .environments import OPENVINO, VERSIONS, title
from .judge import Score

TARGETS = {
    ("real", "node"): 90,
    ("real", "party and cause"): 95,
    ("real", "pass"): 80,
    ("planted", "node"): 95,
}
START = "<!-- latest run: make faults replaces this section -->"
END = "<!-- end of the latest run -->"
COLUMNS: dict[str, Callable[[Score], bool | None]] = {
    "node": lambda score: score.node,
    "party and cause": lambda score: score.party and score.cause,
    "pass": lambda score: score.rewrite,
    "no other node": lambda score: score.innocent,
    "exit code": lambda score: score.code,
    "FIX works": lambda score: score.fix,
}


def table(scores: Sequence[Score]) -> str:
    """Return the percentages of the scores as a table, by group."""
    lines = [
        "| cases | number | " + " | ".join(COLUMNS) + " |",
        "| --- " * (len(COLUMNS) + 2) + "|",
    ]
    for group in dict.fromkeys(score.case.group for score in scores):
        for faulty in (True, False):
            counted = [
                s for s in scores if s.case.group == group and bool(s.case.culprits) == faulty
            ]
            # Counted separately, because outputs alone can be insufficient for an answer.
            vague = [score for score in counted if score.abstains]
            counted = [score for score in counted if not score.abstains]
            if counted:
                shares = [_share(counted, column) for column in COLUMNS.values()]
                if not faulty:
                    shares = ["", "", "", *shares[3:]]
                title = f"{group} faults" if faulty else f"healthy models, with {group} faults"
                lines.append(f"| {title} | {len(counted)} | " + " | ".join(shares) + " |")
            if vague:
                blanks = " | " * len(COLUMNS)
                lines.append(f"| outputs only, inconclusive | {len(vague)} | {blanks}|")
    return "\n".join(lines)


def _share(scores: Sequence[Score], column: Callable[[Score], bool | None]) -> str:
    """Return the percentage of scores for which a column is true, without its sign."""
    answers = [column(score) for score in scores if column(score) is not None]
    return f"{100 * sum(map(bool, answers)) / len(answers):.1f}" if answers else ""


def with_section(page: str, section: str) -> str:
    """Return a page with the section between the marks replaced, or added at the end."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if start and not end:
        raise SystemExit(f"The page has the line {START}, but not {END}.")
    before = before if start else before.rstrip() + "\n\n" if before.strip() else ""
    return f"{before}{START}\n\n{section.strip()}\n\n{END}{after if start else chr(10)}"


def section_of(scores: Sequence[Score], seed: int) -> str:
    """Return the section with the results of one run, for `docs/development/diagnosis.md`."""
    seconds = sorted(score.seconds for score in scores)
    kinds = dict.fromkeys(
        (s.case.group, s.case.kind.split(":")[0]) for s in scores if s.case.culprits
    )
    rows = []
    for group, kind in kinds:
        counted = [
            s
            for s in scores
            if s.case.culprits and s.case.group == group and s.case.kind.split(":")[0] == kind
        ]
        shares = [_share(counted, COLUMNS[name]) for name in ("node", "party and cause", "pass")]
        rows.append(f"| {kind} | {len(counted)} | " + " | ".join(shares) + " |")
    missed = [
        f"| {s.case.kind} | {title(s.case.version)} | {s.said[:200]} |"
        for s in scores
        if not s.right
    ]
    return f"""## Latest run

`make faults` measured seed {seed}, with ONNX Runtime {VERSIONS[0]} to {VERSIONS[-1]} and OpenVINO
{OPENVINO[0]} to {OPENVINO[-1]}. All shares are percentages of the cases. "Method" explains the
columns.

{table(scores)}

A case takes {statistics.median(seconds):.1f} s (median), and at most {seconds[-1]:.1f} s.

### Results by kind of fault

| fault | cases | node | party and cause | pass |
| --- | --- | --- | --- | --- |
{chr(10).join(rows)}

### Incorrect results

| fault | environment | answer of `diagnose` |
| --- | --- | --- |
{chr(10).join(missed) or "| none | | |"}
"""
