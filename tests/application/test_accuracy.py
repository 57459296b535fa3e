from __future__ import annotations

import gc
import math
import re
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake import MemoryResultStore, RecordingConsole
from polygraphy.application.compare.accuracy import (
    compare_accuracy,
    default_comparisons,
    iterations_of,
)
from polygraphy.application.run.inference import stream
from polygraphy.binding import bind
from polygraphy.domain.accuracy import answer_log
from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.compare import (
    L2CompareFunc,
    OutputCompareResult,
    PsnrCompareFunc,
    SimpleCompareFunc,
    UncomparedResult,
)
from polygraphy.domain.errors import CheckFailedError, InconclusiveError, UsageError
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.ports.machine import cores
from polygraphy.ports.reporting import Console
from tests.application.runs import counting_up, doubler, iteration, results

AB, BC = ("a", "b"), ("b", "c")


def compared(runs: Any, **how: Any) -> AccuracyResult:
    """Compare with one function and return what it found."""
    (found,) = compare_accuracy(runs, **how)
    return found


def verdicts(result: AccuracyResult) -> dict[tuple[str, str], list[dict[str, bool]]]:
    """Return per pair and iteration whether each output passed."""
    return {
        pair: [{name: bool(answer) for name, answer in answers.items()} for answers in iterations]
        for pair, iterations in result.items()
    }


def steps(run_results: RunResults) -> Iterator[RunResults]:
    """Return results as a stream."""
    return run_results.split()


# What is compared with what.


@pytest.mark.parametrize(
    ("runs", "pairs"),
    [(0, []), (1, []), (2, [(0, 1)]), (4, [(0, 1), (1, 2), (2, 3)])],
)
def test_each_run_is_compared_with_the_next(runs: int, pairs: list[tuple[int, int]]) -> None:
    assert default_comparisons(runs) == pairs


def test_runs_are_compared_iteration_by_iteration() -> None:
    found = compared(results(a=[[1.0], [2.0]], b=[[1.0], [3.0]], c=[[1.0], [3.0]]))
    assert verdicts(found) == {
        AB: [{"y": True}, {"y": False}],
        BC: [{"y": True}, {"y": True}],
    }
    assert found.stats(AB) == (1, 1, 2)
    assert not found


def test_results_and_streams_give_the_same() -> None:
    made = results(a=[[1.0], [2.0]], b=[[1.0], [3.0]])
    expected = {AB: [{"y": True}, {"y": False}]}
    assert verdicts(compared(made)) == verdicts(compared(steps(made))) == expected


def test_members_of_a_list_are_joined_run_by_run() -> None:
    fresh, saved = results(a=[[1.0], [2.0]]), results(b=[[1.0], [3.0]])
    for runs in ([fresh, saved], [steps(fresh), saved], [steps(fresh), steps(saved)]):
        assert verdicts(compared(runs)) == {AB: [{"y": True}, {"y": False}]}


@pytest.mark.parametrize(
    ("comparisons", "pairs"),
    [
        ([(1, 0)], [("b", "a")]),
        ([(0, 2), (1, 2)], [("a", "c"), BC]),
        ([(0, -1)], [("a", "c")]),
        ([(0, 0)], [("a", "a")]),
    ],
)
def test_comparisons_may_be_chosen(
    comparisons: list[tuple[int, int]], pairs: list[tuple[str, str]]
) -> None:
    found = compared(results(a=[[1.0]], b=[[1.0]], c=[[1.0]]), comparisons=comparisons)
    assert found.keys() == pairs


@pytest.mark.parametrize("comparisons", [[(0, 2)], [(-3, 0)], [(0, 1), (5, 0)]])
def test_a_comparison_of_a_run_that_is_not_there_is_refused(comparisons: Any) -> None:
    with pytest.raises(UsageError, match="there are 2"):
        compare_accuracy(results(a=[[1.0]], b=[[1.0]]), comparisons=comparisons)


@pytest.mark.parametrize(
    "runs",
    [
        RunResults(), [], iter(()), results(a=[[1.0]]), results(a=[], b=[]),
        [results(a=[[1.0]])], iter([results(a=[[1.0]])]),
    ],
    ids=["none", "no members", "no steps", "one run", "no iterations", "one member", "one stream"],
)  # fmt: skip
def test_nothing_to_compare_is_no_success(runs: Any, console: RecordingConsole) -> None:
    with pytest.raises(InconclusiveError, match="at least two runs"):
        compare_accuracy(runs)
    assert console.events == []


