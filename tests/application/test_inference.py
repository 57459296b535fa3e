from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from polygraphy import termination
from polygraphy.adapters.fake import (
    FakeRunner,
    FollowedJob,
    MemoryResultStore,
    RecordingConsole,
    RecordingProgress,
)
from polygraphy.application.run.inference import run_sequentially, stream
from polygraphy.binding import bind
from polygraphy.domain.data.loading import StreamingDataLoader
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import BackendError, FileError, InputError, UsageError
from polygraphy.domain.results.results import DeviceTimes, IterationResult, RunResults
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.ports.reporting import Console, Progress
from polygraphy.ports.running import Runner
from tests.application.runs import INPUTS, counting_up, doubler, feed, values

Run = Callable[..., RunResults]


def streamed(runners: list[Any], data: Any, **how: Any) -> RunResults:
    return RunResults.concat(stream(runners, data, **how))


WAYS: dict[str, Run] = {"streaming": streamed, "in sequence": run_sequentially}


@pytest.fixture(params=WAYS)
def run(request: pytest.FixtureRequest) -> Run:
    """Give each way of running models; both return all results."""
    return WAYS[request.param]


def assert_inactive(*runners: Runner) -> None:
    assert not any(runner.is_active for runner in runners)


# What both ways promise.


def test_every_runner_gets_all_data(run: Run) -> None:
    made = run([doubler("a"), doubler("b")], counting_up(3))
    assert values(made) == {"a": [[0], [2], [4]], "b": [[0], [2], [4]]}
    for name, iterations in made:
        assert [(it.runner_name, it.runtime) for it in iterations] == [(name, 1e-3)] * 3
        assert all(type(it) is IterationResult for it in iterations)


def test_runners_see_identical_data_although_the_loader_is_not_seeded(run: Run) -> None:
    class Unseeded:
        def __iter__(self) -> Iterator[dict[str, Any]]:
            return (feed(*np.random.random_sample(4)) for _ in range(3))

    first, second = doubler("a"), doubler("b")
    run([first, second], Unseeded())
    assert len(first.feeds) == len(second.feeds) == 3
    for one, other in zip(first.feeds, second.feeds):
        np.testing.assert_array_equal(one["x"], other["x"], strict=True)
    assert first.feeds[0]["x"].tolist() != first.feeds[1]["x"].tolist()


def test_a_loader_may_reuse_its_buffer(run: Run) -> None:
    buffer = feed(0)

    def reusing() -> Iterator[dict[str, Any]]:
        for index in range(3):
            buffer["x"][:] = index
            yield buffer

    made = run([doubler("a"), doubler("b")], reusing())
    assert values(made) == {"a": [[0], [2], [4]], "b": [[0], [2], [4]]}


def test_a_runner_may_reuse_its_buffers(run: Run) -> None:
    made = run([doubler("a", reuse_buffers=True)], counting_up(3))
    assert values(made) == {"a": [[0], [2], [4]]}


def test_a_runner_that_says_nothing_about_its_buffers_is_not_trusted(run: Run) -> None:
    runner = doubler("a", reuse_buffers=True)
    del runner.outputs_are_fresh
    assert values(run([runner], counting_up(2))) == {"a": [[0], [2]]}


