"""Faults that exporters could make, planted into what they made: one of each kind that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Edit = Callable[[onnx.ModelProto, onnx.NodeProto], bool]


@dataclass(frozen=True)
class Fault:
    """A model with a fault, the node that has it, and what its cause may be called."""

    name: str
    model: onnx.ModelProto
    node: str
    causes: tuple[str, ...]


def change_weight(model: onnx.ModelProto, name: str, change: Callable[[Any], Any]) -> bool:
    """Change a weight that a single node reads; return whether there is one."""
    if sum(name in node.input for node in model.graph.node) != 1:
        return False
    for tensor in model.graph.initializer:
        if tensor.name == name and tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor)
            changed = np.ascontiguousarray(change(array)).astype(array.dtype)
            tensor.CopyFrom(numpy_helper.from_array(changed, name))
            return True
    return False


def set_attribute(node: onnx.NodeProto, name: str, value: Any) -> bool:
    """Set an attribute of a node; return True."""
    kept_attributes = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept_attributes, helper.make_attribute(name, value)])
    return True


def _weight_edit(position: int, change: Callable[[Any], Any]) -> Edit:
    """Return an edit that changes a weight of a node, by the position of the input."""
    return lambda model, node: (
        len(node.input) > position and change_weight(model, node.input[position], change)
    )


def _swap_axes_edit(position: int, first: int, second: int) -> Edit:
    """Return an edit that swaps two axes of a weight, if they have the same size."""

    def edit(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
        """Swap the axes of the weight of a node; return whether the node has such axes."""
        shapes = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
        shape = shapes.get(node.input[position], [])
        if len(shape) < 2 or shape[first] != shape[second] or shape[first] == 1:
            return False
        return change_weight(model, node.input[position], lambda a: np.swapaxes(a, first, second))

    return edit


def _borrowed_weight_edit(position: int) -> Edit:
    """Return an edit that copies the weight of another node of the same operator."""

    def edit(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
        """Copy the weight of another node to this node; return whether one has the same shape."""
        weights = {tensor.name: tensor for tensor in model.graph.initializer}
        own_weight = weights.get(node.input[position])
        for other_node in model.graph.node if own_weight is not None else ():
            if other_node.op_type == node.op_type and other_node.input[position] not in (
                "",
                own_weight.name,
            ):
                other_weight = weights.get(other_node.input[position])
                if other_weight is not None and other_weight.dims == own_weight.dims:
                    array = numpy_helper.to_array(other_weight)
                    return change_weight(model, own_weight.name, lambda _, array=array: array)
        return False

    return edit


def _scalar_edit(change: Callable[[Any], Any]) -> Edit:
    """Return an edit that changes a scalar written by an exporter."""

    def edit(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
        """Change a scalar that a node reads; return whether it reads one."""
        numbers = {tensor.name for tensor in model.graph.initializer if not tensor.dims}
        return any(name in numbers and change_weight(model, name, change) for name in node.input)

    return edit


def _add_dropout(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    """Add a Dropout in training mode after a node; return True."""
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "_training"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.3), "_ratio"))
    new_node = helper.make_node(
        "Dropout", ["_kept", "_ratio", "_training"], [node.output[0]], f"{node.name}_drop", seed=3
    )
    node.output[0] = "_kept"
    model.graph.node.insert(list(model.graph.node).index(node) + 1, new_node)
    return True


def _operator_edit(op: str) -> Edit:
    """Return an edit that replaces the operator of a node."""

    def edit(_: onnx.ModelProto, node: onnx.NodeProto) -> bool:
        """Replace the operator of a node, without its attributes; return True."""
        node.op_type = op
        del node.attribute[:]
        return True

    return edit


def _reverse_inputs(_: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    """Reverse the inputs of a node; return whether it has several."""
    node.input[:] = [*node.input][::-1]
    return len(node.input) > 1


def _attribute_edit(**attributes: Any) -> Edit:
    """Return an edit that sets attributes of a node."""

    def edit(_: onnx.ModelProto, node: onnx.NodeProto) -> bool:
        """Set the attributes of a node; return True."""
        return all(set_attribute(node, name, value) for name, value in attributes.items())

    return edit


KINDS: list[tuple[str, str, Edit, tuple[str, ...]]] = [
    ("scaled", "Conv", _weight_edit(1, lambda a: a * 1.05), ("weight",)),
    ("bias", "Conv", _weight_edit(2, lambda a: a + 0.5), ("weight",)),
    ("channels", "Conv", _swap_axes_edit(1, 0, 1), ("weight",)),
    ("kernel", "Conv", _swap_axes_edit(1, -1, -2), ("weight",)),
    ("other", "Conv", _borrowed_weight_edit(1), ("weight",)),
    ("transposed", "MatMul", _swap_axes_edit(1, 0, 1), ("weight",)),
    ("transposed", "Gemm", _swap_axes_edit(1, 0, 1), ("weight",)),
    ("other", "MatMul", _borrowed_weight_edit(1), ("weight",)),
    ("other", "Gemm", _borrowed_weight_edit(1), ("weight",)),
    ("rolled", "Gather", _weight_edit(0, lambda a: np.roll(a, 1, 0)), ("weight",)),
    ("reversed", "LSTM", _weight_edit(2, lambda a: a[:, ::-1]), ("weight",)),
    ("biases", "LSTM", _weight_edit(3, lambda a: a[:, ::-1]), ("weight",)),
    ("reversed", "GRU", _weight_edit(1, lambda a: a[:, ::-1]), ("weight",)),
    ("squared", "Mul", _scalar_edit(lambda a: a * a), ("weight",)),
    ("squared", "Div", _scalar_edit(lambda a: a * a), ("weight",)),
    ("flipped", "ConvTranspose", _weight_edit(1, lambda a: a[..., ::-1]), ("weight",)),
    ("rows", "MatMul", _weight_edit(1, lambda a: a[::-1]), ("weight",)),
    ("rows", "Gemm", _weight_edit(1, lambda a: a[::-1]), ("weight",)),
    ("gates", "LSTM", _weight_edit(2, lambda a: a * 1.3), ("weight",)),
    ("gates", "GRU", _weight_edit(1, lambda a: a * 1.3), ("weight",)),
    ("epsilon", "LayerNormalization", _attribute_edit(epsilon=0.05), ("epsilon", "attribute")),
    ("scale", "LayerNormalization", _weight_edit(1, lambda a: a * 1.2), ("weight",)),
    ("axis", "Softmax", _attribute_edit(axis=1), ("attribute", "translation")),
    ("corners", "Resize", _attribute_edit(coordinate_transformation_mode="asymmetric"),
     ("attribute", "translation")),
    ("softplus", "Relu", _operator_edit("Softplus"), ("translation",)),
    ("cosine", "Sin", _operator_edit("Cos"), ("translation",)),
    ("sine", "Cos", _operator_edit("Sin"), ("translation",)),
    ("swapped", "Concat", _reverse_inputs, ("translation",)),
    ("tanh", "Gelu", _attribute_edit(approximate="tanh"), ("attribute", "translation")),
    ("negative", "Sqrt", _operator_edit("Exp"), ("translation",)),
]  # fmt: skip


def faults(model: onnx.ModelProto) -> Iterator[Fault]:
    """Yield copies of a model, each with one fault."""
    for kind, op, edit, causes in KINDS:
        places = [index for index, node in enumerate(model.graph.node) if node.op_type == op]
        for place in [*places[-2:-1], *places[::-1]]:
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            node = copy.graph.node[place]
            if edit(copy, node):
                yield Fault(f"{op}-{kind}", copy, node.name, causes)
                break