def test_no_comparisons_are_no_success() -> None:
    with pytest.raises(InconclusiveError):
        compare_accuracy(results(a=[[1.0]], b=[[1.0]]), comparisons=[])


# Functions.


def test_the_default_function_is_simple() -> None:
    (found,) = made = compare_accuracy(results(a=[[1.0]], b=[[1.0]]))
    assert isinstance(made, AccuracyResults)
    assert made
    assert found.label == "simple"
    assert isinstance(found[AB][0]["y"], OutputCompareResult)


def test_all_of_several_functions_must_pass() -> None:
    loose, strict = SimpleCompareFunc(atol=1), SimpleCompareFunc()
    made = compare_accuracy(results(a=[[1.0]], b=[[1.5]]), compare_func=[loose, strict])
    assert [bool(found) for found in made] == [True, False]
    assert not made
    assert compare_accuracy(results(a=[[1.0]], b=[[1.5]]), compare_func=(loose, loose))


def test_a_function_of_ones_own_may_answer_with_what_has_a_truth_value() -> None:
    calls = []

    class Truthy:
        def __bool__(self) -> bool:
            return True

    def same_sign(first: IterationResult, second: IterationResult) -> dict[str, Any]:
        calls.append((first.runner_name, second.runner_name))
        return {"y": np.sign(first["y"]) == np.sign(second["y"]), "extra": Truthy()}

    found = compared(results(a=[1.0, 2.0], b=[3.0, -4.0]), compare_func=same_sign)
    assert found.label == "same_sign"
    assert verdicts(found) == {AB: [{"y": True, "extra": True}, {"y": False, "extra": True}]}
    assert calls == [AB, AB]
    assert not found


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (math.nan, "number nan"),
        (0.003, "number 0.003"),
        (2, "number 2"),
        ((False, "why"), "tuple"),
        ([], "list"),
        ("False", "str"),
        ({"z": False}, "dict"),
        (object(), "object"),
        (np.array([True, True]), "(2,) values"),
        (np.array([], bool), "(0,) values"),
        (np.float32("nan"), "number nan"),
        (np.str_("no"), "str"),
    ],
    ids=lambda value: re.sub(r" at 0x\w+", "", repr(value)),
)
def test_what_is_true_whatever_was_found_is_no_verdict(answer: Any, found: str) -> None:
    with pytest.raises(UsageError, match=f"{re.escape(found)} for output 'y'") as refused:
        compared(results(a=[1.0], b=[1.0]), compare_func=lambda a, b: {"y": answer})
    assert "True or False" in refused.value.hint


class Answers:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __call__(self, first: Any, second: Any) -> dict[str, Any]:
        return {"y": self.answer}


@pytest.mark.parametrize("passes", [True, False])
def test_truth_values_of_any_library_are_verdicts(passes: bool) -> None:
    for kind in (bool, int, float, np.bool_, np.int8, np.array, lambda x: np.array([[x]])):
        found = compared(results(a=[1.0], b=[1.0]), compare_func=Answers(kind(passes)))
        assert bool(found) is passes
        assert found[0][1] == [{"y": passes}]
    assert not compared(results(a=[1.0], b=[1.0]), compare_func=lambda a, b: {"y": None})


def test_the_label_is_that_of_the_function_or_its_name() -> None:
    class Labeled:
        label = "mine"

        def __call__(self, first: Any, second: Any) -> dict[str, bool]:
            return {"y": True}

    class Unlabeled:
        def __call__(self, first: Any, second: Any) -> dict[str, bool]:
            return {"y": True}

    runs = results(a=[1.0], b=[1.0])
    made = compare_accuracy(runs, compare_func=[Labeled(), Unlabeled(), lambda a, b: {"y": 1}])
    assert [found.label for found in made] == ["mine", "Unlabeled", "<lambda>"]


def test_an_error_of_a_function_passes() -> None:
    def broken(first: Any, second: Any) -> dict[str, bool]:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        compare_accuracy(results(a=[1.0], b=[1.0]), compare_func=broken)


