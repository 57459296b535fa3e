"""Runs ONNX models a segment of nodes at a time: implements the ports of
`polygraphy.ports.editing`.

Of a model in a file only the structure is read; the weights of a segment are read from the file
when the segment is put together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import constants, mod
from polygraphy.adapters.base.loader import evaluate
from polygraphy.adapters.onnx.describe.facts import OnnxFactFinder
from polygraphy.adapters.onnx.edit.outputs import ModifyOutputs
from polygraphy.adapters.onnx.graph.graph import IR_WITHOUT_WEIGHTS_AS_INPUTS
from polygraphy.adapters.onnx.graph.shapes import inferred_value_infos, value_infos
from polygraphy.adapters.onnx.graph.value_infos import described, input_metadata, set_input_shapes
from polygraphy.adapters.onnx.run.recomputing import Recomputer
from polygraphy.adapters.onnx.storage.external import load_external_data
from polygraphy.adapters.onnx.storage.mapped import load_structure
from polygraphy.adapters.onnx.storage.model import OnnxFromPath
from polygraphy.adapters.onnx.storage.weights import byte_size, weights_size, without_large_weights
from polygraphy.adapters.onnx_common.messages import copy_of, used_by
from polygraphy.domain.results.lineage import Recomputed
from polygraphy.domain.search.layers import Layer, Segment
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.facts import Facts

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto


onnx = mod.lazy_import("onnx")

_HANDED_OVER = frozenset(
    {
        DataType.BOOL, DataType.FLOAT16, DataType.FLOAT32, DataType.FLOAT64, DataType.INT8,
        DataType.INT16, DataType.INT32, DataType.INT64, DataType.STRING, DataType.UINT8,
        DataType.UINT16, DataType.UINT32, DataType.UINT64,
    }
)  # fmt: skip
"""Data types that every backend both takes and gives: those of NumPy itself."""


class OnnxLayeredModels:
    """Opens ONNX models."""

    def open(self, model: Any, exclude_outputs: Sequence[str]) -> OnnxLayeredModel:
        """Read the structure of a model; see the port."""
        if isinstance(model, (str, Path)):
            path = Path(model)
            structure = load_structure(path)
            own_outputs = [copy_of(value) for value in structure.graph.output]
            return OnnxLayeredModel(
                _marked(structure, exclude_outputs),
                exclude_outputs,
                own_outputs=own_outputs,
                load=OnnxFromPath(str(path)).call_impl,
                load_weights=lambda part: load_external_data(
                    part, path.parent, trusted=[path.resolve().parent]
                ),
            )
        given: ModelProto = evaluate(model)
        is_ours = callable(model)
        return OnnxLayeredModel(
            _marked(without_large_weights(given), exclude_outputs),
            exclude_outputs,
            own_outputs=[copy_of(value) for value in given.graph.output],
            load=(lambda: given) if is_ours else (lambda: copy_of(given)),
            source=given.graph,
            resident_weights=weights_size(given),
        )


class OnnxLayeredModel:
    """An ONNX model that is cut between nodes; see the port `LayeredModel`."""

    def __init__(
        self,
        structure: ModelProto,
        exclude_outputs: Sequence[str],
        *,
        own_outputs: Sequence[ValueInfoProto],
        load: Callable[[], ModelProto],
        load_weights: Callable[[ModelProto], None] | None = None,
        source: GraphProto | None = None,
        resident_weights: int = 0,
    ) -> None:
        """Take the structure of a model, whose outputs are what is compared.

        Args:
            structure: the model without its large weights.
            exclude_outputs: what is not compared.
            own_outputs: the outputs that the model was given with.
            load: loads the whole model as it was given, to be changed in place.
            load_weights: reads the weights of a model that refers to them in files.
            source: a graph of the same nodes that has the weights; else they are in files.
            resident_weights: bytes of weights in memory.
        """
        self.inputs = input_metadata(structure)
        self.outputs = [value.name for value in structure.graph.output]
        self.resident_weights = resident_weights
        self._structure = structure
        self._exclude = exclude_outputs
        self._own_outputs = own_outputs
        self._load = load
        self._load_weights = load_weights
        self._recomputer: Recomputer | None = None
        held = structure.graph if source is None else source
        self._weights = {tensor.name: tensor for tensor in held.initializer}
        self._types = {**inferred_value_infos(structure), **value_infos(structure)}
        self._reads = [tuple(dict.fromkeys(used_by(n))) for n in structure.graph.node]

    def facts(self) -> Facts:
        return OnnxFactFinder().find(self._structure)

    def layers(self, shapes: Mapping[str, Sequence[int]]) -> list[Layer]:
        sizes = {name: _bytes(value) for name, value in self._types.items()}
        nodes = self._structure.graph.node
        if any(sizes.get(name) is None for node in nodes for name in node.output if name):
            bound = inferred_value_infos(_bound(self._structure, shapes))
            sizes.update({name: _bytes(value) for name, value in bound.items()})
        return [
            Layer(
                makes={name: sizes.get(name) for name in node.output if name},
                reads=[name for name in reads if name not in self._weights],
                weights={n: byte_size(self._weights[n]) for n in reads if n in self._weights},
            )
            for node, reads in zip(nodes, self._reads)
        ]

    def fixed(self) -> set[str]:
        made = {name for node in self._structure.graph.node for name in node.output if name}
        return {name for name in made if not _can_be_handed_over(self._types.get(name))}

    def whole(self) -> ModelProto:
        return _marked(self._load(), self._exclude)

    def recompute(
        self, name: str, runs: Sequence[Mapping[str, Any]], epsilon: float
    ) -> Recomputed | None:
        """Compute a tensor from those before it, in the reference evaluator; see the port."""
        if self._recomputer is None:
            self._recomputer = Recomputer(self._structure, self._weights, self._load_weights)
        return self._recomputer.recompute(name, runs, epsilon)

    def unmarked(self) -> ModelProto:
        """Return the model with its own outputs alone; a model of its own, whatever `whole` made of
        the one that was given.
        """
        model = self._load()
        if self._load_weights is None:
            model = copy_of(model)
        del model.graph.output[:]
        model.graph.output.extend(self._own_outputs)
        return model

    def part(self, segment: Segment) -> ModelProto:
        """Return a model of some of the nodes, with their weights."""
        graph = self._structure.graph
        part: ModelProto = onnx.ModelProto()
        part.ir_version = max(self._structure.ir_version, IR_WITHOUT_WEIGHTS_AS_INPUTS)
        part.opset_import.extend(self._structure.opset_import)
        part.functions.extend(self._structure.functions)
        part.graph.name = graph.name
        part.graph.node.extend(graph.node[segment.start : segment.stop])
        read = dict.fromkeys(
            n for reads in self._reads[segment.start : segment.stop] for n in reads
        )
        outputs = self._outputs_of(segment)
        part.graph.input.extend(
            self._types[name]
            for name in (*self.inputs, *segment.inputs)
            if name in read or name in outputs
        )
        part.graph.output.extend(
            self._types.get(name) or onnx.ValueInfoProto(name=name) for name in outputs
        )
        part.graph.initializer.extend(
            self._weights[name] for name in (*read, *outputs) if name in self._weights
        )
        if self._load_weights is not None:
            self._load_weights(part)
        return part

    def _outputs_of(self, segment: Segment) -> list[str]:
        nodes = self._structure.graph.node[segment.start : segment.stop]
        made = {name for node in nodes for name in node.output}
        carried = [name for name in segment.carried if name in made]
        return list(dict.fromkeys([*segment.outputs, *carried]))


def _marked(model: ModelProto, exclude_outputs: Sequence[str]) -> ModelProto:
    marked: ModelProto = ModifyOutputs(
        model, outputs=constants.MARK_ALL, exclude_outputs=exclude_outputs
    ).call_impl()
    return marked


def _bound(model: ModelProto, shapes: Mapping[str, Sequence[int]]) -> ModelProto:
    """Return a copy whose inputs have these shapes, and which says nothing else about shapes that
    depend on them.
    """
    bound = copy_of(model)
    set_input_shapes(bound.graph, shapes)
    stated = [value for value in bound.graph.value_info if _bytes(value) is not None]
    del bound.graph.value_info[:]
    bound.graph.value_info.extend(stated)
    for value in bound.graph.output:
        if value.type.WhichOneof("value") == "tensor_type" and _bytes(value) is None:
            value.type.tensor_type.ClearField("shape")
    return bound


def _bytes(value: ValueInfoProto) -> int | None:
    """Return how much memory a tensor takes; None where the model does not tell."""
    dtype, shape = described(value)
    if dtype is None or shape is None or not all(isinstance(dim, int) for dim in shape):
        return None
    nbytes: int = ceil(prod(shape) * dtype.itemsize)
    return nbytes


def _can_be_handed_over(value: ValueInfoProto | None) -> bool:
    return described(value).dtype in _HANDED_OVER
