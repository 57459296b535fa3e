"""Running a model layer by layer: of functions here, one tensor each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake import MemoryResultStore, RecordingConsole
from polygraphy.application.compare.comparator import Comparator
from polygraphy.application.run.inference import stream
from polygraphy.binding import bind
from polygraphy.domain.compare import SimpleCompareFunc
from polygraphy.domain.errors import CheckFailedError, InputError, UnknownNameError, UsageError
from polygraphy.domain.results.postprocess import TopKPostprocessFunc
from polygraphy.domain.results.results import RunResults
from polygraphy.ports.editing import open_layered
from polygraphy.ports.machine import free_memory, release_memory
from tests.application.runs import counting_up
from tests.support.layered_chain import NAMES, SIZE, Chain, Opened, Workshop


class SmallMachine:
    """Has memory for tensors of `free` bytes, of which a quarter is taken."""

    def __init__(self, free: int = 0) -> None:
        self.free = free
        self.released = 0

    def free_memory(self) -> int:
        return self.free

    def release_memory(self) -> None:
        self.released += 1


@pytest.fixture(autouse=True)
def machine() -> Iterator[SmallMachine]:
    made = SmallMachine()
    with bind(free_memory, made.free_memory), bind(release_memory, made.release_memory):
        yield made


@pytest.fixture(autouse=True)
def _model() -> Iterator[None]:
    with bind(open_layered, Opened(Chain())):
        yield


def run(*makers: Any, iterations: int = 1, budget: int | None = SIZE * 4, **how: Any) -> Any:
    how.setdefault("unmarked", False)
    return Comparator.run_layerwise(
        makers, "model.onnx", counting_up(iterations), memory_budget=budget, **how
    )


def test_every_layer_is_made_and_computed_once_whatever_the_budget() -> None:
    for budget, parts in ((0, 4), (SIZE * 4, 3), (SIZE * 8, 1)):
        a, b = Workshop("a"), Workshop("b")
        found = list(run(a, b, budget=budget))
        assert len(found) == parts
        assert [name for model in a.made for name in model] == list(NAMES) and a.made == b.made
        values = {name: array.tolist() for step in found for name, array in step["a1"][0].items()}
        assert values == {"t0": [1], "t1": [2], "t2": [3], "t3": [4]}


def test_parts_become_one_iteration_again() -> None:
    (found,) = Comparator.compare_accuracy(
        run(Workshop("a"), Workshop("b"), budget=0, iterations=2)
    )
    [(pair, iterations)] = found.items()
    assert pair == ("a1", "b1"), "runners keep the name of the first segment"
    assert [list(answers) for answers in iterations] == [list(NAMES)] * 2
    assert found


def test_differences_are_carried_along(console: RecordingConsole) -> None:
    verdicts = Comparator.compare_accuracy(run(Workshop("a", 1.5), Workshop("b"), budget=0))
    [(_, [answers])] = verdicts[0].items()
    assert [answers[name].max_absdiff for name in NAMES] == [0.5, 1.0, 1.5, 2.0]
    [(segments, tensors, budget)] = console.arguments_of("segments_planned")
    assert (segments, tensors, budget) == (4, 4, 0)
    assert [name for name in console.names() if name == "comparison_starting"] != []
    assert console.names().count("comparison_starting") == 1
    assert [pair.iteration for (pair,) in console.arguments_of("iteration_compared")] == [0] * 4
    assert [len(times) for _, times in console.arguments_of("runner_completed")] == [1, 1]


def test_a_quarter_of_the_free_memory_is_taken(machine: SmallMachine) -> None:
    machine.free = 4 * 4 * SIZE - 1
    assert len(list(run(Workshop("a"), budget=None))) > 1
    machine.free = 4 * 4 * SIZE
    assert len(list(run(Workshop("a"), budget=None))) == 1


def test_one_segment_is_loaded_at_a_time(machine: SmallMachine) -> None:
    a = Workshop("a")
    list(run(a, budget=0))
    assert a.most_active == 1
    assert machine.released == 4
    assert not any(runner.is_active for runner in a.runners)


def test_segments_stay_loaded_for_further_iterations_where_their_weights_fit() -> None:
    a = Workshop("a")
    list(run(a, budget=0, iterations=3))
    assert len(a.made) == 4, "these have no weights"
    with bind(open_layered, Opened(Chain(weight=50))):
        for budget, made in ((399, 12), (400, 4)):
            a = Workshop("a")
            assert len(list(run(a, budget=budget, iterations=3))) > 3
            assert len(a.made) == (made if budget == 400 else 3 * len(set(a.made)))
            assert not any(runner.is_active for runner in a.runners)


def test_weights_in_memory_count_against_the_budget() -> None:
    mebi = 1 << 20  # Six copies of 16 MiB in each of four layers, of which 64 - 32 are free.
    for resident, budget, parts in ((0, 353, 1), (0, 351, 2), (1, 385, 1), (1, 383, 2)):
        with bind(open_layered, Opened(Chain(weight=16 * mebi, resident_weights=resident))):
            assert len(list(run(Workshop("a"), budget=budget * mebi))) == parts


def test_only_what_is_compared_is_handed_out() -> None:
    found = list(run(Workshop("a"), budget=0, exclude_outputs=["t0", "t2"]))
    assert [list(step["a1"][0]) for step in found] == [["t1"], ["t3"]]
    assert [step["a1"][0].part.index for step in found] == [0, 1]
    assert found[1]["a1"][0]["t3"].tolist() == [4]
    found = list(run(Workshop("a"), budget=2 * SIZE, exclude_outputs=["t0"]))
    assert list(found[0]["a1"][0]) == ["t1"], "t0 is only handed on"


def test_a_segment_that_is_not_compared_at_the_end_is_not_run() -> None:
    a = Workshop("a")
    list(run(a, budget=0, exclude_outputs=["t2", "t3"]))
    assert a.made == [("t0",), ("t1",)]


def test_settings_may_name_outputs_of_any_part() -> None:
    def compared(name: str) -> bool:
        function = SimpleCompareFunc(atol={name: 3.0, "": 0.6})
        steps = run(Workshop("a", 1.5), Workshop("b"), budget=0, exclude_outputs=["t1", "t2"])
        return bool(Comparator.compare_accuracy(steps, compare_func=function))

    assert compared("t3")
    assert not compared("t0")
    with pytest.raises(UnknownNameError, match="'t9' does not exist"):
        compared("t9")


def test_parts_are_postprocessed_and_validated() -> None:
    steps = run(Workshop("a"), Workshop("b", np.nan), budget=0)
    steps = Comparator.validate(Comparator.postprocess(steps, TopKPostprocessFunc({"t3": 1})))
    with pytest.raises(CheckFailedError, match=r"in iteration 0\."):
        Comparator.compare_accuracy(steps)
    with pytest.raises(UnknownNameError):
        list(Comparator.postprocess(run(Workshop("a"), budget=0), TopKPostprocessFunc({"u": 1})))


def test_after_the_first_failure_nothing_more_is_run() -> None:
    a, b = Workshop("a", 1.5), Workshop("b")
    steps = run(a, b, budget=0, iterations=3)
    assert not Comparator.compare_accuracy(steps, fail_fast=True)
    assert a.made == [("t0",)]
    assert not any(runner.is_active for runner in a.runners)


def test_input_data_are_saved(store: MemoryResultStore) -> None:
    list(run(Workshop("a"), budget=0, iterations=2, save_inputs_path="inputs.json"))
    assert [feed["x"].tolist() for feed in store.iterate("inputs.json", dict)] == [[0], [1]]


def test_input_data_are_saved_as_bare_bytes(tmp_path: Path) -> None:
    list(run(Workshop("a"), budget=0, iterations=2, save_input_blob_path=str(tmp_path)))
    saved = [path.read_bytes() for path in sorted(tmp_path.glob("*/x.bin"))]
    assert saved == [np.float32([index]).tobytes() for index in range(2)]


def test_what_was_computed_coarsely_before_stays_coarse() -> None:
    found = list(run(Workshop("a"), budget=0))
    assert found[1]["a1"][0].compute_dtype("t0") == "float16"


def test_mistakes() -> None:
    with pytest.raises(UsageError, match="No runner"):
        list(run())
    with pytest.raises(UsageError, match="no input data"):
        list(run(Workshop("a"), iterations=0))
    with pytest.raises(InputError, match="not found in the data: 'x'"):
        list(Comparator.run_layerwise([Workshop("a")], "model.onnx", [{}], memory_budget=0))


def test_a_whole_run_and_one_in_parts_give_the_same() -> None:
    whole = Comparator.compare_accuracy(
        stream([Workshop("a", 1.5)(NAMES), Workshop("b")(NAMES)], counting_up(2))
    )
    parts = Comparator.compare_accuracy(
        run(Workshop("a", 1.5), Workshop("b"), budget=0, iterations=2)
    )
    for one, other in zip(whole[0].outputs(), parts[0].outputs(), strict=True):
        assert one[:3] == other[:3]
        assert one[3].metric_values() == other[3].metric_values()


# What is kept of a comparison.


def test_the_worst_outputs_are_saved(store: MemoryResultStore) -> None:
    steps = run(Workshop("a", 1.5), Workshop("b"), budget=0, iterations=2)
    Comparator.compare_accuracy(steps, save_worst=2, save_worst_path="bad.safetensors")
    saved = store.load("bad.safetensors", RunResults)
    assert saved.keys() == ["a1", "b1"]
    assert {name: array.tolist() for name, array in saved["a1"][0].items()} == {
        "t3": [6.0],
        "t2": [4.5],
    }
    assert saved["b1"][0]["t3"].tolist() == [4.0]


def test_a_failure_is_worse_than_a_close_call(store: MemoryResultStore) -> None:
    steps = run(Workshop("a", 1.5), Workshop("b"))
    function = SimpleCompareFunc(atol={"t0": 0.1, "": 2.0})
    Comparator.compare_accuracy(steps, compare_func=function, save_worst=1)
    assert list(store.load("worst.safetensors", RunResults)["a1"][0]) == ["t0"]


def test_a_failure_without_a_metric_is_worse_than_any_pass(store: MemoryResultStore) -> None:
    def compare(outputs0: Any, outputs1: Any) -> dict[str, bool]:
        return {name: name != "t2" for name in outputs0}

    Comparator.compare_accuracy(
        run(Workshop("a"), Workshop("b"), budget=0), compare_func=compare, save_worst=1
    )
    assert list(store.load("worst.safetensors", RunResults)["a1"][0]) == ["t2"]


def test_at_least_one_output_is_saved() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        Comparator.compare_accuracy(run(Workshop("a"), Workshop("b")), save_worst=-1)
