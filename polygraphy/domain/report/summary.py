"""What a document comes to, in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, isnan
from typing import Any

from polygraphy.domain.report.document import Comparison, OutputRow, Problem
from polygraphy.domain.tensors.naming import counted, differing, enumerated

_MOST_NAMES = 4
_PLAIN = {
    "passed": "Completed.",
    "failed": "The check failed.",
    "agree": "Everything agrees.",
    "ill-conditioned": "The model magnifies rounding; nobody is to blame.",
}
_LONGEST = 160
_BRIEF = 4
"""Digits of a number in a sentence."""


def summary_of(
    verdict: str,
    comparisons: Sequence[Comparison],
    problems: Sequence[Problem],
    culprits: Sequence[Mapping[str, Any]] = (),
    results: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the sentence.

    Args:
        verdict: in a word.
        comparisons: what was found about pairs of runs.
        problems: what ended the program early.
        culprits: what is to blame.
        results: what was found besides, each with its ``kind``.
    """
    if culprits:
        return _blamed(culprits)
    failed = [each for each in comparisons if not each.passed]
    if problems and not failed:
        return problems[-1].message
    if failed:
        return _failed(failed)
    if comparisons:
        return _passed(comparisons)
    said = (_FOUND[each["kind"]](each) for each in results if each["kind"] in _FOUND)
    found = [sentence for sentence in said if sentence]
    if found and verdict in ("passed", "failed"):
        return " ".join(found)
    return _PLAIN.get(verdict, f"{verdict}.")


def _blamed(culprits: Sequence[Mapping[str, Any]]) -> str:
    """Describe who is to blame, and for what."""
    first = culprits[0]
    names = [str(node) for node in first.get("nodes") or ()]
    shown = ", ".join(map(repr, names[:_MOST_NAMES])) or "the model as a whole"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    what = first.get("rewrite") or first.get("party")
    facts = f"Culprit: {shown}{more}, {first.get('cause')}{f' ({what})' if what else ''}"
    others = len(culprits) - 1
    return f"{facts}, and {others} more culprit{'s' * (others != 1)}." if others else f"{facts}."


def worst_row(comparisons: Sequence[Comparison]) -> tuple[Comparison, OutputRow] | None:
    """Return the output that exceeds its tolerance the most, or comes closest to it."""
    rows = [(each, row) for each in comparisons for row in each.outputs]
    return max(rows, key=lambda pair: (not pair[1].passed, _size(pair[1])), default=None)


def _size(row: OutputRow) -> float:
    if row.excess is None:
        return inf if row.reason is not None else -1.0
    return inf if isnan(row.excess) else row.excess


def _failed(failed: Sequence[Comparison]) -> str:
    names = {row.name for each in failed for row in each.outputs if not row.passed}
    every = {row.name for each in failed for row in each.outputs}
    parties = " vs. ".join(failed[0].parties)
    if not every:
        return f"No outputs were compared ({parties})."
    facts = f"{differing(len(names), len(every))} ({parties}){_first_to_fail(failed[0])}"
    worst = worst_row(failed)
    return f"{facts}; {row_in_words(worst[1])}." if worst else f"{facts}."


def _first_to_fail(comparison: Comparison) -> str:
    """Name the first output that failed, where some before it passed and others follow."""
    failing = [row for row in comparison.outputs if not row.passed]
    if len(failing) < 2 or not comparison.outputs[0].passed:
        return ""
    first = failing[0]
    return f"; first to fail: {first.name!r}{f' ({first.op})' if first.op else ''}"


def row_in_words(row: OutputRow) -> str:
    """Describe where an output that failed is worst."""
    where = f"worst: {row.name!r}"
    if row.reason is not None:
        return f"{where}: {row.reason.rstrip('.')}"
    if row.worst is not None:
        found, expected = brief_pair(row.worst.found, row.worst.expected)
        where += f" at {list(row.worst.index)}: {found}, expected {expected}"
        if found == expected and row.non_finite is not None:
            where += _UNEQUAL[found == "nan"]
    if row.iterations > 1 and row.worst_iteration is not None:
        where += f" (iteration {row.worst_iteration})"
    if row.excess is not None and 1 < row.excess < inf:
        where += f", {brief(row.excess)} times the tolerance"
    return where


_UNEQUAL = (
    ", and infinities are equal only with --infinities-compare-equal",
    ", and NaN never passes",
)


