"""The contexts of an active engine: one for new shapes, and others for recurring shapes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from polygraphy.adapters.tensorrt.library.module import capture_log, mute_log, setting_of
from polygraphy.adapters.tensorrt.runtime.inputs import check_shape, refusal_error
from polygraphy.adapters.tensorrt.runtime.memory import Scratch
from polygraphy.adapters.tensorrt.runtime.tensors import IoTensor
from polygraphy.domain.errors import BackendError, InputError, UnknownNameError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import Device, DeviceGraph, DeviceStream

CUDA_GRAPH_MODES = ("auto", "on", "off")

_RUNS_BEFORE_CAPTURE = {"auto": 2, "on": 1}


class GraphPolicy:
    """Decides when unchanged work is captured as a CUDA graph.

    With ``auto``, work is captured after it ran twice, and continues step by step if it cannot be
    captured; with ``on``, it is captured after it ran once (the first inference with new shapes
    sets up the engine, which cannot be captured), and a failure is an error.

    Attributes:
        graph: the graph to launch instead of doing the work; None if there is none.
        is_possible: whether work is captured at all.
    """

    def __init__(self, mode: str, device: Device, stream: DeviceStream) -> None:
        """Set the mode of CUDA graphs; raise UnknownNameError for an unknown one."""
        if mode not in CUDA_GRAPH_MODES:
            raise UnknownNameError("CUDA graph mode", mode, CUDA_GRAPH_MODES)
        self.graph: DeviceGraph | None = None
        self._mode = mode
        self._device = device
        self._stream = stream
        self._runs = 0
        self.is_possible = mode != "off"

    def record_work(self, work: Callable[[DeviceStream], None]) -> None:
        """Record that work was done step by step, and capture it if it is time."""
        if not self.is_possible:
            return
        self._runs += 1
        if self._runs < _RUNS_BEFORE_CAPTURE[self._mode]:
            return
        try:
            self.graph = self._device.capture(work, self._stream)
        except BackendError as error:
            self.disable_capturing(str(error))

    def disable_capturing(self, reason: str) -> None:
        """Disable capturing for a reason; raise BackendError if graphs are required."""
        if not self.is_possible:
            return
        self.drop()
        if self._mode == "on":
            raise BackendError(
                f"The engine cannot run in a CUDA graph: {reason}",
                backend="tensorrt",
                hint=f"Use {setting_of('cuda_graph', repr('auto'))}, which runs without a graph if"
                " necessary.",
            )
        self.is_possible = False
        G_LOGGER.verbose(f"Running without a CUDA graph: {reason}")

    def drop(self) -> None:
        """Drop the captured graph, because the work is about to change."""
        self._runs = 0
        graph, self.graph = self.graph, None
        if graph is not None:
            graph.free()


Shape = tuple[int, ...]


class BoundContext:
    """An execution context that gets only changed settings, and whose answers are cached.

    A graph is only valid for the state in which its context was captured.

    Attributes:
        native: the `IExecutionContext`; None after it is released.
        graphs: the policy for capturing its work, and the graph.
        is_proven: whether it has run.
    """

    def __init__(self, native: Any, profile: int, graphs: GraphPolicy) -> None:
        """Set the context and its optimization profile; its shapes are unknown yet."""
        self.native = native
        self.graphs = graphs
        self.is_proven = False
        self._profile = profile
        self._arrangement: Any = None
        self.forget()

    def forget(self) -> None:
        """Forget all settings, so that the next run sets them again."""
        self._set_shapes: dict[str, Shape] = {}
        self._set_addresses: dict[str, int] = {}
        self._forget_shapes()

    def _forget_shapes(self) -> None:
        """Forget the shapes and strides, so that they are read again."""
        self._is_complete = False
        self._shapes: dict[str, Shape] = {}
        self._strides: dict[str, Shape] = {}

    def set_shape(self, tensor: IoTensor, shape: Shape) -> None:
        """Set the shape of an input.

        Raises:
            InputError: the profile does not accept the shape.
            BackendError: TensorRT rejects the shape.
        """
        name = tensor.name
        if self._set_shapes.get(name) == shape:
            return
        check_shape(tensor, shape, self._profile)
        self._set_shapes.pop(name, None)
        self._forget_shapes()
        with capture_log() as reasons:
            accepted = self.native.set_input_shape(name, shape)
        if not accepted:
            raise refusal_error(f"shape {shape} for input {name!r}", reasons)
        self._set_shapes[name] = shape

    def set_address(self, name: str, address: int) -> None:
        """Set the address of an input or output; raise BackendError if TensorRT refuses it."""
        if self._set_addresses.get(name) == address:
            return
        with capture_log() as reasons:
            accepted = self.native.set_tensor_address(name, address)
        if not accepted:
            raise refusal_error(f"the address of {name!r}", reasons)
        self._set_addresses[name] = address

    def require_shapes(self) -> None:
        """Raise an error unless the shapes of all inputs are known.

        Raises:
            InputError: the shape of an input is unknown.
            BackendError: the shapes, or the values of shape tensors, are inconsistent.
        """
        if self._is_complete:
            return
        with capture_log() as reasons:
            try:
                missing = self.native.infer_shapes()
            except RuntimeError as error:
                reasons.add(str(error))
                raise refusal_error("these shapes, or these values of shapes", reasons) from error
        if missing:
            raise InputError(f"The shapes of {', '.join(missing)} are not set.")
        self._is_complete = True

    def shape_of(self, name: str) -> Shape:
        """Return the shape of a tensor; negative dimensions depend on the data."""
        shape = self._shapes.get(name)
        if shape is None:
            shape = self._shapes[name] = tuple(self.native.get_tensor_shape(name))
        return shape

    def strides_of(self, name: str) -> Shape:
        """Return the distances between elements of a tensor in its format."""
        strides = self._strides.get(name)
        if strides is None:
            strides = self._strides[name] = tuple(self.native.get_tensor_strides(name))
        return strides

    def note_arrangement(self, arrangement: Any) -> None:
        """Record the state that a graph depends on, and drop a graph of a different state."""
        if arrangement != self._arrangement:
            self.graphs.drop()
            self._arrangement = arrangement

    def free(self) -> None:
        """Release the context and its graph."""
        self.graphs.drop()
        self.native = None


_USES = 2
"""Number of uses after which a key is kept."""
_PERIOD = 64
"""Number of uses after which all counts are halved."""


class ShapeCache:
    """Admits a bounded number of keys: an LFU cache with admission.

    A key is admitted on its second use. If the cache is full, the least frequent key is evicted for
    one that is used more than twice as often: because admission is expensive, keys must not keep
    evicting each other.
    """

    def __init__(self, capacity: int, on_evicted: Callable[[Hashable], None]) -> None:
        """Set the capacity; `on_evicted` is called with each evicted key."""
        self._capacity = capacity
        self._on_evicted = on_evicted
        self._uses: dict[Hashable, int] = {}
        self._held: set[Hashable] = set()
        self._until_halved = _PERIOD

    def admits(self, key: Hashable) -> bool:
        """Count a use; return whether the key is in the cache now."""
        self._halve_counts()
        uses = self._uses[key] = self._uses.get(key, 0) + 1
        if key in self._held:
            return True
        if uses < _USES:
            return False
        if len(self._held) >= self._capacity and not self._make_room(uses):
            return False
        self._held.add(key)
        return True

    def _make_room(self, uses: int) -> bool:
        """Evict the rarest key if it is used much less; return whether there is room."""
        rarest = min(self._held, key=lambda hashable: self._uses.get(hashable, 0))
        if uses <= 2 * self._uses.get(rarest, 0) + 1:
            return False
        self._held.discard(rarest)
        self._on_evicted(rarest)
        return True

    def _halve_counts(self) -> None:
        """Halve all counts after some uses."""
        self._until_halved -= 1
        if not self._until_halved:
            self._until_halved = _PERIOD
            halved = {key: uses // 2 for key, uses in self._uses.items()}
            self._uses = {key: uses for key, uses in halved.items() if uses}


PLACES = 8
"""Largest number of sets of shapes and addresses with a graph."""


class Contexts:
    """Provides a context, with its CUDA graph, for each of a few alternating arrangements of shapes
    and addresses.

    A graph must not be launched after the context from which it was captured changed. All contexts
    share the same memory, because the runner does one inference at a time.

    Attributes:
        main: the context for new arrangements, and if there are too many.
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
        """Start with one context; `scratch`, which creates more, is None for a caller's context."""
        self._scratch = scratch
        self._profile = profile
        self._device = device
        self._stream = stream
        self._cuda_graph = cuda_graph
        self._others: dict[Hashable, BoundContext] = {}
        self._cache: ShapeCache | None = None
        self.main = self._bind_context(native)
        if scratch is not None and self.main.graphs.is_possible:
            self._cache = ShapeCache(PLACES, self._release_context)

    def _bind_context(self, native: Any) -> BoundContext:
        """Return a bound context for an execution context."""
        policy = GraphPolicy(self._cuda_graph, self._device, self._stream)
        return BoundContext(native, self._profile, policy)

    def context_for(self, shapes: Hashable) -> BoundContext:
        """Return the context for shapes that differ from the last ones."""
        if not all(
            bound_context.graphs.is_possible
            for bound_context in (self.main, *self._others.values())
        ):
            self.stop_sharing("CUDA graphs are not supported")
        cache = self._cache
        # Before the first inference, it is unknown whether graphs are possible.
        if cache is None or not self.main.is_proven or not cache.admits(shapes):
            return self.main
        context = self._others.get(shapes)
        if context is None:
            native = self._create_another()
            if native is None:
                return self.main
            context = self._others[shapes] = self._bind_context(native)
        return context

    def _create_another(self) -> Any:
        """Return one more execution context; None if there can be no more."""
        assert self._scratch is not None
        try:
            another = self._scratch.create_another(self._profile, self._stream)
        except BackendError as error:
            self.stop_sharing(str(error))
            return None
        if another is None:
            self.stop_sharing("its profile allows one context at a time")
        return another

    @contextmanager
    def log_errors_as_details(self, bound: BoundContext) -> Iterator[None]:
        """Log errors inside the block as details, if there is a context to fall back to."""
        if bound is self.main:
            yield
            return
        with mute_log():
            yield

    def stop_sharing(self, reason: str = "a second context cannot run") -> None:
        """Use the main context alone from now on."""
        if self._cache is not None:
            G_LOGGER.verbose(f"CUDA graphs are captured again when shapes alternate: {reason}")
        self._cache = None
        self.keep_main_only()

    def disable_capturing(self, reason: str) -> None:
        """Disable capturing for a reason; raise BackendError if graphs are required."""
        self._cache = None
        self.main.graphs.disable_capturing(reason)

    def keep_main_only(self) -> None:
        """Release the other contexts, and captured graphs."""
        for shapes in list(self._others):
            self._release_context(shapes)
        self.main.graphs.drop()

    def _release_context(self, shapes: Hashable) -> None:
        """Release the context for some shapes, if there is one."""
        bound_context = self._others.pop(shapes, None)
        if bound_context is not None:
            bound_context.free()

    def free(self) -> None:
        """Release all contexts and graphs."""
        self.keep_main_only()
        self.main.free()
