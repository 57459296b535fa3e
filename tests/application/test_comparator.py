from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from polygraphy.adapters.fake import (
    FakeRunner,
    InlineIsolation,
    MemoryResultStore,
    RecordingConsole,
)
from polygraphy.application.compare.comparator import Comparator
from polygraphy.binding import bind
from polygraphy.comparator import CompareFunc
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.compare import SimpleCompareFunc
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import (
    BackendError,
    CheckFailedError,
    FileError,
    InconclusiveError,
    InputError,
    UsageError,
)
from polygraphy.domain.results.results import RunResults
from polygraphy.ports.reporting import Console
from polygraphy.ports.running import call_isolated
from tests.application.runs import counting_up, doubler, feed, results, values


def parameters(name: str) -> list[str]:
    return list(inspect.signature(getattr(Comparator, name)).parameters)


def test_the_published_arguments_in_their_order() -> None:
    assert parameters("run") == [
        "runners", "data_loader", "warm_up", "use_subprocess", "subprocess_timeout",
        "subprocess_polling_interval", "save_inputs_path", "save_outputs_path",
        "save_input_blob_path", "streaming", "profiling",
    ]  # fmt: skip
    assert parameters("compare_accuracy")[:5] == [
        "run_results", "fail_fast", "comparisons", "compare_func", "check_average",
    ]  # fmt: skip
    assert parameters("postprocess") == ["run_results", "postprocess_func"]
    assert parameters("validate") == ["run_results", "check_inf", "check_nan", "fail_fast"]


# Running.


def test_results_are_all_at_once_or_one_by_one() -> None:
    runners = [doubler("a"), doubler("b")]
    at_once = Comparator.run(runners, counting_up(2))
    assert isinstance(at_once, RunResults)
    one_by_one = Comparator.run(runners, counting_up(2), streaming=True)
    assert isinstance(one_by_one, Iterator)
    assert values(RunResults.concat(one_by_one)) == values(at_once)


def test_data_are_synthetic_unless_given() -> None:
    expected = DataLoader(input_metadata=None)
    expected.input_metadata = doubler("a").get_input_metadata_impl()
    runner = doubler("a")
    Comparator.run([runner])
    assert [data["x"].tolist() for data in runner.feeds] == [[float(np.float32(0.417022))]]
    assert runner.feeds[0]["x"].tobytes() == expected[0]["x"].tobytes()
    list(Comparator.run([runner], streaming=True))
    assert runner.feeds[0]["x"].tobytes() == runner.feeds[1]["x"].tobytes()


@pytest.mark.parametrize("streaming", [True, False])
def test_a_callable_makes_the_data(streaming: bool) -> None:
    calls = []

    def load_data() -> Any:
        calls.append(1)
        return counting_up(2)

    runner, how = doubler("a"), cast("Any", {"streaming": streaming})
    list(Comparator.run([runner, doubler("b")], load_data, **how))
    assert calls == [1]
    assert [data["x"].tolist() for data in runner.feeds] == [[0], [1]]


def test_warming_up() -> None:
    runner = doubler("a")
    Comparator.run([runner], [feed(1)], warm_up=2)
    assert len(runner.feeds) == 3
    Comparator.run([runner], [feed(1)], warm_up=0)
    list(Comparator.run([runner], [feed(1)], warm_up=0, streaming=True))  # type: ignore[call-overload]
    assert len(runner.feeds) == 5


@pytest.mark.parametrize("wish", [{"warm_up": 1}, {"use_subprocess": True}])
def test_streaming_runners_are_not_warmed_up_and_share_a_process(wish: Any) -> None:
    runner = doubler("a")
    with pytest.raises(UsageError, match="cannot be warmed up"):
        Comparator.run([runner], [feed(1)], streaming=True, **wish)
    assert runner.events == []


