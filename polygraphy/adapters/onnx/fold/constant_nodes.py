"""The nodes of a graph that compute constants, and how their values take their place."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.fold.shape_values import itemsize
from polygraphy.adapters.onnx.graph.graph import (
    add_weight,
    constant_tensor,
    delete_where,
    is_constant,
)
from polygraphy.adapters.onnx.graph.open_model import assemble, value_without_type
from polygraphy.adapters.onnx.storage.elements import elements, is_stripped
from polygraphy.adapters.onnx.storage.weights import byte_size, load_stored
from polygraphy.adapters.onnx_common.messages import copy_of, tensors_read
from polygraphy.domain.errors import BackendError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


onnx = mod.lazy_import("onnx")
numpy_helper = mod.lazy_import("onnx.numpy_helper")

_SMALL = 4096


class ConstantNodes:
    """The nodes of one graph that compute constants.

    Attributes:
        graph: the graph.
        values: the constants that were computed.
        tensors: the constants that the model holds, those of the graphs around among them.
    """

    def __init__(self, model: ModelProto, graph: GraphProto, outer: ConstantNodes | None) -> None:
        """Create the list of constant nodes of a graph.

        Args:
            model: the model that it is part of.
            graph: the graph; its nodes are added one by one.
            outer: those of the graph around it.
        """
        self._model = model
        self.graph = graph
        self._outer = outer
        self._nodes: list[NodeProto] = []
        self._places: list[int] = []
        tensors = {tensor.name: tensor for tensor in graph.initializer}
        for value in graph.input:
            if model.ir_version >= 4:
                tensors.pop(value.name, None)
        around = () if outer is None else outer.tensors.maps
        self.tensors: ChainMap[str, TensorProto] = ChainMap(tensors, *around)
        self.values: dict[str, Any] = {}
        self._made_by: dict[str, int] = {}
        self._foldable: set[int] = set()
        self._kept: set[int] = set()

    def add(self, node: NodeProto, position: int) -> int:
        """Add the next node in execution order, and return its number.

        Args:
            node: the node.
            position: its position in the graph.
        """
        self._nodes.append(node)
        self._places.append(position)
        index = len(self._nodes) - 1
        if is_constant(node):
            tensor = constant_tensor(node)
            if tensor is not None:
                self.tensors[node.output[0]] = tensor
                self.mark_foldable(index)
        return index

    def mark_foldable(self, index: int) -> None:
        """Mark the node with an index as one that computes constants."""
        self._foldable.add(index)
        for name in filter(None, self._nodes[index].output[:]):
            self._made_by[name] = index

    def reorder(self) -> None:
        """Sort the nodes of the graph into the order in which they were added, and remove all
        others.
        """
        ranks = {position: rank for rank, position in enumerate(self._places)}
        positions = iter(range(len(self.graph.node)))
        delete_where(self.graph.node, lambda _: next(positions) not in ranks)
        order = iter([ranks[position] for position in sorted(ranks)])
        # `sort` calls the key function once for each node, in order.
        self.graph.node.sort(key=lambda _: next(order))
        self._places = list(range(len(self._nodes)))

    def small_constant(self, name: str) -> Any:
        """Return the array of a small constant whose value is known; None for other tensors."""
        if name in self.values:
            return self.values[name]
        tensor = self.tensors.get(name)
        if tensor is None:
            return None if self._outer is None else self._outer.small_constant(name)
        if byte_size(tensor) > _SMALL or tensor.data_location or is_stripped(tensor):
            return None
        return elements(tensor)

    def is_value_known(self, name: str) -> bool:
        """Return whether the value of a tensor is known without computing it."""
        return name in self.values or name in self.tensors

    def is_constant(self, name: str) -> bool:
        """Return whether a tensor is a constant."""
        if self.is_value_known(name) or name in self._made_by:
            return True
        return self._outer is not None and self._outer.is_constant(name)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a constant whose value is known; None for other tensors."""
        if name in self.values:
            return tuple(self.values[name].shape)
        return tuple(self.tensors[name].dims) if name in self.tensors else None

    def keep(self, names: Iterable[str]) -> None:
        """Keep the nodes that compute some tensors; their own operands may be folded."""
        self._kept.update(self._made_by[name] for name in names)

    def tensors_to_replace(self, is_too_large: Callable[[str], bool]) -> list[str]:
        """Return the tensors whose values replace nodes, because other nodes read them.
        Nodes with too large outputs are kept."""
        used = {value.name for value in self.graph.output}
        constant_names: list[str] = []
        for index in range(len(self._nodes) - 1, -1, -1):
            node = self._nodes[index]
            if index in self._foldable and index not in self._kept:
                names = [name for name in node.output[:] if name in used]
                if not any(map(is_too_large, names)):
                    constant_names += reversed(names)
                    continue
                self._kept.add(index)
            used.update(tensors_read(node))
        return constant_names[::-1]

    def nbytes(self, name: str, shape: Sequence[int] | None, kind: str | None) -> float | None:
        """Return the number of bytes that the value of a tensor would add to the model, or None.
        The result is None if that is unknown.

        Args:
            name: the tensor.
            shape: its shape.
            kind: its type.
        """
        if name in self.values:
            return float(self.values[name].nbytes)
        if name in self.tensors:
            return 0.0  # A Constant node becomes a weight, which adds no bytes.
        return None if shape is None else prod(shape) * itemsize(kind)

    def cone(self, names: Iterable[str]) -> list[str]:
        """Return all constants that some constants depend on, including these."""
        _, needed = self._sources(names)
        return [name for nodes, index in needed for name in nodes._nodes[index].output[:] if name]

    def _sources(
        self, names: Iterable[str]
    ) -> tuple[dict[str, TensorProto], list[tuple[ConstantNodes, int]]]:
        """Return the inputs of some constants: weights by name, and nodes in order."""
        weights: dict[str, TensorProto] = {}
        needed: dict[tuple[int, int], ConstantNodes] = {}
        pending = list(names)
        while pending:
            name = pending.pop()
            if name in weights:
                continue
            depth, nodes = 0, self
            while not nodes.is_value_known(name) and name not in nodes._made_by:
                if nodes._outer is None:
                    raise BackendError(f"Tensor {name!r} is not a constant.")
                depth, nodes = depth - 1, nodes._outer
            if nodes.is_value_known(name):
                weights[name] = nodes._tensor(name)
            elif (position := (depth, nodes._made_by[name])) not in needed:
                needed[position] = nodes
                pending.extend(filter(None, nodes._nodes[position[1]].input))
        return weights, [(needed[position], position[1]) for position in sorted(needed)]

    def model_of(self, names: Collection[str]) -> ModelProto:
        """Return a model without inputs that computes some constants."""
        weights, needed = self._sources(names)
        frame = onnx.ModelProto(
            ir_version=self._model.ir_version,
            opset_import=self._model.opset_import,
            graph=onnx.GraphProto(name="constants"),
        )
        model = assemble(
            frame,
            [nodes._nodes[index] for nodes, index in needed],
            outputs=map(value_without_type, names),
            weights=weights.values(),
        )
        for weight in model.graph.initializer:
            load_stored(weight)
        return model

    def _tensor(self, name: str) -> TensorProto:
        """Return a constant as an initializer with its name."""
        tensor = self.tensors.get(name)
        if tensor is None:
            array: TensorProto = numpy_helper.from_array(self.values[name], name)
            return array
        if tensor.name == name:
            return tensor
        renamed: TensorProto = copy_of(tensor)
        renamed.name = name
        return renamed

    def replace(self, names: Sequence[str]) -> int:
        """Replace nodes with the known values of tensors; return the number of removed nodes."""
        replaced = {self._made_by[name] for name in names}
        positions = iter(range(len(self._nodes)))
        removed = delete_where(self.graph.node, lambda _: next(positions) in replaced)
        for name in names:
            # Readers in subgraphs count as well.
            self.tensors[name] = add_weight(self._model, self._tensor(name), name, self.graph)
        return removed
