"""Runs models in ONNX Runtime."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from math import ceil, prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from polygraphy import mod
from polygraphy.adapters.arrays.foreign import (
    as_torch,
    device_buffer,
    has_torch,
    host_array,
    host_copy,
    is_on_device,
    pack_bits,
    torch_from_capsule,
    unpack_bits,
)
from polygraphy.adapters.base.loader import Deferred, evaluate
from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.adapters.onnxruntime.providers import translate_errors
from polygraphy.adapters.onnxruntime.session import (
    OnnxrtDataTypes,
    are_on_host,
    facts_of,
    inputs_of_node,
    run_terminable,
    scalars_of,
)
from polygraphy.binding import resolve
from polygraphy.domain.data.loading import check_has_outputs, check_is_tensor
from polygraphy.domain.errors import DataTypeConversionException, InputError, UsageError
from polygraphy.domain.tensors import lazy_numpy as np
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import with_article
from polygraphy.domain.tensors.shapes import is_shape_dynamic
from polygraphy.ports.machine import Device
from polygraphy.ports.running import NodeProfiler

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, OrtValue, RunOptions


_OF_NVIDIA = (
    "CUDAExecutionProvider",
    "NvTensorRTRTXExecutionProvider",
    "TensorrtExecutionProvider",
)
"""The providers whose memory is that of `Device`."""

_GPU, _HOST = "cuda", "cpu"


def gpu_of(session: InferenceSession) -> int | None:
    """Return the index of the GPU that a session uses first, or None.
    The result is None without a GPU, or if an input or output, such as a string or sequence, cannot
    be in its memory.
    """
    first = session.get_providers()[0]
    tensors = [*session.get_inputs(), *session.get_outputs()]
    if first not in _OF_NVIDIA or not all(_is_numeric(tensor.type) for tensor in tensors):
        return None
    return int(session.get_provider_options().get(first, {}).get("device_id", 0))


def _is_numeric(native: str) -> bool:
    """Return whether a type of ONNX Runtime is a tensor of numbers."""
    return native.startswith("tensor(") and native != "tensor(string)"


class BoundRuns:
    """Runs a session that computes on a GPU. Each result has its own memory, which later ones do
    not overwrite.

    A binding and a session of ONNX Runtime are wrapped in Python, which takes 10 us of an
    inference; what is called each time is called on what they wrap.
    """

    def __init__(
        self, session: InferenceSession, gpu: int, inputs: TensorMetadata, *, kind: str = _GPU
    ) -> None:
        """Prepare everything that does not change from run to run.

        Args:
            session: the session.
            gpu: the index of its GPU.
            inputs: the inputs it requires.
            kind: the name of the memory in ONNX Runtime.

        Raises:
            BackendError: there is no GPU, or no package to reach it.
        """
        self._session = session
        self._memory = (kind, gpu)
        self._gpu = gpu
        self._place = onnxruntime.OrtDevice.make(kind, gpu)._get_c_device()
        self._inputs = {name: _Input(dtype, shape) for name, (dtype, shape) in inputs.items()}
        self._outputs = {tensor.name: _Output(tensor) for tensor in session.get_outputs()}
        self._idle: list[_BoundTensors] = []
        self._device = resolve(Device)
        self._device.require()
        self._whole_device = _WholeDevice(gpu)
        # On a user's stream, a run can return before its work is done.
        options = session.get_provider_options().get(session.get_providers()[0], {})
        self._may_be_queued = options.get("has_user_compute_stream", "0") != "0"

    def free(self) -> None:
        """Drop the bindings that are not in use."""
        self._idle.clear()

    def run(
        self,
        feed_dict: Mapping[str, Any],
        to_host: bool,
        options: RunOptions | None = None,
        *,
        as_torch: bool = False,
    ) -> dict[str, Any]:
        """Run the session once, and return the outputs.

        Args:
            feed_dict: one array per input, wherever it lies; an integer is the address of an array
                of the input's shape, which must not be dynamic.
            to_host: whether outputs are NumPy arrays; else they are views of device memory, which
                keep it.
            options: of ONNX Runtime for this run, through which another thread may end it.
            as_torch: whether outputs that stay on the device are tensors of PyTorch, as far as
                PyTorch has their data types.

        Raises:
            InputError: an array cannot be read on the GPU, or is of another data type.
        """
        if self._device.current() != self._gpu:
            with self._device.use(self._gpu):
                return self._run_bound(feed_dict, to_host, options, as_torch)
        return self._run_bound(feed_dict, to_host, options, as_torch)

    def _run_bound(
        self, feed_dict: Mapping[str, Any], to_host: bool, options: Any, as_torch: bool
    ) -> dict[str, Any]:
        # Another thread may run at the same time, so each run reserves its binding.
        """Run with bound inputs and outputs, and return the outputs on the host or the device."""
        bound = self._idle.pop() if self._idle else _BoundTensors(self._session.io_binding(), {})
        native = bound.binding._iobinding
        # Keep these objects until the run ends, because they own the bound memory.
        inputs = [self._bind_input(bound, name, data) for name, data in feed_dict.items()]
        for name in self._outputs:
            native.bind_output(name, self._place)
        # Earlier work on the device may still write the inputs, or read memory that this run
        # writes.
        self._device.synchronize()
        self._session._sess.run_with_iobinding(native, options)
        if self._may_be_queued:
            self._device.synchronize()
        del inputs
        values = native.get_outputs()
        results = {}
        for at, (name, output) in enumerate(self._outputs.items()):
            if to_host:
                results[name] = self._to_host(output, values[at])
            else:
                results[name] = self._on_device(output, values[at], as_torch)
        native.clear_binding_outputs()  # The arrays belong to the caller, who may delete them.
        self._idle.append(bound)
        return results

    def _to_host(self, output: _Output, value: Any) -> Any:
        """Return an output as a host array."""
        return value.numpy() if output.is_numpys else self._view(output, value).numpy()

    def _on_device(self, output: _Output, value: Any, as_torch: bool) -> Any:
        """Return an output on the device: a PyTorch tensor if requested, else a view."""
        if as_torch and output.has_dlpack and hasattr(value, "to_dlpack"):
            return torch_from_capsule(value.to_dlpack())
        return self._view(output, value)

    def _view(self, output: _Output, value: Any) -> Any:
        """Return a view of the device memory of an output."""
        owner = onnxruntime.OrtValue(value)
        return self._device.view(value.data_ptr(), owner.shape(), output.numpy_dtype, owner=owner)

    def _bind_input(self, bound: _BoundTensors, name: str, data: Any) -> Any:
        """Bind the data for an input, and return the object that keeps their memory;
        data at the last address are not bound again.
        """
        expected = self._inputs[name]
        if isinstance(data, int):
            self._device.check_readable(data, self._gpu)
            shape = _require_static(name, expected.shape)
            self._bind_address(bound, name, expected, data, tuple(shape))
            return data
        expected.check(name, data.dtype)
        where = device_buffer(data, self._whole_device)
        if where is None:
            array = np.require(host_array(data), requirements=["A", "C"])
            bound.places.pop(name, None)
            bound.binding.bind_cpu_input(name, array)
            return array
        address, bound_shape, input_shape = where
        if not prod(bound_shape):  # An empty array may have no address.
            bound.places.pop(name, None)
            empty = np.empty(bound_shape, expected.dtype.numpy())
            bound.binding.bind_cpu_input(name, empty)
            return input_shape, empty
        if bound.places.get(name) != (address, bound_shape):
            self._device.check_readable(address, self._gpu)
            self._bind_address(bound, name, expected, address, bound_shape)
        return input_shape

    def _bind_address(
        self,
        bound: _BoundTensors,
        name: str,
        expected: _Input,
        address: int,
        shape: tuple[int, ...],
    ) -> None:
        """Bind an input to data at a device address."""
        bound.places[name] = address, shape
        element_type = expected.element_type
        bound.binding.bind_input(name, *self._memory, element_type, shape, address)


class _WholeDevice:
    """Replaces a stream if the whole device is synchronized instead."""

    ptr = 1  # The default stream, which all libraries accept.

    def __init__(self, device: int) -> None:
        """Set the number of the device."""
        self.device = device

    def wait_for(self, stream: int) -> None:
        """Do nothing, because the device is synchronized anyway."""


class _BoundTensors(NamedTuple):
    """A binding, with the addresses and shapes bound in it, by input."""

    binding: Any
    places: dict[str, tuple[int, tuple[int, ...]]]


class _Input:
    """The requirements of a session for an input, looked up once."""

    def __init__(self, dtype: DataTypeEntry, shape: Any) -> None:
        """Set data type and shape of the input."""
        self.dtype = dtype
        self.shape = shape
        self._allowed: set[Any] = set()

    @cached_property
    def element_type(self) -> Any:
        """Return the element type that ONNX Runtime binds."""
        return _element_type(self.dtype)

    def check(self, name: str, dtype: Any) -> None:
        """Raise InputError for data of a different type, whose bytes would be misread."""
        if dtype in self._allowed:
            return
        given_dtype = DataType.from_dtype(dtype)
        if given_dtype != self.dtype:
            raise InputError(
                f"Input {name!r} must have data type {self.dtype}, but the data has the"
                f" unexpected dtype {given_dtype}."
            )
        self._allowed.add(dtype)


_DLPACK = ("f", "i", "u")
"""Kinds of NumPy's own data types that look the same in DLPack: bool arrives as bytes."""


