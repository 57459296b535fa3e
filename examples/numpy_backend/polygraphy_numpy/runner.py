"""The loader and the runner."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from polygraphy.backend.base import BaseLoader, BaseRunner
from polygraphy.backend.onnx import onnx_from_path
from polygraphy.common import TensorMetadata
from polygraphy.datatype import DataType
from polygraphy.exception import BackendError
from polygraphy_numpy.operators import OPERATORS

__all__ = ["Graph", "NumpyGraphFromOnnx", "NumpyRunner"]


@dataclass(frozen=True)
class Step:
    """One node: what computes it, what it reads and writes, and its attributes."""

    function: Callable[..., Any]
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Graph:
    """A model that is ready to run: weights by name, nodes in order, inputs, and the outputs with
    their data types.
    """

    weights: dict[str, np.ndarray]
    steps: list[Step]
    inputs: TensorMetadata
    outputs: dict[str, np.dtype]


class NumpyGraphFromOnnx(BaseLoader):
    """Reads an ONNX model, given as a path, as itself or as a loader of it."""

    def __init__(self, model: Any) -> None:
        """Keep the model; nothing is read before the call."""
        self._model = model

    def call_impl(self) -> Graph:
        """Return the graph.

        Raises:
            BackendError: it has operators that there are not here.
        """
        model = self._model() if callable(self._model) else self._model
        if isinstance(model, str):
            model = onnx_from_path(model)
        graph = model.graph
        lacking = sorted({node.op_type for node in graph.node} - OPERATORS.keys())
        if lacking:
            raise BackendError(
                f"The NumPy backend does not support {', '.join(lacking)}.",
                backend="numpy",
                hint=f"Supported: {', '.join(sorted(OPERATORS))}.",
            )
        weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        inputs = TensorMetadata()
        for value in graph.input:
            if value.name not in weights:
                inputs.add(value.name, _entry(value), _shape(value))
        return Graph(
            weights,
            [_step(node) for node in graph.node],
            inputs,
            {value.name: _entry(value).numpy() for value in graph.output},
        )


class NumpyRunner(BaseRunner):
    """Runs a graph, node after node."""

    outputs_are_fresh = True

    def __init__(self, graph: Any, dtype: str | None = None, name: str | None = None) -> None:
        """Wrap a graph, or a loader of one; `dtype` is that of all arithmetic on floating-point
        numbers.
        """
        super().__init__(name=name, prefix="numpy-runner")
        self._graph = graph
        self._dtype = dtype

    def activate_impl(self) -> None:
        """Load the graph, and convert its weights once."""
        self._loaded: Graph = self._graph() if callable(self._graph) else self._graph
        self._weights = {name: self._cast(array) for name, array in self._loaded.weights.items()}

    def deactivate_impl(self) -> None:
        """Let go of the graph."""
        del self._loaded, self._weights

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Describe the inputs."""
        return self._loaded.inputs

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Compute all nodes."""
        start = time.perf_counter()
        values = {**self._weights, **{name: self._cast(feed_dict[name]) for name in feed_dict}}
        for step in self._loaded.steps:
            given = [values[name] if name else None for name in step.inputs]
            values[step.outputs[0]] = step.function(*given, **step.attributes)
        outputs = {
            name: np.array(values[name], dtype=dtype)
            for name, dtype in self._loaded.outputs.items()
        }
        self.inference_time = time.perf_counter() - start
        return outputs

    def _cast(self, array: Any) -> np.ndarray:
        array = np.asarray(array)
        is_converted = self._dtype is not None and array.dtype.kind == "f"
        return array.astype(self._dtype) if is_converted else array


def _step(node: onnx.NodeProto) -> Step:
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    return Step(OPERATORS[node.op_type], list(node.input), list(node.output), attributes)


def _entry(value: onnx.ValueInfoProto) -> Any:
    return DataType.from_dtype(value.type.tensor_type.elem_type, "onnx")


def _shape(value: onnx.ValueInfoProto) -> list[Any]:
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims]