def test_the_others_go_on_when_an_isolated_runner_fails(store: MemoryResultStore) -> None:
    console, crash = RecordingConsole(), BackendError("a crashed")
    isolation = InlineIsolation({"a": crash})
    runners = [doubler("a"), doubler("b")]
    with (
        bind(Console, console),
        bind(call_isolated, isolation),
        pytest.raises(BackendError, match=r"1 of 2 runners failed: a\."),
    ):
        Comparator.run(
            runners,
            counting_up(2),
            use_subprocess=True,
            subprocess_timeout=5,
            save_outputs_path="o.json",
        )
    assert isolation.calls == [("a", 5), ("b", 5)]
    assert console.arguments_of("runner_failed") == [("a", "a crashed")]
    assert [(name, len(made)) for name, made in RunResults.load("o.json")] == [("b", 2)]


def test_a_defect_of_an_isolated_runner_is_its_own(store: MemoryResultStore) -> None:
    console = RecordingConsole()
    isolation = InlineIsolation({"a": ZeroDivisionError("division by zero")})
    with (
        bind(Console, console),
        bind(call_isolated, isolation),
        pytest.raises(BackendError, match=r"1 of 2 runners failed: a\. The others"),
    ):
        Comparator.run(
            [doubler("a"), doubler("b")],
            counting_up(1),
            use_subprocess=True,
            save_outputs_path="o.json",
        )
    assert console.arguments_of("runner_failed") == [("a", "ZeroDivisionError: division by zero")]
    assert RunResults.load("o.json").keys() == ["b"]


def test_where_all_isolated_runners_fail_nothing_is_saved(store: MemoryResultStore) -> None:
    crashes: dict[str, Exception] = {"a": BackendError("a crashed"), "b": BackendError("b, too")}
    with (
        bind(call_isolated, InlineIsolation(crashes)),
        pytest.raises(BackendError, match=r"2 of 2 runners failed: a, b\.$"),
    ):
        Comparator.run(
            [doubler("a"), doubler("b")],
            counting_up(1),
            use_subprocess=True,
            save_inputs_path="i.json",
            save_outputs_path="o.json",
        )
    for path in ("i.json", "o.json"):
        with pytest.raises(FileError):
            store.load(path, list)


def test_what_is_wrong_with_the_data_ends_the_run() -> None:
    isolation = InlineIsolation({"a": InputError("no such input")})
    with bind(call_isolated, isolation), pytest.raises(InputError, match="no such input"):
        Comparator.run([doubler("a"), doubler("b")], counting_up(1), use_subprocess=True)


def test_an_error_of_a_runner_that_is_not_isolated_ends_the_run() -> None:
    failing = FakeRunner({}, fail_at=-1, error=BackendError("mine"), name="a")
    other = doubler("b")
    with pytest.raises(BackendError, match="mine"):
        Comparator.run([failing, other], [feed(1)])
    assert other.events == []


@pytest.mark.parametrize("stages", [[], ["validate"], ["postprocess"], ["validate", "postprocess"]])
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_what_an_interrupted_comparison_was_saving_is_not_kept(
    store: MemoryResultStore, stages: list[str], interrupt: type[BaseException]
) -> None:
    asked: list[int] = []

    def compare(outputs0: Any, outputs1: Any) -> Any:
        asked.append(1)
        if len(asked) == 2:
            raise interrupt
        return {"y": True}

    def run() -> Any:
        runners = [doubler("a"), doubler("b")]
        made: Any = Comparator.run(
            runners, counting_up(5), streaming=True, save_outputs_path="o.json"
        )
        for stage in stages:
            how: Any = [lambda outputs: outputs] if stage == "postprocess" else []
            made = getattr(Comparator, stage)(made, *how)
        return made

    with pytest.raises(interrupt):
        Comparator.compare_accuracy(run(), compare_func=compare)
    with pytest.raises(FileError):
        RunResults.load("o.json")
    asked.clear()

    def differ(outputs0: Any, outputs1: Any) -> Any:
        return {"y": False}

    assert not Comparator.compare_accuracy(run(), compare_func=differ, fail_fast=True)
    assert [len(iterations) for _, iterations in RunResults.load("o.json")] == [1, 1]


@pytest.mark.parametrize("streaming", [True, False])
def test_paths_are_passed_on(streaming: bool, store: MemoryResultStore, tmp_path: Path) -> None:
    how: Any = {
        "save_inputs_path": "in.json",
        "save_outputs_path": "out.json",
        "save_input_blob_path": str(tmp_path),
        "streaming": streaming,
    }
    list(Comparator.run([doubler("a")], counting_up(1), **how))
    assert set(store.values) == {"in.json", "out.json"}
    [blob] = tmp_path.glob("*/x.bin")
    assert blob.read_bytes() == np.float32([0]).tobytes()


