"""Finds the nodes of a graph that compute constants, and puts their values in their place."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from math import ceil, inf, prod
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.constants import constant_tensor, is_constant
from polygraphy.adapters.onnx.graph.element_types import (
    GraphTypes,
    domain_of,
    graphs_of,
    signature_of,
)
from polygraphy.adapters.onnx.graph.graph import delete_where, used_by
from polygraphy.adapters.onnx.graph.growth import LIFTED_BY, grown_elements
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.stored import load_stored
from polygraphy.adapters.onnx.storage.weights import byte_size
from polygraphy.domain.tensors.datatype import DataType

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


onnx = mod.lazy_import("onnx")
numpy_helper = mod.lazy_import("onnx.numpy_helper")

Values = Mapping[str, Any]
"""Arrays by the names of tensors."""

_QUANTISATION = frozenset({"DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"})
_ARRAY_TYPES = frozenset(
    f"tensor({name})"
    for name in (
        "bool", "double", "float", "float16", "int8", "int16", "int32", "int64", "string", "uint8",
        "uint16", "uint32", "uint64",
    )
)  # fmt: skip
"""The types whose values backends hand over as arrays."""

_SHAPES = frozenset({"Shape", "Size"})
_SMALL = 4096
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


class Settings:
    """What is folded: see `FoldConstants`."""

    def __init__(self, *, fold_shapes: bool, size_threshold: int | None) -> None:
        self.fold_shapes = fold_shapes
        self.size_threshold = size_threshold


class ConstantNodes:
    """The nodes of one graph that compute constants.

    Attributes:
        values: what is known of them so far.
    """

    def __init__(
        self,
        model: ModelProto,
        graph: GraphProto,
        types: GraphTypes,
        settings: Settings,
        outer: MutableMapping[str, TensorProto],
    ) -> None:
        """Look at a graph.

        Args:
            model: the model that it is part of.
            graph: the graph.
            types: the element types of its tensors.
            settings: what is folded.
            outer: the constants of the graphs around it.
        """
        self._model = model
        self._graph = graph
        self._nodes: list[NodeProto] = list(graph.node)
        self._types = types
        self._settings = settings
        self._versions = {domain_of(entry.domain): entry.version for entry in model.opset_import}
        own = {tensor.name: tensor for tensor in graph.initializer}
        for value in graph.input:
            if model.ir_version >= 4:
                own.pop(value.name, None)
        self.tensors: ChainMap[str, TensorProto] = ChainMap(own, outer)
        self._made_by: dict[str, int] = {}
        self._foldable: set[int] = set()
        self._kept: set[int] = set()
        self.values: dict[str, Any] = {}
        for index, node in enumerate(self._nodes):
            if is_constant(node):
                tensor = constant_tensor(node)
                if tensor is not None:
                    self.tensors[node.output[0]] = tensor
                    self._made_by[node.output[0]] = index
                    self._foldable.add(index)

    def small(self, name: str) -> Any:
        """Return a small constant as an array; None for what is none."""
        if name in self.values:
            return self.values[name]
        tensor = self.tensors.get(name)
        if tensor is None or byte_size(tensor) > _SMALL or tensor.data_location:
            return None
        return elements(tensor)

    def condition(self, name: str) -> bool | None:
        """Return the value of a constant that is a condition; None for what is no constant."""
        value = self.small(name)
        return None if value is None or value.size != 1 else bool(value.reshape(-1)[0])

    def find(self, known: Values) -> None:
        """Find the nodes; `known` holds the values of tensors that are known in another way."""
        self.values.update(known)
        constant = set(known)
        for index, node in enumerate(self._nodes):
            if index in self._foldable:
                continue
            outputs = [name for name in node.output[:] if name]
            is_known = bool(outputs) and all(name in constant for name in outputs)
            if not is_known and not (
                self._can_fold(node)
                and all(name in constant or name in self.tensors for name in node.input[:] if name)
            ):
                continue
            self._foldable.add(index)
            constant.update(outputs)
            self._made_by.update(dict.fromkeys(outputs, index))

    def _can_fold(self, node: NodeProto) -> bool:
        """Return whether the value of a node only depends on its operands, and can be had."""
        domain = domain_of(node.domain)
        op = node.op_type
        if domain or op in _QUANTISATION or graphs_of(node):
            return False
        if op in _SHAPES and not self._settings.fold_shapes:
            return False
        if op == "Dropout" and len(node.input) > 2:
            return False
        signature = signature_of(op, domain, self._versions.get(domain, 1))
        if signature is None or not signature.is_deterministic:
            return False
        return all(self._types[name] in _ARRAY_TYPES for name in node.output[:] if name)

    def keep(self, names: Iterable[str]) -> None:
        """Leave the nodes that make some tensors where they are; their own operands may be
        folded.
        """
        self._kept.update(self._made_by[name] for name in names)

    def wanted(self) -> list[str]:
        """Return the tensors whose values take the place of nodes: what is used elsewhere."""
        removed = self._foldable - self._kept
        makers = {name: index for name, index in self._made_by.items() if index in removed}
        used = {value.name for value in self._graph.output if value.name in makers}
        for index, node in enumerate(self._nodes):
            if index not in removed:
                used.update(name for name in used_by(node) if name in makers)
        return [name for name in makers if name in used]

    def leave_large(
        self,
        limit: float,
        shapes: Mapping[str, Any],
        compute: Callable[[Sequence[str]], Values | None],
    ) -> list[str]:
        """Leave nodes alone that would make too much, and what needs them.

        Args:
            limit: how many bytes all nodes may make together.
            shapes: what is known of the shapes of tensors.
            compute: computes some of the tensors; None where that fails.

        Returns:
            Messages about the former.
        """
        sizes, total = _Sizes(self, shapes, compute), 0.0
        left: set[str] = set()
        said = []
        for index, node in enumerate(self._nodes):
            if index not in self._foldable or is_constant(node):
                continue
            outputs = [name for name in node.output[:] if name]
            if all(name in self.values for name in outputs):
                continue
            needs = not left.isdisjoint(node.input[:])
            nbytes = 0 if needs else sizes.measure(node)
            is_large = total + nbytes > limit
            if not is_large:
                total += nbytes
            if needs or is_large:
                left.update(outputs)
                self._foldable.discard(index)
                for name in outputs:
                    self._made_by.pop(name, None)
            if is_large:
                label = node.name or node.output[0]
                said.append(
                    f"The {node.op_type} node {label!r} is not folded: with its {nbytes:,.0f}"
                    f" bytes, the constants would take more than {limit:,.0f}. {LIFTED_BY}"
                )
        return said

    def itemsize(self, name: str) -> float:
        """Return how many bytes an element of a tensor takes, 8 where that is not known."""
        kind = (self._types[name] or "").partition("(")[2][:-1]
        entry = DataType.__members__.get(
            {"float": "FLOAT32", "double": "FLOAT64"}.get(kind, kind.upper())
        )
        return float(entry.itemsize) if entry and entry.itemsize else 8.0

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a constant that is at hand; None for another."""
        if name in self.values:
            return tuple(self.values[name].shape)
        return tuple(self.tensors[name].dims) if name in self.tensors else None

    def too_large(self, names: Iterable[str], shapes: Mapping[str, Any]) -> list[str]:
        """Return those of some tensors whose values are above the threshold, as far as known."""
        limit = self._settings.size_threshold
        if limit is None:
            return []
        return [name for name in names if (self._size(name, shapes) or 0) > limit]

    def _size(self, name: str, shapes: Mapping[str, Any]) -> int | None:
        if name in self.values:
            return int(self.values[name].nbytes)
        if name in self.tensors:
            return 0  # A constant already, which only moves.
        shape = shapes.get(name)
        if shape is None or None in shape:
            return None
        return ceil(float(prod(shape)) * self.itemsize(name))

    def model_of(self, names: Sequence[str]) -> ModelProto:
        """Return a model without inputs that computes some tensors."""
        needed: set[int] = set()
        weights: dict[str, None] = {}
        pending = list(names)
        while pending:
            name = pending.pop()
            if name in self.values or name in self.tensors:
                weights[name] = None
            elif (index := self._made_by[name]) not in needed:
                needed.add(index)
                pending.extend(filter(None, self._nodes[index].input))
        made: ModelProto = onnx.ModelProto(ir_version=max(self._model.ir_version, 4))
        made.opset_import.extend(self._model.opset_import)
        made.graph.name = "constants"
        made.graph.node.extend(self._nodes[index] for index in sorted(needed))
        for name in weights:
            weight = made.graph.initializer.add()
            weight.CopyFrom(self._tensor(name))
            load_stored(weight)
        for name in names:
            made.graph.output.add(name=name)
        return made

    def _tensor(self, name: str) -> TensorProto:
        """Return a constant under its name."""
        tensor = self.tensors.get(name)
        if tensor is None:
            made: TensorProto = numpy_helper.from_array(self.values[name], name)
            return made
        if tensor.name == name:
            return tensor
        renamed: TensorProto = onnx.TensorProto()
        renamed.CopyFrom(tensor)
        renamed.name = name
        return renamed

    def is_at_hand(self, name: str) -> bool:
        """Return whether the value of a tensor is known."""
        return name in self.values or name in self.tensors

    def replace(self, names: Sequence[str], add_input: Callable[[TensorProto], None]) -> int:
        """Put the values of tensors in the place of the nodes that make them.

        Args:
            names: the tensors; their values are known.
            add_input: called with each new weight.

        Returns:
            How many nodes were removed.
        """
        replaced = {self._made_by[name] for name in names}
        positions = iter(range(len(self._nodes)))
        removed = delete_where(self._graph.node, lambda _: next(positions) in replaced)
        for name in names:
            weight = self._graph.initializer.add()
            weight.CopyFrom(self._tensor(name))
            self.tensors[name] = weight  # For the graphs inside.
            add_input(weight)
        return removed


