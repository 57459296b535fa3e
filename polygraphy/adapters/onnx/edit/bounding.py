"""Changes the input shapes of an ONNX model, and limits the size of tensors that depend on data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Union

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.describe.reading import describe_model
from polygraphy.adapters.onnx.graph.editing import edit_model
from polygraphy.adapters.onnx.graph.element_types import TypeInference
from polygraphy.adapters.onnx.graph.graph import add_weight, names_in_use, rename_uses, unique_name
from polygraphy.adapters.onnx.graph.open_model import OpenGraph
from polygraphy.adapters.onnx.graph.shapes import add_shapes, set_shape
from polygraphy.adapters.onnx.storage.weights import BaseLoadOnnxCopy, all_graphs
from polygraphy.adapters.onnx_common.messages import copy_of, inputs_of
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.model import Detail
from polygraphy.domain.model.description import DRIVING_INPUT, unbounded_tensors
from polygraphy.domain.tensors.naming import count_text, select_names
from polygraphy.domain.tensors.shapes import Shape
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto


override_input_shapes: Callable[..., ModelProto]


@mod.export(funcify=True)
class OverrideInputShapes(BaseLoader):
    """Sets new shapes for inputs of an ONNX model, and removes the shapes that depend on them."""

    def __init__(self, model: Deferred[ModelProto], shapes: Mapping[str, Shape]) -> None:
        """Set the model and the new shapes.

        Args:
            model: the model, which is changed in place, or a loader that returns it.
            shapes: the shapes by the names of inputs, which may be patterns; a dimension may be a
                name, and None or a negative number makes it dynamic.
        """
        self._model = model
        self._shapes = shapes

    def call_impl(self) -> ModelProto:
        """Return the model with new input shapes; shapes of other tensors are inferred again.

        Raises:
            UnknownNameError: a name matches no input of the model.
            UsageError: an input is not a tensor.
        """
        return edit_model(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Set the shapes of inputs, and return the model."""
        inputs = {value.name: value for value in inputs_of(model.graph)}
        for word, shape in self._shapes.items():
            for name in select_names([word], inputs, text="Input"):
                if inputs[name].type.WhichOneof("value") != "tensor_type":
                    raise UsageError(f"Input {name!r} is not a tensor, so it has no shape.")
                rank = _rank(inputs[name])
                if rank is not None and rank != len(shape):
                    G_LOGGER.warning(
                        f"Input {name!r} has {count_text(rank, 'dimension')} in the model, but"
                        f" {len(shape)} in its new shape."
                    )
                set_shape(inputs[name], shape)
        for graph in all_graphs(model.graph):
            for value in graph.value_info:
                if value.type.WhichOneof("value") == "tensor_type":
                    value.type.tensor_type.ClearField("shape")
        for value in model.graph.output:
            tensor = value.type.tensor_type
            if value.type.WhichOneof("value") == "tensor_type" and tensor.HasField("shape"):
                set_shape(value, [None] * len(tensor.shape.dim))
        return model


def _rank(value: ValueInfoProto) -> int | None:
    """Return the number of dimensions of an input; None if it is unknown."""
    tensor = value.type.tensor_type
    return len(tensor.shape.dim) if tensor.HasField("shape") else None


set_upper_bound: Callable[..., ModelProto]

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")
numpy_helper = mod.lazy_import("onnx.numpy_helper")

Bounds = Union[int, "Mapping[str, int]"]


@mod.export(funcify=True)
class SetUpperBound(BaseLoadOnnxCopy):
    """Inserts Min nodes before the inputs that determine the size of tensors."""

    makes_new_model = True

    def __init__(
        self, model: Deferred[ModelProto], upper_bounds: Bounds, copy: bool | None = None
    ) -> None:
        """Set the model and the upper bounds.

        Args:
            model: the model, or a loader that returns it. Fold constants first, because constants
                need no limit.
            upper_bounds: the limit for each element of the operand that determines a size: one
                limit for all tensors, or limits by name of the large tensor or of the operand; an
                empty name stands for all others.
            copy: False to change a given model in place (default: it is not changed).
        """
        super().__init__(model, copy)
        self._bounds = upper_bounds

    def call_impl(self) -> ModelProto:
        """Return the model with the bounds.

        Raises:
            UnknownNameError: a name matches no tensor of the model.
            UsageError: a limit is not positive, or the size of a named tensor does not depend on an
                operand.
        """
        return edit_model(self.load, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Limit sizes that depend on data, and return the model."""
        bounds = self._bounds if isinstance(self._bounds, Mapping) else {"": self._bounds}
        for name, bound in bounds.items():
            if bound < 1:
                raise UsageError(f"The upper bound {bound} of {name or 'tensors'} is not positive.")
        limits = _limits(model, bounds)
        for operand, bound in limits.items():
            _limit(model, operand, bound)
        G_LOGGER.info(f"Limited {len(limits)} inputs of nodes: {limits}")
        return model


def _limits(model: ModelProto, bounds: Mapping[str, int]) -> dict[str, int]:
    """Return the upper bound for each operand that determines a size."""
    graph = OpenGraph(model.graph)
    driven = {name: _driving_operand(graph.protos[index]) for name, index in graph.makers.items()}
    operands = {name: driving for name, driving in driven.items() if driving}
    limits = {}
    unbounded = _unbounded_outputs(model)
    for name, bound in bounds.items():
        if not name:
            continue
        if name in operands:
            limits[operands[name]] = bound
        elif name in operands.values():
            limits[name] = bound
        elif name not in driven and name not in {value.name for value in model.graph.input}:
            raise UnknownNameError("Tensor", name, sorted(driven))
        else:
            raise UsageError(
                f"The size of tensor {name!r} does not depend on a value that can be limited.",
                hint=f"Tensors that can be limited: {', '.join(map(repr, unbounded)) or 'none'}.",
            )
    if "" in bounds:
        for name in unbounded:
            limits.setdefault(operands[name], bounds[""])
    return limits


def _driving_operand(node: NodeProto) -> str:
    """Return the operand of a node that determines the size of its result."""
    position = DRIVING_INPUT.get(node.op_type)
    if position is None or node.domain not in ("", "ai.onnx") or len(node.input) <= position:
        return ""
    operand: str = node.input[position]
    return operand


def _unbounded_outputs(model: ModelProto) -> list[str]:
    """Return the tensors whose size no input shape bounds."""
    unbounded_outputs: ModelProto = copy_of(model)
    add_shapes(unbounded_outputs, allow_onnxruntime=False)
    return unbounded_tensors(describe_model(unbounded_outputs, "", Detail(layers=True)).graph)


def _limit(model: ModelProto, operand: str, bound: int) -> None:
    """Insert a Min between an operand and its readers."""
    graph = model.graph
    kind = TypeInference(model).infer_graph(graph)[operand]
    dtype = numpy.int32 if kind == "tensor(int32)" else numpy.int64
    if kind in ("tensor(float)", "tensor(double)"):  # `Range` may also have a fractional step.
        dtype = numpy.float32 if kind == "tensor(float)" else numpy.float64
    used_names = names_in_use(graph)
    limit, limited = (
        unique_name(f"{operand}_{end}", used_names) for end in ("upper_bound", "bounded")
    )
    add_weight(model, numpy_helper.from_array(numpy.array(bound, dtype)), limit)
    rename_uses(graph, {operand: limited})
    node = onnx.helper.make_node(
        "Min", [operand, limit], [limited], name=unique_name(limited, used_names)
    )
    position = next((i + 1 for i, node in enumerate(graph.node) if operand in node.output), 0)
    graph.node.insert(position, node)
