"""One walk over the nodes of a model, which infers shapes and finds constants together.

Each node is visited once, after its operands. So computations on shapes are known before the shapes
that depend on them are needed, however long the chain is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any

from attrs import define, field

from polygraphy import mod
from polygraphy.adapters.onnx.fold.constant_nodes import ConstantNodes
from polygraphy.adapters.onnx.fold.node_inference import SHAPED_BY_VALUES, NodeInference
from polygraphy.adapters.onnx.fold.shape_values import (
    LONGEST,
    Element,
    Elements,
    Room,
    Shape,
    Sizes,
    output_elements,
    static_shape,
)
from polygraphy.adapters.onnx.graph.element_types import GraphTypes, domain_of, signature_of
from polygraphy.adapters.onnx.graph.graph import is_constant, names_in_use, rename_uses, unique_name
from polygraphy.adapters.onnx.graph.shapes import shape_of
from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.search.subsets import bisect_batch
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import evaluate_constants

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


onnx = mod.lazy_import("onnx")


def open_branch(
    graph: GraphProto,
    branch: GraphProto,
    outputs: Sequence[str],
    used_names: set[str],
    called: set[str],
) -> dict[str, str]:
    """Move the nodes and weights of a branch into the graph of its If node; return the new names,
    which were unused.

    Args:
        graph: the graph around.
        branch: the branch, which is changed.
        outputs: the outputs of the If node.
        used_names: the names in use in the graph; those of the branch are added.
        called: the node names in use in the graph; those of the branch are added.

    Returns:
        The new names of the tensors of the branch, by their old names.
    """
    results = [value.name for value in branch.output]
    makers = {name for node in branch.node for name in node.output if name}
    final = {}
    for result, output in zip(results, outputs):
        if output and result in makers and result not in final:
            final[result] = output
    names: dict[str, str] = {}
    for name in makers:
        names[name] = final.get(name) or unique_name(f"{name}_inlined", used_names)
    weights = [*branch.initializer, *(sparse.values for sparse in branch.sparse_initializer)]
    for tensor in weights:
        names[tensor.name] = unique_name(f"{tensor.name}_inlined", used_names)
    rename_uses(branch, names)
    for node in branch.node:
        if node.name:  # Exporters number the nodes of each graph.
            node.name = unique_name(node.name, called)
        for position, name in enumerate(node.output):
            node.output[position] = names.get(name, name)
    for tensor in weights:
        tensor.name = names[tensor.name]
    for value in branch.value_info:
        if value.name in names:
            value.name = names[value.name]
    for annotation in branch.quantization_annotation:
        annotation.tensor_name = names.get(annotation.tensor_name, annotation.tensor_name)
        for entry in annotation.quant_parameter_tensor_names:
            entry.value = names.get(entry.value, entry.value)
    graph.initializer.extend(branch.initializer)
    graph.sparse_initializer.extend(branch.sparse_initializer)
    graph.quantization_annotation.extend(branch.quantization_annotation)
    graph.value_info.extend(value for value in branch.value_info if value.name not in outputs)
    passed = [
        onnx.helper.make_node("Identity", [names.get(result, result)], [output])
        for result, output in zip(results, outputs)
        if output and names.get(result) != output
    ]
    graph.node.extend([*branch.node, *passed])
    return names


_INNER_LOOP_ARGUMENTS = 2  # The iteration number and the condition precede the carried values.


def static_shapes(graph: GraphProto) -> dict[str, Shape | None]:
    """Return the declared shapes of a subgraph, without dimension names: in the body of a loop,
    they may differ in each iteration.
    """
    shapes: dict[str, Shape | None] = {}
    for values in (graph.input, graph.output, graph.value_info):
        for value in values:
            shape = shape_of(value)
            if shape is not None:
                shapes[value.name] = [dim if isinstance(dim, int) else None for dim in shape]
    return shapes


def common_shape(left: Shape | None, right: Shape | None) -> Shape | None:
    """Return a shape with the equal dimensions of two shapes, and None for the others.
    The result is None if their ranks differ or one is unknown."""
    if left is None or right is None or len(left) != len(right):
        return None
    return [first if first == second else None for first, second in zip(left, right)]


def merge_shapes(stated: Shape | None, inferred: Shape | None) -> Shape | None:
    """Return a declared and an inferred shape merged into one, or None.
    The result is None if they contradict each other."""
    if stated is None or inferred is None:
        return inferred if stated is None else stated
    if len(stated) != len(inferred):
        return None
    shapes: list[Element] = []
    for first, second in zip(stated, inferred):
        if isinstance(first, int) and isinstance(second, int) and first != second:
            return None
        shapes.append(first if isinstance(first, int) or second is None else second)
    return shapes


def is_short(shape: Shape | None) -> bool:
    """Return whether a tensor of this shape is small enough to be a shape."""
    numbers = static_shape(shape)
    return numbers is not None and prod(numbers) <= LONGEST


def shapes_from_bodies(
    node: NodeProto,
    shape: Callable[[str], Shape | None],
    results: Sequence[Sequence[Shape | None]],
) -> dict[str, Shape]:
    """Return the known shapes of the results of a node with subgraphs.

    Args:
        node: the node.
        shape: returns the shape of an operand.
        results: the shapes of the outputs of each subgraph.
    """
    common_shapes: list[Shape | None] = []
    if node.op_type == "If" and len(results) == 2:
        common_shapes = [common_shape(*pair) for pair in zip(*results)]
    elif node.op_type == "Loop":
        carried = node.input[_INNER_LOOP_ARGUMENTS:]
        inside = results[0][1:]  # Skip the condition, which is the first output of the body.
        # If the loop has no iterations, the initial values are the results.
        common_shapes = [
            common_shape(shape(name), indices) for name, indices in zip(carried, inside)
        ]
        common_shapes += [
            (
                None
                if indices is None
                else [None, *(dim if isinstance(dim, int) else None for dim in indices)]
            )
            for indices in inside[len(carried) :]
        ]
    return {
        name: shape for name, shape in zip(node.output, common_shapes) if name and shape is not None
    }


QUANTIZATION = frozenset({"DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"})
_ARRAY_TYPES = frozenset(
    f"tensor({name})"
    for name in (
        "bool", "double", "float", "float16", "int8", "int16", "int32", "int64", "string", "uint8",
        "uint16", "uint32", "uint64",
    )
)  # fmt: skip
"""The types whose values backends hand over as arrays."""

_SHAPES = frozenset({"Shape", "Size"})


@define
class Walk:
    """The state shared by all graphs of a model during a walk.

    Attributes:
        model: the model.
        room: size limit of constants in bytes.
        folds_shapes: whether shapes of tensors that are not constant are folded.
        inference: infers shapes; None to use only known ones.
        opens_branches: whether branches that are known to be taken take the place of their nodes.
        graphs: the graphs that were walked over, from the outside to the inside.
        has_opened: whether an If was replaced by its branch.
    """

    model: ModelProto
    room: Room
    folds_shapes: bool
    inference: NodeInference | None
    opens_branches: bool = True
    versions: dict[str, int] = field(init=False)
    graphs: list[GraphWalk] = field(factory=list)
    has_opened: bool = False
    _numbers: Iterator[int] = field(factory=count)

    def __attrs_post_init__(self) -> None:
        """Prepare inference, and collect the names in the model."""
        self.versions = {
            domain_of(entry.domain): entry.version for entry in self.model.opset_import
        }

    def run(self, types: GraphTypes, shapes: Mapping[str, Shape | None]) -> None:
        """Infer types and shapes in all graphs, and mark nodes for folding;
        only opened branches change the model.

        Args:
            types: the types of the tensors of the main graph.
            shapes: their known shapes.
        """
        GraphWalk(self, self.model.graph, types, shapes, None).run()

    def new_name(self) -> str:
        """Return a new name for an unknown dimension."""
        return f"unk__fold_{next(self._numbers)}"


class GraphWalk:
    """The walk over the nodes of one graph, with the known facts about its tensors.

    Attributes:
        nodes: the nodes of the graph that compute constants.
    """

    def __init__(
        self,
        walk: Walk,
        graph: GraphProto,
        types: GraphTypes,
        shapes: Mapping[str, Shape | None],
        outer: GraphWalk | None,
    ) -> None:
        """Set the graph, its known types and shapes, and the walk over its outer graph."""
        self._walk = walk
        self._graph = graph
        self._types = types
        self._outer = outer
        self._shapes = dict(shapes)
        self._elements: dict[str, Elements | None] = {}
        self._failed: set[str] = set()
        self._taken: set[str] = set()
        self._called: set[str] = set()
        self.nodes: ConstantNodes = ConstantNodes(
            walk.model, graph, None if outer is None else outer.nodes
        )
        self._sizes = Sizes(self.kind, self.shape, self.nodes.small_constant, self._compute_value)
        for value in graph.input:
            self._note_shape(value.name, None)

    def run(self) -> None:
        """Infer the shapes of the nodes of the graph and its subgraphs."""
        walk = self._walk
        walk.graphs.append(self)
        # In earlier versions, subgraphs cannot have weights.
        has_scopes = walk.model.ir_version >= 4
        opens = has_scopes and walk.opens_branches
        pending = [
            (position, node, self._types.inner(position))
            for position, node in enumerate(self._graph.node)
        ][::-1]
        has_opened = False
        while pending:
            position, node, scopes = pending.pop()
            if scopes and opens and (chosen := self._select_branch(node)) is not None:
                pending += self._inline_branch(node, scopes, chosen)[::-1]
                has_opened = True
            else:
                self._visit(position, node, scopes if has_scopes else ())
        if has_opened:
            self.nodes.reorder()
            walk.has_opened = True

    def kind(self, name: str) -> str | None:
        """Return the type of a tensor; None if it is unknown."""
        return self._types[name]

    def shape(self, name: str) -> Shape | None:
        """Return the shape of a tensor of this graph, or of an outer one; None if it is unknown."""
        known_shape = self.nodes.shape(name)
        if known_shape is not None:
            return known_shape
        if name in self._shapes or self._outer is None:
            return self._shapes.get(name)
        return self._outer.shape(name)

    def results(self) -> list[Shape | None]:
        """Return the shapes of the outputs of the graph, None for unknown ones."""
        return [self.shape(value.name) for value in self.nodes.graph.output]

    def elements_of(self, name: str) -> Elements | None:
        """Return the known elements of a tensor; None if there are none."""
        if name not in self._elements:
            self._elements[name] = self._find_elements(name)
        return self._elements[name]

    def _find_elements(self, name: str) -> Elements | None:
        """Return the known elements of a tensor; None if there are none."""
        shape = self.nodes.shape(name)
        if shape is None:
            return None if self._outer is None else self._outer.elements_of(name)
        if len(shape) > 1 or (self.kind(name) or "")[7:10] not in ("int", "boo"):
            return None
        array = self.nodes.small_constant(name)
        return None if array is None else Elements.of(array)

    def tensor(self, name: str) -> TensorProto | None:
        """Return a constant of the model; None for other tensors."""
        return self.nodes.tensors.get(name)

    # Outputs of nodes.

    def _visit(self, position: int, node: NodeProto, scopes: Sequence[GraphTypes]) -> None:
        """Infer the shapes of a node and its subgraphs, and fold it if possible."""
        index = self.nodes.add(node, position)
        outputs = [name for name in node.output[:] if name]
        if is_constant(node) or not outputs:
            return
        elements = None
        if self._walk.folds_shapes or node.op_type not in _SHAPES:
            elements = output_elements(node, self.shape, self.elements_of)
        if elements is not None:
            self._elements[outputs[0]] = elements
            self._shapes[outputs[0]] = elements.shape
            if elements.is_known:
                self.nodes.values[outputs[0]] = elements.array()
                self.nodes.mark_foldable(index)
                return
        bodies = [
            GraphWalk(self._walk, graph, scope, static_shapes(graph), self)
            for graph, scope in zip(graphs_of(node) if scopes else (), scopes)
        ]
        for body in bodies:
            body.run()
        if elements is None:
            self._infer(node, outputs, bodies)
        if self._can_fold(node, outputs):
            self._fold_if_it_fits(index, node)

    def _fold_if_it_fits(self, index: int, node: NodeProto) -> None:
        """Mark a node with constant operands for folding if there is room for its results."""
        if not all(map(self.nodes.is_constant, filter(None, node.input[:]))):
            return
        if self._walk.room.take(node, self._sizes.measure(node)):
            self.nodes.mark_foldable(index)

    def _can_fold(self, node: NodeProto, outputs: Sequence[str]) -> bool:
        """Return whether the results of a node depend on its operands alone, and can be
        computed."""
        domain = domain_of(node.domain)
        op = node.op_type
        if domain or op in QUANTIZATION or graphs_of(node):
            return False
        if op in _SHAPES and not self._walk.folds_shapes:
            return False
        if op == "Dropout" and len(node.input) > 2:
            return False
        signature = signature_of(op, domain, self._walk.versions.get(domain, 1))
        if signature is None or not signature.is_deterministic:
            return False
        return all(self._types[name] in _ARRAY_TYPES for name in outputs)

    def _infer(self, node: NodeProto, outputs: Sequence[str], bodies: Sequence[GraphWalk]) -> None:
        """Record the shapes of the results of a node."""
        inference = self._walk.inference
        if all(static_shape(self._shapes.get(name)) is not None for name in outputs):
            return
        shapes: dict[str, Shape] = {}
        if bodies:
            results = [body.results() for body in bodies]
            shapes = shapes_from_bodies(node, self.shape, results)
        elif inference is not None and not graphs_of(node):
            shapes = inference.infer(node, self)
            if node.op_type in SHAPED_BY_VALUES and self._has_computed(node, shapes, outputs):
                shapes = inference.infer(node, self)
        for name in outputs:
            self._note_shape(name, shapes.get(name))

    def _has_computed(
        self, node: NodeProto, inferred_shapes: Mapping[str, Shape], outputs: Sequence[str]
    ) -> bool:
        """Return whether small constant inputs were computed, if output shapes are unknown."""
        if all(static_shape(inferred_shapes.get(name)) is not None for name in outputs):
            return False
        names = [
            name
            for name in filter(None, node.input[:])
            if not self.nodes.is_value_known(name)
            and self.nodes.is_constant(name)
            and is_short(self.shape(name))
        ]
        return bool(names) and self._compute(names)

    def _note_shape(self, name: str, inferred: Shape | None) -> None:
        """Record the shape of a tensor, merged with the known one.
        Unknown dimensions get a name."""
        shape = merge_shapes(self._shapes.get(name), inferred)
        if shape is not None:
            shape = [self._walk.new_name() if dim is None else dim for dim in shape]
        self._shapes[name] = shape

    def _compute_value(self, name: str) -> Any:
        """Return the value of a small constant, computed now; None if that fails."""
        self._compute([name])
        return self.nodes.values.get(name)

    def _compute(self, names: Sequence[str]) -> bool:
        """Return whether small constants, and the small ones they depend on, were computed."""
        if not self._failed.isdisjoint(names):
            return False
        results = dict.fromkeys(names)
        results.update(
            (name, None) for name in self.nodes.cone(names) if is_short(self.shape(name))
        )
        try:
            values = evaluate_constants(self.nodes.model_of(results), list(results))
        except PolygraphyException as error:
            G_LOGGER.verbose(f"{', '.join(names)} cannot be computed: {error}")
            self._failed.update(names)
            return False
        self.nodes.values.update(values)
        for name in values:
            self._elements.pop(name, None)
        return True

    # Branches.

    def _select_branch(self, node: NodeProto) -> str | None:
        """Return the name of the branch that a node takes, or None.
        The result is None if it is unknown, or there is none."""
        if node.op_type != "If" or domain_of(node.domain):
            return None
        name = node.input[0]
        value = self.nodes.small_constant(name)
        if value is None and self.nodes.is_constant(name) and not self.nodes.is_value_known(name):
            value = self._compute_value(name)
        if value is None or value.size != 1:
            return None
        return "then_branch" if value.reshape(-1)[0] else "else_branch"

    def _inline_branch(
        self, node: NodeProto, scopes: Sequence[GraphTypes], chosen: str
    ) -> list[tuple[int, NodeProto, list[GraphTypes]]]:
        """Append a branch's nodes to the graph; return their positions and subgraphs' types."""
        graph = self._graph
        self._taken = self._taken or names_in_use(graph)
        self._called = self._called or {node.name for node in graph.node}
        names = [attribute.name for attribute in node.attribute if attribute.HasField("g")]
        scope = scopes[names.index(chosen)]
        branch = graphs_of(node)[names.index(chosen)]
        first, weights = len(graph.node), len(graph.initializer)
        renamed = open_branch(graph, branch, list(node.output), self._taken, self._called)
        for before, after in renamed.items():
            self._types.declare(after, scope[before])
        for tensor in graph.initializer[weights:]:
            self.nodes.tensors[tensor.name] = tensor
        stated = static_shapes(branch)
        self._shapes.update((name, stated[name]) for name in renamed.values() if name in stated)
        added = enumerate(graph.node[first:])
        return [(first + index, item, scope.inner(index)) for index, item in added]

    # Replace nodes with values.

    def fold(self, partitioning: str | None, size_threshold: int | None) -> int:
        """Replace nodes with the constants that they compute; return the number of removed nodes.

        Args:
            partitioning: see `FoldConstants`.
            size_threshold: larger values, in bytes, are not folded.

        Returns:
            The number of removed nodes.

        Raises:
            BackendError: a constant cannot be computed, and there is no partitioning mode.
        """
        nodes = self.nodes

        def is_too_large(name: str) -> bool:
            """Return whether the value of a tensor is above the size limit."""
            if size_threshold is None:
                return False
            nbytes = nodes.nbytes(name, static_shape(self.shape(name)), self.kind(name))
            return nbytes is not None and nbytes > size_threshold

        while True:
            names = nodes.tensors_to_replace(is_too_large)
            missing = [name for name in names if not nodes.is_value_known(name)]
            if not missing:
                break
            values, failed = bisect_batch(missing, partial(self._compute_together, partitioning))
            nodes.values.update(values)
            if failed:
                nodes.keep(failed)
                if partitioning == "basic":
                    tensors = set(nodes.tensors_to_replace(is_too_large))
                    names = [
                        name for name in names if name in tensors and nodes.is_value_known(name)
                    ]
                    break
        return nodes.replace(names)

    def _compute_together(
        self, partitioning: str | None, names: Sequence[str]
    ) -> dict[str, Any] | None:
        """Return constants computed all at once, or None.
        The result is None if that fails and smaller parts should be tried."""
        try:
            return evaluate_constants(self.nodes.model_of(names), names)
        except PolygraphyException as error:
            if partitioning is None:
                raise BackendError(str(error)) from error
            G_LOGGER.verbose(f"{len(names)} constants cannot be computed in one run: {error}")
            return None
