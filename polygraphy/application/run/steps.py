"""Takes results iteration by iteration, wherever they come from."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Union

from polygraphy.domain.errors import UsageError
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.results.runner_names import kind_of_runner

Runs = Union[RunResults, Iterable[RunResults], Sequence[RunResults | Iterable[RunResults]]]
Run = tuple[str, "IterationResult | None"]
"""Name of a runner, and its outputs; None where it has no such iteration."""

Step = list[Run]


def iterations_of(run_results: Runs) -> Generator[Step, None, None]:
    """Yield, per iteration, the name and the outputs of every run; None where a run has ended
    before the others. Closing it closes the streams that it reads.

    Runs are identified by position. Names in later iterations may be of runners of other processes.

    Raises:
        UsageError: the iterations of a stream have runs of different runners.
    """
    is_joined = isinstance(run_results, list) and not isinstance(run_results, RunResults)
    sources: Any = run_results if is_joined else [run_results]
    lanes = [_lanes(source) for source in sources]
    known: list[list[str]] = [[] for _ in lanes]
    try:
        while (step := _side_by_side(lanes, known)) is not None:
            yield step
            del step
    finally:
        for source in sources:
            if isinstance(source, Generator):
                source.close()


def _side_by_side(lanes: Sequence[Iterator[Step]], known: list[list[str]]) -> Step | None:
    """Take the next iteration of every lane; `known` remembers the names in lanes that have
    ended.
    """
    parts = [next(lane, None) for lane in lanes]
    if parts.count(None) == len(parts):
        return None
    step: Step = []
    for names, part in zip(known, parts):
        if part is not None:
            found = [run[0] for run in part]
            if names and names != found and _kinds(names) != _kinds(found):
                raise UsageError(
                    "The iterations of a stream have different runs: one has"
                    f" {', '.join(found) or 'none'}, those before it {', '.join(names)}.",
                    hint="Compare iterations of the same runners, in the same order.",
                )
            names[:] = names or found
        step += part if part is not None else [(name, None) for name in names]
    return step


def _kinds(names: Sequence[str]) -> list[str]:
    return [kind_of_runner(name) for name in names]


def _lanes(source: RunResults | Iterable[RunResults]) -> Iterator[Step]:
    """Yield the iterations of one source side by side, to the end of its longest run."""
    if isinstance(source, RunResults):
        for index in range(max((len(iterations) for _, iterations in source), default=0)):
            yield [(name, its[index] if index < len(its) else None) for name, its in source]
        return
    stream = iter(source)
    while (results := next(stream, None)) is not None:
        if isinstance(results, RunResults) and not results:
            yield []
        else:
            yield from _lanes(results)
        del results


def was_interrupted(stop: GeneratorExit) -> bool:
    """Return whether a stream is closed because the program is ended, by ctrl-C or a signal;
    not because its consumer stops early.
    """
    reason: BaseException | None = stop
    while isinstance(reason, GeneratorExit):  # Python notes what is on its way past the reader.
        reason = reason.__context__
    return isinstance(reason, (KeyboardInterrupt, SystemExit))
