"""Folds constants: replaces what depends on no input by its value."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from copy import copy as copied
from functools import partial
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.fold.branches import inline_taken_branches
from polygraphy.adapters.onnx.fold.constant_nodes import ConstantNodes, Settings
from polygraphy.adapters.onnx.fold.shape_values import Elements, shape_values
from polygraphy.adapters.onnx.graph.editing import edited
from polygraphy.adapters.onnx.graph.element_types import GraphTypes, TypeInference, graphs_of
from polygraphy.adapters.onnx.graph.graph import clean_model, sort
from polygraphy.adapters.onnx.graph.growth import limit_bytes, model_bytes
from polygraphy.adapters.onnx.graph.shapes import inferred_value_infos, is_made_up, value_infos
from polygraphy.adapters.onnx.graph.value_infos import shape_of
from polygraphy.adapters.onnx.storage.ownership import own_model
from polygraphy.adapters.onnx.storage.weights import all_graphs
from polygraphy.domain.errors import BackendError, PolygraphyException, UsageError
from polygraphy.domain.search.halving import computed_by_halves
from polygraphy.domain.tensors.shapes import Shape
from polygraphy.logger import G_LOGGER
from polygraphy.ports.binding import resolve
from polygraphy.ports.editing import ConstantEvaluator

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto


fold_constants: Callable[..., ModelProto]

onnx = mod.lazy_import("onnx")

_PARTITIONINGS = (None, "basic", "recursive")
_MOST_PASSES = 50

Shapes = dict[str, "Shape | None"]


@mod.export(funcify=True)
class FoldConstants(BaseLoader):
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
        """Say what is folded.

        Args:
            model: the model, or a loader that makes it.
            num_passes: how often it is gone through (default: until nothing more can be folded).
            do_shape_inference: whether shapes are inferred before each pass, as they are unless
                this is False, so that what is computed from them can be folded.
            partitioning: what is done when a constant cannot be computed: None gives up folding,
                ``basic`` goes on with each of the others on its own, ``recursive`` also folds what
                the one that failed is computed from.
            fold_shapes: whether shapes of tensors that are not constant are folded, where they are
                known, as they are unless this is False.
            copy: False to change a given model in place (default: it stays as it is).
            error_ok: whether a model that cannot be folded further is passed on with a warning, as
                it is unless this is False.
            size_threshold: values of more bytes than this are not put into the model.
            allow_onnxruntime_shape_inference: whether ONNX Runtime's symbolic shape inference is
                tried, too, as it is unless this is False, when nothing more can be folded.
        """
        if partitioning not in _PARTITIONINGS:
            raise UsageError(
                f"{partitioning!r} is no partitioning.", hint="There is: 'basic', 'recursive'."
            )
        self._model = model
        self._num_passes = num_passes
        self._infers = do_shape_inference is not False
        self._partitioning = partitioning
        self._settings = Settings(
            fold_shapes=fold_shapes is not False, size_threshold=size_threshold
        )
        self._copy = copy
        self._has_changed = True  # Whether the model is another than when its shapes were inferred.
        self._may_go_on = False  # Whether a pass made something known that shapes do not tell.
        self._error_ok = error_ok is not False
        self._limit = float("inf")  # Bytes that constants may come to take.
        self._said: set[str] = set()  # What was logged in an earlier pass.
        self._symbolic = allow_onnxruntime_shape_inference is not False

    def call_impl(self) -> ModelProto:
        """Return the model.

        Raises:
            ModelError: nodes depend on each other in a circle.
            BackendError: a constant cannot be computed, and `error_ok` is False.
        """
        # What is found out on the way belongs to this call, not to the loader.
        return edited(lambda: own_model(self._model, self._copy), copied(self)._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        before = _count(model)
        G_LOGGER.info(f"Folding Constants | Original Nodes: {before}")
        sort(model.graph)
        try:
            self._fold(model)
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
        may_ask = self._symbolic and self._infers and self._settings.fold_shapes
        last = _MOST_PASSES if self._num_passes is None else self._num_passes
        before: dict[str, Any] | None = None
        shapes: Shapes = {}
        static: dict[str, Any] = {}
        self._has_changed = True
        self._said.clear()
        self._limit = limit_bytes(model_bytes(model))
        for index in range(last):
            if self._has_changed:
                shapes = self._shapes(model)
                static = _static_shapes(shapes)
            # Else, or when nothing new is known, nothing more can be folded.
            if not self._has_changed or _of_results(model, static) == before:
                if not may_ask or not _has_unknown_shapes(model.graph, shapes):
                    return
                may_ask = False
                static.update(_static_shapes(self._shapes(model, symbolic=True)))
                if _of_results(model, static) == before:
                    return
            G_LOGGER.verbose(f"Folding Constants | Pass {index + 1}")
            types = TypeInference(model).of_graph(model.graph)
            self._has_changed = self._may_go_on = False
            self._graph(model, model.graph, types, static, {})
            clean_model(model)
            before = None if self._may_go_on else _of_results(model, static)

    def _shapes(self, model: ModelProto, *, symbolic: bool = False) -> Shapes:
        """Return the shapes of the tensors that nodes take and make, as far as they are known."""
        infos = value_infos(model)
        if self._infers:
            found = inferred_value_infos(model, symbolic=symbolic, keeps_names=True)
            infos = {**infos, **found}
        used = {name for node in model.graph.node for name in node.input[:] + node.output[:]}
        return {name: shape_of(infos[name]) for name in used if name in infos}

    def _graph(
        self,
        model: ModelProto,
        graph: GraphProto,
        types: GraphTypes,
        shapes: MutableMapping[str, Any],
        outer: MutableMapping[str, TensorProto],
    ) -> None:
        """Fold one graph, and then those inside it, which see its constants."""
        inner = [
            (index, position, one)
            for index, node in enumerate(graph.node)
            for position, one in enumerate(graphs_of(node))
        ]
        nodes = ConstantNodes(model, graph, types, self._settings, outer)
        known = {}
        if self._settings.fold_shapes:
            found = shape_values(graph, shapes, nodes.small)
            known = {name: made.array() for name, made in found.items() if made.is_known}
        is_inner = graph is not model.graph
        scopes = [(one, types.inner(index)[position]) for index, position, one in inner]
        if not (is_inner and model.ir_version < 4):
            nodes.find(known)
            names = self._evaluated(nodes, shapes)
            self._has_changed |= bool(names)
            nodes.replace(names, lambda weight: _declare(model, graph, weight))
        for one, scope in scopes:
            own_shapes = ChainMap(_shapes_of(one), shapes)
            self._graph(model, one, scope, own_shapes, nodes.tensors)
        # Before version 4, a branch can have no weights that could be taken over.
        if model.ir_version >= 4 and inline_taken_branches(graph, nodes.condition):
            self._has_changed = self._may_go_on = True

    def _evaluated(self, nodes: ConstantNodes, shapes: Mapping[str, Any]) -> list[str]:
        """Find out the values of the tensors that are to be replaced, and return their names."""
        for message in nodes.leave_large(self._limit, shapes, partial(self._tried, nodes)):
            if message not in self._said:
                self._said.add(message)
                G_LOGGER.warning(message)
        while True:
            names = nodes.wanted()
            if large := nodes.too_large(names, shapes):
                nodes.keep(large)
                continue
            missing = [name for name in names if not nodes.is_at_hand(name)]
            if not missing:
                return names
            values, failed = self._computed(nodes, missing)
            nodes.values.update(values)
            if any(Elements.of(value) is not None for value in values.values()):
                self._may_go_on = True
            if failed:
                nodes.keep(failed)
                if self._partitioning == "basic":
                    kept = set(nodes.wanted())
                    return [name for name in names if name in kept and nodes.is_at_hand(name)]

    def _tried(self, nodes: ConstantNodes, names: Sequence[str]) -> dict[str, Any] | None:
        """Compute tensors; None where that fails."""
        try:
            return resolve(ConstantEvaluator).evaluate(nodes.model_of(names), names)
        except PolygraphyException as error:
            G_LOGGER.verbose(f"{', '.join(names)} cannot be computed: {error}")
            return None

    def _computed(
        self, nodes: ConstantNodes, names: Sequence[str]
    ) -> tuple[dict[str, Any], list[str]]:
        """Compute tensors all at once, or as many as possible where the partitioning allows it."""
        evaluator = resolve(ConstantEvaluator)

        def compute(chosen: Sequence[str]) -> dict[str, Any] | None:
            try:
                return evaluator.evaluate(nodes.model_of(chosen), chosen)
            except PolygraphyException as error:
                if self._partitioning is None:
                    raise BackendError(str(error)) from error
                G_LOGGER.verbose(f"{len(chosen)} constants cannot be computed at once: {error}")
                return None

        return computed_by_halves(names, compute)


def _count(model: ModelProto) -> int:
    return sum(len(graph.node) for graph in all_graphs(model.graph))


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


def _of_results(model: ModelProto, static: dict[str, Any]) -> dict[str, Any]:
    """Return the shapes of what nodes make."""
    return {
        name: static[name] for node in model.graph.node for name in node.output[:] if name in static
    }


def _static(shape: Shape | None) -> list[int | None] | None:
    return None if shape is None else [dim if isinstance(dim, int) else None for dim in shape]


def _static_shapes(shapes: Shapes) -> dict[str, Any]:
    return {name: _static(shape) for name, shape in shapes.items()}


def _shapes_of(graph: GraphProto) -> dict[str, Any]:
    return {
        value.name: _static(shape_of(value))
        for values in (graph.input, graph.output, graph.value_info)
        for value in values
    }


def _declare(model: ModelProto, graph: GraphProto, weight: TensorProto) -> None:
    """List a weight among the inputs where the version of the format asks for that."""
    if model.ir_version < 4:
        value = onnx.helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims))
        graph.input.append(value)
