"""The summary of a document in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from attrs import frozen

from polygraphy.domain.accuracy.output_rows import doubts_of_rows, row_in_words
from polygraphy.domain.accuracy.rounding_answer import is_coarse
from polygraphy.domain.accuracy.summarizing import failure_sentence, pass_sentence, worst_row
from polygraphy.domain.environment import describe_installed
from polygraphy.domain.report.commands import (
    add_options,
    diagnosis_command,
    nan_diagnosis_command,
    with_auto_tolerance,
    words_of,
)
from polygraphy.domain.report.document import Document, Problem
from polygraphy.domain.tensors.naming import count_text, join_words, list_some

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.output_rows import Comparison, OutputRow


_MOST_NAMES = 4
_PLAIN = {
    "passed": "Completed.",
    "failed": "The check failed.",
    "agree": "Everything matches.",
    "ill-conditioned": "The model amplifies rounding; no node is at fault.",
}
_LONGEST = 160


def summary_of(
    verdict: str,
    comparisons: Sequence[Comparison],
    problems: Sequence[Problem],
    culprits: Sequence[Mapping[str, Any]] = (),
    results: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the sentence that states the result of a command.

    Args:
        verdict: in a word.
        comparisons: the findings about pairs of runs.
        problems: the problems that ended the program early.
        culprits: the parts at fault.
        results: further findings, each with its ``kind``.
    """
    if culprits:
        return culprit_sentence(culprits)
    failed = not all(comparison.passed for comparison in comparisons)
    if problems and not failed:
        return problems[-1].message
    if failed:
        return f"{failure_sentence(comparisons)}{_worst_of(comparisons)}."
    if comparisons:
        doubts = doubts_in_words(comparisons)
        return " ".join(filter(None, (pass_sentence(comparisons), doubts)))
    candidates = (_FOUND[result["kind"]](result) for result in results if result["kind"] in _FOUND)
    sentences = [sentence for sentence in candidates if sentence]
    if sentences and verdict in ("passed", "failed"):
        return " ".join(sentences)
    return _PLAIN.get(verdict, f"{verdict}.")


