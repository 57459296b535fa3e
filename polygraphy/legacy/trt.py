"""Small helpers about TensorRT networks and engines, and for marking outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from polygraphy.adapters.tensorrt.describe.describe_network import (
    layer_classes,
    tensor_dtype,
)
from polygraphy.adapters.tensorrt.library.module import get_trt_logger, tensorrt_module
from polygraphy.adapters.tensorrt.network.network import tensors_of
from polygraphy.adapters.tensorrt.network.network_edits import (
    comparable_tensors,
    tensors_of_types,
)
from polygraphy.adapters.tensorrt.network.onnx_network import describe_error
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import select_names
from polygraphy.logger import G_LOGGER

__all__ = [
    "check_onnx_parser_errors",
    "fail_unavailable",
    "get_all_io_tensors",
    "get_all_tensors",
    "get_input_metadata_from_network",
    "get_layer_class_mapping",
    "get_metadata_from_engine",
    "get_trt_logger",
    "mark_by_layer_type",
    "mark_layerwise",
    "mark_outputs",
    "str_from_config",
    "str_from_engine",
    "str_from_network",
    "unmark_outputs",
]


def get_all_tensors(network: Any) -> dict[str, Any]:
    """Return the inputs of a network and the tensors that its layers compute, by name."""
    return tensors_of(network)


def get_all_io_tensors(network: Any) -> dict[str, Any]:
    """Return the inputs and outputs of a network, by name."""
    tensors = [network.get_input(index) for index in range(network.num_inputs)]
    return {tensor.name: tensor for tensor in (*tensors, *_outputs(network))}


def mark_outputs(network: Any, outputs: Iterable[str]) -> None:
    """Set the outputs of a network to some tensors.

    Args:
        network: the `tensorrt.INetworkDefinition`.
        outputs: names, or patterns of `fnmatch`, in the order of the new outputs.

    Raises:
        UnknownNameError: a name or a pattern matches nothing in the network.
        UsageError: no output would remain.
    """
    tensors = tensors_of(network)
    chosen: list[str] = []
    for word in outputs:
        matches = select_names([word], tensors)
        chosen += [name for name in tensors if name in matches]
    _mark(network, [tensors[name] for name in dict.fromkeys(chosen)])


def unmark_outputs(network: Any, outputs: Iterable[str]) -> None:
    """Remove some outputs of a network; unknown names are ignored.

    Raises:
        UnknownNameError: a name or a pattern matches nothing in the network.
    """
    unmarked = select_names(outputs, tensors_of(network))
    for tensor in _outputs(network):
        if tensor.name in unmarked:
            network.unmark_output(tensor)


def mark_layerwise(network: Any) -> None:
    """Make all floating-point tensors outside loops outputs of a network,
    except constants and shapes.
    """
    _mark_named(network, comparable_tensors(network))


def mark_by_layer_type(network: Any, layer_types: Iterable[str]) -> None:
    """Set the outputs of a network to those of layers of some types.

    Args:
        network: the `tensorrt.INetworkDefinition`.
        layer_types: names in `tensorrt.LayerType`, in any case.

    Raises:
        UnknownNameError: TensorRT has no such type of layer.
    """
    tensors = tensors_of_types(network, layer_types)
    if tensors:
        _mark_named(network, tensors)


def _mark_named(network: Any, names: set[str]) -> None:
    """Set the outputs of a network to the tensors with these names."""
    _mark(network, [tensor for name, tensor in tensors_of(network).items() if name in names])


def _mark(network: Any, tensors: Sequence[Any]) -> None:
    """Set the outputs of a network to these tensors."""
    if not tensors:
        raise UsageError("No outputs were selected.", hint="Choose at least one tensor.")
    for tensor in _outputs(network):
        network.unmark_output(tensor)
    for tensor in tensors:
        network.mark_output(tensor)


def _outputs(network: Any) -> list[Any]:
    """Return the outputs of a network."""
    return [network.get_output(index) for index in range(network.num_outputs)]


def get_layer_class_mapping() -> dict[Any, type]:
    """Return the class of each member of `tensorrt.LayerType` that has one."""
    return layer_classes(tensorrt_module())


def get_input_metadata_from_network(
    network: Any, profile: Any, force_opt_shapes: bool | None = None
) -> TensorMetadata:
    """Return the metadata of the inputs of a network.

    Args:
        network: the `tensorrt.INetworkDefinition`.
        profile: a `Profile`, or a `tensorrt.IOptimizationProfile`; inputs that it does not name
            have no bounds.
        force_opt_shapes: whether to use the optimum shapes of the profile (default: the shapes of
            the network, with the minimum and maximum of the profile as bounds).
    """
    metadata = TensorMetadata()
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        low, usual, high = _range_of(profile, tensor)
        shape = tuple(tensor.shape)
        if force_opt_shapes and usual is not None and not tensor.is_shape_tensor:
            low, shape, high = None, usual, None
        metadata.add(tensor.name, tensor_dtype(tensor.dtype), shape, low, high)
    return metadata


def _range_of(profile: Any, tensor: Any) -> Any:
    """Return the minimum, the optimum and the maximum shape, or value, of an input."""
    if hasattr(profile, "get_shape"):
        ask = profile.get_shape_input if tensor.is_shape_tensor else profile.get_shape
        ranges: Any = [tuple(value) for value in ask(tensor.name)]
    else:
        ranges = tuple((profile or {}).get(tensor.name, ()))
    return ranges if len(ranges) == 3 and any(map(len, ranges)) else (None, None, None)


def get_metadata_from_engine(engine: Any, context: Any, mode: Any) -> TensorMetadata:
    """Return the metadata of the inputs or the outputs of an engine.

    Args:
        engine: the `tensorrt.ICudaEngine`.
        context: an `IExecutionContext` of it; not used.
        mode: `tensorrt.TensorIOMode.INPUT` or ``OUTPUT``.
    """
    metadata = TensorMetadata()
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        if engine.get_tensor_mode(name) == mode:
            dtype = tensor_dtype(engine.get_tensor_dtype(name))
            metadata.add(name, dtype, tuple(engine.get_tensor_shape(name)))
    return metadata


def fail_unavailable(what: str) -> None:
    """Raise a BackendError: this release of TensorRT lacks a feature."""
    version = tensorrt_module().__version__
    raise BackendError(f"{what} is not available in TensorRT {version}.", backend="tensorrt")


def check_onnx_parser_errors(parser: Any, success: bool) -> None:
    """Log the errors of an ONNX parser, and raise a BackendError if there are any.

    Args:
        parser: the `tensorrt.OnnxParser`.
        success: the return value of the parser.
    """
    for index in range(parser.num_errors):
        G_LOGGER.error(describe_error(parser.get_error(index)))
    if parser.num_errors or not success:
        why = "see above" if parser.num_errors else "the file may be missing, or not an ONNX model"
        raise BackendError(f"TensorRT could not parse the ONNX model: {why}.", backend="tensorrt")


def str_from_network(
    network: Any,
    show_layers: bool | None = None,
    show_attrs: bool | None = None,
    show_weights: bool | None = None,
) -> str:
    """Return the description of a network as text, as `polygraphy inspect model` shows it.

    Args:
        network: the `tensorrt.INetworkDefinition`.
        show_layers: whether layers are shown (default: False).
        show_attrs: whether the attributes of shown layers are shown (default: False).
        show_weights: whether attributes that are weights are shown (default: False).
    """
    from polygraphy.adapters.console.models.engine_text import network_lines
    from polygraphy.adapters.tensorrt.describe.describe_network import describe_network

    described = describe_network(
        network, layers=bool(show_layers), attrs=bool(show_attrs), weights=bool(show_weights)
    )
    return _without_title(network_lines(described))


def str_from_engine(
    engine: Any,
    context: Any,
    show_layers: bool | None = None,
    show_attrs: bool | None = None,
    combine_tensor_info: str | None = None,
) -> str:
    """Return the description of an engine as text, as `polygraphy inspect model` shows it.

    Args:
        engine: the `tensorrt.ICudaEngine`.
        context: an `IExecutionContext` of it, or None.
        show_layers: whether layers are shown, if the engine has this information (default: False).
        show_attrs: whether the attributes of shown layers are shown (default: False).
        combine_tensor_info: path of saved outputs whose statistics are shown with the layers.
    """
    from polygraphy.adapters.console.models.engine_text import engine_lines
    from polygraphy.adapters.tensorrt.describe.describe_engine import describe_engine
    from polygraphy.adapters.tensorrt.plan.reader import notes_of

    described = describe_engine(
        engine,
        context,
        layers=bool(show_layers),
        attrs=bool(show_attrs),
        notes=notes_of(combine_tensor_info),
    )
    return _without_title(engine_lines(described))


def str_from_config(config: Any, network: Any) -> str:
    """Return the settings of a builder configuration as text, one line for each kind.

    Args:
        config: the `tensorrt.IBuilderConfig`.
        network: not used.
    """
    from polygraphy.adapters.tensorrt.engine.config import config_lines

    return "\n".join(config_lines(config))


def _without_title(lines: Any) -> str:
    """Return lines as text, without the first one."""
    return "\n".join([*lines][1:])
