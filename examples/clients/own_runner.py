"""Compare your own backend with ONNX Runtime. The Comparator accepts any runner.

python own_runner.py
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from polygraphy.backend.base import BaseRunner
from polygraphy.backend.onnx import util as onnx_util
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.common import TensorMetadata
from polygraphy.comparator import Comparator, CompareFunc, DataLoader
from polygraphy.logger import G_LOGGER


def softplus_model() -> onnx.ModelProto:
    """Return a model of one operator."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])
    graph = helper.make_graph([helper.make_node("Softplus", ["x"], ["y"])], "softplus", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class SoftplusRunner(BaseRunner):
    """Computes the model in NumPy; a `scale` other than 1 gives incorrect outputs."""

    def __init__(self, model: onnx.ModelProto, scale: float = 1.0, name: str | None = None) -> None:
        super().__init__(name=name, prefix="softplus-runner")
        self._model = model
        self._scale = scale

    def activate_impl(self) -> None:
        """Prepare the runner."""
        G_LOGGER.verbose("Nothing to load.")

    def deactivate_impl(self) -> None:
        """Release the resources of `activate_impl`."""
        G_LOGGER.verbose("Nothing to free.")

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Return the inputs' types and shapes."""
        return onnx_util.get_input_metadata(self._model.graph)

    def infer_impl(self, feed_dict: dict[str, Any]) -> dict[str, Any]:
        """Compute the outputs, and note how long it took."""
        start = time.perf_counter()
        outputs = {"y": np.log1p(np.exp(feed_dict["x"])) * np.float32(self._scale)}
        self.inference_time = time.perf_counter() - start
        return outputs


def compare(scale: float = 1.0) -> bool:
    """Return whether NumPy and ONNX Runtime agree on three iterations of data."""
    model = softplus_model()
    runners = [
        OnnxrtRunner(SessionFromOnnx(model.SerializeToString())),
        SoftplusRunner(model, scale),
    ]
    data = DataLoader(iterations=3, val_range=(-4.0, 4.0))
    results = Comparator.run(runners, data_loader=data)
    compare_func = CompareFunc.simple(atol=1e-5, rtol=1e-5)
    return bool(Comparator.compare_accuracy(results, compare_func=compare_func))


if __name__ == "__main__":
    with G_LOGGER.verbosity(G_LOGGER.WARNING):
        print("equal" if compare() else "not equal")
        print("equal" if compare(scale=1.01) else "not equal")
