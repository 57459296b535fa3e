"""Rewrites whole models, with their functions, so that they compute in a narrower type."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve

from polygraphy.adapters.onnx.cast.cast_graph import Scope
from polygraphy.adapters.onnx.cast.cast_rules import KEPT_OPERATORS, WIDE, CastSettings, Forms
from polygraphy.adapters.onnx.cast.cast_selection import CastSelection, names_of
from polygraphy.adapters.onnx.cast.narrowed_weights import (
    NarrowedWeights,
    is_placeholder,
    original,
)
from polygraphy.adapters.onnx.graph.constants import graph_weights
from polygraphy.adapters.onnx.graph.element_types import TypeInference, domain_of, versions_of
from polygraphy.adapters.onnx.graph.graph import is_in_order, sort, taken_names, unused_name
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.external import external_files
from polygraphy.adapters.onnx.storage.weights import all_graphs
from polygraphy.adapters.onnx_common.messages import all_nodes, graphs_of
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.errors import ModelError, UsageError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.narrowing import narrowed
from polygraphy.logger import G_LOGGER, LogMode

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

    FunctionKey = tuple[str, str, str]


_FIRST_OPSETS = {DataType.FLOAT16: 6, DataType.BFLOAT16: 13}  # From these on, Cast knows the type.


def check_castable(model: ModelProto, dtype: DataTypeEntry, selection: CastSelection) -> None:
    """Return whether a model can be cast.

    Raises:
        UsageError: `dtype` is neither float16 nor bfloat16.
        UnknownNameError: the selection has a name that nothing goes by.
        ModelError: the opset of the model has no such type, or its weights are not loaded.
    """
    if dtype.name not in HALF:
        raise UsageError(
            f"A model cannot be cast to {dtype}.",
            hint=f"Available: {', '.join(HALF)}.",
        )
    opset = versions_of(model.opset_import).get("")
    if opset is not None and opset < _FIRST_OPSETS[dtype]:
        raise ModelError(
            f"The model is of opset {opset}, in which nothing can be cast to {dtype}.",
            hint=f"Export it with opset {_FIRST_OPSETS[dtype]} or above, or convert it: --opset.",
        )
    if files := external_files(model):
        raise ModelError(
            f"The model cannot be cast to {dtype} without its weights, which are in {files[0]}.",
            hint="Load the external data, too.",
        )
    selection.check(_all_nodes(model))


def _with_wide_statistics(
    model: ModelProto, dtype: DataTypeEntry, weights: Sequence[TensorProto]
) -> set[str]:
    """Return the normalisations that divide by numbers which the type cannot hold: a variance that
    is set to the largest value changes all that the node makes, and what it makes has room.
    """
    kept: set[str] = set()
    for graph in all_graphs(model.graph):
        known = graph_weights(graph)
        for node in graph.node:
            if node.op_type != "BatchNormalization" or domain_of(node.domain):
                continue
            tensors = [known[name] for name in node.input[1:] if name in known]
            tensors = [original(t, weights) if is_placeholder(t) else t for t in tensors]
            if any(narrowed(elements(tensor), dtype)[1].clamped for tensor in tensors):
                kept.update(names_of(node))
    if kept:
        G_LOGGER.info(
            f"These stay in float32, because their statistics do not fit {dtype}:"
            f" {', '.join(sorted(map(repr, kept)))}.",
            mode=LogMode.ONCE,
        )
    return kept


def cast_in_place(
    model: ModelProto,
    dtype: DataTypeEntry,
    selection: CastSelection,
    weights: Sequence[TensorProto] = (),
    *,
    casts_io: bool = False,
    is_trial: bool = False,
) -> dict[str, Forms]:
    """Rewrite a model in place.

    Args:
        model: the model, which `check_castable` has nothing against.
        dtype: the type to compute in.
        selection: what is cast.
        weights: those that the placeholders among the model's initialisers stand for; see
            `narrowed_weights.original`.
        casts_io: whether its float32 inputs and outputs become narrow, too.
        is_trial: whether nothing is logged about what weights lose.

    Returns:
        Which operands and results of the nodes that were lowered are narrow, by their first
        results.
    """
    if not is_in_order(model.graph):
        sort(model.graph)
    inference = TypeInference(model)
    types = inference.of_graph(model.graph)
    converted = NarrowedWeights(dtype, weights)
    versions = versions_of(model.opset_import)
    selection = evolve(
        selection,
        keep_ops=selection.keep_ops | KEPT_OPERATORS,
        keep_nodes=selection.keep_nodes | _with_wide_statistics(model, dtype, weights),
    )
    functions = _cast_functions(model, inference, selection)
    if "" not in versions:  # Then there can be no Casts, and no node of the standard's domain.
        return {}
    settings = CastSettings(
        elem_type=dtype.onnx(),
        kind=f"tensor({dtype.name})",
        suffix=HALF[dtype.name],
        selection=selection,
        functions=functions,
        convert=converted.convert,
        fixed_inputs=model.ir_version < 4,
    )
    taken = taken_names(model.graph)
    scope = Scope(settings, types, versions, taken=taken)
    outputs = [value.name for value in model.graph.output]
    scope.rewrite_graph(model.graph, narrow_border=casts_io, is_kept=False)
    _restore_outputs(model.graph, outputs, taken)
    for function in model.functions:
        key = _key(function)
        if key in functions:
            [given] = inference.calls[key]
            inner = Scope(
                settings,
                inference.of_function(function, given),
                versions_of(function.opset_import),
                taken={name for node in function.node for name in (*node.output, node.name)}
                | set(function.input),
            )
            inner.rewrite_function(function)
            if not any(domain_of(entry.domain) == "" for entry in function.opset_import):
                function.opset_import.add(domain="", version=versions.get("", 1))
    if not is_trial:
        converted.report()
    return settings.forms


def _restore_outputs(graph: GraphProto, names: Sequence[str], taken: set[str]) -> None:
    """Give outputs their names back, where a Cast makes them that the tensor before it had."""
    renamed: dict[str, str] = {}
    for value, name in zip(graph.output, names):
        if value.name != name and value.name not in renamed:
            renamed.update({value.name: name, name: unused_name(f"{name}_fp32", taken)})
            value.name = name
    if renamed:
        _rename(graph, renamed)


def _rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    weights = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name in weights:  # Old versions of the format list weights there, too.
            value.name = names.get(value.name, value.name)
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        for listed in (node.input, node.output):
            for position, name in enumerate(listed):
                if name in names:
                    listed[position] = names[name]
        for inner in graphs_of(node):
            _rename(inner, names)
            for value in inner.output:
                value.name = names.get(value.name, value.name)
    for value in graph.value_info:
        value.name = names.get(value.name, value.name)


def _all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    for owner in (model.graph, *model.functions):
        yield from all_nodes(owner)


def _key(function: Any) -> FunctionKey:
    return domain_of(function.domain), function.name, function.overload


def _cast_functions(
    model: ModelProto, inference: TypeInference, selection: CastSelection
) -> frozenset[FunctionKey]:
    """Return the functions that can be rewritten: all calls are alike, none is kept, and neither is
    a function that calls them.
    """
    bodies = {_key(function): function for function in model.functions}
    lowered = {
        key
        for key, function in bodies.items()
        if _is_called_alike(inference.calls.get(key, set()), inference, function)
    }
    changed = True
    while changed:
        callers: list[tuple[bool, Any]] = [(False, model.graph.node)]
        callers += [(key not in lowered, function.node) for key, function in bodies.items()]
        refused = lowered.intersection(
            key
            for is_kept, nodes in callers
            for key in _kept_operators(nodes, selection, is_kept=is_kept)
        )
        lowered -= refused
        changed = bool(refused)
    return frozenset(lowered)


def _kept_operators(
    nodes: Any, selection: CastSelection, *, is_kept: bool
) -> Iterator[FunctionKey]:
    """Yield what the nodes call that stay as they are, in sub-graphs, too."""
    for node in nodes:
        kept = is_kept or selection.keeps(node)
        if kept or not selection.chooses(node):
            yield domain_of(node.domain), node.op_type, node.overload
        for graph in graphs_of(node):
            yield from _kept_operators(graph.node, selection, is_kept=kept)


def _is_called_alike(
    calls: Collection[tuple[str | None, ...]], inference: TypeInference, function: Any
) -> bool:
    if len(calls) != 1:
        return False
    [given] = calls
    types = inference.of_function(function, given)
    known = None not in given and all(types[name] is not None for name in function.output)
    return known and (WIDE in given or any(types[name] == WIDE for name in function.output))
