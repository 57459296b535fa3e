"""Runs TensorRT engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from polygraphy import mod
from polygraphy.adapters.base.loader import Deferred, evaluate
from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.adapters.tensorrt.describe.describe_engine import device_memory, engine_facts
from polygraphy.adapters.tensorrt.library.module import (
    capture_log,
    setting_of,
    tensorrt_module,
    trt,
)
from polygraphy.adapters.tensorrt.runtime.contexts import CUDA_GRAPH_MODES
from polygraphy.adapters.tensorrt.runtime.inputs import OutsideProfileError
from polygraphy.adapters.tensorrt.runtime.memory import STRATEGIES, Scratch
from polygraphy.adapters.tensorrt.runtime.profiling import EngineProfiler
from polygraphy.adapters.tensorrt.runtime.session import DeviceTimes, Session, SessionOptions
from polygraphy.adapters.tensorrt.runtime.tensors import IoTensor, read_tensors
from polygraphy.binding import resolve
from polygraphy.domain.errors import BackendError, UnknownNameError, UsageError
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.shapes import is_shape_dynamic
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import Device, DeviceStream
from polygraphy.ports.running import NodeProfiler

_AUTOMATIC = -1
_ALL = -2


def set_weight_budget(engine: Any, budget: int | None, percent: float | None) -> None:
    """Limit the device memory for streamable weights,
    which an engine accepts only before it has contexts.

    Args:
        engine: an `ICudaEngine`.
        budget: in bytes; -1 to let TensorRT choose, -2 to keep all weights on the device.
        percent: the percentage of streamable weights, from 0 to 100, instead of `budget`.

    Raises:
        UsageError: both are given, or one is out of range.
        BackendError: this TensorRT or engine does not support weight streaming, or rejects the
            budget.
    """
    _check(budget, percent)
    if budget is None and percent is None:
        return
    size = int(getattr(engine, "streamable_weights_size", 0))
    if not size:
        if budget == _ALL or percent == 100:
            return  # All weights are already on the device.
        raise BackendError(
            "The engine cannot stream weights.",
            backend="tensorrt",
            hint=f"Build it with {setting_of('weight_streaming')}, with TensorRT 10.0 or later.",
        )
    wanted = _budget_in_bytes(engine, size, budget, percent)
    with capture_log() as reasons:
        if hasattr(engine, "weight_streaming_budget_v2"):
            engine.weight_streaming_budget_v2 = wanted
            weight_streaming_budget_v2 = engine.weight_streaming_budget_v2
        else:
            wanted = _budget_for_first_version(engine, wanted, size)
            engine.weight_streaming_budget = wanted
            weight_streaming_budget_v2 = engine.weight_streaming_budget
    if weight_streaming_budget_v2 != wanted:
        raise reasons.error_for(
            f"set the weight streaming budget to {wanted} bytes (it is"
            f" {weight_streaming_budget_v2})"
        )
    G_LOGGER.info(f"Weight streaming: {wanted} of {size} bytes of weights stay on the device")


def _check(budget: int | None, percent: float | None) -> None:
    """Raise UsageError if a budget is invalid."""
    if budget is not None and percent is not None:
        raise UsageError("Set the weight streaming budget in bytes or in percent, not both.")
    if percent is not None and not 0 <= percent <= 100:
        raise UsageError(f"A weight streaming budget of {percent}% is not between 0 and 100.")
    if budget is not None and budget < _ALL:
        raise UsageError(
            f"{budget} bytes is not a valid weight streaming budget.",
            hint="Set a number of bytes, -1 to let TensorRT choose, or -2 to keep all weights"
            " on the"
            " GPU.",
        )


def _budget_in_bytes(engine: Any, size: int, budget: int | None, percent: float | None) -> int:
    """Return a budget of weight streaming in bytes, from bytes or from a percentage of `size`."""
    if percent is not None:
        return int(size * percent / 100)
    assert budget is not None
    if budget == _ALL:
        return size
    if budget == _AUTOMATIC:
        if hasattr(engine, "get_weight_streaming_automatic_budget"):
            return int(engine.get_weight_streaming_automatic_budget())
        return _AUTOMATIC  # TensorRT 10.0 chooses the number itself.
    return min(budget, size)


def _budget_for_first_version(engine: Any, wanted: int, size: int) -> int:
    """Return a budget in the form of TensorRT 10.0, where 0 means no streaming, and streaming needs
    some memory.
    """
    if wanted == _AUTOMATIC:
        return wanted
    return 0 if wanted >= size else max(wanted, int(engine.minimum_weight_streaming_budget), 1)


@mod.export()
class TrtRunner(BaseRunner):
    """Runs a TensorRT engine on the GPU.

    Inputs are arrays of NumPy, PyTorch, CuPy, or of any library that knows DLPack or
    ``__cuda_array_interface__``; arrays on the GPU are read in place. Outputs are arrays of NumPy,
    or tensors of PyTorch if an input is one.

    Attributes (while it is active):
        engine: the `ICudaEngine`.
        context: the `IExecutionContext`.
        stream: the `polygraphy.cuda.Stream` of all work.
    """

    outputs_are_fresh = True
    leaves_inputs_alone = True
    uses_device = True

    def __init__(
        self,
        engine: Deferred[Any],
        name: str | None = None,
        optimization_profile: int | None = None,
        allocation_strategy: str | None = None,
        weight_streaming_budget: int | None = None,
        weight_streaming_percent: float | None = None,
        debug_listener: Any = None,
        *,
        cuda_graph: str = "auto",
        device_times: bool = False,
        device: int | None = None,
    ) -> None:
        """Set the engine and the options of its runs; nothing is loaded yet.

        Args:
            engine: an engine or an execution context, or a loader that returns one of them.
            name: of the runner (default: unique in the process).
            optimization_profile: index of the profile to use (default: the first one that accepts
                the shapes of the data, so that a decoder changes from its prompt to later steps).
            allocation_strategy: the owner of the memory for activations: ``static`` (the engine,
                for its largest profile), ``profile`` (the runner, for the current profile) or
                ``runtime`` (the runner, for the current shapes).
            weight_streaming_budget: bytes of weights that stay on the GPU while others are
                streamed to it; -1 to let TensorRT choose, -2 for all.
            weight_streaming_percent: the same as a share of the weights that can be streamed.
            debug_listener: an `IDebugListener` that receives debug tensors (default: they are added
                to the outputs).
            cuda_graph: ``auto`` to replay inferences in a CUDA graph if shapes and addresses repeat
                and the engine supports it; ``on`` to require this; ``off`` to disable it.
            device_times: whether the GPU measures copies and computation of each inference; see
                `last_device_times`.
            device: index of the GPU to run on, on which a loader also builds and loads engines
                (default: the one that the calling thread uses). An existing engine or context stays
                on its GPU, so pass the index of that GPU. The calling thread uses the same GPU
                after each call as before.

        Raises:
            UsageError: a value is invalid.
        """
        super().__init__(name=name, prefix="trt-runner")
        _check_choice("Allocation strategy", allocation_strategy, STRATEGIES)
        _check_choice("CUDA graph mode", cuda_graph, CUDA_GRAPH_MODES)
        self.engine: Any = None
        self.context: Any = None
        self.stream: Any = None
        self._engine_or_context = engine
        self._first_profile = optimization_profile
        self._changes_profile = optimization_profile is None
        self._profile = 0
        self._allocation_strategy = allocation_strategy
        self._weight_budget = (weight_streaming_budget, weight_streaming_percent)
        self._debug_listener = debug_listener
        self._cuda_graph = cuda_graph
        self._device_times = device_times
        self._gpu = device
        self._tensors: list[IoTensor] = []
        self._scratch: Scratch | None = None
        self._session: Session | None = None

    def activate_impl(self) -> None:
        """Load the engine, create a context and a stream.

        Raises:
            MissingDependencyError: TensorRT is not installed.
            BackendError: there is no GPU, or TensorRT cannot do one of these.
        """
        tensorrt_module()
        device = resolve(Device)
        device.require()
        with device.use(self._gpu):
            try:
                self._acquire_resources(device)
            except BaseException:
                self._release_resources()
                raise

    def _acquire_resources(self, device: Device) -> None:
        """Create the stream, the execution context and the session of the runner."""
        result = evaluate(self._engine_or_context)
        if result is None:
            raise BackendError("There is no engine to run: the loader returned none.")
        self.stream = device.create_stream()
        if isinstance(result, trt.IExecutionContext):
            self.context, self.engine = result, result.engine
            self._profile = max(0, result.active_optimization_profile)
            if result.active_optimization_profile < 0 and self._first_profile is None:
                # Another context uses profile 0, and TensorRT 8 crashes if this context uses it
                # too.
                self._tensors = read_tensors(self.engine, self._profile)
                return
        else:
            self.engine = result
            set_weight_budget(result, *self._weight_budget)
            self._scratch = Scratch(result, device, self._allocation_strategy)
            self.context = self._scratch.create_context()
            self._profile = 0
        self._use_profile(self._profile if self._first_profile is None else self._first_profile)

    def open_profiler(self) -> NodeProfiler:
        """Return an object that runs the engine with TensorRT's profiler; only while active."""
        return EngineProfiler(self)

    def time_on_device(self, is_timed: bool) -> bool:
        """Set whether the device measures inferences; return whether it did before."""
        before, self._device_times = self._device_times, is_timed
        if before is not is_timed:
            self._renew_session()
        return before

    @contextmanager
    def profile_with(self, profiler: Any) -> Iterator[None]:
        """Let the context report to a profiler (an `IProfiler`),
        without CUDA graphs, inside the block. The context must not be used after the block,
        because it may be replaced."""
        before, self._cuda_graph = self._cuda_graph, "off"
        try:
            self._renew_session()
            self.context.profiler = profiler
            self.context.enqueue_emits_profile = False
            yield
        finally:
            self.context.enqueue_emits_profile = True
            self.context.profiler = None
            self._cuda_graph = before
            if self.context.profiler is not None and self._scratch is not None:
                self._renew_context(self._scratch)  # TensorRT 8 keeps it, which slows inferences.
            else:
                self._renew_session()

    def _renew_context(self, scratch: Scratch) -> None:
        """Replace the execution context and its session."""
        with resolve(Device).use(self._gpu):
            self._end_session()
            self.context = None  # A profile may allow one context at a time.
            self.context = scratch.create_context()
            self._use_profile(self._profile)

    def _renew_session(self) -> None:
        """Replace the session with one with a profiler, or without."""
        with resolve(Device).use(self._gpu):
            self._end_session()
            self._session = self._new_session()

    def deactivate_impl(self) -> None:
        """Release everything that was created by the runner."""
        with resolve(Device).use(self._gpu):
            self._release_resources()

    def _release_resources(self) -> None:
        """Free the session, the context, the engine and the stream."""
        self._end_session()
        self.context = None  # Release the context before the memory that it uses.
        self.engine = None
        self._tensors = []
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            scratch.free()
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.free()

    def _end_session(self) -> None:
        """Free the session, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            session.free()

    # Profiles.

    def set_profile(self, index: int) -> None:
        """Use another optimization profile.

        Args:
            index: of the profile, from 0.

        Raises:
            UsageError: the runner is not active, or the profile does not exist.
            BackendError: TensorRT rejects it. With TensorRT 8, another context may be using it.
        """
        self._require_active("a profile can be chosen")
        with resolve(Device).use(self._gpu):
            self._use_profile(index)
        self._changes_profile = False
        self._forget_metadata()

    def _use_profile(self, index: int) -> None:
        """Use an optimization profile; raise UsageError if it does not exist."""
        count = self.engine.num_optimization_profiles
        if not 0 <= index < max(count, 1):
            raise UsageError(
                f"Optimization profile {index} does not exist.",
                hint=f"The engine has {count}, counted from 0.",
            )
        self._end_session()
        if self.context.active_optimization_profile != index:
            self._switch_profile(index)
        self._profile = index
        if self._scratch is not None:
            self._scratch.set_profile_memory(self.context, index)
        self._tensors = read_tensors(self.engine, index)
        self._session = self._new_session()

    def _switch_profile(self, index: int) -> None:
        """Switch the context to an optimization profile; raise BackendError if it is in use."""
        stream: DeviceStream = self.stream
        with capture_log() as reasons:
            optimization_profile_async = self.context.set_optimization_profile_async(
                index, stream.ptr
            )
            stream.synchronize()
        if not optimization_profile_async:
            raise reasons.error_for(
                f"use optimization profile {index}",
                hint="If a profile allows one context at a time, deactivate the other runner of"
                " this"
                " engine, or build the engine with one more profile.",
            )

    def _new_session(self) -> Session:
        """Return a session of the context."""
        session = Session(
            self.context,
            self._tensors,
            resolve(Device),
            self.stream,
            self._scratch,
            SessionOptions(self._profile, self._cuda_graph, self._device_times),
        )
        session.show_debug_tensors(self._debug_listener)
        return session

    # Inference.

    def pinned_input(self, name: str, shape: Sequence[int] | None = None) -> Any:
        """Return an array for the data of an input, in memory that the GPU reads directly.
        Filling it for each inference is the fastest way to pass large data to the GPU.

        Args:
            name: of the input.
            shape: of the array (default: that of the input).

        Raises:
            UsageError: the runner is not active, the input does not exist, or its shape is dynamic
                and not set.
        """
        self._require_active("memory for its inputs can be allocated")
        inputs = {tensor.name: tensor for tensor in self._tensors if tensor.is_input}
        if name not in inputs:
            raise UnknownNameError("Input", name, inputs)
        wanted = inputs[name].shape if shape is None else tuple(shape)
        if is_shape_dynamic(wanted):
            raise UsageError(
                f"Input {name!r} has a dynamic shape, {wanted}.", hint="Set its shape."
            )
        device = resolve(Device)
        with device.use(self._gpu):
            return device.pinned_array(wanted, inputs[name].dtype)

    def set_debug_listener(self, listener: Any) -> None:
        """Pass debug tensors to an `IDebugListener` from now on; None adds them to the outputs.

        Raises:
            UsageError: the runner is not active.
        """
        self._require_active("a debug listener can be set")
        self._debug_listener = listener
        if self._session is not None:
            self._session.show_debug_tensors(listener)

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Return names, data types and shapes of the inputs, with the bounds of the current
        optimization profile.
        """
        metadata = TensorMetadata()
        for tensor in self._tensors:
            if tensor.is_input:
                bounds = tensor.ranges[self._profile] if tensor.ranges else None
                metadata.add(
                    tensor.name,
                    tensor.entry,
                    tensor.shape,
                    min_shape=bounds.min if bounds else None,
                    max_shape=bounds.max if bounds else None,
                )
        return metadata

    def get_model_facts(self) -> Facts:
        """Return the compute types of the engine, if it was built here, has a build record, or its
        inspector reports them; and the values that inputs accept."""
        self._require_active("its model can be described")
        return engine_facts(self.engine)

    def infer_impl(
        self,
        feed_dict: Mapping[str, Any],
        copy_outputs_to_host: bool | None = None,
        return_raw_buffers: bool | None = None,
    ) -> dict[str, Any]:
        """Return the outputs of one run of the engine.

        Args:
            feed_dict: one array per input. An integer is the address of device memory.
            copy_outputs_to_host: whether outputs come back to the host, which they do unless this
                is False. Otherwise they are `polygraphy.cuda.DeviceView`, or tensors of PyTorch on
                the GPU if an input is one; the next inference overwrites them.
            return_raw_buffers: whether outputs are `polygraphy.common.FormattedArray`, with the
                memory layout of the engine (default: False).

        Returns:
            One array per output, and one per debug tensor. They belong to the caller. Large ones
            are in pinned memory, which the GPU fills at full speed, as long as the caller keeps no
            more than two results at a time.
        """
        session = self._session
        if session is None:
            raise UsageError(
                f"{self.name} has no optimization profile: a different context of its engine"
                " already used the first profile.",
                hint="Call set_profile(index), or pass optimization_profile=index.",
            )
        to_host, raw = copy_outputs_to_host is not False, return_raw_buffers is True
        try:
            if self._gpu is None:  # Cached, so that not every inference looks it up.
                outputs = session.run(feed_dict, to_host, raw)
            else:
                with resolve(Device).use(self._gpu):
                    outputs = session.run(feed_dict, to_host, raw)
        except OutsideProfileError:
            index = self._fitting_profile(feed_dict) if self._changes_profile else None
            if index is None:
                raise
            with resolve(Device).use(self._gpu):
                self._use_profile(index)
                self._forget_metadata()
                session = self._session
                assert session is not None
                outputs = session.run(feed_dict, to_host, raw)
        self.inference_time = session.seconds
        return outputs

    def _fitting_profile(self, feed_dict: Mapping[str, Any]) -> int | None:
        """Return the index of another profile that accepts the shapes of all inputs, or None.
        The result is None if there is none.
        """
        ranged = [tensor for tensor in self._tensors if tensor.ranges and not tensor.is_on_host]
        shapes = {
            tensor: tuple(shape)
            for tensor in ranged
            if (shape := getattr(feed_dict.get(tensor.name), "shape", None)) is not None
        }
        ats = (at for at in range(self.engine.num_optimization_profiles) if at != self._profile)
        fitting = (
            at
            for at in ats
            if all(io_tensor.takes(shape, at) for io_tensor, shape in shapes.items())
        )
        return next(fitting, None)

    def device_memory(self) -> int:
        """Return the bytes of device memory that the engine needs for activations.

        Raises:
            UsageError: the runner is not active.
        """
        self._require_active("the memory of its engine can be measured")
        return device_memory(self.engine)

    def last_device_times(self) -> DeviceTimes | None:
        """Return the times of copies and computation in the last inference, measured by the GPU.
        The result is None before the first one, and without ``device_times=True``.
        """
        return None if self._session is None else self._session.device_times


def _check_choice(what: str, choice: str | None, known_names: tuple[str, ...]) -> None:
    """Raise UnknownNameError if a choice is unknown."""
    if choice is not None and choice not in known_names:
        raise UnknownNameError(what, choice, known_names)
