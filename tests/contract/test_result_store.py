"""What every result store promises, asked of each."""

from __future__ import annotations

import inspect
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake.store import MemoryResultStore
from polygraphy.adapters.files.store.store import FileResultStore
from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.compare.result import OutputCompareResult, UncomparedResult
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.ports import ResultStore
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tactics import Algorithm, TacticReplay, TensorInfo
from polygraphy.testing import check_result_store

pytestmark = pytest.mark.usefixtures("_in_fresh_folder")


@pytest.fixture
def _in_fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=[FileResultStore, MemoryResultStore], ids=lambda store: store.__name__)
def store(request: pytest.FixtureRequest) -> ResultStore:
    made: ResultStore = request.param()
    return made


def test_the_published_suite(store: ResultStore, tmp_path: Path) -> None:
    """What `polygraphy.testing` asks of other packages holds of every store of this one."""
    check_result_store(lambda: store, tmp_path)


def feed(value: float = 0) -> dict[str, Any]:
    return {"x": np.full((2, 3), value, np.float32), "n": np.array(int(value), np.int64)}


def results(*values: float, runners: tuple[str, ...] = ("first", "second")) -> RunResults:
    """Return results of some runners, with one iteration per value."""
    return RunResults(
        (
            runner,
            [
                IterationResult({"y": np.full(4, value + index)}, 0.5 + index, runner)
                for value in values
            ],
        )
        for index, runner in enumerate(runners)
    )


def verdicts() -> AccuracyResults:
    output = OutputCompareResult(
        *[0.5] * 6, thresholds=Tolerance(check_error_stat=("max", "mean"), atol=1, rtol=0)
    )
    answers = {"y": output, "z": UncomparedResult("The shapes differ.")}
    return AccuracyResults([AccuracyResult([(("first", "second"), [answers])])])


def replay() -> TacticReplay:
    info = TensorInfo("DataType.FLOAT", (4, 2, 1), -1, 1)
    return TacticReplay().add("conv", Algorithm(2**40, -3, [info], [info, info]))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and type(left) is type(right):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, np.ndarray):
        return (
            isinstance(right, np.ndarray)
            and left.dtype == right.dtype
            and np.array_equal(left, right)
        )
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


# Whole values.


def test_offers_what_the_port_demands(store: ResultStore) -> None:
    for name, wanted in vars(ResultStore).items():
        if name.startswith("_"):
            continue
        assert list(inspect.signature(getattr(store, name)).parameters) == [
            parameter for parameter in inspect.signature(wanted).parameters if parameter != "self"
        ]


@pytest.mark.parametrize("as_path", [str, Path])
def test_what_is_saved_is_loaded(store: ResultStore, as_path: Any) -> None:
    saved = results(1, 2)
    store.save(saved, as_path("results.json"))
    loaded = store.load(as_path("results.json"), RunResults)
    assert type(loaded) is RunResults
    assert loaded == saved
    assert loaded is not saved
    assert [it.runtime for it in loaded["second"]] == [1.5, 1.5]
    assert [it.runner_name for it in loaded["second"]] == ["second", "second"]


def test_feeds_are_loaded(store: ResultStore) -> None:
    store.save([feed(1), feed(2)], "inputs.json")
    assert same(store.load("inputs.json", list), [feed(1), feed(2)])
    store.save(feed(3), "one.json")
    assert same(store.load("one.json", dict), feed(3))


def test_verdicts_are_loaded(store: ResultStore) -> None:
    store.save(verdicts(), "verdicts.json")
    loaded = store.load("verdicts.json", AccuracyResults)
    ((pair, (answers,)),) = loaded[0].items()
    assert pair == ("first", "second")
    assert answers["y"].metric_values() == verdicts()[0][0][1][0]["y"].metric_values()
    assert answers["y"].thresholds == Tolerance(check_error_stat=("max", "mean"), atol=1, rtol=0)
    assert answers["y"]
    assert not answers["z"]
    assert not loaded


def test_replays_are_loaded(store: ResultStore) -> None:
    store.save(replay(), "replay.json")
    assert store.load("replay.json", TacticReplay) == replay()