def culprit_sentence(culprits: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence that names the node at fault and the cause."""
    first = culprits[0]
    names = [str(node) for node in first.get("nodes") or ()]
    some = list_some(names, _MOST_NAMES) or "the whole model"
    subject = first.get("rewrite") or first.get("party")
    facts = f"Culprit: {some}, {first.get('cause')}{f' ({subject})' if subject else ''}"
    other_count = len(culprits) - 1
    return (
        f"{facts}, and {other_count} more culprit{'s' * (other_count != 1)}."
        if other_count
        else f"{facts}."
    )


def _worst_of(comparisons: Sequence[Comparison]) -> str:
    """Return the clause on the worst output; empty if there is none."""
    worst = worst_row(comparisons)
    return "" if worst is None else f"; worst: {row_in_words(worst[1], worst[0].parties)}"


def sample_sentences(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about samples: how many agree, and the accuracy of each run.

    Args:
        facts: a result of the kind ``samples``.
    """
    total, agreed, (low, high) = facts["total"], facts["agreed"], facts["interval"]
    share = f"{_percent(agreed / total)}%" if total else "none"
    yield (
        f"{agreed} of {count_text(total, 'sample')} {'has' if agreed == 1 else 'have'} the same"
        f" prediction in {facts['output']!r} ({share}; 95% interval {_percent(low)} to"
        f" {_percent(high)}%); {total - agreed} changed."
    )
    for metric in facts["metrics"]:
        (first, second), (low, high) = metric["values"], metric["interval"]
        yield (
            f"{metric['name'][0].upper()}{metric['name'][1:]}: {_percent(first)}%"
            f" ({facts['parties'][0]}) and {_percent(second)}% ({facts['parties'][1]}); difference"
            f" {_points(metric['difference'])} points, 95% interval {_points(low)} to"
            f" {_points(high)} (paired bootstrap)."
        )
    if facts["right_alone"] is not None:
        yield (
            f"Correct in one run only: {facts['right_alone'][0]} and {facts['right_alone'][1]}"
            f" samples; McNemar's exact test: p = {facts['p_value']:.2g}."
        )


def _percent(share: float) -> str:
    """Return a share in percent, without the sign."""
    return f"{100 * share:.1f}"


def _points(share: float) -> str:
    """Return a difference of shares in percentage points."""
    return f"{100 * share:+.1f}"


def _lint_sentence(facts: Mapping[str, Any]) -> str:
    """Return the sentence with the number of problems of a model, and the first one."""
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


def _difference_sentence(facts: Mapping[str, Any]) -> str:
    """Return the sentence with the number of differences, and the first one."""
    fact = facts["differences"]
    if not fact:
        return "The models are the same."
    first = fact[0]
    description = f"{first['what']} {first['name']!r} {first['change']}"
    return f"{len(fact)} difference{'s' * (len(fact) != 1)}; first: {description}."


def _compatibility_sentence(facts: Mapping[str, Any]) -> str:
    """Return the sentence on whether a backend can run the model."""
    if facts["is_compatible"]:
        return f"{facts['backend']} can run the model."
    return f"{facts['backend']} cannot: {_sentence(facts['reason'])}"


def _sparsity_sentence(facts: Mapping[str, Any]) -> str:
    """Return the sentence with the number of sparse weights."""
    sparse = sum(weight["is_sparse"] for weight in facts["weights"])
    total = count_text(len(facts["weights"]), "weight")
    return f"{sparse} of {total} {'is' if sparse == 1 else 'are'} 2:4 sparse."


def _model_sentence(facts: Mapping[str, Any]) -> str:
    """Return the sentence with the numbers of inputs, outputs, nodes and other parts of a model."""
    graph = facts["model"].get("graph", facts["model"])
    parts = [
        count_text(len(graph[key]) if isinstance(graph[key], list) else graph[key], noun)
        for key, noun in _PARTS.items()
        if key in graph
    ]
    return f"The model has {join_words(parts)}." if parts else ""


_PARTS = {"node_count": "node", "weights": "weight", "inputs": "input", "outputs": "output"}


def _contents_sentence(facts: Mapping[str, Any]) -> str:
    """Return the sentence on the contents of a data file, and on NaN or infinity in it."""
    tensors = [
        tensor for run in facts["runs"] for step in run["reports"] for tensor in step["tensors"]
    ]
    odd = [tensor["name"] for tensor in tensors if tensor["peculiarities"]]
    iterations = sum(run["iterations"] for run in facts["runs"])
    facts_of_all = f"{count_text(len(tensors), 'tensor')} in {count_text(iterations, 'iteration')}"
    if not odd:
        return f"{facts_of_all}, without NaN or infinity."
    return f"{facts_of_all}; {len(odd)} with NaN or infinity, first: {odd[0]!r}."


def _tensor_use_sentence(facts: Mapping[str, Any]) -> str:
    """Return the sentence with the numbers of matching tensors and outputs."""
    outputs = sum(bool(use["is_output"]) for use in facts["tensors"])
    total = count_text(len(facts["tensors"]), "tensor")
    return f"{total}, of which {outputs} {'is an output' if outputs == 1 else 'are outputs'}."


def _backends_sentence(facts: Mapping[str, Any]) -> str:
    """Return the sentence with the installed backends."""
    backends = [value for value in facts["sections"] if value["title"] == "Backends"]
    return describe_installed(fact for backend in backends for fact in backend["facts"])


def _sentence(text: Any) -> str:
    """Return the first line of a text, as a sentence."""
    line = str(text).strip().partition("\n")[0]
    short = line if len(line) <= _LONGEST else f"{line[:_LONGEST].rpartition(' ')[0]} ..."
    return short if short.endswith(".") else f"{short}."


_FOUND: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "lint": _lint_sentence,
    "differences": _difference_sentence,
    "compatibility": _compatibility_sentence,
    "sparsity": _sparsity_sentence,
    "model": _model_sentence,
    "data": _contents_sentence,
    "accuracy": lambda facts: f"{count_text(len(facts['comparisons']), 'saved comparison')}.",
    "tensors": _tensor_use_sentence,
    "environment": _backends_sentence,
}
"""Results of other commands that a sentence can say."""


