"""Averages over iterations, outputs left out, and outputs changed before they are compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake import RecordingConsole
from polygraphy.application.compare.accuracy import compare_accuracy
from polygraphy.application.compare.comparator import postprocess
from polygraphy.domain.compare import IndicesCompareFunc, L2CompareFunc, SimpleCompareFunc
from polygraphy.domain.errors import UsageError
from polygraphy.domain.results.results import IterationResult, RunResults
from tests.application.runs import iteration, results, values

AB = ("a", "b")


def test_the_average_is_judged_rather_than_each_iteration() -> None:
    runs = results(a=[[1.0], [3.0]], b=[[1.0], [1.0]])
    for function, passes in (
        (L2CompareFunc(1.0), True),
        (L2CompareFunc(0.9), False),
        (SimpleCompareFunc(check_error_stat="max", atol=1.0), True),
    ):
        (each,) = compare_accuracy(runs.split(), compare_func=function)
        assert not each
        (average,) = compare_accuracy(runs.split(), compare_func=function, check_average=True)
        assert bool(average) is passes
        assert average.is_average
        assert average.stats(AB) == ((1, 0, 1) if passes else (0, 1, 1))
        assert average.percentage() == (1 if passes else 0)
        assert bool(average.average_results(AB)["y"]) is passes


def test_the_worst_average_is_reported() -> None:
    outputs = [({"x": [0.0], "y": [3.0]}, {"x": [0.0], "y": [1.0]})]
    runs = RunResults(
        (name, [iteration(name, **pair[side]) for pair in outputs])
        for side, name in enumerate("ab")
    )
    (average,) = compare_accuracy(runs, compare_func=L2CompareFunc(), check_average=True)
    worst = average.worst()
    assert worst is not None
    assert (worst.name, worst.iteration) == ("y", None)


def test_every_iteration_is_reported_without_a_verdict(console: RecordingConsole) -> None:
    runs = results(a=[[1.0], [2.0]], b=[[1.0], [2.0]])
    compare_accuracy(runs, compare_func=L2CompareFunc(), check_average=True)
    assert [pair.is_judged for (pair,) in console.arguments_of("iteration_compared")] == [
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fail_fast": True, "compare_func": L2CompareFunc()}, "it cannot stop at the first"),
        ({}, "cannot be checked element by element"),
        ({"compare_func": IndicesCompareFunc()}, "no metric that can be averaged"),
        ({"compare_func": lambda a, b: {"y": True}}, "Verdicts without metrics have no average"),
    ],
)
def test_what_has_no_average_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compare_accuracy(results(a=[[1.0]], b=[[1.0]]), check_average=True, **settings)


def test_nothing_runs_before_an_average_is_refused() -> None:
    def stream() -> Iterator[RunResults]:
        raise AssertionError
        yield

    with pytest.raises(UsageError):
        compare_accuracy(stream(), check_average=True)


def test_a_class_stands_for_an_instance_of_it() -> None:
    class Never:
        def __call__(self, one: Any, other: Any) -> dict[str, bool]:
            return dict.fromkeys(one, False)

    runs = results(a=[[1.0]], b=[[1.0]])
    assert [bool(v) for v in compare_accuracy(runs, compare_func=[L2CompareFunc, Never])] == [
        True,
        False,
    ]


def test_what_is_left_out_is_noted_once(console: RecordingConsole) -> None:
    runs = RunResults(
        [
            ("a", [iteration("a", x=[1.0], y=[1.0])] * 2),
            ("b", [iteration("b", y=[1.0])] * 2),
        ]
    )
    functions = [SimpleCompareFunc(), L2CompareFunc()]
    assert not compare_accuracy(runs, compare_func=functions)
    assert console.arguments_of("note") == []
    assert compare_accuracy(runs, compare_func=functions, allow_missing_outputs=True)
    [(note,)] = console.arguments_of("note")
    assert note == "Not compared, because only one of a and b has it: x."


# Post-processing.


def doubled(outputs: IterationResult) -> dict[str, Any]:
    return {name: array * 2 for name, array in outputs.items()}


def test_results_are_changed_in_place() -> None:
    runs = results(a=[[1.0], [2.0]], b=[[3.0], [4.0]])
    assert postprocess(runs, doubled) is runs
    assert values(runs) == {"a": [[2.0], [4.0]], "b": [[6.0], [8.0]]}
    assert runs["a"][0].runner_name == "a"
    assert runs["a"][0].runtime == 0.5


def test_streams_and_lists_are_changed_while_they_pass() -> None:
    runs, calls = results(a=[[1.0], [2.0]]), []

    def noted(outputs: IterationResult) -> IterationResult:
        calls.append(outputs["y"].tolist())
        return IterationResult({"y": np.array([7.0])}, runner_name="other")

    [stream, whole] = postprocess([runs.split(), results(b=[[1.0]])], noted)
    assert calls == [[1.0]]  # That of the whole; the stream waits.
    assert values(whole) == {"b": [[7.0]]}
    assert values(next(stream)) == {"a": [[7.0]]}
    assert calls == [[1.0], [1.0]]


def test_a_stream_is_closed_with_what_it_reads() -> None:
    closed = []

    def source() -> Iterator[RunResults]:
        try:
            yield results(a=[[1.0]])
        finally:
            closed.append(True)

    stream = postprocess(source(), doubled)
    next(stream)
    stream.close()
    assert closed == [True]


def test_a_function_that_answers_with_something_else_is_refused() -> None:
    with pytest.raises(UsageError, match="doubled_wrongly returned a list"):

        def doubled_wrongly(outputs: IterationResult) -> list[Any]:
            return list(outputs)

        postprocess(results(a=[[1.0]]), doubled_wrongly)
