"""The parts of a model, as they stand in its file.

A description is read once and never changed. How much of it there is was chosen when it was read
(`polygraphy.domain.model.source.Detail`): nodes, attributes and the elements of weights may be left
out, while their numbers are always known.

Tensors whose shape depends on data without any limit.

Some operators make a tensor as large as the elements of another say: a run-time number in `Range`
may ask for any amount of memory, and TensorRT cannot plan for it. (`NonZero` and its kind depend on
data, too, but never make more than their input has.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import Factory, evolve, field, frozen

from polygraphy.binding import port
from polygraphy.domain.tensors.naming import matching, one_line
from polygraphy.domain.tensors.shapes import Dim


@frozen
class Tensor:
    """A tensor that exists when the model runs.

    Attributes:
        name: its name in its graph.
        dtype: name of the data type, such as ``float32`` or ``sequence(int64)``; None if unknown.
        shape: its dimensions: numbers, names, or None where nothing is known; None if even the
            rank is unknown.
    """

    name: str
    dtype: str | None = None
    shape: tuple[Dim, ...] | None = None


@frozen
class Weight:
    """A tensor whose elements are part of the model.

    Attributes:
        name: its name in its graph.
        dtype: name of the data type; None if unknown.
        shape: its dimensions.
        nbytes: how many bytes the elements take; 0 for texts.
        location: the file that holds the elements, as the model names it; None for the model's own.
    """

    name: str
    dtype: str | None
    shape: tuple[int, ...]
    nbytes: int = 0
    location: str | None = None
    _values: Any = field(default=None, eq=False, repr=False, alias="values")

    @property
    def values(self) -> Any:
        """Return the elements; a weight with a reader reads them from the file on each access."""
        return self._values() if callable(self._values) else self._values


@frozen
class Attribute:
    """A constant of a node.

    Attributes:
        name: its name.
        kind: what the value is: ``int``, ``float``, ``string``, ``dtype``, ``tensor``, ``graph``,
            ``type`` or ``reference`` (to an attribute of the function), or one of the former with
            an ``s``.
        value: numbers, texts, `Weight` and `Graph` objects, or tuples of these.
        is_default: whether the operator means the same without it.
    """

    name: str
    kind: str
    value: Any
    is_default: bool = field(default=False, eq=False)


_IN_TRACE = re.compile(r'^ *File "(.+?)", line (\d+)', re.MULTILINE)
"""A frame of a Python traceback, of which the last one is the innermost."""
_OF_TORCH = re.compile(r"[/\\]torch[/\\](?:nn|jit|onnx|export|fx|utils|autograd|_)")
"""Frames in which PyTorch calls what the program consists of, or computes it."""
_LONGEST = 200


def frames_in(traceback: str) -> list[tuple[str, str]]:
    """Return the files and lines of a Python traceback, the innermost first."""
    return _IN_TRACE.findall(traceback)[::-1]


@frozen
class Origin:
    """The place in the source program of a node, as far as its exporter recorded it.

    Attributes:
        path: the file of the program.
        line: the line, from 1.
        scope: the module that the line computes a part of, such as ``blocks.0.f``; empty where that
            is not known.
    """

    path: str
    line: int
    scope: str = ""

    @classmethod
    def of(cls, frames: Sequence[tuple[str, str]], scope: str) -> Origin | None:
        """Return the innermost source frame outside PyTorch; None if there are no frames.

        Args:
            frames: files and lines, the innermost first.
            scope: the module.
        """
        if not frames:
            return None
        path, line = next((frame for frame in frames if not _OF_TORCH.search(frame[0])), frames[0])
        return cls(one_line(path), int(line[:9]), one_line(scope)[:_LONGEST])

    def __str__(self) -> str:
        """Return the place as text: file, line and scope."""
        name = self.path.replace("\\", "/").rpartition("/")[2]
        return f"{name}:{self.line}" + (f" ({self.scope})" if self.scope else "")


@frozen(slots=False)  # A large model has tens of thousands, and these are made in half the time.
class Node:
    """One operation: the names of its inputs and outputs; an omitted input has an empty name."""

    name: str
    op: str
    domain: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    origin: Origin | None = field(default=None, eq=False)

    @property
    def label(self) -> str:
        """Return the name of the node, or its first output if it has no name."""
        return self.name or next(filter(None, self.outputs), "")

    @property
    def graphs(self) -> Iterator[Graph]:
        """Return the subgraphs of the node."""
        for attribute in self.attributes:
            if attribute.kind == "graph":
                yield attribute.value
            elif attribute.kind == "graphs":
                yield from attribute.value

    def reads(self) -> Iterator[str]:
        """Yield the tensors that the node reads, and the outer tensors that its subgraphs read."""
        yield from filter(None, self.inputs)
        for graph in self.graphs:
            names = {tensor.name for tensor in graph.inputs}
            names.update(weight.name for weight in graph.weights)
            names.update(name for node in graph.nodes for name in node.outputs)
            for node in graph.nodes:
                yield from (name for name in node.reads() if name not in names)
            yield from (tensor.name for tensor in graph.outputs if tensor.name not in names)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or `default` if the node does not have it."""
        return next(
            (attribute.value for attribute in self.attributes if attribute.name == name), default
        )


