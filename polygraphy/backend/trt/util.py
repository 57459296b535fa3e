"""Small questions to networks and engines, and outputs that are marked, at the address that scripts
use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.tensorrt.helpers import (
    check_onnx_parser_errors,
    check_profile,
    convert_linear_to_vectorized_format,
    convert_vectorized_to_linear_format,
    get_all_io_tensors,
    get_all_tensors,
    get_chw_shape_from_hwc,
    get_hwc_shape_from_chw,
    get_input_metadata_from_network,
    get_layer_attribute_names,
    get_layer_class_mapping,
    get_layer_input_names_meta,
    get_layer_output_names_meta,
    get_metadata_from_engine,
    get_network_input_names_meta,
    get_network_output_names_meta,
    get_tensor_format,
    inherit_and_extend_docstring,
    mark_by_layer_type,
    mark_layerwise,
    mark_outputs,
    str_from_tensor,
    try_setup_polygraphy_calibrator,
    unmark_outputs,
)
from polygraphy.adapters.tensorrt.library.logger import get_trt_logger, made_trt_logger
from polygraphy.adapters.tensorrt.library.module import trt
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata

__all__ = [
    "check_onnx_parser_errors",
    "check_profile",
    "convert_linear_to_vectorized_format",
    "convert_vectorized_to_linear_format",
    "get_active_profile_bindings",
    "get_all_io_tensors",
    "get_all_tensors",
    "get_bindings_per_profile",
    "get_chw_shape_from_hwc",
    "get_hwc_shape_from_chw",
    "get_input_metadata_from_engine",
    "get_input_metadata_from_network",
    "get_layer_attribute_names",
    "get_layer_class_mapping",
    "get_layer_input_names_meta",
    "get_layer_output_names_meta",
    "get_metadata_from_engine",
    "get_network_input_names_meta",
    "get_network_output_names_meta",
    "get_tensor_format",
    "get_trt_logger",
    "inherit_and_extend_docstring",
    "mark_by_layer_type",
    "mark_layerwise",
    "mark_outputs",
    "np_dtype_from_trt",
    "str_from_config",
    "str_from_engine",
    "str_from_layer",
    "str_from_network",
    "str_from_tensor",
    "try_setup_polygraphy_calibrator",
    "unmark_outputs",
]


def __getattr__(name: str) -> Any:
    if name == "TRT_LOGGER":  # None until the logger is asked for.
        return made_trt_logger()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def str_from_network(
    network: Any,
    show_layers: bool | None = None,
    show_attrs: bool | None = None,
    show_weights: bool | None = None,
) -> str:
    """Return what a network consists of as text, as `polygraphy inspect model` shows it.

    Args:
        network: the `tensorrt.INetworkDefinition`.
        show_layers: whether layers are shown (default: no).
        show_attrs: whether the attributes of layers that are shown are (default: no).
        show_weights: whether the attributes that are weights are (default: no).
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
    """Return what an engine consists of as text, as `polygraphy inspect model` shows it.

    Args:
        engine: the `tensorrt.ICudaEngine`.
        context: an `IExecutionContext` of it, or None.
        show_layers: whether layers are shown, as far as the engine keeps that (default: no).
        show_attrs: whether the attributes of layers that are shown are (default: no).
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


def str_from_layer(layer: Any, index: int) -> str:
    """Return what a layer takes and computes as text; `index` is its place in the network."""
    from polygraphy.adapters.console.models.engine_text import layer_lines
    from polygraphy.adapters.tensorrt.describe.describe_network import describe_layer

    return "\n".join([*layer_lines(index, describe_layer(layer)), ""])


def str_from_config(config: Any, network: Any) -> str:
    """Return what a builder configuration asks for as text, a line per kind of setting.

    Args:
        config: the `tensorrt.IBuilderConfig`.
        network: not needed.
    """
    from polygraphy.adapters.tensorrt.build.config_text import config_lines

    return "\n".join(config_lines(config))


def _without_title(lines: Any) -> str:
    return "\n".join([*lines][1:])


# What only older versions had.


@mod.deprecate("2.0", "ICudaEngine.num_io_tensors")
def get_bindings_per_profile(engine: Any) -> int:
    """Return how many inputs and outputs an engine has, counted in one of its profiles."""
    if hasattr(engine, "num_io_tensors"):
        return int(engine.num_io_tensors)
    return int(engine.num_bindings) // int(engine.num_optimization_profiles)


@mod.deprecate("2.0", "names of tensors")
def get_active_profile_bindings(context: Any) -> tuple[int, int]:
    """Return the indices of the bindings of a context's profile: the first, and the one behind the
    last.
    """
    count = get_bindings_per_profile(context.engine)
    start = int(context.active_optimization_profile) * count
    return start, start + count


@mod.deprecate("2.0", "DataType.from_dtype(...).numpy()")
def np_dtype_from_trt(trt_dtype: Any) -> np.dtype[Any]:
    """Return the NumPy data type of one of TensorRT's.

    Raises:
        DataTypeConversionException: there is none.
    """
    found: np.dtype[Any] = DataType.from_dtype(trt_dtype, "tensorrt").numpy()
    return found


@mod.deprecate("2.0", "get_metadata_from_engine")
def get_input_metadata_from_engine(
    engine: Any, start_binding: int, end_binding: int
) -> TensorMetadata:
    """Return what an engine takes, of the bindings from one index up to another."""
    known = get_metadata_from_engine(engine, None, trt.TensorIOMode.INPUT)
    count = get_bindings_per_profile(engine)
    asked = [engine.get_tensor_name(at % count) for at in range(start_binding, end_binding)]
    metadata = TensorMetadata()
    metadata.update((name, known[name]) for name in asked if name in known)
    return metadata