def test_text_is_the_same_as_a_file(store: ResultStore) -> None:
    text = store.dumps(results(1))
    assert isinstance(text, str)
    assert store.loads(text, RunResults) == results(1)


@pytest.mark.parametrize("make_file", [io.StringIO, io.BytesIO])
def test_open_files_serve_too(store: ResultStore, make_file: Any) -> None:
    with make_file() as file:
        store.save(results(1), file)
        assert store.load(file, RunResults) == results(1)  # Read from the start.


def test_a_later_change_of_the_value_does_not_count(store: ResultStore) -> None:
    saved = results(1)
    store.save(saved, "results.json")
    saved["first"][0]["y"][:] = 7
    loaded = store.load("results.json", RunResults)
    assert loaded == results(1)
    loaded["first"][0]["y"][:] = 7  # What was loaded can be written to.
    assert store.load("results.json", RunResults) == results(1)


def test_saving_replaces(store: ResultStore) -> None:
    store.save(results(1, 2, 3), "results.json")
    store.save(results(4), "results.json")
    assert store.load("results.json", RunResults) == results(4)


def test_what_is_missing_is_reported(store: ResultStore) -> None:
    with pytest.raises(FileError, match=r"nowhere\.json does not exist") as caught:
        store.load("nowhere.json", RunResults)
    assert str(caught.value.path) == "nowhere.json"


def test_text_of_something_else_is_reported(store: ResultStore) -> None:
    with pytest.raises(FileError, match="Could not read"):
        store.loads("no such text", RunResults)


@pytest.mark.parametrize("kind", [AccuracyResults, TacticReplay, list, dict])
def test_another_kind_is_reported(store: ResultStore, kind: type) -> None:
    store.save(results(1), "results.json")
    with pytest.raises(FileError, match=r"results\.json"):
        store.load("results.json", kind)
    with pytest.raises(FileError):
        store.loads(store.dumps(results(1)), kind)


def test_any_kind_is_an_object(store: ResultStore) -> None:
    store.save(replay(), "replay.json")
    assert store.load("replay.json", object) == replay()


# Item after item.


@pytest.mark.parametrize("dest", ["results.json", "results"])
def test_written_results_are_iterated(store: ResultStore, dest: str) -> None:
    with store.writer(dest, RunResults) as writer:
        for step in results(1, 2, 3).split():
            writer.add(step)
    assert list(store.iterate(dest, RunResults)) == list(results(1, 2, 3).split())


@pytest.mark.parametrize("dest", ["inputs.json", "inputs"])
def test_written_feeds_are_iterated(store: ResultStore, dest: str) -> None:
    with store.writer(dest, dict) as writer:
        for value in range(12):  # Enough for names that would sort otherwise without padding.
            writer.add(feed(value))
    assert same(list(store.iterate(dest, dict)), [feed(value) for value in range(12)])


def test_a_written_file_is_the_same_as_a_saved_one(store: ResultStore) -> None:
    with store.writer("results.json", RunResults) as writer:
        for step in results(1, 2).split():
            writer.add(step)
    assert store.load("results.json", RunResults) == results(1, 2)
    store.save(results(1, 2), "saved.json")
    assert list(store.iterate("saved.json", RunResults)) == list(results(1, 2).split())


def test_items_may_be_longer_than_one_iteration(store: ResultStore) -> None:
    with store.writer("results.json", RunResults) as writer:
        writer.add(results(1, 2))
        writer.add(results(3))
    assert store.load("results.json", RunResults) == results(1, 2, 3)


def test_runners_may_have_the_same_name(store: ResultStore) -> None:
    twice = results(1, 2, runners=("same", "same"))
    with store.writer("results.json", RunResults) as writer:
        for step in twice.split():
            writer.add(step)
    assert store.load("results.json", RunResults) == twice


def test_a_single_feed_is_one_iteration(store: ResultStore) -> None:
    store.save(feed(5), "one.json")
    assert same(list(store.iterate("one.json", dict)), [feed(5)])


def test_an_item_that_is_changed_later_was_written_as_it_was(store: ResultStore) -> None:
    item = feed(1)
    with store.writer("inputs.json", dict) as writer:
        writer.add(item)
        item["x"][:] = 9
        writer.add(item)
    first, second = store.iterate("inputs.json", dict)
    assert same(first, feed(1))
    assert second["x"][0, 0] == 9


