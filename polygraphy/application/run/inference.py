"""Runs models in several backends on the same data, and takes results iteration by iteration,
wherever they come from.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Union, cast

import numpy as np
from attrs import Factory, define

from polygraphy.application.run.feeding import (
    Feed,
    Feeds,
    InputAdapter,
    facts_of,
    last_device_times,
    promises,
)
from polygraphy.binding import resolve
from polygraphy.domain.calling import optional_method
from polygraphy.domain.data.loading import own_copy
from polygraphy.domain.errors import BackendError, PolygraphyException, UsageError
from polygraphy.domain.ports import ResultStore, ResultWriter, blob_writer
from polygraphy.domain.results.results import (
    DeviceTimes,
    IterationResult,
    RunResults,
    is_same_array,
    kind_of_runner,
)
from polygraphy.domain.states.memory import StateMemory, StepFeed
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.shapes import describe_contradiction
from polygraphy.logger import G_LOGGER, LogMode
from polygraphy.ports.diagnosing import NarrowModels
from polygraphy.ports.reporting import Console, Progress
from polygraphy.ports.running import Runner, RunnerExtras, call_isolated
from polygraphy.termination import count_interrupts

if TYPE_CHECKING:
    from polygraphy.application.run.profiling import ProfileNodes

Runs = Union[RunResults, Iterable[RunResults], Sequence[RunResults | Iterable[RunResults]]]
Run = tuple[str, "IterationResult | None"]
"""Name of a runner, and its outputs; None if it has no such iteration."""

Step = list[Run]


def iterations_of(run_results: Runs) -> Generator[Step, None, None]:
    """Yield, by iteration, name and outputs of every run; None for runs that have ended.
    Closing it closes its sources.

    Runs are identified by position, because names in later iterations may come from runners in
    other processes.

    Raises:
        UsageError: the iterations of a stream have runs of different runners.
    """
    is_joined = isinstance(run_results, list) and not isinstance(run_results, RunResults)
    sources: Any = run_results if is_joined else [run_results]
    lanes = [_source_steps(source) for source in sources]
    known_lanes: list[list[str]] = [[] for _ in lanes]
    try:
        while (step := _next_step(lanes, known_lanes)) is not None:
            yield step
            del step
    finally:
        for source in sources:
            if isinstance(source, Generator):
                source.close()


def _next_step(lanes: Sequence[Iterator[Step]], known_names: list[list[str]]) -> Step | None:
    """Return the next iteration of every lane, None if all have ended.
    `known_names` are the names in lanes that ended."""
    parts = [next(lane, None) for lane in lanes]
    if parts.count(None) == len(parts):
        return None
    step: Step = []
    for names, part in zip(known_names, parts):
        if part is not None:
            runner_names = [run[0] for run in part]
            if names and names != runner_names and _kinds(names) != _kinds(runner_names):
                raise UsageError(
                    "The iterations of a stream have different runners: one has"
                    f" {', '.join(runner_names) or 'none'}, earlier ones {', '.join(names)}.",
                    hint="Compare iterations of the same runners, in the same order.",
                )
            names[:] = names or runner_names
        step += part if part is not None else [(name, None) for name in names]
    return step


def _kinds(names: Sequence[str]) -> list[str]:
    """Return the runners' names without their numbers and times."""
    return [kind_of_runner(name) for name in names]


def _source_steps(source: RunResults | Iterable[RunResults]) -> Iterator[Step]:
    """Yield the iterations of all runs of one source together, to the end of the longest run."""
    if isinstance(source, RunResults):
        for index in range(max((len(iterations) for _, iterations in source), default=0)):
            yield [(name, its[index] if index < len(its) else None) for name, its in source]
        return
    stream = iter(source)
    while (results := next(stream, None)) is not None:
        if isinstance(results, RunResults) and not results:
            yield []
        else:
            yield from _source_steps(results)
        del results


