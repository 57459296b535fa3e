"""What a document comes to, in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy.domain.accuracy.words import badness, row_in_words, uniform_in_words
from polygraphy.domain.report.document import Comparison, Problem
from polygraphy.domain.tensors.naming import counted, differing, enumerated

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.output_rows import OutputRow

_MOST_NAMES = 4
_PLAIN = {
    "passed": "Completed.",
    "failed": "The check failed.",
    "agree": "Everything agrees.",
    "ill-conditioned": "The model magnifies rounding; nobody is to blame.",
}
_LONGEST = 160


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
        return blamed_in_words(culprits)
    failed = not all(each.passed for each in comparisons)
    if problems and not failed:
        return problems[-1].message
    if failed:
        return f"{failed_in_words(comparisons)}{_worst_of(comparisons)}."
    if comparisons:
        doubts = doubts_in_words(comparisons)
        return " ".join(filter(None, (passed_in_words(comparisons), doubts)))
    said = (_FOUND[each["kind"]](each) for each in results if each["kind"] in _FOUND)
    found = [sentence for sentence in said if sentence]
    if found and verdict in ("passed", "failed"):
        return " ".join(found)
    return _PLAIN.get(verdict, f"{verdict}.")


def blamed_in_words(culprits: Sequence[Mapping[str, Any]]) -> str:
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
    """Return the output that exceeds what is allowed the most, or comes closest to it; of what
    failed, what both sides have goes first.
    """
    rows = [(each, row) for each in comparisons for row in each.outputs]
    return max(rows, key=lambda pair: badness(pair[1]), default=None)


def failed_in_words(comparisons: Sequence[Comparison]) -> str:
    """Return how many outputs differ and, of many, which is the first, without a full stop."""
    failed = [each for each in comparisons if not each.passed]
    if len(comparisons) == 1:
        return _failed(comparisons[0])
    return "; ".join(f"{each.title}: {_failed(each)}" for each in failed)


def _failed(each: Comparison) -> str:
    rows = [row for row in each.outputs if not row.worst.is_missing]
    failing = [row for row in rows if not row.passed]
    missing = counted(len(each.outputs) - len(rows), _noun(each))
    if not rows:
        if each.empty:
            return f"no output was compared in iteration {each.empty[0]}"
        return "no output was compared" + (f": only one side has {missing}" if each.outputs else "")
    if not failing:
        return f"{counted(len(rows), _noun(each))} matched, but only one side has {missing}"
    return f"{differing(len(failing), len(rows), _noun(each))}{_first_to_fail(each, rows, failing)}"


def _first_to_fail(
    each: Comparison, rows: Sequence[OutputRow], failing: Sequence[OutputRow]
) -> str:
    """Name the first output that failed, where some before it passed."""
    first = failing[0]
    if rows[0].passed:
        facts = [first.node.op] if first.node is not None else []
        facts += [f"number {rows.index(first) + 1}"] if each.is_of_layers else []
        return f"; first to fail: {first.name!r}" + (f" ({', '.join(facts)})" if facts else "")
    return ""


def _noun(each: Comparison) -> str:
    return "tensor" if each.is_of_layers else "output"


def _worst_of(comparisons: Sequence[Comparison]) -> str:
    worst = worst_row(comparisons)
    return "" if worst is None else f"; worst: {row_in_words(worst[1], worst[0].parties)}"


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


def passed_in_words(comparisons: Sequence[Comparison]) -> str:
    """Return how many outputs matched, and how close that was."""
    names = {row.name for each in comparisons for row in each.outputs}
    iterations = max(each.iterations for each in comparisons)
    facts = f"{counted(len(names), 'output')} matched"
    if iterations > 1:
        facts += f" {'on average over' if comparisons[0].average else 'in'} {iterations} iterations"
    if len(comparisons) > 1:
        facts += f", {len(comparisons)} comparisons"
    worst = worst_row(comparisons)
    excess = worst[1].worst.excess if worst else None
    if worst is not None and excess == 0:
        facts += "; every element is equal"
    elif worst is not None and excess is not None:
        facts += f"; largest error: {_share(excess)} of the tolerance ({worst[1].name!r})"
    return f"{facts}."


def doubts_in_words(
    comparisons: Sequence[Comparison], validation: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Name what passed without saying much, because it is empty or the same everywhere."""
    said = [uniform_in_words(each.outputs, each.parties) for each in comparisons]
    if not comparisons:
        bare = [f"{one['name']!r} is {one['uniform']}" for one in validation if one["uniform"]]
        said = [f"{enumerated(bare[:_MOST_NAMES])}: that says little."] if bare else []
    return " ".join(dict.fromkeys(filter(None, said)))


def invalid_in_words(validation: Sequence[Mapping[str, Any]]) -> str:
    """Return how many outputs hold NaN or infinity, and which is the first; empty for none."""
    bad = [each for each in validation if each["nan"] or each["inf"]]
    if not bad:
        return ""
    hold = "holds" if len(bad) == 1 else "hold"
    first = f"first {bad[0]['name']!r} of {bad[0]['runner']}"
    return f"{len(bad)} of {counted(len(validation), 'output')} {hold} NaN or infinity, {first}."


def validated_in_words(validation: Sequence[Mapping[str, Any]]) -> str:
    """Return how many outputs were looked into that hold neither NaN nor infinity."""
    if not validation:
        return ""
    hold = "holds" if len(validation) == 1 else "hold"
    return f"{counted(len(validation), 'output')} {hold} neither NaN nor infinity."


def _share(excess: float) -> str:
    """Return a part of a tolerance in percent, which is not said to be all of it, or nothing."""
    percent = excess * 100
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"
