"""An engine at work: its contexts, inputs and outputs, and the shortest way through them.

What does not change from one inference to the next is done once: shapes and addresses are given to
the context when they are others than before, and when everything stays the same, what an inference
queues is captured in a CUDA graph, so that an inference is one launch. A graph does not outlive a
change of its context, so shapes and addresses that come back have a context of their own.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from typing import Any, Union

import numpy as np
from attrs import frozen

from polygraphy.adapters.arrays.foreign import as_torch, device_buffer, has_torch, host_array
from polygraphy.adapters.tensorrt.library.datatype import TensorrtDataTypes
from polygraphy.adapters.tensorrt.library.module import (
    Reasons,
    capture_log,
    mute_log,
    tensorrt_module,
)
from polygraphy.adapters.tensorrt.runtime.contexts import Contexts
from polygraphy.adapters.tensorrt.runtime.inputs import (
    DeviceInput,
    HostInput,
    dtype_error,
    refusal_error,
)
from polygraphy.adapters.tensorrt.runtime.memory import (
    DeviceBlock,
    Layout,
    PinnedMemory,
    ReusedArrays,
    Scratch,
    contiguous_strides,
    require_output_allocators,
)
from polygraphy.adapters.tensorrt.runtime.outputs import (
    DataDependentOutput,
    FixedOutput,
    HostOutput,
)
from polygraphy.adapters.tensorrt.runtime.tensors import IoTensor
from polygraphy.domain.errors import BackendError, InputError
from polygraphy.domain.results.results import DeviceTimes
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.formatted import FormattedArray
from polygraphy.ports.machine import Device, DeviceStream

__all__ = ["DeviceTimes", "Stopwatch"]

Shape = tuple[int, ...]


class FormattedInput:
    """An input that is converted to the format of the engine on the host.

    Attributes: see `inputs.DeviceInput`.
    """

    is_staged = True

    def __init__(self, tensor: IoTensor, device: Device, stream: DeviceStream) -> None:
        """Create an input in a format of TensorRT; nothing is allocated yet."""
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
        """Set an array in the shape of the input, or a `FormattedArray` of bytes in the layout of
        the engine; return whether the shape changed.
        """
        if isinstance(array, int):
            raise InputError(
                f"Input {self.tensor.name!r} has a special format, so an address is not"
                " accepted.",
                hint="Pass an array, or a FormattedArray that is already in this format.",
            )
        if isinstance(array, FormattedArray):
            raw = np.ascontiguousarray(self._host_array(array.array)).reshape(-1).view(np.uint8)
            self._data = FormattedArray(raw, array.shape)
        else:
            self._data = self._host_array(array)
            if self._data.dtype != self.tensor.dtype:
                raise dtype_error(self.tensor, self._data.dtype)
        before, self.shape = self.shape, tuple(self._data.shape)
        return before != self.shape

    def _host_array(self, array: Any) -> Array:
        """Return data as a host array, copied from the device if necessary."""
        where = device_buffer(array, self._stream)
        if where is None:
            return host_array(array)
        address, shape, _ = where
        computed_array = np.empty(shape, _dtype(array, self.tensor))
        self._stream.synchronize()
        self._device.copy_to_host(computed_array, address)
        return computed_array

    def arrange(self, layout: Layout) -> None:
        """Allocate memory, now that the engine knows the shape and the layout."""
        self._layout = layout
        self.address = self._block.reserve(layout.nbytes)
        self._staged = self._pinned.array((layout.nbytes,), np.dtype(np.uint8))

    def pack(self) -> None:
        """Convert the data to the format; raise InputError for too many or too few bytes."""
        assert self._layout is not None
        assert self._staged is not None
        data, self._data = self._data, None
        if isinstance(data, FormattedArray):
            if data.array.nbytes != self._staged.nbytes:
                raise InputError(
                    f"Input {self.tensor.name!r} requires {self._staged.nbytes} bytes in its"
                    f" format, but the data has {data.array.nbytes} bytes."
                )
            self._staged[...] = data.array
        elif data is not None:
            self._staged[...] = self._layout.pack(np.ascontiguousarray(data).reshape(data.shape))

    @property
    def identity(self) -> object:
        """Return a value that differs for other shapes."""
        return self.shape

    @property
    def addresses(self) -> tuple[int, ...]:
        """Return all memory addresses that `enqueue` and the engine use."""
        return (self.address, self._pinned.address)

    def enqueue(self, stream: DeviceStream) -> None:
        """Copy the staged data to the device."""
        if self._layout is not None and self._layout.nbytes:
            stream.to_device(self.address, self._pinned.address, self._layout.nbytes)

    def free(self) -> None:
        """Free the device memory and the staging memory."""
        self._data = self._staged = None
        self._block.free()
        self._pinned.free()


def _dtype(array: Any, tensor: IoTensor) -> np.dtype[Any]:
    """Return the data type of an array on the device with which bytes are copied unchanged."""
    dtype = getattr(array, "dtype", None)
    return dtype if isinstance(dtype, np.dtype) else tensor.dtype


class DebugTensors:
    """Stores a copy of each debug tensor of an inference.

    Attributes:
        arrays: by name, in the order in which the engine made them.
        error: the exception that prevented a copy; None without one. Exceptions do not pass through
            TensorRT.
        native: the `IDebugListener` to give to TensorRT; it must live as long as the context.
    """

    def __init__(self, device: Device) -> None:
        """Start without tensors."""
        self._device = device
        self.arrays: dict[str, Array] = {}
        self.error: BaseException | None = None
        self.native = _make_listener(tensorrt_module(), self)

    def add(self, address: Any, on_host: bool, dtype: Any, shape: Any, name: str) -> bool:
        """Copy a debug tensor to the host, and store it; return whether that worked."""
        try:
            entry = TensorrtDataTypes().from_native(dtype)
            array = np.empty(tuple(shape), np.uint8 if entry is None else entry.numpy())
            if on_host:
                ctypes.memmove(array.ctypes.data, _pointer(address), array.nbytes)
            else:
                self._device.copy_to_host(array, _pointer(address))
            self.arrays[name] = array
        except BaseException as error:  # Includes Ctrl-C.
            self.error = error
            return False
        return True

    def take(self) -> dict[str, Array]:
        """Return the collected tensors and clear them; raise the error of the listener."""
        arrays, self.arrays = self.arrays, {}
        error, self.error = self.error, None
        if error is not None:
            raise error
        return arrays


def listen(context: Any, listener: Any) -> bool:
    """Pass the debug tensors of a context to an `IDebugListener`; return whether that worked.

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
    """Return an object of TensorRT that passes debug tensors to their owner."""

    class DebugListener(module.IDebugListener):  # type: ignore[misc]
        """Passes TensorRT's debug tensors to a `DebugTensors`."""

        def __init__(self) -> None:
            """Create the listener."""
            module.IDebugListener.__init__(self)

        def process_debug_tensor(
            self, addr: Any, location: Any, type: Any, shape: Any, name: str, stream: int
        ) -> bool:
            """Pass a debug tensor to its owner; return whether that worked."""
            on_host = location == module.TensorLocation.HOST
            return owner.add(addr, on_host, type, shape, name)

    return DebugListener()


