"""Folds constants: replaces tensors that depend on no input by their values. Removes nodes that do
not change values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import Deferred
from polygraphy.adapters.onnx.fold.node_inference import NodeInference
from polygraphy.adapters.onnx.fold.shape_values import Room
from polygraphy.adapters.onnx.fold.walk import QUANTIZATION, GraphWalk, Walk
from polygraphy.adapters.onnx.graph.declared_types import correct_declared_types
from polygraphy.adapters.onnx.graph.editing import edit_model
from polygraphy.adapters.onnx.graph.element_types import (
    TypeInference,
    domain_of,
    signature_of,
    versions_of,
)
from polygraphy.adapters.onnx.graph.graph import clean_model, delete_where, rename_uses, sort
from polygraphy.adapters.onnx.graph.growth import limit_bytes, model_bytes
from polygraphy.adapters.onnx.graph.shapes import (
    infer_value_infos,
    is_made_up,
    shape_of,
    value_infos,
    without_ambiguous_names,
)
from polygraphy.adapters.onnx.storage.weights import BaseLoadOnnxCopy, all_graphs
from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.domain.errors import BackendError, ModelError, UsageError
from polygraphy.domain.tensors.shapes import Shape
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto


onnx = mod.lazy_import("onnx")

_GIVEN = "polygraphy.given_by_the_caller:"
"""What the domains of nodes begin with, for the time being, that have attributes of a caller: of
an operator that is not known, nothing is computed.
"""


def fold_functions(model: ModelProto, fold: Callable[[ModelProto], None]) -> None:
    """Fold constants in the functions of a model, without types and shapes of their inputs,
    which differ between calls.

    Args:
        model: the model, whose functions are changed where that leaves fewer nodes.
        fold: folds the constants of a model.

    Raises:
        ModelError: nodes of a function depend on each other in a cycle.
    """
    for function in model.functions:
        body = _as_model(function, model.ir_version)
        fold(body)
        _restore(body)
        constants = [
            onnx.helper.make_node("Constant", [], [tensor.name], value=tensor)
            for tensor in body.graph.initializer
        ]
        if len(constants) + len(body.graph.node) >= len(function.node):
            continue
        nodes = [*constants, *body.graph.node]
        del function.node[:]
        function.node.extend(nodes)
        union = {name for node in nodes for name in node.output}.union(function.input)
        values = [value for value in getattr(function, "value_info", ()) if value.name in union]
        if values:
            del function.value_info[:]
            function.value_info.extend(values)


def _as_model(function: FunctionProto, ir_version: int) -> ModelProto:
    """Return the body of a function as a model whose inputs have no types."""
    model: ModelProto = onnx.ModelProto(ir_version=ir_version)
    model.opset_import.extend(function.opset_import)
    graph = model.graph
    graph.name = function.name
    graph.node.extend(function.node)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
    sort(graph)
    domains = set()
    for subgraph in all_graphs(graph):
        for node in subgraph.node:
            if any(attribute.ref_attr_name for attribute in node.attribute):
                node.domain = f"{_GIVEN}{node.domain}"
                domains.add(node.domain)
    model.opset_import.extend(
        onnx.OperatorSetIdProto(domain=domain, version=1) for domain in domains
    )
    return model


def _restore(model: ModelProto) -> None:
    """Remove the mark from the domains of all nodes."""
    for graph in all_graphs(model.graph):
        for node in graph.node:
            node.domain = node.domain.removeprefix(_GIVEN)


fold_constants: Callable[..., ModelProto]

_PARTITIONINGS = (None, "basic", "recursive")

Shapes = dict[str, "Shape | None"]


@mod.export(funcify=True)
class FoldConstants(BaseLoadOnnxCopy):
    """Replaces the parts of an ONNX model that depend on no input with their values."""

    makes_new_model = True

    def __init__(
        self,
        model: Deferred[ModelProto],
        num_passes: int | None = None,
        do_shape_inference: bool | None = None,
        partitioning: str | None = None,
        fold_shapes: bool | None = None,
        copy: bool | None = None,
        error_ok: bool | None = None,
        size_threshold: int | None = None,
        allow_onnxruntime_shape_inference: bool | None = None,
    ) -> None:
        """Set the model, and the options of folding.

        Args:
            model: the model, or a loader that returns it.
            num_passes: the number of passes of shape inference and folding (default: one walk over
                the nodes that infers and folds node by node, after which nothing more can be
                folded).
            do_shape_inference: whether shapes are inferred, so that computations on shapes can be
                folded (default: True).
            partitioning: the reaction if a constant cannot be computed: None stops folding,
                ``basic`` computes every other constant separately, ``recursive`` also folds the
                operands of the failed one.
            fold_shapes: whether known shapes of tensors that are not constant are folded (default:
                True).
            copy: False to change a given model in place (default: it is not changed).
            error_ok: whether a failure to fold is only a warning (default: True).
            size_threshold: larger values, in bytes, are not folded.
            allow_onnxruntime_shape_inference: whether ONNX Runtime's symbolic shape inference also
                runs for shapes that remain unknown (default: False, because it takes seconds and
                rarely helps).
        """
        if partitioning not in _PARTITIONINGS:
            raise UsageError(
                f"{partitioning!r} is not a partitioning mode.",
                hint="Available: 'basic', 'recursive'.",
            )
        super().__init__(model, copy)
        self._num_passes = num_passes
        self._infers = do_shape_inference is not False
        self._partitioning = partitioning
        self._folds_shapes = fold_shapes is not False
        self._size_threshold = size_threshold
        self._error_ok = error_ok is not False
        self._said: set[str] = set()  # The nodes that were already logged as not folded.
        self._symbolic = allow_onnxruntime_shape_inference is True

    def call_impl(self) -> ModelProto:
        """Return the model with folded constants.

        Raises:
            ModelError: nodes depend on each other in a cycle.
            BackendError: a constant cannot be computed, and `error_ok` is False.
        """
        self._said.clear()
        return edit_model(self.load, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Fold constants in a model, and return it."""
        before = _count(model)
        G_LOGGER.progress(f"Folding Constants | Original Nodes: {before}")
        sort(model.graph)
        if self._infers:
            correct_declared_types(model)
        try:
            self._fold(model)
            room = self._room(model)
            fold_functions(model, lambda body: self._fold_body(body, room))
        except BackendError as error:
            if not self._error_ok:
                raise
            G_LOGGER.warning(f"Constant folding stopped: {error}")
        clean_model(model)
        after = _count(model)
        G_LOGGER.finish(
            f"Total Nodes | Original: {before:>5}, After Folding: {after:>5} |"
            f" {before - after:>5} Nodes Folded"
        )
        return model

    def _fold(self, model: ModelProto) -> None:
        """Fold constants in passes, until one changes nothing."""
        if self._num_passes is None:
            self._fold_once(model, self._shapes(model), infers_shapes=self._infers)
            if self._symbolic and self._infers and self._folds_shapes:
                shapes = self._shapes(model)
                if _has_unknown_shapes(model.graph, shapes):
                    self._fold_once(model, self._shapes(model, symbolic=True), infers_shapes=True)
            return
        for index in range(self._num_passes):
            G_LOGGER.verbose(f"Folding Constants | Pass {index + 1}")
            if not self._fold_once(model, self._shapes(model), infers_shapes=False):
                return

    def _fold_body(self, body: ModelProto, room: Room) -> None:
        """Fold the body of a function; all bodies share the memory budget."""
        infers_shapes = self._infers and self._num_passes is None
        for _ in range(self._num_passes or 1):
            if not self._fold_once(body, {}, room, infers_shapes=infers_shapes):
                return

    def _room(self, model: ModelProto) -> Room:
        """Return the budget in bytes by which a model may grow."""
        return Room(limit_bytes(model_bytes(model)), self._said)

    def _fold_once(
        self, model: ModelProto, shapes: Shapes, room: Room | None = None, *, infers_shapes: bool
    ) -> bool:
        """Fold the constants that one walk over the model finds, and return whether there were any.

        Args:
            model: the model, which is changed.
            shapes: the shapes of its tensors that are known beforehand.
            room: size limit of constants in bytes (default: what the model allows).
            infers_shapes: whether to infer shapes during the walk.
        """
        room = room or self._room(model)
        walk = walk_over(model, shapes, room, folds_shapes=self._folds_shapes, infers=infers_shapes)
        # Before version 4, branches have no weights.
        graphs = walk.graphs if model.ir_version >= 4 else walk.graphs[:1]
        folded = [graph.fold(self._partitioning, self._size_threshold) for graph in graphs]
        clean_model(model)
        return walk.has_opened or any(folded)

    def _shapes(self, model: ModelProto, *, symbolic: bool = False) -> Shapes:
        """Return the known shapes of the main graph."""
        return collect_shapes(model, infers=self._infers, symbolic=symbolic)