class _Output:
    """The properties of an output of a session, looked up once."""

    def __init__(self, tensor: Any) -> None:
        """Look up the properties of an output."""
        dtype = DataType.from_dtype(tensor.type)
        self.numpy_dtype = dtype.numpy()
        self.is_numpys = _is_numpy_dtype(dtype)
        self.has_dlpack = self.is_numpys and self.numpy_dtype.kind in _DLPACK


def _require_static(name: str, shape: Any) -> Sequence[int]:
    """Return a shape; raise InputError if it is unknown or dynamic."""
    if shape is None or is_shape_dynamic(shape):
        raise InputError(
            f"The data for input {name!r} is an address without a shape.",
            hint="Wrap it: polygraphy.cuda.DeviceView(address, shape, dtype).",
        )
    static: Sequence[int] = shape
    return static


def _element_type(dtype: DataTypeEntry) -> Any:
    """Return the type that ONNX Runtime binds for a data type:
    NumPy's own, or the number of ONNX.
    """
    native = dtype.numpy()
    if native.isbuiltin == 1:
        return native
    try:
        return DataType.to_dtype(dtype, "onnx")
    except DataTypeConversionException as error:
        raise InputError(f"ONNX has no tensors of {dtype}.") from error


onnxruntime = mod.lazy_import("onnxruntime")

