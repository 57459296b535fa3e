"""Folds constants: replaces what depends on no input by its value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import Deferred
from polygraphy.adapters.onnx.fold.node_inference import NodeInference
from polygraphy.adapters.onnx.fold.shape_values import Room
from polygraphy.adapters.onnx.fold.walk import Walk
from polygraphy.adapters.onnx.graph.editing import edited
from polygraphy.adapters.onnx.graph.element_types import TypeInference
from polygraphy.adapters.onnx.graph.graph import clean_model, sort
from polygraphy.adapters.onnx.graph.growth import limit_bytes, model_bytes
from polygraphy.adapters.onnx.graph.shapes import (
    inferred_value_infos,
    is_made_up,
    shape_of,
    value_infos,
    without_ambiguous_names,
)
from polygraphy.adapters.onnx.storage.stored import BaseLoadOnnxCopy
from polygraphy.adapters.onnx.storage.weights import all_graphs
from polygraphy.domain.errors import BackendError, ModelError, UsageError
from polygraphy.domain.tensors.shapes import Shape
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto


onnx = mod.lazy_import("onnx")

_GIVEN = "polygraphy.given_by_the_caller:"
"""What the domains of nodes begin with, for the time being, that have attributes of a caller: of
an operator that is not known, nothing is computed.
"""


def fold_functions(model: ModelProto, fold: Callable[[ModelProto], None]) -> None:
    """Fold what is constant in the functions of a model; types and shapes of their inputs differ
    from call to call, so nothing is made of those.

    Args:
        model: the model, whose functions are changed where that leaves fewer nodes.
        fold: folds the constants of a model.

    Raises:
        ModelError: nodes of a function depend on each other in a circle.
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
        made = {name for node in nodes for name in node.output}.union(function.input)
        values = [value for value in getattr(function, "value_info", ()) if value.name in made]
        if values:
            del function.value_info[:]
            function.value_info.extend(values)


def _as_model(function: FunctionProto, ir_version: int) -> ModelProto:
    """Return the body of a function as a model, of which the inputs have no types."""
    model: ModelProto = onnx.ModelProto(ir_version=ir_version)
    model.opset_import.extend(function.opset_import)
    graph = model.graph
    graph.name = function.name
    graph.node.extend(function.node)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
    sort(graph)
    domains = set()
    for each in all_graphs(graph):
        for node in each.node:
            if any(attribute.ref_attr_name for attribute in node.attribute):
                node.domain = f"{_GIVEN}{node.domain}"
                domains.add(node.domain)
    model.opset_import.extend(
        onnx.OperatorSetIdProto(domain=domain, version=1) for domain in domains
    )
    return model


def _restore(model: ModelProto) -> None:
    for each in all_graphs(model.graph):
        for node in each.node:
            node.domain = node.domain.removeprefix(_GIVEN)


fold_constants: Callable[..., ModelProto]

_PARTITIONINGS = (None, "basic", "recursive")

Shapes = dict[str, "Shape | None"]