def test_a_function_that_answers_nothing_is_explained() -> None:
    with pytest.raises(UsageError):
        compare_accuracy(results(a=[1.0], b=[1.0]), compare_func=lambda a, b: None)


# Stopping early.


def test_comparing_goes_on_after_a_failure_by_default() -> None:
    runs = results(a=[[1.0], [2.0], [3.0]], b=[[1.0], [9.0], [9.0]], c=[[1.0], [9.0], [9.0]])
    assert [len(iterations) for iterations in compared(runs).values()] == [3, 3]
    assert verdicts(compared(runs, fail_fast=True)) == {
        AB: [{"y": True}, {"y": False}],
        BC: [{"y": True}, {"y": True}],
    }


def test_stopping_early_asks_for_no_further_iterations() -> None:
    runners = [doubler("a"), doubler("b", fail_at=1)]
    wrong = {"compare_func": lambda a, b: {"y": False}}
    assert not compared(stream(runners, counting_up(3)), fail_fast=True, **wrong)
    assert len(runners[0].feeds) == 1


def test_stopping_early_ends_the_stream() -> None:
    runners = [doubler("a"), doubler("b")]
    running = stream(runners, counting_up(3))
    compared(running, fail_fast=True, compare_func=lambda a, b: {"y": False})
    assert not any(runner.is_active for runner in runners)


# What one side lacks.


def test_runs_of_different_lengths_fail() -> None:
    for runs in (results(a=[1.0, 2.0], b=[1.0]), results(b=[1.0], a=[1.0, 2.0])):
        found = compared(runs)
        ((first, second),) = verdicts(found).values()
        assert (first, second) == ({"y": True}, {"y": False})
        failed = found.values()[0][1]["y"]
        assert isinstance(failed, UncomparedResult)
        assert not failed.is_missing
        assert "Iteration 1 exists only in a: b has 1 iteration." in failed.reason


def test_streams_of_different_lengths_fail() -> None:
    runs = [steps(results(a=[1.0, 2.0, 3.0])), results(b=[1.0])]
    assert verdicts(compared(runs)) == {AB: [{"y": True}, {"y": False}]}


def test_a_run_without_iterations_fails() -> None:
    assert verdicts(compared(results(a=[1.0], b=[]))) == {AB: [{"y": False}]}


def test_different_lengths_fail_even_where_missing_outputs_are_allowed() -> None:
    assert not compared(results(a=[1.0, 2.0], b=[1.0]), allow_missing_outputs=True)


def test_a_longer_run_that_is_not_compared_does_not_matter() -> None:
    found = compared(results(a=[1.0], b=[1.0], c=[1.0, 2.0]), comparisons=[(0, 1)])
    assert found
    assert found.stats(AB) == (1, 0, 1)


def missing() -> RunResults:
    return RunResults(
        [
            ("a", [iteration("a", same=[1.0], only_a=[1.0], more=[1.0])]),
            ("b", [iteration("b", same=[1.0])]),
        ]
    )


def test_a_missing_output_fails() -> None:
    assert verdicts(compared(missing())) == {AB: [{"same": True, "only_a": False, "more": False}]}


def test_an_extra_output_fails_too() -> None:
    reverse = compared(missing(), comparisons=[(1, 0)])
    assert verdicts(reverse) == {("b", "a"): [{"same": True, "only_a": False, "more": False}]}


def test_missing_and_extra_outputs_may_be_allowed() -> None:
    for comparisons in ([(0, 1)], [(1, 0)]):
        found = compared(missing(), comparisons=comparisons, allow_missing_outputs=True)
        assert found
        assert found.output_names() == ["same"]


def test_outputs_that_differ_fail_even_where_missing_ones_are_allowed() -> None:
    runs = results(a=[[1.0]], b=[[2.0]])
    runs["a"][0]["extra"] = np.zeros(1)
    assert not compared(runs, allow_missing_outputs=True)


