"""Describes networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.tensorrt.library.datatype import TensorrtDataTypes
from polygraphy.adapters.tensorrt.library.module import tensorrt_module, trt
from polygraphy.adapters.tensorrt.network.network import (
    NetworkParts,
    is_strongly_typed,
    layers_of,
    parts_of,
)
from polygraphy.domain.model.engine import Layer, NetworkDescription
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import LayerSketch, sketch_onnx

_FIRST_OF_PAIRS = "if"  # ``CONDITIONAL_INPUT`` is of the class ``IIfConditionalInputLayer``.


def describe_network(
    network: Any,
    *,
    layers: bool = False,
    attrs: bool = False,
    weights: bool = False,
    sizes: bool = False,
) -> NetworkDescription:
    """Return a description of an ``INetworkDefinition``: its tensors, and its layers on request.

    Args:
        network: the network, which is not changed.
        layers: whether layers are described.
        attrs: whether attributes of layers are described.
        weights: whether attributes that are weights are also described.
        sizes: whether the size of the weights is computed.
    """
    described: list[Layer] = []
    if layers:
        described = [
            describe_layer(layer, attrs=attrs, weights=weights) for layer in layers_of(network)
        ]
    layer_weights = [_weights(layer) for layer in layers_of(network)] if sizes else None
    return NetworkDescription(
        name=network.name,
        is_strongly_typed=is_strongly_typed(network),
        inputs=metadata_of(network.get_input(index) for index in range(network.num_inputs)),
        outputs=metadata_of(network.get_output(index) for index in range(network.num_outputs)),
        layer_count=network.num_layers,
        layers=tuple(described),
        parameters=None if layer_weights is None else sum(count for count, _ in layer_weights),
        weight_bytes=None if layer_weights is None else sum(nbytes for _, nbytes in layer_weights),
    )


def tensor_dtype(dtype: Any) -> Any:
    """Return the data type for one of TensorRT's; unknown ones are returned unchanged."""
    ours = TensorrtDataTypes().from_native(dtype)
    return dtype if ours is None else ours


def metadata_of(tensors: Iterable[Any]) -> TensorMetadata:
    """Return the names, data types and shapes of tensors of a network."""
    metadata = TensorMetadata()
    for tensor in tensors:
        if tensor is not None:  # An operand may be omitted.
            metadata.add(tensor.name, tensor_dtype(tensor.dtype), _shape(tensor.shape))
    return metadata


def _shape(dims: Any) -> tuple[int, ...] | None:
    """Return dimensions as a tuple; None if they are unknown."""
    try:
        return tuple(dims)
    except ValueError:  # The rank is unknown.
        return None


def describe_layer(layer: Any, *, attrs: bool = False, weights: bool = False) -> Layer:
    """Return a description of an ``ILayer``; see `describe_network`."""
    inputs = metadata_of(layer.get_input(index) for index in range(layer.num_inputs))
    outputs = metadata_of(layer.get_output(index) for index in range(layer.num_outputs))
    with _cast_to_own_class(layer) as generic:
        op = str(layer.type)
        attributes = dict(_attributes(layer, generic, weights=weights)) if attrs else {}
    return Layer(layer.name, op, inputs, outputs, attributes)


def _weights(layer: Any) -> tuple[int, int]:
    """Return the number of elements and of bytes of the weights of a layer."""
    count = nbytes = 0
    with _cast_to_own_class(layer) as generic:
        for _, value in _raw_attributes(layer, generic):
            if isinstance(value, (np.ndarray, trt.Weights)):
                count, nbytes = count + value.size, nbytes + value.nbytes
    return count, nbytes


@contextmanager
def _cast_to_own_class(layer: Any) -> Iterator[type]:
    """Set the class of a layer to that of its type inside the block,
    so that it shows its own attributes.

    Returns:
        The base class of all layers.
    """
    generic = type(layer)
    layer.__class__ = _layer_classes(tensorrt_module()).get(
        _strip_underscores(layer.type.name), generic
    )
    try:
        with G_LOGGER.verbosity(G_LOGGER.CRITICAL):
            # Hide TensorRT's warnings about properties that it cannot report.
            yield generic
    finally:
        layer.__class__ = generic


