"""The traces that the profiler of ONNX Runtime writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from attrs import define, evolve, field, frozen

from polygraphy.domain.errors import UsageError
from polygraphy.domain.profiling.execution import (
    DEVICE,
    HOST,
    LAUNCH,
    MOST_RUNS,
    ExecutionProfile,
    ModelNodes,
)
from polygraphy.domain.profiling.recording import NodeEvent, collect_nodes, group_by_shapes
from polygraphy.ports.running import model_nodes

_SUFFIX = "_kernel_time"
_PHASES = ("_fence_before", "_fence_after")
_WITH_BODIES = frozenset(
    {"BeamSearch", "GreedySearch", "If", "Loop", "Sampling", "Scan", "WhisperBeamSearch"}
)
_RUN = "model_run"
_ON_HOST = frozenset({"", "CPUExecutionProvider", "AzureExecutionProvider"})
_BETWEEN = re.compile(r"[\s,\[\ufeff]*")
"""Text between events."""
_CHUNK = 1 << 16
_LONGEST_EVENT = 1 << 20
_COPIES = frozenset({"MemcpyFromHost", "MemcpyToHost"})


@define
class _TimedEvent:
    """An event of a node, with the data needed to assign inner and device events to it."""

    event: NodeEvent
    start: float
    shapes: Any
    kernels: list[tuple[str, float]] = field(factory=list)

    @property
    def end(self) -> float:
        """Return the time at which the event ends, in microseconds."""
        return self.start + self.event.microseconds


@frozen
class TraceRun:
    """A run of the model in a trace.

    Attributes:
        microseconds: the duration of the run.
        events: the executed events, in order.
        shapes: the input shapes of the first node; runs with other shapes have other times.
    """

    microseconds: float
    events: Sequence[NodeEvent]
    shapes: Any = None


@frozen
class Trace:
    """The runs in a trace file.

    Attributes:
        runs: the runs, in order.
        notes: the gaps, a sentence each.
    """

    runs: Sequence[TraceRun]
    notes: Sequence[str] = ()


def read_trace(path: str | Path, most: int | None = None) -> Trace:
    """Return the trace in a file, read in small parts because it may be large.

    Args:
        path: the trace file.
        most: the number of runs after which to stop; by default all are read.

    Raises:
        UsageError: it is not a trace of ONNX Runtime, or contains no complete run.
    """
    notes: list[str] = []
    runs: list[TraceRun] = []
    with Path(path).open(encoding="utf-8", errors="replace") as stream:
        for run in split_runs(_events(stream, str(path), notes)):
            if most is not None and len(runs) == most:
                notes.append(f"Only the first {most} runs of the file were read.")
                break
            runs.append(run)
    if not runs:
        raise UsageError(
            f"{path}: the trace contains no complete run with nodes.",
            hint="Call end_profiling() after the runs.",
        )
    return Trace(runs, notes)


def _events(stream: TextIO, path: str, notes: list[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the events of a file.
    Only a small part of it is in memory, regardless of the length of its lines.

    After a damaged event, it continues with the next line.
    """
    decoder = json.JSONDecoder()
    text, at = "", 0
    is_complete = is_damaged = is_end = False
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        if text.startswith("]", at):
            is_complete, at = True, at + 1
            continue
        if at < len(text):
            try:
                event, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                if is_end or len(text) - at > _LONGEST_EVENT:
                    is_damaged, is_complete = True, False
                    line = text.find("\n", at) + 1
                    at = line or len(text)
                    continue
            else:
                is_complete = False
                if isinstance(event, dict):
                    yield event
                continue
        if is_end:
            break
        chunk = stream.read(_CHUNK)
        text, at, is_end = text[at:] + chunk, 0, not chunk
    if not is_complete:
        notes.append(f"{path} is truncated: only its complete runs were read.")
    elif is_damaged:
        notes.append(f"{path} is damaged: only its complete events were read.")


def split_runs(events: Iterable[Mapping[str, Any]]) -> Iterator[TraceRun]:
    """Yield the runs of a trace."""
    waiting: list[_TimedEvent] = []
    for event in events:
        arguments = event.get("args") or {}
        category, name = event.get("cat"), str(event.get("name", ""))
        duration = _as_float(event.get("dur"))
        if category == "Node" and not name.endswith(_PHASES):
            waiting = _with_node(waiting, event, name, duration, arguments)
        elif category == "Kernel":
            parent = str(arguments.get("parent_name", "")).removesuffix(_SUFFIX)
            _add_kernel(waiting, parent, name, duration)
        elif category == "Session" and name == _RUN:
            if waiting:
                shapes = waiting[0].shapes
                yield TraceRun(
                    duration, [_with_device_time(timed_event) for timed_event in waiting], shapes
                )
            waiting = []


def _as_float(value: Any) -> float:
    """Return a number as a float; 0 for other values."""
    return float(value) if isinstance(value, (int, float)) else 0.0


