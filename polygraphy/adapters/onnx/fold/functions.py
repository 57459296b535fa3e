"""Bodies of a model's functions, as models of their own that constants are folded in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import sort
from polygraphy.adapters.onnx.storage.weights import all_graphs

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto


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
