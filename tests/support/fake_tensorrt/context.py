"""Execution contexts of either generation, which refuse what real ones refuse."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil, prod
from typing import Any

import numpy as np

from tests.support.fake_tensorrt.engine import CommonEngine
from tests.support.fake_tensorrt.names import (
    NUMPY,
    PACKED,
    DataType,
    Dims,
    Tensor,
    TensorLocation,
    places,
)


@contextmanager
def _nothing_raised() -> Iterator[None]:
    """Run a block in which an exception ends the test, because TensorRT would lose it."""
    try:
        yield
    except BaseException as error:
        raise AssertionError("an exception went through TensorRT") from error


class CommonContext:
    needs_memory = False
    is_refused = False
    memory: tuple[int, int] | None = None
    profiler: Any = None
    enqueue_emits_profile = True
    _is_reported = True

    def __init__(self, engine: CommonEngine) -> None:
        """Create a context of an engine, with its first free profile."""
        self.engine = engine
        self.calls: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.allocators: dict[str, Any] = {}
        self.changes = 0  # Number of changes, because a graph must not be launched after a change.
        self.profile = self._first_profile()

    def _first_profile(self) -> int:
        """Return the index of the first profile."""
        return 0

    @property
    def active_optimization_profile(self) -> int:
        """Return the index of the profile in use."""
        return self.profile

    def set_optimization_profile_async(self, index: int, stream: int) -> bool:
        """Select a profile; return whether the index is valid."""
        self.calls.append("set_optimization_profile_async")
        if not 0 <= index < self.engine.num_optimization_profiles:
            self.engine.module.error(f"Profile index {index} is invalid")
            return False
        self.profile = index
        self.shapes.clear()
        self.changes += 1
        return True

    def set_input_shape(self, name: str, shape: Any) -> bool:
        """Set the shape of an input; return whether it is valid."""
        self.calls.append("set_input_shape")
        tensor = self.engine._of(name)
        if tensor is None or name in self.engine.output_names:
            return False
        shape = tuple(shape)
        if tensor.profiles:
            low, _, high = tensor.profiles[self.profile]
            inside = len(shape) == len(low) and all(
                map(lambda a, b, c: a <= b <= c, low, shape, high)
            )
        else:
            inside = shape == tensor.shape
        if not inside:
            self.engine.module.error(f"Static dimension mismatch or shape out of range: {name}")
            return False
        self.shapes[name] = shape
        self.changes += 1
        return True

    def set_tensor_address(self, name: str, address: int) -> bool:
        """Set the address of a tensor; return whether it is accepted."""
        self.calls.append("set_tensor_address")
        if self.engine._of(name) is None:
            return False
        if not address and name not in self.engine.output_names:
            self.engine.module.error(f"Null address for {name}")
            return False
        self.addresses[name] = int(address)
        self.changes += 1
        return True

    def set_output_allocator(self, name: str, allocator: Any) -> bool:
        """Set the allocator of an output; return whether the tensor exists."""
        if self.engine._of(name) is None:
            return False
        self.allocators[name] = allocator
        return True

    def _inputs(self) -> Iterator[Tensor]:
        """Yield the input tensors."""
        for name, tensor in self.engine.tensors.items():
            if name not in self.engine.output_names:
                yield tensor

    def _shape_of(self, tensor: Tensor) -> tuple[int, ...]:
        """Return the current shape of a tensor."""
        return self.shapes.get(tensor.name, tensor.shape)

    def infer_shapes(self) -> list[str]:
        """Return the names of inputs without a complete shape."""
        self.calls.append("infer_shapes")
        return [
            tensor.name
            for tensor in self._inputs()
            if -1 in self._shape_of(tensor)
            or (tensor.on_host and tensor.name not in self.addresses)
        ]

    def get_tensor_shape(self, name: str) -> Dims:
        """Return the current shape of a tensor; [81] for an unknown name."""
        tensor = self.engine._of(name)
        if tensor is None:
            return Dims((81,))
        if name not in self.engine.output_names:
            return Dims(self._shape_of(tensor))
        if tensor.data_dependent or self.infer_shapes():
            return Dims(tensor.shape)
        return Dims(np.shape(self._computed(self._zeros())[name]))

    def get_tensor_strides(self, name: str) -> Dims:
        """Return the strides of a tensor."""
        return Dims(self.engine.tensors[name].strides(tuple(self.get_tensor_shape(name))))

    def _zeros(self) -> dict[str, Any]:
        """Return zeros of the current input shapes, with the values of host inputs."""
        feed = {}
        for tensor in self._inputs():
            shape = self._shape_of(tensor)
            if tensor.on_host:
                feed[tensor.name] = self._host(self.addresses[tensor.name], tensor, shape)
            else:
                feed[tensor.name] = np.ones(shape).astype(NUMPY[tensor.dtype])
        return feed

    def _host(self, address: int, tensor: Tensor, shape: Any) -> Any:
        """Return host memory of a tensor as an array."""
        dtype = NUMPY[tensor.dtype]
        memory = (ctypes.c_uint8 * (prod(shape) * dtype.itemsize)).from_address(address)
        return np.frombuffer(memory, dtype=dtype).reshape(shape)

    def _computed(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs for inputs, in the data types of the engine."""
        made = self.engine.function(feed)
        return {
            name: np.asarray(made[name]).astype(NUMPY[self.engine.tensors[name].dtype])
            for name in self.engine.output_names
        }

    # Running.

    def execute_async_v3(self, stream_handle: int) -> bool:
        """Add an inference to a stream; return whether it was accepted."""
        self.calls.append("execute_async_v3")
        module = self.engine.module
        module.cuda.note("execute_async_v3")
        reason = self._why_not()
        if reason:
            module.error(reason)
            return False
        if module.cuda.is_capturing(stream_handle) and (
            self.allocators or not self.engine.can_capture
        ):
            module.cuda.invalidate(stream_handle)
            module.error("operation not permitted when stream is capturing")
            return False
        if self.allocators:
            return self._execute_now(stream_handle)
        addresses, shapes = dict(self.addresses), dict(self.shapes)
        hosts = {
            t.name: self._host(addresses[t.name], t, self._shape_of(t)).copy()
            for t in self._inputs()
            if t.on_host
        }
        is_captured, changes = module.cuda.is_capturing(stream_handle), self.changes

        def work() -> None:
            """Run the inference."""
            assert not is_captured or changes == self.changes, "a graph of another state"
            self._work(addresses, shapes, hosts)

        module.cuda.enqueue(stream_handle, work)
        self._is_reported = False
        if self.profiler is not None and self.enqueue_emits_profile:
            assert not is_captured, "a profiler synchronizes, which a graph cannot"
            self.report_to_profiler()
        self._show_debug_tensors(stream_handle)
        return True

    def report_to_profiler(self) -> bool:
        """Report the layer times once; return whether there is an inference to report."""
        if self.profiler is None or self._is_reported:
            self.engine.module.error("there is no inference to report")
            return False
        self._is_reported = True
        self.engine._report(self.profiler)
        return True

    def _why_not(self) -> str:
        """Return the reason why an inference cannot start; empty if it can."""
        if self.infer_shapes():
            return f"Not all shapes are specified: {self.infer_shapes()}"
        if self.needs_memory and self.memory is None:
            return "No device memory was set"
        if self.is_refused:
            return "The profile is used by another context"
        for name in self.engine.tensors:
            if name not in self.addresses and name not in self.allocators:
                return f"Neither address or allocator is set for tensor {name}"
        return ""

    def _feed(
        self, addresses: Mapping[str, int], shapes: Mapping[str, Any], hosts: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the input arrays at the addresses of an inference."""
        feed = {}
        for tensor in self._inputs():
            shape = shapes.get(tensor.name, tensor.shape)
            if tensor.on_host:
                feed[tensor.name] = hosts[tensor.name]
            else:
                feed[tensor.name] = self._read(addresses[tensor.name], tensor, shape)
        return feed

    def _work(
        self, addresses: Mapping[str, int], shapes: Mapping[str, Any], hosts: Mapping[str, Any]
    ) -> None:
        """Compute the outputs, and write them to their addresses."""
        outputs = self._computed(self._feed(addresses, shapes, hosts))
        for name, array in outputs.items():
            self._write(addresses[name], self.engine.tensors[name], array)

    def _execute_now(self, stream: int) -> bool:
        """Run an inference at once with output allocators; return whether it worked."""
        cuda = self.engine.module.cuda
        cuda.drain(stream)
        hosts = {
            t.name: self._host(self.addresses[t.name], t, self._shape_of(t))
            for t in self._inputs()
            if t.on_host
        }
        outputs = self._computed(self._feed(self.addresses, self.shapes, hosts))
        for name, array in outputs.items():
            address = self.addresses.get(name, 0)
            if name in self.allocators:
                assert not self.engine.is_old_plan, "the real one ends the process"
                size = -(-max(array.nbytes, 1) // 512) * 512
                address = self._ask(self.allocators[name], name, size, stream)
                if not address:
                    self.engine.module.error(f"reallocate_output of {name} returned null")
                    return False
                self.allocators[name].notify_shape(name, Dims(array.shape))
            self._write_later(stream, address, name, array)
        return True

    def _write_later(self, stream: int, address: int, name: str, array: Any) -> None:
        """Write an output when the stream reaches it."""
        tensor = self.engine.tensors[name]
        self.engine.module.cuda.enqueue(stream, lambda: self._write(address, tensor, array))

    def _ask(self, allocator: Any, name: str, size: int, stream: int) -> int:
        """Return the address that an output allocator returns for a size."""
        with _nothing_raised():
            return int(allocator.reallocate_output(name, None, size, 512))

    def _show_debug_tensors(self, stream: int) -> None:
        """Do nothing: this generation has no debug tensors."""

    def _read(self, address: int, tensor: Tensor, shape: Sequence[int]) -> Any:
        """Return device memory of a tensor as an array, in row-major order."""
        cuda, dtype = self.engine.module.cuda, NUMPY[tensor.dtype]
        if tensor.dtype in PACKED:
            codes = cuda.array(address, (ceil(prod(shape) / 2),), np.uint8)
            flat = np.stack([codes & 15, codes >> 4], axis=1).reshape(-1)[: prod(shape)]
            return flat.view(dtype).reshape(shape)
        if tensor.format == "LINEAR":
            return cuda.array(address, shape, dtype).copy()
        made = np.zeros(shape, dtype)
        for index, place in places(tensor, shape):
            made[index] = cuda.array(address + place * dtype.itemsize, (), dtype)
        return made

    def _write(self, address: int, tensor: Tensor, array: Any) -> None:
        """Write an array to memory in the format of a tensor."""
        cuda = self.engine.module.cuda
        if tensor.on_host:
            self._host(address, tensor, array.shape)[...] = array
        elif tensor.dtype in PACKED:
            codes = array.reshape(-1).view(np.uint8) & 15
            codes = np.append(codes, np.zeros(codes.size % 2, np.uint8))
            cuda.array(address, (codes.size // 2,), np.uint8)[...] = codes[0::2] | codes[1::2] << 4
        elif tensor.format == "LINEAR":
            cuda.array(address, array.shape, array.dtype)[...] = array
        else:
            for index, place in places(tensor, array.shape):
                cuda.array(address + place * array.itemsize, (), array.dtype)[...] = array[index]


class OldContext(CommonContext):
    _kept_profiler: Any = None

    @property
    def profiler(self) -> Any:
        """Set or return the profiler; None does not remove one."""
        return self._kept_profiler

    @profiler.setter
    def profiler(self, value: Any) -> None:
        """Set or return the profiler; None does not remove one."""
        if value is not None:  # TensorRT ignores None.
            self._kept_profiler = value

    def _first_profile(self) -> int:
        """Return the index of the first free profile, and mark it as used."""
        if self.engine.shares_profiles:
            return 0
        free = set(range(self.engine.num_optimization_profiles)) - self.engine.profiles_in_use
        if 0 not in free:
            return -1
        self.engine.profiles_in_use.add(0)
        return 0

    def set_optimization_profile_async(self, index: int, stream: int) -> bool:
        """Select a profile that no other context uses; return whether it is free."""
        is_taken = index in self.engine.profiles_in_use
        if self.needs_memory and self.memory is None and not self.engine.shares_profiles:
            assert not is_taken, "the real one ends the process"
        if not self.engine.shares_profiles and is_taken and index != self.profile:
            self.engine.module.error(f"Profile {index} has been chosen for another context")
            return False
        if self.engine.shares_profiles:
            return super().set_optimization_profile_async(index, stream)
        self.engine.profiles_in_use -= {self.profile}
        if not super().set_optimization_profile_async(index, stream):
            return False
        self.engine.profiles_in_use.add(index)
        return True

    def __del__(self) -> None:
        """Free the profile."""
        self.engine.profiles_in_use -= {self.profile}

    @property
    def device_memory(self) -> Any:
        """Set the address of the memory; it cannot be read."""
        raise AttributeError("it can only be set")

    @device_memory.setter
    def device_memory(self, address: int) -> None:
        """Set the address of the memory; it cannot be read."""
        self.memory = (address, 0)


class Context(CommonContext):
    listener: Any = None
    shows_debug_tensors = False

    def _ask(self, allocator: Any, name: str, size: int, stream: int) -> int:
        """Return the address that an asynchronous output allocator returns for a size."""
        with _nothing_raised():
            return int(allocator.reallocate_output_async(name, None, size, 512, stream))

    def set_device_memory(self, memory: int, size: int) -> None:
        """Set address and size of the memory."""
        if not self.engine._refuses("set_device_memory"):
            self.memory = (memory, size)

    def update_device_memory_size_for_shapes(self) -> int:
        """Return the bytes needed for the current shapes."""
        if self.engine._refuses("update_device_memory_size_for_shapes"):
            return 0
        return sum(prod(self._shape_of(tensor)) for tensor in self._inputs()) * 4

    def set_all_tensors_debug_state(self, flag: bool) -> bool:
        """Switch debug tensors on or off; return whether the engine supports them."""
        if self.engine.is_old_plan:
            self.engine.module.error("this engine does not support debug tensors")
            return False
        self.shows_debug_tensors = flag
        return True

    def set_debug_listener(self, listener: Any) -> bool:
        """Set the listener of debug tensors, and return True."""
        self.listener = listener
        return True

    def _show_debug_tensors(self, stream: int) -> None:
        """Compute each debug tensor, and pass it to the listener."""
        cuda = self.engine.module.cuda
        if not self.engine.debug or self.listener is None or not self.shows_debug_tensors:
            return
        cuda.drain(stream)
        feed = self._feed(self.addresses, self.shapes, {})
        for name, function in self.engine.debug.items():
            array = np.asarray(function(feed)[name], dtype=np.float32)
            _, address = cuda.cudaMalloc(max(array.nbytes, 1))
            cuda.array(address, array.shape, array.dtype)[...] = array
            with _nothing_raised():
                self.listener.process_debug_tensor(
                    address, TensorLocation.DEVICE, DataType.FLOAT, Dims(array.shape), name, stream
                )
            cuda.cudaFree(address)
