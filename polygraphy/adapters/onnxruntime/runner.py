"""Runs models in ONNX Runtime."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from polygraphy import mod
from polygraphy.adapters.arrays.foreign import host_copy, is_on_device
from polygraphy.adapters.arrays.torch_tensors import as_torch, has_torch
from polygraphy.adapters.base.loader import Deferred, evaluate
from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.adapters.onnxruntime.binding import BoundRuns, gpu_of
from polygraphy.adapters.onnxruntime.datatype import OnnxrtDataTypes
from polygraphy.adapters.onnxruntime.errors import translated_errors
from polygraphy.adapters.onnxruntime.session import (
    facts_of,
    node_inputs,
    scalars_of,
    terminable,
)
from polygraphy.adapters.onnxruntime.values import needs_values, run_values
from polygraphy.domain.data.model_io import check_has_outputs, check_is_tensor
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, RunOptions


T = TypeVar("T")

_LONG = 0.5
"""Seconds of an inference that are too long to wait for after ctrl-C."""
_now = time.perf_counter
_ndarray = np.ndarray


@mod.export()
class OnnxrtRunner(BaseRunner):
    """Runs an ONNX Runtime session.

    Inputs are arrays of NumPy, PyTorch, CuPy, or of any library that knows DLPack or
    ``__cuda_array_interface__``; a session that computes on a GPU of NVIDIA reads what lies there
    where it is, and others are given a copy. Outputs are arrays of NumPy, or tensors of PyTorch if
    an input is one.
    """

    outputs_are_fresh = True
    leaves_inputs_alone = True

    def __init__(self, sess: Deferred[InferenceSession], name: str | None = None) -> None:
        """Wrap a session, or a loader that makes one when the runner is activated."""
        super().__init__(name=name, prefix="onnxrt-runner")
        self._session = sess
        self.sess: InferenceSession | None = None
        self._output_names: list[str] = []
        self._texts: list[str] = []
        self._narrow: dict[str, np.dtype[Any]] = {}
        self._gpu: int | None = None
        self._bound: BoundRuns | None = None

    def activate_impl(self) -> None:
        """Make the session."""
        self.sess = evaluate(self._session)
        outputs = self.sess.get_outputs()
        check_has_outputs(outputs)
        self._output_names = [output.name for output in outputs]
        self._texts = [output.name for output in outputs if output.type == "tensor(string)"]
        self._narrow = _narrow(outputs)
        self._run = partial(run_values, self.sess) if needs_values(self.sess) else self.sess.run
        self._may_take_long = True
        self._gpu = gpu_of(self.sess)

    def get_model_facts(self) -> Facts:
        """Return what the model tells, as far as the session was made by `SessionFromOnnx`."""
        assert self.sess is not None
        return facts_of(self.sess)

    def deactivate_impl(self) -> None:
        """Let go of the session."""
        bound, self._bound = self._bound, None
        if bound is not None:
            bound.free()
        self.sess = None
        del self._run

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Describe the session's inputs."""
        assert self.sess is not None
        types = OnnxrtDataTypes()
        metadata = TensorMetadata()
        for tensor in self.sess.get_inputs():
            check_is_tensor(tensor.name, tensor.type.partition("(")[0])
            # Of a scalar and of an unknown rank, ONNX Runtime says the same.
            is_known = tensor.shape or tensor.name in scalars_of(self.sess)
            shape = tensor.shape if is_known else None
            metadata.add(tensor.name, types.from_native(tensor.type), shape)
        return metadata

    def infer_impl(
        self, feed_dict: Mapping[str, Any], copy_outputs_to_host: bool | None = None
    ) -> dict[str, Any]:
        """Run the session once.

        Args:
            feed_dict: one array per input. An integer is the address of device memory.
            copy_outputs_to_host: whether outputs come back to the host, which they do unless this
                is False. Otherwise they are `polygraphy.cuda.DeviceView`, or tensors of PyTorch on
                the GPU if an input is one.

        Returns:
            One array per output; they belong to the caller.

        Raises:
            UsageError: outputs are to stay on the GPU, but the session does not compute there.
        """
        to_host = copy_outputs_to_host is not False
        for array in feed_dict.values():
            if type(array) is not _ndarray:
                return self._infer_foreign(feed_dict, to_host)
        return self._infer_plain(feed_dict) if to_host else self._infer_foreign(feed_dict, to_host)

    def _infer_plain(self, feed_dict: Mapping[str, Any]) -> dict[str, Any]:
        names = self._output_names
        try:
            if self._may_take_long:
                outputs = self._watched(partial(self._run, names, feed_dict))
            else:  # As `_measured` does: tiny models would feel its call.
                start = _now()
                outputs = self._run(names, feed_dict)
                self.inference_time = _now() - start
                self._may_take_long = self.inference_time > _LONG
        except Exception:
            with translated_errors("run", node_inputs=partial(self._node_inputs, feed_dict)):
                raise
        results = dict(zip(names, outputs))
        for name in self._texts:  # They come as arrays of objects.
            results[name] = _as_text(results[name])
        for name, dtype in self._narrow.items():
            if results[name].dtype != dtype:  # Bytes, as they lie in memory.
                results[name] = results[name].view(dtype)
        return results

    def _node_inputs(self, feed_dict: Mapping[str, Any], op: str, name: str) -> str:
        shapes = {key: np.shape(array) for key, array in feed_dict.items()}
        return node_inputs(self.sess, op, name, shapes)

    def _watched(self, run: Callable[[RunOptions], T]) -> T:
        """Run the session in a way that ctrl-C ends: the first time, and after each long one."""
        return terminable(partial(self._measured, run))

    def _measured(self, run: Callable[..., T], *options: RunOptions) -> T:
        start = _now()
        outputs = run(*options)
        self.inference_time = _now() - start
        self._may_take_long = self.inference_time > _LONG
        return outputs

    def _infer_foreign(self, feed_dict: Mapping[str, Any], to_host: bool) -> dict[str, Any]:
        """Run the session on what is not in arrays of NumPy, or leave the outputs on the GPU."""
        if self._gpu is None and not to_host:
            assert self.sess is not None
            raise UsageError(
                f"{self.name}: the outputs cannot stay on a GPU, because the session computes with"
                f" {self.sess.get_providers()[0]}, or has an input or output that is no tensor of"
                " numbers.",
                hint="Leave copy_outputs_to_host out.",
            )
        if self._gpu is None or (to_host and not any(map(is_on_device, feed_dict.values()))):
            outputs = self._infer_plain(
                {name: host_copy(name, data) for name, data in feed_dict.items()}
            )
        else:
            outputs = self._infer_bound(self._gpu, feed_dict, to_host)
        return as_torch(outputs) if has_torch(feed_dict.values()) else outputs

    def _infer_bound(self, gpu: int, feed_dict: Mapping[str, Any], to_host: bool) -> dict[str, Any]:
        if self._bound is None:
            inputs = self.get_input_metadata(use_numpy_dtypes=False)
            self._bound = BoundRuns(self.sess, gpu, inputs, self._output_names)
        run = partial(self._bound.run, feed_dict, to_host)
        with translated_errors("run"):
            return self._watched(run) if self._may_take_long else self._measured(run)


def _narrow(outputs: Sequence[Any]) -> dict[str, np.dtype[Any]]:
    """Return the data types of outputs of eight bits that ONNX Runtime may hand out as bytes."""
    entries = {tensor.name: OnnxrtDataTypes().from_native(tensor.type) for tensor in outputs}
    return {
        name: entry.numpy()
        for name, entry in entries.items()
        if entry is not None and entry.name.startswith("float8")
    }


def _as_text(objects: Any) -> Any:
    """Return an array of texts; of objects, as it was, where NumPy's texts cannot hold one: they
    lose NULs at the end.
    """
    if any(text.endswith("\0") for text in objects.flat):
        return objects
    return objects.astype(np.str_)
