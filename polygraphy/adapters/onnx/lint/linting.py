"""Checks ONNX models: each node separately, and the whole model.

Tries every node of a model in a backend, in few runs.

Nodes run in segments: each is a small model whose inputs are the results of earlier segments. If a
segment works, all its nodes do; if it fails, it is halved until a single node fails. A node with a
known problem runs alone at once. So 2000 nodes with a few defects take a few hundred runs, and only
nodes that depend on a defect are not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.onnx.describe.reading import describe_model
from polygraphy.adapters.onnx.graph.element_types import domain_of
from polygraphy.adapters.onnx.graph.graph import graph_weights
from polygraphy.adapters.onnx.graph.growth import (
    LIFTED_BY,
    LONGEST_VECTOR,
    check_expansion,
    element_count,
    limit_bytes,
    model_bytes,
    vector_lengths,
)
from polygraphy.adapters.onnx.graph.open_model import OpenGraph, assemble, value_without_type
from polygraphy.adapters.onnx.graph.shapes import infer_value_infos, set_input_shapes, shapes_of
from polygraphy.adapters.onnx.lint.fixed_shapes import fixed_shape_findings
from polygraphy.adapters.onnx.lint.model_checks import find_model_violation
from polygraphy.adapters.onnx.lint.node_checks import NodeChecks, is_foreign
from polygraphy.adapters.onnx.storage.elements import WeightArrays, elements
from polygraphy.adapters.onnx.storage.model import load_structure
from polygraphy.adapters.onnx.storage.weights import (
    SMALL,
    OnnxDataTypes,
    byte_size,
    is_external,
    without_large_weights,
)
from polygraphy.adapters.onnx_common.messages import graphs_of, omits_results, with_all_results
from polygraphy.domain.checks.lint import (
    EXCEPTION,
    INFO,
    WARNING,
    Findings,
    LintEntry,
    Source,
    TrialValue,
    labels_of,
)
from polygraphy.domain.errors import (
    BackendError,
    InconclusiveError,
    ModelError,
    UnavailableError,
)
from polygraphy.domain.model import Detail, ModelSource
from polygraphy.domain.tensors.shapes import describe_contradiction
from polygraphy.ports.models import Lint, ModelTrial

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


_ITEMSIZE = 4  # Assumed bytes per element; most tensors are float32.
_MOST_ROUNDS = 1 << 31
"""More iterations than any backend finishes in minutes, even of the smallest body."""
_LOOP_INPUTS = 2  # The body of a Loop reads the iteration number and the condition.
_RUN = 2
"""Largest memory of a run, as a multiple of the largest file: activations are released again."""


def large_nodes(model: ModelProto, feed: Mapping[str, Any]) -> dict[int, str]:
    """Return, by index, the nodes of the main graph with too large outputs for some input data,
    each with a message."""
    weights = graph_weights(model.graph)
    shapes: dict[str, Any] = {name: tuple(tensor.dims) for name, tensor in weights.items()}
    shapes.update(
        (name, tuple(np.shape(constant_elements))) for name, constant_elements in feed.items()
    )
    shapes.update(shapes_of(infer_value_infos(_bind_feed_shapes(model, feed))))
    external = sum(map(byte_size, filter(is_external, weights.values())))
    limit = _RUN * limit_bytes(model_bytes(model) + external)
    vectors = vector_lengths(model, with_weights=False)
    lost_names: set[str] = set()
    constant, folded = set(weights), 0

    def constant_elements(name: str) -> Any:
        """Return the elements of a small constant; None for other tensors."""
        tensor = weights.get(name)
        if name in feed:
            return np.asarray(feed[name]) if np.size(feed[name]) <= LONGEST_VECTOR else None
        is_small = tensor is not None and byte_size(tensor) <= SMALL and not is_external(tensor)
        return elements(tensor) if tensor is not None and is_small else None

    nodes: dict[int, str] = {}
    for index, node in enumerate(model.graph.node):
        if (rounds := _trip_count(node, constant_elements)) > _MOST_ROUNDS:
            nodes[index] = f"Not run: it has {rounds:,} loop iterations."
            continue
        if not lost_names.isdisjoint(node.input) or any(
            vectors.get(name, 0) > LONGEST_VECTOR for name in node.output
        ):
            lost_names.update(filter(None, node.output))
            nodes[index] = "Not run: it needs a list that is too long to be a shape."
            continue
        grown = element_count(node, constant_elements, shapes.get)
        sizes = [shapes.get(name) for name in node.output if name]
        counts = [prod(s) for s in sizes if s and all(isinstance(dim, int) for dim in s)]
        nbytes = _ITEMSIZE * max([grown or 0, *counts])
        if constant.issuperset(filter(None, node.input)):
            # Results of constant nodes remain in memory until the end.
            constant.update(node.output)
            nbytes += folded
            folded = nbytes
        if nbytes > limit:
            nodes[index] = (
                f"Not run: its outputs have {nbytes:,} bytes, more than the limit of"
                f" {limit:,.0f}. {LIFTED_BY}"
            )
    return nodes


def _trip_count(node: NodeProto, value: Callable[[str], Any]) -> int:
    """Return the number of iterations of a Loop if it does not depend on data; else 0."""
    if node.op_type != "Loop" or domain_of(node.domain) or not node.input:
        return 0
    body = next(iter(graphs_of(node)), None)
    if body is None or not body.output or len(body.input) < _LOOP_INPUTS:
        return 0  # The node violates the specification, which other checks report better.
    trips = value(node.input[0])
    starts = value(node.input[1]) if len(node.input) > 1 and node.input[1] else np.array(True)
    if trips is None or starts is None or not np.all(starts):
        return 0
    copies = (
        inner_node
        for inner_node in body.node
        if inner_node.op_type == "Identity" and inner_node.input
    )
    origins = {copy.output[0]: copy.input[0] for copy in copies if copy.output}
    condition = body.output[0].name
    while condition in origins:
        condition = origins.pop(condition)
    return int(np.max(trips)) if condition == body.input[1].name else 0


def _bind_feed_shapes(model: ModelProto, feed: Mapping[str, Any]) -> ModelProto:
    """Return a copy without large weights whose inputs have the shapes of the data."""
    feed_shapes = without_large_weights(model)
    set_input_shapes(feed_shapes.graph, {name: np.shape(value) for name, value in feed.items()})
    return feed_shapes


onnx = mod.lazy_import("onnx")

_MOST_OPERANDS = 10_000
"""Largest number of inputs of a node that is tried: ONNX Runtime's time grows with the square of
their number, to minutes for ten times as many.
"""
_SEGMENT = 64
_TRIAL_IR = 8
"""IR version of trial models, which every supported backend reads, including functions."""
_TYPES = OnnxDataTypes()
_FED = frozenset(
    {
        "bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
        "uint16", "uint32", "uint64",
    }
)  # fmt: skip
"""Data types whose large weights are fed; others stay part of the model."""


def missing_inputs(model: ModelProto, feed: Mapping[str, Any]) -> list[str]:
    """Return the inputs of a model that have no data, such as sequences."""
    weights = graph_weights(model.graph)
    names = (value.name for value in model.graph.input)
    return [name for name in names if name not in feed and name not in weights]


def is_wide(node: NodeProto) -> bool:
    """Return whether a node has too many inputs to be tried."""
    return len(node.input) > _MOST_OPERANDS and len(set(node.input)) > _MOST_OPERANDS


class NodeTrials:
    """Runs the nodes of a model's main graph, one by one or in groups.

    Attributes:
        failures: the exceptions of nodes that fail alone, by the index of the node.
        skipped: indices of nodes that were not tried, because their inputs were not computed, or
            because they read too many tensors.
    """

    def __init__(
        self,
        model: ModelProto,
        arrays: WeightArrays,
        feed: Mapping[str, Any],
        trial: ModelTrial,
        suspects: Collection[int] = (),
        large: Collection[int] = (),
    ) -> None:
        """Set the model, its weights and data, the backend that tries nodes, the indices of nodes
        that may fail, and of those that are too large to try.
        """
        self._large = frozenset(large)
        self._suspects = frozenset(suspects)
        opened = OpenGraph(model.graph)
        self._nodes, self._weights, self._reads = opened.protos, opened.weights, opened.reads
        self._frame = onnx.ModelProto(
            ir_version=min(model.ir_version, _TRIAL_IR),
            opset_import=model.opset_import,
            functions=model.functions,
            graph=onnx.GraphProto(name="trial"),
        )
        self._arrays = arrays
        self._trial = trial
        self._values: dict[str, Any] = dict(feed)
        self._stated = {value.name: value.type for value in model.graph.input}
        self._last_use = {name: i for i, names in enumerate(self._reads) for name in names}
        self._lost = set(missing_inputs(model, feed))
        self._forgotten = 0
        self.failures: dict[int, str] = {}
        # A dictionary instead of a set, because it keeps the order.
        self.skipped: dict[int, None] = {}

    def run(self) -> None:
        """Run all nodes in the backend, and record their values and errors.

        Raises:
            MissingDependencyError: the backend is not installed.
        """
        for start in range(0, len(self._nodes), _SEGMENT):
            segment = range(start, min(start + _SEGMENT, len(self._nodes)))
            for _, part in groupby(segment, lambda i: -i if i in self._suspects else 1):
                self._try_segment(list(part))

    def _try_segment(self, indices: Sequence[int]) -> None:
        """Try nodes together; if they fail, try each half, down to single nodes."""
        runnable = [index for index in indices if self._is_runnable(index)]
        if not runnable:
            return
        error = self._try_nodes(runnable)
        if error is None:
            self._forget(runnable[-1])
        elif len(runnable) == 1:
            self.failures[runnable[0]] = error
            self._lose(runnable[0])
        else:
            # If a node fails, nodes of the second half that depend on it are not available either.
            middle = len(runnable) // 2
            self._try_segment(runnable[:middle])
            self._try_segment(runnable[middle:])

    def _is_runnable(self, index: int) -> bool:
        """Return whether the inputs of a node exist, or are computed by nodes that may exist."""
        is_large = index in self._large or is_wide(self._nodes[index])
        if self._lost.isdisjoint(self._reads[index]) and not is_large:
            return True
        if index not in self.failures and index not in self.skipped:
            self.skipped[index] = None
            self._lose(index)
        return False

    def _lose(self, index: int) -> None:
        """Record that the outputs of a node are not available."""
        self._lost.update(filter(None, self._nodes[index].output))

    def _try_nodes(self, indices: Sequence[int]) -> str | None:
        """Run some nodes and keep their results; return the error, if any."""
        last = indices[-1]
        produced = [name for i in indices for name in self._nodes[i].output if name]
        inside = {name for i in indices for name in self._reads[i]}
        wanted = [
            name
            for name in dict.fromkeys(produced)
            if self._last_use.get(name, -1) > last or name not in inside
        ]
        nodes = [self._nodes[i] for i in indices]
        model = assemble(self._frame, nodes, outputs=map(value_without_type, wanted))
        imported = {opset.domain for opset in model.opset_import}
        for domain in {node.domain for node in nodes} - imported:
            if is_foreign(domain):  # An operator of a plugin is not a defect.
                model.opset_import.add(domain=domain, version=1)
        known_produced = set(produced)
        needed = dict.fromkeys(
            name for i in indices for name in self._reads[i] if name not in known_produced
        )
        feed = dict(self._inputs(model.graph, needed))
        try:
            results = self._trial.run(with_all_results(model).SerializeToString(), feed, wanted)
        except UnavailableError:
            raise
        except (BackendError, InconclusiveError) as error:
            return str(error)
        self._values.update(results)
        self._lost.update(name for name in wanted if name not in results)
        return None

    def _inputs(self, graph: GraphProto, names: Mapping[str, None]) -> Iterator[tuple[str, Any]]:
        """Add inputs or weights of nodes to a graph; yield names and values to feed."""
        for name in names:
            tensor = self._weights.get(name)
            if tensor is not None and not self._is_fed(tensor):
                self._embed(graph, tensor)
            elif tensor is not None:
                typed = graph.input.add(name=name).type.tensor_type
                typed.elem_type = tensor.data_type
                _set_shape(typed, tensor.dims)
                yield name, self._arrays.array(tensor)
            elif name in self._values:
                self._declare(graph, name, self._values[name])
                yield name, self._values[name]

    @staticmethod
    def _is_fed(tensor: TensorProto) -> bool:
        """Return whether a weight is passed as an input: a large one of a common type."""
        entry = _TYPES.from_native(tensor.data_type)
        return entry is not None and entry.name in _FED and byte_size(tensor) > SMALL

    def _embed(self, graph: GraphProto, tensor: TensorProto) -> None:
        """Add a copy of a weight to a graph, with its elements."""
        copied = graph.initializer.add()
        copied.CopyFrom(tensor)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            copied.Clear()
            array = self._arrays.array(tensor)
            copied.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))

    def _declare(self, graph: GraphProto, name: str, value: Any) -> None:
        """Add an input for a value that was passed or computed."""
        declared = graph.input.add(name=name)
        if name in self._stated:
            declared.type.CopyFrom(self._stated[name])
            return
        computed: TrialValue = value
        number = None if computed.dtype is None else _TYPES.to_native(computed.dtype)
        if computed.shape is None:
            declared.type.sequence_type.elem_type.tensor_type.elem_type = number or 0
        else:
            declared.type.tensor_type.elem_type = number or 0
            _set_shape(declared.type.tensor_type, computed.shape)

    def _forget(self, index: int) -> None:
        """Drop the values that no later node reads."""
        for passed in range(self._forgotten, index + 1):
            for name in self._reads[passed]:
                if self._last_use[name] == passed:
                    self._values.pop(name, None)
        self._forgotten = index + 1


def _set_shape(typed: Any, dims: Sequence[int]) -> None:
    """Set the shape of a type."""
    typed.shape.SetInParent()
    for dim in dims:
        typed.shape.dim.add(dim_value=dim)


_LIMIT = 2**31 - 1
"""The most bytes that a protobuf message has."""
_WHOLE = 10_000
"""Most nodes that are tried in one piece: for nodes that compute shapes or constants, ONNX
Runtime's time grows with the square of their number."""
_IR_VERSION = "IR version"
_UNREGISTERED = "is not a registered function/op"


