from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.fake import MemoryResultStore
from polygraphy.binding import bind
from polygraphy.domain.errors import FileError, UnknownNameError, UsageError
from polygraphy.domain.ports import ResultStore
from polygraphy.domain.results.results import IterationResult, RunResults
from tests.domain.strategies import names


def iteration(value: float, runner: str = "r") -> IterationResult:
    return IterationResult({"y": np.array([value])}, 0.5, runner)


def results(**counts: int) -> RunResults:
    """Return results with so many iterations per runner."""
    return RunResults(
        (name, [iteration(index, name) for index in range(count)]) for name, count in counts.items()
    )


# One iteration.


def test_an_iteration_is_a_dictionary() -> None:
    array = np.ones(2)
    made = IterationResult({"y": array, "z": None}, runtime=0.5, runner_name="r0")
    assert isinstance(made, dict)
    assert made["y"] is array
    assert list(made) == ["y", "z"]
    assert (made.runtime, made.runner_name) == (0.5, "r0")
    made["w"] = array
    assert len(made) == 3


def test_nobody_measured_and_nobody_is_named() -> None:
    for made in (IterationResult(), IterationResult(None), IterationResult({})):
        assert made == {}
        assert (made.runtime, made.runner_name) == (None, "custom_runner")
    assert IterationResult(runner_name="").runner_name == ""


def test_the_dictionary_of_the_caller_is_left_alone() -> None:
    outputs = {"y": np.ones(1)}
    IterationResult(outputs)["z"] = np.ones(1)
    assert list(outputs) == ["y"]


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (np.ones(2), np.ones(2), True),
        (np.ones(2), [1.0, 1.0], True),
        (np.ones(2), np.ones(3), False),
        (np.ones(2), np.ones((1, 2)), False),
        (np.ones(2), np.ones(2, np.float32), False),
        (np.zeros(2, np.int32), np.zeros(2, np.float32), False),
        (np.array([np.nan]), np.array([np.nan]), True),
        (np.array([0.0]), np.array([-0.0]), False),
        (np.arange(6).reshape(2, 3).T, np.arange(6).reshape(2, 3).T.copy(), True),
        (np.array(["a"]), np.array(["a"]), True),
        (np.zeros((0, 2)), np.zeros((0, 3)), False),
    ],
)
def test_iterations_are_equal_bit_by_bit(left: Any, right: Any, same: bool) -> None:
    assert (IterationResult({"y": left}) == IterationResult({"y": right})) is same
    assert (IterationResult({"y": left}) != IterationResult({"y": right})) is not same
    assert (IterationResult({"y": left}) == {"y": right}) is same


def test_iterations_of_other_outputs_differ() -> None:
    assert iteration(1) != IterationResult({"z": np.array([1.0])})
    assert iteration(1) != IterationResult()
    assert iteration(1) != "y"
    assert iteration(1, "a") == iteration(1, "b")


def test_strings_in_object_arrays_are_equal_by_value() -> None:
    left, right = ("".join(parts) for parts in (["long", "text"], ["lo", "ngtext"]))
    assert left is not right
    outputs = [IterationResult({"y": np.array([text], object)}) for text in (left, right)]
    assert outputs[0] == outputs[1]


def test_iterations_cannot_be_hashed() -> None:
    with pytest.raises(TypeError):
        hash(iteration(1))


def test_copies_keep_everything() -> None:
    for again in (copy.copy(iteration(1)), copy.deepcopy(iteration(1))):
        assert again == iteration(1)
        assert (again.runtime, again.runner_name) == (0.5, "r")
        assert type(again) is IterationResult


def test_as_code() -> None:
    text = repr(IterationResult({"y": 1}, 0.5, "r"))
    assert text == "IterationResult({'y': 1}, runtime=0.5, runner_name='r')"


# Runs.


def test_a_run_is_found_by_name_and_by_position() -> None:
    made = results(a=2, b=1)
    assert made.keys() == ["a", "b"]
    assert made["b"] == made[1][1]
    assert made[-1][0] == "b"
    assert [len(iterations) for _, iterations in made.items()] == [2, 1]
    with pytest.raises(UnknownNameError, match=r"Runner 'A'.*'a', 'b'.*Did you mean 'a'"):
        made["A"]


def test_adding_a_run_made_elsewhere() -> None:
    made = RunResults()
    made.add([{"y": np.ones(2)}], runtime=0.25, runner_name="a")
    made.add([{"y": np.zeros(2)}, {"y": np.ones(2)}])
    assert made.keys() == ["a", "custom_runner"]
    assert (made["a"][0].runtime, made["a"][0].runner_name) == (0.25, "a")
    assert [type(it) for it in made["custom_runner"]] == [IterationResult] * 2
    made.add([], runner_name="a")
    assert made.keys() == ["a", "custom_runner"]
    assert made["a"] == []


def test_splitting_gives_one_iteration_each() -> None:
    steps = list(results(a=2, b=2).split())
    assert [step.keys() for step in steps] == [["a", "b"]] * 2
    assert [float(step["b"][0]["y"][0]) for step in steps] == [0, 1]
    assert list(RunResults().split()) == []


def test_splitting_uneven_runs_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'a': 2, 'b': 1"):
        list(results(a=2, b=1).split())


def test_runs_of_one_name_are_kept_apart() -> None:
    twice = RunResults([("a", [iteration(1)]), ("a", [iteration(2)])])
    (step,) = twice.split()
    assert [float(iterations[0]["y"][0]) for _, iterations in step] == [1, 2]
    joined = RunResults.concat([twice, twice])
    assert [[float(it["y"][0]) for it in its] for _, its in joined] == [[1, 1], [2, 2]]


@given(st.lists(names, unique=True, max_size=3), st.integers(0, 4))
def test_joining_undoes_splitting(runners: list[str], count: int) -> None:
    made = results(**dict.fromkeys(runners, count))
    joined = RunResults.concat(made.split())
    assert joined == (made if count else RunResults())


def test_joining_leaves_its_parts_alone() -> None:
    part = results(a=1)
    RunResults.concat([part, part, part])
    assert len(part["a"]) == 1


def test_joining_different_runners_is_refused() -> None:
    with pytest.raises(UsageError, match=r"\['a'\] and \['b'\]"):
        RunResults.concat([results(a=1), results(b=1)])


# Saving, through whatever store is bound.


@pytest.fixture
def store() -> Any:
    with bind(ResultStore, MemoryResultStore()) as bound:
        yield bound


def test_results_are_saved_and_loaded(store: MemoryResultStore) -> None:
    made = results(a=2, b=2)
    made.save("results.json")
    assert RunResults.load("results.json") == made
    assert RunResults.from_json(made.to_json()) == made
    file = io.BytesIO()
    made.save(file)
    assert RunResults.load(file) == made


def test_loading_what_is_not_there_or_something_else(store: MemoryResultStore) -> None:
    with pytest.raises(FileError):
        RunResults.load("nothing.json")
    store.save({"x": np.ones(1)}, "inputs.json")
    with pytest.raises(FileError):
        RunResults.load("inputs.json")


def test_results_are_loaded_one_iteration_at_a_time(store: MemoryResultStore) -> None:
    results(a=2, b=2).save("results.json")
    steps = list(RunResults.load_streaming("results.json"))
    assert RunResults.concat(steps) == results(a=2, b=2)
    assert all(len(iterations) == 1 for step in steps for _, iterations in step)


def test_a_folder_may_be_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        RunResults.load_streaming(tmp_path, allow_dirs=False)
