"""The precisions of single layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from polygraphy import mod
from polygraphy.adapters.common.loader import BaseLoader, Deferred
from polygraphy.adapters.tensorrt.capabilities import capabilities
from polygraphy.adapters.tensorrt.casting import (
    Casting,
    PrecisionWish,
    casting,
    current_casting,
)
from polygraphy.adapters.tensorrt.datatype import as_trt_dtype
from polygraphy.adapters.tensorrt.module import trt
from polygraphy.adapters.tensorrt.network import NetworkParts, layers_of, parts_of, tensors_of
from polygraphy.domain.datatype import DataType, DataTypeEntry
from polygraphy.domain.errors import BackendError, close_matches
from polygraphy.logger import G_LOGGER

__all__ = ["SetLayerPrecisions", "set_layer_precisions"]

set_layer_precisions: Callable[..., NetworkParts]

# Layers whose outputs say what shapes are: their types are not for us to choose.
_WITHOUT_PRECISION = ("CONSTANT", "SHAPE")


@mod.export(funcify=True)
class SetLayerPrecisions(BaseLoader):
    """Sets the precision in which layers of a network compute.

    Where networks are strongly typed, the ONNX model is cast in front of the parser instead: the
    named layers keep their precision while the rest is cast, or are the only ones that are cast.
    There, a layer also goes by the names of the tensors that it computes.
    """

    def __init__(
        self, network: Deferred[NetworkParts], layer_precisions: Mapping[str, Any]
    ) -> None:
        """Take the network, or a loader that makes it, and a data type per name of a layer.

        Args:
            network: builder, network and, where there is one, parser.
            layer_precisions: each a `DataType`, a member of `tensorrt.DataType`, or a name.
        """
        self._network = network
        self._precisions = dict(layer_precisions)

    def call_impl(self) -> NetworkParts:
        """Return the builder, the network and, where there is one, the parser.

        Raises:
            BackendError: networks are strongly typed, and a cast cannot give what is asked for.
        """
        if capabilities().has("layer_precisions"):
            parts = parts_of(self._network)
            self._set(parts[1])
            return parts
        return self._cast()

    def _set(self, network: Any) -> None:
        layers = {layer.name: layer for layer in layers_of(network)}
        _warn_about_unknown(set(self._precisions).difference(layers), layers)
        for name, wanted in self._precisions.items():
            layer = layers.get(name)
            if layer is None:
                continue
            if layer.type.name in _WITHOUT_PRECISION:
                G_LOGGER.warning(f"Layer {name!r} is a {layer.type.name} layer: it keeps its type.")
                continue
            dtype = as_trt_dtype(wanted)
            layer.precision = dtype
            if layer.type != trt.LayerType.CAST:  # What a cast makes is what it is for.
                _set_output_types(layer, dtype)

    def _cast(self) -> NetworkParts:
        """Make the network from a model in which those layers have those types."""
        wanted = {name: _floating(name, dtype) for name, dtype in self._precisions.items()}
        lowered = {dtype for dtype in wanted.values() if dtype != DataType.FLOAT32}
        job = current_casting()
        if job is not None:
            unlike = lowered - {job.wish.floats}
            if unlike:
                raise _impossible(unlike, f"while the rest of the model is cast to {job.wish}")
            job.keep_nodes |= {name for name, dtype in wanted.items() if dtype == DataType.FLOAT32}
            return self._made_in(job)
        if not lowered:
            parts = parts_of(self._network)
            names = {layer.name for layer in layers_of(parts[1])}.union(tensors_of(parts[1]))
            _warn_about_unknown(set(wanted).difference(names), names)
            return parts
        if len(lowered) > 1 or not callable(self._network):
            raise _impossible(lowered, "in a network that is parsed already, or with each other")
        with casting(PrecisionWish(floats=lowered.pop())) as own:
            own.only_nodes = {name for name, dtype in wanted.items() if dtype != DataType.FLOAT32}
            parts = self._made_in(own)
        if not own.is_done:
            raise _impossible({own.wish.floats}, "in a network that is not parsed from ONNX")
        return parts

    def _made_in(self, job: Casting) -> NetworkParts:
        """Make the network while its model is cast."""
        parts = parts_of(self._network)
        _warn_about_unknown(job.unknown, job.known)
        return parts


def _set_output_types(layer: Any, dtype: Any) -> None:
    floating = (trt.DataType.FLOAT, trt.DataType.HALF, getattr(trt.DataType, "BF16", None))
    for index in range(layer.num_outputs):
        tensor = layer.get_output(index)
        if tensor is None or tensor.is_shape_tensor or tensor.dtype not in floating:
            continue
        layer.set_output_type(index, dtype)


def _floating(name: str, dtype: Any) -> DataTypeEntry:
    entry = DataType.from_dtype(as_trt_dtype(dtype), "tensorrt")
    if not isinstance(entry, DataTypeEntry) or not entry.is_floating:
        raise _impossible({entry}, f"of the layer {name!r}")
    return entry


def _impossible(dtypes: set[Any], where: str) -> BackendError:
    caps = capabilities()
    listed = ", ".join(sorted(str(dtype) for dtype in dtypes))
    return BackendError(
        f"{caps.name} {caps.version} takes types from the model, and a precision of {listed} cannot"
        f" be had {where}.",
        backend="tensorrt",
        hint="Cast or quantise those nodes of the ONNX model.",
    )


def _warn_about_unknown(unknown: Iterable[str], known: Iterable[str]) -> None:
    for name in sorted(unknown):
        matches = close_matches(name, known)
        meant = f" Did you mean {' or '.join(map(repr, matches))}?" if matches else ""
        G_LOGGER.warning(f"Layer {name!r} is not in the network: its precision is not set.{meant}")
