"""The precisions of single layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.datatype import as_trt_dtype
from polygraphy.adapters.tensorrt.library.module import trt
from polygraphy.adapters.tensorrt.network.network import (
    NetworkParts,
    layers_of,
    parts_of,
    tensors_of,
)
from polygraphy.adapters.tensorrt.network.network_source import source_of
from polygraphy.adapters.tensorrt.precision.casting import (
    QUANTIZED_TYPES,
    Casting,
    PrecisionRequest,
    continuing,
    current_casting,
    warn_of_unknown_layer,
)
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.logger import G_LOGGER

T = TypeVar("T")

set_layer_precisions: Callable[..., NetworkParts]

# Layers whose outputs say what shapes are: their types are not for us to choose.
_WITHOUT_PRECISION = ("CONSTANT", "SHAPE")


@mod.export(funcify=True)
class SetLayerPrecisions(BaseLoader):
    """Sets the precision in which layers of a network compute.

    Where networks are strongly typed, the ONNX model is cast or quantised in front of the parser
    instead: the named layers keep their precision while the rest is lowered, or are the only ones
    that are. There, a layer also goes by the names of the tensors that it computes.

    A layer that does not exist is a warning: other versions of TensorRT may call it otherwise.
    """

    def __init__(
        self,
        network: Deferred[NetworkParts],
        layer_precisions: Mapping[str, Any],
        calibrator: Any = None,
    ) -> None:
        """Take the network, or a loader that makes it, and a data type per name of a layer.

        Args:
            network: builder, network and, where there is one, parser.
            layer_precisions: each a `DataType`, a member of `tensorrt.DataType`, or a name.
            calibrator: has the data to quantise layers with, where networks are strongly typed and
                the configuration has none.
        """
        self._network = network
        self._precisions = dict(layer_precisions)
        self._calibrator = calibrator

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
        layers = list(layers_of(network))
        precisions = _of_known(self._precisions, [layer.name for layer in layers])
        for layer in layers:  # Several may have the same name.
            wanted = precisions.get(layer.name)
            if wanted is None:
                continue
            if layer.type.name in _WITHOUT_PRECISION:
                G_LOGGER.warning(
                    f"Layer {layer.name!r} is a {layer.type.name} layer: it keeps its type."
                )
                continue
            dtype = as_trt_dtype(wanted)
            layer.precision = dtype
            if layer.type != trt.LayerType.CAST:  # What a cast makes is what it is for.
                _set_output_types(layer, dtype)

    def _cast(self) -> NetworkParts:
        """Make the network from a model in which those layers have those types."""
        wanted = {name: _narrow(name, dtype) for name, dtype in self._precisions.items()}
        job = current_casting()
        if job is not None:
            _add(wanted, job)
            if job.calibration is None:
                job.calibration = self._calibrator
            return parts_of(self._network)
        own = Casting(PrecisionRequest(), calibration=self._calibrator)
        _add(wanted, own)
        lowered = own.named(floats=True) | own.named(floats=False)
        if not lowered:
            parts = parts_of(self._network)
            names = [layer.name for layer in layers_of(parts[1])]
            wanted = _of_known(wanted, [*names, *tensors_of(parts[1])])
            origin = source_of(parts[1])
            if origin is not None:  # Its model may be cast when its configuration is known.
                origin.layer_precisions.update(wanted)
            return parts
        if not callable(self._network):
            raise _impossible(lowered, "in a network that is parsed already")
        with continuing(own):
            parts = parts_of(self._network)
        if not own.is_done:
            raise _impossible(lowered, "in a network that is not parsed from ONNX")
        return parts


def _add(wanted: Mapping[str, DataTypeEntry], job: Casting) -> None:
    """Have a cast that is under way respect what is asked for of layers; it can cast to one type,
    and quantise to one.
    """
    job.layer_precisions.update(wanted)
    for whole, is_float in ((job.request.floats, True), (job.request.quantized, False)):
        named = job.named(floats=is_float)
        unlike = named - {whole}
        if whole is not None and unlike:
            raise _impossible(unlike, f"while the rest of the model is cast to {job.request}")
        if len(named) > 1:
            raise _impossible(named, "together")


def _set_output_types(layer: Any, dtype: Any) -> None:
    floating = (trt.DataType.FLOAT, trt.DataType.HALF, getattr(trt.DataType, "BF16", None))
    for index in range(layer.num_outputs):
        tensor = layer.get_output(index)
        if tensor is None or tensor.is_shape_tensor or tensor.dtype not in floating:
            continue
        layer.set_output_type(index, dtype)


def _narrow(name: str, dtype: Any) -> DataTypeEntry:
    entry = DataType.from_dtype(as_trt_dtype(dtype), "tensorrt")
    if not isinstance(entry, DataTypeEntry) or not (entry.is_floating or entry in QUANTIZED_TYPES):
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


def _of_known(precisions: Mapping[str, T], known: Iterable[str]) -> dict[str, T]:
    """Return what is asked for of the layers that there are, and warn of the others."""
    there = dict.fromkeys(known)
    for name in precisions:
        if name not in there:
            warn_of_unknown_layer(name, there)
    return {name: precision for name, precision in precisions.items() if name in there}
