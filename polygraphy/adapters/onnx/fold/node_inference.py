"""Infers the output shapes of a single node from the known facts about its operands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Protocol

from polygraphy import mod
from polygraphy.adapters.onnx.fold.shape_values import INT64, LONGEST, Element, Elements, Shape
from polygraphy.adapters.onnx.graph.element_types import FLOAT, domain_of
from polygraphy.adapters.onnx.graph.growth import check_expansion
from polygraphy.adapters.onnx.graph.shapes import has_endless_vectors
from polygraphy.adapters.onnx.storage.parsing import translate_onnx_errors
from polygraphy.adapters.onnx_common.inference import infer_shapes
from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.domain.errors import ModelError
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto


onnx = mod.lazy_import("onnx")

SHAPED_BY_VALUES = frozenset(
    {
        "BlackmanWindow", "CenterCropPad", "ConstantOfShape", "Expand", "HammingWindow",
        "HannWindow", "OneHot", "Pad", "Range", "ReduceMax", "ReduceMean", "ReduceMin",
        "ReduceProd", "ReduceSum", "Reshape", "Resize", "Slice", "Split", "Squeeze", "Tile", "TopK",
        "Unsqueeze", "Upsample",
    }
)  # fmt: skip
"""Operators whose results have shapes that follow from the elements of operands."""

_Key = tuple[str, str, str]


class Operands(Protocol):
    """The known facts about the inputs of nodes."""

    def kind(self, name: str) -> str | None:
        """Return the type of a tensor in ONNX notation; None if it is unknown."""

    def shape(self, name: str) -> Shape | None:
        """Return the shape of a tensor; None if even its rank is unknown."""

    def elements_of(self, name: str) -> Elements | None:
        """Return the known elements of a shape; None for other tensors."""

    def tensor(self, name: str) -> TensorProto | None:
        """Return a constant whose value is known; None for other tensors."""


class NodeInference:
    """Shape inference of the onnx package for single nodes.

    The node becomes a model of its own with its operands as inputs. A known operand becomes a
    weight, and a partly known one the shape of an additional input.
    """

    def __init__(self, model: ModelProto) -> None:
        """Prepare inference for the nodes of a model.

        Raises:
            ModelError: the model has too many nodes when its functions are inlined.
        """
        check_expansion(model)
        self._functions = {(domain_of(f.domain), f.name, f.overload): f for f in model.functions}
        self._needed: dict[_Key, list[FunctionProto]] = {}
        self._propagates = not has_endless_vectors(model)
        self._versions = list(model.opset_import)
        self._ir_version = max(model.ir_version, 4)

    def infer(self, node: NodeProto, operands: Operands) -> dict[str, Shape]:
        """Return the known shapes of the outputs of a node without subgraphs.
        Dimension names come from the shapes of its inputs."""
        framed: ModelProto = onnx.ModelProto(ir_version=self._ir_version)
        framed.opset_import.extend(self._versions)
        framed.functions.extend(self._collect_functions(node))
        graph = framed.graph
        graph.name = "node"
        names: set[Element] = set()
        for name in dict.fromkeys(filter(None, node.input[:])):
            _add_operand(graph, name, operands, names)
        graph.node.append(node)
        for name in filter(None, node.output[:]):
            graph.output.add(name=name)
        try:
            with translate_onnx_errors("The output shapes of a node cannot be inferred"):
                inferred = infer_shapes(framed, data_prop=self._propagates)
        except ModelError as error:
            G_LOGGER.ultra_verbose(str(error))
            return {}
        inferred_shapes: dict[str, Shape] = {}
        for value in inferred.graph.output:
            if value.type.tensor_type.HasField("shape"):
                inferred_shapes[value.name] = [
                    (
                        dim.dim_value
                        if dim.HasField("dim_value")
                        else (dim.dim_param if dim.dim_param in names else None)
                    )
                    for dim in value.type.tensor_type.shape.dim
                ]
        return inferred_shapes

    def _collect_functions(self, node: NodeProto) -> list[FunctionProto]:
        """Return the functions that a node calls, directly or indirectly."""
        key = (domain_of(node.domain), node.op_type, node.overload)
        if key not in self._functions:
            return []
        if key not in self._needed:
            function_protos: dict[int, FunctionProto] = {}
            pending = [self._functions[key]]
            while pending:
                function = pending.pop()
                if id(function) not in function_protos:
                    function_protos[id(function)] = function
                    pending += _calls(function.node, self._functions)
            self._needed[key] = list(function_protos.values())
        return self._needed[key]


def _add_operand(graph: GraphProto, name: str, operands: Operands, names: set[Element]) -> None:
    """Add an operand to the graph of a node, and the dimension names in it to `names`."""
    elements = operands.elements_of(name)
    if elements is not None and elements.is_known:
        values = [int(value) for value in elements.values if value is not None]
        weight = graph.initializer.add(name=name, data_type=elements.elem_type, dims=elements.shape)
        (weight.int64_data if elements.elem_type == INT64 else weight.int32_data).extend(values)
        return
    if elements is not None and not elements.is_scalar and elements.elem_type == INT64:
        # Negative numbers among them are passed on unchanged.
        _set_type(graph.input.add(name=f"{name}/of"), FLOAT, elements.values)
        graph.node.add(op_type="Shape", input=[f"{name}/of"], output=[name])
        names.update(elements.values)
        return
    tensor = operands.tensor(name)
    if tensor is not None and not tensor.data_location and prod(tensor.dims) <= LONGEST:
        weight = graph.initializer.add()
        weight.CopyFrom(tensor)
        weight.name = name
        return
    number, shape = _element_number(operands.kind(name)), operands.shape(name)
    value = graph.input.add(name=name)
    if number is not None:
        _set_type(value, number, shape)
        names.update(shape or ())


def _calls(
    nodes: Iterable[NodeProto], functions: Mapping[_Key, FunctionProto]
) -> list[FunctionProto]:
    """Return the functions that nodes call, including those in subgraphs."""
    calls: list[FunctionProto] = []
    for node in nodes:
        key = (domain_of(node.domain), node.op_type, node.overload)
        if key in functions:
            calls.append(functions[key])
        for graph in graphs_of(node):
            calls += _calls(graph.node, functions)
    return calls


def _set_type(value: ValueInfoProto, elem_type: int, shape: Shape | None) -> None:
    """Set the type and the shape of a tensor."""
    tensor = value.type.tensor_type
    tensor.elem_type = elem_type
    if shape is None:
        return
    tensor.shape.SetInParent()
    for dim in shape:
        dimension = tensor.shape.dim.add()
        if isinstance(dim, int):
            dimension.dim_value = dim
        elif dim is not None:
            dimension.dim_param = dim


@cache
def _element_number(kind: str | None) -> int | None:
    """Return the ONNX number of the element type in the name of a tensor type; None if unknown."""
    if not kind or not kind.startswith("tensor("):
        return None
    return dict(onnx.TensorProto.DataType.items()).get(kind[len("tensor(") : -1].upper())
