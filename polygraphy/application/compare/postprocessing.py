"""Changes outputs before they are compared."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any

from polygraphy.domain.calling import check_signature, name_of
from polygraphy.domain.errors import UsageError
from polygraphy.domain.results.results import IterationResult, RunResults

Postprocess = Callable[[IterationResult], Any]


def postprocess(run_results: Any, function: Any) -> Any:
    """Apply a function to the outputs of every iteration.

    Args:
        run_results: results, which are changed in place; a stream of them, which is changed while
            it passes; or a list of such.
        function: takes the outputs of an iteration and returns those that take their place; a class
            stands for an instance of it.

    Returns:
        The results, a stream, or a list of such.

    Raises:
        UsageError: the function answers with something else.
    """
    apply: Postprocess = function() if isinstance(function, type) else function
    check_signature(apply, "post-processing function", "the outputs of an iteration")
    if isinstance(run_results, RunResults):
        return _changed(run_results, apply)
    if isinstance(run_results, list):
        return [postprocess(member, apply) for member in run_results]
    return _stream(run_results, apply)


def _stream(results: Iterable[RunResults], apply: Postprocess) -> Iterator[RunResults]:
    try:
        for step in results:
            yield _changed(step, apply)
            del step  # Nothing of this iteration is held while the next one runs.
    finally:
        if isinstance(results, Generator):
            results.close()


def _changed(results: RunResults, apply: Postprocess) -> RunResults:
    for _, iterations in results:
        for index, outputs in enumerate(iterations):
            iterations[index] = _answer(apply(outputs), outputs, apply)
            iterations[index].part = outputs.part
    return results


def _answer(changed: Any, outputs: IterationResult, apply: Postprocess) -> IterationResult:
    if isinstance(changed, IterationResult):
        return changed
    if isinstance(changed, Mapping):
        return IterationResult(changed, outputs.runtime, outputs.runner_name)
    name = name_of(apply)
    raise UsageError(
        f"The post-processing function {name} answers with a {type(changed).__name__}, not with"
        " outputs by name.",
        hint="Return {'output_name': array, ...}.",
    )
