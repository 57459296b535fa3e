"""Loaders that change a network in place and pass it on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.tensorrt.library.capabilities import enum_value, require
from polygraphy.adapters.tensorrt.library.datatype import as_trt_dtype
from polygraphy.adapters.tensorrt.library.module import trt
from polygraphy.adapters.tensorrt.network.network import (
    NetworkParts,
    is_strongly_typed,
    layers_of,
    parts_of,
    tensors_of,
)
from polygraphy.adapters.tensorrt.network.network_source import NetworkEdit, remember_edit
from polygraphy.domain.errors import BackendError, UnknownNameError, UsageError
from polygraphy.logger import G_LOGGER

mark_debug: Callable[..., NetworkParts]
postprocess_network: Callable[..., NetworkParts]
set_decomposable_attentions: Callable[..., NetworkParts]
set_tensor_datatypes: Callable[..., NetworkParts]
set_tensor_formats: Callable[..., NetworkParts]


class EditingLoader(BaseLoader):
    """Makes a network and applies one edit to it."""

    def __init__(self, network: Deferred[NetworkParts], edit: NetworkEdit) -> None:
        """Take the network, or a loader that makes it, and what changes it.

        Args:
            network: builder, network and, where there is one, parser.
            edit: is remembered with the network, so it must not refer to one.
        """
        self._network = network
        self._edit = edit

    def call_impl(self) -> NetworkParts:
        """Return the builder, the network and, where there is one, the parser."""
        parts = parts_of(self._network)
        remember_edit(parts[1], self._edit)
        return parts


@mod.export(funcify=True)
class PostprocessNetwork(EditingLoader):
    """Has a function of the user's change a network."""

    def __init__(
        self,
        network: Deferred[NetworkParts],
        func: Callable[..., Any],
        name: str | None = None,
    ) -> None:
        """Take the network, or a loader that makes it, and the function.

        Args:
            network: builder, network and, where there is one, parser.
            func: is called with the keyword argument `network`; what it returns is ignored.
            name: what the function is called in messages (default: its own name).
        """
        if not callable(func):
            raise UsageError(
                f"A network is postprocessed by a function, which {func!r} is not.",
                hint="Give one that takes the argument `network`.",
            )
        shown = name or getattr(func, "__name__", repr(func))

        def edit(network: Any) -> None:
            G_LOGGER.verbose(f"Applying network postprocessing: {shown}")
            try:
                func(network=network)
            except TypeError as error:
                if "network" not in str(error) or error.__traceback__ is None:
                    raise
                if error.__traceback__.tb_next is not None:
                    raise  # It was raised inside of the function.
                raise UsageError(
                    f"{shown} cannot be called as {shown}(network=...): {error}.",
                    hint="Name its parameter `network`.",
                ) from error

        super().__init__(network, edit)


@mod.export(funcify=True)
class SetDecomposableAttentions(EditingLoader):
    """Lets TensorRT decompose every attention of a network that it has no fused kernel for."""

    def __init__(self, network: Deferred[NetworkParts]) -> None:
        """Take the network, or a loader that makes it."""
        super().__init__(network, _set_decomposable)


def _set_decomposable(network: Any) -> None:
    require("attention", "SetDecomposableAttentions (--decomposable-attentions)")
    count = 0
    for layer in layers_of(network):
        if layer.type == trt.LayerType.ATTENTION_INPUT:
            # A network hands out plain layers; this is how TensorRT has them turned into their own
            # class.
            start: Any = layer
            start.__class__ = trt.IAttentionInputLayer
            start.attention.decomposable = True
            count += 1
    if count == 0:
        G_LOGGER.warning("The network has no attention layers that could be made decomposable.")