def was_interrupted(stop: GeneratorExit, interrupts: int) -> bool:
    """Return whether a stream is closed because the program ends (Ctrl-C or a signal), and not
    because its consumer stops early.

    Args:
        stop: the function that closes it.
        interrupts: the number of times that ctrl-C had been pressed when it began. An exception
            that was raised outside of the stream is not always in the context of what closes it.
    """
    if count_interrupts() > interrupts:
        return True
    reason: BaseException | None = stop
    # If an interrupt closed the generators, it is the context of the first GeneratorExit.
    while isinstance(reason, GeneratorExit):
        reason = reason.__context__
    return isinstance(reason, (KeyboardInterrupt, SystemExit))


@define
class _RunnerState:
    """An active runner with its state during a run."""

    runner: Runner
    fit: InputAdapter
    keep: Callable[[Any], Any]
    facts: Facts
    runtimes: array[float] = Factory(lambda: array("d"))
    device_times: list[DeviceTimes] = Factory(list)
    is_streaming: bool = False
    uses_device: bool = False
    includes_loading: bool = False
    memory: StateMemory = Factory(StateMemory)
    profiling: ProfileNodes | None = None
    _parts: dict[int, tuple[InputAdapter, Facts]] = Factory(dict)
    _roughly: dict[tuple[int, str], Callable[[Feed], Sequence[Mapping[str, Any]]]] = Factory(dict)
    _moved: tuple[Feed, str, Sequence[Mapping[str, Any]]] | None = None

    def infer(self, feed: Feed) -> IterationResult:
        """Return the outputs of one inference, with its time and the facts about the model."""
        fed = self.memory.complete(feed)
        fit, facts = self.adapter_and_facts(fed)
        if self.profiling is not None:
            self.profiling.note_feed(self.runner, fit(fed))
        outputs = self.runner.infer(fit(fed), check_inputs=False)
        runtime = self.runner.last_inference_time()
        if runtime is not None:
            self.runtimes.append(runtime)
        measured = last_device_times(self.runner)
        if measured is not None:
            self.device_times.append(measured)
        copied = self._copy_outputs(outputs)
        if isinstance(feed, StepFeed):
            copied = feed.rename_outputs(copied)
        kept_values = self.memory.keep(feed, fed, copied, self.runner.name)
        iteration_result = IterationResult(kept_values, runtime, self.runner.name, facts=facts)
        if isinstance(feed, StepFeed):
            iteration_result.step = feed.step
        if self.is_streaming:
            iteration_result.perturb = partial(self._perturb, fed, facts)
        unmarked = getattr(outputs, "unmarked_outputs", None)
        if unmarked:
            iteration_result.unmarked_outputs = self._copy_outputs(unmarked)
        if marked := getattr(outputs, "marked", None):
            iteration_result.marked_outputs = self._select_changed(marked, outputs)
        return iteration_result

    def adapter_and_facts(self, feed: Feed) -> tuple[Callable[[Feed], Feed], Facts]:
        """Return the function that fits data to the runner, and the facts about its model.
        Of a runner with parts, it is the part that accepts the data.
        """
        choose = optional_method(self.runner, RunnerExtras.runner_of)
        runner = self.runner if choose is None else choose(feed)
        if runner is self.runner:
            return self.fit, self.facts
        if id(runner) not in self._parts:
            self._parts[id(runner)] = InputAdapter(runner, resolve(Console)), facts_of(runner)
        return self._parts[id(runner)]

    def _perturb(self, feed: Feed, facts: Facts, dtype: str) -> Sequence[Mapping[str, Any]]:
        """Return the outputs perturbed by rounding to a data type; empty if unknown."""
        source, narrow = getattr(facts, "source", None), self._roughly.get((id(facts), dtype))
        if self._moved is None or self._moved[0] is not feed or self._moved[1] != dtype:
            self._moved = feed, dtype, []
            try:
                if source is not None and narrow is None:
                    narrow = resolve(NarrowModels).perturbed_function(source, dtype)
                    self._roughly = {(id(facts), dtype): narrow}
                if narrow is not None:
                    self._moved = feed, dtype, narrow(self.adapter_and_facts(feed)[0](feed))
            except PolygraphyException as error:
                G_LOGGER.verbose(f"The accumulated rounding is unknown: {error}")
        return self._moved[2]

    def _copy_outputs(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return copies of outputs, if the runner may overwrite them."""
        if self.keep is _as_is:
            return outputs
        return {name: self.keep(array) for name, array in outputs.items()}

    def _select_changed(
        self, marked: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return copies of the outputs that differ from those of the unmodified model."""
        return self._copy_outputs(
            {
                name: output
                for name, output in marked.items()
                if isinstance(output, np.ndarray) and not is_same_array(output, outputs[name])
            }
        )

    def warm_up(self, feed: Feed, times: int) -> None:
        """Run several times without recording measurements."""
        for _ in range(times):
            self.infer(feed)
        self.runtimes = array("d")
        self.device_times.clear()

    def load_device(self, feed: Feed, iterations: int | None) -> None:
        """Run once before timing, so that the device loads libraries and kernels;
        not for a single iteration.
        """
        if self.uses_device and iterations != 1:
            self.warm_up(feed, 1)
        self.includes_loading = self.uses_device and iterations == 1

    def report_completion(self, console: Console) -> None:
        """Report that all iterations ran."""
        console.runner_completed(self.runner.name, self.runtimes)
        if self.includes_loading and self.runtimes:
            console.loading_included(self.runner.name)
        if self.device_times:
            console.device_times_measured(self.runner.name, self.device_times)


def stream(
    runners: Sequence[Runner],
    data_loader: Iterable[Feed],
    *,
    save_inputs_path: str | None = None,
    save_outputs_path: str | None = None,
    save_input_blob_path: str | None = None,
    profiling: ProfileNodes | None = None,
) -> Iterator[RunResults]:
    """Yield the outputs of all runners, one iteration at a time, to limit memory.

    Nothing runs before the first result is requested. Runners are active from then until the last
    iteration has run.

    Args:
        runners: each is activated, fed and deactivated.
        data_loader: yields one feed dictionary per iteration; asked once, so all runners see the
            same data.
        save_inputs_path: path for the feed dictionaries: a file, or without extension a
            folder.
        save_outputs_path: the same for the results.
        save_input_blob_path: a folder where the feed dictionaries are saved as bare bytes.
        profiling: measures the nodes of the runners after the last iteration.

    Yields:
        One RunResults per iteration, with one iteration of each runner.

    Raises:
        UsageError: there are no data.
    """
    console = resolve(Console)
    interrupts = count_interrupts()
    # A loader of files reports errors here, before everything else.
    feeds = Feeds(data_loader, console)
    with ExitStack() as saving:
        save_feed = feed_writer(saving, save_inputs_path, save_input_blob_path)
        save_results = _writer(saving, save_outputs_path, RunResults)
        with ExitStack() as active:
            states = [_activate_runner(active, runner, console) for runner in runners]
            for state in states:
                state.is_streaming, state.profiling = True, profiling
            feeds.describe_model_inputs(runners, may_be_none=True)
            if feeds.is_load_only:
                feeds.report_load_only()
                return
            for state in states:
                state.load_device(feeds.current, feeds.total)
            step = active.enter_context(resolve(Progress).follow("Running", feeds.total))
            index = 0
            while True:
                console.iteration_starting(index)
                save_feed(feeds.current)
                results = _one_iteration(states, feeds.current, console, is_first=index == 0)
                save_results(results)
                step()
                index += 1
                if not feeds.advance():
                    break
                try:
                    yield results
                # The consumer stopped early: keep the finished iterations.
                except GeneratorExit as stop:
                    if was_interrupted(stop, interrupts):
                        raise
                    return
                del results  # Release this iteration before the next one runs.
            if profiling is not None:
                profiling.measure()
    # Return the last results after memory is released and files are complete.
    for state in states:
        state.report_completion(console)
    yield results


def run_sequentially(
    runners: Sequence[Runner],
    data_loader: Iterable[Feed],
    *,
    warm_up: int = 0,
    isolated: bool = False,
    timeout: float | None = None,
    save_inputs_path: str | None = None,
    save_outputs_path: str | None = None,
    save_input_blob_path: str | None = None,
    profiling: ProfileNodes | None = None,
) -> RunResults:
    """Return the results of all runners, run one after another on all data.

    Args:
        runners: each is activated, fed and deactivated before the next one starts.
        data_loader: yields one feed dictionary per iteration; its data are kept for the next
            runner.
        warm_up: the number of untimed runs of the first iteration beforehand.
        isolated: whether each runner has a process of its own, so that the others survive its
            crash.
        timeout: time limit in seconds.
        save_inputs_path: path for the feed dictionaries: a file, or without extension a
            folder.
        save_outputs_path: the same for the results.
        save_input_blob_path: a folder where the feed dictionaries are saved as bare bytes.
        profiling: measures the nodes of each runner at the end of its turn.

    Raises:
        UsageError: there are no data.
        BackendError: an isolated runner failed; raised when the others have run and the results of
            those are saved.
    """
    console = resolve(Console)
    feeds = Feeds(data_loader, console)
    cached: list[Feed] = []
    results = RunResults()
    failed: list[str] = []
    with ExitStack() as saving:
        save_feed = feed_writer(saving, save_inputs_path, save_input_blob_path)
        save_results = _writer(saving, save_outputs_path, RunResults)
        for runner in runners:
            try:
                if isolated:
                    console.runner_activating(runner.name)
                    turn = partial(_record_turn, runner, feeds, cached, warm_up)
                    new_turn, events = _run_isolated(turn, runner.name, timeout)
                    for event, facts in events:
                        getattr(console, event)(*facts)
                else:
                    new_turn = _one_turn(runner, feeds, cached, console, warm_up, profiling)
            except BackendError as error:
                if not isolated:
                    raise
                console.runner_failed(runner.name, str(error))
                failed.append(runner.name)
                continue
            results.append((runner.name, new_turn.iterations))
            cached = new_turn.feeds or cached
        if feeds.is_load_only:
            feeds.report_load_only()
        if failed and not results:
            # Raise before anything is saved, so that files of an earlier run remain.
            raise _runners_error(failed, len(runners))
        for feed in cached:
            save_feed(feed)
        for step in results.split() if save_outputs_path else ():
            save_results(step)
    if failed:
        raise _runners_error(failed, len(runners))
    return results


def _runners_error(failed: Sequence[str], count: int) -> BackendError:
    """Return the BackendError that lists the runners that failed."""
    return BackendError(
        f"{len(failed)} of {count} runners failed: {', '.join(failed)}.",
        hint="The others completed." if len(failed) < count else "",
    )


@define
class _Turn:
    """The result of running one runner: its outputs, and the data if they were unknown before."""

    iterations: list[IterationResult]
    feeds: list[Feed]


_Events = list[tuple[str, tuple[Any, ...]]]
"""Methods of a console, and their arguments."""


class _EventConsole:
    """A console that records events in a process without a terminal."""

    def __init__(self) -> None:
        """Create a console without events."""
        self.events: _Events = []

    def __getattr__(self, event: str) -> Callable[..., None]:
        """Return a function that records the event of this name."""
        return lambda *facts: self.events.append((event, facts))


def _record_turn(
    runner: Runner, feeds: Feeds, cached: list[Feed], warm_up: int
) -> tuple[_Turn, _Events]:
    """Return the results of one runner, and its events for the console of the parent process."""
    recording = _EventConsole()
    console = cast("Console", recording)
    with feeds.report_to(console):
        turn = _one_turn(runner, feeds, cached, console, warm_up)
    return turn, [event for event in recording.events if event[0] != "runner_activating"]


def _run_isolated(
    turn: Callable[[], tuple[_Turn, _Events]], runner: str, timeout: float | None
) -> tuple[_Turn, _Events]:
    """Return the result of a turn, run in a separate process."""
    try:
        return call_isolated(turn, what=runner, timeout=timeout)
    except PolygraphyException:
        raise
    except Exception as error:  # A defect in a runner also counts as a crash of that runner only.
        raise BackendError(f"{type(error).__name__}: {error}") from error


def _one_turn(
    runner: Runner,
    feeds: Feeds,
    cached: list[Feed],
    console: Console,
    warm_up: int,
    profiling: ProfileNodes | None = None,
) -> _Turn:
    """Return the results of one runner on all data; the first turn reads them from the loader."""
    fresh: list[Feed] = []
    with ExitStack() as active:
        state = _activate_runner(active, runner, console)
        state.profiling = profiling
        if not cached:
            feeds.describe_model_inputs([runner], may_be_none=True)
            fresh = feeds.copy_remaining()
        data = cached or fresh
        if data and warm_up:
            state.warm_up(data[0], warm_up)
        elif data:
            state.load_device(data[0], len(data))
        context = active.enter_context(resolve(Progress).follow(runner.name, len(data)))
        iterations = []
        for index, feed in enumerate(data):
            step = _one_iteration([state], feed, console, is_first=index == 0)
            iterations += step[0][1]
            context()
        if profiling is not None and data:
            profiling.measure()
    if data:
        state.report_completion(console)
    return _Turn(iterations, fresh)


def _activate_runner(active: ExitStack, runner: Runner, console: Console) -> _RunnerState:
    """Return the state of a runner after its activation."""
    console.runner_activating(runner.name)
    active.enter_context(runner)
    return _RunnerState(
        runner,
        InputAdapter(runner, console),
        copy_function(runner),
        facts_of(runner),
        uses_device=bool(getattr(runner, "uses_device", False)),
    )


def copy_function(runner: Runner) -> Callable[[Any], Any]:
    """Return the function that copies kept outputs;
    it copies nothing if outputs belong to the caller.
    """
    return _as_is if promises(runner, "outputs_are_fresh") else own_copy


def _one_iteration(
    states: Sequence[_RunnerState], feed: Feed, console: Console, *, is_first: bool
) -> RunResults:
    """Return the results of one iteration of all runners."""
    results = RunResults()
    for state in states:
        name = state.runner.name
        if is_first:
            fed = state.memory.complete(feed)
            fit, _ = state.adapter_and_facts(fed)
            console.inputs_described(name, TensorMetadata.from_feed_dict(fit(fed)))
        outputs = state.infer(feed)
        if is_first:
            console.outputs_described(name, TensorMetadata.from_feed_dict(outputs))
            _warn_of_shapes(state.runner, outputs)
        results.append((name, [outputs]))
    return results


def _warn_of_shapes(runner: Runner, outputs: Mapping[str, Any]) -> None:
    """Log a warning for each output with another shape than the model declares,
    once for all runners."""
    find_declared = optional_method(runner, RunnerExtras.declared_output_shapes)
    for name, shape in ({} if find_declared is None else find_declared()).items():
        actual = getattr(outputs.get(name), "shape", None)
        if actual is not None and (message := describe_contradiction(name, shape, actual)):
            G_LOGGER.warning(message, mode=LogMode.ONCE)


def _as_is(array: Any) -> Any:
    """Return the array itself."""
    return array


def _writer(saving: ExitStack, path: str | None, kind: type) -> Callable[[Any], None]:
    """Return a function that writes items to a file, which is kept if everything succeeds.
    Without a path, it does nothing."""
    if path is None:
        return lambda item: None
    writer: ResultWriter[Any] = saving.enter_context(resolve(ResultStore).writer(path, kind))
    return writer.add


def feed_writer(
    saving: ExitStack, path: str | None, blob_path: str | None
) -> Callable[[Feed], None]:
    """Return a function that saves feed dictionaries to zero, one or two files."""
    save_whole = _writer(saving, path, dict)
    if blob_path is None:
        return save_whole
    blobs = saving.enter_context(blob_writer(blob_path))

    def save(feed: Feed) -> None:
        """Save a feed to the files for input data."""
        save_whole(feed)
        blobs.add(feed)

    return save
