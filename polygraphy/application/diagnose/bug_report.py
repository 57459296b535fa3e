"""Hands a culprit to those who can mend it: as a model of its own that shows the fault, with data,
a program and the text of a bug report.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.parts import Submodel, cut_part, feed_part
from polygraphy.application.diagnose.subprocesses import CarefulParty
from polygraphy.application.diagnose.tensor_trace import trace_tensors
from polygraphy.binding import function_for, resolve
from polygraphy.domain.diagnosis.commands import report_command
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    MODEL,
    NO_FAULT,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.failure import (
    PROGRAM_FILE,
    Failure,
    find_failing_outputs,
    usual_tolerances,
)
from polygraphy.domain.diagnosis.words import evidence, steps, titles
from polygraphy.domain.diagnosis.words.issue import issue_of
from polygraphy.domain.model.regions import nodes_around
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import (
    REFERENCE,
    DiagnosisReports,
    SuspectedParty,
    failure_program,
    failure_text,
    write_failure,
)
from polygraphy.ports.editing import OpenModel, open_model
from polygraphy.ports.machine import sections_of
from polygraphy.ports.running import Commands
from polygraphy.ports.storage import write_text
from polygraphy.python_command import safe_command

_HOPS = (0, 1, 2, 4, 8)
"""Distances in nodes around a culprit up to which nodes are added to its part: a rewrite may need
its neighbors."""
_OF_REWRITES = ("rewrite", "rounding")
"""Causes that cannot be a party's fault if it rewrites nothing."""
_OF_PARTIES = ("kernel", "refusal")
"""Causes that those who make a party can mend, and nobody else."""
_SECONDS = 300.0
"""Time limit for the program that reproduces a failure, in seconds; it may load a large model."""
_SOURCES = ("packages", "machine")

Values = Mapping[str, Any]


def save_bug_report(
    case: Case, result: DiagnosisResult, folder: str | None, issue: str | None
) -> None:
    """Save a reproducer and a bug report for the first culprit whose backend is at fault.

    Args:
        case: the diagnosed case.
        result: the diagnosis.
        folder: path for the culprit as a model; None: it is not saved.
        issue: the file for the text of a bug report, ``-`` for standard output; None: it is not
            saved.

    Raises:
        FileError: a file cannot be written.
    """
    culprit = next((culprit for culprit in result.culprits if culprit.cause not in NO_FAULT), None)
    if culprit is None or result.verdict != FAULT:
        return
    failure, program = None, ""
    with case.record_step(titles.CULPRIT_BY_ITSELF) as notes:
        for failure in _failures(case, culprit):
            program = failure_program(failure)
            if folder is None or _is_shown(failure, folder, program, notes):
                break
        else:
            failure = None
        notes.append(_describe_failure(case, failure, program if folder is not None else ""))
    reports = resolve(DiagnosisReports)
    if folder is not None and failure is not None:
        reports.show_saved_part(folder, f"{failure.culprit.party}: {failure.said}")
    if issue is not None:
        graph = "" if failure is None else failure_text(failure)
        sections = [section for key in _SOURCES for section in function_for(sections_of, key)()]
        named = next((party for party in case.parties if party.name == culprit.party), None)
        called = "" if named is None else str(named.settings.get("module", named.name))
        text = issue_of(
            culprit, failure, sections, party=called, graph=graph, program=program, folder=folder
        )
        if issue == "-":
            reports.show_bug_report(text)
        else:
            write_text(issue, text)


def add_report_command(case: Case, result: DiagnosisResult) -> DiagnosisResult:
    """Return the result with the command that saves a bug report,
    if a backend is at fault and no fix is known.
    """
    first = next(iter(result.culprits), None)
    if first is None or result.verdict != FAULT:
        return result
    has_remedy = first.remedy.command is not None or (
        first.cause == "refusal" and bool(first.remedy.note)
    )
    if first.cause not in _OF_PARTIES or has_remedy:
        return result
    if first.party == MODEL:
        # A fault of the model is not a bug to report; only the user can fix it.
        return result
    if not first.nodes:  # The backend rejects the version of the whole model, and says so.
        return result
    command = report_command(case.path, case.parties, case.data_options) or None
    culprits = [
        evolve(culprit, remedy=Remedy(command)) if culprit.remedy == first.remedy else culprit
        for culprit in result.culprits
    ]
    return evolve(result, culprits=culprits)


def _describe_failure(case: Case, failure: Failure | None, program: str) -> str:
    """Return the sentence on how many nodes show the fault, or that no part of the model does."""
    if failure is None:
        return steps.NO_PART_FAILS
    program_file = PROGRAM_FILE if program else ""
    return steps.nodes_that_show_fault(failure.nodes, len(case.model.nodes), program_file)


