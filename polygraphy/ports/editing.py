"""What changes models, and what that needs: shapes, constants, casts, layers, parts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, Union

if TYPE_CHECKING:
    import numpy as np
    from numpy import ndarray

    from polygraphy.domain.results.lineage import Recomputed
    from polygraphy.domain.search.layers import Layer, Segment
    from polygraphy.domain.tensors.datatype import DataTypeEntry
    from polygraphy.domain.tensors.facts import Facts
    from polygraphy.domain.tensors.metadata import TensorMetadata


CalibrationCache = Union[str, Path, IO[bytes], None]


"""Where what calibration found out is kept: a path, or a file that is open for reading and writing
bytes; None for nowhere.
"""


class PrecisionCaster(Protocol):
    """Rewrites a floating-point ONNX model so that it computes in a narrower floating-point
    type.
    """

    def cast(
        self,
        model: Any,
        dtype: DataTypeEntry,
        *,
        keep_ops: Collection[str] = (),
        keep_nodes: Collection[str] = (),
    ) -> Any:
        """Cast a model; its inputs and outputs keep their data types.

        Args:
            model: an `onnx.ModelProto`; it is not changed.
            dtype: the type to compute in, such as `DataType.FLOAT16`.
            keep_ops: operator types that keep their precision.
            keep_nodes: names of nodes that keep their precision; one without a name goes by those
                of the tensors that it computes.

        Returns:
            Another `onnx.ModelProto`.

        Raises:
            ModelError: the model cannot be cast.
        """


class Quantizer(Protocol):
    """Rewrites a floating-point ONNX model into one with quantise and dequantise nodes."""

    def quantize(
        self,
        model: Any,
        calibration: Iterable[Mapping[str, Any]] | None,
        dtype: DataTypeEntry,
        *,
        method: str = "entropy",
        cache: CalibrationCache = None,
        keep_nodes: Collection[str] = (),
    ) -> Any:
        """Quantise a model.

        Args:
            model: an `onnx.ModelProto`; it is not changed.
            calibration: feed dictionaries from which value ranges are taken, or a function that
                returns such; nothing is asked of it where the cache suffices.
            dtype: the type to quantise to, such as `DataType.INT8`.
            method: how a range is chosen from the values that were seen: ``entropy``, ``minmax`` or
                ``percentile``.
            cache: where the ranges are read from if they are there, and else written to.
            keep_nodes: names of nodes whose inputs are not quantised; one without a name goes by
                those of the tensors that it computes.

        Returns:
            Another `onnx.ModelProto`.

        Raises:
            ModelError: the model cannot be quantised.
            FileError: the cache cannot be read or written.
            InputError: there is no calibration data, or it does not fit the model.
        """


class ReducibleModel(Protocol):
    """A model as a graph of nodes, which depend on nodes before them.

    Attributes:
        dependencies: the nodes that each node depends on directly.
    """

    dependencies: Sequence[Sequence[int]]

    def name(self, node: int) -> str:
        """Return what a node is called in messages."""

    def op(self, node: int) -> str:
        """Return the operator of a node."""

    def part(
        self,
        nodes: Collection[int],
        *,
        ends: Collection[int] | None = None,
        starts: Collection[int] | None = None,
    ) -> Any:
        """Return a model of some of the nodes.

        Args:
            nodes: these are kept, with the constants that they need.
            ends: the nodes whose results become the outputs (default: what others need).
            starts: the nodes whose operands become inputs, where no node that is kept makes them
                (default: all nodes). The other operands keep the values that they have when the
                whole model is run.

        Raises:
            ModelError: there is no such model: what would have to be kept is no tensor.
            BackendError: the whole model would have to be run, and cannot be.
        """

    def feed(self, part: Any) -> dict[str, ndarray[Any, Any]]:
        """Return the values that the inputs of a part have when the whole model is run."""

    def inside(self, node: int) -> tuple[Any, dict[str, ndarray[Any, Any]]] | None:
        """Return what a node computes inside, as a model, with the values of its inputs: the branch
        of a condition that is taken, or the first iteration of a loop; None where there is
        nothing inside.

        Raises:
            BackendError: the whole model would have to be run, and cannot be.
        """


class ModelReducer(Protocol):
    """Takes models of one kind apart."""

    def open(self, model: Any, data_loader: Any = None) -> ReducibleModel:
        """Look into a model.

        Args:
            model: it stays as it is.
            data_loader: where the data come from with which it is run, if it has to be
                (default: generated).
        """

    def samples(self, model: Any, data_loader: Any = None) -> Iterator[dict[str, Any]]:
        """Yield the data of each iteration, by input of the model.

        Raises:
            InputError: there are none, or they lack an input.
        """

    def save(self, model: Any, path: str) -> None:
        """Write a model to a file, whole or not at all."""

    def load(self, path: str) -> Any:
        """Read a model that was written to a file.

        Raises:
            FileError: it cannot be read.
        """


class ShapeInference(Protocol):
    """Infers data types and shapes."""

    def infer(self, model: Any) -> Any:
        """Return a model in which more tensors have a data type and a shape; `model` (an
        ``onnx.ModelProto``) stays as it is.

        Raises:
            MissingDependencyError: a package that this takes is not installed.
            BackendError: the model holds something that is not understood.
        """


class LayeredModel(Protocol):
    """A model of which nothing but the structure needs to be in memory.

    Attributes:
        inputs: names, data types and shapes of its inputs.
        outputs: every tensor that is compared, in the order in which the model computes them.
        resident_weights: bytes of weights that it holds in memory.
    """

    inputs: TensorMetadata
    outputs: Sequence[str]
    resident_weights: int

    def facts(self) -> Facts:
        """Return what the model tells without being run."""

    def layers(self, shapes: Mapping[str, Sequence[int]]) -> list[Layer]:
        """Describe the nodes of the graph, in order, for inputs of these shapes."""

    def fixed(self) -> Collection[str]:
        """Return the tensors that cannot be handed from one segment to another: those of unknown
        type, and what is no tensor.
        """

    def whole(self) -> Any:
        """Return the model with all that is compared as its outputs, to be run in one piece."""

    def unmarked(self) -> Any:
        """Return the model with its own outputs alone."""

    def recompute(
        self, name: str, runs: Sequence[Mapping[str, Any]], epsilon: float
    ) -> Recomputed | None:
        """Compute a tensor from those before it; see `polygraphy.domain.results.lineage`."""

    def part(self, segment: Segment) -> Any:
        """Return a model of some of its layers, with their weights: it takes inputs of the model
        and `segment.inputs`, and makes what is compared or carried of what these layers compute.
        """


class LayeredModels(Protocol):
    """Opens models."""

    def open(self, model: Any, exclude_outputs: Sequence[str]) -> LayeredModel:
        """Read the structure of a model.

        Args:
            model: its path, the model itself (an ``onnx.ModelProto``, which stays as it is), or a
                loader, which makes a model that is changed.
            exclude_outputs: names and patterns of tensors that are not compared.

        Raises:
            FileError: the file, or one with its weights, is missing.
            ModelError: the file is no model.
            UsageError: a name does not exist, or nothing is left to compare.
        """


class ConstantEvaluator(Protocol):
    """Computes tensors of an ONNX model without inputs; constant folding asks for it."""

    def evaluate(self, model: Any, outputs: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
        """Compute tensors.

        Args:
            model: an `onnx.ModelProto` whose graph has no inputs.
            outputs: the names of the graph outputs to compute.

        Returns:
            One array per name.

        Raises:
            BackendError: an operator is not implemented, or fails.
        """
