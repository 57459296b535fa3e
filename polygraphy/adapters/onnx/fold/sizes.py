"""How much the constants of a model come to take, before they are computed."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import TYPE_CHECKING, Any

from polygraphy.adapters.onnx.fold.dimensions import Shape
from polygraphy.adapters.onnx.graph.growth import LIFTED_BY, grown_elements
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import NodeProto


_OPERAND = 256
"""Elements of an operand that says how large a result is: a shape, or a number."""
_NOT_LARGER = frozenset(
    {
        "Abs", "Cast", "Ceil", "Clip", "Compress", "Cos", "CumSum", "Exp", "Flatten", "Floor",
        "GatherElements", "Identity", "IsNaN", "Log", "Neg", "Not", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "ScatterElements", "ScatterND", "Sin",
        "Size", "Shape", "Slice", "Sqrt", "Squeeze", "Transpose", "Unique", "Unsqueeze",
    }
)  # fmt: skip
"""Operators whose results have no more elements than the largest operand."""


class Room:
    """How many bytes the constants of a whole model may still come to take."""

    def __init__(self, limit: float, said: set[str]) -> None:
        """Set how many bytes there are, and which nodes were already logged."""
        self._limit = limit
        self._taken = 0.0
        self._said = said

    def take(self, node: NodeProto, nbytes: float) -> bool:
        """Take room for what a node makes; return whether there is enough, and log if not."""
        if self._taken + nbytes <= self._limit:
            self._taken += nbytes
            return True
        label = node.name or node.output[0]
        if label not in self._said:
            self._said.add(label)
            G_LOGGER.warning(
                f"The {node.op_type} node {label!r} is not folded: with its {nbytes:,.0f}"
                f" bytes, the constants would take more than {self._limit:,.0f}. {LIFTED_BY}"
            )
        return False


class Sizes:
    """How large the results of the constant nodes of a graph are."""

    def __init__(
        self,
        kind: Callable[[str], str | None],
        shape: Callable[[str], Shape | None],
        small: Callable[[str], Any],
        compute: Callable[[str], Any],
    ) -> None:
        """Set what is known.

        Args:
            kind: returns the type of a tensor.
            shape: returns its shape.
            small: returns a small constant that is at hand, None for another.
            compute: computes a constant; None where that fails.
        """
        self._kind = kind
        self._shape_of = shape
        self._small = small
        self._compute = compute
        self._made: dict[str, float] = {}  # Elements at most.

    def measure(self, node: NodeProto) -> float:
        """Return how many bytes the results of a node take at most; its operands were measured."""
        # What is said of its shape may not be true; its operands are asked first.
        grown = grown_elements(node, self._value, self._shape)
        nbytes = 0.0
        for name in filter(None, node.output[:]):
            shape = self._shape(name)
            elements = grown
            if elements is None:
                elements = self._most(node) if shape is None else float(prod(shape))
            self._made[name] = elements
            nbytes += elements * itemsize(self._kind(name))
        return nbytes

    def _most(self, node: NodeProto) -> float:
        """Return how many elements a node whose shape is not known makes at most: as many as there
        are pairs of those of its operands, or as they have together.
        """
        counts = [self._elements(name) for name in node.input[:] if name]
        if node.op_type in ("Concat", "Gather", "NonZero"):
            return sum(counts) * 8  # NonZero: as many for each dimension.
        return max([1.0, *counts]) if node.op_type in _NOT_LARGER else prod([1.0, *counts])

    def _elements(self, name: str) -> float:
        shape = self._shape(name)
        return self._made.get(name, inf) if shape is None else float(prod(shape))

    def _shape(self, name: str) -> list[int] | None:
        return static(self._shape_of(name))

    def _value(self, name: str) -> Any:
        found = self._small(name)
        if found is None and self._made.get(name, inf) <= _OPERAND:
            found = self._compute(name)
        return found


def static(shape: Shape | None) -> list[int] | None:
    """Return a shape all of whose dimensions are numbers; None for another."""
    if shape is None:
        return None
    numbers = [dim for dim in shape if isinstance(dim, int)]
    return numbers if len(numbers) == len(shape) else None


def itemsize(kind: str | None) -> float:
    """Return how many bytes an element of a tensor type takes, 8 where that is not known."""
    name = (kind or "").partition("(")[2][:-1]
    entry = DataType.__members__.get(
        {"float": "FLOAT32", "double": "FLOAT64"}.get(name, name.upper())
    )
    return float(entry.itemsize) if entry and entry.itemsize else 8.0
