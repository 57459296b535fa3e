"""Tries every node of a model in a backend, in few runs.

The nodes are taken in segments, each a small model of its own whose inputs are what the segments
before it computed. A segment that works clears all its nodes at once; one that fails is halved
until the node stands alone that fails. A node of which something is wrong already is tried alone at
once. So 2000 nodes with a few defects take some hundred runs at most, and what the defects hide -
all that needs what they would compute - is all that is not tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.open_model import OpenGraph, assemble, untyped
from polygraphy.adapters.onnx.lint.node_checks import is_foreign
from polygraphy.adapters.onnx.storage.datatype import OnnxDataTypes
from polygraphy.adapters.onnx.storage.elements import WeightArrays
from polygraphy.adapters.onnx.storage.weights import SMALL, byte_size
from polygraphy.adapters.onnx_common.omitted import with_all_results
from polygraphy.domain.errors import BackendError, InconclusiveError, MissingDependencyError
from polygraphy.ports.models import ModelTrial, TrialValue

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


onnx = mod.lazy_import("onnx")

_MOST_OPERANDS = 10_000
"""The most tensors that a node may read to be tried: ONNX Runtime takes time with the square of
their number, minutes for ten times as many.
"""
_SEGMENT = 64
_IR_VERSION = 10  # What backends know; newer ones are no fault of a node.
_TYPES = OnnxDataTypes()
_FED = frozenset(
    {
        "bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
        "uint16", "uint32", "uint64",
    }
)  # fmt: skip
"""Data types whose large weights are fed; others stay part of the model."""


def is_wide(node: NodeProto) -> bool:
    """Return whether a node takes too many tensors to be tried."""
    return len(node.input) > _MOST_OPERANDS and len(set(node.input)) > _MOST_OPERANDS


class NodeTrials:
    """Tries the nodes of one model's main graph.

    Attributes:
        failures: what each node that fails by itself raised, by its index.
        skipped: indices of nodes that were not tried, because what they need was not computed, or
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
        """Take a model, what gives its weights, input data, who tries, and the indices of nodes
        that may well fail, and of those that would make too much to be tried.
        """
        self._large = frozenset(large)
        self._suspects = frozenset(suspects)
        opened = OpenGraph(model.graph)
        self._nodes, self._weights, self._reads = opened.protos, opened.weights, opened.reads
        self._frame = onnx.ModelProto(
            ir_version=min(model.ir_version, _IR_VERSION),
            opset_import=model.opset_import,
            functions=model.functions,
            graph=onnx.GraphProto(name="trial"),
        )
        self._arrays = arrays
        self._trial = trial
        self._values: dict[str, Any] = dict(feed)
        self._stated = {value.name: value.type for value in model.graph.input}
        self._last_use = {name: i for i, names in enumerate(self._reads) for name in names}
        self._lost: set[str] = set()
        self._forgotten = 0
        self.failures: dict[int, str] = {}
        self.skipped: dict[int, None] = {}  # In order, and quick to look into.

    def run(self) -> None:
        """Try all nodes.

        Raises:
            MissingDependencyError: the backend is not installed.
        """
        for start in range(0, len(self._nodes), _SEGMENT):
            segment = range(start, min(start + _SEGMENT, len(self._nodes)))
            for _, part in groupby(segment, lambda i: -i if i in self._suspects else 1):
                self._segment(list(part))

    def _segment(self, indices: Sequence[int]) -> None:
        runnable = [index for index in indices if self._is_runnable(index)]
        if not runnable:
            return
        error = self._tried(runnable)
        if error is None:
            self._forget(runnable[-1])
        elif len(runnable) == 1:
            self.failures[runnable[0]] = error
            self._lose(runnable[0])
        else:
            # A node that was lost on the way takes its followers in the second half with it.
            middle = len(runnable) // 2
            self._segment(runnable[:middle])
            self._segment(runnable[middle:])

    def _is_runnable(self, index: int) -> bool:
        """Return whether what a node needs is there, or computed by nodes that may be there."""
        is_large = index in self._large or is_wide(self._nodes[index])
        if self._lost.isdisjoint(self._reads[index]) and not is_large:
            return True
        if index not in self.failures and index not in self.skipped:
            self.skipped[index] = None
            self._lose(index)
        return False

    def _lose(self, index: int) -> None:
        self._lost.update(filter(None, self._nodes[index].output))

    def _tried(self, indices: Sequence[int]) -> str | None:
        """Run some nodes and keep what they compute; return what is raised."""
        last = indices[-1]
        produced = [name for i in indices for name in self._nodes[i].output if name]
        inside = {name for i in indices for name in self._reads[i]}
        wanted = [
            name
            for name in dict.fromkeys(produced)
            if self._last_use.get(name, -1) > last or name not in inside
        ]
        nodes = [self._nodes[i] for i in indices]
        made = assemble(self._frame, nodes, outputs=map(untyped, wanted))
        imported = {each.domain for each in made.opset_import}
        for domain in {node.domain for node in nodes} - imported:
            if is_foreign(domain):  # An operator of a plugin is no defect.
                made.opset_import.add(domain=domain, version=1)
        known = set(produced)
        needed = dict.fromkeys(
            name for i in indices for name in self._reads[i] if name not in known
        )
        feed = dict(self._inputs(made.graph, needed))
        try:
            results = self._trial.run(with_all_results(made).SerializeToString(), feed, wanted)
        except MissingDependencyError:
            raise
        except (BackendError, InconclusiveError) as error:
            return str(error)
        self._values.update(results)
        self._lost.update(name for name in wanted if name not in results)
        return None

    def _inputs(self, graph: GraphProto, names: Mapping[str, None]) -> Iterator[tuple[str, Any]]:
        """Add what is needed to a graph, as inputs that are fed or as weights of its own."""
        for name in names:
            tensor = self._weights.get(name)
            if tensor is not None and not self._is_fed(tensor):
                self._embed(graph, tensor)
            elif tensor is not None:
                typed = graph.input.add(name=name).type.tensor_type
                typed.elem_type = tensor.data_type
                _state(typed, tensor.dims)
                yield name, self._arrays.array(tensor)
            elif name in self._values:
                self._declare(graph, name, self._values[name])
                yield name, self._values[name]

    @staticmethod
    def _is_fed(tensor: TensorProto) -> bool:
        entry = _TYPES.from_native(tensor.data_type)
        return entry is not None and entry.name in _FED and byte_size(tensor) > SMALL

    def _embed(self, graph: GraphProto, tensor: TensorProto) -> None:
        copied = graph.initializer.add()
        copied.CopyFrom(tensor)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            copied.Clear()
            array = self._arrays.array(tensor)
            copied.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))

    def _declare(self, graph: GraphProto, name: str, value: Any) -> None:
        """Add an input for a value that was given or computed."""
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
            _state(declared.type.tensor_type, computed.shape)

    def _forget(self, index: int) -> None:
        """Drop what no node after this one reads."""
        for passed in range(self._forgotten, index + 1):
            for name in self._reads[passed]:
                if self._last_use[name] == passed:
                    self._values.pop(name, None)
        self._forgotten = index + 1


def _state(typed: Any, dims: Sequence[int]) -> None:
    typed.shape.SetInParent()
    for dim in dims:
        typed.shape.dim.add(dim_value=dim)