def _with_node(
    waiting: list[_TimedEvent],
    event: Mapping[str, Any],
    name: str,
    duration: float,
    arguments: Mapping[str, Any],
) -> list[_TimedEvent]:
    """Return the pending events with a node added.
    Earlier events within its time become inner events.
    """
    op = str(arguments.get("op_name") or name.removesuffix(_SUFFIX))
    node = _TimedEvent(
        NodeEvent(
            name.removesuffix(_SUFFIX), op, duration, provider=str(arguments.get("provider", ""))
        ),
        _as_float(event.get("ts")),
        arguments.get("input_type_shape"),
    )
    if op in _WITH_BODIES:
        first = len(waiting)
        while (
            first and waiting[first - 1].start >= node.start and waiting[first - 1].end <= node.end
        ):
            first -= 1
        inside, waiting = waiting[first:], waiting[:first]
        node.event = evolve(
            node.event, inner=[_with_device_time(timed_event) for timed_event in inside]
        )
    return [*waiting, node] if not waiting else _append_event(waiting, node)


def _append_event(waiting: list[_TimedEvent], timed_event: _TimedEvent) -> list[_TimedEvent]:
    """Append an event, and return the list."""
    waiting.append(timed_event)
    return waiting


def _add_kernel(waiting: list[_TimedEvent], parent: str, name: str, duration: float) -> None:
    """Add a device kernel to the node that launched it: the one it names, or the last."""
    for timed_event in reversed(waiting):
        if not parent or timed_event.event.name == parent:
            timed_event.kernels.append((name, duration))
            return


def _with_device_time(timed: _TimedEvent) -> NodeEvent:
    """Return an event with the time of its kernels, if it ran on a device."""
    event = timed.event
    if timed.kernels:
        kernel = max(timed.kernels, key=lambda names: names[1])[0]
        total = sum(duration for _, duration in timed.kernels)
        return evolve(event, microseconds=total, kernel=kernel, clock=DEVICE)
    is_on_host = event.provider in _ON_HOST or event.op in _WITH_BODIES
    return event if is_on_host else evolve(event, clock=LAUNCH)


def profile_runs(
    runs: Sequence[TraceRun], graph: ModelNodes | None, *, waits: bool = False
) -> ExecutionProfile:
    """Return the profile of some runs; times of a device count only if it was active in all runs.

    Args:
        runs: the runs.
        graph: the executed graph; None if unknown.
        waits: whether the host waited for each kernel, so that its times include the device.
    """
    nodes = collect_nodes([run.events for run in runs], graph)
    has_kernels = any(node.clock == DEVICE for node in nodes)
    notes = []
    if waits and any(node.clock == LAUNCH for node in nodes):
        notes.append("The host waited for each kernel, so times include the launch and the device.")
        nodes = [evolve(node, clock=HOST) if node.clock == LAUNCH else node for node in nodes]
    if has_kernels:  # A node without a kernel did nothing on the device.
        nodes = [
            evolve(node, clock=HOST) if node.clock == LAUNCH and node.op not in _COPIES else node
            for node in nodes
        ]
    providers = dict.fromkeys(node.provider for node in nodes if node.provider)
    return ExecutionProfile(
        "",
        nodes,
        "onnxrt",
        ", ".join(provider.removesuffix("ExecutionProvider") for provider in providers),
        run_times=[run.microseconds for run in runs],
        notes=notes,
    )


def read_profile(path: str, layers: str | None) -> list[ExecutionProfile]:
    """Return the profiles in a trace file, one for each set of input shapes; see the port."""
    trace = read_trace(path, MOST_RUNS)
    runs, notes = trace.runs, list(trace.notes)
    executed = None if layers is None else model_nodes(layers)
    if executed is None:
        notes.append(
            "Without the executed graph, nodes are matched by name only. ONNX Runtime writes it to"
            " SessionOptions.optimized_model_filepath."
        )
    execution_profiles = []
    for group in group_by_shapes(run.shapes for run in runs):
        first, *later = group  # The first run initializes and chooses kernels.
        profile = profile_runs([runs[number] for number in later or group], executed)
        only = [] if later else ["The only run includes initialization."]
        shapes = _input_shapes(runs[first], profile, executed)
        execution_profiles.append(
            evolve(profile, runner=Path(path).name, shapes=shapes, notes=[*notes, *only])
        )
    return execution_profiles


def _input_shapes(
    run: TraceRun, profile: ExecutionProfile, graph: ModelNodes | None
) -> dict[str, list[int]]:
    """Return the shapes of the inputs of a run, from its first node; without a graph, of all inputs
    of that node."""
    first = run.events[0].name
    reads = next((node.reads for node in profile.nodes if node.name == first), ())
    shapes: dict[str, list[int]] = {}
    for at, entry in enumerate(run.shapes if isinstance(run.shapes, list) else ()):
        shape = next(iter(entry.values()), None) if isinstance(entry, dict) else None
        if not isinstance(shape, list):
            continue
        name = reads[at] if at < len(reads) else f"operand {at + 1} of {first}"
        if graph is None or not graph.inputs or name in graph.inputs:
            shapes[name] = shape
    return shapes