def test_iterating_twice_gives_the_same(store: ResultStore) -> None:
    store.save(results(1, 2), "results.json")
    one, other = store.iterate("results.json", RunResults), store.iterate(
        "results.json", RunResults
    )
    assert next(one) == next(other) == results(1)
    assert next(other) == results(2)
    assert list(one) == [results(2)]


def test_a_folder_is_not_one_file(store: ResultStore) -> None:
    with store.writer("folder", RunResults) as writer:
        writer.add(results(1))
    with pytest.raises(FileError, match="folder is a folder"):
        store.load("folder", RunResults)
    with pytest.raises(FileError, match="folder is a folder"):
        store.save(results(1), "folder")


@pytest.mark.parametrize("kind", [dict, RunResults])
def test_a_folder_that_is_in_use_is_refused_at_the_call(store: ResultStore, kind: type) -> None:
    with store.writer("folder", dict) as writer:
        writer.add(feed(1))
    with pytest.raises(FileError, match="folder is not empty"):
        store.writer("folder", kind)
    assert same(list(store.iterate("folder", dict)), [feed(1)])


def test_an_empty_folder_is_written_to(store: ResultStore) -> None:
    with store.writer("folder", dict):
        pass
    with store.writer("folder", dict) as writer:
        writer.add(feed(1))
    assert same(list(store.iterate("folder", dict)), [feed(1)])


def test_a_file_is_no_folder(store: ResultStore) -> None:
    store.save(feed(1), "plain")
    with pytest.raises(FileError, match="plain is a file"):
        store.writer("plain", dict)
    assert same(store.load("plain", dict), feed(1))


@pytest.mark.parametrize("dest", ["inputs.json", "inputs"])
def test_nothing_is_kept_after_an_error(store: ResultStore, dest: str) -> None:
    with pytest.raises(KeyboardInterrupt), store.writer(dest, dict) as writer:
        writer.add(feed(1))
        raise KeyboardInterrupt
    with pytest.raises(FileError, match="does not exist"):
        store.iterate(dest, dict)


@pytest.mark.parametrize("error", [OSError("a camera is not there"), FileError("of the user")])
def test_errors_of_the_caller_pass_through(store: ResultStore, error: Exception) -> None:
    store.save([feed(7)], "inputs.json")
    with pytest.raises(type(error)) as caught, store.writer("inputs.json", dict) as writer:
        writer.add(feed(1))
        raise error
    assert caught.value is error
    assert same(list(store.iterate("inputs.json", dict)), [feed(7)])


def test_what_was_there_stays_until_the_end(store: ResultStore) -> None:
    store.save(results(7), "results.json")
    with store.writer("results.json", RunResults) as writer:
        writer.add(results(1))
        assert store.load("results.json", RunResults) == results(7)
    assert store.load("results.json", RunResults) == results(1)


def test_runners_may_not_change(store: ResultStore) -> None:
    store.save(results(7), "results.json")
    writing = store.writer("results.json", RunResults)
    with pytest.raises(UsageError, match="'third'"), writing as writer:
        writer.add(results(1))
        writer.add(results(2, runners=("first", "third")))
    assert store.load("results.json", RunResults) == results(7)


def test_an_item_that_failed_is_not_passed_over(store: ResultStore) -> None:
    store.save(results(7), "results.json")
    writing = store.writer("results.json", RunResults)
    with pytest.raises(FileError, match="an earlier item"), writing as writer:
        writer.add(results(1))
        with pytest.raises(UsageError):
            writer.add(results(2, runners=("third",)))
    assert store.load("results.json", RunResults) == results(7)


@pytest.mark.parametrize("kind", [AccuracyResults, TacticReplay, list])
def test_only_inputs_and_results_have_iterations(store: ResultStore, kind: type) -> None:
    with pytest.raises(UsageError, match=kind.__name__):
        store.writer("file.json", kind)
    store.save(replay(), "file.json")
    with pytest.raises(UsageError, match=kind.__name__):
        store.iterate("file.json", kind)


# What cannot be iterated fails at the call, not when the first item is asked for.


