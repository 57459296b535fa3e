"""Checks a model as a whole: what no single node shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.graph.editing import checker_error, is_tolerated
from polygraphy.adapters.onnx.lint.node_checks import NodeChecks, wrong_call
from polygraphy.adapters.onnx.storage.parsing import without_context
from polygraphy.adapters.onnx_common.messages import all_nodes, graphs_of
from polygraphy.domain.checks.lint import EXCEPTION

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

onnx = mod.lazy_import("onnx")


def find_model_violation(model: ModelProto) -> str:
    """Return how a model as a whole violates the ONNX specification; see the port."""
    message = without_context(checker_error(model, needs_shapes=False))
    if message and not is_tolerated(message):
        # The checker calls a missing tensor an order, and names no nodes.
        searches = (find(model.graph) for text, find in _REWORDED.items() if text in message)
        return next(chain.from_iterable(searches), message)
    findings = (_linked_attributes, _unimported, _wrong_calls, _without_type)
    return next(chain.from_iterable(find(model) for find in findings), "")


def first_violation(model: ModelProto) -> str:
    """Return the first violation of the ONNX specification, with its node; see the port."""
    labels = [node.name or next(iter(node.output), "") for node in model.graph.node]
    for entry in NodeChecks(model).entries(labels):
        if entry.level == EXCEPTION:
            node = f"{entry.op} {entry.nodes[0]!r}: " if entry.nodes else ""
            return f"{node}{entry.message}"
    return find_model_violation(model)


def _repeated_tensors(graph: GraphProto, outer: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield a sentence on each tensor that is defined more than once, with both definitions.

    Args:
        graph: the graph.
        outer: the definitions of the tensors of the surrounding graphs, in words.
    """
    known = dict(outer or {})
    definitions = [(value.name, "an input of the graph") for value in graph.input]
    for index, node in enumerate(graph.node):
        label = f" {node.name!r}" if node.name else ""
        maker = f"an output of {node.op_type}{label} at index {index}"
        definitions += [(name, maker) for name in node.output if name]
        for inner in graphs_of(node):
            within = {**known, **dict(definitions)}
            yield from _repeated_tensors(inner, within)
    for name, text in definitions:
        if name in known:
            yield f"{name!r} is {known[name]}, and {text}. A tensor may only be defined once."
        known[name] = text


def _missing_tensors(graph: GraphProto, outer: Collection[str] = ()) -> Iterator[str]:
    """Yield a sentence on each tensor that a node reads, and that is not in the model.

    Args:
        graph: the graph.
        outer: the tensors of the surrounding graphs.
    """
    known = {*outer, *(tensor.name for tensor in (*graph.input, *graph.initializer))}
    known.update(tensor.values.name for tensor in graph.sparse_initializer)
    known.update(name for node in graph.node for name in node.output)
    for node in graph.node:
        label = node.name or next(iter(node.output), "")
        for name in node.input:
            if name and name not in known:
                yield (
                    f"{node.op_type} {label!r} reads {name!r}, which is neither an input, nor a"
                    " weight, nor computed by a node."
                )
        for inner in graphs_of(node):
            yield from _missing_tensors(inner, known)


_REWORDED: Mapping[str, Callable[[GraphProto], Iterator[str]]] = {
    "topologically sorted": _missing_tensors,
    "as output names": _repeated_tensors,
}
"""By words of a message of the checker, the search for a message that names the nodes."""


def _linked_attributes(model: ModelProto) -> Iterator[str]:
    """Yield a sentence on each attribute that refers to one of a function, outside functions."""
    for node in all_nodes(model.graph):
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                label = node.name or next(iter(node.output), "")
                yield (
                    f"The attribute {attribute.name!r} of {node.op_type} {label!r} refers to"
                    f" the attribute {attribute.ref_attr_name!r} of a function, but the node is"
                    " not in a function."
                )


def _unimported(model: ModelProto) -> Iterator[str]:
    """Yield a sentence on each called function whose operator set is not imported,
    which the checker does not tell from the operators of a plugin."""
    imported = {entry.domain for entry in model.opset_import}
    functions = {(function.domain, function.name) for function in model.functions}
    for node in all_nodes(model.graph):
        if node.domain not in imported and (node.domain, node.op_type) in functions:
            yield f"No opset import for domain {node.domain!r} of the function {node.op_type!r}."


def _wrong_calls(model: ModelProto) -> Iterator[str]:
    """Yield a sentence on each call of a function with a wrong number of inputs or outputs."""
    functions = {(function.domain, function.name): function for function in model.functions}
    for node in all_nodes(model.graph):
        if (function := functions.get((node.domain, node.op_type))) is not None:
            yield from (violation.message for violation in wrong_call(node, function))


def _without_type(model: ModelProto) -> Iterator[str]:
    """Yield a sentence on each input or output of the model without a known data type."""
    known_types = set(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}
    for role, values in (("input", model.graph.input), ("output", model.graph.output)):
        for value in values:
            tensor = value.type.tensor_type
            if value.type.HasField("tensor_type") and tensor.elem_type not in known_types:
                yield f"The {role} {value.name!r} has no known data type: {tensor.elem_type}."
