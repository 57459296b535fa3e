"""Runs models in ONNX Runtime."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.common.loader import Deferred, evaluate
from polygraphy.adapters.common.runner import BaseRunner
from polygraphy.adapters.onnxruntime.datatype import OnnxrtDataTypes
from polygraphy.adapters.onnxruntime.errors import translated_errors
from polygraphy.adapters.onnxruntime.session import facts_of
from polygraphy.domain.facts import Facts
from polygraphy.domain.metadata import TensorMetadata
from polygraphy.domain.model_io import check_has_outputs, check_is_tensor

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

__all__ = ["OnnxrtRunner"]

numpy = mod.lazy_import("numpy")

_now = time.perf_counter


@mod.export()
class OnnxrtRunner(BaseRunner):
    """Runs an ONNX Runtime session; arrays go in and come out as NumPy arrays."""

    outputs_are_fresh = True

    def __init__(self, sess: Deferred[InferenceSession], name: str | None = None) -> None:
        """Wrap a session, or a loader that makes one when the runner is activated."""
        super().__init__(name=name, prefix="onnxrt-runner")
        self._session = sess
        self.sess: InferenceSession | None = None
        self._output_names: list[str] = []
        self._texts: list[str] = []

    def activate_impl(self) -> None:
        """Make the session."""
        self.sess = evaluate(self._session)
        outputs = self.sess.get_outputs()
        check_has_outputs(outputs)
        self._output_names = [output.name for output in outputs]
        self._texts = [output.name for output in outputs if output.type == "tensor(string)"]
        self._run = self.sess.run

    def get_model_facts(self) -> Facts:
        """Return what the model tells, as far as the session was made by `SessionFromOnnx`."""
        assert self.sess is not None
        return facts_of(self.sess)

    def deactivate_impl(self) -> None:
        """Let go of the session."""
        self.sess = None
        del self._run

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Describe the session's inputs."""
        assert self.sess is not None
        types = OnnxrtDataTypes()
        metadata = TensorMetadata()
        for tensor in self.sess.get_inputs():
            check_is_tensor(tensor.name, tensor.type.partition("(")[0])
            metadata.add(tensor.name, types.from_native(tensor.type), tensor.shape)
        return metadata

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the session once.

        Returns:
            One NumPy array per output; they belong to the caller.
        """
        names = self._output_names
        start = _now()
        try:
            outputs = self._run(names, feed_dict)
        except Exception:
            with translated_errors("run"):
                raise
        self.inference_time = _now() - start
        results = dict(zip(names, outputs))
        for name in self._texts:  # They come as arrays of objects.
            results[name] = results[name].astype(numpy.str_)
        return results
