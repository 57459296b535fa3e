"""Small questions to networks and engines, and outputs that are marked, for scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from polygraphy.adapters.tensorrt.describe.describe_network import (
    layer_attribute_names,
    layer_classes,
    metadata_of,
    tensor_dtype,
)
from polygraphy.adapters.tensorrt.library.module import tensorrt_module
from polygraphy.adapters.tensorrt.network.network import tensors_of
from polygraphy.adapters.tensorrt.network.network_outputs import (
    comparable_tensors,
    tensors_of_types,
)
from polygraphy.adapters.tensorrt.network.parser_errors import described
from polygraphy.adapters.tensorrt.runtime.layout import Layout, contiguous_strides
from polygraphy.adapters.tensorrt.runtime.tensors import IoTensor, format_of, read_tensors
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.domain.tensors.formatted import FormattedArray
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import matching
from polygraphy.logger import G_LOGGER

Array = np.ndarray[Any, Any]
NamesMeta = tuple[list[str], TensorMetadata]
Function = TypeVar("Function", bound=Callable[..., Any])


def get_all_tensors(network: Any) -> dict[str, Any]:
    """Return the inputs of a network and what its layers compute, by name."""
    return tensors_of(network)


def get_all_io_tensors(network: Any) -> dict[str, Any]:
    """Return the inputs and outputs of a network, by name."""
    tensors = [network.get_input(index) for index in range(network.num_inputs)]
    return {tensor.name: tensor for tensor in (*tensors, *_outputs(network))}


def mark_outputs(network: Any, outputs: Iterable[str]) -> None:
    """Make some tensors the outputs of a network, and no others.

    Args:
        network: the `tensorrt.INetworkDefinition`.
        outputs: names, or patterns as of `fnmatch`, in the order that the outputs are to have.

    Raises:
        UnknownNameError: a name or a pattern matches nothing in the network.
        UsageError: there would be no outputs.
    """
    tensors = tensors_of(network)
    chosen: list[str] = []
    for word in outputs:
        found = matching([word], tensors)
        chosen += [name for name in tensors if name in found]
    _mark(network, [tensors[name] for name in dict.fromkeys(chosen)])


def unmark_outputs(network: Any, outputs: Iterable[str]) -> None:
    """Take some outputs away from a network; names of tensors that are none change nothing.

    Raises:
        UnknownNameError: a name or a pattern matches nothing in the network.
    """
    unmarked = matching(outputs, tensors_of(network))
    for tensor in _outputs(network):
        if tensor.name in unmarked:
            network.unmark_output(tensor)


def mark_layerwise(network: Any) -> None:
    """Make every tensor whose values are worth comparing an output of a network, and no others:
    not constants, shapes, truth values or what is inside of loops.
    """
    _mark_named(network, comparable_tensors(network))


def mark_by_layer_type(network: Any, layer_types: Iterable[str]) -> None:
    """Make what layers of some types compute the outputs of a network, and no others.

    Args:
        network: the `tensorrt.INetworkDefinition`.
        layer_types: names in `tensorrt.LayerType`, in any case.

    Raises:
        UnknownNameError: TensorRT has no such type of layers.
    """
    found = tensors_of_types(network, layer_types)
    if found:
        _mark_named(network, found)


def _mark_named(network: Any, names: set[str]) -> None:
    _mark(network, [tensor for name, tensor in tensors_of(network).items() if name in names])


def _mark(network: Any, tensors: Sequence[Any]) -> None:
    if not tensors:
        raise UsageError("No outputs were chosen.", hint="Name at least one tensor.")
    for tensor in _outputs(network):
        network.unmark_output(tensor)
    for tensor in tensors:
        network.mark_output(tensor)


def _outputs(network: Any) -> list[Any]:
    return [network.get_output(index) for index in range(network.num_outputs)]


def get_network_input_names_meta(network: Any) -> NamesMeta:
    """Return the names of a network's inputs, and their data types and shapes."""
    return _named(network.get_input(index) for index in range(network.num_inputs))


def get_network_output_names_meta(network: Any) -> NamesMeta:
    """Return the names of a network's outputs, and their data types and shapes."""
    return _named(_outputs(network))


def get_layer_input_names_meta(layer: Any) -> NamesMeta:
    """Return the names of what a layer takes, and their data types and shapes."""
    return _named(layer.get_input(index) for index in range(layer.num_inputs))


def get_layer_output_names_meta(layer: Any) -> NamesMeta:
    """Return the names of what a layer computes, and their data types and shapes."""
    return _named(layer.get_output(index) for index in range(layer.num_outputs))


def _named(tensors: Iterable[Any]) -> NamesMeta:
    metadata = metadata_of(tensors)
    return list(metadata), metadata


def get_layer_class_mapping() -> dict[Any, type]:
    """Return the class of each member of `tensorrt.LayerType`, as far as there is one."""
    return layer_classes(tensorrt_module())


def get_layer_attribute_names(layer: Any) -> list[str]:
    """Return the names of what a layer has that not every layer has, in order."""
    return layer_attribute_names(layer)


def str_from_tensor(tensor: Any, is_shape_tensor: bool) -> str:
    """Return a line about an input of a network."""
    kind = "shape-tensor" if is_shape_tensor else "tensor"
    facts = f"dtype={tensor.dtype}, shape={tuple(tensor.shape)}"
    return f"Input {kind}: {tensor.name} ({facts})"


