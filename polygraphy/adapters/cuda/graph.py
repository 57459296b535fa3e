"""Work of a stream that was written down once, and is launched as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polygraphy.adapters.cuda.errors import checked, value_of
from polygraphy.adapters.cuda.module import cudart
from polygraphy.adapters.cuda.stream import Stream


class Graph:
    """A CUDA graph, ready to be launched on one stream."""

    def __init__(self, work: Callable[[Stream], None], stream: Stream) -> None:
        """Capture what `work` queues on the stream it is given, without doing it.

        That stream is one of its own, without order towards the default stream: otherwise, any
        thread that used the default stream meanwhile would get an error.

        Args:
            work: queues work; what it raises ends the capture and is raised again.
            stream: where the graph is going to be launched.

        Raises:
            BackendError: the work cannot be captured.
        """
        module = cudart()
        with Stream.unordered() as recorder:
            mode = module.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
            checked(module.cudaStreamBeginCapture(recorder.ptr, mode), "begin to capture a graph")
            try:
                work(recorder)
            except BaseException:
                _discard(module.cudaStreamEndCapture(recorder.ptr))
                raise
            captured = module.cudaStreamEndCapture(recorder.ptr)
        graph = value_of(captured, "capture a graph")
        try:
            self._executable: Any = value_of(
                module.cudaGraphInstantiate(graph, 0), "instantiate a graph"
            )
        finally:
            module.cudaGraphDestroy(graph)
        self._launch = module.cudaGraphLaunch
        self._stream = module.cudaStream_t(stream.ptr)

    def launch(self) -> None:
        """Queue the work; BackendError when that fails."""
        result = self._launch(self._executable, self._stream)
        if result[0]:
            checked(result, "launch a graph")

    def free(self) -> None:
        executable, self._executable = self._executable, None
        if executable is not None:
            checked(cudart().cudaGraphExecDestroy(executable), "destroy a graph")


def _discard(captured: tuple[Any, ...]) -> None:
    """Destroy what an abandoned capture left."""
    module = cudart()
    module.cudaGetLastError()
    if not captured[0] and int(captured[1]):
        module.cudaGraphDestroy(captured[1])