_NUMBERS = {
    "value_float": ("float32", 4),
    "value_floats": ("float32", 4),
    "value_int": ("int64", 8),
    "value_ints": ("int64", 8),
    "value_string": ("string", 0),
    "value_strings": ("string", 0),
}
"""The data type of the attributes of a Constant, and how many bytes an element takes."""


def constant_weight(node: Node) -> Weight | None:
    """Return the weight that a Constant node holds, named after its output; None for other nodes,
    or if a caller supplies the value.
    """
    if node.op != "Constant" or node.domain not in ("", "ai.onnx") or len(node.outputs) != 1:
        return None
    for attribute in node.attributes:
        if attribute.kind == "tensor":
            weight: Weight = attribute.value
            return evolve(weight, name=node.outputs[0])
        if attribute.name in _NUMBERS and attribute.kind != "reference":
            dtype, itemsize = _NUMBERS[attribute.name]
            shape = (len(attribute.value),) if attribute.name.endswith("s") else ()
            import numpy as np  # Reading names and shapes starts without it.

            values = np.array(attribute.value, object if dtype == "string" else dtype)
            return Weight(node.outputs[0], dtype, shape, values.size * itemsize, values=values)
    return None


@frozen
class Graph:
    """Nodes in the order of the file, and the tensors between them.

    Attributes:
        tensors: what the file says, or inference found, about tensors by name; of inputs and
            outputs, too.
        node_count: how many nodes there are, even where `nodes` was not asked for.
        quantization: how tensors are quantized, by name, such as ``SCALE_TENSOR=x_scale``.
    """

    name: str = ""
    doc: str = ""
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    weights: tuple[Weight, ...] = ()
    node_count: int = 0
    nodes: tuple[Node, ...] = ()
    tensors: Mapping[str, Tensor] = field(factory=dict, repr=False)
    quantization: Mapping[str, tuple[str, ...]] = field(factory=dict, repr=False)

    @property
    def all_weights(self) -> tuple[Weight, ...]:
        """Return the initializers and the weights in Constant nodes (those need attributes)."""
        constant_weights = (constant_weight(node) for node in self.nodes)
        return self.weights + tuple(weight for weight in constant_weights if weight is not None)

    @property
    def makers(self) -> dict[str, Node]:
        """Return, by tensor, the node that computes it."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    def walk(self) -> Iterator[Graph]:
        """Yield this graph and every graph inside its nodes, from the outside to the inside."""
        yield self
        for node in self.nodes:
            for inner in node.graphs:
                yield from inner.walk()


@frozen
class Function:
    """An operator that the model itself defines."""

    name: str
    domain: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    node_count: int = 0
    nodes: tuple[Node, ...] = ()


@frozen(repr=False)
class Model:
    """A model file.

    Attributes:
        path: the file.
        graph: the main graph.
        opsets: versions of operator sets by domain; the standard one's domain is empty.
        ir_version: version of the file format.
        producer: what wrote the file, and its version.
        functions: operators that the model defines.
        metadata: texts that its author attached.
    """

    path: str
    graph: Graph
    opsets: Mapping[str, int] = Factory(dict)
    ir_version: int = 0
    producer: str = ""
    functions: tuple[Function, ...] = ()
    metadata: Mapping[str, str] = Factory(dict)

    def __repr__(self) -> str:
        """Return a one-line summary, because a graph may have thousands of nodes."""
        return f"Model({self.path!r}, {self.graph.node_count} nodes)"

    def _repr_html_(self) -> str:
        """Return the model as notebooks show it."""
        return model_html(self)


@frozen
class TensorFlowGraph:
    """A TensorFlow graph, its variables turned into constants.

    Attributes:
        path: the file or folder.
        kind: its type: ``frozen``, ``keras``, ``saved-model`` or ``ckpt``.
        graph: operations as nodes, constants as weights; tensors are called ``operation:number``.
    """

    path: str
    kind: str
    graph: Graph


@frozen
class TensorUse:
    """One tensor of a graph.

    Attributes:
        tensor: name, data type and shape.
        producer: ``input``, or the node that computes it.
        consumers: how many operands of nodes it is.
        is_output: whether it is an output of the graph.
    """

    tensor: Tensor
    producer: str
    consumers: int = 0
    is_output: bool = False


def tensor_uses(graph: Graph) -> list[TensorUse]:
    """Return the uses of inputs and computed tensors, in graph order.

    Args:
        graph: a graph that was read with its layers.
    """
    outputs = {tensor.name for tensor in graph.outputs}
    counts: dict[str, int] = {}
    for node in graph.nodes:
        for name in node.inputs:
            counts[name] = counts.get(name, 0) + 1
    uses = [TensorUse(tensor, "input") for tensor in graph.inputs]
    for index, node in enumerate(graph.nodes):
        producer = f"Node {index} | {node.name} [Op: {node.op}]"
        uses += [
            TensorUse(graph.tensors.get(name, Tensor(name)), producer)
            for name in node.outputs
            if name
        ]
    return [
        evolve(
            use,
            consumers=counts.get(use.tensor.name, 0),
            is_output=use.tensor.name in outputs,
        )
        for use in uses
    ]


def select_tensors(uses: Sequence[TensorUse], names: Sequence[str]) -> list[TensorUse]:
    """Return the tensors of some names or patterns, in the order of the graph.

    Raises:
        UnknownNameError: a name is none, or a pattern matches none.
    """
    known_names = [use.tensor.name for use in uses]
    chosen = matching(names, known_names)
    return [use for use in uses if use.tensor.name in chosen]


DRIVING_INPUT = {"Expand": 1, "Pad": 1, "Range": 1, "Resize": 3, "Tile": 1}
"""Which operand of an operator decides how large its output is."""
_CONSTANTS = frozenset({"Constant", "Min"})
"""What makes a number that is known, or limited."""


def unbounded_tensors(graph: Graph) -> list[str]:
    """Return node outputs whose size depends on run-time values without a limit.

    Args:
        graph: a graph with inferred shapes, whose constant parts were folded.
    """
    dims = {dim for tensor in graph.inputs for dim in tensor.shape or () if isinstance(dim, str)}
    constant = {weight.name for weight in graph.weights}
    producers = {name: node for node in graph.nodes for name in node.outputs if name}
    tensors = []
    for node in graph.nodes:
        for name in filter(None, node.outputs):
            tensor = graph.tensors.get(name)
            if _is_new(tensor, dims) and _is_unbounded(node, constant, producers):
                tensors.append(name)
            if tensor is not None and tensor.shape is not None:
                dims.update(dim for dim in tensor.shape if isinstance(dim, str))
    return tensors


def unbounded_operands(graph: Graph) -> list[str]:
    """Return the tensors whose values set the size of others without a limit, such as the length of
    a Range.
    """
    large = set(unbounded_tensors(graph))
    makers = (node for node in graph.nodes if not large.isdisjoint(node.outputs))
    return list(dict.fromkeys(node.inputs[DRIVING_INPUT[node.op]] for node in makers))


def _is_new(tensor: Tensor | None, known_names: set[str]) -> bool:
    """Return whether a shape has a dimension that is not in `known_names`."""
    if tensor is None or tensor.shape is None:
        return True
    return any(
        dim is None or (isinstance(dim, str) and dim not in known_names) for dim in tensor.shape
    )


def _is_unbounded(node: Node, constant: set[str], producers: dict[str, Node]) -> bool:
    """Return whether the size of a node's output depends on data without a bound."""
    position = DRIVING_INPUT.get(node.op)
    if position is None or node.domain not in ("", "ai.onnx") or len(node.inputs) <= position:
        return False
    driving = node.inputs[position]
    if not driving or driving in constant:
        return False
    producer = producers.get(driving)
    return producer is None or producer.op not in _CONSTANTS


@port
def model_html(model: Model) -> str:  # type: ignore[empty-body]
    """Return the HTML of a model's inputs, outputs and size."""