def _is_shown(failure: Failure, folder: str, program: str, notes: list[str]) -> bool:
    """Return whether the program of a failure shows it; the failure is saved for that.
    A note says if the program does not end."""
    write_failure(folder, failure)
    if not program:
        return True
    path = str(Path(folder) / PROGRAM_FILE)
    write_text(path, program, executable=True)
    process = resolve(Commands).start(safe_command([sys.executable, path]), timeout=_SECONDS).wait()
    if process.timed_out:
        notes.append(steps.program_stopped(_SECONDS))
    return process.code < 0 or (process.code == 1 and "FAILED" in process.output)


def _failures(case: Case, culprit: Culprit) -> Iterator[Failure]:
    """Yield parts of the model that show a fault, the smallest first, and the whole."""
    third = resolve(SuspectedParty, REFERENCE)
    party = next((party for party in case.parties if party.name == culprit.party), case.parties[0])
    party = CarefulParty(party) if culprit.cause == "refusal" else party
    tensors = None
    for able in (third, *case.parties):
        try:
            tensors = trace_tensors(case, able, case.feed)
            break
        except REFUSALS:
            continue
    if tensors is None:
        return
    values = tensors.all_values
    repaired = None if case.repaired is None else case.repaired()
    indexes = [i for i, node in enumerate(case.model.nodes) if node.label in set(culprit.nodes)]
    size = 0
    for hops in _HOPS if indexes else ():
        chosen = nodes_around(case.model.graph, indexes, hops)
        if len(chosen) in (size, len(case.model.nodes)):
            continue
        size = len(chosen)
        try:
            part = cut_part(case.model, chosen, values)
            correct_part = part if repaired is None else _same_part(repaired, case, chosen, values)
            failure = _failure(culprit, party, third, part, correct_part, size)
        except (*REFUSALS, KeyError):
            continue
        if failure is not None:
            yield failure
    try:
        whole_model = feed_part(case.model.proto, values)
        correct_part = whole_model if repaired is None else feed_part(repaired.proto, values)
        count = len(case.model.nodes)
        failure = _failure(culprit, party, third, whole_model, correct_part, count, case.expected)
    except (*REFUSALS, KeyError):
        return
    if failure is not None:
        yield failure


def _same_part(
    correct_model: OpenModel, case: Case, chosen: Sequence[int], values: Values
) -> Submodel:
    """Return the matching part of the correct model, with the same inputs."""
    names = {case.model.nodes[index].label for index in chosen}
    indices = [i for i, node in enumerate(correct_model.nodes) if node.label in names]
    return cut_part(correct_model, indices, values)


def _failure(
    culprit: Culprit,
    party: SuspectedParty,
    third: SuspectedParty,
    part: Submodel,
    correct_part: Submodel,
    nodes: int,
    expected: Values | None = None,
) -> Failure | None:
    """Return the failure of a part of a model; None if it does not fail.

    Raises:
        BackendError: the correct outputs cannot be computed.
        KeyError: a value is missing.
    """
    if not all(isinstance(value, np.ndarray) for value in part.feed.values()):
        return None
    if expected is None:
        expected = correct_part.run(third, plain=True)
    expected = {name: expected[name] for name in open_model(part.model).outputs}
    if not all(isinstance(value, np.ndarray) for value in expected.values()):
        return None
    try:
        values = part.run(party)
        is_rewritten = culprit.cause in _OF_REWRITES
        plain = part.run(party, plain=True) if is_rewritten else {}
    except REFUSALS as error:
        description = (
            (str(error), usual_tolerances(expected)) if culprit.cause == "refusal" else None
        )
    else:
        if culprit.cause == "refusal":
            return None
        description = find_failing_outputs(values, expected, plain) or _find_nan_outputs(
            culprit, values
        )
    if description is None:
        return None
    without = culprit.rewrite.split("+") if culprit.rewrite else ()
    return Failure(
        culprit,
        part.model,
        part.feed,
        expected,
        description[1],
        party.name,
        party.settings,
        without,
        nodes,
        description[0],
    )


def _find_nan_outputs(
    culprit: Culprit, values: Values
) -> tuple[str, dict[str, float | None]] | None:
    """Return a phrase about outputs with NaN or infinity and their tolerances, or None.
    The result is None unless that is the fault.
    """
    broken = [
        name for name, value in values.items() if is_float(value) and not np.isfinite(value).all()
    ]
    if culprit.cause not in ("nan", "overflow") or not broken:
        return None
    return evidence.has_broken_elements(broken[0]), dict.fromkeys(values, np.inf)
