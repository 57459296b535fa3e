"""An operator with its inputs, as far as they are known, and what it breaks of the ONNX
specification.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import Factory, frozen

SHAPE, ATTRIBUTE, VALUE, TYPE = "shape", "attribute", "value", "type"
"""The part of a call that violates a rule: the shape of an input, an attribute, elements of an
input, or a data type."""
UNDEFINED = "undefined"
"""The kind of violation for elements with an undefined result: a valid model may contain them, but
its backends cannot be compared there."""


@frozen(eq=False)
class Operand:
    """An input of a node.

    Attributes:
        name: of the tensor.
        shape: its dimensions, None for each that is unknown; None if their number is unknown.
        values: its elements, an array; None if they are unknown.
        dtype: the name of its data type, as ``float32``; empty if it is unknown.
        length: the number of members of a sequence; None if it is unknown, or another thing.
    """

    name: str
    shape: tuple[int | None, ...] | None = None
    values: Any = None
    dtype: str = ""
    length: int | None = None

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None if the shape is not known."""
        return None if self.shape is None else len(self.shape)

    @property
    def integers(self) -> list[int] | None:
        """Its elements; None if they are unknown or not integers."""
        if self.values is None or not np.issubdtype(np.asarray(self.values).dtype, np.integer):
            return None
        return [int(value) for value in np.asarray(self.values).reshape(-1)]


@frozen(eq=False)
class Body:
    """A declared subgraph of a node.

    Attributes:
        name: of the graph.
        inputs: what it gets, without weights.
        outputs: what it returns.
    """

    name: str
    inputs: Sequence[Operand] = ()
    outputs: Sequence[Operand] = ()


@frozen(eq=False)
class OperatorCall:
    """A node with its attributes and inputs, in the form that rules check.

    Attributes:
        op: its operator, of the main domain.
        opset: the version of the operator set.
        attributes: their values, and the defaults of those that are left out; of a tensor only the
            shape.
        inputs: its inputs; None for one that is left out.
        outputs: number of its outputs.
        bodies: its subgraphs, by attribute.
    """

    op: str
    opset: int
    attributes: Mapping[str, Any] = Factory(dict)
    inputs: Sequence[Operand | None] = ()
    outputs: int = 1
    bodies: Mapping[str, Body] = Factory(dict)

    def input(self, position: int) -> Operand | None:
        """Return an input; None if it is omitted."""
        return self.inputs[position] if position < len(self.inputs) else None

    def shape(self, position: int) -> tuple[int | None, ...] | None:
        """Return the shape of an input; None if it is omitted or its rank is unknown."""
        operand = self.input(position)
        return None if operand is None else operand.shape

    def integers(self, position: int, attribute: str = "") -> list[int] | None:
        """Return the elements of an input, or an attribute of older versions; None if unknown."""
        operand = self.input(position)
        if operand is not None:
            return operand.integers
        value = self.attributes.get(attribute)
        return None if value is None else list(value)


@frozen
class Violation:
    """A rule that a node breaks.

    Attributes:
        op: its operator.
        requirement: the requirement of the specification, as ``an index in [-2, 1]``.
        actual: the actual value of the node, a clause.
        kind: `SHAPE`, `ATTRIBUTE`, `VALUE`, `TYPE` or `UNDEFINED`.
        tensor: the input that breaks it; empty for an attribute.
    """

    op: str
    requirement: str
    actual: str
    kind: str
    tensor: str = ""

    @property
    def message(self) -> str:
        """Return the rule and the violation in one sentence."""
        return f"{self.op} requires {self.requirement}, but {self.actual}."


@frozen
class InvalidNode:
    """A node of the main graph that breaks the specification, or contains a node that does.

    Attributes:
        index: its position.
        op: the operator that breaks it.
        message: the rule and what breaks it, a sentence.
        kind: as of `Violation`.
        tensor: the input that breaks it; empty if it is another thing.
        place: where in the node the node that breaks it is, as ``then_branch/Add_1``; empty if it
            is the node itself.
    """

    index: int
    op: str
    message: str
    kind: str
    tensor: str = ""
    place: str = ""


OUTPUT = "Output: "
"""The start of a message about an output that the graph declares differently."""
_DECLARED = re.compile(OUTPUT + r"'([^']*)' is \w+, but the graph declares (\w+)\.$")


def declared_type_in(message: str) -> tuple[str, str] | None:
    """Return the tensor and the declared data type of a message that a node computes another type;
    None for other messages."""
    found = _DECLARED.match(message)
    return None if found is None else (found[1], found[2])


def shape_text(shape: Sequence[int | None]) -> str:
    """Return a shape as text for messages."""
    dims = ["?" if dim is None else str(dim) for dim in shape]
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"
