"""A graph: nodes in one numbering, the tensors between them, and their weights.

A description is read once and never changed. How much of it there is was chosen when it was read
(`polygraphy.domain.model.source.Detail`): nodes, attributes and the elements of weights may be left
out, while their numbers are always known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from numbers import Number
from typing import Any

from attrs import evolve, field, frozen

from polygraphy.domain.tensors.naming import one_line
from polygraphy.domain.tensors.shapes import Dim

STANDARD = ("", "ai.onnx")
"""The names of the standard operator set."""

ARGUMENTS = "arguments"
"""The attribute of an operation of a program: its arguments that are not tensors, as text."""

FLOATS = ("bfloat16", "float16", "float32", "float64")
"""Floating-point types, from the least precise on."""

DISCONTINUOUS = frozenset(
    {
        "ArgMax", "ArgMin", "Ceil", "DynamicQuantizeLinear", "Equal", "Floor", "Greater",
        "GreaterOrEqual", "Less", "LessOrEqual", "Mod", "NonMaxSuppression", "QuantizeLinear",
        "Round", "Sign", "TopK", "Unique",
    }
)  # fmt: skip
"""Operators whose result jumps if their input changes slightly."""


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
        nbytes: the size of the elements in bytes; 0 for texts.
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
        """Return the elements, read anew on each access if the weight has a reader."""
        return self._values() if callable(self._values) else self._values


@frozen
class Attribute:
    """A constant of a node.

    Attributes:
        name: its name.
        kind: the type of the value: ``int``, ``float``, ``string``, ``dtype``, ``tensor``,
            ``graph``, ``type`` or ``reference`` (to an attribute of the function), or one of the
            former with an ``s``.
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
    """The location of a node in the source program, as far as its exporter recorded it.

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
        """Return the location as text: file, line and scope."""
        name = self.path.replace("\\", "/").rpartition("/")[2]
        return f"{name}:{self.line}" + (f" ({self.scope})" if self.scope else "")


# A large model has tens of thousands of nodes, and this creates them in half the time.
@frozen(slots=False)
class Node:
    """One operation, with the names of the tensors that it reads and computes; an empty name is an
    omitted operand."""

    name: str
    op: str
    domain: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    origin: Origin | None = field(default=None, eq=False)

    @property
    def label(self) -> str:
        """Return the name of the node; else its first output, or its operator."""
        return self.name or next(filter(None, self.outputs), self.op)

    @property
    def operator(self) -> str:
        """Return the operator with its domain in front, if that is not the standard one."""
        return self.op if self.domain in STANDARD else f"{self.domain}.{self.op}"

    @cached_property
    def makes(self) -> tuple[str, ...]:
        """Return the tensors that the node computes."""
        return tuple(filter(None, self.outputs))

    @cached_property
    def settings(self) -> str:
        """Return a text that is equal for equal attributes; empty if all have default values."""
        return " ".join(f"{name}={text}" for name, text in attribute_digests(self))

    @property
    def is_discontinuous(self) -> bool:
        """Return whether the operator is discontinuous:
        a small change of an input can change its result by a step."""
        if self.op == "Cast":
            return not is_float_cast(self)
        return self.op in DISCONTINUOUS or self.op.startswith("QLinear")

    @property
    def graphs(self) -> Iterator[Graph]:
        """The graphs inside the node."""
        for attribute in self.attributes:
            if attribute.kind == "graph":
                yield attribute.value
            elif attribute.kind == "graphs":
                yield from attribute.value

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Return the tensors that the node reads, and the outer tensors that its subgraphs read."""
        read = dict.fromkeys(filter(None, self.inputs))
        for graph in self.graphs:
            names = {tensor.name for tensor in graph.inputs}
            names.update(weight.name for weight in graph.weights)
            names.update(name for node in graph.nodes for name in node.outputs)
            inner = [
                *(node.reads for node in graph.nodes),
                (output.name for output in graph.outputs),
            ]
            read.update((name, None) for part in inner for name in part if name not in names)
        return tuple(read)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or `default` if the node does not have it, or an
        invalid model has another value where `default` is a number or a tuple."""
        for attribute in self.attributes:
            if attribute.name == name:
                value = attribute.value
                is_valid = (
                    isinstance(value, Number)
                    if isinstance(default, Number)
                    else not isinstance(default, tuple) or isinstance(value, Iterable)
                )
                return value if is_valid else default
        return default


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
    """Return the weight that a Constant node holds, named after its output, or None.
    The result is None for other nodes, or if a caller supplies the value.
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
            import numpy as np  # Imported here, because names and shapes can be read without NumPy.

            values = np.array(attribute.value, object if dtype == "string" else dtype)
            return Weight(node.outputs[0], dtype, shape, values.size * itemsize, values=values)
    return None


def is_float_cast(node: Node) -> bool:
    """Return whether a node converts to another floating-point type."""
    to = str(node.attribute("to", "")).lower() if node.op == "Cast" else ""
    return to in ("float", *FLOATS)


