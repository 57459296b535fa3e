"""Performance counts of OpenVINO: the time of each node of the runtime model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve

from polygraphy import mod
from polygraphy.adapters.openvino.compiled import CompiledModelFromOnnx, Layer, layers_of
from polygraphy.domain.errors import BackendError
from polygraphy.domain.profiling.execution import ExecutedNode, ExecutionProfile
from polygraphy.domain.profiling.recording import NodeEvent, collect_nodes

if TYPE_CHECKING:
    from polygraphy.adapters.openvino.runner import OpenvinoRunner

openvino = mod.lazy_import("openvino")

_COUNTS = {"PERF_COUNT": "YES"}
_AVERAGING = "CPU"
_ACCURACY = 10
"""Least duration as a multiple of the timer's inaccuracy."""
_STORED = frozenset({"Const", "Input", "Output"})
_EXECUTED = "EXECUTED"
_MICROSECONDS = 1e6
_PREFIX = "openvino:"
"""Prefix of tensor names, so that none equals a name in the model."""


class CompiledModelProfiler:
    """Runs a compiled model with performance counts; see the port `NodeProfiler`."""

    def __init__(self, source: Any, make_runner: Callable[..., OpenvinoRunner]) -> None:
        """Compile the model with performance counters.

        Args:
            source: the argument of the runner.
            make_runner: returns a runner of a loader.

        Raises:
            BackendError: the model was compiled elsewhere.
        """
        if not isinstance(source, CompiledModelFromOnnx):
            raise BackendError(
                "This model was compiled elsewhere, so it cannot be compiled again for profiling.",
                backend="openvino",
                hint="Compile it with CompiledModelFromOnnx.",
            )
        self._runner: OpenvinoRunner | None = make_runner(source.with_properties(_COUNTS))
        self._runner.activate()
        self._layers = {layer.name: layer for layer in layers_of(self._runner.compiled)}
        self._is_averaged = _AVERAGING in _execution_devices(self._runner.compiled)
        self._runs: list[list[NodeEvent]] = []
        self._times: list[float] = []

    def infer(self, feed_dict: Mapping[str, Any]) -> None:
        """Run the model once, and keep the counts."""
        assert self._runner is not None
        self._runner.infer(dict(feed_dict), check_inputs=False)
        self._times.append((self._runner.last_inference_time() or 0.0) * _MICROSECONDS)
        self._runs.append([*self._events(self._runner.performance_counts())])

    def _events(self, counts: Iterable[Any]) -> Iterable[NodeEvent]:
        """Yield the time of each node from the performance counts of a run."""
        for count in counts:
            layer = self._layers.get(count.node_name)
            is_run = str(count.status).endswith(f".{_EXECUTED}")
            if (layer is None and not is_run) or (layer is not None and layer.kind in _STORED):
                continue
            time = count.real_time.total_seconds() * _MICROSECONDS if is_run else 0.0
            op = count.node_type if layer is None else layer.kind
            kernel = count.exec_type if is_run else ""
            yield NodeEvent(count.node_name, op, time, kernel=kernel)

    def finish(self, groups: Sequence[Sequence[int]]) -> list[ExecutionProfile]:
        """Return the profile of each group of runs; see the port."""
        version = str(getattr(openvino, "__version__", "")).partition("-")[0]
        profiles = []
        for group in groups:
            runs = [self._runs[number] for number in group]
            if self._is_averaged:
                runs = times_of_runs(self._runs, group)
            nodes = collect_nodes(runs)
            if not any(node.time for node in nodes):
                raise BackendError("OpenVINO reported no times.", backend="openvino")
            profiles.append(
                ExecutionProfile(
                    "",
                    [_node_with_origins(node, self._layers) for node in nodes],
                    "openvino",
                    f"OpenVINO {version}",
                    run_times=[self._times[number] for number in group],
                )
            )
        self.close()
        return profiles

    def close(self) -> None:
        """Release the compiled model."""
        runner, self._runner = self._runner, None
        if runner is not None and runner.is_active:
            runner.deactivate()


def _execution_devices(compiled: Any) -> list[str]:
    """Return the devices that run a model; empty if OpenVINO does not report them."""
    try:
        return [str(device) for device in compiled.get_property("EXECUTION_DEVICES")]
    except RuntimeError:
        return []


def times_of_runs(
    runs: Sequence[Sequence[NodeEvent]], group: Sequence[int]
) -> list[list[NodeEvent]]:
    """Return the events of some runs with the time of each run.
    OpenVINO counts on a CPU are averages over all runs, in whole microseconds, so consecutive runs
    are averaged until the error is below a tenth.

    Args:
        runs: the events of all runs, with these averages.
        group: the numbers of the runs to return.
    """
    totals: list[Mapping[tuple[str, str], float]] = [{}]
    for number, events in enumerate(runs, 1):
        totals.append({(event.name, event.op): event.microseconds * number for event in events})
    of_runs: list[list[NodeEvent]] = []
    for first, last in _consecutive_ranges(group):
        times = {
            key: _block_times([total.get(key, 0.0) for total in totals[first : last + 2]], last + 1)
            for key in totals[last + 1]
        }
        of_runs += [
            [
                evolve(event, microseconds=times[event.name, event.op][number - first])
                for event in runs[number]
                if (event.name, event.op) in times
            ]
            for number in range(first, last + 1)
        ]
    return of_runs


def _block_times(totals: Sequence[float], inaccuracy: float) -> list[float]:
    """Return the times between successive totals, each the mean of a block of them."""
    count = len(totals) - 1
    mean = max(totals[-1] - totals[0], 0.0) / count
    blocks = max(int(count * mean / (_ACCURACY * inaccuracy)), 1)
    blocks = min(blocks, count)
    times: list[float] = []
    for block in range(blocks):
        start, end = (count * at // blocks for at in (block, block + 1))
        times += [max(totals[end] - totals[start], 0.0) / (end - start)] * (end - start)
    return times


def _consecutive_ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last number of each range of consecutive numbers."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def _node_with_origins(node: ExecutedNode, layers: Mapping[str, Layer]) -> ExecutedNode:
    """Return an executed node with the tensors that it reads and makes, and the names of its
    original operators."""
    layer = layers.get(node.name)
    if layer is None:
        return evolve(node, origins=[node.name])
    inputs = {layer.name for layer in layers.values() if layer.kind == "Input"}
    return evolve(
        node,
        reads=[name if name in inputs else f"{_PREFIX}{name}" for name in layer.reads],
        makes=[f"{_PREFIX}{node.name}"],
        origins=list(layer.names),
    )