def test_what_one_side_lacks_is_not_compared_with_what_stands_in_its_place() -> None:
    runs = RunResults(
        [
            ("a", [iteration("a", same=[1.0], conv=[1.0], gone=[3.0])]),
            ("b", [iteration("b", same=[1.0], conv_fused=[2.0])]),
        ]
    )
    assert not compared(runs)
    found = compared(runs, allow_missing_outputs=True)
    assert verdicts(found) == {AB: [{"same": True}]}
    assert found.left_out == {AB: ["conv", "gone", "conv_fused"]}
    assert compared(results(a=[1.0], b=[1.0]), allow_missing_outputs=True).left_out == {}


def test_names_that_nobody_shares_are_still_paired() -> None:
    runs = RunResults([("a", [iteration("a", x=[1.0])]), ("b", [iteration("b", y=[1.0])])])
    assert verdicts(compared(runs, allow_missing_outputs=True)) == {AB: [{"x": True}]}


def test_no_common_output_is_no_success() -> None:
    runs = RunResults([("a", [iteration("a")]), ("b", [iteration("b", z=[1.0])])])
    assert not compared(runs, allow_missing_outputs=True)
    with pytest.raises(InconclusiveError, match="returned no verdicts"):
        compared(RunResults([("a", [iteration()]), ("b", [iteration()])]))


# What is reported.


def test_a_comparison_is_reported_in_order(console: RecordingConsole) -> None:
    compare_accuracy(
        results(a=[1.0, 2.0], b=[1.0, 2.0], c=[1.0, 2.0]),
        compare_func=[SimpleCompareFunc(), lambda a, b: {"y": True}],
    )
    reported = [
        (event, arguments if event == "comparison_starting" else _described(arguments[0]))
        for event, arguments in console.events
    ]
    both = ["simple", "<lambda>"]
    assert reported == [
        ("comparison_starting", AB),
        *(("iteration_compared", (AB, 0, label)) for label in both),
        ("comparison_starting", BC),
        *(("iteration_compared", (BC, 0, label)) for label in both),
        *(("iteration_compared", (pair, 1, label)) for pair in (AB, BC) for label in both),
        *(("comparison_finished", label) for label in both),
    ]


def _described(reported: Any) -> Any:
    return (
        reported.label
        if isinstance(reported, AccuracyResult)
        else (reported.runners, reported.iteration, reported.label)
    )


def test_the_outputs_are_reported_with_the_verdict(console: RecordingConsole) -> None:
    runs = results(a=[1.0], b=[2.0])
    compare_accuracy(runs)
    ((pair,),) = console.arguments_of("iteration_compared")
    assert pair.outputs == (runs["a"][0], runs["b"][0])
    assert pair.failed_outputs == ["y"]


def test_an_iteration_that_one_run_lacks_is_reported(console: RecordingConsole) -> None:
    compare_accuracy(results(a=[1.0, 2.0], b=[1.0]))
    pair = console.arguments_of("iteration_compared")[-1][0]
    assert (pair.iteration, pair.failed_outputs) == (1, ["y"])
    assert pair.outputs[1] == IterationResult()


def test_a_failed_check_on_the_way_is_raised_after_the_summary(console: RecordingConsole) -> None:
    def failing() -> Iterator[RunResults]:
        yield results(a=[1.0], b=[1.0])
        raise CheckFailedError("NaN somewhere")

    with pytest.raises(CheckFailedError, match="NaN somewhere"):
        compare_accuracy(failing())
    assert console.names()[-1] == "comparison_finished"

    def failing_at_once() -> Iterator[RunResults]:
        raise CheckFailedError("NaN at once")
        yield

    with pytest.raises(CheckFailedError, match="NaN at once"):
        compare_accuracy(failing_at_once())


def test_another_error_on_the_way_passes_at_once(console: RecordingConsole) -> None:
    def failing() -> Iterator[RunResults]:
        yield results(a=[1.0], b=[1.0])
        raise KeyError("mine")

    with pytest.raises(KeyError):
        compare_accuracy(failing())
    assert "comparison_finished" not in console.names()


# Memory.


def test_the_arrays_of_results_are_kept_for_whoever_looks_closer() -> None:
    result = compared(results(a=[1.0], b=[2.0]))[AB][0]["y"]
    assert result.difference is not None
    assert result.mismatches.count == 1


def test_results_of_a_stream_are_settled() -> None:
    result = compared(steps(results(a=[1.0], b=[2.0])))[AB][0]["y"]
    assert result.difference is None
    assert result.arrays is None
    assert result.max_absdiff == 1
    assert not result


