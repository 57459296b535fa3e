"""Compares one iteration of two runs: which of their outputs, and what the function answers."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import Any

from polygraphy.application.run.steps import Run
from polygraphy.domain.calling import verdict_of
from polygraphy.domain.compare import CompareResult, UncomparedResult
from polygraphy.domain.compare.pairwise import is_program
from polygraphy.domain.errors import UsageError
from polygraphy.domain.results.results import IterationResult
from polygraphy.domain.results.runner_names import label_of_runner


def compare_iteration(
    compare: Any, label: str, run0: Run, run1: Run, iteration: int
) -> tuple[dict[str, CompareResult], tuple[IterationResult, IterationResult], tuple[str, str]]:
    """Return the verdicts about an iteration of two runs, their outputs, and the files that these
    were read from.
    """
    (name0, outputs0), (name1, outputs1) = run0, run1
    if outputs0 is None or outputs1 is None:
        results = _ended_early(name0, outputs0, name1, outputs1, iteration)
        outputs0 = IterationResult() if outputs0 is None else outputs0
        outputs1 = IterationResult() if outputs1 is None else outputs1
    else:
        results = _answers(compare, label, outputs0, outputs1)
        if shared := outputs0.unmarked and outputs0.unmarked.keys() & outputs1.unmarked.keys():
            outputs0, outputs1 = _with_unmarked(outputs0, shared), _with_unmarked(outputs1, shared)
            unmarked = _answers(compare, label, _only(outputs0, shared), _only(outputs1, shared))
            results |= {name: each for name, each in unmarked.items() if not each}
    return results, (outputs0, outputs1), (outputs0.origin, outputs1.origin)


def _answers(
    compare: Any, label: str, outputs0: IterationResult, outputs1: IterationResult
) -> dict[str, CompareResult]:
    """Return what a comparison function answers, each answer as a verdict."""
    results = compare(outputs0, outputs1)
    if not isinstance(results, Mapping):
        raise UsageError(
            f"The comparison function {label} answers with a {type(results).__name__}, not with one"
            " verdict per output.",
            hint="Return {'output_name': verdict, ...}.",
        )
    return {
        name: answer if isinstance(answer, CompareResult) else verdict_of(answer, label, name)
        for name, answer in results.items()
    }


def with_chosen(run: Run, other: Run) -> Run:
    """Return a run with those outputs of its model that were not chosen, but that the other has:
    what was saved may be of other outputs.
    """
    name, outputs = run
    if outputs is None or other[1] is None or not outputs.unmarked:
        return run
    return name, _with_unmarked(outputs, outputs.unmarked.keys() & other[1].keys())


def _with_unmarked(outputs: IterationResult, names: Collection[str]) -> IterationResult:
    """Return an iteration with outputs of the model that were not chosen."""
    if not names:
        return outputs
    own = {name: array for name, array in outputs.unmarked.items() if name in names}
    return outputs.with_outputs({**outputs, **own})


def _only(outputs: IterationResult, names: Container[str]) -> IterationResult:
    return outputs.with_outputs({n: array for n, array in outputs.items() if n in names})


def _ended_early(
    name0: str,
    outputs0: IterationResult | None,
    name1: str,
    outputs1: IterationResult | None,
    iteration: int,
) -> dict[str, CompareResult]:
    """Fail every output of an iteration that only one of two runs has."""
    names = label_of_runner(name0), label_of_runner(name1)
    longer, shorter = names if outputs1 is None else reversed(names)
    reason = (
        f"Iteration {iteration} exists only in {longer}: {shorter} ended after {iteration}"
        " iteration(s). Runs of different lengths are not the same experiment."
    )
    outputs = outputs0 if outputs1 is None else outputs1
    return {name: UncomparedResult(reason) for name in outputs or ()}


def only_shared(run0: Run, run1: Run) -> tuple[Run, Run]:
    """Return two runs with the outputs whose names both have; as they are where there is none.

    Where some names are the same, what one side lacks is not compared with what merely stands in
    the same place on the other.
    """
    outputs0: dict[str, Any] = run0[1] or {}
    outputs1: dict[str, Any] = run1[1] or {}
    if not outputs0.keys() & outputs1.keys() or is_program(outputs0) != is_program(outputs1):
        return run0, run1
    return _restricted(run0, outputs1), _restricted(run1, outputs0)


def _restricted(run: Run, names: Container[str]) -> Run:
    name, outputs = run
    if outputs is None:
        return run
    return name, _only(outputs, names)


def not_shared(run: Run, shared: Run) -> list[str]:
    """Return the outputs of a run that are not among those that both have."""
    return [output for output in run[1] or () if output not in (shared[1] or ())]
