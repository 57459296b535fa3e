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


def weight(model: onnx.ModelProto, name: str, change: Callable[[Any], Any]) -> bool:
    """Change a weight that one node reads."""
    if sum(name in node.input for node in model.graph.node) != 1:
        return False
    for tensor in model.graph.initializer:
        if tensor.name == name and tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor)
            changed = np.ascontiguousarray(change(array)).astype(array.dtype)
            tensor.CopyFrom(numpy_helper.from_array(changed, name))
            return True
    return False


def setting(node: onnx.NodeProto, name: str, value: Any) -> bool:
    """Change an attribute."""
    kept_attributes = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept_attributes, helper.make_attribute(name, value)])
    return True


def _of_weight(position: int, change: Callable[[Any], Any]) -> Edit:
    return lambda model, node: (
        len(node.input) > position and weight(model, node.input[position], change)
    )


def _swap_axes(position: int, first: int, second: int) -> Edit:
    """Swap two axes of the same size of a weight."""

    def edit(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
        shapes = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
        shape = shapes.get(node.input[position], [])
        if len(shape) < 2 or shape[first] != shape[second] or shape[first] == 1:
            return False
        return weight(model, node.input[position], lambda a: np.swapaxes(a, first, second))

    return edit


def _of_another(position: int) -> Edit:
    """Take the weight of another node of the same operator."""

    def edit(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
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
                    return weight(model, own_weight.name, lambda _, array=array: array)
        return False

    return edit


def _number(change: Callable[[Any], Any]) -> Edit:
    """Change a number that an exporter wrote."""

    def edit(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
        numbers = {tensor.name for tensor in model.graph.initializer if not tensor.dims}
        return any(name in numbers and weight(model, name, change) for name in node.input)

    return edit


def _dropout(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "_training"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.3), "_ratio"))
    new_node = helper.make_node(
        "Dropout", ["_kept", "_ratio", "_training"], [node.output[0]], f"{node.name}_drop", seed=3
    )
    node.output[0] = "_kept"
    model.graph.node.insert(list(model.graph.node).index(node) + 1, new_node)
    return True


def _operator(op: str) -> Edit:
    def edit(_: onnx.ModelProto, node: onnx.NodeProto) -> bool:
        node.op_type = op
        del node.attribute[:]
        return True

    return edit


def _swapped(_: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    node.input[:] = [*node.input][::-1]
    return len(node.input) > 1


def _set(**attributes: Any) -> Edit:
    def edit(_: onnx.ModelProto, node: onnx.NodeProto) -> bool:
        return all(setting(node, name, value) for name, value in attributes.items())

    return edit


KINDS: list[tuple[str, str, Edit, tuple[str, ...]]] = [
    ("scaled", "Conv", _of_weight(1, lambda a: a * 1.05), ("weight",)),
    ("bias", "Conv", _of_weight(2, lambda a: a + 0.5), ("weight",)),
    ("channels", "Conv", _swap_axes(1, 0, 1), ("weight",)),
    ("kernel", "Conv", _swap_axes(1, -1, -2), ("weight",)),
    ("other", "Conv", _of_another(1), ("weight",)),
    ("transposed", "MatMul", _swap_axes(1, 0, 1), ("weight",)),
    ("transposed", "Gemm", _swap_axes(1, 0, 1), ("weight",)),
    ("other", "MatMul", _of_another(1), ("weight",)),
    ("other", "Gemm", _of_another(1), ("weight",)),
    ("rolled", "Gather", _of_weight(0, lambda a: np.roll(a, 1, 0)), ("weight",)),
    ("reversed", "LSTM", _of_weight(2, lambda a: a[:, ::-1]), ("weight",)),
    ("biases", "LSTM", _of_weight(3, lambda a: a[:, ::-1]), ("weight",)),
    ("reversed", "GRU", _of_weight(1, lambda a: a[:, ::-1]), ("weight",)),
    ("squared", "Mul", _number(lambda a: a * a), ("weight",)),
    ("squared", "Div", _number(lambda a: a * a), ("weight",)),
    ("flipped", "ConvTranspose", _of_weight(1, lambda a: a[..., ::-1]), ("weight",)),
    ("rows", "MatMul", _of_weight(1, lambda a: a[::-1]), ("weight",)),
    ("rows", "Gemm", _of_weight(1, lambda a: a[::-1]), ("weight",)),
    ("gates", "LSTM", _of_weight(2, lambda a: a * 1.3), ("weight",)),
    ("gates", "GRU", _of_weight(1, lambda a: a * 1.3), ("weight",)),
    ("epsilon", "LayerNormalization", _set(epsilon=0.05), ("epsilon", "attribute")),
    ("scale", "LayerNormalization", _of_weight(1, lambda a: a * 1.2), ("weight",)),
    ("axis", "Softmax", _set(axis=1), ("attribute", "translation")),
    ("corners", "Resize", _set(coordinate_transformation_mode="asymmetric"),
     ("attribute", "translation")),
    ("softplus", "Relu", _operator("Softplus"), ("translation",)),
    ("cosine", "Sin", _operator("Cos"), ("translation",)),
    ("sine", "Cos", _operator("Sin"), ("translation",)),
    ("swapped", "Concat", _swapped, ("translation",)),
    ("tanh", "Gelu", _set(approximate="tanh"), ("attribute", "translation")),
    ("negative", "Sqrt", _operator("Exp"), ("translation",)),
]  # fmt: skip


def faults(model: onnx.ModelProto) -> Iterator[Fault]:
    """Yield copies of a model, each with a fault in the last node but one that it fits."""
    for kind, op, edit, causes in KINDS:
        places = [index for index, node in enumerate(model.graph.node) if node.op_type == op]
        for place in [*places[-2:-1], *places[::-1]]:
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            node = copy.graph.node[place]
            if edit(copy, node):
                yield Fault(f"{op}-{kind}", copy, node.name, causes)
                break
