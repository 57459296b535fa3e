"""Measures the time of each node with the profilers of backends, while runners are active."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, evolve, field

from polygraphy.binding import resolve
from polygraphy.domain.errors import UsageError
from polygraphy.domain.profiling.execution import ExecutionProfile, ModelNodes, check_runs
from polygraphy.domain.profiling.explanation import compare_profiles
from polygraphy.domain.profiling.table import SORTS, USUAL_ROWS, ProfileTable
from polygraphy.domain.results.results import short_names
from polygraphy.domain.tensors.naming import join_words
from polygraphy.ports.reporting import Console, Reports
from polygraphy.ports.running import NodeProfiler, Runner, model_nodes
from polygraphy.ports.storage import save_profiles

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.accuracy import AccuracyResults

USUAL_RUNS = 10
_TURNS = 2
_MOST_SHAPES = 4
_MICROSECONDS = 1e6

Feed = Mapping[str, Any]
Shapes = tuple[tuple[str, tuple[int, ...]], ...]


@define
class _Subject:
    """A runner with its data: the first input set of each set of shapes, which is profiled, and
    further sets."""

    runner: Any
    feeds: dict[Shapes, Feed] = field(factory=dict)
    dropped: set[Shapes] = field(factory=set)


class ProfileNodes:
    """Profiles the runners of `Comparator.run`: pass it as `profiling`.

    Attributes:
        profiles: one for each runner and set of input shapes; empty before the run is complete.
    """

    def __init__(self, model: Any = None, runs: int | None = None) -> None:
        """Set the model and the number of runs to profile.

        Args:
            model: the model whose nodes are the rows: a path, an `onnx.ModelProto`, or a loader
                (default: executed nodes are the rows).
            runs: the number of profiled runs, 1 to 50 (default: 10).

        Raises:
            UsageError: the number of runs is outside of these limits.
        """
        self._runs = check_runs(USUAL_RUNS if runs is None else runs)
        self._model = model
        self._subjects: dict[int, _Subject] = {}
        self._nodes: ModelNodes | None = None
        self.profiles: list[ExecutionProfile] = []

    def note_feed(self, runner: Runner, feed: Feed) -> None:
        """Remember data with shapes that are new for the runner."""
        subject = self._subjects.setdefault(id(runner), _Subject(_runner_to_time(runner)))
        shapes = tuple((name, tuple(np.shape(array))) for name, array in feed.items())
        if shapes in subject.feeds:
            return
        if len(subject.feeds) < _MOST_SHAPES:
            subject.feeds[shapes] = {name: _copy_array(array) for name, array in feed.items()}
        else:
            subject.dropped.add(shapes)

    def measure(self) -> None:
        """Measure the active runners in turn.

        Raises:
            UsageError: no runner has a profiler.
            BackendError: a backend cannot profile the model.
        """
        subjects, self._subjects = list(self._subjects.values()), {}
        able = [subject for subject in subjects if hasattr(subject.runner, "open_profiler")]
        missing = [subject.runner.name for subject in subjects if subject not in able]
        if missing and not able:
            raise UsageError(
                f"{join_words(short_names(missing))}: this backend has no profiler.",
                hint="Profile ONNX Runtime, OpenVINO or TensorRT.",
            )
        for name in short_names(missing):
            resolve(Console).note(f"{name} has no profiler, so its column is missing.")
        if not able:
            return
        dropped = max(len(subject.dropped) for subject in able)
        if dropped:
            resolve(Console).note(
                f"The data has {_MOST_SHAPES + dropped} sets of input shapes. Only the first"
                f" {_MOST_SHAPES} are profiled."
            )
        if self._model is not None and self._nodes is None:
            self._nodes = model_nodes(self._model)
        execution_profiles = _Measurement(able, self._runs).run()
        names = dict.fromkeys(execution_profile.runner for execution_profile in execution_profiles)
        short = dict(zip(names, short_names(names)))
        for execution_profile in execution_profiles:
            self.profiles.append(
                evolve(execution_profile, runner=short[execution_profile.runner], model=self._nodes)
            )

    def tables(self) -> list[ProfileTable]:
        """Return a table for each set of input shapes."""
        return tables_of(self.profiles)

    def report(
        self,
        verdicts: AccuracyResults | None = None,
        sort: str | None = None,
        rows: int | None = None,
    ) -> None:
        """Log a table for each set of input shapes.

        Args:
            verdicts: the comparison of the runners: its errors are a column.
            sort: ``time``, ``difference`` or ``error`` (default: ``time``).
            rows: the number of rows to show; 0 for all (default: 15).
        """
        errors = {} if verdicts is None else errors_of(verdicts)
        order, usual_rows = check_order(sort), USUAL_ROWS if rows is None else rows
        for table in self.tables():
            resolve(Console).nodes_profiled(table.with_errors(errors), order, usual_rows)

    def save(self, path: str) -> None:
        """Save the profiles with the executed graphs, for `inspect profile`."""
        save_profiles(self.profiles, path)


def _runner_to_time(runner: Any) -> Any:
    """Return the runner of the unmarked model, if there is one; else the runner."""
    return getattr(runner, "plain_runner", runner)


def _copy_array(array: Any) -> Any:
    """Return a copy of a NumPy array; another value unchanged."""
    return np.array(array) if isinstance(array, np.ndarray) else array


def tables_of(
    profiles: Sequence[ExecutionProfile], model: ModelNodes | None = None
) -> list[ProfileTable]:
    """Return a table for each set of input shapes."""
    groups: dict[str, list[ExecutionProfile]] = {}
    for profile in profiles:
        key = repr(sorted((name, list(shape)) for name, shape in profile.shapes.items()))
        groups.setdefault(key, []).append(profile)
    return [compare_profiles(group, model) for group in groups.values()]


def report_tables(
    tables: Sequence[ProfileTable], sort: str | None = None, rows: int | None = None
) -> None:
    """Show tables; see `ProfileNodes.report`.

    Raises:
        UsageError: there is no such order.
    """
    order, usual_rows = check_order(sort), USUAL_ROWS if rows is None else rows
    for table in tables:
        resolve(Reports).profile(table, sort=order, rows=usual_rows)


def check_order(sort: str | None) -> str:
    """Return the order of rows; raise UsageError for an unknown one.

    Raises:
        UsageError: there is no such order.
    """
    if sort is None:
        return SORTS[0]
    if sort not in SORTS:
        raise UsageError(
            f"{sort!r} is not a valid order of rows.", hint=f"Use {join_words(SORTS)}."
        )
    return sort


def errors_of(verdicts: AccuracyResults) -> dict[str, float]:
    """Return the largest absolute difference of each tensor."""
    errors: dict[str, float] = {}
    for result in verdicts:
        for _, iterations in result.read():
            for answers in iterations:
                for name, answer in answers.items():
                    value = getattr(answer, "max_absdiff", None)
                    if value is not None:  # No number is larger than NaN.
                        values = (errors.get(name, 0.0), float(value))
                        errors[name] = math.nan if any(map(math.isnan, values)) else max(values)
    return errors


class _Measurement:
    """Measures runners in turn, with and without their profiler."""

    def __init__(self, subjects: Sequence[_Subject], runs: int) -> None:
        """Set the runners and the number of runs."""
        self._subjects = subjects
        self._runs = runs

    def run(self) -> list[ExecutionProfile]:
        """Open a profiler for each runner, and return the profiles."""
        profilers: list[NodeProfiler] = []
        try:
            for subject in self._subjects:
                profilers += [subject.runner.open_profiler()]
            return self._measure(profilers)
        finally:
            for profiler in profilers:
                profiler.close()

    def _measure(self, profilers: Sequence[NodeProfiler]) -> list[ExecutionProfile]:
        """Return a profile for each runner and shape; plain runs and profiled ones take turns."""
        pairs = list(zip(self._subjects, profilers))
        kept_values: dict[tuple[int, Shapes], list[int]] = {}
        plain: dict[tuple[int, Shapes], list[float]] = {}
        counts = [0] * len(pairs)
        sets = max((len(subject.feeds) for subject in self._subjects), default=0)
        for number in range(sets):
            for turn in range(_TURNS):
                runs = len(range(turn, self._runs, _TURNS))
                for index, (subject, profiler) in enumerate(pairs):
                    if number >= len(subject.feeds) or not runs:
                        continue
                    shapes, feed = list(subject.feeds.items())[number]
                    key = (index, shapes)
                    subject.runner.infer(feed, check_inputs=False)
                    plain.setdefault(key, []).extend(_run_times(subject.runner, feed, runs))
                    for run in range(runs + 1):
                        # The first run of each turn warms up, and does not count.
                        profiler.infer(feed)
                        if run:
                            kept_values.setdefault(key, []).append(counts[index])
                        counts[index] += 1
        profiles = []
        for index, (subject, profiler) in enumerate(pairs):
            keys = [key for key in kept_values if key[0] == index]
            for key, execution_profile in zip(
                keys, profiler.finish([kept_values[key] for key in keys])
            ):
                profile = evolve(
                    execution_profile,
                    runner=subject.runner.name,
                    shapes={name: list(shape) for name, shape in key[1]},
                    plain_times=plain.get(key, ()),
                )
                profiles.append(profile.without_event_cost())
        return profiles


def _run_times(runner: Any, feed: Feed, runs: int) -> list[float]:
    """Return the microseconds of each run, measured by the device if it can."""
    measured_by_device = getattr(runner, "last_device_times", lambda: None)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        runner.infer(feed, check_inputs=False)
        measured = measured_by_device()
        elapsed = runner.last_inference_time() if measured is None else measured.compute
        times.append((time.perf_counter() - start if elapsed is None else elapsed) * _MICROSECONDS)
    return times