def test_fresh_outputs_are_not_copied(run: Run) -> None:
    given = []

    class Fresh(FakeRunner):
        def infer(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            outputs = super().infer(*args, **kwargs)
            given.append(outputs["y"])
            return outputs

    made = run([Fresh({"y": np.ones(3)}, INPUTS, name="a")], [feed(1)])
    assert made["a"][0]["y"] is given[0]


def test_the_loader_learns_what_the_first_model_asks_for(run: Run) -> None:
    made = run([doubler("a"), doubler("b")], DataLoader(iterations=2))
    assert values(made)["a"] == values(made)["b"]
    assert [len(value) for value in values(made)["a"]] == [1, 1]


def test_data_are_fitted_to_every_model(run: Run, console: RecordingConsole) -> None:
    other = TensorMetadata().add("X", np.float16, ["n"])
    double = FakeRunner(lambda given: {"y": given["X"] * 2}, other, name="half")
    made = run([doubler("full"), double], [feed(1, 2), feed(3, 4)])
    assert values(made)["half"] == values(made)["full"] == [[2, 4], [6, 8]]
    notes = [text for (text,) in console.arguments_of("note")]
    assert notes == [
        "half | Input 'X' uses the data named 'x'.",
        "half | Input 'X' was cast from float32 to float16.",
    ]


def test_runners_may_have_one_name(run: Run) -> None:
    made = run([doubler("a"), doubler("a")], counting_up(2))
    assert made.keys() == ["a", "a"]
    assert [[it["y"].tolist() for it in its] for _, its in made] == [[[0], [2]]] * 2


def test_a_runner_that_does_not_measure(run: Run, console: RecordingConsole) -> None:
    made = run([doubler("a", runtime=None)], counting_up(2))
    assert [it.runtime for it in made["a"]] == [None, None]
    assert console.arguments_of("runner_completed") == [("a", [])]


def test_runtimes_are_reported(run: Run, console: RecordingConsole) -> None:
    run([doubler("a", runtime=0.5), doubler("b", runtime=0.25)], counting_up(3))
    assert console.arguments_of("runner_completed") == [("a", [0.5] * 3), ("b", [0.25] * 3)]


def test_inputs_and_outputs_are_described_in_the_first_iteration_only(
    run: Run, console: RecordingConsole
) -> None:
    run([doubler("a")], [{"x": np.array([1.0, 2.0])}, feed(3)])
    ((runner, inputs),) = console.arguments_of("inputs_described")
    assert runner == "a"
    assert str(inputs) == "{x [dtype=float32, shape=(2,)]}"
    ((_, outputs),) = console.arguments_of("outputs_described")
    assert str(outputs) == "{y [dtype=float32, shape=(2,)]}"


def test_runners_are_inactive_afterwards(run: Run) -> None:
    runners = [doubler("a"), doubler("b")]
    run(runners, counting_up(2))
    assert_inactive(*runners)
    for runner in runners:
        assert [what for _, what in runner.events] == ["activate", "infer", "infer", "deactivate"]


def test_runners_can_run_again(run: Run) -> None:
    runners = [doubler("a"), doubler("b")]
    assert values(run(runners, counting_up(1))) == values(run(runners, counting_up(1)))


def test_no_data_are_a_mistake(run: Run) -> None:
    runners = [doubler("a"), doubler("b")]
    empties: list[Any] = [[], iter(()), counting_up(0)]
    for empty in empties:
        with pytest.raises(UsageError, match="data loader is empty"):
            run(runners, empty)
        assert_inactive(*runners)


def test_no_runners_give_no_results(run: Run) -> None:
    assert values(run([], counting_up(2))) == {}


def test_a_loader_that_cannot_begin_complains_before_any_activation(
    run: Run, console: RecordingConsole
) -> None:
    runner = doubler("a")
    with pytest.raises(FileError, match=r"missing\.json"):
        run([runner], StreamingDataLoader("missing.json"))
    assert runner.events == []
    assert console.events == []


def test_a_loader_that_yields_something_else_is_explained(run: Run) -> None:
    runner = doubler("a")
    with pytest.raises(UsageError, match="not ndarray"):
        run([runner], [np.zeros(1)])
    assert_inactive(runner)


def test_data_that_do_not_fit_deactivate_everything(run: Run) -> None:
    runners = [doubler("a"), doubler("b")]
    with pytest.raises(InputError, match="'x'"):
        run(runners, [feed(1), {"x": np.array(["text"])}])
    assert_inactive(*runners)


@pytest.mark.parametrize("error", [None, KeyError("mine"), KeyboardInterrupt()])
@pytest.mark.parametrize("fail_at", [0, 1])
def test_a_failure_deactivates_everything_and_passes(
    run: Run, fail_at: int, error: BaseException | None
) -> None:
    runners = [doubler("a"), doubler("b", fail_at=fail_at, error=error), doubler("c")]
    with pytest.raises(type(error or BackendError(""))):
        run(runners, counting_up(3))
    assert_inactive(*runners)


def test_a_failed_activation_deactivates_what_was_active(run: Run) -> None:
    runners = [doubler("a"), doubler("b", fail_at=-1), doubler("c")]
    with pytest.raises(BackendError, match="b could not load"):
        run(runners, counting_up(1))
    assert_inactive(*runners)
    assert runners[2].events == []


# Saving.


def test_inputs_and_outputs_are_saved(run: Run, store: MemoryResultStore) -> None:
    how = {"save_inputs_path": "inputs.json", "save_outputs_path": "outputs.json"}
    made = run([doubler("a"), doubler("b")], counting_up(2), **how)
    assert RunResults.load("outputs.json") == made
    saved = [given["x"].tolist() for given in StreamingDataLoader("inputs.json")]
    assert saved == [[0], [1]]


def test_a_folder_holds_one_file_per_iteration(run: Run, store: MemoryResultStore) -> None:
    run([doubler("a")], counting_up(2), save_inputs_path="in", save_outputs_path="out")
    assert [given["x"].tolist() for given in StreamingDataLoader("in")] == [[0], [1]]
    steps = list(RunResults.load_streaming("out"))
    assert [values(step) for step in steps] == [{"a": [[0]]}, {"a": [[2]]}]


def test_saved_inputs_are_those_of_the_loader(run: Run, store: MemoryResultStore) -> None:
    run([doubler("a")], [{"data": np.array([1.0])}], save_inputs_path="inputs.json")
    (saved,) = StreamingDataLoader("inputs.json")
    assert list(saved) == ["data"]
    assert saved["data"].dtype == np.float64


def test_nothing_is_saved_after_a_failure(run: Run, store: MemoryResultStore) -> None:
    how = {"save_inputs_path": "inputs.json", "save_outputs_path": "outputs.json"}
    with pytest.raises(BackendError):
        run([doubler("a", fail_at=1)], counting_up(3), **how)
    assert store.values == {}


def test_nothing_is_saved_unless_asked(run: Run, store: MemoryResultStore) -> None:
    run([doubler("a")], counting_up(1))
    assert store.values == {}


# One iteration at a time.


def test_streaming_does_nothing_before_it_is_asked(console: RecordingConsole) -> None:
    def untouched() -> Iterator[dict[str, Any]]:
        raise AssertionError("asked too early")
        yield

    runner = doubler("a", fail_at=-1)
    stream([runner], untouched(), save_outputs_path="outputs.json")
    assert runner.events == []
    assert console.events == []


def test_streaming_takes_turns() -> None:
    events: list[tuple[str, str]] = []
    runners = [doubler("a", events=events), doubler("b", events=events)]
    events.extend(("consumer", str(values(step)["a"])) for step in stream(runners, counting_up(2)))
    assert events == [
        ("a", "activate"), ("b", "activate"),
        ("a", "infer"), ("b", "infer"), ("consumer", "[[0.0]]"),
        ("a", "infer"), ("b", "infer"), ("b", "deactivate"), ("a", "deactivate"),
        ("consumer", "[[2.0]]"),
    ]  # fmt: skip


def test_streaming_is_reported_in_order(console: RecordingConsole) -> None:
    list(stream([doubler("a"), doubler("b")], counting_up(2)))
    reported = [(name, arguments[0]) for name, arguments in console.events]
    assert reported == [
        ("data_chosen", "generator"),
        ("runner_activating", "a"), ("runner_activating", "b"),
        ("iteration_starting", 0),
        ("inputs_described", "a"), ("outputs_described", "a"),
        ("inputs_described", "b"), ("outputs_described", "b"),
        ("iteration_starting", 1),
        ("runner_completed", "a"), ("runner_completed", "b"),
    ]  # fmt: skip


def test_streaming_yields_one_iteration_of_every_runner() -> None:
    steps = list(stream([doubler("a"), doubler("b")], counting_up(2)))
    assert [values(step) for step in steps] == [
        {"a": [[0]], "b": [[0]]}, {"a": [[2]], "b": [[2]]},
    ]  # fmt: skip


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_runners_are_deactivated_when_the_consumer_stops(taken: int) -> None:
    runners = [doubler("a"), doubler("b")]
    steps = stream(runners, counting_up(3))
    for _ in range(taken):
        next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert_inactive(*runners)


def test_runners_are_deactivated_when_the_consumer_fails() -> None:
    runners = [doubler("a"), doubler("b")]
    with pytest.raises(KeyError):
        for _ in stream(runners, counting_up(3)):
            raise KeyError
    assert_inactive(*runners)


def test_the_last_results_are_handed_over_when_all_memory_is_free() -> None:
    runners = [doubler("a"), doubler("b")]
    steps = stream(runners, counting_up(2))
    next(steps)
    assert all(runner.is_active for runner in runners)
    next(steps)
    assert_inactive(*runners)


def test_the_last_results_are_handed_over_when_all_is_saved(store: MemoryResultStore) -> None:
    steps = stream([doubler("a")], counting_up(1), save_outputs_path="outputs.json")
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert RunResults.load("outputs.json").keys() == ["a"]


def test_what_ran_is_saved_when_the_consumer_stops(store: MemoryResultStore) -> None:
    how = {"save_inputs_path": "inputs.json", "save_outputs_path": "outputs.json"}
    steps = stream([doubler("a")], counting_up(5), **how)
    next(steps), next(steps)
    assert store.values == {}
    steps.close()  # type: ignore[attr-defined]
    assert values(RunResults.load("outputs.json")) == {"a": [[0], [2]]}
    assert len(list(StreamingDataLoader("inputs.json"))) == 2


def test_nothing_is_saved_when_ctrl_c_was_pressed_between_two_iterations(
    store: MemoryResultStore,
) -> None:
    steps = stream([doubler("a")], counting_up(5), save_outputs_path="outputs.json")
    next(steps)
    with pytest.raises(KeyboardInterrupt):
        termination.interrupt_program(2, None)
    steps.close()  # type: ignore[attr-defined]
    assert store.values == {}


def test_nothing_is_saved_when_the_consumer_throws(store: MemoryResultStore) -> None:
    steps = stream([doubler("a")], counting_up(5), save_outputs_path="outputs.json")
    next(steps)
    with pytest.raises(KeyError):
        steps.throw(KeyError)  # type: ignore[attr-defined]
    assert store.values == {}


class Alive:
    """Counts how many of the arrays that it was shown are still in memory."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[Any]] = []
        self.most = 0

    def show(self, array: Any) -> None:
        self._references.append(weakref.ref(array))

    def count(self) -> int:
        self.most = max(self.most, sum(ref() is not None for ref in self._references))
        return self.most


class Watched(FakeRunner):
    """Counts the outputs in memory before it adds another."""

    def __init__(self, alive: Alive, name: str, **how: Any) -> None:
        super().__init__(
            lambda given: {"y": given["x"] * 2}, INPUTS, name=name, keep_feeds=False, **how
        )
        self._alive = alive

    def infer(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self._alive.count()
        outputs = super().infer(*args, **kwargs)
        self._alive.show(outputs["y"])
        return outputs


@pytest.fixture
def _forgetful_console() -> Iterator[None]:
    with bind(Console, RecordingConsole(keep_arguments=False)):
        yield


@pytest.mark.usefixtures("_forgetful_console")
@pytest.mark.parametrize("iterations", [3, 30])
def test_the_memory_that_streaming_needs_does_not_grow(iterations: int) -> None:
    outputs, inputs = Alive(), Alive()

    def shown() -> Iterator[dict[str, Any]]:
        for index in range(iterations):
            inputs.count()
            data = feed(index)
            inputs.show(data["x"])
            yield data
            del data

    for step in stream([Watched(outputs, "a"), Watched(outputs, "b")], shown()):
        assert len(step) == 2
        del step
    assert outputs.count() <= 3
    assert inputs.count() <= 2


@pytest.mark.usefixtures("_forgetful_console")
def test_one_iteration_is_gone_before_the_next_begins() -> None:
    alive = Alive()
    for step in stream([Watched(alive, "a")], counting_up(5)):
        del step
    assert alive.count() == 0


# One runner after the other.


def test_runners_follow_each_other() -> None:
    events: list[tuple[str, str]] = []
    run_sequentially([doubler("a", events=events), doubler("b", events=events)], counting_up(2))
    assert events == [
        (name, what) for name in "ab" for what in ("activate", "infer", "infer", "deactivate")
    ]


def test_a_sequence_is_reported_in_order(console: RecordingConsole) -> None:
    run_sequentially([doubler("a"), doubler("b")], counting_up(2))
    reported = [(name, arguments[0]) for name, arguments in console.events]
    assert reported.pop(0) == ("data_chosen", "generator")
    assert reported == [
        (event, name)
        for name in "ab"
        for event in (
            "runner_activating", "inputs_described", "outputs_described", "runner_completed",
        )
    ]  # fmt: skip


def test_warming_up_runs_the_first_iteration_beforehand_untimed(console: RecordingConsole) -> None:
    first, second = doubler("a", runtime=0.5), doubler("b", runtime=0.5)
    made = run_sequentially([first, second], counting_up(2), warm_up=3)
    for runner in (first, second):
        assert [data["x"].tolist() for data in runner.feeds] == [[0]] * 4 + [[1]]
    assert values(made)["b"] == [[0], [2]]
    assert console.arguments_of("runner_completed") == [("a", [0.5] * 2), ("b", [0.5] * 2)]


class _Measured(FakeRunner):
    """A runner whose device says how long its n-th inference took: n seconds of computation."""

    count = 0

    def last_device_times(self) -> DeviceTimes | None:
        self.count += 1
        return DeviceTimes(0.25, float(self.count), 0.5)


def test_what_the_device_measured_is_reported_when_a_runner_is_done(
    console: RecordingConsole,
) -> None:
    outputs = feed(1)
    list(stream([_Measured({"y": outputs["x"]}, INPUTS, name="a"), doubler("b")], counting_up(2)))
    [(name, times)] = console.arguments_of("device_times_measured")
    assert (name, [each.compute for each in times]) == ("a", [1.0, 2.0])
    assert times[1].total == 2.75
    console.events.clear()
    run_sequentially([_Measured({"y": outputs["x"]}, INPUTS, name="a")], counting_up(2), warm_up=3)
    [(_, times)] = console.arguments_of("device_times_measured")
    assert [each.compute for each in times] == [4.0, 5.0]  # Without those of warming up.


def test_data_are_asked_for_once() -> None:
    asked = []

    def counted() -> Iterator[dict[str, Any]]:
        for index in range(2):
            asked.append(index)
            yield feed(index)

    run_sequentially([doubler("a"), doubler("b"), doubler("c")], counted())
    assert asked == [0, 1]


# Who watches sees how far a run is.


def test_progress_is_reported_with_the_number_of_iterations_where_that_is_known() -> None:
    with bind(Progress, RecordingProgress()) as progress:
        streamed([doubler("a"), doubler("b")], list(counting_up(3)))
        streamed([doubler("a")], iter(list(counting_up(2))))
        run_sequentially([doubler("a"), doubler("b")], iter(list(counting_up(2))), warm_up=5)
    assert progress.jobs == [
        FollowedJob("Running", 3, 3, True),
        FollowedJob("Running", None, 2, True),
        FollowedJob("a", 2, 2, True),
        FollowedJob("b", 2, 2, True),
    ]


def test_progress_ends_with_a_run_that_is_left() -> None:
    with bind(Progress, RecordingProgress()) as progress:
        run = stream([doubler("a")], list(counting_up(3)))
        next(run)
        run.close()  # type: ignore[attr-defined]
    assert progress.jobs == [FollowedJob("Running", 3, 1, True)]


class OnDevice(FakeRunner):
    """A runner on a device."""

    uses_device = True


@pytest.mark.parametrize("count", [1, 2])
def test_a_device_loads_before_what_is_timed_unless_there_is_only_one_iteration(
    run: Run, console: RecordingConsole, count: int
) -> None:
    device = OnDevice(lambda fed: {"y": fed["x"]}, INPUTS, name="device")
    made = run([device, doubler("cpu")], DataLoader(iterations=count))
    assert len(device.feeds) == (1 if count == 1 else 3)
    assert len(made["device"]) == count
    assert len(console.arguments_of("runner_completed")[0][1]) == count
    assert console.arguments_of("loading_included") == ([("device",)] if count == 1 else [])