def open_to_lint(source: ModelSource) -> Lint:
    """Return a model whose nodes can be checked; see the port."""
    return OnnxLintedModel(source).lint


class OnnxLintedModel:
    """An ONNX model that is read once for all trials."""

    def __init__(self, source: ModelSource) -> None:
        """Read the model, and check its nodes."""
        self._source = source
        self._model = load_structure(source.path)
        graph = describe_model(self._model, source.path, Detail(layers=True)).graph
        self._labels = labels_of(graph)
        self._entries = list(NodeChecks(self._model).entries(self._labels))
        self._entries += _model_errors(self._model, {entry.message for entry in self._entries})
        self._entries += fixed_shape_findings(self._model, self._labels)

    def lint(self, feed: Mapping[str, Any] | None, trial: ModelTrial | None) -> Findings:
        """Return the problems of the nodes, and with a trial also those of running the model.

        Raises:
            FileError: a file with weights cannot be read.
        """
        model, labels, entries = self._model, self._labels, list(self._entries)
        if trial is None or feed is None or not labels:
            return Findings(tuple(labels), tuple(entries))
        try:
            check_expansion(model)
        except ModelError as error:
            entries.append(LintEntry(EXCEPTION, Source.CHECKER, str(error)))
            return Findings(tuple(labels), tuple(entries))
        suspected = {label for entry in entries for label in entry.nodes}
        suspects = {index for index, label in enumerate(labels) if label in suspected}
        trying = _ModelTrial(model, self._source, feed, trial, suspects)
        entries += trying.entries(labels)
        return Findings(
            tuple(labels), tuple(entries), trying.ran, tuple(dict.fromkeys(trying.skipped))
        )


