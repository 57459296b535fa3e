"""Inputs whose bytes are not those of an array of NumPy: vectorized formats, four-bit elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.adapters.arrays.foreign import device_buffer, host_array
from polygraphy.adapters.tensorrt.runtime.input_errors import wrong_dtype
from polygraphy.adapters.tensorrt.runtime.layout import Layout
from polygraphy.adapters.tensorrt.runtime.memory import DeviceBlock, PinnedMemory
from polygraphy.adapters.tensorrt.runtime.tensors import IoTensor
from polygraphy.domain.errors import InputError
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.formatted import FormattedArray
from polygraphy.ports.machine import Device, DeviceStream

Shape = tuple[int, ...]


class FormattedInput:
    """An input that is brought into the format of the engine on the host.

    Attributes: see `inputs.DeviceInput`.
    """

    is_staged = True

    def __init__(self, tensor: IoTensor, device: Device, stream: DeviceStream) -> None:
        """Acquire nothing yet."""
        self.tensor = tensor
        self.shape: Shape | None = None
        self.address = 0
        self._device = device
        self._stream = stream
        self._block = DeviceBlock(device)
        self._pinned = PinnedMemory(device)
        self._layout: Layout | None = None
        self._staged: Array | None = None
        self._data: Array | FormattedArray | None = None

    def feed(self, array: Any) -> bool:
        """Take an array of the shape of the input, or a `FormattedArray` of the bytes as the engine
        wants them; see `inputs.DeviceInput.feed`.
        """
        if isinstance(array, int):
            raise InputError(
                f"Input {self.tensor.name!r} has a format of its own: an address will not do.",
                hint="Give an array, or a FormattedArray of what is in that format already.",
            )
        if isinstance(array, FormattedArray):
            raw = np.ascontiguousarray(self._on_host(array.array)).reshape(-1).view(np.uint8)
            self._data = FormattedArray(raw, array.shape)
        else:
            self._data = self._on_host(array)
            if self._data.dtype != self.tensor.dtype:
                raise wrong_dtype(self.tensor, self._data.dtype)
        before, self.shape = self.shape, tuple(self._data.shape)
        return before != self.shape

    def _on_host(self, array: Any) -> Array:
        where = device_buffer(array, self._stream)
        if where is None:
            return host_array(array)
        address, shape, _ = where
        made = np.empty(shape, _dtype(array, self.tensor))
        self._stream.synchronize()
        self._device.copy_to_host(made, address)
        return made

    def arrange(self, layout: Layout) -> None:
        """Make room, now that the engine knows the shape and tells the places of elements."""
        self._layout = layout
        self.address = self._block.reserve(layout.nbytes)
        self._staged = self._pinned.array((layout.nbytes,), np.dtype(np.uint8))

    def pack(self) -> None:
        """Bring the data at hand into the format; InputError for bytes that are too many or few."""
        assert self._layout is not None
        assert self._staged is not None
        data, self._data = self._data, None
        if isinstance(data, FormattedArray):
            if data.array.nbytes != self._staged.nbytes:
                raise InputError(
                    f"Input {self.tensor.name!r} takes {self._staged.nbytes} bytes in its format,"
                    f" but the data have {data.array.nbytes}."
                )
            self._staged[...] = data.array
        elif data is not None:
            self._staged[...] = self._layout.pack(np.ascontiguousarray(data).reshape(data.shape))

    @property
    def identity(self) -> object:
        """What tells these data from others: their shape."""
        return self.shape

    @property
    def addresses(self) -> tuple[int, ...]:
        """All memory that `enqueue` and the engine use."""
        return (self.address, self._pinned.address)

    def enqueue(self, stream: DeviceStream) -> None:
        """Copy what is staged to the device."""
        if self._layout is not None and self._layout.nbytes:
            stream.to_device(self.address, self._pinned.address, self._layout.nbytes)

    def free(self) -> None:
        self._data = self._staged = None
        self._block.free()
        self._pinned.free()


def _dtype(array: Any, tensor: IoTensor) -> np.dtype[Any]:
    """Return the data type of an array on the device, so that bytes are copied as they are."""
    dtype = getattr(array, "dtype", None)
    return dtype if isinstance(dtype, np.dtype) else tensor.dtype