def _pointer(address: Any) -> int:
    """Return an address from a number, or from a capsule without a name."""
    if isinstance(address, int):
        return address
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(address, None) or 0)


Input = Union[DeviceInput, FormattedInput, HostInput]
Output = Union[FixedOutput, DataDependentOutput, HostOutput]

_now = time.perf_counter


@frozen
class SessionOptions:
    """The options for running an engine.

    Attributes:
        profile: the optimization profile in use.
        cuda_graph: ``auto``, ``on`` or ``off``; see `GraphPolicy`.
        is_timed: whether the device measures the parts of each inference.
    """

    profile: int = 0
    cuda_graph: str = "auto"
    is_timed: bool = False


class Session:
    """Runs an engine in one optimization profile.

    Attributes:
        seconds: the duration of the last inference, copies included.
        device_times: the parts of it, where the device measures them.
    """

    def __init__(
        self,
        context: Any,
        tensors: list[IoTensor],
        device: Device,
        stream: DeviceStream,
        scratch: Scratch | None,
        options: SessionOptions,
    ) -> None:
        """Create everything that does not depend on shapes.
        `scratch` is None for a context of the caller.
        """
        self.seconds = 0.0
        self.device_times: DeviceTimes | None = None
        self._device = device
        self._stream = stream
        self._scratch = scratch
        self._contexts = Contexts(
            context, scratch, options.profile, device, stream, options.cuda_graph
        )
        self._bound = self._contexts.main
        self._reused = ReusedArrays(device)
        self._inputs = [self._create_input(tensor) for tensor in tensors if tensor.is_input]
        self._feeds = [(item.tensor.name, item.feed) for item in self._inputs]
        self._formatted = [item for item in self._inputs if isinstance(item, FormattedInput)]
        self._has_shape_values = any(isinstance(item, HostInput) for item in self._inputs)
        self._output_tensors = [tensor for tensor in tensors if not tensor.is_input]
        self._outputs: dict[str, Output] = {}
        self._is_arranged = False
        self._to_host = True
        self._order: tuple[bool, ...] | None = None
        self._debug: DebugTensors | None = None
        self._stopwatch = Stopwatch(device) if options.is_timed else None

    def _create_input(self, tensor: IoTensor) -> Input:
        """Return the input for a tensor: on the host, formatted, or on the device."""
        if tensor.is_on_host:
            return HostInput(tensor)
        if not tensor.is_plain:
            return FormattedInput(tensor, self._device, self._stream)
        return DeviceInput(tensor, self._device, self._stream, self._reused)

    def show_debug_tensors(self, listener: Any = None) -> None:
        """Add debug tensors to the outputs, or pass them to an `IDebugListener` instead."""
        self._contexts.keep_main_only()
        self._bound = self._contexts.main
        self._is_arranged = False
        self._debug = None
        context = self._bound.native
        if listener is not None:
            if listen(context, listener):
                self._contexts.disable_capturing("every inference calls a debug listener")
        elif hasattr(context, "set_debug_listener"):
            collector = DebugTensors(self._device)
            if listen(context, collector.native):
                self._debug = collector

    def run(
        self, feed_dict: Mapping[str, Any], to_host: bool = True, raw: bool = False
    ) -> dict[str, Any]:
        """Return the outputs of one run of the engine.

        Args:
            feed_dict: one array per input.
            to_host: whether outputs come back as arrays of NumPy, which belong to the caller; else
                they stay on the device, in memory that the next inference overwrites.
            raw: whether outputs come as `FormattedArray`, as they lie in memory.

        Raises:
            InputError: the data does not fit the engine.
            BackendError: the engine cannot run.
        """
        start = _now()
        changed = not self._is_arranged or to_host is not self._to_host
        # False until all inputs are set, because an error can occur between them.
        self._is_arranged = False
        for name, feed in self._feeds:
            try:
                array = feed_dict[name]
            except KeyError:
                raise _missing_input_error(name, feed_dict) from None
            if feed(array):
                changed = True
        if changed:
            self._arrange(to_host)
        self._is_arranged = True
        for item in self._formatted:
            item.pack()
        self._enqueue()
        self._stream.synchronize()
        outputs = self._collect(raw)
        self.seconds = _now() - start
        graphs = self._bound.graphs
        if graphs.graph is None:
            graphs.record_work(self._enqueue_work if self._stopwatch is None else self._execute)
        return as_torch(outputs) if has_torch(feed_dict.values()) else outputs

    def _enqueue(self) -> None:
        """Enqueue an inference; if a context fails, enqueue it in the main one."""
        if self._bound.is_proven:
            self._enqueue_all()
            return
        try:
            with self._contexts.log_errors_as_details(self._bound):
                self._enqueue_all()
        except BackendError:
            if self._bound is self._contexts.main:
                raise
            self._contexts.stop_sharing()
            self._arrange(self._to_host)
            self._enqueue()
        self._bound.is_proven = True

    def _enqueue_all(self) -> None:
        """Enqueue the copies and the execution, as a graph if there is one."""
        graph = self._bound.graphs.graph
        if self._stopwatch is not None:
            self._enqueue_timed(self._stopwatch)
        elif graph is not None:
            graph.launch()
        else:
            self._enqueue_work(self._stream)
        for output in self._direct:
            output.begin(self._stream)

    def _enqueue_timed(self, stopwatch: Stopwatch) -> None:
        """Enqueue the copies and the execution with events between them."""
        stream, graph = self._stream, self._bound.graphs.graph
        stopwatch.mark(0, stream)
        for item in self._staged_inputs:
            item.enqueue(stream)
        stopwatch.mark(1, stream)
        if graph is not None:
            graph.launch()
        else:
            self._execute(stream)
        stopwatch.mark(2, stream)
        for output in self._staged_outputs:
            output.enqueue(stream)

    def _enqueue_work(self, stream: DeviceStream) -> None:
        """Enqueue the input copies, the execution and the output copies on a stream."""
        for item in self._staged_inputs:
            item.enqueue(stream)
        self._execute(stream)
        for output in self._staged_outputs:
            output.enqueue(stream)

    def _execute(self, stream: DeviceStream) -> None:
        """Enqueue the execution; raise BackendError if TensorRT refuses."""
        with capture_log() as reasons:
            async_v3 = self._bound.native.execute_async_v3(stream.ptr)
        if not async_v3:
            raise self._execution_error(reasons)

    def _execution_error(self, reasons: Reasons) -> BaseException:
        """Return the error that explains why the engine did not run."""
        for output in self._late:
            error, output.allocator.error = output.allocator.error, None
            if error is not None:
                return error
        return reasons.error_for("run the engine")

    def _collect(self, raw: bool) -> dict[str, Any]:
        """Return the outputs of the last run."""
        if self._late and self._to_host:
            for late in self._late:
                late.begin(self._stream)
        if self._stopwatch is not None:
            self._stopwatch.mark(3, self._stream)
        if self._stopwatch is not None or (self._late and self._to_host):
            self._stream.synchronize()
        if self._stopwatch is not None:
            self.device_times = self._stopwatch.times()
        outputs: dict[str, Any]
        if raw:
            outputs = {
                name: _raw_output(output, self._to_host) for name, output in self._outputs.items()
            }
        elif self._to_host:
            outputs = {name: take() for name, take in self._takes}
        else:
            outputs = {name: output.view for name, output in self._outputs.items()}
        if self._debug is not None and (self._debug.arrays or self._debug.error):
            self._contexts.disable_capturing("every inference reads debug tensors")
            outputs.update(self._debug.take())
        return outputs

    def _arrange(self, to_host: bool) -> None:
        """Choose a context, and set the shapes and addresses of the current data."""
        self._to_host = to_host
        visitor = (to_host, *(item.identity for item in self._inputs))
        bound = self._bound = self._contexts.context_for(visitor)
        # TensorRT 8 crashes unless all shapes and addresses are set again for new shape values.
        if self._has_shape_values:
            bound.forget()
        for item in self._inputs:
            assert item.shape is not None
            bound.set_shape(item.tensor, item.shape)
        for item in self._inputs:
            if not isinstance(item, FormattedInput):
                bound.set_address(item.tensor.name, item.address)
        bound.require_shapes()
        for formatted in self._formatted:
            formatted.arrange(self._layout(formatted.tensor, formatted.shape or ()))
            bound.set_address(formatted.tensor.name, formatted.address)
        if self._scratch is not None:
            self._scratch.set_shape_memory(bound.native)
        for tensor in self._output_tensors:
            self._arrange_output(tensor)
        self._plan_copies()
        bound.note_arrangement(self._arrangement(visitor))

    def _arrangement(self, visitor: Any) -> Any:
        """Return everything that the graph of an inference depends on."""
        items = (*self._inputs, *self._outputs.values())
        scratch = 0 if self._scratch is None else self._scratch.address
        return visitor, scratch, tuple(item.addresses for item in items)

    def _arrange_output(self, tensor: IoTensor) -> None:
        """Allocate memory for an output's shape, and pass the address to TensorRT."""
        shape = self._bound.shape_of(tensor.name)
        output = self._outputs.get(tensor.name)
        if output is None:
            output = self._outputs[tensor.name] = self._create_output(tensor, shape)
        if isinstance(output, DataDependentOutput):
            return  # The output received its allocator when it was created.
        if any(dim < 0 for dim in shape):
            raise InputError(
                f"The shape of output {tensor.name!r} is unknown for this data: {shape}.",
                hint="Check the values of shape inputs.",
            )
        if isinstance(output, HostOutput):
            output.arrange(shape)
        else:
            layout = None if tensor.is_plain else self._layout(tensor, shape)
            output.arrange(shape, layout, self._address_of(tensor.aliased))
        self._bound.set_address(tensor.name, output.address)

    def _address_of(self, name: str) -> int:
        """Return the address of an input; 0 for an empty name."""
        return next((item.address for item in self._inputs if item.tensor.name == name), 0)

    def _create_output(self, tensor: IoTensor, shape: tuple[int, ...]) -> Output:
        """Return the output for a tensor: on the host, of a known shape, or of a shape that
        depends on data.
        """
        if tensor.is_on_host:
            return HostOutput(tensor)
        if all(dim >= 0 for dim in shape):
            return FixedOutput(tensor, self._device)
        if not tensor.is_plain:
            raise BackendError(
                f"Output {tensor.name!r} has a data-dependent shape and a non-linear format.",
                backend="tensorrt",
                hint="Build the engine with the linear format for that output.",
            )
        require_output_allocators(self._bound.native.engine, tensor.name)
        output = DataDependentOutput(tensor, self._device)
        if not self._bound.native.set_output_allocator(tensor.name, output.allocator.native):
            output.free()
            raise refusal_error(f"an allocator for output {tensor.name!r}", "")
        return output

    def _layout(self, tensor: IoTensor, shape: tuple[int, ...]) -> Layout:
        """Return the memory layout of a tensor."""
        if tensor.is_linear:
            strides = contiguous_strides(shape)
        else:
            strides = self._bound.strides_of(tensor.name)
        bits = int(tensor.entry.itemsize * 8)
        return Layout(shape, tensor.dtype, strides, tensor.components, tensor.vectorized_dim, bits)

    def _plan_copies(self) -> None:
        """Determine which copies every inference needs, and when."""
        items = (*self._inputs, *self._outputs.values())
        order = (self._to_host, *(item.is_staged for item in items))
        if order == self._order:
            return
        outputs = self._outputs.values()
        fixed = [output for output in outputs if isinstance(output, FixedOutput)]
        self._late = [output for output in outputs if isinstance(output, DataDependentOutput)]
        self._staged_inputs = [item for item in self._inputs if item.is_staged]
        self._staged_outputs = [item for item in fixed if item.is_staged and self._to_host]
        self._direct = [item for item in fixed if not item.is_staged and self._to_host]
        self._takes = [(name, output.take) for name, output in self._outputs.items()]
        if self._late:
            self._contexts.disable_capturing("the shapes of some outputs depend on the data")
        elif any(isinstance(output, HostOutput) for output in outputs):
            self._contexts.disable_capturing("some outputs are written on the host")
        elif self._has_shape_values:  # With them, TensorRT 8 crashes in the run after a capture.
            self._contexts.disable_capturing(
                "values of inputs are shapes, which are read on the host"
            )
        self._order = order

    def free(self) -> None:
        """Release everything; the context must not run any more."""
        self._contexts.free()
        for item in (*self._inputs, *self._outputs.values()):
            item.free()
        self._reused.free()
        if self._stopwatch is not None:
            self._stopwatch.free()


def _raw_output(output: Output, to_host: bool) -> FormattedArray:
    """Return an output in its format, from the host or the device."""
    stored = output.take_raw() if to_host else output.view
    return stored if isinstance(stored, FormattedArray) else FormattedArray(stored, output.shape)


def _missing_input_error(name: str, feed_dict: Mapping[str, Any]) -> InputError:
    """Return the error for a missing input."""
    missing = ", ".join(map(repr, feed_dict)) or "none"
    return InputError(f"The data lacks input {name!r}; it contains: {missing}.")


class Stopwatch:
    """Marks four points on a stream: before the input copies, before and after the engine, and
    after the output copies."""

    def __init__(self, device: Device) -> None:
        """Create the events; raise BackendError if that fails."""
        self._events = [device.create_event() for _ in range(4)]

    def mark(self, moment: int, stream: DeviceStream) -> None:
        """Record one of the points 0 to 3."""
        stream.record(self._events[moment])

    def times(self) -> DeviceTimes:
        """Return the times between the moments; the stream must be synchronized."""
        first, second, third, last = self._events
        return DeviceTimes(
            second.seconds_since(first), third.seconds_since(second), last.seconds_since(third)
        )

    def free(self) -> None:
        """Free the events."""
        for event in self._events:
            event.free()
