"""Ports for changing models: shapes, constants, casts, layers, parts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, Union

from attrs import frozen

from polygraphy.binding import port

if TYPE_CHECKING:
    import numpy as np
    from numpy import ndarray

    from polygraphy.domain.checks.order import MisplacedNode
    from polygraphy.domain.model.graph import Graph, Node
    from polygraphy.domain.results.results import RecomputedTensors
    from polygraphy.domain.search.layers import Layer
    from polygraphy.domain.tensors.datatype import DataTypeEntry
    from polygraphy.domain.tensors.facts import Facts
    from polygraphy.domain.tensors.metadata import TensorMetadata
    from polygraphy.domain.tensors.shapes import Shape


CalibrationCache = Union[str, Path, IO[bytes], None]


"""Where calibration results are stored: a path, or a file that is open for reading and writing
bytes; None for nowhere."""


@port
def cast_precision(
    model: Any,
    dtype: DataTypeEntry,
    *,
    keep_ops: Collection[str] = (),
    keep_nodes: Collection[str] = (),
) -> Any:
    """Return a model cast to a data type; its inputs and outputs keep their data types.

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


@port
def quantize(
    model: Any,
    calibration: Iterable[Mapping[str, Any]] | None,
    dtype: DataTypeEntry,
    *,
    method: str = "entropy",
    cache: CalibrationCache = None,
    keep_nodes: Collection[str] = (),
) -> Any:
    """Return a copy of a model that computes in a quantized data type, with ranges from calibration
    data.

    Args:
        model: an `onnx.ModelProto`; it is not changed.
        calibration: feed dictionaries from which value ranges are determined, or a function that
            returns them; it is not called if the cache has all ranges.
        dtype: the type to quantize to, such as `DataType.INT8`.
        method: the method that chooses a range from the observed values: ``entropy``, ``minmax`` or
            ``percentile``.
        cache: the file from which the ranges are read if it exists; else they are written to it.
        keep_nodes: names of nodes whose inputs are not quantized; a node without a name is
            identified by the tensors that it computes.

    Returns:
        Another `onnx.ModelProto`.

    Raises:
        ModelError: the model cannot be quantized.
        FileError: the cache cannot be read or written.
        InputError: there is no calibration data, or it does not fit the model.
    """


@frozen
class AdoptedOpset:
    """A model that states another opset.

    Attributes:
        model: an ``onnx.ModelProto``.
        version: the opset of the model before.
        expected: the opset that it states now.
        redefined: the operators of its nodes that the two opsets define differently.
    """

    model: Any
    version: int
    expected: int
    redefined: Sequence[str]


class OpenModel(Protocol):
    """An opened model: its nodes, and parts of it as separate models.

    Attributes:
        proto: the ``onnx.ModelProto``, with the bodies of its own functions in place of their
            calls, and branches in that of If nodes, where `with_branches` made it.
        given: the same before that, in an order in which nodes can be computed.
        loadable: the form that backends load fastest: the path of the file that holds `proto` if
            it is too large to be copied, else `proto`.
        misplaced: the first node that was before one that it depends on; None if all nodes were in
            order.
    """

    proto: Any
    given: Any
    loadable: Any
    misplaced: MisplacedNode | None

    @property
    def nodes(self) -> Sequence[Node]:
        """Return the nodes, in order."""

    @property
    def graph(self) -> Graph:
        """Return the graph, with the same nodes and the values of its weights."""

    @property
    def operators(self) -> Sequence[str]:
        """Return the operator of each node."""

    @property
    def inputs(self) -> TensorMetadata:
        """Return names, data types and shapes of the inputs."""

    @property
    def outputs(self) -> Sequence[str]:
        """Return the names of the outputs."""

    @property
    def output_shapes(self) -> Mapping[str, Shape]:
        """Return the declared shapes of outputs, by name."""

    @property
    def constants(self) -> Collection[str]:
        """Return the names of the weights."""

    def facts(self) -> Facts:
        """Return the facts about the model that are known without running it."""

    def with_branches(self, conditions: Mapping[str, Any]) -> OpenModel:
        """Return the model with the taken branches in place of its If nodes,
        if their conditions are weights or are given; the model itself if no node is replaced.

        Args:
            conditions: by tensor, a boolean array of one element.
        """

    def with_all_outputs(self) -> Any:
        """Return the model with every tensor that backends can return as an output."""

    def accepts(self, name: str, array: Any, checks_shape: bool = False) -> bool:
        """Return whether an array can stand for a tensor, by its data type, and its shape if asked.
        Constants have no other values.
        """

    def isolate_nodes(
        self, values: Mapping[str, Any], *, checked: bool = False
    ) -> tuple[Any, dict[str, str]]:
        """Return a model in which every node reads given values, and the names of its outputs.
        The nodes do not read results of other nodes. The names are by tensor.

        Args:
            values: by tensor, an array of its type. Each becomes an input of the model in place of
                what its node makes, which becomes an output.
            checked: whether a tensor keeps a different shape that the model states.

        Returns:
            The model, and by tensor the name of that output.
        """

    def results_read_outside(self, nodes: Collection[int]) -> list[str]:
        """Return the results of some nodes that other nodes, or the outputs, need;
        all results if there are none.
        """

    def part(
        self,
        nodes: Collection[int],
        given_values: Mapping[str, Any] | None = None,
        outputs: Collection[str] | None = None,
        *,
        keeps_types: bool = False,
    ) -> Any:
        """Return a model of some of the nodes, with their weights.
        Tensors that they read from other nodes become inputs.

        Args:
            nodes: their positions.
            given_values: by tensor an array of its type and shape (default: those that are known).
            outputs: the tensors that become outputs (default: what `needed_of` says, as far as
                backends can hand it out).
            keeps_types: whether what the model says about tensors in between is kept.
        """

    def layers(self, shapes: Mapping[str, Sequence[int]]) -> list[Layer]:
        """Return a description of each node, in order, for inputs of these shapes."""

    def non_boundary_tensors(self) -> Collection[str]:
        """Return the tensors that cannot be passed from one part to another:
        values of unknown type, and values that are not tensors.
        """

    def recompute(
        self, name: str, runs: Sequence[Mapping[str, Any]], epsilon: float
    ) -> RecomputedTensors | None:
        """Return a tensor recomputed from the tensors before it, for each run,
        with the effect of rounding; None if it cannot be computed."""


