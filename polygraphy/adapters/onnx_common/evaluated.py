"""Base of runners that evaluate an ONNX graph in NumPy."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from polygraphy import mod
from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.adapters.onnx_common.messages import inputs_of, shape_of
from polygraphy.domain.data.loading import check_is_tensor, own_copy
from polygraphy.domain.errors import BackendError, PolygraphyException, UnsupportedOperatorError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata

numpy = mod.lazy_import("numpy")

_now = time.perf_counter


class NodeError(Exception):
    """An error at a node of a graph."""

    def __init__(self, node: str, error: BaseException) -> None:
        """Create the error from the description of the node, and the exception of its
        implementation."""
        super().__init__(node, error)
        self.node = node
        self.error = error


def describe_failure(error: BaseException) -> str:
    """Return an error in one line, with its node if that is known."""
    at, cause = (f"{error.node}: ", error.error) if isinstance(error, NodeError) else ("", error)
    text = " ".join(str(cause).split())
    return f"{at}{type(cause).__name__}{': ' if text else ''}{text}"


@contextmanager
def translate_errors(doing: str, *, who: str, backend: str, remedy: str) -> Iterator[None]:
    """Convert any error inside the block, which can come from the NumPy code of any operator, to
    BackendError.

    Args:
        doing: the current action, as in ``run``.
        who: evaluates it.
        backend: name of the backend.
        remedy: the advice if an operator has no implementation.
    """
    try:
        yield
    except (PolygraphyException, MemoryError):
        raise
    except Exception as error:
        cause = error.error if isinstance(error, NodeError) else error
        is_missing = isinstance(cause, NotImplementedError) or "implementation" in str(cause)
        kind = UnsupportedOperatorError if is_missing else BackendError
        raise kind(
            f"{who} could not {doing} the model: {describe_failure(error)}",
            backend=backend,
            hint=f"Unsupported operator: {remedy}" if is_missing else "",
        ) from error


class EvaluatedRunner(BaseRunner):
    """Base class of runners that evaluate an ONNX graph. A derived class sets `_evaluator` on
    activation, with the model (`proto_`), its `output_names`, and `run`."""

    outputs_are_fresh = True
    leaves_inputs_alone = True

    def __init__(self, name: str | None, prefix: str) -> None:
        """Create a runner with a name."""
        super().__init__(name=name, prefix=prefix)
        self._evaluator: Any = None

    def deactivate_impl(self) -> None:
        """Release the model."""
        self._evaluator = None

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Return names, data types and shapes of the inputs, without the initializers that older
        models list there.
        """
        metadata = TensorMetadata()
        for value in inputs_of(self._evaluator.proto_.graph):
            kind = (value.type.WhichOneof("value") or "").removesuffix("_type")
            check_is_tensor(value.name, kind)
            tensor = value.type.tensor_type
            dtype = DataType.from_dtype(tensor.elem_type, "onnx")
            metadata.add(value.name, dtype, shape_of(tensor))
        return metadata

    def declared_output_shapes(self) -> dict[str, Sequence[Any]]:
        """Return the shapes of outputs that the model declares."""
        outputs = self._evaluator.proto_.graph.output
        shapes = {value.name: shape_of(value.type.tensor_type) for value in outputs}
        return {name: shape for name, shape in shapes.items() if shape is not None}

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the outputs of one evaluation of the graph.

        Returns:
            One NumPy array per output; they belong to the caller.
        """
        # Operators may write to their inputs.
        feed = {name: own_copy(data) for name, data in feed_dict.items()}
        start = _now()
        with numpy.errstate(all="ignore"):
            outputs = self._evaluator.run(None, feed)
        self.inference_time = _now() - start
        results = dict(zip(self._evaluator.output_names, outputs))
        del outputs
        # Implementations return views of inputs and weights. They are copied one after the other,
        # so that at most one output exists twice.
        for name, output in results.items():
            is_sequence = isinstance(output, list)
            results[name] = own_copy(output) if is_sequence else numpy.array(output)
        return results
