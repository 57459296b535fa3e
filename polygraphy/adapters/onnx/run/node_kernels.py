"""Computes nodes in ONNX Runtime for which the reference evaluator is slow, or has no operator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.binding import resolve
from polygraphy.domain.errors import PolygraphyException
from polygraphy.ports.diagnosing import Compute, SuspectedParty

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

numpy = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")

_OPERATORS = frozenset({"Conv", "ConvTranspose"})
_OPSET, _IR = 17, 8
"""Opset and IR version of a model with a node of another domain; every ONNX Runtime supports them.
"""
_LARGE = 1 << 22
"""Convolutions with at least this many multiplications run in a session."""


class NodeKernels:
    """Sessions of single nodes; equal nodes share one.

    Args:
        weights: the names of weights: some operands of ONNX Runtime's operators must be weights.
    """

    def __init__(self, weights: Collection[str] = ()) -> None:
        """Start without sessions; `weights` are constant inputs."""
        self._weights = weights
        self._loaded: dict[bytes, Compute | None] = {}

    def function_for(
        self, node: NodeProto, version: int, run: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return a function that computes a node: `run`, or a session if that is faster."""
        if node.domain or node.op_type not in _OPERATORS:
            return run
        if any(attribute.ref_attr_name for attribute in node.attribute):
            return run

        def call(*inputs: Any, **options: Any) -> Any:
            """Return the outputs of the node, with ONNX Runtime if it is large."""
            values = [value for value in inputs if value is not None]
            if any(value.dtype != numpy.float32 for value in values) or _cost(*values) < _LARGE:
                return run(*inputs, **options)
            compute = self._session(node, version, len(values))
            if compute is None:
                return run(*inputs, **options)
            try:
                computed_values = compute(
                    {f"x{index}": value for index, value in enumerate(values)}
                )
            except PolygraphyException:  # The evaluator reports errors in the operands.
                return run(*inputs, **options)
            return (numpy.array(computed_values["y"]),)

        return call

    def fallback_function(self, node: NodeProto, version: int) -> Callable[..., Any]:
        """Return a function that computes a node for which the evaluator has no operator.

        Raises:
            BackendError: at the call, if ONNX Runtime lacks it too.
        """
        loaded: dict[tuple[Any, ...], Compute] = {}

        def call(*inputs: Any) -> list[Any]:
            """Return the outputs of the node, computed by ONNX Runtime."""
            arrays = {
                name: numpy.asarray(value)
                for name, value in zip(node.input, inputs)
                if name and value is not None
            }
            kinds = tuple((value.dtype, value.ndim) for value in arrays.values())
            if kinds not in loaded:
                model = _node_model(node, version, arrays, self._weights)
                loaded[kinds] = resolve(SuspectedParty, "onnxrt").load(model, plain=True)
            values = loaded[kinds](
                {name: value for name, value in arrays.items() if name not in self._weights}
            )
            # The evaluator accepts no None, not even for an omitted output.
            return [numpy.array(values[name] if name else []) for name in node.output]

        return call

    def _session(self, node: NodeProto, version: int, inputs: int) -> Compute | None:
        """Return a function that runs a node in ONNX Runtime; None if that is not possible."""
        model = _plain_node_model(node, version, inputs)
        key = model.SerializeToString(deterministic=True)
        if key not in self._loaded:
            try:
                self._loaded[key] = resolve(SuspectedParty, "onnxrt").load(model, plain=True)
            except PolygraphyException:  # The backend is not installed, or lacks this kernel.
                self._loaded[key] = None
        return self._loaded[key]


def _node_model(
    node: NodeProto, version: int, given_values: Mapping[str, Any], weights: Collection[str]
) -> ModelProto:
    """Return a model of one node, with its weights."""
    helper = onnx.helper
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim
        )
        for name, value in given_values.items()
        if name not in weights
    ]
    arrays = [
        onnx.numpy_helper.from_array(value, name)
        for name, value in given_values.items()
        if name in weights
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "kernel", inputs, outputs, arrays)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(node.domain, version)]
    model: ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=_IR)
    return model


def _cost(x: Any, weight: Any, *_: Any) -> int:
    """Return the approximate number of multiplications of a convolution."""
    return int(x.size * weight.shape[0] * prod(weight.shape[2:]))


def _plain_node_model(node: NodeProto, version: int, inputs: int) -> ModelProto:
    """Return a model of one node, without its name and its weights."""
    node_alone: NodeProto = onnx.NodeProto(op_type=node.op_type, output=["y"])
    node_alone.input.extend(f"x{index}" for index in range(inputs))
    node_alone.attribute.extend(node.attribute)
    values = [onnx.ValueInfoProto(name=name) for name in (*node_alone.input, "y")]
    for value in values:
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph([node_alone], "kernel", values[:-1], values[-1:])
    model: ModelProto = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", version)], ir_version=8
    )
    return model