def _model_errors(model: ModelProto, known_names: Collection[str]) -> Iterator[LintEntry]:
    """Yield the checker's errors about a model as a whole,
    except those about known nodes, or with which it can still run.
    """
    message = find_model_violation(model)
    if message and message not in known_names:
        yield LintEntry(EXCEPTION, Source.CHECKER, message)


class _ModelTrial:
    """Runs a model, first as a whole.

    Attributes:
        ran: names of the nodes that worked.
        skipped: names of nodes that could not be tried.
    """

    def __init__(
        self,
        model: ModelProto,
        source: ModelSource,
        feed: Mapping[str, Any],
        trial: ModelTrial,
        suspects: Collection[int],
    ) -> None:
        """Set the model, its data, and the backend that runs it."""
        self._model = model
        self._suspects = suspects
        self._source = source
        self._feed = feed
        self._trial = trial
        self.ran: frozenset[str] = frozenset()
        self.skipped: list[str] = []
        self._outputs: Mapping[str, TrialValue] = {}

    def entries(self, labels: Sequence[str]) -> Iterator[LintEntry]:
        """Yield the errors of running, for the nodes that fail by themselves."""
        error = None
        large = large_nodes(self._model, self._feed)
        size = Path(self._source.path).stat().st_size
        if size > _LIMIT:
            message = f"The file has {size} bytes. Other programs cannot load files above 2 GiB."
            hint = "Save its weights in an external file."
            yield LintEntry(EXCEPTION, Source.LOADER, f"{message} {hint}")
        elif crashing := self._indices(omits_results):
            message = (
                "Not run: it omits an output, which crashes ONNX Runtime. Give the output a name."
            )
            for index in crashing:
                op = self._model.graph.node[index].op_type
                yield LintEntry(EXCEPTION, Source.RUNTIME, message, (labels[index],), op)
        elif large:
            for index, message in large.items():
                op = self._model.graph.node[index].op_type
                yield LintEntry(WARNING, Source.RUNTIME, message, (labels[index],), op)
        elif wide := self._indices(is_wide):
            for index in wide:
                node = self._model.graph.node[index]
                message = f"Not run: ONNX Runtime is slow with {len(node.input)} inputs."
                yield LintEntry(INFO, Source.RUNTIME, message, (labels[index],), node.op_type)
        elif len(labels) > _WHOLE:
            message = f"Its {len(labels)} nodes were run in segments, not all at once."
            yield LintEntry(INFO, Source.RUNTIME, message)
        elif self._source.external_data_dir is None and not missing_inputs(self._model, self._feed):
            try:
                error = self._whole_model_error()
            except InconclusiveError as error:
                yield LintEntry(WARNING, Source.RUNTIME, f"The model was not run: {error}")
                self.skipped = list(labels)
                return
            if error is None:
                self.ran = frozenset(labels)
                yield from self._declared_shapes()
                return
        arrays = WeightArrays(self._source.path, self._source.external_data_dir)
        trials = NodeTrials(self._model, arrays, self._feed, self._trial, self._suspects, large)
        trials.run()
        yield from self._findings(trials, labels)
        if error is not None and (not trials.failures or _IR_VERSION in error):
            # Each node works by itself, but together they fail: the format is too new, or types
            # contradict the graph.
            yield LintEntry(EXCEPTION, Source.RUNTIME, error)

    def _indices(self, wanted: Callable[[NodeProto], bool]) -> list[int]:
        """Return the indices of the nodes for which a function returns True."""
        nodes = enumerate(self._model.graph.node)
        return [index for index, node in nodes if wanted(node)]

    def _whole_model_error(self) -> str | None:
        """Return the error of running the whole model; None if it runs."""
        try:
            outputs = [value.name for value in self._model.graph.output]
            self._outputs = self._trial.run(self._source.path, self._feed, outputs)
        except UnavailableError:
            raise
        except BackendError as error:
            return str(error)
        return None

    def _declared_shapes(self) -> Iterator[LintEntry]:
        """Yield a warning for each output with another shape than the model declares."""
        for output in self._model.graph.output:
            value, kind = self._outputs.get(output.name), output.type.tensor_type
            if value is None or value.shape is None or not kind.HasField("shape"):
                continue
            dims = [dim.dim_value or None for dim in kind.shape.dim]
            if message := describe_contradiction(output.name, dims, value.shape):
                yield LintEntry(WARNING, Source.SHAPES, message)

    def _findings(self, trials: NodeTrials, labels: Sequence[str]) -> Iterator[LintEntry]:
        """Yield the errors of single nodes, and a note for each input that is not a tensor."""
        nodes = self._model.graph.node
        for index, message in trials.failures.items():
            level = WARNING if _UNREGISTERED in message else EXCEPTION
            yield LintEntry(level, Source.RUNTIME, message, (labels[index],), nodes[index].op_type)
        self.skipped = [labels[index] for index in sorted(trials.skipped)]
        remaining_indices = {*trials.skipped, *trials.failures}
        self.ran = frozenset(label for i, label in enumerate(labels) if i not in remaining_indices)
        sequences = [
            value.name
            for value in self._model.graph.input
            if value.type.WhichOneof("value") not in ("tensor_type", None)
        ]
        for name in sequences:
            yield LintEntry(
                INFO, Source.RUNTIME, f"Input: '{name}' is not a tensor, so it was not checked."
            )