def collect_shapes(model: ModelProto, *, infers: bool = True, symbolic: bool = False) -> Shapes:
    """Return the known shapes of the tensors of the main graph."""
    infos = value_infos(without_ambiguous_names(model))
    if infers:
        infos.update(infer_value_infos(model, symbolic=symbolic, keeps_names=True))
    return {name: shape_of(value) for name, value in infos.items()}


def walk_over(
    model: ModelProto,
    shapes: Shapes | None = None,
    room: Room | None = None,
    *,
    folds_shapes: bool = True,
    infers: bool = True,
    opens_branches: bool = True,
) -> Walk:
    """Return a finished walk over a model: inferred shapes and types, and the constants to fold.

    Args:
        model: the model, whose nodes are in order.
        shapes: the known shapes of its tensors (default: inferred).
        room: size limit of constants in bytes (default: what the limit for models allows).
        folds_shapes: whether shapes of tensors that are not constant are folded.
        infers: whether shapes are inferred on the way.
        opens_branches: whether an If with a known condition is replaced by its branch.
    """
    inference = None
    if infers:
        try:
            inference = NodeInference(model)
        except ModelError as error:
            G_LOGGER.verbose(str(error))
    room = Room(limit_bytes(model_bytes(model)), set()) if room is None else room
    walk = Walk(model, room, folds_shapes, inference, opens_branches)
    types = TypeInference(model).infer_graph(model.graph)
    walk.run(types, collect_shapes(model) if shapes is None else shapes)
    return walk