@mod.export(funcify=True)
class FoldConstants(BaseLoadOnnxCopy):
    """Replaces the parts of an ONNX model that depend on no input by their values."""

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
        """Set what is folded.

        Args:
            model: the model, or a loader that makes it.
            num_passes: how often shapes are inferred and what is known then is folded (default:
                one walk over the nodes, in which each node's shape is inferred from what its
                operands have become, so that nothing more can be folded).
            do_shape_inference: whether shapes are inferred, as they are unless this is False, so
                that what is computed from them can be folded.
            partitioning: what is done when a constant cannot be computed: None gives up folding,
                ``basic`` goes on with each of the others on its own, ``recursive`` also folds what
                the one that failed is computed from.
            fold_shapes: whether shapes of tensors that are not constant are folded, where they are
                known, as they are unless this is False.
            copy: False to change a given model in place (default: it stays as it is).
            error_ok: whether a model that cannot be folded further is passed on with a warning, as
                it is unless this is False.
            size_threshold: values of more bytes than this are not put into the model.
            allow_onnxruntime_shape_inference: True to ask ONNX Runtime's symbolic shape inference,
                too, where there are shapes that are not known in the end (default: it is not, as
                it takes seconds and rarely finds any).
        """
        if partitioning not in _PARTITIONINGS:
            raise UsageError(
                f"{partitioning!r} is no partitioning.", hint="Available: 'basic', 'recursive'."
            )
        super().__init__(model, copy)
        self._num_passes = num_passes
        self._infers = do_shape_inference is not False
        self._partitioning = partitioning
        self._folds_shapes = fold_shapes is not False
        self._size_threshold = size_threshold
        self._error_ok = error_ok is not False
        self._said: set[str] = set()  # The nodes of which was logged that they are not folded.
        self._symbolic = allow_onnxruntime_shape_inference is True

    def call_impl(self) -> ModelProto:
        """Return the model.

        Raises:
            ModelError: nodes depend on each other in a circle.
            BackendError: a constant cannot be computed, and `error_ok` is False.
        """
        self._said.clear()
        return edited(self.load, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        before = _count(model)
        G_LOGGER.info(f"Folding Constants | Original Nodes: {before}")
        sort(model.graph)
        try:
            self._fold(model)
            room = self._room(model)
            fold_functions(model, lambda body: self._fold_body(body, room))
        except BackendError as error:
            if not self._error_ok:
                raise
            G_LOGGER.warning(f"Folding of constants stopped: {error}")
        clean_model(model)
        after = _count(model)
        G_LOGGER.finish(
            f"Total Nodes | Original: {before:>5}, After Folding: {after:>5} |"
            f" {before - after:>5} Nodes Folded"
        )
        return model

    def _fold(self, model: ModelProto) -> None:
        if self._num_passes is None:
            self._walk(model, self._shapes(model), along=self._infers)
            if self._symbolic and self._infers and self._folds_shapes:
                shapes = self._shapes(model)
                if _has_unknown_shapes(model.graph, shapes):
                    self._walk(model, self._shapes(model, symbolic=True), along=True)
            return
        for index in range(self._num_passes):
            G_LOGGER.verbose(f"Folding Constants | Pass {index + 1}")
            if not self._walk(model, self._shapes(model), along=False):
                return

    def _fold_body(self, body: ModelProto, room: Room) -> None:
        """Fold the body of a function; all of them share the room."""
        along = self._infers and self._num_passes is None
        for _ in range(self._num_passes or 1):
            if not self._walk(body, {}, room, along=along):
                return

    def _room(self, model: ModelProto) -> Room:
        return Room(limit_bytes(model_bytes(model)), self._said)

    def _walk(
        self, model: ModelProto, shapes: Shapes, room: Room | None = None, *, along: bool
    ) -> bool:
        """Fold what a walk over the model finds, and return whether that is anything.

        Args:
            model: the model, which is changed.
            shapes: what is known of the shapes of its tensors before.
            room: how much constants may come to take (default: what the model allows).
            along: whether shapes are inferred on the way, too.
        """
        room = room or self._room(model)
        walk = walk_over(model, shapes, room, folds_shapes=self._folds_shapes, infers=along)
        # Before version 4, a branch can have no weights.
        graphs = walk.graphs if model.ir_version >= 4 else walk.graphs[:1]
        folded = [graph.fold(self._partitioning, self._size_threshold) for graph in graphs]
        clean_model(model)
        return walk.has_opened or any(folded)

    def _shapes(self, model: ModelProto, *, symbolic: bool = False) -> Shapes:
        return known_shapes(model, infers=self._infers, symbolic=symbolic)


def known_shapes(model: ModelProto, *, infers: bool = True, symbolic: bool = False) -> Shapes:
    """Return the shapes of the tensors of the main graph, as far as they are known."""
    infos = value_infos(without_ambiguous_names(model))
    if infers:
        infos.update(inferred_value_infos(model, symbolic=symbolic, keeps_names=True))
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
    """Return what one walk over a model finds out.

    Args:
        model: the model, whose nodes are in order.
        shapes: the shapes of its tensors, as far as they are known before (default: inferred).
        room: how much constants may come to take (default: what the limit for models allows).
        folds_shapes: whether shapes of tensors that are not constant are constants.
        infers: whether shapes are inferred on the way.
        opens_branches: whether branches that are known to be taken take the place of their nodes.
    """
    inference = None
    if infers:
        try:
            inference = NodeInference(model)
        except ModelError as error:
            G_LOGGER.verbose(str(error))
    room = Room(limit_bytes(model_bytes(model)), set()) if room is None else room
    walk = Walk(model, room, folds_shapes, inference, opens_branches)
    types = TypeInference(model).of_graph(model.graph)
    walk.run(types, known_shapes(model) if shapes is None else shapes)
    return walk


def _count(model: ModelProto) -> int:
    inside = sum(len(function.node) for function in model.functions)
    return sum(len(graph.node) for graph in all_graphs(model.graph)) + inside


def _has_unknown_shapes(graph: GraphProto, shapes: Shapes) -> bool:
    """Return whether a node asks for a dimension that is neither known nor a name of the
    model's.
    """
    for node in graph.node:
        if node.op_type in ("Shape", "Size"):
            shape = shapes.get(node.input[0])
            if shape is None or any(dim is None or is_made_up(dim) for dim in shape):
                return True
    return False
