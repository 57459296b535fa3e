"""Networks in the form of ONNX models, to look at in a viewer for those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.tensorrt.describe.describe_network import describe_network
from polygraphy.adapters.tensorrt.network.network import NetworkParts, layers_of, parts_of
from polygraphy.domain.model.engine import Layer
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.ports.models import LayerSketch, sketch_onnx

onnx_like_from_network: Callable[..., Any]


@mod.export(funcify=True)
class OnnxLikeFromNetwork(BaseLoader):
    """Draws a network as an ONNX model, whose operators are TensorRT's layers. It is no valid
    model.
    """

    def __init__(self, network: Deferred[NetworkParts]) -> None:
        """Take the network, or a loader that makes it."""
        self._network = network

    def call_impl(self) -> Any:
        """Return the `onnx.ModelProto`."""
        network = parts_of(self._network)[1]
        described = describe_network(network, layers=True, attrs=True)
        types = [layer.type.name for layer in layers_of(network)]
        return sketch_onnx(
            described.name,
            [_sketch(layer, op) for layer, op in zip(described.layers, types, strict=True)],
            _io(described.inputs),
            _io(described.outputs),
        )


def _sketch(layer: Layer, op: str) -> LayerSketch:
    return (
        layer.name,
        op,
        _attributes(layer.attributes),
        list(layer.inputs),
        list(layer.outputs),
    )


def _io(metadata: TensorMetadata) -> dict[str, tuple[Any, tuple[int, ...]]]:
    made: dict[str, tuple[Any, tuple[int, ...]]] = {}
    for name, tensor in metadata.items():
        dtype = tensor.dtype if isinstance(tensor.dtype, DataTypeEntry) else DataType.FLOAT32
        shape = tuple(dim if isinstance(dim, int) else -1 for dim in tensor.shape or ())
        made[name] = dtype, shape
    return made


def _attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as the format has them: numbers, texts, and lists of one kind of number."""
    made: dict[str, Any] = {}
    for name, value in attributes.items():
        if isinstance(value, bool):
            made[name] = int(value)
        elif isinstance(value, (int, float, str)):
            made[name] = value
        elif value and all(type(item) is type(value[0]) is int for item in value):
            made[name] = list(value)
        else:
            made[name] = str(value)
    return made