def doubts_in_words(
    comparisons: Sequence[Comparison], validation: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Return a sentence that lists passing outputs that are empty or constant."""
    uniforms = [
        doubts_of_rows(comparison.outputs, comparison.parties) for comparison in comparisons
    ]
    if not comparisons:
        bare = [
            f"{values['name']!r} is {values['uniform']}"
            for values in validation
            if values["uniform"]
        ]
        uniforms = [f"{join_words(bare[:_MOST_NAMES])}, so a match proves little."] if bare else []
    return " ".join(dict.fromkeys(filter(None, uniforms)))


def invalid_in_words(validation: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of outputs with NaN or infinity, and the first; empty if there are none."""
    bad = [values for values in validation if values["nan"] or values["inf"]]
    if not bad:
        return ""
    contain = "contains" if len(bad) == 1 else "contain"
    counts = f"{len(bad)} of {count_text(len(validation), 'output')}"
    first = f"the first is {bad[0]['name']!r} of {bad[0]['runner']}"
    return f"{counts} {contain} NaN or infinity; {first}."


def validation_sentence(validation: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of outputs checked that have neither NaN nor infinity."""
    if not validation:
        return ""
    contain = "contains" if len(validation) == 1 else "contain"
    return f"{count_text(len(validation), 'output')} {contain} neither NaN nor infinity."


PASSED, FAILED, ERROR, SKIPPED = "passed", "failed", "error", "skipped"
_OUTCOMES = {"passed": PASSED, "failed": FAILED, "inconclusive": SKIPPED, "agree": PASSED}


@frozen
class Check:
    """One check with its result.

    Attributes:
        group: its group, such as the parties that were compared.
        name: the checked state.
        outcome: `PASSED`, `FAILED`, `ERROR` or `SKIPPED`.
        message: the reason why it did not pass, in a sentence; empty if it passed.
        seconds: duration in seconds, where that is known.
    """

    group: str
    name: str
    outcome: str
    message: str = ""
    seconds: float = 0.0


def checks_of(document: Document) -> list[Check]:
    """Return every check, or the verdict as the only one; one fails if the verdict fails."""
    checks = [*_outputs(document), *_validity(document), *_result_checks(document.results)]
    checks += [
        Check(_command(document), error.kind, ERROR, error.message) for error in document.errors
    ]
    outcome = _OUTCOMES.get(document.verdict, FAILED if document.exit_code == 1 else ERROR)
    if checks and (outcome == PASSED or any(check.outcome != PASSED for check in checks)):
        return checks
    message = "" if outcome == PASSED else document.summary
    return [*checks, Check(_command(document), "verdict", outcome, message)]


def _command(document: Document) -> str:
    """Return the name of the command behind a document."""
    words = [word for word in document.command.split()[:3] if not word.startswith("-")]
    return " ".join(word for word in words if "." not in word) or "polygraphy"


def _outputs(document: Document) -> Iterator[Check]:
    """Yield the check of each compared output."""
    for comparison in document.comparisons:
        group = f"{' vs. '.join(comparison.parties)} ({comparison.function})"
        for row in comparison.outputs:
            if row.passed:
                yield Check(group, row.name, PASSED)
            else:
                yield Check(
                    group, row.name, FAILED, f"worst: {row_in_words(row, comparison.parties)}."
                )
        if not comparison.outputs:
            yield Check(group, "outputs", FAILED, "No outputs were compared.")


def _validity(document: Document) -> Iterator[Check]:
    """Yield the check of each validated output."""
    for validity in document.validation:
        bad = {what: validity[what] for what in ("nan", "inf") if validity[what]}
        names = ", ".join(f"{count} of {validity['size']} {name}" for name, count in bad.items())
        yield Check(
            f"validation of {validity['runner']}",
            validity["name"],
            FAILED if bad else PASSED,
            f"Non-finite elements: {names}." if bad else "",
        )


def _result_checks(results: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Yield the checks among the results of commands."""
    for result in results:
        if result["kind"] == "lint":
            for entry in result["entries"]:
                name = ", ".join(entry["nodes"][:1]) or entry["source"]
                outcome = FAILED if entry["level"] == "exception" else PASSED
                yield Check(f"lint ({entry['level']})", name, outcome, entry["message"])
        elif result["kind"] == "sweep":
            yield from map(_cell, result["rows"])
        elif result["kind"] == "steps":
            yield _steps(result)
        elif result["kind"] == "compatibility":
            outcome = PASSED if result["is_compatible"] else FAILED
            yield Check("compatibility", result["backend"], outcome, result["reason"] or "")
        elif result["kind"] == "differences":
            for value in result["differences"]:
                message = f"{value['change']}: {value['reference']} / {value['candidate']}"
                yield Check("differences", f"{value['what']} {value['name']}", FAILED, message)


def _steps(steps: Mapping[str, Any]) -> Check:
    """Return the check of two runs over steps, with their table if a step differs."""
    group = " vs. ".join(steps["parties"])
    if steps["first_wrong"] is None:
        return Check(group, "steps", PASSED)
    from polygraphy.domain.states.comparing import step_table, steps_in_words

    titles, rows = step_table(steps)
    lines = [" | ".join(cells) for cells in (titles, *rows)]
    return Check(group, "steps", FAILED, "\n".join([*steps_in_words(steps), *lines]))


_OF_CELLS = {"passed": PASSED, "failed": FAILED, "crashed": FAILED, "error": ERROR,
             "timeout": ERROR, "memory": ERROR}  # fmt: skip
"""Results by state of a cell; cells in other states are skipped."""


def _cell(row: Mapping[str, Any]) -> Check:
    """Return the check of a sweep cell; a known failure counts as skipped."""
    outcome = _OF_CELLS.get(row["state"], SKIPPED)
    message = "" if outcome == PASSED else f"{row['state']}: {row['summary']}"
    if row["known"]:
        outcome, message = SKIPPED, f"Known: {row['known']} ({message})"
    return Check(row["label"], row["model"], outcome, message, row["seconds"] or 0.0)


@frozen
class Advice:
    """A sentence of advice, and its command; empty if there is none."""

    text: str
    command: str = ""


def advice_for(document: Document) -> list[Advice]:
    """Return advice, the most certain first; empty if everything passed."""
    invalid = any(values["nan"] or values["inf"] for values in document.validation)
    advices = advice_on_outputs(
        document.comparisons,
        document.command,
        invalid=invalid,
        is_quantized=any(file.quantization for file in document.files),
    )
    return [*_remedies(document), *advices]


def _remedies(document: Document) -> Iterator[Advice]:
    """Yield the remedies of the culprits."""
    for culprit in document.culprits:
        remedy = culprit.get("remedy") or {}
        if remedy.get("command"):
            command, proven = str(remedy["command"]), bool(remedy.get("proven"))
            yield Advice(proof_of(command, proven=proven), command)
        if remedy.get("note"):
            yield Advice(str(remedy["note"]))


def proof_of(command: str, *, proven: bool) -> str:
    """Return a note that says whether a proposed command was verified."""
    if " --issue " in command:
        return "No fix is known. Save the culprit and a bug report."
    return "Verified fix: all outputs match." if proven else "Possible fix, not tried."


def advice_on_outputs(
    comparisons: Sequence[Comparison],
    command: str,
    *,
    invalid: bool = False,
    is_quantized: bool = True,
) -> Iterator[Advice]:
    """Yield commands that investigate differing outputs, the best first.

    Args:
        comparisons: the findings.
        command: the command line that found it.
        invalid: whether a validation found NaN or infinity.
        is_quantized: whether the model is; `diagnose` does not calibrate others for int8.
    """
    failing = [row for comparison in comparisons for row in comparison.outputs if not row.passed]
    words = words_of(command)
    runs = words[:2] == ["polygraphy", "run"]
    is_supported = is_quantized or "--int8" not in words
    is_open = is_supported and _may_be_diagnosed(comparisons)
    diagnosis = diagnosis_command(command) if is_open else ""
    if failing and all(row.worst.is_missing for row in failing):
        compared = any(row.passed for comparison in comparisons for row in comparison.outputs)
        if runs and compared and "--allow-missing-outputs" not in words:
            if "--load-outputs" in words and "--mark-all" not in words:
                yield Advice(
                    "Also compare the saved intermediate tensors.",
                    add_options(command, "--mark-all"),
                )
                return
            yield Advice(
                "Skip outputs that only one run has.",
                add_options(command, "--allow-missing-outputs"),
            )
        return
    is_rounding = failing and all(row.worst.is_rounding for row in failing)
    if is_rounding and not _is_coarse(failing):
        yield Advice(
            "Rounding explains every difference: use the rounding limit as the tolerance.",
            with_auto_tolerance(command) if runs else "",
        )
        return
    if diagnosis and "--load-outputs" in words and not _knows_inside(comparisons):
        yield Advice(
            "Outputs alone do not identify the node: save all tensors (--onnx-outputs mark all)."
        )
    elif diagnosis:
        yield Advice("Find the node at fault, and why.", diagnosis)
    undefined = [row for row in failing if row.absolute is not None and isnan(row.absolute)]
    is_nan = bool(undefined)
    if is_nan and all(_differs_by_infinities_only(row) for row in undefined):
        accepting = add_options(command, "--infinities-compare-equal") if runs else ""
        yield Advice("If the infinities are expected, accept equal ones.", accepting)
    elif is_nan and not ("--validate" in words and "--mark-all" in words):
        finding = add_options(command, "--validate", "--mark-all") if runs else ""
        yield Advice("NaN fails with every tolerance. Find the first NaN.", finding)
    elif invalid and not diagnosis and (advice := nan_diagnosis_command(command)):
        yield Advice("Find the node that creates the first NaN or infinity.", advice)
    if not failing or is_nan or not runs:
        return
    if "--mark-all" not in words:
        if "--load-outputs" not in words:
            yield Advice("Find the first layer that differs.", add_options(command, "--mark-all"))
    elif "auto" not in words and not _is_coarse(failing):
        yield Advice(
            "Compare each layer with its own rounding limit: a layer that still fails is wrong"
            " by itself.",
            with_auto_tolerance(command),
        )


def _differs_by_infinities_only(row: OutputRow) -> bool:
    """Return whether a difference is NaN although neither run has NaN: infinities differ."""
    counts = row.worst.non_finite
    return counts is not None and not any(nan for nan, _ in counts)


def _may_be_diagnosed(comparisons: Sequence[Comparison]) -> bool:
    """Return whether a model output failed, not only intermediate tensors:
    a diagnosis starts at outputs.
    """
    for comparison in comparisons:
        read = {name for row in comparison.outputs if row.node for name in row.node.inputs}
        read = read if comparison.is_of_layers else set()
        if any(not row.passed and row.name not in read for row in comparison.outputs):
            return True
    return False


def _knows_inside(comparisons: Sequence[Comparison]) -> bool:
    """Return whether tensors other than outputs were saved or compared."""
    return any(
        comparison.is_of_layers
        or comparison.left_out
        or any(row.worst.is_missing for row in comparison.outputs)
        for comparison in comparisons
    )


def _is_coarse(failing: Sequence[OutputRow]) -> bool:
    """Return whether the rounding limit comes from a quantized type,
    whose large steps would explain faults as well.
    """
    explained = [row.worst.rounding for row in failing]
    return any(rounding is not None and is_coarse(rounding) for rounding in explained)


def passing_threshold(comparisons: Sequence[Comparison]) -> str:
    """Return the smallest threshold of a metric that lets all failed outputs pass.
    The result is empty if larger is better, and for tolerances, because a wider tolerance would
    hide faults.
    """
    failing = [row for comparison in comparisons for row in comparison.outputs if not row.passed]
    metrics = {getattr(row.limit, "metric", None) for row in failing}
    values = [row.value for row in failing if row.value is not None and isfinite(row.value)]
    if len(metrics) != 1 or len(values) < len(failing):
        return ""
    [metric] = metrics
    if metric is None or not metric.lower_is_better:
        return ""
    return round_up(max(map(abs, values)))


def round_up(value: float | None, digits: int = 2) -> str:
    """Return a tolerance with some significant digits that is not smaller than `value`."""
    if value is None or not isfinite(value) or value == 0:
        return "None" if value is None else f"{value:.5g}"
    rounded, exponent = float(f"{value:.{digits}g}"), int(f"{value:.{digits - 1}e}".split("e")[1])
    step = 0.0 if rounded >= value else 10.0 ** (exponent - digits + 1)
    return f"{rounded + step:.{digits}g}"
