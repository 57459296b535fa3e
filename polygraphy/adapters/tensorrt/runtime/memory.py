"""Memory that inputs, outputs and engines use for as long as a runner is active."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import numpy as np
from attrs import frozen
from numpy.lib.stride_tricks import as_strided

from polygraphy.adapters.arrays.foreign import pack_bits, unpack_bits
from polygraphy.adapters.tensorrt.library.capabilities import require
from polygraphy.adapters.tensorrt.library.module import (
    Reasons,
    capture_log,
    mute_log,
    setting_of,
    trt,
)
from polygraphy.domain.errors import BackendError, UnknownNameError
from polygraphy.domain.tensors.aliases import Array
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import Device, DeviceStream, PinnedBlock


@frozen
class Layout:
    """The memory layout of one tensor.

    Attributes:
        shape: of the tensor.
        dtype: of its elements, for NumPy, which keeps elements of four bits in a byte each.
        strides: between elements along each dimension, counted in vectors.
        components: the number of elements of the vectorized dimension in a vector.
        vectorized_dim: that dimension; -1 for none.
        bits: size of an element in memory.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    components: int = 1
    vectorized_dim: int = -1
    bits: int = 8

    @property
    def nbytes(self) -> int:
        """Return the size of the tensor in memory, including padding."""
        return ceil(self._scalars * self.bits / 8)

    @property
    def _vectors(self) -> list[int]:
        """Return the shape in units of vectors."""
        return [
            ceil(dim / self.components) if axis == self.vectorized_dim else dim
            for axis, dim in enumerate(self.shape)
        ]

    @property
    def _scalars(self) -> int:
        """Return the number of scalars in memory, including padding."""
        if not prod(self.shape):
            return 0
        last = sum((dim - 1) * stride for dim, stride in zip(self._vectors, self.strides))
        return (last + 1) * self.components

    def pack(self, array: Array) -> Array:
        """Return the bytes (uint8) of an array of this shape and data type,
        with zeros as padding."""
        scalars = np.zeros(self._scalars, dtype=self.dtype)
        if scalars.size:
            self._view_in_vectors(scalars)[...] = self._pad_to_vectors(array)
        return pack_bits(scalars, self.bits) if self.bits < 8 else scalars.view(np.uint8)

    def unpack(self, memory: Array) -> Array:
        """Return a copy of the array in these bytes (uint8)."""
        if self.bits < 8:
            scalars = unpack_bits(memory, self.bits, self.dtype, self._scalars)
        else:
            scalars = memory[: self.nbytes].view(self.dtype)
        vector: Array
        if not scalars.size:
            return np.zeros(self.shape, dtype=self.dtype)
        vectors = self._view_in_vectors(scalars)
        if self.vectorized_dim < 0:
            vector = vectors[..., 0].copy()
            return vector
        axis = self.vectorized_dim
        joined = np.moveaxis(vectors, -1, axis + 1)
        padded = list(self.shape)
        padded[axis] = -1
        within = (slice(None),) * axis + (slice(self.shape[axis]),)
        vector = joined.reshape(padded)[within].copy()
        return vector

    def _view_in_vectors(self, scalars: Array) -> Array:
        """Return a view of memory in the shape in vectors, with the components as the last axis."""
        size = self.dtype.itemsize
        steps = [stride * self.components * size for stride in self.strides]
        return as_strided(scalars, (*self._vectors, self.components), (*steps, size))

    def _pad_to_vectors(self, array: Array) -> Array:
        """Return an array padded and reshaped into vectors,
        with the components as the last axis."""
        if self.vectorized_dim < 0:
            return array[..., np.newaxis]
        axis = self.vectorized_dim
        vectors = self._vectors
        missing = vectors[axis] * self.components - self.shape[axis]
        widths = [(0, missing if dim == axis else 0) for dim in range(array.ndim)]
        padded = np.pad(array.view(_integer_type(array)), widths).view(array.dtype)
        split = [*vectors[: axis + 1], self.components, *vectors[axis + 1 :]]
        return np.moveaxis(padded.reshape(split), axis + 1, -1)


def _integer_type(array: Array) -> str:
    """Return the name of the integer type with the size of an array's elements."""
    return f"u{array.dtype.itemsize}"


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of an array without gaps."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