def _count(model: ModelProto) -> int:
    """Return the number of nodes of a model, including subgraphs and functions."""
    inside = sum(len(function.node) for function in model.functions)
    return sum(len(graph.node) for graph in all_graphs(model.graph)) + inside


def _has_unknown_shapes(graph: GraphProto, shapes: Shapes) -> bool:
    """Return whether a node reads a dimension that is neither known nor named in the model."""
    for node in graph.node:
        if node.op_type in ("Shape", "Size"):
            shape = shapes.get(node.input[0])
            if shape is None or any(dim is None or is_made_up(dim) for dim in shape):
                return True
    return False


simplify: Callable[..., ModelProto]


_TO_THE_END = 2**31 - 1
"""The end of a slice whose length is unknown; the ONNX standard recommends this value or more."""


@mod.export(funcify=True)
class Simplify(BaseLoadOnnxCopy):
    """Removes nodes of an ONNX model that return one of their inputs unchanged, and nodes that
    repeat a computation.

    No rule changes the order of computation or rounding: outputs are identical to the bit.
    """

    makes_new_model = True

    def call_impl(self) -> ModelProto:
        """Return the model; raise ModelError if nodes depend on each other in a cycle."""
        return edit_model(self.load, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Remove nodes that do not change values from a model, and return it."""
        if model.training_info:
            G_LOGGER.warning("Models with training information cannot be simplified.")
            return model
        sort(model.graph)
        counts: Counter[str] = Counter()
        for walk in walk_over(model, opens_branches=False).graphs:
            _Simplification(model, walk).run(counts)
        clean_model(model)
        removed = ", ".join(f"{count} {op}" for op, count in sorted(counts.items()))
        G_LOGGER.finish(
            f"Removed {counts.total()} nodes that do not change values: {removed or 'none'}."
        )
        return model


class _Simplification:
    """Finds and removes redundant nodes of one graph."""

    def __init__(self, model: ModelProto, walk: GraphWalk) -> None:
        """Set the model, and the walk over its graph."""
        self._model = model
        self._graph: GraphProto = walk.nodes.graph
        self._walk = walk
        self._versions = versions_of(model.opset_import)
        self._same: dict[str, str] = {}
        """The tensor that replaces each redundant one, by name."""
        self._numbers: dict[Any, str] = {}
        """The first tensor for each computation or value, by its key."""

    def run(self, counts: Counter[str]) -> None:
        """Remove all redundant nodes, and count them by operator."""
        outputs = {value.name for value in self._graph.output}
        noted = {annotation.tensor_name for annotation in self._graph.quantization_annotation}
        computed = {name for node in self._graph.node for name in node.output[:] if name}
        final: dict[str, str] = {}  # New names of tensors that are outputs now.
        unwanted: set[int] = set()
        for index, node in enumerate(self._graph.node):
            pairs = self._duplicate_outputs(node)
            if not pairs or not noted.isdisjoint(node.output[:]):
                continue
            results = [name for name, _ in pairs if name in outputs]
            if results:
                # An output keeps its name; its operand takes over the name if possible.
                [(name, source), *other_pairs] = pairs
                if other_pairs or source not in computed or source in outputs or source in final:
                    continue
                if source in noted:
                    continue
                final[source] = name
                self._same[name] = source
            self._same.update(pairs)
            unwanted.add(index)
            counts[node.op_type] += 1
        if not unwanted:
            return
        positions = iter(range(len(self._graph.node)))
        delete_where(self._graph.node, lambda _: next(positions) in unwanted)
        names = {name: final.get(source, source) for name, source in self._same.items()}
        names.update(final)
        names = {name: after for name, after in names.items() if name != after}
        rename_uses(self._graph, names)
        for node in self._graph.node:
            for position, name in enumerate(node.output[:]):
                if name in final:
                    node.output[position] = final[name]
        delete_where(self._graph.value_info, lambda value: value.name in names)

    def _duplicate_outputs(self, node: NodeProto) -> list[tuple[str, str]]:
        """Return the results of a node that equal another tensor, each with that tensor."""
        if domain_of(node.domain) or graphs_of(node) or not node.output:
            return []
        rule = _RULES.get(node.op_type)
        if rule is not None and len(node.output) == 1 and node.input and rule(node, self._walk):
            return [(node.output[0], self._source(node.input[0]))]
        key = self._result_key(node)
        if key is None:
            return []
        pairs = []
        for position, name in enumerate(node.output[:]):
            first = self._numbers.setdefault((position, *key), name)
            if name and first != name:
                pairs.append((name, first))
        complete = len(pairs) == sum(map(bool, node.output))
        return pairs if complete else []

    def _source(self, name: str) -> str:
        """Return the tensor that replaces a tensor; itself if none does."""
        return self._same.get(name, name)

    def _result_key(self, node: NodeProto) -> tuple[Any, ...] | None:
        """Return a key that is equal for nodes with equal outputs, or None.
        The result is None if other things also matter."""
        if node.op_type in QUANTIZATION:
            return None  # Backends recognize patterns of these nodes, so keep them.
        signature = signature_of(node.op_type, "", self._versions.get("", 1))
        if signature is None or not signature.is_deterministic or node.op_type == "Dropout":
            return None
        attributes = sorted(
            (attribute.name, attribute.SerializeToString(deterministic=True))
            for attribute in node.attribute
        )
        # If outputs are omitted, no other node computes them.
        wanted = tuple(map(bool, node.output))
        operands = tuple(map(self._operand_key, node.input[:]))
        return node.op_type, operands, tuple(attributes), wanted

    def _operand_key(self, name: str) -> Any:
        """Return a key for the value of an operand, equal for equal constants."""
        tensor = self._walk.tensor(name)
        value = None if tensor is None else self._walk.nodes.small_constant(name)
        if value is None or value.dtype.hasobject:
            return self._source(name)
        return tensor.data_type if tensor else 0, value.shape, value.tobytes()


def _is_idle_identity(_: NodeProto, __: GraphWalk) -> bool:
    """Return True: an Identity node never changes values."""
    return True


def _is_idle_reshape(node: NodeProto, walk: GraphWalk) -> bool:
    """Return whether a Reshape changes nothing: elements keep their order, so equal shapes suffice.
    One dimension may be unknown if all others and the number of elements are equal.
    """
    shape, target = walk.shape(node.input[0]), walk.elements_of(node.input[1])
    if shape is None or target is None or len(shape) != len(target.values):
        return False
    copies = not any(attribute.name == "allowzero" and attribute.i for attribute in node.attribute)
    open_dims = 0
    for dim, wanted in zip(shape, target.values):
        if wanted == -1:
            open_dims += 1
        elif not (wanted == 0 and copies) and (wanted is None or wanted != dim):
            return False
    return open_dims <= 1


def _is_idle_transpose(node: NodeProto, walk: GraphWalk) -> bool:
    """Return whether a Transpose keeps the order of all axes."""
    for attribute in node.attribute:
        if attribute.name == "perm":
            return list(attribute.ints) == list(range(len(attribute.ints)))
    shape = walk.shape(node.input[0])
    return shape is not None and len(shape) <= 1


def _is_idle_cast(node: NodeProto, walk: GraphWalk) -> bool:
    """Return whether a Cast converts to the type that the tensor has already."""
    kind = walk.kind(node.input[0])
    return kind is not None and kind == walk.kind(node.output[0])


def _is_idle_expand(node: NodeProto, walk: GraphWalk) -> bool:
    """Return whether an Expand changes nothing: each requested dimension is equal, or 1."""
    shape, target = walk.shape(node.input[0]), walk.elements_of(node.input[1])
    if shape is None or target is None or len(shape) < len(target.values):
        return False
    last = shape[len(shape) - len(target.values) :]
    return all(
        wanted == 1 or (wanted is not None and wanted == dim)
        for dim, wanted in zip(last, target.values)
    )


def _is_idle_slice(node: NodeProto, walk: GraphWalk) -> bool:
    """Return whether a Slice returns all elements in order."""
    if len(node.input) < 3:
        return False
    shape = walk.shape(node.input[0])
    limits = list(_operands(node, walk))
    if shape is None or any(limit is None for limit in limits):
        return False
    starts, ends, *further = limits
    axes = further[0] if further else range(len(starts))
    steps = further[1] if len(further) > 1 else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        if not isinstance(axis, int) or not -len(shape) <= axis < len(shape) or step != 1:
            return False
        dim = shape[axis]
        if start != 0 or not isinstance(end, int):
            return False
        if end < (dim if isinstance(dim, int) else _TO_THE_END):
            return False
    return True


def _operands(node: NodeProto, walk: GraphWalk) -> Iterator[Any]:
    """Yield the elements of the operands that limit a slice; None for unknown ones."""
    count = 0
    for position, name in enumerate(node.input[1:]):
        if name:
            elements = walk.elements_of(name)
            yield None if elements is None else elements.values
            count = 0 if elements is None else len(elements.values)
        else:  # Defaults for omitted axes and steps.
            yield range(count) if position == 2 else [1] * count


def _passes_single_input(node: NodeProto, _: GraphWalk) -> bool:
    """Return whether a node has a single input, which it returns unchanged."""
    return len(node.input) == 1


_RULES: dict[str, Callable[[NodeProto, GraphWalk], bool]] = {
    "Cast": _is_idle_cast,
    "Concat": _passes_single_input,
    "Expand": _is_idle_expand,
    "Identity": _is_idle_identity,
    "Reshape": _is_idle_reshape,
    "Slice": _is_idle_slice,
    "Transpose": _is_idle_transpose,
}