def _attributes(layer: Any, generic: type, *, weights: bool) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a layer that its base class does not have, as plain values."""
    for name, value in _raw_attributes(layer, generic):
        if isinstance(value, (np.ndarray, trt.Weights)):
            array = value if isinstance(value, np.ndarray) else value.numpy()
            if weights and array.size:
                yield name, array
            continue
        plain = _value(value)
        if plain is not None:
            yield name, plain


def _raw_attributes(layer: Any, generic: type) -> Iterator[tuple[str, Any]]:
    """Yield name and TensorRT value of each attribute that the base class of a layer lacks."""
    for name in sorted(set(dir(type(layer))) - set(dir(generic))):
        if name.startswith("_"):
            continue
        try:
            value = getattr(layer, name)
        except Exception:  # Facts that TensorRT cannot report are omitted.
            continue
        if not callable(value) and value is not None:
            yield name, value


def layer_classes(module: Any) -> dict[Any, type]:
    """Return the layer class for each ``LayerType`` that has one."""
    classes = _layer_classes(module)
    types = module.LayerType.__members__
    return {
        kind: classes[_strip_underscores(name)]
        for name, kind in types.items()
        if _strip_underscores(name) in classes
    }


def _value(value: Any) -> Any:
    """Return an attribute as a plain value: dimensions as tuples, enumeration members as text."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (trt.Dims, trt.Permutation, list, tuple)):
        try:
            return tuple(value)
        except ValueError:
            return None
    return str(value)


@lru_cache(maxsize=4)
def _layer_classes(module: Any) -> Mapping[str, type]:
    """Return the classes of layers by the names of their types, without underscores."""
    classes: dict[str, type] = {}
    for name in dir(module):
        if name.startswith("I") and name.endswith("Layer") and name != "ILayer":
            plain = _strip_underscores(name[1 : -len("Layer")])
            classes[plain] = getattr(module, name)
            classes.setdefault(plain.removeprefix(_FIRST_OF_PAIRS), getattr(module, name))
    return classes


def _strip_underscores(name: str) -> str:
    """Return a name in lower case without underscores."""
    return name.replace("_", "").lower()


onnx_like_from_network: Callable[..., Any]


@mod.export(funcify=True)
class OnnxLikeFromNetwork(BaseLoader):
    """Draws a network as an ONNX model whose operators are TensorRT's layers. It is not a valid
    model."""

    def __init__(self, network: Deferred[NetworkParts]) -> None:
        """Create a loader of an ONNX-like model for a network, or the network from a loader."""
        self._network = network

    def call_impl(self) -> Any:
        """Return the `onnx.ModelProto`."""
        network = parts_of(self._network)[1]
        described = describe_network(network, layers=True, attrs=True)
        types = [layer.type.name for layer in layers_of(network)]
        return sketch_onnx(
            described.name,
            [_sketch(drawn, op) for drawn, op in zip(described.layers, types, strict=True)],
            _io(described.inputs),
            _io(described.outputs),
        )


def _sketch(drawn: Layer, op: str) -> LayerSketch:
    """Return a layer as the parts of an ONNX node:
    name, operator, attributes, inputs and outputs."""
    return (
        drawn.name,
        op,
        _onnx_attributes(drawn.attributes),
        list(drawn.inputs),
        list(drawn.outputs),
    )


def _io(metadata: TensorMetadata) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Return data types and shapes by tensor name."""
    values: dict[str, tuple[Any, tuple[int, ...]]] = {}
    for name, tensor in metadata.items():
        dtype = tensor.dtype if isinstance(tensor.dtype, DataTypeEntry) else DataType.FLOAT32
        shape = tuple(dim if isinstance(dim, int) else -1 for dim in tensor.shape or ())
        values[name] = dtype, shape
    return values


def _onnx_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes in the types that ONNX has: numbers, texts, and lists of one type."""
    onnx_attributes: dict[str, Any] = {}
    for name, value in attributes.items():
        if isinstance(value, bool):
            onnx_attributes[name] = int(value)
        elif isinstance(value, (int, float, str)):
            onnx_attributes[name] = value
        elif value and all(type(item) is type(value[0]) is int for item in value):
            onnx_attributes[name] = list(value)
        else:
            onnx_attributes[name] = str(value)
    return onnx_attributes