@mod.export(funcify=True)
class MarkDebug(EditingLoader):
    """Marks tensors whose values a debug listener gets while the engine runs."""

    def __init__(self, network: Deferred[NetworkParts], mark_debug: Sequence[str]) -> None:
        """Take the network, or a loader that makes it, and the names of tensors."""
        names = list(mark_debug)

        def edit(network: Any) -> None:
            require("debug_tensors", "MarkDebug (--mark-debug)")
            tensors = tensors_of(network)
            for name in names:
                if name not in tensors:
                    raise UnknownNameError("Tensor", name, tensors)
                if not network.mark_debug(tensors[name]):
                    raise BackendError(
                        f"TensorRT does not take {name!r} as a debug tensor.", backend="tensorrt"
                    )

        super().__init__(network, edit)


@mod.export(funcify=True)
class SetTensorFormats(EditingLoader):
    """Sets the memory formats that inputs and outputs of a network may have."""

    def __init__(
        self,
        network: Deferred[NetworkParts],
        tensor_formats: Mapping[str, Sequence[Any]] | Sequence[Any],
    ) -> None:
        """Take the network, or a loader that makes it, and the formats.

        Args:
            network: builder, network and, where there is one, parser.
            tensor_formats: members of `tensorrt.TensorFormat`, or their names, that each input or
                output may have; one list alone is for all of them.
        """
        super().__init__(network, lambda network: _set_formats(network, tensor_formats))


def _set_formats(network: Any, formats: Mapping[str, Sequence[Any]] | Sequence[Any]) -> None:
    tensors = _io_tensors(network)
    for name, wanted in _per_tensor(formats, tensors).items():
        mask = 0
        for item in wanted:
            spelt = item if isinstance(item, str) else item.name
            mask |= 1 << int(
                enum_value("TensorFormat", spelt, f"Format {spelt} for {name!r} (--tensor-formats)")
            )
        tensors[name].allowed_formats = mask


@mod.export(funcify=True)
class SetTensorDatatypes(EditingLoader):
    """Sets the data types of inputs and outputs of a network."""

    def __init__(
        self,
        network: Deferred[NetworkParts],
        tensor_datatypes: Mapping[str, Any] | Any,
    ) -> None:
        """Take the network, or a loader that makes it, and the data types.

        Args:
            network: builder, network and, where there is one, parser.
            tensor_datatypes: the type (a `DataType`, a member of `tensorrt.DataType`, or a name) of
                each input or output; one type alone is for all of them.
        """
        super().__init__(network, lambda network: _set_dtypes(network, tensor_datatypes))


def _set_dtypes(network: Any, dtypes: Mapping[str, Any] | Any) -> None:
    tensors = _io_tensors(network)
    for name, wanted in _per_tensor(dtypes, tensors).items():
        tensor, dtype = tensors[name], as_trt_dtype(wanted)
        if tensor.dtype == dtype:
            continue
        if is_strongly_typed(network) and tensor.is_network_output:
            _cast_output(network, tensor, dtype)
        else:
            if is_strongly_typed(network):
                require(
                    "tensor_dtype",
                    f"Data type {dtype.name} for the input {name!r} (--tensor-dtypes)",
                )
            tensor.dtype = dtype


def _cast_output(network: Any, tensor: Any, dtype: Any) -> None:
    """Put a cast behind an output, and give its result the name of the output."""
    name = tensor.name
    network.unmark_output(tensor)
    tensor.name = f"{name}_before_cast"
    cast = network.add_cast(tensor, dtype).get_output(0)
    cast.name = name
    network.mark_output(cast)


def _io_tensors(network: Any) -> dict[str, Any]:
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    outputs = [network.get_output(index) for index in range(network.num_outputs)]
    return {tensor.name: tensor for tensor in (*inputs, *outputs)}


def _per_tensor(values: Any, known: Collection[str]) -> dict[str, Any]:
    """Return one value per input or output: a value alone is for all."""
    if not isinstance(values, Mapping):
        return dict.fromkeys(known, values)
    for name in values:
        if name not in known:
            raise UnknownNameError("Network input or output", name, known)
    return dict(values)