_TYPES = OnnxrtDataTypes()


def needs_values(session: InferenceSession) -> bool:
    """Return whether an input or output has a data type that is not one of NumPy's own."""
    dtypes = (
        _TYPES.from_native(tensor.type)
        for tensor in (*session.get_inputs(), *session.get_outputs())
    )
    return any(dtype is not None and not _is_numpy_dtype(dtype) for dtype in dtypes)


def run_values(
    session: InferenceSession,
    names: Sequence[str],
    feed_dict: Mapping[str, Any],
    options: RunOptions | None = None,
) -> list[Any]:
    """Return the outputs of a session, like ``session.run``, for any data type."""
    binding = session.io_binding()
    # Keep these objects until the run ends, because they own the bound memory.
    rows = [(name, *value_of(array)) for name, array in feed_dict.items()]
    for name, value, _ in rows:
        binding.bind_ortvalue_input(name, value)
    for name in names:
        binding.bind_output(name, "cpu")
    session.run_with_iobinding(binding, options)
    del rows
    return [_array_of(value) for value in binding.get_outputs()]


def _run_function(session: InferenceSession) -> Callable[..., list[Any]]:
    """Return the function that runs a session, given output names and a feed dictionary."""
    return partial(run_values, session) if needs_values(session) else session.run


def _is_numpy_dtype(dtype: DataTypeEntry) -> bool:
    """Return whether NumPy itself has a data type, ml_dtypes not included."""
    return dtype == DataType.STRING or dtype.numpy().isbuiltin == 1


def value_of(array: Any) -> tuple[OrtValue, Any]:
    """Return a value with the elements of an array, and the object that owns their memory."""
    dtype = DataType.from_dtype(array.dtype)
    if _is_numpy_dtype(dtype):
        contiguous = np.require(array, requirements=["C"])
        return onnxruntime.OrtValue.ortvalue_from_numpy(contiguous), contiguous
    data = np.require(_bytes_of(array, dtype), requirements=["C", "A"])
    number = DataType.to_dtype(dtype, "onnx")
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(array.shape, number)
    if data.nbytes:
        ctypes.memmove(value.data_ptr(), data.ctypes.data, data.nbytes)
    return value, data


def _bytes_of(array: Any, dtype: DataTypeEntry) -> Any:
    """Return the bytes of an array as the model stores them; 4-bit values are packed."""
    if dtype.itemsize < 1:
        return pack_bits(array, round(8 * dtype.itemsize))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _array_of(value: OrtValue) -> Any:
    """Return the elements of a value in host memory."""
    dtype = _TYPES.from_native(value.data_type())
    if dtype is None or _is_numpy_dtype(dtype):
        return value.numpy()
    shape = tuple(value.shape())
    nbytes = ceil(prod(shape) * dtype.itemsize)
    raw = np.frombuffer(ctypes.string_at(value.data_ptr(), nbytes) if nbytes else b"", np.uint8)
    native = dtype.numpy()
    if dtype.itemsize < 1:
        return unpack_bits(raw, round(8 * dtype.itemsize), native, prod(shape)).reshape(shape)
    return raw.view(native).copy().reshape(shape)


