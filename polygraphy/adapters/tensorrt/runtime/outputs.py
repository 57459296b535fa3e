"""The outputs of an active engine: their memory, and copies to the host."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from polygraphy.adapters.tensorrt.library.module import tensorrt_module
from polygraphy.adapters.tensorrt.runtime.inputs import STAGING_LIMIT, addressable_array
from polygraphy.adapters.tensorrt.runtime.memory import DeviceBlock, Layout, PinnedMemory
from polygraphy.adapters.tensorrt.runtime.tensors import IoTensor
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.formatted import FormattedArray
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import Device, DeviceStream, PinnedBlock

_BLOCKS = 3
"""Largest number of arrays: the one that is written, the previous one, which a caller may still
use, and one more."""
_BYTES = 1 << 28
"""Largest size of pinned memory in bytes, because other processes cannot use it."""


class PinnedArrays:
    """Provides arrays that the device can fill at full speed.

    An array belongs to its consumer: its memory is reused when nothing refers to it any more.
    Callers that keep all results get ordinary arrays after the pinned ones are used up, and so does
    the first call, because pinning takes about as long as copying.
    """

    def __init__(self, device: Device) -> None:
        """Create the store of pinned arrays, which is empty."""
        self._device = device
        self._shelf = _Shelf(-1)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an uninitialized array."""
        nbytes = prod(shape) * dtype.itemsize
        if nbytes != self._shelf.nbytes:
            # This is the first output of this size.
            self.free()
            self._shelf = _Shelf(nbytes)
            return np.empty(shape, dtype)
        block = self._shelf.take(self._device)
        return np.empty(shape, dtype) if block is None else self._lend_block(block, shape, dtype)

    def _lend_block(
        self, block: PinnedBlock, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Array:
        """Return the array; its memory is returned when the last view of it is gone."""
        memory = (ctypes.c_uint8 * self._shelf.nbytes).from_address(block.address)
        weakref.finalize(memory, self._shelf.put_back, block).atexit = False
        return np.ctypeslib.as_array(memory).view(dtype).reshape(shape)

    def free(self) -> None:
        """Free the memory that is not in use now, and the rest when it is returned."""
        self._shelf.close()
        self._shelf = _Shelf(-1)


class _Shelf:
    """Free blocks of one size. Arrays are returned at any time and from any thread, so a block is
    always stored first, and freed later if it is not needed.

    Attributes:
        nbytes: the size of each block.
    """

    def __init__(self, nbytes: int) -> None:
        """Set the size of the blocks; nothing is allocated yet."""
        self.nbytes = nbytes
        self._unused: deque[PinnedBlock] = deque()
        self._count = 0
        self._is_closed = False

    def take(self, device: Device) -> PinnedBlock | None:
        """Return a free block; None if there are enough blocks in use, or no memory is left."""
        with suppress(IndexError):
            return self._unused.pop()
        if self._count >= min(_BLOCKS, _BYTES // self.nbytes):
            return None
        self._count += 1
        try:
            return device.pin(self.nbytes)
        except BackendError as error:
            self._count = _BLOCKS  # Stop pinning memory; ordinary memory works as well.
            G_LOGGER.verbose(f"Outputs are copied to memory that is not pinned: {error}")
            return None

    def put_back(self, block: PinnedBlock) -> None:
        """Store a returned block."""
        self._unused.append(block)
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """Free all blocks, and those that return later."""
        self._is_closed = True
        while self._unused:
            with suppress(IndexError):  # Another thread was faster.
                self._unused.pop().free()


_classes: dict[int, tuple[Any, type]] = {}


class Allocator:
    """Provides memory for one output. Memory is reused while it is large enough, so that the
    largest inference determines its size.

    Attributes:
        shape: the shape of the output in the last inference; negative if unknown.
        error: the exception that prevented an allocation; None without one. Exceptions do not pass
            through TensorRT.
        native: the `IOutputAllocator` for TensorRT; it must live as long as the context.
    """

    def __init__(self, device: Device) -> None:
        """Create the allocator; nothing is allocated yet."""
        self._block = DeviceBlock(device)
        self.shape: tuple[int, ...] = (-1,)
        self.error: BaseException | None = None
        self.native = _native_class()(self)
        self._block.reserve(0)  # An empty output also needs an address.

    @property
    def address(self) -> int:
        """Return the address of the output."""
        return self._block.address

    def reallocate(self, nbytes: int) -> int:
        """Return the address of enough memory; 0 if there is not enough.
        TensorRT calls this before it writes, so old contents are lost."""
        try:
            return self._block.reserve(nbytes)
        except BaseException as error:  # Includes Ctrl-C.
            self.error = error
            return 0

    def free(self) -> None:
        """Free the memory of the output."""
        self._block.free()


def _native_class() -> type:
    """Return the subclass of `IOutputAllocator` for the TensorRT in use."""
    module = tensorrt_module()
    cached = _classes.get(id(module))
    if cached is None or cached[0] is not module:
        cached = _classes[id(module)] = (module, _make_native_class(module))
    return cached[1]


def _make_native_class(module: Any) -> type:
    """Return a class of TensorRT that passes its calls to an `Allocator`."""

    class OutputAllocator(module.IOutputAllocator):  # type: ignore[misc]
        """Passes TensorRT's requests to an `Allocator`."""

        def __init__(self, owner: Allocator) -> None:
            """Set the `Allocator` that provides the memory."""
            module.IOutputAllocator.__init__(self)
            self._owner = owner

        def reallocate_output(self, name: str, memory: int, size: int, alignment: int) -> int:
            """Return the address of enough memory."""
            return self._owner.reallocate(size)

        def reallocate_output_async(
            self, name: str, memory: int, size: int, alignment: int, stream: int
        ) -> int:
            """Return the address of enough memory; TensorRT 10 calls this one."""
            return self._owner.reallocate(size)

        def notify_shape(self, name: str, shape: Any) -> None:
            """Record the shape."""
            self._owner.shape = tuple(shape)

    return OutputAllocator


Shape = tuple[int, ...]

_VIEWS = 32
"""Views of outputs that are remembered."""


class FixedOutput:
    """An output in device memory with a shape known before the engine runs.

    Attributes:
        tensor: its description in the engine.
        address: the address to which the engine writes it.
        view: the output as an array on the device.
        is_staged: whether it is copied to pinned memory as part of the inference.
    """

    def __init__(self, tensor: IoTensor, device: Device) -> None:
        """Create an output of a known shape; nothing is allocated yet."""
        self.tensor = tensor
        self.address = 0
        self.view: Any = None
        self.is_staged = False
        self._device = device
        self._block = DeviceBlock(device)
        self._pinned = PinnedMemory(device)
        self._arrays = PinnedArrays(device)
        self._views: dict[tuple[int, Shape], Any] = {}
        self._layout: Layout | None = None
        self._shape: Shape = ()
        self._staged: Array | None = None
        self._target: Array | None = None

    def arrange(self, shape: Shape, layout: Layout | None, aliased: int) -> None:
        """Allocate memory for a shape.

        Args:
            shape: the shape of the output.
            layout: the memory layout of its elements; None for C order.
            aliased: the address of the input whose memory it shares; 0 for memory of its own.
        """
        dtype = self.tensor.dtype
        self._shape, self._layout = shape, layout
        stored, kind = (shape, dtype) if layout is None else ((layout.nbytes,), np.dtype(np.uint8))
        nbytes = prod(stored) * kind.itemsize
        self.address = aliased or self._block.reserve(nbytes)
        self._stored, self._kind, self._nbytes = stored, kind, nbytes
        self.is_staged = nbytes <= STAGING_LIMIT
        self._staged = self._pinned.array(stored, kind) if self.is_staged else None
        view = self._view(stored, kind)
        self.view = view if layout is None else FormattedArray(view, shape)

    def _view(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """Return the view for a shape; views are cached, because shapes may alternate."""
        key = (self.address, shape)
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= _VIEWS:
                self._views.clear()
            view = self._views[key] = self._device.view(self.address, shape, dtype)
        return view

    @property
    def addresses(self) -> tuple[int, ...]:
        """Return all memory addresses that the engine and `enqueue` use."""
        return (self.address, self._pinned.address if self.is_staged else 0)

    def enqueue(self, stream: DeviceStream) -> None:
        """Queue a copy of the output to pinned memory."""
        if self._nbytes:
            stream.to_host(self._pinned.address, self.address, self._nbytes)

    def begin(self, stream: DeviceStream) -> None:
        """Start to copy a large output directly to its destination; see `PinnedArrays`."""
        target = self._target = self._arrays.array(self._stored, self._kind)
        stream.to_host(target.__array_interface__["data"][0], self.address, self._nbytes)

    def take(self) -> Array:
        """Return the output as an array that the caller owns; the copies are done."""
        if self._layout is None and self._staged is not None:
            staged: Array = self._staged.copy()
            return staged
        raw = self.take_raw()
        return raw if self._layout is None else self._layout.unpack(raw)

    def take_raw(self) -> Array:
        """Return the output in its memory layout."""
        target, self._target = self._target, None
        if target is None:
            assert self._staged is not None
            target = self._staged.copy()
        return target

    @property
    def shape(self) -> Shape:
        """Return the shape in the current inference."""
        return self._shape

    def free(self) -> None:
        """Free the device memory and the staging memory."""
        self._staged = self._target = self.view = None
        self._block.free()
        self._pinned.free()
        self._arrays.free()


class DataDependentOutput:
    """An output whose shape the engine determines while it runs.

    Attributes:
        tensor: its description in the engine.
        allocator: provides memory to the engine.
    """

    is_staged = False
    addresses: tuple[int, ...] = ()  # TensorRT requests memory in every inference.

    def __init__(self, tensor: IoTensor, device: Device) -> None:
        """Create an output whose shape depends on data; nothing is allocated yet."""
        self.tensor = tensor
        self.allocator = Allocator(device)
        self._device = device
        self._arrays = PinnedArrays(device)
        self._target: Array | None = None

    @property
    def view(self) -> Any:
        """Return the output as an array on the device."""
        return self._device.view(self.allocator.address, self.shape, self.tensor.dtype)

    @property
    def shape(self) -> Shape:
        """Return the shape in the last inference."""
        return self.allocator.shape

    def begin(self, stream: DeviceStream) -> None:
        """Start to copy the output to the host, now that its shape is known."""
        shape, dtype = self.shape, self.tensor.dtype
        is_large = prod(shape) * dtype.itemsize > STAGING_LIMIT
        target = np.empty(shape, dtype) if not is_large else self._arrays.array(shape, dtype)
        self._target = target
        if target.nbytes:
            address = target.__array_interface__["data"][0]
            stream.to_host(address, self.allocator.address, target.nbytes)

    def take(self) -> Array:
        """Return the output as an array that the caller owns; the copy is done."""
        target, self._target = self._target, None
        assert target is not None
        return target

    take_raw = take

    def free(self) -> None:
        """Free the memory that TensorRT asked for."""
        self._target = None
        self._arrays.free()
        self.allocator.free()


class HostOutput:
    """An output that the engine writes to host memory, such as the values of a shape tensor.

    Attributes:
        tensor: its description in the engine.
        address: the address to which the engine writes it.
    """

    is_staged = False

    def __init__(self, tensor: IoTensor) -> None:
        """Create an output in host memory."""
        self.tensor = tensor
        self.address = 0
        self._values: Array | None = None

    def arrange(self, shape: Shape) -> None:
        """Allocate memory for a shape."""
        if self._values is None or self._values.shape != shape:
            self._values = addressable_array(shape, self.tensor.dtype)
            self.address = self._values.__array_interface__["data"][0]

    @property
    def view(self) -> Any:
        """Return the values on the host."""
        return self.take()

    @property
    def shape(self) -> Shape:
        """Return the shape in the current inference."""
        return () if self._values is None else self._values.shape

    @property
    def addresses(self) -> tuple[int, ...]:
        """Return all memory addresses that the engine uses."""
        return (self.address,)

    def begin(self, stream: DeviceStream) -> None:
        """Do nothing, because the values are on the host."""

    def take(self) -> Array:
        """Return the values as an array that the caller owns."""
        assert self._values is not None
        return np.array(self._values)

    take_raw = take

    def free(self) -> None:
        """Drop the values."""
        self._values = None