@pytest.mark.parametrize("source", ["nowhere.json", "nowhere"])
@pytest.mark.parametrize("kind", [dict, RunResults])
def test_a_missing_source_is_reported_at_the_call(
    store: ResultStore, source: str, kind: type
) -> None:
    with pytest.raises(FileError, match="nowhere"):
        store.iterate(source, kind)


@pytest.mark.parametrize("dest", ["empty.json", "empty"])
@pytest.mark.parametrize("kind", [dict, RunResults])
def test_an_empty_source_is_reported_at_the_call(store: ResultStore, dest: str, kind: type) -> None:
    with store.writer(dest, kind):
        pass
    with pytest.raises(FileError, match="empty"):
        store.iterate(dest, kind)


@pytest.mark.parametrize("dest", ["file.json", "folder"])
def test_the_wrong_kind_is_reported_at_the_call(store: ResultStore, dest: str) -> None:
    with store.writer(dest, dict) as writer:
        writer.add(feed(1))
    with pytest.raises(FileError, match=dest):
        store.iterate(dest, RunResults)


@pytest.mark.parametrize("dest", ["file.json", "folder"])
def test_the_wrong_kind_is_reported_the_other_way_round(store: ResultStore, dest: str) -> None:
    with store.writer(dest, RunResults) as writer:
        writer.add(results(1))
    with pytest.raises(FileError, match=dest):
        store.iterate(dest, dict)


@pytest.mark.parametrize("kind", [dict, RunResults])
def test_verdicts_have_no_iterations(store: ResultStore, kind: type) -> None:
    store.save(verdicts(), "verdicts.json")
    with pytest.raises(FileError, match="verdicts"):
        store.iterate("verdicts.json", kind)


def test_runners_with_different_numbers_of_iterations_are_reported(store: ResultStore) -> None:
    uneven = results(1, 2)
    uneven["second"].pop()
    store.save(uneven, "uneven.json")
    with pytest.raises(FileError, match="different numbers of iterations"):
        store.iterate("uneven.json", RunResults)


# Looking into what is there, whatever it is.


@pytest.mark.parametrize("path", ["file.json", "folder", "file.safetensors"])
def test_looks_into_inputs(store: ResultStore, path: str) -> None:
    with store.writer(path, dict) as writer:
        writer.add(feed(1))
        writer.add(feed(2))
    stored = store.look_into(path)
    assert (stored.kind, stored.runs) == (dict, (("", 2),))
    for _ in range(2):  # May be asked again.
        assert [int(one["n"]) for one in stored.iterations()] == [1, 2]
    assert same(stored.value(), [feed(1), feed(2)])


@pytest.mark.parametrize("path", ["file.json", "folder", "file.safetensors"])
def test_looks_into_results(store: ResultStore, path: str) -> None:
    with store.writer(path, RunResults) as writer:
        for step in results(1, 2).split():
            writer.add(step)
    stored = store.look_into(path)
    assert (stored.kind, stored.runs) == (RunResults, (("first", 2), ("second", 2)))
    assert [step.keys() for step in stored.iterations()] == [["first", "second"]] * 2
    assert list(stored.iterations())[1]["second"][0]["y"][0] == 3
    assert same(stored.value(), results(1, 2))


def test_a_runner_without_further_iterations_has_none(store: ResultStore) -> None:
    uneven = results(1, 2)
    del uneven[0][1][1]
    store.save(uneven, "file.json")
    stored = store.look_into("file.json")
    assert stored.runs == (("first", 1), ("second", 2))
    assert [[len(its) for its in step.values()] for step in stored.iterations()] == [[1, 1], [0, 1]]


def test_looks_into_verdicts(store: ResultStore) -> None:
    store.save(verdicts(), "file.json")
    stored = store.look_into("file.json")
    assert (stored.kind, stored.runs) == (AccuracyResults, ())
    assert stored.value()[0].output_names() == ["y", "z"]


def test_looks_into_nothing_else(store: ResultStore) -> None:
    store.save(replay(), "file.json")
    with pytest.raises(FileError, match=r"file\.json"):
        store.look_into("file.json")
    with pytest.raises(FileError, match=r"missing\.json"):
        store.look_into("missing.json")
