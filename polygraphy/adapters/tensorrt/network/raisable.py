"""The layers whose precision can be raised one by one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from polygraphy.adapters.base.loader import Deferred
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.module import trt
from polygraphy.adapters.tensorrt.network.network import NetworkParts, layers_of, parts_of
from polygraphy.adapters.tensorrt.precision.casting import (
    Casting,
    PrecisionRequest,
    casting,
    select_nodes,
)
from polygraphy.binding import bind
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.ports.editing import cast_precision

_TYPES = ("FLOAT", "HALF", "BF16", "INT8")


def raisable_layers(network: Deferred[NetworkParts]) -> list[str]:
    """Return the names of the layers of a network that compute numbers in a precision that can be
    chosen, in order, each once: no constants, and nothing that says what shapes are.

    Args:
        network: builder, network and, where there is one, parser; or a loader that makes them.
            Where networks are strongly typed, it must parse an ONNX model: layers then are those
            that are called after nodes of it.
    """
    if capabilities().has("layer_precisions"):
        return _names(parts_of(network)[1])
    listing, job = _Listing(), Casting(PrecisionRequest(floats=DataType.FLOAT16))
    with bind(cast_precision, listing.cast), casting(job):
        names = _names(parts_of(network)[1])
    return [name for name in names if name in listing.names]


class _Listing:
    """Takes note of the names of nodes in place of casting a model."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def cast(
        self,
        model: Any,
        dtype: DataTypeEntry,
        *,
        keep_ops: Collection[str] = (),
        keep_nodes: Collection[str] = (),
    ) -> Any:
        self.names.update(select_nodes(model, ()).known)
        return model


def _names(network: Any) -> list[str]:
    chosen = (layer.name for layer in layers_of(network) if _is_raisable(layer))
    return list(dict.fromkeys(chosen))


def _is_raisable(layer: Any) -> bool:
    if layer.type == trt.LayerType.CONSTANT:
        return False
    tensors = [layer.get_output(index) for index in range(layer.num_outputs)]
    return all(
        tensor is None or (_is_computed(tensor) and tensor.dtype.name in _TYPES)
        for tensor in tensors
    )


def _is_computed(tensor: Any) -> bool:
    """Return whether a tensor holds what is computed, rather than what shapes are."""
    return bool(tensor.is_execution_tensor)
