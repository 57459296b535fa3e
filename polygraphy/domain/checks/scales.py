"""Scales of quantized tensors that are not positive numbers, which no quantizer writes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import frozen

from polygraphy.domain.model.code_operands import CodeOperand, operands_of
from polygraphy.domain.model.graph import Graph, Node, Weight
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.precision import is_float

_WEIGHT_AXIS = {"DequantizeLinear": 1, "QLinearConv": 0}
"""The axis of the scales of a weight if the node does not state it."""


@frozen
class WrongScale:
    """A constant scale that is not a positive number.

    Attributes:
        nodes: the nodes that read it; the one that divides by it comes first.
        name: the tensor.
        value: its first wrong element.
        channel: the position of this element; empty if the tensor has one element.
        count: the number of wrong elements.
        size: the number of elements.
    """

    nodes: tuple[Node, ...]
    name: str
    value: float
    channel: tuple[int, ...]
    count: int
    size: int

    def __str__(self) -> str:
        """Return the problem as a sentence."""
        text = f"Its scale {self.name!r} is {self.value:.4g}"
        if not self.channel:
            return f"{text}, which is not a positive number."
        where = ", ".join(map(str, self.channel))
        share = f"{self.count} of {self.size} elements"
        return f"{text} in channel {where}, which is not a positive number ({share})."


def find_wrong_scales(
    graph: Graph, outer_constants: Mapping[str, Weight] | None = None
) -> list[WrongScale]:
    """Return the constant scales in a graph that are zero, negative, infinite or NaN.

    Products with a scale allow more than divisions by it: quantizers write negative scales of
    weights, and zeros for blocks whose codes mean zero.
    """
    constants = {**(outer_constants or {}), **graph.constants}
    users: dict[str, list[tuple[Node, Array]]] = {}
    for node in graph.nodes:
        for operand in operands_of(node.op.rpartition(".")[2], node.inputs, node.outputs):
            name = (*node.inputs, *[""] * (operand.scale + 1))[operand.scale]
            if name in constants and (wrong := _wrong_elements(node, operand, constants)).any():
                is_divisor = operand.tensor in node.outputs
                users.setdefault(name, []).insert(
                    0 if is_divisor else len(users[name]), (node, wrong)
                )
    return [_describe(constants[name], found) for name, found in users.items()]


def _describe(scale: Weight, users: list[tuple[Node, Array]]) -> WrongScale:
    """Return a wrong scale, given the nodes that read it, each with its wrong elements."""
    nodes = tuple(dict.fromkeys(node for node, _ in users))
    wrong, values = users[0][1], np.asarray(scale.values)
    at = tuple(map(int, np.argwhere(wrong)[0]))
    channel = at if values.size > 1 else ()
    count = int(np.count_nonzero(wrong))
    return WrongScale(nodes, scale.name, float(values[at]), channel, count, values.size)


def _wrong_elements(node: Node, operand: CodeOperand, constants: Mapping[str, Weight]) -> Array:
    """Return which elements of the scale of an operand are wrong."""
    values = np.asarray(constants[node.inputs[operand.scale]].values)
    if not is_float(values):
        return np.zeros((), bool)
    scale = values.astype(np.float64)
    wrong: Array = ~np.isfinite(scale)
    if operand.tensor in node.outputs:
        wrong |= scale <= 0
        return wrong
    zero = scale == 0
    if zero.any():
        wrong |= zero & _have_meaning(node, operand, constants, scale)
    return wrong


def _have_meaning(
    node: Node, operand: CodeOperand, constants: Mapping[str, Weight], scale: Array
) -> Array:
    """Return, for each scale, whether codes that it belongs to differ from their zero point; false
    if that is unknown."""
    weight = constants.get(operand.tensor)
    codes = None if weight is None else weight.values
    if weight is None:
        return np.full(scale.shape, scale.size == 1)
    axis = node.attribute("axis", _WEIGHT_AXIS.get(node.op, 0))
    is_per_axis = scale.ndim == 1 and -len(weight.shape) <= axis < len(weight.shape)
    if codes is None or (scale.size > 1 and not is_per_axis):
        return np.zeros(scale.shape, bool)
    numbers = np.asarray(codes).astype(np.float32)
    rows = (
        numbers.reshape(1, -1)
        if scale.size == 1
        else np.moveaxis(numbers, axis, 0).reshape(numbers.shape[axis], -1)
    )
    if len(rows) != scale.size:
        return np.zeros(scale.shape, bool)
    zero_name = (*node.inputs, *[""] * (operand.zero_point + 1))[operand.zero_point]
    zero = constants[zero_name].values if zero_name in constants else 0
    zeros = np.asarray(0 if zero is None else zero).astype(np.float32).reshape(-1, 1)
    differs: Array = np.any(rows != zeros, axis=1).reshape(scale.shape)
    return differs
