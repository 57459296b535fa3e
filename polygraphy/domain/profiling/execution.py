"""Executed nodes of a backend, with their times.

An execution profile has nothing to do with the optimization profiles of TensorRT, which are ranges
of input shapes (`polygraphy.domain.tensors.profile`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from statistics import median

from attrs import Factory, evolve, frozen

from polygraphy.domain.errors import UsageError
from polygraphy.domain.model.graph import Attribute, Graph, Node
from polygraphy.domain.model.regions import nodes_after_inputs

HOST, DEVICE, LAUNCH = "host", "device", "launch"
"""Kinds of times: of the host, of the device, or of the host for launching a kernel."""

_DISTURBED = 1.1
"""A machine is busy if the median run takes this multiple of its parts. Chosen, not measured."""

MOST_RUNS = 50
"""Profiled runs of one set of shapes: 50 runs of 135 nodes are 4 MB of events."""


def check_runs(runs: int) -> int:
    """Return the number of profiled runs after checking that it is allowed.

    Raises:
        UsageError: it is not from 1 to 50.
    """
    if not 1 <= runs <= MOST_RUNS:
        raise UsageError(
            f"The number of profiled runs cannot be {runs}.", hint=f"Use 1 to {MOST_RUNS}."
        )
    return runs


def profile_node(
    name: str, op: str, inputs: Sequence[str], outputs: Sequence[str], settings: str = ""
) -> Node:
    """Return a model node in the form of profiles: its attributes are one text,
    which is equal for equal attributes."""
    attributes = (Attribute(_SETTINGS, "string", settings),) if settings else ()
    return Node(name, op, "", tuple(inputs), tuple(outputs), attributes)


def settings_of(node: Node) -> str:
    """Return the text for the attributes of a node in a profile; empty if there are none."""
    return str(node.attribute(_SETTINGS, ""))


_SETTINGS = "settings"


@frozen
class ModelNodes:
    """The nodes of a model, to which the times of executed nodes are assigned.

    Attributes:
        nodes: in an order in which they can be computed.
        inputs: the names of its inputs, without weights.
        outputs: the names of its outputs.
        path: the file of the model; empty if unknown.
    """

    nodes: Sequence[Node]
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    path: str = ""

    def makers(self) -> dict[str, int]:
        """Return the position of the node that computes each tensor."""
        return Graph(nodes=tuple(self.nodes)).producers

    def dependent_nodes(self) -> set[int]:
        """Return the positions of the nodes that depend on an input; others can be folded."""
        return nodes_after_inputs(Graph(nodes=tuple(self.nodes)), self.inputs)


@frozen
class ExecutedNode:
    """A node that a backend executed.

    Attributes:
        name: its name in the backend.
        op: its operator, or type of layer, in the backend.
        times: microseconds of each profiled run, in order.
        reads: the tensors that it reads.
        makes: the tensors that it computes.
        settings: its attributes, the same for the same attributes; empty if unknown.
        provider: the execution provider, or device, that ran it; empty if unknown.
        kernel: the kernel that ran it; empty if unknown.
        origins: names of model nodes or tensors that the backend says it was built from.
        inner: the nodes of its bodies (If, Loop, Scan), whose times are part of its own.
        calls: number of times that it ran in one run of the model.
        clock: the source of its times: `HOST`, `DEVICE` or `LAUNCH`.
    """

    name: str
    op: str
    times: Sequence[float] = ()
    reads: Sequence[str] = ()
    makes: Sequence[str] = ()
    settings: str = ""
    provider: str = ""
    kernel: str = ""
    origins: Sequence[str] = ()
    inner: Sequence[ExecutedNode] = ()
    calls: float = 1
    clock: str = HOST

    @property
    def time(self) -> float:
        """Return the median of its times, in microseconds; 0 if it has none."""
        return median(self.times) if self.times else 0.0

    @property
    def events(self) -> float:
        """Return the number of measured events per run, including nodes inside this one."""
        return self.calls + sum(executed_node.events for executed_node in self.inner)


@frozen
class ExecutionProfile:
    """The profile of one model in one runner, for one set of input shapes.

    Attributes:
        runner: the name of the runner, or of the file.
        backend: the name of the backend: ``onnxrt``, ``openvino``, ``trt``.
        setting: device, providers and version, for people.
        shapes: the shape of each input.
        nodes: the executed nodes, in order.
        run_times: microseconds of each run of the whole model while it was profiled.
        plain_times: microseconds of each run without the profiler.
        model: the nodes of the model that was run; None if unknown.
        notes: the gaps and omissions, a sentence each.
        event_cost: microseconds that were subtracted from each measurement of a node.
    """

    runner: str
    nodes: Sequence[ExecutedNode]
    backend: str = ""
    setting: str = ""
    shapes: Mapping[str, Sequence[int]] = Factory(dict)
    run_times: Sequence[float] = ()
    plain_times: Sequence[float] = ()
    model: ModelNodes | None = None
    notes: Sequence[str] = ()
    event_cost: float = 0.0

    @property
    def node_time(self) -> float:
        """Return the sum of the times of nodes, in microseconds."""
        return sum(node.time for node in self.nodes)

    @property
    def outside_time(self) -> float | None:
        """Return the median time of a run outside its nodes, in microseconds, or None.
        The result is None if runs were not measured."""
        if not self.run_times:
            return None
        return median(time - inside for time, inside in zip(self.run_times, self._times_inside()))

    @property
    def run_time(self) -> float:
        """Return the time of a profiled run: the median, or a robust estimate if other programs
        interrupted most runs."""
        return self.node_time + (self.outside_time or 0.0)

    @property
    def is_disturbed(self) -> bool:
        """Return whether runs took much longer than the sum of their parts,
        because the machine was busy."""
        return bool(self.run_times) and median(self.run_times) > _DISTURBED * self.run_time

    @property
    def plain_time(self) -> float | None:
        """Return the median time of a run without the profiler; None if it was not measured."""
        return median(self.plain_times) if self.plain_times else None

    @cached_property
    def cost(self) -> float:
        """Return the estimated cost of measuring one node, in microseconds; 0 if unknown."""
        if self.event_cost:
            return self.event_cost
        events = sum(node.events for node in self.nodes)
        if self.plain_time is None or not events or not self.run_times:
            return 0.0
        added = max(min(self.run_times) - min(self.plain_times), 0.0)
        return min(added, max(self.outside_time or 0.0, 0.0)) / events

    def without_event_cost(self) -> ExecutionProfile:
        """Return the profile without the time that a device spends on the events around each node:
        the difference between the sum of all nodes and a run without the profiler. No time
        becomes negative."""
        events = sum(node.events for node in self.nodes)
        is_device = bool(self.nodes) and all(node.clock == DEVICE for node in self.nodes)
        if not is_device or self.plain_time is None:
            return self
        added = (self.node_time - self.plain_time) / events
        if added <= 0:
            return self
        nodes = [
            evolve(node, times=[max(time - added * node.events, 0.0) for time in node.times])
            for node in self.nodes
        ]
        note = (
            f"{added:.3g} us were subtracted from each node: the device needs this time for the"
            " measurement."
        )
        return evolve(self, nodes=nodes, event_cost=added, notes=[*self.notes, note])

    def _times_inside(self) -> list[float]:
        """Return the time of all nodes in each run."""
        inside = [sum(times) for times in zip(*(node.times for node in self.nodes))]
        return inside or [0.0] * len(self.run_times)

    @property
    def runs(self) -> int:
        """Return the number of profiled runs."""
        return len(self.run_times) or max((len(node.times) for node in self.nodes), default=0)


def spread(times: Iterable[float]) -> float:
    """Return the median distance of some times from their median."""
    values = sorted(times)
    if len(values) < 2:
        return 0.0
    middle = median(values)
    return median(abs(value - middle) for value in values)
