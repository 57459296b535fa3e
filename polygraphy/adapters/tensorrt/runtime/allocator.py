"""Memory for outputs whose size only the engine knows, and only while it runs."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.tensorrt.library.module import tensorrt_module
from polygraphy.adapters.tensorrt.runtime.memory import DeviceBlock
from polygraphy.ports.machine import Device

_classes: dict[int, tuple[Any, type]] = {}


class Allocator:
    """Gives the engine memory for one output. What it gave once it gives again, as long as that is
    enough: many inferences need no more memory than the largest one.

    Attributes:
        shape: of the output in the last inference; negative where the engine did not tell.
        error: what kept it from giving memory; None if nothing did. Exceptions do not pass through
            TensorRT.
        native: the `IOutputAllocator` to give to TensorRT; it must live as long as the context.
    """

    def __init__(self, device: Device) -> None:
        """Allocate nothing yet."""
        self._block = DeviceBlock(device)
        self.shape: tuple[int, ...] = (-1,)
        self.error: BaseException | None = None
        self.native = _native_class()(self)
        self._block.reserve(0)  # An output that turns out to be empty needs an address, too.

    @property
    def address(self) -> int:
        """Where the output is."""
        return self._block.address

    def reallocate(self, nbytes: int) -> int:
        """Return the address of enough memory; 0 where there is not enough. TensorRT asks before it
        writes, so what was there before is not needed.
        """
        try:
            return self._block.reserve(nbytes)
        except BaseException as error:  # ctrl-C, too
            self.error = error
            return 0

    def free(self) -> None:
        self._block.free()


def _native_class() -> type:
    """Return the subclass of the `IOutputAllocator` of the TensorRT in use."""
    module = tensorrt_module()
    found = _classes.get(id(module))
    if found is None or found[0] is not module:
        found = _classes[id(module)] = (module, _make_native_class(module))
    return found[1]


def _make_native_class(module: Any) -> type:
    class OutputAllocator(module.IOutputAllocator):  # type: ignore[misc]
        """Hands what TensorRT asks to an `Allocator`."""

        def __init__(self, owner: Allocator) -> None:
            module.IOutputAllocator.__init__(self)
            self._owner = owner

        def reallocate_output(self, name: str, memory: int, size: int, alignment: int) -> int:
            """Return enough memory."""
            return self._owner.reallocate(size)

        def reallocate_output_async(
            self, name: str, memory: int, size: int, alignment: int, stream: int
        ) -> int:
            """Return enough memory; what TensorRT 10 calls instead."""
            return self._owner.reallocate(size)

        def notify_shape(self, name: str, shape: Any) -> None:
            """Take note of the shape."""
            self._owner.shape = tuple(shape)

    return OutputAllocator