def _watched(references: list[weakref.ref[Any]], counts: list[int]) -> Iterator[RunResults]:
    """Yield iterations, and count how many earlier ones are in memory when each begins."""
    for _ in range(5):
        counts.append(sum(ref() is not None for ref in references))
        arrays = [np.zeros(3), np.ones(3)]
        references.append(weakref.ref(arrays[0]))
        made = RunResults(
            [("a", [iteration("a", y=arrays[0])]), ("b", [iteration("b", y=arrays[1])])]
        )
        del arrays
        yield made
        del made


@pytest.fixture
def counts() -> list[int]:
    """Compare a stream, and return how many earlier iterations were in memory at each."""
    counted: list[int] = []
    with bind(Console, RecordingConsole(keep_arguments=False)):
        compare_accuracy(_watched([], counted))
    return counted


def test_the_memory_that_comparing_needs_does_not_grow(counts: list[int]) -> None:
    assert len(counts) == 5
    assert max(counts) <= 1


def test_one_iteration_is_gone_before_the_next_is_asked_for(counts: list[int]) -> None:
    assert max(counts) == 0


# The steps themselves.


def test_iterations_come_side_by_side() -> None:
    made = list(iterations_of([results(a=[1.0, 2.0]), results(b=[3.0], c=[4.0])]))
    assert [[(name, outputs is not None) for name, outputs in step] for step in made] == [
        [("a", True), ("b", True), ("c", True)],
        [("a", True), ("b", False), ("c", False)],
    ]


def test_all_cores_may_be_used_unless_a_number_is_asked_for() -> None:
    free, bound = SimpleCompareFunc(), SimpleCompareFunc()
    bound.threads = 1
    with bind(cores, lambda: 2):
        compare_accuracy(results(a=[[1.0]], b=[[1.0]]), compare_func=[free, bound])
    assert (free.threads, bound.threads) == (2, 1)


# What is kept.


@pytest.mark.slow
def test_memory_does_not_grow_with_the_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_log, "MOST", 128)
    taken: list[int] = []
    count = 1500

    def many() -> Iterator[RunResults]:
        for index in range(count):
            if index in {500, count - 1}:
                gc.collect()
                taken.append(sys.getallocatedblocks())
            yield results(a=[[1.0, 2.0]], b=[[1.0, 2.0 + index]])

    with bind(Console, RecordingConsole()) as console:
        console.iteration_compared = lambda pair: None
        found = compared(many())
    assert taken[1] - taken[0] < count - 500  # A verdict takes some ten blocks of memory.
    assert found.stats() == (1, count - 1, count)
    assert found[AB][5]["y"].max_absdiff == 5.0


def test_results_in_memory_keep_their_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_log, "MOST", 2)
    found = compared(results(a=[[1.0]] * 8, b=[[1.0]] * 8))
    assert all(answers["y"].arrays is not None for answers in found[AB])


# Positions, not names.


def of_one_name(*runs: list[Any]) -> RunResults:
    return RunResults(("r", [iteration("r", y=value) for value in run]) for run in runs)


def test_pairs_of_one_name_are_judged_by_their_own_data() -> None:
    """The second pair was judged by the data of the first."""
    for function in (SimpleCompareFunc(check_error_stat="max"), L2CompareFunc(), PsnrCompareFunc()):
        for average in (False, True):
            found = compared(
                of_one_name([1.0], [1.0], [99.0]), compare_func=function, check_average=average
            )
            assert not found
            assert [tally.passed for tally in found.tallies()] == [True, False]
            assert (found.stats(0), found.stats(1)) == ((1, 0, 1), (0, 1, 1))
            assert (found.percentage(0), found.percentage(-1)) == (1, 0)
            assert found.stats(("r", "r")) == (1, 1, 2)
            if not average:
                continue
            assert [bool(found.average_results(at)["y"]) for at in (0, 1)] == [True, False]
            with pytest.raises(UsageError, match="2 pairs of runs have the names") as refused:
                found.average_results(("r", "r"))
            assert "0, 1" in refused.value.hint


