"""Facts about an engine's inputs and outputs, read once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.adapters.tensorrt.library.datatype import TensorrtDataTypes
from polygraphy.adapters.tensorrt.library.module import mute_log, trt
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.domain.tensors.shapes import fits

Shape = tuple[int, ...]


@frozen
class ShapeRange:
    """The allowed shapes of a dynamic input in one optimization profile."""

    min: Shape
    opt: Shape
    max: Shape

    def holds(self, shape: Sequence[int]) -> bool:
        """Return whether a shape of the right rank is in the range."""
        return all(low <= dim <= high for low, dim, high in zip(self.min, shape, self.max))


@frozen
class IoTensor:
    """An input or output of an engine.

    Attributes:
        name: of the tensor.
        entry: its data type.
        dtype: the same for NumPy.
        shape: -1 for a dimension that is not known before run time.
        is_input: whether it is an input.
        is_on_host: whether the engine reads or writes it in host memory, as it does with the
            values of shape tensors.
        is_linear: whether its elements lie in the order of its shape; other formats are described
            by `components` and `vectorized_dim`.
        components: the number of elements of the vectorized dimension that are adjacent in memory.
        vectorized_dim: the index of the vectorized dimension; -1 for none.
        ranges: one per optimization profile; empty where the shape is fixed, and for outputs.
        aliased: the input whose memory this output shares; empty for none.
    """

    name: str
    entry: DataTypeEntry
    dtype: np.dtype[Any]
    shape: Shape
    is_input: bool
    is_on_host: bool = False
    is_linear: bool = True
    components: int = 1
    vectorized_dim: int = -1
    ranges: tuple[ShapeRange, ...] = ()
    aliased: str = ""

    @property
    def is_plain(self) -> bool:
        """Return whether a NumPy array has the memory layout of the engine."""
        return self.is_linear and self.entry.itemsize >= 1

    def takes(self, shape: Sequence[int], profile: int) -> bool:
        """Return whether the input accepts a shape in an optimization profile."""
        if not fits(shape, self.shape):
            return False
        return not self.ranges or self.ranges[profile].holds(shape)


def read_tensors(engine: Any, profile: int) -> list[IoTensor]:
    """Return a description of all inputs and outputs of an `ICudaEngine`, in its order.

    Args:
        engine: the engine.
        profile: the optimization profile whose formats are meant.

    Raises:
        BackendError: a tensor has a data type that is not known here.
    """
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    return [_read(engine, name, profile) for name in names]


def _read(engine: Any, name: str, profile: int) -> IoTensor:
    """Return a description of an input or output."""
    is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
    is_on_host = engine.get_tensor_location(name) == trt.TensorLocation.HOST
    shape = tuple(engine.get_tensor_shape(name))
    entry = _tensor_dtype(engine, name)
    is_linear = format_of(engine, name, profile) == trt.TensorFormat.LINEAR
    components, vectorized_dim = 1, -1
    if not is_linear:  # For a linear tensor, these functions log an error.
        vectorized_dim = _ask_profile(engine.get_tensor_vectorized_dim, name, profile)
        if vectorized_dim >= 0:
            components = max(
                1, _ask_profile(engine.get_tensor_components_per_element, name, profile)
            )
    return IoTensor(
        name=name,
        entry=entry,
        dtype=entry.numpy(),
        shape=shape,
        is_input=is_input,
        is_on_host=is_on_host,
        is_linear=is_linear,
        components=components,
        vectorized_dim=vectorized_dim if components > 1 else -1,
        ranges=_ranges(engine, name) if is_input and -1 in shape else (),
        aliased="" if is_input else _aliased_input(engine, name),
    )


def format_of(engine: Any, name: str, profile: int) -> Any:
    """Return the `tensorrt.TensorFormat` of an input or output in a profile."""
    return _ask_profile(engine.get_tensor_format, name, profile)


def _tensor_dtype(engine: Any, name: str) -> DataTypeEntry:
    """Return the data type of a tensor; raise BackendError if it is unknown."""
    native = engine.get_tensor_dtype(name)
    entry = TensorrtDataTypes().from_native(native)
    if entry is None:
        raise BackendError(
            f"Tensor {name!r} of the engine has the unknown data type {native}.",
            backend="tensorrt",
        )
    return entry


def _ask_profile(ask: Callable[..., Any], name: str, profile: int) -> Any:
    """Return a property of a tensor in one profile, or in all if this version does not distinguish
    them.
    """
    try:
        return ask(name, profile)
    except TypeError:
        return ask(name)


def _ranges(engine: Any, name: str) -> tuple[ShapeRange, ...]:
    """Return the range of shapes of an input in each profile."""
    return tuple(
        ShapeRange(*(tuple(shape) for shape in engine.get_tensor_profile_shape(name, profile)))
        for profile in range(engine.num_optimization_profiles)
    )


def _aliased_input(engine: Any, name: str) -> str:
    """Return the input that shares memory with an output; empty if there is none."""
    if not hasattr(engine, "get_aliased_input_tensor"):
        return ""
    with mute_log():
        return engine.get_aliased_input_tensor(name) or ""