class DeviceBlock:
    """Device memory that grows if necessary, and never shrinks.

    Attributes:
        address: its address; 0 before the first use.
    """

    def __init__(self, device: Device) -> None:
        """Create an empty block."""
        self._device = device
        self._capacity = -1
        self.address = 0

    def reserve(self, nbytes: int) -> int:
        """Return the address of at least `nbytes` of memory. Its contents are lost if it grows.

        Raises:
            BackendError: there is not enough memory.
        """
        if nbytes > self._capacity:
            self.free()
            self.address = self._device.allocate(nbytes)
            self._capacity = nbytes
        return self.address

    def free(self) -> None:
        """Free the memory; later calls do nothing."""
        address, self.address, self._capacity = self.address, 0, -1
        if address:
            self._device.free(address)


class PinnedMemory:
    """Pinned host memory for copies of small arrays; it grows if necessary.

    Attributes:
        address: its address; 0 before the first use.
    """

    def __init__(self, device: Device) -> None:
        """Create an empty block."""
        self._device = device
        self._block: PinnedBlock | None = None
        self.address = 0

    def array(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Return an array in this memory, which is valid until the next call."""
        nbytes = prod(shape) * dtype.itemsize
        if self._block is None or nbytes > self._block.array.nbytes:
            self.free()
            self._block = self._device.pin(nbytes)
            self.address = self._block.address
        return self._block.array[:nbytes].view(dtype).reshape(tuple(shape))

    def free(self) -> None:
        """Free the memory; later calls do nothing."""
        block, self._block, self.address = self._block, None, 0
        if block is not None:
            block.free()


class ReusedArrays:
    """Pins the memory of large arrays that a caller passes repeatedly.

    The GPU copies pinned memory by itself, at about twice the speed. Pinning takes about as long as
    a copy, so an array is pinned when it is passed a second time, and unpinned before its memory is
    freed, which a weak reference to its owner reports.
    """

    def __init__(self, device: Device) -> None:
        """Create the record of arrays, which is empty."""
        self._device = device
        self._last: tuple[int, int] | None = None
        self._pinned: dict[tuple[int, int], weakref.finalize[Any, Any]] = {}

    def notice(self, array: Array) -> None:
        """Count a contiguous array that is about to be copied to the device."""
        key = (array.__array_interface__["data"][0], array.nbytes)
        if key in self._pinned:
            return
        if key != self._last:
            self._last = key
            return
        owner = _owner(array)
        if owner is not None and self._device.register(*key):
            undo = weakref.finalize(owner, self._unpin, key)
            undo.atexit = False
            self._pinned[key] = undo

    def _unpin(self, key: tuple[int, int]) -> None:
        """Unpin an array."""
        if self._pinned.pop(key, None) is not None:
            self._device.unregister(key[0])

    def free(self) -> None:
        """Unpin all arrays."""
        for key, undo in list(self._pinned.items()):
            undo.detach()
            self._unpin(key)
        self._last = None


def _owner(array: Array) -> Array | None:
    """Return the array that owns the memory; None if another object does."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array if array.base is None and array.flags.owndata else None


STRATEGIES = ("static", "profile", "runtime")


class Scratch:
    """Creates contexts, and provides their memory.

    Strategies: with ``static``, the engine owns memory for its largest profile; with ``profile``
    and ``runtime``, this object owns as much memory as the profile in use, or the current shapes,
    need.
    """

    def __init__(self, engine: Any, device: Device, strategy: str | None) -> None:
        """Choose the strategy for the memory of contexts; nothing is allocated yet.

        Raises:
            UnknownNameError: there is no such strategy.
            BackendError: this TensorRT does not support the strategy.
        """
        self._strategy = strategy or "static"
        if self._strategy not in STRATEGIES:
            raise UnknownNameError("Allocation strategy", self._strategy, STRATEGIES)
        if self._strategy == "runtime":
            require("allocation_strategies", setting_of("allocation_strategy", repr("runtime")))
        # Engines of an older version do not support the memory functions of this version.
        self._is_older = is_of_older_version(engine)
        if self._is_older and self._strategy != "static":
            G_LOGGER.warning(
                "The plan was built by an older TensorRT:"
                f" {setting_of('allocation_strategy', repr(strategy))} has no effect, and the"
                " engine owns memory for its largest profile."
            )
            self._strategy = "static"
        self._engine = engine
        self._device = device
        self._block = DeviceBlock(device)
        self.follows_shapes = self._strategy == "runtime"

    def create_context(self) -> Any:
        """Return a new execution context; raise BackendError with the reason if that fails."""
        with capture_log() as reasons:
            if self._strategy == "static":
                context = self._engine.create_execution_context()
            else:
                context = self._context_without_memory()
        if context is None:
            raise self._context_error(reasons)
        return context

    def _context_without_memory(self) -> Any:
        """Return a context whose memory is set later; None if that is not possible."""
        if not hasattr(trt, "ExecutionContextAllocationStrategy"):
            return self._engine.create_execution_context_without_device_memory()
        strategy = trt.ExecutionContextAllocationStrategy.USER_MANAGED
        return self._engine.create_execution_context(strategy)

    def create_another(self, profile: int, stream: DeviceStream) -> Any:
        """Return another context, for a profile in use; None if a second one is not possible.
        All contexts share the same memory, one after another.

        Raises:
            BackendError: there is not enough memory.
        """
        if self._is_older:
            return None
        with mute_log():
            context = self._context_without_memory()
            if context is None:
                return None
            if context.active_optimization_profile != profile:
                # TensorRT 8 crashes if a context gets a profile that it cannot use.
                if context.active_optimization_profile < 0 or not self._shares_first_profile():
                    return None
                if not context.set_optimization_profile_async(profile, stream.ptr):
                    return None
                stream.synchronize()
        if not self.follows_shapes:
            self._set_memory(context, self._size_for(profile))
        return context

    def _shares_first_profile(self) -> bool:
        """Return whether another context would have the same profile:
        each starts with the first one, if possible."""
        context = self._context_without_memory()
        return context is not None and context.active_optimization_profile >= 0

    @property
    def address(self) -> int:
        """Return the address of memory managed here; 0 if there is none."""
        return self._block.address

    def _context_error(self, reasons: Reasons) -> BackendError:
        """Return the error that no context can be created."""
        needed, free = self._largest_size(), self._device.free_memory()
        hint = ""
        if needed > free:
            hint = f"It requires {needed} bytes of device memory, but only {free} bytes are free."
        return reasons.error_for("create an execution context", hint=hint)

    def _largest_size(self) -> int:
        """Return the number of bytes for the largest profile; 0 if unknown."""
        with mute_log():
            # A plan of an older version supports only the second one, and logs an error for the
            # first.
            for name in ("device_memory_size_v2", "device_memory_size"):
                size = int(getattr(self._engine, name, 0) or 0)
                if size:
                    return size
        return 0

    def set_profile_memory(self, context: Any, profile: int) -> None:
        """Set the memory that the profile needs in the context, if it is managed here."""
        if self._strategy == "profile":
            self._set_memory(context, self._size_for(profile))

    def set_shape_memory(self, context: Any) -> None:
        """Set the memory that the input shapes need in the context, unless TensorRT manages it."""
        if not self.follows_shapes:
            return
        self._set_memory(context, int(context.update_device_memory_size_for_shapes()))

    def _size_for(self, profile: int) -> int:
        """Return the number of bytes for a profile."""
        for name in (
            "get_device_memory_size_for_profile_v2",
            "get_device_memory_size_for_profile",
        ):
            if hasattr(self._engine, name):
                return int(getattr(self._engine, name)(profile))
        return self._largest_size()

    def _set_memory(self, context: Any, size: int) -> None:
        """Set the memory of a context."""
        address = self._block.reserve(size)
        with capture_log() as reasons:
            if hasattr(context, "set_device_memory"):
                context.set_device_memory(address, size)
            else:
                context.device_memory = address
        if str(reasons):
            raise reasons.error_for("set the memory of the context")

    def free(self) -> None:
        """Free the memory, after the context is released."""
        self._block.free()


def is_of_older_version(engine: Any) -> bool:
    """Return whether the engine is from a version-compatible plan of TensorRT 8, run by a later
    TensorRT.

    Many newer functions then fail, and some end the process, so they are not called; debug tensors
    are safe.
    """
    if not hasattr(engine, "is_debug_tensor"):  # Only TensorRT 8 lacks this method.
        return False
    with mute_log(), capture_log() as reasons:
        engine.is_debug_tensor(engine.get_tensor_name(0))
    return bool(str(reasons))


def require_output_allocators(engine: Any, name: str) -> None:
    """Raise an error if the engine does not support an allocator for an output.

    Raises:
        BackendError: it does not support them; TensorRT would end the process.
    """
    if is_of_older_version(engine):
        raise BackendError(
            f"Output {name!r} has a data-dependent shape, and plans of an older TensorRT cannot"
            " allocate memory for such outputs.",
            backend="tensorrt",
            hint="Build the engine with this version of TensorRT, or run it with the one that built"
            " it.",
        )
