"""Empty networks, helpers for all loaders of networks, and the layers whose precision can be
raised.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, Union

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.tensorrt.library.capabilities import capabilities, require
from polygraphy.adapters.tensorrt.library.module import (
    ModuleKey,
    capture_log,
    get_trt_logger,
    is_rtx,
    require_gpu,
    setting_of,
    tensorrt_module,
    trt,
)
from polygraphy.adapters.tensorrt.precision.casting import (
    CastJob,
    PrecisionRequest,
    cast_parsed_models,
    select_nodes,
)
from polygraphy.binding import bind
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import cast_precision

load_plugins: Callable[..., Any]


def load_own_plugins() -> None:
    """Register the plugins that come with TensorRT, once per module."""
    _register_plugins(ModuleKey(tensorrt_module()))


@lru_cache(maxsize=8)
def _register_plugins(key: ModuleKey) -> None:
    """Register TensorRT's own plugins with a module; done once per module."""
    key.module.init_libnvinfer_plugins(get_trt_logger(), "")


@mod.export(funcify=True)
class LoadPlugins(BaseLoader):
    """Loads plugin libraries, whose plugins register themselves, and then calls a loader."""

    def __init__(self, plugins: Sequence[str] | None = None, obj: Any = None) -> None:
        """Set the plugin libraries to load, and the object or loader to return.

        Args:
            plugins: paths of shared libraries.
            obj: the object to return, or a callable that is called after the libraries are loaded.
        """
        self._plugins = [plugins] if isinstance(plugins, str) else list(plugins or ())
        self._obj = obj

    def call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Load the libraries, and return `obj`, or its result if it is callable.

        Raises:
            BackendError: a library cannot be loaded.
        """
        for path in self._plugins:
            G_LOGGER.progress(f"Loading plugin library: {path}")
            try:
                ctypes.CDLL(path)
            except OSError as error:
                raise BackendError(
                    f"The plugin library {path} cannot be loaded: {error}.",
                    backend="tensorrt",
                    hint="Check the path, and that the library was built for this TensorRT.",
                ) from error
        load_own_plugins()
        return self._obj(*args, **kwargs) if callable(self._obj) else self._obj


create_network: Callable[..., tuple[Any, Any]]

NetworkParts = Union["tuple[Any, Any]", "tuple[Any, Any, Any]"]
"""A builder, its network and, if an ONNX model was parsed, the parser."""


def new_builder() -> Any:
    """Return a new `tensorrt.Builder`.

    Raises:
        MissingDependencyError: TensorRT is not installed.
        BackendError: there is no GPU, or not the right driver.
    """
    tensorrt_module()  # Raises an error if there is no TensorRT.
    if not is_rtx():  # TensorRT-RTX builds anywhere.
        require_gpu("Building with TensorRT")
    with capture_log() as reasons:
        try:
            builder = trt.Builder(get_trt_logger())
        except TypeError as error:  # TensorRT returned a null pointer instead of an object.
            raise reasons.error_for("create a builder") from error
    load_own_plugins()
    return builder


def parts_of(network: Deferred[NetworkParts]) -> NetworkParts:
    """Return the builder, the network and the parser (or None) from a network or its loader.

    Raises:
        UsageError: it is none of these.
    """
    parts: Any = network() if callable(network) else network
    if not isinstance(parts, (tuple, list)) or not 2 <= len(parts) <= 3:
        raise UsageError(
            "A network must be (builder, network) or (builder, network, parser), not"
            f" {type(parts).__name__}.",
            hint="A function that edits a network must return nothing, or the whole tuple.",
        )
    new_row: NetworkParts = tuple(parts)
    return new_row


def layers_of(network: Any) -> list[Any]:
    """Return the layers of a network, in order."""
    return [network.get_layer(index) for index in range(network.num_layers)]


def tensors_of(network: Any) -> dict[str, Any]:
    """Return the inputs of a network and the outputs of its layers by name, in order."""
    tensors = [network.get_input(index) for index in range(network.num_inputs)]
    for layer in layers_of(network):
        tensors += [layer.get_output(index) for index in range(layer.num_outputs)]
    return {tensor.name: tensor for tensor in tensors if tensor is not None}


def is_strongly_typed(network: Any) -> bool:
    """Return whether the model alone determines the data types of a network."""
    caps = capabilities()
    if not caps.has("weak_typing"):
        return True
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return flag is not None and bool(network.get_flag(flag))


@mod.export(funcify=True)
class CreateNetwork(BaseLoader):
    """Creates an empty TensorRT network."""

    def __init__(
        self,
        explicit_batch: bool | None = None,
        strongly_typed: bool | None = None,
        mark_unfused_tensors_as_debug_tensors: bool | None = None,
    ) -> None:
        """Set the properties of the network.

        Args:
            explicit_batch: whether the batch is an explicit dimension (default: True). Only
                TensorRT 8 supports False.
            strongly_typed: whether tensors have exactly the types in the network.
            mark_unfused_tensors_as_debug_tensors: whether tensors that remain after fusion become
                debug tensors.
        """
        self._explicit_batch = explicit_batch
        self._strongly_typed = bool(strongly_typed)
        self._mark_unfused = bool(mark_unfused_tensors_as_debug_tensors)

    def call_impl(self) -> tuple[Any, Any]:
        """Return the builder and the network.

        Raises:
            MissingDependencyError: TensorRT is not installed.
            BackendError: there is no GPU, or this TensorRT does not support a requested feature.
        """
        return self.create_with(None)

    def create_with(self, builder: Any) -> tuple[Any, Any]:
        """Return a builder and a new network created by it; None creates a builder."""
        if self._strongly_typed:
            require("strongly_typed", setting_of("strongly_typed"))
        if self._mark_unfused:
            require("marked_unfused_tensors", setting_of("mark_unfused_tensors_as_debug_tensors"))
        if builder is None:
            builder = new_builder()
        with capture_log() as reasons:
            network = builder.create_network(self._flags())
        if network is None:
            raise reasons.error_for("create a network")
        if self._mark_unfused and not network.mark_unfused_tensors_as_debug_tensors():
            raise BackendError("TensorRT could not mark the unfused tensors.", backend="tensorrt")
        return builder, network

    def _flags(self) -> int:
        """Return the creation flags of the network as a bit mask."""
        caps = capabilities()
        names = []
        if caps.has("implicit_batch") and self._explicit_batch is not False:
            names.append("EXPLICIT_BATCH")
        if caps.has("strongly_typed") and (self._strongly_typed or not caps.has("weak_typing")):
            names.append("STRONGLY_TYPED")
        flags = trt.NetworkDefinitionCreationFlag
        return sum(1 << int(getattr(flags, name)) for name in names)


_TYPES = ("FLOAT", "HALF", "BF16", "INT8")


def raisable_layers(network: Deferred[NetworkParts]) -> list[str]:
    """Return the names of layers whose precision can be raised, in order and without repetition.

    Args:
        network: builder, network and, where there is one, parser; or a loader that returns them. If
            networks are strongly typed, it must parse an ONNX model, and the layers have the names
            of its nodes.
    """
    if capabilities().has("layer_precisions"):
        return _layer_names(parts_of(network)[1])
    listing, job = _RecordingCast(), CastJob(PrecisionRequest(floats=DataType.FLOAT16))
    with bind(cast_precision, listing.cast), cast_parsed_models(job):
        names = _layer_names(parts_of(network)[1])
    return [name for name in names if name in listing.names]


class _RecordingCast:
    """A cast that records the names of nodes instead of casting a model."""

    def __init__(self) -> None:
        """Start without names."""
        self.names: set[str] = set()

    def cast(
        self,
        model: Any,
        dtype: DataTypeEntry,
        *,
        keep_ops: Collection[str] = (),
        keep_nodes: Collection[str] = (),
    ) -> Any:
        """Record the nodes that a cast would change, and return the model."""
        self.names.update(select_nodes(model, ()).known)
        return model


def _layer_names(network: Any) -> list[str]:
    """Return names of layers whose precision can be raised, without duplicates."""
    chosen = (layer.name for layer in layers_of(network) if _is_raisable(layer))
    return list(dict.fromkeys(chosen))


def _is_raisable(layer: Any) -> bool:
    """Return whether the precision of a layer can be raised: no constants and no shape
    computations.
    """
    if layer.type == trt.LayerType.CONSTANT:
        return False
    tensors = [layer.get_output(index) for index in range(layer.num_outputs)]
    # Shape tensors contain shapes, so only execution tensors count.
    return all(
        tensor is None or (tensor.is_execution_tensor and tensor.dtype.name in _TYPES)
        for tensor in tensors
    )
