"""The table of scores, and the page in the documentation."""

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
COLUMNS: dict[str, Callable[[Score], bool | None]] = {
    "node": lambda score: score.node,
    "party and cause": lambda score: score.party and score.cause,
    "pass": lambda score: score.rewrite,
    "no other node": lambda score: score.innocent,
    "exit code": lambda score: score.code,
    "FIX works": lambda score: score.fix,
}


def table(scores: Sequence[Score]) -> str:
    """Shares in percent, by group."""
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
    answers = [column(score) for score in scores if column(score) is not None]
    return f"{100 * sum(map(bool, answers)) / len(answers):.1f}" if answers else ""


def page(scores: Sequence[Score], seed: int) -> str:
    """The page `docs/development/diagnosis.md`."""
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
    return f"""# Accuracy of `diagnose`

This page measures how often `diagnose` names the correct node, cause and fix. The random seed of a
measurement selects the cases:

- bugs of released packages, at a random depth in a CNN, a transformer encoder or a U-Net, with ONNX
  Runtime {VERSIONS[0]} to {VERSIONS[-1]} or OpenVINO {OPENVINO[0]} to {OPENVINO[-1]};
- faults that the lab plants in such networks, and in models from packages.

Each fault changes the outputs. To repeat the measurement, run `make faults`. The first run creates
virtual environments (2 GB).

In the tables below, all shares are percentages of the cases:

- **node**: every node that `diagnose` names belongs to the fault, or the backend fuses it with the
  fault.
- **party and cause**: the answer contains the correct party (the backend, the model or the
  exporter) and the correct cause.
- **pass**: the answer names the optimization of the backend that is at fault.
- **no other node**: no node outside the fault is named, and no node of a healthy model.
- **exit code**: the exit code is correct.
- **FIX works**: the printed FIX was run, and the model is correct with it.

{table(scores)}

A case takes {statistics.median(seconds):.1f} s (median), and at most {seconds[-1]:.1f} s.
The seed is {seed}.

## Results by kind of fault

| fault | cases | node | party and cause | pass |
| --- | --- | --- | --- | --- |
{chr(10).join(rows)}

## Incorrect results

| fault | environment | answer of `diagnose` |
| --- | --- | --- |
{chr(10).join(missed) or "| none | | |"}
"""
