"""Who owns the memory in which an engine keeps activations, and how much of it there is."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.tensorrt.library.capabilities import require
from polygraphy.adapters.tensorrt.library.logger import Reasons, capture_log, mute_log
from polygraphy.adapters.tensorrt.library.module import trt
from polygraphy.adapters.tensorrt.library.plan_age import is_of_older_version
from polygraphy.adapters.tensorrt.library.setting import setting_of
from polygraphy.adapters.tensorrt.runtime.memory import DeviceBlock
from polygraphy.domain.errors import BackendError, UnknownNameError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import Device, DeviceStream

STRATEGIES = ("static", "profile", "runtime")


class Scratch:
    """Creates a context, and gives it memory.

    Strategies: ``static`` lets the engine own memory for its largest profile; with ``profile`` and
    ``runtime`` the memory is ours, and as large as the profile in use, or the shapes at hand, need.
    """

    def __init__(self, engine: Any, device: Device, strategy: str | None) -> None:
        """Choose; nothing is allocated yet.

        Raises:
            UnknownNameError: there is no such strategy.
            BackendError: this TensorRT does not have it.
        """
        self._strategy = strategy or "static"
        if self._strategy not in STRATEGIES:
            raise UnknownNameError("Allocation strategy", self._strategy, STRATEGIES)
        if self._strategy == "runtime":
            require("allocation_strategies", setting_of("allocation_strategy", repr("runtime")))
        # Their memory cannot be asked for, nor given, in the way of this version.
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
        """Return a new execution context; BackendError when it cannot be made, with the reason."""
        with capture_log() as reasons:
            if self._strategy == "static":
                context = self._engine.create_execution_context()
            else:
                context = self._without_memory()
        if context is None:
            raise self._no_context(reasons)
        return context

    def _without_memory(self) -> Any:
        """Return a context that is going to be given its memory; None where there is none."""
        if not hasattr(trt, "ExecutionContextAllocationStrategy"):
            return self._engine.create_execution_context_without_device_memory()
        strategy = trt.ExecutionContextAllocationStrategy.USER_MANAGED
        return self._engine.create_execution_context(strategy)

    def create_another(self, profile: int, stream: DeviceStream) -> Any:
        """Return one more context, for a profile that another one uses; None where there can be no
        two. All that are made here use the same memory, one after another.

        Raises:
            BackendError: there is not enough memory.
        """
        if self._is_older:
            return None
        with mute_log():
            context = self._without_memory()
            if context is None:
                return None
            if context.active_optimization_profile != profile:
                # TensorRT 8 crashes when a context is given a profile that it cannot have.
                if context.active_optimization_profile < 0 or not self._shares_first_profile():
                    return None
                if not context.set_optimization_profile_async(profile, stream.ptr):
                    return None
                stream.synchronize()
        if not self.follows_shapes:
            self._give(context, self._size_for(profile))
        return context

    def _shares_first_profile(self) -> bool:
        """Return whether one more context has the profile that others have, too: each begins with
        the first one, if it may.
        """
        context = self._without_memory()
        return context is not None and context.active_optimization_profile >= 0

    @property
    def address(self) -> int:
        """Where the memory is that is ours; 0 for none."""
        return self._block.address

    def _no_context(self, reasons: Reasons) -> BackendError:
        needed, free = self._size_at_most(), self._device.free_memory()
        hint = ""
        if needed > free:
            hint = f"It needs {needed} bytes of device memory, but {free} are free."
        return reasons.failed("create an execution context", hint=hint)

    def _size_at_most(self) -> int:
        with mute_log():  # A plan of an older version knows only the older one.
            for name in ("device_memory_size_v2", "device_memory_size"):
                size = int(getattr(self._engine, name, 0) or 0)
                if size:
                    return size
        return 0

    def profile_changed(self, context: Any, profile: int) -> None:
        """Give the context what the profile needs, where that is up to us."""
        if self._strategy == "profile":
            self._give(context, self._size_for(profile))

    def shapes_changed(self, context: Any) -> None:
        """Give the context what the shapes of its inputs need, where that is up to us."""
        if not self.follows_shapes:
            return
        self._give(context, int(context.update_device_memory_size_for_shapes()))

    def _size_for(self, profile: int) -> int:
        for name in (
            "get_device_memory_size_for_profile_v2",
            "get_device_memory_size_for_profile",
        ):
            if hasattr(self._engine, name):
                return int(getattr(self._engine, name)(profile))
        return self._size_at_most()

    def _give(self, context: Any, size: int) -> None:
        address = self._block.reserve(size)
        with capture_log() as reasons:
            if hasattr(context, "set_device_memory"):
                context.set_device_memory(address, size)
            else:
                context.device_memory = address
        if str(reasons):
            raise reasons.failed("give the context its memory")

    def free(self) -> None:
        """Give the memory back; the context is gone by then."""
        self._block.free()
