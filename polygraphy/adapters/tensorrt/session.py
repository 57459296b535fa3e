"""An engine at work: one context, its inputs and outputs, and the shortest way through them.

What does not change from one inference to the next is done once: shapes and addresses are given to
the context when they are others than before, and when everything stays the same, what an inference
queues is captured in a CUDA graph, so that an inference is one launch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Union

from attrs import frozen

from polygraphy.adapters.tensorrt.debug_tensors import DebugTensors, listen
from polygraphy.adapters.tensorrt.formatted_input import FormattedInput
from polygraphy.adapters.tensorrt.graphs import GraphPolicy
from polygraphy.adapters.tensorrt.inputs import DeviceInput, HostInput
from polygraphy.adapters.tensorrt.layout import Layout, contiguous_strides
from polygraphy.adapters.tensorrt.logger import Reasons, watching
from polygraphy.adapters.tensorrt.memory import ReusedArrays
from polygraphy.adapters.tensorrt.outputs import DataDependentOutput, FixedOutput, HostOutput
from polygraphy.adapters.tensorrt.refusals import check_shape, refused
from polygraphy.adapters.tensorrt.scratch import Scratch
from polygraphy.adapters.tensorrt.tensors import IoTensor
from polygraphy.adapters.tensorrt.timing import DeviceTimes, Stopwatch
from polygraphy.adapters.tensorrt.torch_tensors import as_torch, has_torch
from polygraphy.domain.errors import BackendError, InputError
from polygraphy.domain.formatted import FormattedArray
from polygraphy.ports.device import Device, DeviceStream

__all__ = ["Session", "SessionOptions"]

Input = Union[DeviceInput, FormattedInput, HostInput]
Output = Union[FixedOutput, DataDependentOutput, HostOutput]

_now = time.perf_counter


@frozen
class SessionOptions:
    """How an engine is run.

    Attributes:
        profile: the optimisation profile in use.
        cuda_graph: ``auto``, ``on`` or ``off``; see `GraphPolicy`.
        is_timed: whether the device measures the parts of each inference.
    """

    profile: int = 0
    cuda_graph: str = "auto"
    is_timed: bool = False


class Session:
    """Runs a context in one optimisation profile.

    Attributes:
        seconds: how long the last inference took, copies included.
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
        """Acquire what does not depend on shapes; `scratch` is None for a context of the caller."""
        self.seconds = 0.0
        self.device_times: DeviceTimes | None = None
        self._context = context
        self._device = device
        self._stream = stream
        self._scratch = scratch
        self._profile = options.profile
        self._reused = ReusedArrays(device)
        self._inputs = [self._input(tensor) for tensor in tensors if tensor.is_input]
        self._feeds = [(item.tensor.name, item.feed) for item in self._inputs]
        self._formatted = [item for item in self._inputs if isinstance(item, FormattedInput)]
        self._has_shape_values = any(isinstance(item, HostInput) for item in self._inputs)
        self._output_tensors = [tensor for tensor in tensors if not tensor.is_input]
        self._outputs: dict[str, Output] = {}
        self._shapes: dict[str, Any] = {}  # What the context was told.
        self._addresses: dict[str, int] = {}
        self._is_arranged = False
        self._to_host = True
        self._graphs = GraphPolicy(options.cuda_graph, device, stream)
        self._debug: DebugTensors | None = None
        self._stopwatch = Stopwatch(device) if options.is_timed else None

    def _input(self, tensor: IoTensor) -> Input:
        if tensor.is_on_host:
            return HostInput(tensor)
        if not tensor.is_plain:
            return FormattedInput(tensor, self._device, self._stream)
        return DeviceInput(tensor, self._device, self._stream, self._reused)

    def show_debug_tensors(self, listener: Any = None) -> None:
        """Add debug tensors to the outputs, or show them to an `IDebugListener` instead."""
        self._graphs.drop()
        self._debug = None
        if listener is not None:
            if listen(self._context, listener):
                self._graphs.refuse("a debug listener is called in every inference")
        elif hasattr(self._context, "set_debug_listener"):
            collector = DebugTensors(self._device)
            if listen(self._context, collector.native):
                self._debug = collector

    # One inference.

    def run(
        self, feed_dict: Mapping[str, Any], to_host: bool = True, raw: bool = False
    ) -> dict[str, Any]:
        """Run the engine once.

        Args:
            feed_dict: one array per input.
            to_host: whether outputs come back as arrays of NumPy, which belong to the caller; else
                they stay on the device, in memory that the next inference overwrites.
            raw: whether outputs come as `FormattedArray`, as they lie in memory.

        Raises:
            InputError: the data do not fit the engine.
            BackendError: the engine cannot run.
        """
        start = _now()
        changed = not self._is_arranged or to_host is not self._to_host
        self._is_arranged = False  # Until it is known to be so: inputs change one by one.
        for name, feed in self._feeds:
            try:
                array = feed_dict[name]
            except KeyError:
                raise _missing(name, feed_dict) from None
            if feed(array):
                changed = True
        if changed:
            self._arrange(to_host)
        self._is_arranged = True
        for item in self._formatted:
            item.pack()
        self._queue()
        self._stream.synchronize()
        outputs = self._collect(raw)
        self.seconds = _now() - start
        if self._graphs.graph is None:
            self._graphs.was_done(self._work if self._stopwatch is None else self._execute)
        return as_torch(outputs) if has_torch(feed_dict.values()) else outputs

    def _queue(self) -> None:
        graph = self._graphs.graph
        if self._stopwatch is not None:
            self._queue_timed(self._stopwatch)
        elif graph is not None:
            graph.launch()
        else:
            self._work(self._stream)
        for output in self._direct:
            output.begin(self._stream)

    def _queue_timed(self, stopwatch: Stopwatch) -> None:
        stream, graph = self._stream, self._graphs.graph
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

    def _work(self, stream: DeviceStream) -> None:
        for item in self._staged_inputs:
            item.enqueue(stream)
        self._execute(stream)
        for output in self._staged_outputs:
            output.enqueue(stream)

    def _execute(self, stream: DeviceStream) -> None:
        with watching() as reasons:
            done = self._context.execute_async_v3(stream.ptr)
        if not done:
            raise self._not_run(reasons)

    def _not_run(self, reasons: Reasons) -> BaseException:
        for output in self._late:
            error, output.allocator.error = output.allocator.error, None
            if error is not None:
                return error
        return reasons.failed("run the engine")

    def _collect(self, raw: bool) -> dict[str, Any]:
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
            outputs = {name: _raw(output, self._to_host) for name, output in self._outputs.items()}
        elif self._to_host:
            outputs = {name: take() for name, take in self._takes}
        else:
            outputs = {name: output.view for name, output in self._outputs.items()}
        if self._debug is not None and (self._debug.arrays or self._debug.error):
            self._graphs.refuse("debug tensors are read in every inference")
            outputs.update(self._debug.taken())
        return outputs

    # When something is different.

    def _arrange(self, to_host: bool) -> None:
        """Tell the context the shapes and addresses of the data at hand."""
        self._graphs.drop()
        self._to_host = to_host
        if self._has_shape_values:  # TensorRT 8 crashes unless all is told anew with new values.
            self._shapes.clear()
            self._addresses.clear()
        for item in self._inputs:
            self._tell_shape(item)
        for item in self._inputs:
            if not isinstance(item, FormattedInput):
                self._tell_address(item.tensor.name, item.address)
        self._require_shapes()
        for formatted in self._formatted:
            formatted.arrange(self._layout(formatted.tensor, formatted.shape or ()))
            self._tell_address(formatted.tensor.name, formatted.address)
        if self._scratch is not None:
            self._scratch.shapes_changed(self._context)
        for tensor in self._output_tensors:
            self._arrange_output(tensor)
        self._sort_out()

    def _tell_shape(self, item: Input) -> None:
        name, shape = item.tensor.name, item.shape
        assert shape is not None
        if self._shapes.get(name) == shape:
            return
        check_shape(item.tensor, shape, self._profile)
        self._shapes.pop(name, None)
        with watching() as reasons:
            accepted = self._context.set_input_shape(name, shape)
        if not accepted:
            raise refused(f"shape {shape} for input {name!r}", reasons)
        self._shapes[name] = shape

    def _tell_address(self, name: str, address: int) -> None:
        if self._addresses.get(name) == address:
            return
        with watching() as reasons:
            accepted = self._context.set_tensor_address(name, address)
        if not accepted:
            raise refused(f"the address of {name!r}", reasons)
        self._addresses[name] = address

    def _require_shapes(self) -> None:
        with watching() as reasons:
            try:
                missing = self._context.infer_shapes()
            except RuntimeError as error:
                reasons.add(str(error))
                raise refused("these shapes, or these values of shapes", reasons) from error
        if missing:
            raise InputError(f"TensorRT does not know the shapes of {', '.join(missing)} yet.")

    def _arrange_output(self, tensor: IoTensor) -> None:
        shape = tuple(self._context.get_tensor_shape(tensor.name))
        output = self._outputs.get(tensor.name)
        if output is None:
            output = self._outputs[tensor.name] = self._output(tensor, shape)
        if isinstance(output, DataDependentOutput):
            return  # It got its allocator when it was made.
        if any(dim < 0 for dim in shape):
            raise InputError(
                f"These data give output {tensor.name!r} no shape: {shape}.",
                hint="See the values of the inputs that are shapes.",
            )
        if isinstance(output, HostOutput):
            output.arrange(shape)
        else:
            layout = None if tensor.is_plain else self._layout(tensor, shape)
            output.arrange(shape, layout, self._addresses.get(tensor.aliased, 0))
        self._tell_address(tensor.name, output.address)

    def _output(self, tensor: IoTensor, shape: tuple[int, ...]) -> Output:
        if tensor.is_on_host:
            return HostOutput(tensor)
        if all(dim >= 0 for dim in shape):
            return FixedOutput(tensor, self._device)
        if not tensor.is_plain:
            raise BackendError(
                f"Output {tensor.name!r} has a shape that depends on the data, in a format other"
                " than the linear one.",
                backend="tensorrt",
                hint="Build the engine with the linear format for that output.",
            )
        output = DataDependentOutput(tensor, self._device)
        if not self._context.set_output_allocator(tensor.name, output.allocator.native):
            output.free()
            raise refused(f"an allocator for output {tensor.name!r}", "")
        return output

    def _layout(self, tensor: IoTensor, shape: tuple[int, ...]) -> Layout:
        if tensor.is_linear:
            strides = contiguous_strides(shape)
        else:
            strides = tuple(self._context.get_tensor_strides(tensor.name))
        bits = int(tensor.entry.itemsize * 8)
        return Layout(shape, tensor.dtype, strides, tensor.components, tensor.vectorized_dim, bits)

    def _sort_out(self) -> None:
        """Find out which copies every inference makes, and at which point."""
        outputs = self._outputs.values()
        fixed = [output for output in outputs if isinstance(output, FixedOutput)]
        self._late = [output for output in outputs if isinstance(output, DataDependentOutput)]
        self._staged_inputs = [item for item in self._inputs if item.is_staged]
        self._staged_outputs = [item for item in fixed if item.is_staged and self._to_host]
        self._direct = [item for item in fixed if not item.is_staged and self._to_host]
        self._takes = [(name, output.take) for name, output in self._outputs.items()]
        if self._late:
            self._graphs.refuse("the shapes of some outputs depend on the data")
        elif any(isinstance(output, HostOutput) for output in outputs):
            self._graphs.refuse("some outputs are written on the host")
        elif self._has_shape_values:  # TensorRT 8 crashes in the run after a capture with them.
            self._graphs.refuse("values of inputs are shapes, which are read on the host")

    def free(self) -> None:
        """Give everything back; the context must not run any more."""
        self._graphs.drop()
        for item in (*self._inputs, *self._outputs.values()):
            item.free()
        self._reused.free()
        if self._stopwatch is not None:
            self._stopwatch.free()


def _raw(output: Output, to_host: bool) -> FormattedArray:
    stored = output.take_raw() if to_host else output.view
    return stored if isinstance(stored, FormattedArray) else FormattedArray(stored, output.shape)


def _missing(name: str, feed_dict: Mapping[str, Any]) -> InputError:
    given = ", ".join(map(repr, feed_dict)) or "none"
    return InputError(f"There are no data for input {name!r}; there are data for: {given}.")