class LayeredModel(OpenModel, Protocol):
    """A model whose weights need not be in memory; its outputs are the compared tensors, in the
    order of computation.

    Attributes:
        resident_weights: bytes of weights that it holds in memory.
    """

    resident_weights: int

    def marked_model(self) -> Any:
        """Return the model with all tensors to compare as outputs."""

    def unmarked_model(self) -> Any:
        """Return the model with only its own outputs."""


class ReducibleModel(Protocol):
    """A model as a graph of nodes, which depend on nodes before them.

    Attributes:
        dependencies: the nodes that each node depends on directly.
    """

    dependencies: Sequence[Sequence[int]]

    def name(self, node: int) -> str:
        """Return the name of a node for messages."""

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
        """Return the input values of a part, taken from a run of the whole model."""

    def inside(self, node: int) -> tuple[Any, dict[str, ndarray[Any, Any]]] | None:
        """Return a node's body as a model, and its input values; None for a node without a body.
        The body is the taken branch of a condition, or the first iteration of a loop.

        Raises:
            BackendError: the whole model would have to be run, and cannot be.
        """


@port
def open_model(model: Any, *, as_it_is: bool = False, maps_weights: bool = False) -> OpenModel:
    """Return a model prepared for editing: from a path, an ``onnx.ModelProto``, or a loader that
    returns one.

    Args:
        model: it is not changed.
        as_it_is: whether calls of functions stay, and nodes where they are.
        maps_weights: whether the large weights of a model at a path stay in their files.

    Raises:
        FileError: there is no such file.
        ModelError: it is no ONNX model.
    """


@port
def replace_nodes(model: Any, parts: Sequence[Any]) -> Any:
    """Return a copy of an ``onnx.ModelProto`` in which the nodes of other models replace those that
    compute the same tensors; their weights replace those of the same names."""


@port
def open_layered(model: Any, exclude_outputs: Sequence[str]) -> LayeredModel:
    """Return the structure of a model, layer by layer.

    Args:
        model: its path, the model itself (an ``onnx.ModelProto``, which is not changed), or a
            loader, which makes a model that is changed.
        exclude_outputs: names and patterns of tensors that are not compared.

    Raises:
        FileError: the file, or one with its weights, is missing.
        ModelError: the file is no model.
        UsageError: a name does not exist, or nothing is left to compare.
    """


@port
def open_reducible(model: Any, data_loader: Any = None) -> ReducibleModel:
    """Return a model prepared for a search for the part that fails.

    Args:
        model: it is not changed.
        data_loader: source of the data with which it is run, if it has to be
            (default: generated).
    """


@port
def samples_of(model: Any, data_loader: Any = None) -> Iterator[dict[str, Any]]:
    """Yield the input data of each iteration, by input name.

    Raises:
        InputError: there are none, or they lack an input.
    """


@port
def save_to_file(
    model: Any,
    path: str,
    *,
    external_data_path: str | None = None,
    size_threshold: int | None = None,
    all_tensors_to_one_file: bool | None = None,
) -> None:
    """Write a model to a file atomically; see `polygraphy.backend.onnx.SaveOnnx`.

    Raises:
        FileError: it cannot be written.
    """


@port
def adopt_opset(model: Any, reference: Any) -> AdoptedOpset | None:
    """Return a copy of an ``onnx.ModelProto`` that states the opset of another,
    with its nodes unchanged; None if both state the same opset, or none of the nodes is defined
    differently.
    """


@port
def move_weights(model: Any, epsilon: float, seed: int) -> Any:
    """Return a copy of a model in which each floating-point weight differs by up to half an epsilon
    of itself, at random, like after rounding.

    Args:
        model: an ``onnx.ModelProto``; it is not changed.
        epsilon: the epsilon of a data type.
        seed: of the random numbers.
    """


@port
def weight_precision(model: Any) -> str | None:
    """Return the half precision, such as ``float16``, that the float32 weights of a model were
    rounded to, as their digits show; None if they have more digits.

    Args:
        model: an ``onnx.ModelProto``.
    """


@port
def infer_symbolic_shapes(model: Any) -> Any:
    """Return a copy of an ``onnx.ModelProto`` in which more tensors have a data type and a shape.

    Raises:
        MissingDependencyError: a package that this takes is not installed.
        BackendError: the model holds something that is not understood.
    """


@port
def evaluate_constants(model: Any, outputs: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Return tensors of a model without inputs, computed in ONNX Runtime, or in the reference
    evaluator under the key ``onnx``; constant folding uses it.

    Args:
        model: an `onnx.ModelProto` whose graph has no inputs.
        outputs: the names of the graph outputs to compute.

    Returns:
        One array per name.

    Raises:
        BackendError: an operator is not implemented, or fails.
    """
