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

from collections.abc import Mapping, Sequence

from attrs import Factory, evolve, frozen

from polygraphy.binding import port
from polygraphy.domain.model.graph import Graph, Node, Tensor
from polygraphy.domain.tensors.naming import select_names


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
        producer: the program that wrote the file, and its version.
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
        consumers: the number of node operands that read it.
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
    chosen = select_names(names, known_names)
    return [use for use in uses if use.tensor.name in chosen]


DRIVING_INPUT = {"Expand": 1, "Pad": 1, "Range": 1, "Resize": 3, "Tile": 1}
"""Position of the operand that determines the output's size, by operator."""
_CONSTANTS = frozenset({"Constant", "Min"})
"""Operators whose result is a known or limited number."""


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
            if _has_new_dimension(tensor, dims) and _is_unbounded(node, constant, producers):
                tensors.append(name)
            if tensor is not None and tensor.shape is not None:
                dims.update(dim for dim in tensor.shape if isinstance(dim, str))
    return tensors


def unbounded_operands(graph: Graph) -> list[str]:
    """Return the tensors whose values set the size of other tensors without a limit,
    such as the length of a Range."""
    large = set(unbounded_tensors(graph))
    makers = (node for node in graph.nodes if not large.isdisjoint(node.outputs))
    return list(dict.fromkeys(node.inputs[DRIVING_INPUT[node.op]] for node in makers))


def _has_new_dimension(tensor: Tensor | None, known_names: set[str]) -> bool:
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
