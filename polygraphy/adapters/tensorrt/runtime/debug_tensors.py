"""Tensors inside a network that were marked for debugging: the engine shows them while it runs."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from polygraphy.adapters.tensorrt.library.datatype import TensorrtDataTypes
from polygraphy.adapters.tensorrt.library.logger import mute_log
from polygraphy.adapters.tensorrt.library.module import tensorrt_module
from polygraphy.domain.tensors.aliases import Array
from polygraphy.ports.machine import Device


class DebugTensors:
    """Keeps a copy of each debug tensor of an inference.

    Attributes:
        arrays: by name, in the order in which the engine made them.
        error: what kept it from copying one; None if nothing did. Exceptions do not pass through
            TensorRT.
        native: the `IDebugListener` to give to TensorRT; it must live as long as the context.
    """

    def __init__(self, device: Device) -> None:
        """Keep nothing yet."""
        self._device = device
        self.arrays: dict[str, Array] = {}
        self.error: BaseException | None = None
        self.native = _make_listener(tensorrt_module(), self)

    def add(self, address: Any, on_host: bool, dtype: Any, shape: Any, name: str) -> bool:
        """Copy one tensor; called by TensorRT."""
        try:
            entry = TensorrtDataTypes().from_native(dtype)
            array = np.empty(tuple(shape), np.uint8 if entry is None else entry.numpy())
            if on_host:
                ctypes.memmove(array.ctypes.data, _pointer(address), array.nbytes)
            else:
                self._device.copy_to_host(array, _pointer(address))
            self.arrays[name] = array
        except BaseException as error:  # ctrl-C, too
            self.error = error
            return False
        return True

    def taken(self) -> dict[str, Array]:
        """Return what was kept, and keep it no longer; raises what went wrong."""
        arrays, self.arrays = self.arrays, {}
        error, self.error = self.error, None
        if error is not None:
            raise error
        return arrays


def listen(context: Any, listener: Any) -> bool:
    """Have the debug tensors of a context shown to an `IDebugListener`.

    Returns:
        False where this TensorRT, or this engine, has no debug tensors.
    """
    if not hasattr(context, "set_debug_listener"):
        return False
    with mute_log():
        return bool(
            context.set_all_tensors_debug_state(True) and context.set_debug_listener(listener)
        )


def _make_listener(module: Any, owner: DebugTensors) -> Any:
    class DebugListener(module.IDebugListener):  # type: ignore[misc]
        """Hands what TensorRT shows to a `DebugTensors`."""

        def __init__(self) -> None:
            module.IDebugListener.__init__(self)

        def process_debug_tensor(
            self, addr: Any, location: Any, type: Any, shape: Any, name: str, stream: int
        ) -> bool:
            """Take one tensor."""
            on_host = location == module.TensorLocation.HOST
            return owner.add(addr, on_host, type, shape, name)

    return DebugListener()


def _pointer(address: Any) -> int:
    """Return an address that comes as a number, or in a capsule without a name."""
    if isinstance(address, int):
        return address
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(address, None) or 0)
