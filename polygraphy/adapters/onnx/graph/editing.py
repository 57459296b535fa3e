"""Base of all edits of ONNX models."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.graph.graph import declare_weights, sort_nodes_of
from polygraphy.adapters.onnx.storage.elements import is_stripped, weight_problem
from polygraphy.adapters.onnx.storage.weights import (
    SMALL,
    all_graphs,
    all_tensors,
    byte_size,
    is_external,
    makes_new_model,
    skeleton,
)
from polygraphy.adapters.onnx_common.loadable import evaluate_model
from polygraphy.adapters.onnx_common.messages import all_nodes, copy_of, graphs_of
from polygraphy.domain.errors import ModelError, PolygraphyException
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto


check_model: Callable[..., ModelProto]

onnx = mod.lazy_import("onnx")

_COPIED = 32 << 20  # Size in bytes above which a model is checked without its weights.
_DISCOURAGED = {"GroupNormalization": "InstanceNormalization"}
"""Operators that opset 18 introduced as deprecated, because opset 21 defines them with other
inputs; and those with the same number of inputs, which the checker accepts in their place.
"""
_WITHOUT_SHAPE = "Field 'shape' of 'type'"
_TOLERATED = ("No Op registered for", "No opset import for domain", _WITHOUT_SHAPE)
"""Complaints about operators of plugins, and about outputs of unknown rank: both can be run."""


@mod.export(funcify=True)
class CheckModel(BaseLoader):
    """Checks an ONNX model and returns it."""

    @property
    def makes_new_model(self) -> bool:
        """Return whether the result is a new model, which only the caller has; see `ownership`."""
        return makes_new_model(self._model)

    def __init__(self, model: Deferred[ModelProto]) -> None:
        """Create a loader that checks a model, or the model from a loader."""
        self._model = model

    def call_impl(self) -> ModelProto:
        """Return the model, which is valid.
        If the checker rejects it, nodes are sorted, unnamed graphs get a name, and weights become
        inputs if the format version requires that.

        Complaints of the checker about plugin operators and outputs of unknown rank are only
        logged.

        Raises:
            ModelError: the model violates the standard.
        """
        model = evaluate_model(self._model)
        problem = checker_error(model)
        if problem and _tidy_model(model):
            problem = checker_error(model)
        if problem and is_tolerated(problem):
            # The checker stopped at the first problem, so check the order of later nodes here.
            _check_order(model.graph, ChainMap())
            G_LOGGER.warning(f"The model is not entirely standard ONNX: {problem}")
        elif problem:
            raise ModelError(f"The model violates the ONNX specification: {problem}")
        return model


def _tidy_model(model: ModelProto) -> bool:
    """Sort nodes, name graphs and declare weights; return whether anything changed.
    Backends require it.
    """
    is_declared = declare_weights(model)
    unnamed = [graph for graph in all_graphs(model.graph) if not graph.name]
    for graph in unnamed:
        graph.name = "graph"
    with suppress(ModelError):  # Sorting fails if there is a cycle, which the checker also reports.
        if sort_nodes_of(model):
            G_LOGGER.info("Sorted the nodes of the model topologically.")
            return True
    return bool(unnamed) or is_declared


def _check_order(graph: GraphProto, outer: ChainMap[str, None]) -> None:
    """Raise if a graph or a subgraph reads a tensor before it is computed.

    Raises:
        ModelError: a graph does.
    """
    child = outer.new_child(dict.fromkeys(value.name for value in graph.input))
    child.update(dict.fromkeys(tensor.name for tensor in graph.initializer))
    child.update(dict.fromkeys(sparse.values.name for sparse in graph.sparse_initializer))
    # A direct lookup in the first map is faster, and nearly all names are there.
    version = child.maps[0]
    for node in graph.node:
        for name in node.input[:]:
            if name and name not in version and name not in child:
                raise ModelError(
                    f"The model violates the ONNX specification: the {node.op_type} node"
                    f" {node.name!r} reads {name!r}, which no earlier node computes."
                )
        for inner in graphs_of(node):
            _check_order(inner, child)
        version.update(dict.fromkeys(node.output[:]))
    for value in graph.output:
        if value.name not in child:
            raise ModelError(
                f"The model violates the ONNX specification: no node of graph {graph.name!r}"
                f" computes its output {value.name!r}."
            )


def is_tolerated(problem: str) -> bool:
    """Return whether a model can run despite an error of the checker."""
    return any(sign in problem for sign in _TOLERATED)


def is_only_discouraged(problem: str) -> bool:
    """Return whether the checker only complains about a deprecated operator without a replacement.
    Such models are valid.
    """
    return any(f"registered for {op} is deprecated" in problem for op in _DISCOURAGED)


def _without_discouraged(model: ModelProto) -> ModelProto:
    """Return a model for the checker in which another operator with the same inputs replaces a
    deprecated one.
    """
    model = copy_of(model)
    for node in (node for owner in (model.graph, *model.functions) for node in all_nodes(owner)):
        if node.op_type in _DISCOURAGED and not node.domain:
            node.op_type = _DISCOURAGED[node.op_type]
            attribute = [attribute for attribute in node.attribute if attribute.name == "epsilon"]
            del node.attribute[:]
            node.attribute.extend(attribute)
    return model


def checker_error(model: ModelProto, *, needs_shapes: bool = True) -> str:
    """Return the error of the checker about a model, or about a weight whose elements do not fit
    its shape, in one line; empty if there is none.

    Args:
        model: the model.
        needs_shapes: whether a missing shape of an output is an error. It hides all others.
    """
    if problem := next(filter(None, map(weight_problem, all_tensors(model))), ""):
        return problem
    checked = _checkable_model(model)
    problem = _checker_message(checked)
    if is_only_discouraged(problem):
        checked = _without_discouraged(checked)
        problem = _checker_message(checked)
    if not needs_shapes and _WITHOUT_SHAPE in problem:
        problem = _checker_message(_with_shapes(checked))
    return problem


def _with_shapes(model: ModelProto) -> ModelProto:
    """Return a model for the checker in which every declared tensor has a shape, even if a wrong
    one: the checker does not compare it.
    """
    model = copy_of(model)
    for graph in all_graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.shape.SetInParent()
    return model


def _checker_message(model: ModelProto) -> str:
    """Return the error of the checker; empty if there is none."""
    try:
        onnx.checker.check_model(model)
    except Exception as error:
        # onnx raises its own class, and protobuf's implementations raise different ones.
        return " ".join(str(error).split())
    return ""


def _checkable_model(model: ModelProto) -> ModelProto:
    """Return a model for the checker, without large weights, which it would copy."""
    size = 0
    for tensor in all_tensors(model):
        if is_external(tensor) or is_stripped(tensor):
            return _without_contents(model)
        size += byte_size(tensor)
    return _without_contents(model) if size > _COPIED else model


def _without_contents(model: ModelProto) -> ModelProto:
    """Return the model with an empty tensor for each large weight: the checker does not compare
    weights with their readers.
    """

    def external_location(tensor: TensorProto) -> tuple[str, int, int] | None:
        """Return file name, offset and length (both 0) for a large weight; None for others."""
        is_left_out = byte_size(tensor) > SMALL or is_stripped(tensor)
        return ("left-out", 0, 0) if is_left_out else None

    bare = skeleton(model, external_location)
    for graph in all_graphs(bare.graph):
        for tensor in graph.initializer:
            if is_external(tensor):
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")
                del tensor.dims[:]
                tensor.dims.append(0)
    return bare


_SYMPTOMS = (IndexError, KeyError, RecursionError, StopIteration, TypeError, ValueError)


def edit_model(model: Deferred[ModelProto], edit: Callable[[ModelProto], ModelProto]) -> ModelProto:
    """Return a model after an edit function was applied to it.

    Raises:
        ModelError: the model violates the standard, so it cannot be edited.
    """
    edited = evaluate(model)
    with translate_model_faults(edited):
        return edit(edited)


@contextmanager
def translate_model_faults(model: ModelProto) -> Iterator[None]:
    """Convert an error inside the block to ModelError if the model is invalid,
    such as a node without a required input."""
    try:
        yield
    except PolygraphyException:
        raise
    except _SYMPTOMS as error:
        problem = checker_error(model)
        if not problem:
            raise
        raise ModelError(f"The model violates the ONNX specification: {problem}") from error