class _Sizes:
    """How large the results of constant nodes are, before they are computed."""

    def __init__(
        self,
        nodes: ConstantNodes,
        shapes: Mapping[str, Any],
        compute: Callable[[Sequence[str]], Values | None],
    ) -> None:
        self._nodes = nodes
        self._shapes = shapes
        self._compute = compute
        self._made: dict[str, float] = {}  # Elements at most.

    def measure(self, node: NodeProto) -> float:
        """Return how many bytes the results of a node take at most; its operands were measured."""
        grown = grown_elements(node, self._value, self._shape)
        nbytes = 0.0
        for name in filter(None, node.output[:]):
            shape = self._shape(name)
            elements = grown
            if elements is None:
                elements = self._most(node) if shape is None else prod(shape)
            self._made[name] = elements
            nbytes += elements * self._nodes.itemsize(name)
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

    def _shape(self, name: str) -> tuple[int, ...] | None:
        known = self._nodes.shape(name)
        if known is None:
            stated = self._shapes.get(name)
            known = None if stated is None or None in stated else tuple(stated)
        return known

    def _value(self, name: str) -> Any:
        """Return a small constant, which is computed where it is not at hand."""
        found = self._nodes.small(name)
        if found is None and self._made.get(name, inf) <= _OPERAND:
            computed = self._compute([name])
            if computed is not None:
                self._nodes.values.update(computed)
                found = computed.get(name)
        return found
