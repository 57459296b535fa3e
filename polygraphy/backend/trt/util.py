"""Helpers for networks and engines, under the module name that scripts import."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.tensorrt.library.module import existing_trt_logger, trt
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.legacy import trt as legacy
from polygraphy.legacy.trt import *  # noqa: F403
from polygraphy.mod.deferred import defer_names

__all__ = []
__all__ += legacy.__all__
__all__ += [
    "get_active_profile_bindings",
    "get_bindings_per_profile",
    "get_input_metadata_from_engine",
    "np_dtype_from_trt",
]
__all__.sort()

_METADATA = "tensor.name, tensor.dtype and tensor.shape of each of its {}"

_others = defer_names(
    globals(),
    removed_names={
        "check_profile": "bool(profile)",
        "convert_linear_to_vectorized_format": "a FormattedArray, which TrtRunner accepts",
        "convert_vectorized_to_linear_format": "the outputs of TrtRunner.infer, which are linear",
        "get_chw_shape_from_hwc": "(*outer, channels, height, width)",
        "get_hwc_shape_from_chw": "(*outer, height, width, channels)",
        "get_layer_attribute_names": "set(dir(layer)) - set(dir(tensorrt.ILayer))",
        "get_layer_input_names_meta": _METADATA.format("inputs"),
        "get_layer_output_names_meta": _METADATA.format("outputs"),
        "get_network_input_names_meta": "get_input_metadata_from_network(network, None)",
        "get_network_output_names_meta": _METADATA.format("outputs"),
        "get_tensor_format": "engine.get_tensor_format(name, context.active_optimization_profile)",
        "inherit_and_extend_docstring": "inspect.getdoc",
        "str_from_layer": "str_from_network(network, show_layers=True)",
        "str_from_tensor": 'f"{tensor.name} ({tensor.dtype}, {tensor.shape})"',
        "try_setup_polygraphy_calibrator": "calibrator.set_input_metadata("
        "get_input_metadata_from_network(network, profile, force_opt_shapes=True))",
    },
)


def __getattr__(name: str) -> Any:
    """Return a name from `polygraphy.legacy.trt`, imported on first use."""
    if name == "TRT_LOGGER":  # None before the logger is first used.
        return existing_trt_logger()
    return _others(name)


# Functions of older versions. Scripts that replace functions in this module affect its other
# functions.


@mod.deprecate("2.0", "ICudaEngine.num_io_tensors")
def get_bindings_per_profile(engine: Any) -> int:
    """Return the number of inputs and outputs of an engine in one profile."""
    if hasattr(engine, "num_io_tensors"):
        return int(engine.num_io_tensors)
    return int(engine.num_bindings) // int(engine.num_optimization_profiles)


@mod.deprecate("2.0", "names of tensors")
def get_active_profile_bindings(context: Any) -> tuple[int, int]:
    """Return the first index of the bindings of a context's profile, and the one after the last."""
    count = get_bindings_per_profile(context.engine)
    start = int(context.active_optimization_profile) * count
    return start, start + count


@mod.deprecate("2.0", "DataType.from_dtype(...).numpy()")
def np_dtype_from_trt(trt_dtype: Any) -> np.dtype[Any]:
    """Return the NumPy data type of one of TensorRT's.

    Raises:
        DataTypeConversionException: there is none.
    """
    numpy: np.dtype[Any] = DataType.from_dtype(trt_dtype, "tensorrt").numpy()
    return numpy


@mod.deprecate("2.0", "get_metadata_from_engine")
def get_input_metadata_from_engine(
    engine: Any, start_binding: int, end_binding: int
) -> TensorMetadata:
    """Return the metadata of an engine's inputs among the bindings in a range."""
    known_metadata = legacy.get_metadata_from_engine(engine, None, trt.TensorIOMode.INPUT)
    count = get_bindings_per_profile(engine)
    tensor_names = [engine.get_tensor_name(at % count) for at in range(start_binding, end_binding)]
    metadata = TensorMetadata()
    metadata.update((name, known_metadata[name]) for name in tensor_names if name in known_metadata)
    return metadata
