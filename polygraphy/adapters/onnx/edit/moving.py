"""Weights moved by a little, to see what rounding them does to a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.weights import all_graphs, load_stored
from polygraphy.domain.tensors.precision import is_float

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

_SMALLEST = 16
"""Weights of fewer elements are settings, such as a scale or an epsilon."""


def move_weights(model: ModelProto, epsilon: float, seed: int) -> ModelProto:
    """Return a copy whose floating-point weights are each moved by up to half an epsilon.
    See `polygraphy.ports.editing.move_weights`.
    """
    copy: ModelProto = onnx.ModelProto()
    copy.CopyFrom(model)
    draw = numpy.random.default_rng(seed)
    for tensor in _weights(copy):
        load_stored(tensor)
        array = elements(tensor)
        if not is_float(array) or array.size < _SMALLEST:
            continue
        moves = draw.uniform(-0.5, 0.5, array.shape) * epsilon
        moved = array.astype(numpy.float64) * (1 + moves)
        moved_array = onnx.numpy_helper.from_array(moved.astype(array.dtype), tensor.name)
        tensor.CopyFrom(moved_array)
    return copy


def weight_precision(model: ModelProto) -> str | None:
    """Return the half precision to which the float32 weights of a model are rounded, or None.
    The result is None if they are not. See `polygraphy.ports.editing.weight_precision`."""
    import ml_dtypes

    # Most weights that fit in bfloat16 also fit in float16.
    kinds = {"bfloat16": ml_dtypes.bfloat16, "float16": numpy.float16}
    sizes = dict.fromkeys(kinds, 0)
    total = 0
    for tensor in _weights(model):
        load_stored(tensor)
        array = elements(tensor)
        if array.dtype != numpy.float32 or array.size < _SMALLEST:
            continue
        # Norms and biases often remain float32, and masks or indices are exact in any precision.
        if array.ndim < 2 or (array == numpy.rint(array)).all():
            continue
        total += array.size
        with numpy.errstate(over="ignore"):
            for name, kind in kinds.items():
                if (array.astype(kind).astype(numpy.float32) == array).all():
                    sizes[name] += array.size
    return next((name for name, size in sizes.items() if size > total / 2), None)


def _weights(model: ModelProto) -> Iterator[TensorProto]:
    """Yield the weights of a model, from initializers and Constant nodes."""
    for graph in all_graphs(model.graph):
        yield from graph.initializer
        for node in graph.node:
            if node.op_type == "Constant":
                yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))
