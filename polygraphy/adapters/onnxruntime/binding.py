"""Runs sessions on data that lie where the session computes, or leaves the results there, with ONNX
Runtime's I/O binding. On the CPU `session.run` copies nothing as it is, so that there is nothing to
be gained by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.arrays.foreign import device_buffer, host_array
from polygraphy.domain.errors import DataTypeConversionException, InputError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.shapes import is_shape_dynamic
from polygraphy.ports.binding import resolve
from polygraphy.ports.machine import Device, DeviceStream

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, RunOptions


numpy = mod.lazy_import("numpy")

_OF_NVIDIA = (
    "CUDAExecutionProvider",
    "NvTensorRTRTXExecutionProvider",
    "TensorrtExecutionProvider",
)
"""The providers whose memory is that of `Device`."""

_GPU, _HOST = "cuda", "cpu"


def gpu_of(session: InferenceSession) -> int | None:
    """Return the index of the GPU in whose memory a session computes first of all; None where it is
    none of `Device`, or an input or output is of a kind that has no place there: texts, sequences,
    maps and optional values.
    """
    first = session.get_providers()[0]
    tensors = [*session.get_inputs(), *session.get_outputs()]
    if first not in _OF_NVIDIA or not all(_is_numeric(tensor.type) for tensor in tensors):
        return None
    return int(session.get_provider_options().get(first, {}).get("device_id", 0))


def _is_numeric(native: str) -> bool:
    return native.startswith("tensor(") and native != "tensor(string)"


class BoundRuns:
    """Runs a session that computes on a GPU. Each result has memory of its own: no later one
    overwrites it.
    """

    def __init__(
        self,
        session: InferenceSession,
        gpu: int,
        inputs: TensorMetadata,
        outputs: Sequence[str],
        *,
        kind: str = _GPU,
    ) -> None:
        """Acquire a stream, on which the producer of the data is waited for.

        Args:
            session: the session.
            gpu: the index of its GPU.
            inputs: what it asks for.
            outputs: the names of what it gives.
            kind: what ONNX Runtime calls the memory.

        Raises:
            BackendError: there is no GPU, or no package to reach it.
        """
        self._session = session
        self._memory = (kind, gpu)
        self._gpu = gpu
        self._inputs = inputs
        self._outputs = outputs
        self._device = resolve(Device)
        self._device.require()
        with self._device.use(gpu):
            self._stream: DeviceStream = self._device.create_stream()

    def free(self) -> None:
        self._stream.free()

    def run(
        self, feed_dict: Mapping[str, Any], to_host: bool, options: RunOptions | None = None
    ) -> dict[str, Any]:
        """Run the session once.

        Args:
            feed_dict: one array per input, wherever it lies; an integer is the address of an array
                of the input's shape, which must not be dynamic.
            to_host: whether outputs are NumPy arrays; else they are views of device memory, which
                keep it.
            options: of ONNX Runtime for this run, through which another thread may end it.

        Raises:
            InputError: an array cannot be read on the GPU, or is of another data type.
        """
        with self._device.use(self._gpu):
            binding = self._session.io_binding()
            # Until the run is over, what is bound must stay where it is.
            held = [self._bind(binding, name, data) for name, data in feed_dict.items()]
            self._stream.synchronize()
            for name in self._outputs:
                binding.bind_output(name, *((_HOST, 0) if to_host else self._memory))
            binding.synchronize_inputs()
            self._session.run_with_iobinding(binding, options)
            binding.synchronize_outputs()
            del held
            if to_host:
                return dict(zip(self._outputs, binding.copy_outputs_to_cpu()))
            return {
                name: self._viewed(value)
                for name, value in zip(self._outputs, binding.get_outputs())
            }

    def _bind(self, binding: Any, name: str, data: Any) -> Any:
        """Bind the data for an input; return what keeps their memory."""
        dtype, shape = self._inputs[name]
        if isinstance(data, int):
            return self._bind_address(binding, name, data, _static(name, shape), dtype)
        found = DataType.from_dtype(data.dtype)
        if found != dtype:  # Which would be read as if it were right.
            raise InputError(
                f"Input {name!r} must have data type {dtype}, but the data have the"
                f" unexpected dtype {found}."
            )
        where = device_buffer(data, self._stream)
        if where is None:
            array = numpy.require(host_array(data), requirements=["A", "C"])
            binding.bind_cpu_input(name, array)
            return array
        address, found_shape, kept = where
        if not prod(found_shape):  # What is empty may have no address.
            binding.bind_cpu_input(name, numpy.empty(found_shape, dtype.numpy()))
            return kept
        self._bind_address(binding, name, address, found_shape, dtype)
        return kept

    def _bind_address(
        self, binding: Any, name: str, address: int, shape: Sequence[int], dtype: DataTypeEntry
    ) -> None:
        self._device.check_readable(address, self._gpu)
        binding.bind_input(name, *self._memory, _element_type(dtype), tuple(shape), address)

    def _viewed(self, value: Any) -> Any:
        dtype = DataType.from_dtype(value.data_type())
        return self._device.view(value.data_ptr(), value.shape(), dtype.numpy(), owner=value)


def _static(name: str, shape: Any) -> Sequence[int]:
    if shape is None or is_shape_dynamic(shape):
        raise InputError(
            f"The data for input {name!r} are an address, which does not tell their shape.",
            hint="Wrap it: polygraphy.cuda.DeviceView(address, shape, dtype).",
        )
    static: Sequence[int] = shape
    return static


def _element_type(dtype: DataTypeEntry) -> Any:
    """Return what ONNX Runtime takes for a data type: NumPy's own, or else the number of ONNX."""
    native = dtype.numpy()
    if native.isbuiltin == 1:
        return native
    try:
        return DataType.to_dtype(dtype, "onnx")
    except DataTypeConversionException as error:
        raise InputError(f"ONNX has no tensors of {dtype}.") from error
