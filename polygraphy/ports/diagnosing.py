"""What finds out why outputs are wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from polygraphy.domain.diagnosis.headroom import NodeLoss
    from polygraphy.domain.tensors.datatype import DataTypeEntry
    from polygraphy.domain.tensors.metadata import TensorMetadata


class NarrowModel(Protocol):
    """A float32 model, computed as hardware would that rounds at every operator.

    Attributes:
        inputs: names, data types and shapes of its inputs.
        nodes: the names of the nodes that can compute in the narrower type, in order; one without a
            name goes by the first tensor that it computes.
        users: the nodes that read what a node makes, by its name.
        bounded: the outputs whose elements lie between -1 and 1, such as probabilities.
    """

    inputs: TensorMetadata
    nodes: Sequence[str]
    users: Mapping[str, Collection[str]]
    bounded: Collection[str]

    def run(
        self, feed: Mapping[str, Any], keep: Collection[str] = ()
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Return the outputs as the model converted to the narrower type computes them.

        Args:
            feed: one array per input.
            keep: the names of nodes that stay in float32.

        Raises:
            BackendError: the model cannot be run.
        """

    def measure(
        self, feed: Mapping[str, Any]
    ) -> tuple[dict[str, np.ndarray[Any, Any]], list[NodeLoss]]:
        """Return the outputs in float32, and what each node loses alone in the narrower type.

        Raises:
            BackendError: the model cannot be run.
        """


class NarrowModels(Protocol):
    """Opens models to see what a narrower type does to them."""

    def open(self, model: Any, dtype: DataTypeEntry) -> NarrowModel:
        """Look into a model.

        Args:
            model: an ``onnx.ModelProto``, or a loader that makes one; it stays as it is.
            dtype: the narrower type, such as `DataType.FLOAT16`.

        Raises:
            ModelError: the model cannot be cast to that type.
        """