def get_input_metadata_from_network(
    network: Any, profile: Any, force_opt_shapes: bool | None = None
) -> TensorMetadata:
    """Return what a network takes.

    Args:
        network: the `tensorrt.INetworkDefinition`.
        profile: a `Profile`, or a `tensorrt.IOptimizationProfile`; inputs that it does not name
            have no bounds.
        force_opt_shapes: whether the shapes are the usual ones of the profile (default: those of
            the network, with the smallest and the largest one of the profile as their bounds).
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
    """Return the smallest, the usual and the largest shape, or value, of an input."""
    if hasattr(profile, "get_shape"):
        ask = profile.get_shape_input if tensor.is_shape_tensor else profile.get_shape
        found: Any = [tuple(one) for one in ask(tensor.name)]
    else:
        found = tuple((profile or {}).get(tensor.name, ()))
    return found if len(found) == 3 and any(map(len, found)) else (None, None, None)


def get_metadata_from_engine(engine: Any, context: Any, mode: Any) -> TensorMetadata:
    """Return what an engine takes, or what it computes.

    Args:
        engine: the `tensorrt.ICudaEngine`.
        context: an `IExecutionContext` of it; not needed.
        mode: `tensorrt.TensorIOMode.INPUT` or ``OUTPUT``.
    """
    metadata = TensorMetadata()
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        if engine.get_tensor_mode(name) == mode:
            dtype = tensor_dtype(engine.get_tensor_dtype(name))
            metadata.add(name, dtype, tuple(engine.get_tensor_shape(name)))
    return metadata


def get_tensor_format(engine: Any, context: Any, name: str) -> Any:
    """Return the `tensorrt.TensorFormat` of an input or output in the profile that a context
    uses.
    """
    return format_of(engine, name, context.active_optimization_profile)


def convert_vectorized_to_linear_format(context: Any, name: str, raw_array: Any) -> Array:
    """Return the elements of an input or output in the order of its shape.

    Args:
        context: the `IExecutionContext`, which knows the shape and the strides.
        name: of the tensor.
        raw_array: its memory, as an array of any type or a `FormattedArray`, padding included.
    """
    raw = raw_array.array if isinstance(raw_array, FormattedArray) else np.asarray(raw_array)
    memory = np.ascontiguousarray(raw).reshape(-1).view(np.uint8)
    layout = _layout(context, name)
    if memory.nbytes < layout.nbytes:
        raise UsageError(
            f"Tensor {name!r} takes {layout.nbytes} bytes in its format, but the array has"
            f" {memory.nbytes}."
        )
    return layout.unpack(memory)


def convert_linear_to_vectorized_format(context: Any, name: str, input_arr: Any) -> FormattedArray:
    """Return an array as its memory has to be for an input: the bytes, and the shape that is
    meant, as `TrtRunner` takes them.
    """
    array, layout = np.asarray(input_arr), _layout(context, name)
    if array.shape != layout.shape or array.dtype != layout.dtype:
        raise UsageError(
            f"Tensor {name!r} has shape {layout.shape} and data type {layout.dtype}, but the array"
            f" has {array.shape} and {array.dtype}."
        )
    return FormattedArray(layout.pack(np.ascontiguousarray(array)), array.shape)


def _layout(context: Any, name: str) -> Layout:
    profile = context.active_optimization_profile
    known = _io_tensor(context.engine, name, profile)
    shape = tuple(context.get_tensor_shape(name))
    strides = contiguous_strides(shape) if known.is_linear else context.get_tensor_strides(name)
    bits = int(known.entry.itemsize * 8)
    return Layout(shape, known.dtype, tuple(strides), known.components, known.vectorized_dim, bits)


def _io_tensor(engine: Any, name: str, profile: int) -> IoTensor:
    tensors = {tensor.name: tensor for tensor in read_tensors(engine, profile)}
    (found,) = matching([name], tensors)
    return tensors[found]


def get_hwc_shape_from_chw(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape with its channels, which come third from the end, last."""
    *outer, channels, height, width = shape
    return (*outer, height, width, channels)


def get_chw_shape_from_hwc(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape with its channels, which come last, third from the end."""
    *outer, height, width, channels = shape
    return (*outer, channels, height, width)


def check_profile(profile: Any) -> Any:
    """Return an optimization profile; UsageError for one to which a shape is missing."""
    if not bool(profile):
        raise UsageError(
            f"The optimization profile is not valid: {profile}.",
            hint="Give it a range for every input.",
        )
    return profile


def check_onnx_parser_errors(parser: Any, success: bool) -> None:
    """Raise a BackendError if an ONNX parser reports one; they are logged.

    Args:
        parser: the `tensorrt.OnnxParser`.
        success: what parsing returned.
    """
    for index in range(parser.num_errors):
        G_LOGGER.error(described(parser.get_error(index)))
    if parser.num_errors or not success:
        why = "see above" if parser.num_errors else "the file may be missing, or no ONNX model"
        raise BackendError(f"TensorRT could not parse the ONNX model: {why}.", backend="tensorrt")


def try_setup_polygraphy_calibrator(config: Any, network: Any, calib_profile: Any = None) -> None:
    """Set what the network takes, of a calibrator of this package; nothing happens to any other.

    Args:
        config: the `tensorrt.IBuilderConfig` that has the calibrator.
        network: the `tensorrt.INetworkDefinition`.
        calib_profile: the profile whose usual shapes the data have (default: that of `config`).
    """
    calibrator = config.int8_calibrator
    if not hasattr(calibrator, "set_input_metadata"):
        return
    profile = config.get_calibration_profile() if calib_profile is None else calib_profile
    calibrator.set_input_metadata(
        get_input_metadata_from_network(network, profile, force_opt_shapes=True)
    )


def inherit_and_extend_docstring(parent_method: Any) -> Callable[[Function], Function]:
    """Return a decorator that puts the docstring of another function before that of its own."""

    def decorate(function: Function) -> Function:
        docs = [each.__doc__ for each in (parent_method, function) if each.__doc__]
        function.__doc__ = "\n\n".join(docs) or None
        return function

    return decorate