def test_what_one_side_lacks_is_noted_per_pair() -> None:
    runs = of_one_name([1.0], [1.0], [1.0])
    runs[2][1][0]["more"] = np.zeros(1)
    found = compared(runs, allow_missing_outputs=True)
    assert found.left_out_at == {1: ["more"]}
    assert found.left_out == {("r", "r"): ["more"]}


def test_both_sides_of_the_worst_output_are_saved(store: MemoryResultStore) -> None:
    """One of two runs of one name was lost."""
    compared(of_one_name([1.0], [5.0]), save_worst=1, save_worst_path="worst.json")
    saved = RunResults.load("worst.json")
    assert [(name, its[0]["y"].item()) for name, its in saved] == [("r", 1.0), ("r", 5.0)]


def test_what_could_not_be_compared_is_the_worst_that_is_saved(store: MemoryResultStore) -> None:
    """As in the table, whose worst row it is."""
    runs = of_one_name([1.0], [5.0])
    for (_, (outputs,)), size in zip(runs, (2, 3)):
        outputs["x"] = np.zeros(size)
    compared(runs, save_worst=1, save_worst_path="worst.json")
    assert [[*its[0]] for _, its in RunResults.load("worst.json")] == [["x"], ["x"]]


def test_details_of_pairs_of_one_name_are_kept_apart(store: MemoryResultStore) -> None:
    runs = of_one_name([1.0], [1.0], [3.0])
    runs.save("outputs.json")
    compared(runs, add_to_outputs_path="outputs.json")
    record = store.comparisons["outputs.json"]["y"]
    assert not record["passed"]
    assert [(one["passed"], one["max_error"]) for one in record["pairs"]] == [(True, 0), (False, 2)]


def test_the_record_of_an_average_is_that_of_the_verdict(
    store: MemoryResultStore,
) -> None:
    runs = results(a=[1.0, 1.0], b=[1.0, 1.5])
    runs.save("outputs.json")
    function = SimpleCompareFunc(check_error_stat="max", atol=0.3)
    assert compared(
        runs, compare_func=function, check_average=True, add_to_outputs_path="outputs.json"
    )
    assert store.comparisons["outputs.json"]["y"]["passed"]


def test_an_iteration_without_outputs_on_one_side_fails(
    console: RecordingConsole,
) -> None:
    """The summary said 50% and the exit code 0."""
    longer = RunResults([("a", [iteration(y=1.0), iteration()]), ("b", [iteration(y=1.0)])])
    empty = RunResults(
        [("a", [iteration(y=1.0), iteration()]), ("b", [iteration(y=1.0), iteration(y=9.0)])]
    )
    for runs, allowed in ((longer, False), (longer, True), (empty, True)):
        for average in (False, True):
            found = compared(
                runs,
                allow_missing_outputs=allowed,
                check_average=average,
                compare_func=SimpleCompareFunc(check_error_stat="max"),
            )
            assert not found
            matched, mismatched, _ = found.stats()
            assert mismatched == 1
            assert found.percentage() == matched / 2


def test_stopping_early_stops_where_nothing_was_compared() -> None:
    runs = RunResults(
        [("a", [iteration(), iteration(y=1.0)]), ("b", [iteration(), iteration(y=1.0)])]
    )
    with pytest.raises(InconclusiveError):
        compared(runs, fail_fast=True)


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"], ["b", "a"], []])
@pytest.mark.parametrize("joined", [False, True])
def test_a_stream_whose_iterations_have_other_runs_is_refused(
    names: list[str], joined: bool
) -> None:
    """One run less was an IndexError, one run more was never compared."""

    def runs() -> Iterator[RunResults]:
        yield results(a=[1.0], b=[1.0])
        yield RunResults((name, [iteration(name, y=1.0)]) for name in names)

    with pytest.raises(UsageError, match="The iterations of a stream have different runners"):
        compared([runs(), results(c=[1.0, 1.0])] if joined else runs())


def test_runners_of_other_processes_may_go_on() -> None:
    def runs() -> Iterator[RunResults]:
        for when in ("01/01/30-00:00:00", "01/01/30-00:00:07.000123"):
            names = [f"{kind}-runner-N0-{when}" for kind in ("onnxrt", "trt")]
            yield RunResults((name, [iteration(name, y=1.0)]) for name in names)

    assert compared(runs()).stats() == (2, 0, 2)
