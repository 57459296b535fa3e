"""Empty networks, and what every loader of networks needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.tensorrt.library.capabilities import capabilities, require
from polygraphy.adapters.tensorrt.library.gpu import require_gpu
from polygraphy.adapters.tensorrt.library.logger import capture_log, get_trt_logger
from polygraphy.adapters.tensorrt.library.module import is_rtx, tensorrt_module, trt
from polygraphy.adapters.tensorrt.library.setting import setting_of
from polygraphy.adapters.tensorrt.network.plugins import load_own_plugins
from polygraphy.adapters.tensorrt.precision.casting import current_casting
from polygraphy.domain.errors import BackendError, UsageError

create_network: Callable[..., tuple[Any, Any]]

NetworkParts = Union["tuple[Any, Any]", "tuple[Any, Any, Any]"]
"""A builder, its network and, where an ONNX model was parsed, the parser."""


def new_builder() -> Any:
    """Make a `tensorrt.Builder`.

    Raises:
        MissingDependencyError: TensorRT is not installed.
        BackendError: there is no GPU, or not the right driver.
    """
    tensorrt_module()  # A GPU is of no use without it.
    if not is_rtx():  # TensorRT-RTX builds anywhere.
        require_gpu("Building with TensorRT")
    with capture_log() as reasons:
        try:
            builder = trt.Builder(get_trt_logger())
        except TypeError as error:  # Its constructor answered with a null pointer.
            raise reasons.failed("make a builder") from error
    load_own_plugins()
    return builder


def parts_of(network: Deferred[NetworkParts]) -> NetworkParts:
    """Return the builder and the network, and the parser if there is one.

    Raises:
        UsageError: it is something else.
    """
    parts: Any = network() if callable(network) else network
    if not isinstance(parts, (tuple, list)) or not 2 <= len(parts) <= 3:
        raise UsageError(
            f"A network is given as (builder, network) or (builder, network, parser), not as"
            f" {type(parts).__name__}.",
            hint="A function that edits a network returns nothing, or all of them.",
        )
    made: NetworkParts = tuple(parts)
    return made


def layers_of(network: Any) -> list[Any]:
    """Return the layers of a network, in order."""
    return [network.get_layer(index) for index in range(network.num_layers)]


def tensors_of(network: Any) -> dict[str, Any]:
    """Return the inputs of a network and what its layers compute, by name, in order."""
    tensors = [network.get_input(index) for index in range(network.num_inputs)]
    for layer in layers_of(network):
        tensors += [layer.get_output(index) for index in range(layer.num_outputs)]
    return {tensor.name: tensor for tensor in tensors if tensor is not None}


def is_strongly_typed(network: Any) -> bool:
    """Return whether TensorRT chooses no types of a network, which all come from its model."""
    caps = capabilities()
    if not caps.has("weak_typing"):
        return True
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return flag is not None and bool(network.get_flag(flag))


@mod.export(funcify=True)
class CreateNetwork(BaseLoader):
    """Makes an empty TensorRT network."""

    def __init__(
        self,
        explicit_batch: bool | None = None,
        strongly_typed: bool | None = None,
        mark_unfused_tensors_as_debug_tensors: bool | None = None,
    ) -> None:
        """Describe the network.

        Args:
            explicit_batch: whether the batch is a dimension of its own; where it can be otherwise
                (TensorRT 8) it is so unless this is False.
            strongly_typed: whether tensors have the types that the network says, and no others.
            mark_unfused_tensors_as_debug_tensors: whether tensors that survive fusion become debug
                tensors.
        """
        self._explicit_batch = explicit_batch
        self._strongly_typed = bool(strongly_typed)
        self._mark_unfused = bool(mark_unfused_tensors_as_debug_tensors)

    def call_impl(self) -> tuple[Any, Any]:
        """Return the builder and the network.

        Raises:
            MissingDependencyError: TensorRT is not installed.
            BackendError: there is no GPU, or this TensorRT lacks what was asked for.
        """
        if self._strongly_typed:
            require("strongly_typed", setting_of("strongly_typed"))
        if self._mark_unfused:
            require("marked_unfused_tensors", setting_of("mark_unfused_tensors_as_debug_tensors"))
        job = current_casting()
        builder = job.builder if job is not None and job.builder is not None else new_builder()
        with capture_log() as reasons:
            network = builder.create_network(self._flags())
        if network is None:
            raise reasons.failed("make a network")
        if self._mark_unfused and not network.mark_unfused_tensors_as_debug_tensors():
            raise BackendError("TensorRT could not mark the unfused tensors.", backend="tensorrt")
        return builder, network

    def _flags(self) -> int:
        caps = capabilities()
        names = []
        if caps.has("implicit_batch") and self._explicit_batch is not False:
            names.append("EXPLICIT_BATCH")
        if caps.has("strongly_typed") and (self._strongly_typed or not caps.has("weak_typing")):
            names.append("STRONGLY_TYPED")
        flags = trt.NetworkDefinitionCreationFlag
        return sum(1 << int(getattr(flags, name)) for name in names)
