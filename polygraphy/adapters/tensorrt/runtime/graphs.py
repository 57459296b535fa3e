"""When the work of an inference is captured in a CUDA graph, and when it is not."""

from __future__ import annotations

from collections.abc import Callable

from polygraphy.adapters.tensorrt.library.setting import setting_of
from polygraphy.domain.errors import BackendError, UnknownNameError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import Device, DeviceGraph, DeviceStream

CUDA_GRAPH_MODES = ("auto", "on", "off")

_RUNS_BEFORE_CAPTURE = {"auto": 2, "on": 1}


class GraphPolicy:
    """Captures work that stays the same.

    With ``auto``, work is captured when it was done twice, and done step by step where it cannot be
    captured; with ``on`` it is captured when it was done once (the first inference with new shapes
    sets the engine up, which cannot be captured), and it is an error where it cannot.

    Attributes:
        graph: what to launch instead of doing the work; None where there is nothing.
        is_possible: whether work is captured at all.
    """

    def __init__(self, mode: str, device: Device, stream: DeviceStream) -> None:
        """Choose; UnknownNameError when there is no such mode."""
        if mode not in CUDA_GRAPH_MODES:
            raise UnknownNameError("CUDA graph mode", mode, CUDA_GRAPH_MODES)
        self.graph: DeviceGraph | None = None
        self._mode = mode
        self._device = device
        self._stream = stream
        self._runs = 0
        self.is_possible = mode != "off"

    def was_done(self, work: Callable[[DeviceStream], None]) -> None:
        """Take note that work was done step by step, and capture it if it is time to."""
        if not self.is_possible:
            return
        self._runs += 1
        if self._runs < _RUNS_BEFORE_CAPTURE[self._mode]:
            return
        try:
            self.graph = self._device.capture(work, self._stream)
        except BackendError as error:
            self.refuse(str(error))

    def refuse(self, reason: str) -> None:
        """Never capture, because of a reason; BackendError where graphs were insisted on."""
        if not self.is_possible:
            return
        self.drop()
        if self._mode == "on":
            raise BackendError(
                f"The engine cannot run in a CUDA graph: {reason}",
                backend="tensorrt",
                hint=f"Use {setting_of('cuda_graph', repr('auto'))}, which does without"
                " where it must.",
            )
        self.is_possible = False
        G_LOGGER.verbose(f"Running without a CUDA graph: {reason}")

    def drop(self) -> None:
        """Forget what was captured: the work is going to be different."""
        self._runs = 0
        graph, self.graph = self.graph, None
        if graph is not None:
            graph.free()
