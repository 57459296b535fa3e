"""The contexts of an active engine: one for whatever comes, and others for what comes back."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from polygraphy.adapters.tensorrt.library.logger import mute_log
from polygraphy.adapters.tensorrt.runtime.bound_context import BoundContext
from polygraphy.adapters.tensorrt.runtime.graphs import GraphPolicy
from polygraphy.adapters.tensorrt.runtime.scratch import Scratch
from polygraphy.adapters.tensorrt.runtime.shape_cache import ShapeCache
from polygraphy.domain.errors import BackendError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import Device, DeviceStream

PLACES = 8
"""For how many sets of shapes and addresses a graph is kept."""


class Contexts:
    """Gives a context, and with it a CUDA graph, to each of a few arrangements of shapes and
    addresses that come in turn.

    TensorRT says that a graph must not be launched once the context from which it was captured was
    changed. They all run in the same memory, for the runner does one inference at a time.

    Attributes:
        main: the context of arrangements that are new, or too many.
    """

    def __init__(
        self,
        native: Any,
        scratch: Scratch | None,
        profile: int,
        device: Device,
        stream: DeviceStream,
        cuda_graph: str,
    ) -> None:
        """Begin with one context; `scratch`, which makes more, is None for a caller's context."""
        self._scratch = scratch
        self._profile = profile
        self._device = device
        self._stream = stream
        self._cuda_graph = cuda_graph
        self._others: dict[Hashable, BoundContext] = {}
        self._cache: ShapeCache | None = None
        self.main = self._bound(native)
        if scratch is not None and self.main.graphs.is_possible:
            self._cache = ShapeCache(PLACES, self._leave)

    def _bound(self, native: Any) -> BoundContext:
        policy = GraphPolicy(self._cuda_graph, self._device, self._stream)
        return BoundContext(native, self._profile, policy)

    def chosen(self, shapes: Hashable) -> BoundContext:
        """Return the context for an arrangement other than the last one."""
        if not all(one.graphs.is_possible for one in (self.main, *self._others.values())):
            self.share_no_more("there can be none")
        cache = self._cache
        # Before the first inference it is not known whether there can be graphs.
        if cache is None or not self.main.is_proven or not cache.admits(shapes):
            return self.main
        found = self._others.get(shapes)
        if found is None:
            native = self._another()
            if native is None:
                return self.main
            found = self._others[shapes] = self._bound(native)
        return found

    def _another(self) -> Any:
        assert self._scratch is not None
        try:
            made = self._scratch.create_another(self._profile, self._stream)
        except BackendError as error:
            self.share_no_more(str(error))
            return None
        if made is None:
            self.share_no_more("its profile is for one context at a time")
        return made

    @contextmanager
    def trying(self, bound: BoundContext) -> Iterator[None]:
        """Log errors as details inside the block where there is a context to fall back on."""
        if bound is self.main:
            yield
            return
        with mute_log():
            yield

    def share_no_more(self, reason: str = "a second context cannot run") -> None:
        """Do with the main context alone from now on."""
        if self._cache is not None:
            G_LOGGER.verbose(f"Shapes that come in turn keep no CUDA graphs: {reason}")
        self._cache = None
        self.keep_main_only()

    def refuse(self, reason: str) -> None:
        """Never capture, because of a reason; see `GraphPolicy.refuse`."""
        self._cache = None
        self.main.graphs.refuse(reason)

    def keep_main_only(self) -> None:
        """Let go of the other contexts, and of what was captured."""
        for shapes in list(self._others):
            self._leave(shapes)
        self.main.graphs.drop()

    def _leave(self, shapes: Hashable) -> None:
        left = self._others.pop(shapes, None)
        if left is not None:
            left.free()

    def free(self) -> None:
        """Let go of everything."""
        self.keep_main_only()
        self.main.free()