T = TypeVar("T")

_LONG = 0.5
"""Seconds of an inference that are too long to wait for after ctrl-C."""
_now = time.perf_counter


@mod.export()
class OnnxrtRunner(BaseRunner):
    """Runs an ONNX Runtime session.

    Inputs are arrays of NumPy, PyTorch, CuPy, or of any library that knows DLPack or
    ``__cuda_array_interface__``; a session on an NVIDIA GPU reads arrays on that GPU in place;
    other sessions receive a copy. Outputs are arrays of NumPy, or tensors of PyTorch if an input is
    one.
    """

    outputs_are_fresh = True
    leaves_inputs_alone = True

    def __init__(self, sess: Deferred[InferenceSession], name: str | None = None) -> None:
        """Create a runner of a session, or of the session that a loader returns on activation."""
        super().__init__(name=name, prefix="onnxrt-runner")
        self._session = sess
        self.sess: InferenceSession | None = None
        self._output_names: list[str] = []
        self._texts: list[str] = []
        self._byte_output_dtypes: dict[str, np.dtype[Any]] = {}
        self._gpu: int | None = None
        self._bound: BoundRuns | None = None

    def activate_impl(self) -> None:
        """Create the session."""
        session = evaluate(self._session)
        if not hasattr(session, "get_outputs"):
            kind = with_article(type(session).__name__)
            raise UsageError(
                f"A session of ONNX Runtime is required, not {kind}.",
                hint="Pass SessionFromOnnx(model), with a path or a model.",
            )
        self.sess = session
        outputs = session.get_outputs()
        check_has_outputs(outputs)
        self._output_names = [output.name for output in outputs]
        self._texts = [output.name for output in outputs if output.type == "tensor(string)"]
        self._byte_output_dtypes = _byte_output_dtypes(outputs)
        self._run = _run_function(self.sess)
        self._may_take_long = True
        self._gpu = gpu_of(self.sess)

    def declared_output_shapes(self) -> dict[str, Sequence[Any]]:
        """Return the shapes of outputs that the model declares."""
        assert self.sess is not None
        # ONNX Runtime reports scalars and unknown ranks in the same way.
        return {output.name: output.shape for output in self.sess.get_outputs() if output.shape}

    @property
    def uses_device(self) -> bool:
        """Return whether the session computes on a device."""
        assert self.sess is not None
        return not are_on_host(self.sess.get_providers()[:1])

    def get_model_facts(self) -> Facts:
        """Return the facts about the model.
        It returns empty facts if `SessionFromOnnx` did not create the session.
        """
        assert self.sess is not None
        return facts_of(self.sess)

    def open_profiler(self) -> NodeProfiler:
        """Return a profiler with a new session of the same model; only while active.

        Raises:
            BackendError: the session was created elsewhere, and does not keep its model.
        """
        from polygraphy.adapters.onnxruntime.profiling import SessionProfiler

        assert self.sess is not None
        return SessionProfiler(self._session, self.sess, _run_function)

    def deactivate_impl(self) -> None:
        """Release the session."""
        bound, self._bound = self._bound, None
        if bound is not None:
            bound.free()
        self.sess = None
        del self._run

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Return the metadata of the session's inputs."""
        assert self.sess is not None
        types = OnnxrtDataTypes()
        metadata = TensorMetadata()
        for tensor in self.sess.get_inputs():
            check_is_tensor(tensor.name, tensor.type.partition("(")[0])
            # ONNX Runtime reports scalars and unknown ranks in the same way.
            is_known = tensor.shape or tensor.name in scalars_of(self.sess)
            shape = tensor.shape if is_known else None
            metadata.add(tensor.name, types.from_native(tensor.type), shape)
        return metadata

    def infer_impl(
        self, feed_dict: Mapping[str, Any], copy_outputs_to_host: bool | None = None
    ) -> dict[str, Any]:
        """Run the session once and return its outputs.

        Args:
            feed_dict: one array per input. An integer is the address of device memory.
            copy_outputs_to_host: whether outputs are copied to the host (default: True). If False,
                they are `polygraphy.cuda.DeviceView`, or PyTorch tensors on the GPU if an input is
                one.

        Returns:
            One array per output; they belong to the caller.

        Raises:
            UsageError: outputs must stay on the GPU, but the session does not compute there.
        """
        to_host = copy_outputs_to_host is not False
        for array in feed_dict.values():
            if type(array) is not np.ndarray:
                return self._infer_foreign(feed_dict, to_host)
        return self._infer_plain(feed_dict) if to_host else self._infer_foreign(feed_dict, to_host)

    def _infer_plain(self, feed_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs, computed without binding to a device."""
        names = self._output_names
        try:
            if self._may_take_long:
                outputs = self._run_interruptibly(partial(self._run, names, feed_dict))
            else:
                # The same as `_measure_run`, but inlined, because the call would slow down tiny
                # models.
                start = _now()
                outputs = self._run(names, feed_dict)
                self.inference_time = _now() - start
                self._may_take_long = self.inference_time > _LONG
        except Exception:
            node_inputs = partial(self._node_inputs, feed_dict)
            with translate_errors("run", node_inputs=node_inputs, uses_device=self._uses_device):
                raise
        results = dict(zip(names, outputs))
        for name in self._texts:  # ONNX Runtime returns strings as arrays of objects.
            results[name] = _as_string_array(results[name])
        for name, dtype in self._byte_output_dtypes.items():
            if results[name].dtype != dtype:
                # ONNX Runtime returns data types that NumPy lacks as bytes.
                results[name] = results[name].view(dtype)
        return results

    def _node_inputs(self, feed_dict: Mapping[str, Any], op: str, name: str) -> str:
        """Return the text about the inputs of a node for an error message."""
        shapes = {key: np.shape(array) for key, array in feed_dict.items()}
        return inputs_of_node(self.sess, op, name, shapes)

    def _run_interruptibly(self, run: Callable[[RunOptions], T]) -> T:
        """Return the outputs of a run that Ctrl-C can end: the first run, and each run after a long
        one."""
        return run_terminable(partial(self._measure_run, run))

    def _measure_run(self, run: Callable[..., T], *options: RunOptions) -> T:
        """Return the outputs of a run, and record its time."""
        start = _now()
        outputs = run(*options)
        self.inference_time = _now() - start
        self._may_take_long = self.inference_time > _LONG
        return outputs

    def _infer_foreign(self, feed_dict: Mapping[str, Any], to_host: bool) -> dict[str, Any]:
        """Return the outputs for inputs that are not NumPy arrays, or with outputs that stay on the
        GPU.
        """
        wants_torch = has_torch(feed_dict.values())
        if self._gpu is None and not to_host:
            assert self.sess is not None
            raise UsageError(
                f"{self.name}: the outputs cannot stay on a GPU, because the session uses"
                f" {self.sess.get_providers()[0]}, or has an input or output that is not a"
                " numeric tensor.",
                hint="Remove copy_outputs_to_host.",
            )
        if self._gpu is None or (to_host and not any(map(is_on_device, feed_dict.values()))):
            outputs = self._infer_plain(
                {name: host_copy(name, data) for name, data in feed_dict.items()}
            )
        else:
            outputs = self._infer_bound(self._gpu, feed_dict, to_host, wants_torch)
        return as_torch(outputs) if wants_torch else outputs

    def _infer_bound(
        self, gpu: int, feed_dict: Mapping[str, Any], to_host: bool, as_torch: bool
    ) -> dict[str, Any]:
        """Return the outputs, computed with inputs and outputs bound to a GPU."""
        if self._bound is None:
            inputs = self.get_input_metadata(use_numpy_dtypes=False)
            self._bound = BoundRuns(self.sess, gpu, inputs)
        run = partial(self._bound.run, feed_dict, to_host, as_torch=as_torch)
        try:
            return self._run_interruptibly(run) if self._may_take_long else self._measure_run(run)
        except Exception:
            with translate_errors("run", uses_device=self._uses_device):
                raise

    def _uses_device(self) -> bool:
        """Return whether a provider of the session has memory of its own."""
        return self.sess is not None and not are_on_host(self.sess.get_providers())


def _byte_output_dtypes(outputs: Sequence[Any]) -> dict[str, np.dtype[Any]]:
    """Return the data types of 8-bit outputs that ONNX Runtime may return as bytes."""
    entries = {tensor.name: OnnxrtDataTypes().from_native(tensor.type) for tensor in outputs}
    return {
        name: entry.numpy()
        for name, entry in entries.items()
        if entry is not None and entry.name.startswith("float8")
    }


def _as_string_array(objects: Any) -> Any:
    """Return an array of strings; of objects if NumPy's strings would lose final NULs."""
    if any(text.endswith("\0") for text in objects.flat):
        return objects
    return objects.astype(np.str_)