@frozen(slots=False)
class Graph:
    """Nodes in the order of the file, and the tensors between them.

    Attributes:
        tensors: the information about tensors from the file or from inference, by name; of inputs
            and outputs, too.
        node_count: number of nodes, even where `nodes` was not asked for.
        quantization: the quantization of tensors, by name, such as ``SCALE_TENSOR=x_scale``.
        narrow: the less precise floating-point type to compare weights in; casts between such types
            are then no operations. None to compare weights as they are.
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
    narrow: str | None = None
    _digests: dict[str, str] = field(factory=dict, init=False, eq=False, repr=False)

    @cached_property
    def all_weights(self) -> tuple[Weight, ...]:
        """Return the initializers and the weights in Constant nodes (those need attributes)."""
        constant_weights = (constant_weight(node) for node in self.nodes)
        return self.weights + tuple(weight for weight in constant_weights if weight is not None)

    @cached_property
    def makers(self) -> dict[str, Node]:
        """Return, by tensor, the node that computes it."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    @cached_property
    def producers(self) -> dict[str, int]:
        """Return, by tensor, the position of the node that computes it."""
        return {name: index for index, node in enumerate(self.nodes) for name in node.makes}

    @cached_property
    def consumers(self) -> dict[str, list[int]]:
        """Return, by tensor, the positions of the nodes that read it, also in their bodies."""
        consumers: dict[str, list[int]] = {}
        for index, node in enumerate(self.nodes):
            for name in node.reads:
                consumers.setdefault(name, []).append(index)
        return consumers

    @cached_property
    def constants(self) -> dict[str, Weight]:
        """Return the weights by name, including those in Constant nodes."""
        return {weight.name: weight for weight in self.all_weights}

    @cached_property
    def operations(self) -> dict[int, Node]:
        """Return the nodes, by position, except constants, and except casts if weights are compared
        in a less precise type."""
        return {
            index: node
            for index, node in enumerate(self.nodes)
            if constant_weight(node) is None and (self.narrow is None or not is_float_cast(node))
        }

    @cached_property
    def operation_producers(self) -> dict[str, int]:
        """Return, by tensor, the position of the operation that computes it."""
        return {name: index for index, node in self.operations.items() for name in node.makes}

    @cached_property
    def readers(self) -> dict[str, list[tuple[int, int]]]:
        """Return, by tensor, positions of the operations that read it, and which operand it is."""
        readers: dict[str, list[tuple[int, int]]] = {}
        for index, node in self.operations.items():
            for position, name in enumerate(node.inputs):
                if name:
                    readers.setdefault(name, []).append((index, position))
        return readers

    def digest(self, name: str) -> str:
        """Return a digest of a weight that is equal for weights with equal values only."""
        if name not in self._digests:
            self._digests[name] = weight_digest(self.constants[name], self.narrow)
        return self._digests[name]

    def walk(self) -> Iterator[Graph]:
        """Yield this graph and every graph inside its nodes, from the outside to the inside."""
        yield self
        for node in self.nodes:
            for inner in node.graphs:
                yield from inner.walk()


def attribute_digests(node: Node) -> tuple[tuple[str, str], ...]:
    """Return pairs of attribute name and digest, without defaults, sorted by name."""
    stated = (attribute for attribute in node.attributes if not attribute.is_default)
    return tuple(sorted((attribute.name, attribute_text(attribute)) for attribute in stated))


def attribute_text(attribute: Attribute) -> str:
    """Return the value of an attribute as a text that equal values share."""
    if attribute.kind == "tensor":
        return weight_digest(attribute.value)
    if attribute.kind in ("graph", "graphs"):
        graphs: Iterable[Graph] = (
            (attribute.value,) if attribute.kind == "graph" else attribute.value
        )
        return " ".join(map(_graph_text, graphs))
    return repr(attribute.value)


def _graph_text(graph: Graph) -> str:
    """Return a text that is equal for graphs that differ only in the names of tensors."""
    numbers: dict[str, int] = {"": -1}
    for tensor in graph.inputs:
        numbers[tensor.name] = len(numbers)
    weights = {weight.name: weight for weight in graph.weights}
    graph_text = []
    for node in graph.nodes:
        read = [
            (
                weight_digest(weights[name])
                if name in weights
                else numbers.setdefault(name, len(numbers))
            )
            for name in node.inputs
        ]
        for name in node.outputs:
            numbers[name] = len(numbers)
        graph_text.append(repr((node.domain, node.op, read, attribute_digests(node))))
    graph_text.append(repr([numbers.get(tensor.name) for tensor in graph.outputs]))
    return blake2b(" ".join(graph_text).encode(), digest_size=16).hexdigest()


def weight_digest(weight: Weight, narrow: str | None = None) -> str:
    """Return a digest that is equal for weights of equal type, shape and values.
    Floating-point values are rounded to `narrow` if set.
    """
    rounded = narrow is not None and weight.dtype in FLOATS
    head = f"{narrow if rounded else weight.dtype} {weight.shape} "
    if weight.values is None:
        return head + weight.name
    import numpy as np  # Imported here, because names and shapes can be read without NumPy.

    array = np.ascontiguousarray(weight.values)
    if rounded:
        with np.errstate(over="ignore", under="ignore"):
            array = array.astype(np.float32).astype(
                np.float16 if narrow == "float16" else np.float32
            )
        if narrow == "bfloat16":
            import ml_dtypes

            array = array.astype(ml_dtypes.bfloat16)
    if array.dtype.kind in "OUS":
        return head + repr(array.tolist())
    return (
        head + blake2b(array.view(np.uint8).data if array.size else b"", digest_size=16).hexdigest()
    )