# Comparing.


def test_the_main_job() -> None:
    runners = [doubler("a"), doubler("b"), doubler("c")]
    made = Comparator.run(runners, counting_up(3), streaming=True)
    accuracy = Comparator.compare_accuracy(made)
    assert isinstance(accuracy, AccuracyResults)
    assert accuracy
    assert accuracy[0].stats(("b", "c")) == (3, 0, 3)


def test_default_comparisons() -> None:
    assert Comparator.default_comparisons(results(a=[], b=[], c=[])) == [(0, 1), (1, 2)]
    assert Comparator.default_comparisons(RunResults()) == []


def test_settings_of_a_comparison_are_passed_on() -> None:
    runs = results(a=[1.0, 2.0, 3.0], b=[1.0, 2.5, 3.5])
    compare = Comparator.compare_accuracy
    assert not compare(runs)
    assert compare(runs, compare_func=SimpleCompareFunc(atol=1))
    assert compare(runs, False, [(0, 0)], None)
    assert compare(runs, fail_fast=True)[0].stats() == (1, 1, 2)
    max_atol = SimpleCompareFunc(check_error_stat="max", atol=0.4)
    assert not compare(runs, compare_func=max_atol)
    assert compare(runs, compare_func=max_atol, check_average=True), "a third of 0 + 0.5 + 0.5"
    runs["a"][0]["extra"] = np.zeros(1)
    loose = SimpleCompareFunc(atol=1)
    assert not compare(runs, compare_func=loose)
    assert compare(runs, compare_func=loose, allow_missing_outputs=True)


def test_nothing_to_compare_is_no_success() -> None:
    with pytest.raises(InconclusiveError):
        Comparator.compare_accuracy(RunResults())


# Validating.


def test_results_are_valid_or_not() -> None:
    bad = results(a=[[math.nan, math.inf]])
    assert Comparator.validate(results(a=[[1.0]])) is True
    assert Comparator.validate(bad) is False
    assert Comparator.validate(bad, check_nan=False) is True
    assert Comparator.validate(bad, True, False) is False


def test_a_stream_is_checked_while_it_passes() -> None:
    stream = Comparator.validate(results(a=[[1.0], [2.0]], b=[[1.0], [2.0]]).split())
    assert Comparator.compare_accuracy(stream)
    bad = Comparator.validate(results(a=[[math.nan]], b=[[math.nan]]).split())
    with pytest.raises(CheckFailedError):
        Comparator.compare_accuracy(bad)


def test_every_member_of_a_list_is_validated() -> None:
    good, bad = results(a=[[1.0]]), results(b=[[math.nan]])
    first, second, third = Comparator.validate([good, bad, good.split()])
    assert (first, second) == (True, False)
    assert values(next(third)) == {"a": [[1.0]]}


def test_an_output_of_another_shape_than_declared_is_warned_of_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runners = [doubler("a"), doubler("b")]
    for runner in runners:
        runner.declared_output_shapes = lambda: {"y": (7, "n"), "z": (1,)}  # type: ignore[attr-defined]
    Comparator.run(runners, counting_up(2))
    text = capsys.readouterr()
    said = "The output 'y' is declared with shape (7, n), but has shape (1,)."
    assert (text.out + text.err).count(said) == 1


@pytest.mark.parametrize(
    ("runners", "message"),
    [
        (FakeRunner({}), "A list of runners is required, not a single runner"),
        ([FakeRunner], "A runner is required, not a class"),
        ([lambda: FakeRunner({})], "A runner is required, not a function"),
    ],
)
def test_what_is_no_list_of_runners_is_refused(runners: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Comparator.run(runners, [{}])


def test_a_function_that_creates_a_comparison_function_is_to_be_called() -> None:
    with pytest.raises(UsageError, match=r"is not one itself. Call it: simple\(\)"):
        Comparator.compare_accuracy(results(a=[1], b=[1]), compare_func=CompareFunc.simple)
