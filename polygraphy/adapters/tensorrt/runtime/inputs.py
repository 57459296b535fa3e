"""The inputs of an active engine: copies data to the memory that the engine reads.

`feed` is called for every inference, so it begins with what is the same as last time: an array of
the same description goes into pinned memory that is copied as part of the inference; memory of the
device is read where it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.adapters.arrays.foreign import device_buffer, host_array, host_copy
from polygraphy.adapters.tensorrt.runtime.memory import DeviceBlock, PinnedMemory, ReusedArrays
from polygraphy.adapters.tensorrt.runtime.tensors import IoTensor
from polygraphy.domain.errors import BackendError, InputError
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.formatted import FormattedArray
from polygraphy.domain.tensors.shapes import is_shape_dynamic
from polygraphy.ports.machine import Device, DeviceStream


def dtype_error(tensor: IoTensor, dtype: object) -> InputError:
    """Return the error for data with a wrong data type."""
    return InputError(
        f"Input {tensor.name!r} must have data type {tensor.entry}, but the data has the"
        f" unexpected dtype {dtype}."
    )


class OutsideProfileError(InputError):
    """A shape outside the range of the current optimization profile."""


def check_shape(tensor: IoTensor, shape: tuple[int, ...], profile: int) -> None:
    """Raise an error if an input cannot have a shape.

    Raises:
        OutsideProfileError: the optimization profile does not accept it. The message gives the
            range of that profile, and another profile that accepts the shape.
        InputError: no profile can accept it.
    """
    if tensor.takes(shape, profile):
        return
    if not tensor.ranges or len(shape) != len(tensor.shape):
        raise InputError(
            f"Shape mismatch: input {tensor.name!r} must have shape {tensor.shape}, but the data"
            f" has {shape}."
        )
    within = tensor.ranges[profile]
    indexes = [index for index in range(len(tensor.ranges)) if tensor.takes(shape, index)]
    raise OutsideProfileError(
        f"Input {tensor.name!r} cannot have shape {shape}: optimization profile {profile} of"
        f" the engine accepts {within.min} to {within.max}.",
        hint=(
            f"Choose profile {indexes[0]}, which accepts it."
            if indexes
            else "Build the engine with a wider profile, or use data of a different shape."
        ),
    )


def refusal_error(what: str, reason: object, *, hint: str = "") -> BackendError:
    """Return the error for a call that TensorRT refuses; `reason` is from its log."""
    why = f": {reason}" if str(reason) else "; it gave no reason."
    return BackendError(f"TensorRT rejected {what}{why}", backend="tensorrt", hint=hint)


Shape = tuple[int, ...]

STAGING_LIMIT = 1 << 20
"""Host arrays up to this many bytes are copied through pinned memory; the driver copies larger ones
directly, in overlapping pieces."""

_ndarray = np.ndarray
_copyto = np.copyto


class DeviceInput:
    """An input that the engine reads from device memory.

    Attributes:
        tensor: its description in the engine.
        shape: the shape of the current data; None before the first.
        address: the address from which the engine reads them.
        is_staged: whether `enqueue` has something to copy.
    """

    def __init__(
        self, tensor: IoTensor, device: Device, stream: DeviceStream, reused: ReusedArrays
    ) -> None:
        """Create an input in device memory; memory is allocated when it is fed."""
        self.tensor = tensor
        self.shape: Shape | None = None
        self.address = 0
        self.is_staged = False
        self._dtype = tensor.dtype
        self._device = device
        self._stream = stream
        self._reused = reused
        self._block = DeviceBlock(device)
        self._pinned = PinnedMemory(device)
        self._staged: Array | None = None
        self._nbytes = 0
        self._kept: Any = None

    def feed(self, array: Any) -> bool:
        """Set the data for an inference; return whether their shape or address changed.

        Returns:
            Whether the shape, the address or the way of copying differs from the last inference.

        Raises:
            InputError: the data has the wrong type, or cannot be read.
        """
        if type(array) is _ndarray:
            staged = self._staged
            if staged is not None and array.shape == self.shape and array.dtype == self._dtype:
                _copyto(staged, array)
                return False
            return self._feed_host(array)
        return self._feed_unusual(array)

    def _feed_unusual(self, array: Any) -> bool:
        """Feed data that are not a NumPy array; return whether the shape or address changed."""
        if isinstance(array, int):
            return self._read_in_place(array, self._shape_of_address())
        if isinstance(array, FormattedArray):
            return self._feed_formatted(array)
        where = device_buffer(array, self._stream)
        if where is None:
            return self._feed_host(host_array(array))
        address, shape, self._kept = where
        # An empty array may have no address, and the engine would reject it.
        return self._read_in_place(address or self._block.reserve(0), shape)

    def _feed_formatted(self, array: FormattedArray) -> bool:
        """Set an array in the memory layout of the engine, of any shape; return whether the address
        changed.
        """
        where = device_buffer(array.array, self._stream)
        if where is None:
            return self._feed_host(host_array(array.array).reshape(array.shape))
        address, _, self._kept = where
        return self._read_in_place(address, array.shape)

    def _read_in_place(self, address: int, shape: Shape) -> bool:
        """Let TensorRT read data at an address; return whether the shape or address changed."""
        if address not in (self.address, self._block.address):
            self._device.check_readable(address, self._stream.device)
        self._staged = None
        return self._note_binding(shape, address, is_staged=False)

    def _shape_of_address(self) -> Shape:
        """Return the shape for data that is an address; raise InputError if it is unknown."""
        shape = self.shape or self.tensor.shape
        if is_shape_dynamic(shape):
            raise InputError(
                f"The data for input {self.tensor.name!r} is an address without a shape.",
                hint="Wrap it: polygraphy.cuda.DeviceView(address, shape, dtype).",
            )
        return shape

    def _feed_host(self, array: Array) -> bool:
        """Feed a NumPy array; return whether the shape or address changed."""
        if array.dtype != self._dtype:
            raise dtype_error(self.tensor, array.dtype)
        if array.nbytes > STAGING_LIMIT:
            return self._copy_directly(np.ascontiguousarray(array))
        changed = self._note_binding(array.shape, self._block.reserve(array.nbytes), is_staged=True)
        self._nbytes = array.nbytes
        self._staged = self._pinned.array(array.shape, array.dtype)
        _copyto(self._staged, array)
        return changed

    def _copy_directly(self, array: Array) -> bool:
        """Copy a large array to the device without staging; return whether the shape or address
        changed.
        """
        self._reused.notice(array)
        changed = self._note_binding(
            array.shape, self._block.reserve(array.nbytes), is_staged=False
        )
        self._staged = None
        self._kept = array
        self._stream.to_device(self.address, array.__array_interface__["data"][0], array.nbytes)
        return changed

    def _note_binding(self, shape: Shape, address: int, *, is_staged: bool) -> bool:
        """Record the shape and the address; return whether they changed."""
        before = (self.shape, self.address, self.is_staged)
        self.shape, self.address, self.is_staged = shape, address, is_staged
        return before != (shape, address, is_staged)

    @property
    def identity(self) -> object:
        """Return a value that differs between shapes, ways of copying, and addresses."""
        is_own = self.address == self._block.address
        return self.shape, self.is_staged, 0 if is_own else self.address

    @property
    def addresses(self) -> tuple[int, ...]:
        """Return all memory addresses that `enqueue` and the engine use."""
        return (self.address, self._pinned.address if self.is_staged else 0)

    def enqueue(self, stream: DeviceStream) -> None:
        """Copy the staged data to the device."""
        if self._nbytes:
            stream.to_device(self.address, self._pinned.address, self._nbytes)

    def free(self) -> None:
        """Free the device memory and the staging memory."""
        self._kept = self._staged = None
        self._block.free()
        self._pinned.free()


class HostInput:
    """An input whose values the engine reads from host memory, because they may determine shapes.

    Attributes: see `DeviceInput`.
    """

    is_staged = False

    def __init__(self, tensor: IoTensor) -> None:
        """Create an input in host memory."""
        self.tensor = tensor
        self.shape: Shape | None = None
        self.address = 0
        self._values: Array | None = None

    def feed(self, array: Any) -> bool:
        """Set the values; return whether they changed, because that may change shapes."""
        values = host_copy(self.tensor.name, array)
        if values.dtype != self.tensor.dtype:
            raise dtype_error(self.tensor, values.dtype)
        own_values = self._values
        if (
            own_values is not None
            and own_values.shape == values.shape
            and np.array_equal(own_values, values)
        ):
            return False
        if own_values is None or own_values.shape != values.shape:
            own_values = self._values = addressable_array(values.shape, values.dtype)
        own_values[...] = values
        self.shape = values.shape
        self.address = own_values.__array_interface__["data"][0]
        return True

    @property
    def identity(self) -> object:
        """Return the shape, which identifies the arrangement of the input."""
        return self.shape

    @property
    def addresses(self) -> tuple[int, ...]:
        """Return all memory addresses that the engine uses."""
        return (self.address,)

    def enqueue(self, stream: DeviceStream) -> None:
        """Do nothing, because the engine reads the values itself."""

    def free(self) -> None:
        """Drop the values."""
        self._values = None


def addressable_array(shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Return an array of zeros that has an address, also if it is empty."""
    size = int(np.prod(shape, dtype=np.int64))
    array: Array = np.zeros(max(size, 1), dtype)[:size].reshape(shape)
    return array
