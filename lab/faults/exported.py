"""Faults as an exporter or a hand makes them: an axis, an order, a bound that is another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from .planting import Plant, Planted, identity, one_of, replace, weights_of

Place = tuple[onnx.NodeProto, str, Any]


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of a node by name."""
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def _set(node: onnx.NodeProto, name: str, value: Any) -> None:
    """Set an attribute of a node."""
    kept_attributes = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept_attributes, onnx.helper.make_attribute(name, value)])


def _place_value(rng: np.random.Generator, places: Iterator[Place], cause: str) -> Planted | None:
    """Set a random one of the attributes; return the fault, or None without places."""
    drawn = one_of(rng, list(places))
    if drawn is None:
        return None
    node, name, value = drawn
    _set(node, name, value)
    return Planted((identity(node),), (cause,))


def _weights(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    """Return the weights of a model by name."""
    return {weight.name: weight for weight in model.graph.initializer}


def _other(
    model: onnx.ModelProto, node: onnx.NodeProto, place: int, array: np.ndarray, causes: Any
) -> Planted:
    """Replace a constant that a node reads, for this node alone; return the fault."""
    name = f"{node.input[place]}_other"
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    node.input[place] = name
    return Planted((identity(node),), causes)


def axis(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Change the axis of a Softmax, Concat, Split, TopK or Gather; return the fault, or None."""

    def places() -> Iterator[Place]:
        """Yield each node with an axis, the name of the attribute, and another axis."""
        for node in model.graph.node:
            axis = _attributes(node).get("axis")
            if node.op_type in {"Softmax", "Concat", "Split", "TopK", "Gather", "LogSoftmax"}:
                for value in (0, 1, 2, -1, -2):
                    if axis is not None and value != axis:
                        yield node, "axis", value

    return _place_value(rng, places(), "attribute")


def axes(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Change the axes of a reduction; return the fault, or None without a reduction."""
    weights = _weights(model)
    candidates: list[tuple[onnx.NodeProto, list[int] | None, np.ndarray]] = []
    for node in model.graph.node:
        if node.op_type.startswith("Reduce"):
            own_axes = _attributes(node).get("axes")
            if own_axes is not None:
                candidates.append((node, list(own_axes), np.array(own_axes)))
            elif len(node.input) > 1 and node.input[1] in weights:
                candidates.append((node, None, numpy_helper.to_array(weights[node.input[1]])))
    drawn = one_of(rng, candidates)
    if drawn is None:
        return None
    node, own_axes, now = drawn
    other_axes = [[0], [1], [2], [-1], [-2], [1, 2], [2, 3]]
    chosen = one_of(rng, [candidate for candidate in other_axes if candidate != now.tolist()])
    if own_axes is None:
        return _other(model, node, 1, np.array(chosen, np.int64), ("attribute", "weight"))
    _set(node, "axes", chosen)
    return Planted((identity(node),), ("attribute",))


def order(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Change the permutation of a Transpose; return the fault, or None without a Transpose."""

    def places() -> Iterator[Place]:
        """Yield each node with a permutation, the name of the attribute, and another order."""
        for node in model.graph.node:
            perm = _attributes(node).get("perm")
            for i in range(len(perm or ())):
                for j in range(i):
                    swapped = list(perm)
                    swapped[i], swapped[j] = swapped[j], swapped[i]
                    yield node, "perm", swapped

    return _place_value(rng, places(), "attribute")


def switch(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Change a mode, direction or equation of a node; return the fault, or None."""
    words = {
        "Resize": [("mode", "linear"), ("mode", "nearest"), ("mode", "cubic"),
                   ("coordinate_transformation_mode", "align_corners"),
                   ("coordinate_transformation_mode", "asymmetric")],
        "Pad": [("mode", "edge"), ("mode", "constant")],
        "GRU": [("linear_before_reset", 0)],
        "AveragePool": [("count_include_pad", 1)],
        "Einsum": [("equation", "bhqd,bhkd->bhkq")],
        "CumSum": [("reverse", 1), ("exclusive", 1)],
        "TopK": [("largest", 0)],
        "BatchNormalization": [("epsilon", 0.1)],
    }  # fmt: skip

    def places() -> Iterator[Place]:
        """Yield each node, the name of an attribute, and a value that it does not have."""
        for node in model.graph.node:
            attributes = _attributes(node)
            for name, value in words.get(node.op_type, ()):
                if attributes.get(name) != (value.encode() if isinstance(value, str) else value):
                    yield node, name, value

    plan = _place_value(rng, places(), "attribute")
    return plan and plan._replace(causes=("attribute", "epsilon"))


def slightly(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Increase a weight by 0.5%; return the fault, or None without a weight."""
    drawn = one_of(rng, list(weights_of(model, 4)))
    if drawn is None:
        return None
    weight, readers = drawn
    replace(weight, numpy_helper.to_array(weight) * np.float32(1.005))
    return Planted(tuple(map(identity, readers)), ("weight",))


def channels(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Exchange two channels of a weight; return the fault, or None without a weight."""
    drawn = one_of(rng, [(w, r) for w, r in weights_of(model, 16) if w.dims[0] > 1])
    if drawn is None:
        return None
    weight, readers = drawn
    array = numpy_helper.to_array(weight).copy()
    first, second = rng.choice(len(array), 2, replace=False)
    array[[first, second]] = array[[second, first]]
    replace(weight, array)
    return Planted(tuple(map(identity, readers)), ("weight",))


def number(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Change a bound, factor or threshold that a node reads; return the fault, or None."""
    weights = _weights(model)
    candidates = []
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            weight = weights.get(name)
            if weight is not None and weight.data_type == 1 and np.prod(weight.dims) == 1:
                candidates.append((node, place, numpy_helper.to_array(weight)))
    drawn = one_of(rng, candidates)
    if drawn is None:
        return None
    node, place, array = drawn
    changed = (array * rng.choice([0.1, 0.5, 2.0, -1.0])).astype(array.dtype)
    return _other(model, node, place, changed, ("weight", "attribute", "epsilon"))


def indices(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Change integers that a node reads, such as pads or sizes; return the fault, or None."""
    weights = _weights(model)
    candidates = []
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            weight = weights.get(name)
            if (
                weight is not None
                and weight.data_type == 7
                and not node.op_type.startswith("Reduce")
            ):
                candidates.append((node, place, numpy_helper.to_array(weight)))
    drawn = one_of(rng, candidates)
    if drawn is None:
        return None
    node, place, array = drawn
    changed = np.roll(array, 1, 0) if array.size > 1 and rng.random() < 0.5 else array + 1
    return _other(model, node, place, changed, ("weight", "attribute"))


EXPORTED: dict[str, Plant] = {
    "axis": axis,
    "axes": axes,
    "order": order,
    "switch": switch,
    "slightly": slightly,
    "channels": channels,
    "number": number,
    "indices": indices,
}