def _linted(facts: Mapping[str, Any]) -> str:
    levels = [entry["level"] for entry in facts["entries"]]
    counts = [
        f"{levels.count(level)} {word}{'s' * (levels.count(level) != 1)}"
        for level, word in (("exception", "error"), ("warning", "warning"))
        if level in levels
    ]
    if not counts:
        return "No errors and no warnings."
    first = min(facts["entries"], key=lambda entry: entry["level"] != "exception")
    return f"{' and '.join(counts)}; first: {_sentence(first['message'])}"


def _differed(facts: Mapping[str, Any]) -> str:
    found = facts["differences"]
    if not found:
        return "The models are the same."
    first = found[0]
    what = f"{first['what']} {first['name']!r} {first['change']}"
    return f"{len(found)} difference{'s' * (len(found) != 1)}; first: {what}."


def _could_run(facts: Mapping[str, Any]) -> str:
    if facts["is_compatible"]:
        return f"{facts['backend']} can run the model."
    return f"{facts['backend']} cannot: {_sentence(facts['reason'])}"


def _sparse(facts: Mapping[str, Any]) -> str:
    sparse = sum(weight["is_sparse"] for weight in facts["weights"])
    return f"{sparse} of {len(facts['weights'])} weights are 2:4 sparse."


def _consists_of(facts: Mapping[str, Any]) -> str:
    graph = facts["model"].get("graph", facts["model"])
    parts = [
        counted(len(graph[key]) if isinstance(graph[key], list) else graph[key], noun)
        for key, noun in _PARTS.items()
        if key in graph
    ]
    return f"The model has {enumerated(parts)}." if parts else ""


_PARTS = {"node_count": "node", "weights": "weight", "inputs": "input", "outputs": "output"}


def _holds(facts: Mapping[str, Any]) -> str:
    tensors = [
        tensor for run in facts["runs"] for step in run["reports"] for tensor in step["tensors"]
    ]
    odd = [tensor["name"] for tensor in tensors if tensor["peculiarities"]]
    iterations = sum(run["iterations"] for run in facts["runs"])
    facts_of_all = f"{counted(len(tensors), 'tensor')} in {counted(iterations, 'iteration')}"
    if not odd:
        return f"{facts_of_all}, without NaN or infinity."
    return f"{facts_of_all}; {len(odd)} with NaN or infinity, first: {odd[0]!r}."


def _uses(facts: Mapping[str, Any]) -> str:
    outputs = sum(bool(use["is_output"]) for use in facts["tensors"])
    total = counted(len(facts["tensors"]), "tensor")
    return f"{total}, of which {outputs} {'is an output' if outputs == 1 else 'are outputs'}."


def _installed(facts: Mapping[str, Any]) -> str:
    backends = [each for each in facts["sections"] if each["title"] == "Backends"]
    names = [name for each in backends for name, found in each["facts"] if found != _ABSENT]
    return f"Installed: {', '.join(names)}." if names else "No backend is installed."


_ABSENT = "not installed"


def _sentence(text: Any) -> str:
    """Return the first line of a text, as a sentence."""
    line = str(text).strip().partition("\n")[0]
    short = line if len(line) <= _LONGEST else f"{line[:_LONGEST].rpartition(' ')[0]} ..."
    return short if short.endswith(".") else f"{short}."


_FOUND: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "lint": _linted,
    "differences": _differed,
    "compatibility": _could_run,
    "sparsity": _sparse,
    "model": _consists_of,
    "data": _holds,
    "accuracy": lambda facts: f"{counted(len(facts['comparisons']), 'saved comparison')}.",
    "tensors": _uses,
    "environment": _installed,
}
"""Results of other commands that a sentence can say."""


def _passed(comparisons: Sequence[Comparison]) -> str:
    names = {row.name for each in comparisons for row in each.outputs}
    iterations = max(each.total for each in comparisons)
    facts = f"{len(names)} output{'s' * (len(names) != 1)} matched"
    if iterations > 1 and not comparisons[0].average:
        facts += f" in {iterations} iterations"
    worst = worst_row(comparisons)
    if worst is None or worst[1].excess is None:
        return f"{facts}."
    if worst[1].excess == 0:
        return f"{facts}; every element is equal."
    return f"{facts}; largest error: {worst[1].excess:.0%} of the tolerance ({worst[1].name!r})."


def brief(value: Any) -> str:
    """Return a value as a sentence has it."""
    return f"{value:.{_BRIEF}g}" if isinstance(value, float) else str(value)


def brief_pair(one: Any, other: Any) -> tuple[str, str]:
    """Return two values as a sentence has them, with as many digits as tell them apart."""
    for digits in range(_BRIEF, 18):
        pair = tuple(
            f"{each:.{digits}g}" if isinstance(each, float) else str(each) for each in (one, other)
        )
        if pair[0] != pair[1] or one == other:
            break
    return pair[0], pair[1]
