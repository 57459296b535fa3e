"""Arrays in device memory: views of memory that other code owns, and arrays that own theirs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from polygraphy.adapters.cuda.wrapper import MemcpyKind, wrapper
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.cuda.device import Stream


A = TypeVar("A", bound="DeviceArray")


class DeviceView:
    """A contiguous array in device memory that other code owns and keeps alive.

    Libraries that support ``__cuda_array_interface__`` (PyTorch, CuPy, Numba) accept it.

    Attributes:
        ptr: the address of the memory.
        shape: a tuple.
        dtype: a NumPy data type; types that NumPy does not have come from `ml_dtypes`.
        owner: the owner of the memory, if this view must keep it alive.
    """

    def __init__(self, ptr: int, shape: Sequence[int], dtype: Any, owner: Any = None) -> None:
        """Create a view of device memory.
        `dtype` is NumPy's, or one of `polygraphy.datatype.DataType`."""
        self.owner = owner
        self.ptr = int(ptr)
        self.shape = tuple(shape)
        self.dtype: np.dtype[Any] = _numpy_dtype(dtype)

    @property
    def itemsize(self) -> int:
        """Return the size of an element in bytes."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Return the size of the array in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Return the description of the memory for other libraries, such as CuPy and PyTorch."""
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.ptr if self.nbytes else 0, False),
            "strides": None,
            "stream": None,
        }

    def copy_to(
        self, host_buffer: np.ndarray[Any, Any], stream: Stream | None = None
    ) -> np.ndarray[Any, Any]:
        """Copy to a host array, and return it.

        Args:
            host_buffer: receives the elements if it has the same size and data type and is
                contiguous. Otherwise it is resized, or left unchanged if NumPy cannot resize it. An
                array with a different data type receives the bytes if its size is equal.
            stream: the stream on which the copy is queued; None to copy immediately. The array must
                not be used before the stream is synchronized.

        Returns:
            The array that holds the elements: `host_buffer`, or a new one.
        """
        target = self._host_target(host_buffer)
        if target.nbytes:
            ptr = None if stream is None else stream.ptr
            wrapper().memcpy(
                target.ctypes.data, self.ptr, target.nbytes, MemcpyKind.DeviceToHost, ptr
            )
        return target

    def _host_target(self, host_buffer: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the buffer to copy to: the given one if it has the right type, shape and
        layout, else a new one.
        """
        flags = host_buffer.flags
        if host_buffer.dtype != self.dtype:
            self._check_size(host_buffer)
            is_fit = flags.c_contiguous and flags.writeable
            return host_buffer if is_fit else np.empty(host_buffer.shape, host_buffer.dtype)
        if host_buffer.shape == self.shape:
            if flags.c_contiguous and flags.writeable:
                return host_buffer
            return np.empty(self.shape, self.dtype)
        try:
            host_buffer.resize(self.shape, refcheck=False)
        except ValueError:  # This array does not own its memory.
            return np.empty(self.shape, self.dtype)
        return host_buffer

    def _check_size(self, host_buffer: np.ndarray[Any, Any]) -> None:
        """Raise UsageError unless a host array has as many bytes as this one."""
        if host_buffer.nbytes != self.nbytes or not self.ptr:
            raise UsageError(
                f"The host array has data type {host_buffer.dtype} and {host_buffer.nbytes} bytes,"
                f" but the device array has {self.dtype} and {self.nbytes}."
            )

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy in a new host array."""
        return self.copy_to(np.empty(self.shape, self.dtype))

    def __repr__(self) -> str:
        """Return address, shape and data type as text."""
        return f"{type(self).__name__}(ptr={self.ptr}, shape={self.shape}, dtype={self.dtype})"


class DeviceArray(DeviceView):
    """An array that owns its device memory. Free it, or use it in a ``with`` block.

    Attributes:
        allocated_nbytes: the size of its memory, which may be more than it needs.
    """

    def __init__(self, shape: Sequence[int] | None = None, dtype: Any = None) -> None:
        """Allocate memory for an array; without arguments, a float32 scalar without memory.

        Raises:
            BackendError: there is no GPU, or not enough memory.
        """
        self.allocated_nbytes = 0
        super().__init__(0, (), np.float32 if dtype is None else dtype)
        if shape is not None:
            self.resize(shape)

    @classmethod
    def raw(cls: type[A], shape: Sequence[int] | None = None) -> A:
        """Return a new array of bytes; `shape` is the number of bytes, as a tuple."""
        return cls(shape=shape, dtype=np.uint8)

    def resize(self, shape: Sequence[int]) -> None:
        """Change the shape.
        The memory grows if necessary, and then loses its content; it never shrinks.

        Raises:
            BackendError: there is not enough memory; the array then has none.
        """
        nbytes = math.prod(shape) * self.dtype.itemsize
        if nbytes > self.allocated_nbytes or not self.ptr:
            self.free()
            self.ptr = wrapper().malloc(nbytes)
            self.allocated_nbytes = nbytes
        self.shape = tuple(shape)

    def copy_from(self: A, host_buffer: np.ndarray[Any, Any], stream: Stream | None = None) -> A:
        """Copy from a host array, use its shape, and return this array.

        Args:
            host_buffer: the array to copy; an array that is not contiguous is copied first. If its
                data type differs but its size is equal, the bytes are copied, and this array keeps
                its shape and data type.
            stream: the stream on which the copy is queued; None to copy immediately. The array must
                not be changed before the stream is synchronized.

        Returns:
            This array.

        Raises:
            UsageError: the data types differ, and so do the sizes.
            BackendError: there is not enough memory.
        """
        if host_buffer.dtype != self.dtype:
            self._check_size(host_buffer)
        else:
            self.resize(host_buffer.shape)
        if host_buffer.nbytes:
            source = np.ascontiguousarray(host_buffer)
            # A temporary copy would be freed before the stream reads it.
            ptr = stream.ptr if stream is not None and source is host_buffer else None
            wrapper().memcpy(
                self.ptr, source.ctypes.data, source.nbytes, MemcpyKind.HostToDevice, ptr
            )
        return self

    def view(self, shape: Sequence[int] | None = None, dtype: Any = None) -> DeviceView:
        """Return a view of this array's memory, which lives no longer than the array.

        Args:
            shape: its shape (default: that of the array).
            dtype: its data type (default: that of the array).

        Raises:
            UsageError: the array has too few bytes.
        """
        view = DeviceView(
            self.ptr,
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
        )
        if view.nbytes > self.nbytes:
            raise UsageError(
                f"A view of {view.nbytes} bytes does not fit into an array of {self.nbytes} bytes."
            )
        return view

    def free(self) -> None:
        """Free the memory; later calls do nothing."""
        ptr, self.ptr = self.ptr, 0
        self.allocated_nbytes = 0
        self.shape = ()
        if ptr:
            wrapper().free(ptr)

    def __enter__(self: A) -> A:
        """Return the array, which is freed at the end of the block."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Free the memory."""
        self.free()

    def __del__(self) -> None:
        """Free the memory if it was not freed before."""
        if getattr(self, "ptr", 0):
            G_LOGGER.warning(
                f"{self!r} was not freed: {self.allocated_nbytes} bytes of device memory are lost."
                " Call free(), or use it in a `with` block."
            )


def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy data type for one of NumPy or this package."""
    entry = DataType.from_dtype(dtype)
    numpy: np.dtype[Any] = entry.numpy()
    return numpy
