"""What a page knows about its model, as JSON has it; `viewer/*.js` read it.

The document is kept small, because a model may have 20,000 nodes: lists stand for objects, and a
tensor is described once per graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.adapters.web.levels import levels_of
from polygraphy.domain.accuracy.output_rows import OutputRow
from polygraphy.domain.arithmetic.summary import summarize
from polygraphy.domain.model import Attribute, Graph, Model, Node, Tensor, Weight
from polygraphy.domain.model.drawing import GraphDrawing
from polygraphy.domain.model.statistics import ModelStatistics

_MOST_ELEMENTS = 200  # Of a list in an attribute; what is left out is counted.
_MOST_LETTERS = 2000


def document(
    model: Model,
    drawings: Sequence[GraphDrawing],
    statistics: ModelStatistics,
    errors: Mapping[str, OutputRow] | None = None,
) -> dict[str, Any]:
    """Return the document of a page.

    Args:
        model: what is shown.
        drawings: its graphs, in the order of `polygraphy.domain.model.drawing.draw`.
        statistics: of its size.
        errors: what was found about tensors of the main graph, by name.
    """
    numbers = {id(drawing.graph): number for number, drawing in enumerate(drawings)}
    functions = {
        drawing.function: number for number, drawing in enumerate(drawings) if drawing.function
    }
    maker = _Maker(numbers, functions)
    return {
        "title": model.path.replace("\\", "/").rpartition("/")[2] or model.path,
        "facts": _facts(model, statistics),
        "ops": list(statistics.ops.items()),
        "errors": None if errors is None else levels_of(errors),
        "graphs": [maker.drawing(drawing) for drawing in drawings],
    }


def _facts(model: Model, statistics: ModelStatistics) -> list[list[str]]:
    """Return what is said about the whole model: titles and texts."""
    facts: dict[str, str] = {"Graph": model.graph.name}
    if model.opsets:
        facts["Opsets"] = ", ".join(
            f"{domain or 'ai.onnx'} {version}" for domain, version in model.opsets.items()
        )
    if model.ir_version:
        facts["IR version"] = str(model.ir_version)
    facts["Producer"] = model.producer
    facts["Nodes"] = f"{statistics.nodes:,}"
    facts["Parameters"] = f"{statistics.parameters:,} ({statistics.weight_bytes:,} bytes)"
    if statistics.macs and not statistics.macs_unknown:
        facts["Multiply-accumulate operations"] = f"{statistics.macs:,}"
    facts.update((f"Metadata: {key}", value) for key, value in model.metadata.items())
    facts["Description"] = model.graph.doc
    return [[title, text] for title, text in facts.items() if text]


class _Maker:
    """Turns drawings into lists; graphs are named by number."""

    def __init__(self, numbers: Mapping[int, int], functions: Mapping[Any, int]) -> None:
        self._numbers = numbers
        self._functions = functions

    def drawing(self, drawing: GraphDrawing) -> dict[str, Any]:
        """Return a graph with the places of its parts."""
        graph = drawing.graph
        title = ".".join(filter(None, drawing.function)) if drawing.function else graph.name
        return {
            "title": title,
            "parent": drawing.parent,
            "isFunction": drawing.function is not None,
            "inputs": [tensor.name for tensor in graph.inputs],
            "outputs": [tensor.name for tensor in graph.outputs],
            "nodes": [self._node(node) for node in graph.nodes],
            "tensors": _tensors(graph),
            "weights": {weight.name: _weight(weight) for weight in graph.weights},
            "wires": [
                [start, end, name, *bends]
                for (start, end, name), bends in zip(drawing.wires, drawing.layout.bends)
            ],
            "rows": drawing.layout.rows,
            "columns": drawing.layout.columns,
        }

    def _node(self, node: Node) -> list[Any]:
        inside = [self._numbers[id(graph)] for graph in node.graphs]
        body = self._functions.get((node.domain, node.op))
        return [
            node.name,
            node.op,
            node.domain,
            node.inputs,
            node.outputs,
            [self._attribute(attribute) for attribute in node.attributes],
            inside if body is None else [*inside, body],
        ]

    def _attribute(self, attribute: Attribute) -> list[Any]:
        """Return name, kind and text of an attribute; graphs are shown by themselves."""
        kind, value = attribute.kind, attribute.value
        if kind in ("graph", "graphs"):
            graphs = (value,) if kind == "graph" else value
            text = ", ".join(graph.name or "unnamed" for graph in graphs)
        elif kind == "tensor":
            return [attribute.name, kind, _weight(value)]
        elif kind == "tensors":
            return [attribute.name, kind, [_weight(one) for one in value]]
        else:
            text = _text(value)
        return [attribute.name, kind, text]


def _tensors(graph: Graph) -> dict[str, list[Any]]:
    """Return what is known of tensors by name: data types and shapes."""
    known: dict[str, Tensor] = {tensor.name: tensor for tensor in (*graph.inputs, *graph.outputs)}
    known.update(graph.tensors)
    return {
        name: [tensor.dtype, tensor.shape]
        for name, tensor in known.items()
        if tensor.dtype is not None or tensor.shape is not None
    }


def _weight(weight: Weight) -> list[Any]:
    """Return data type, shape, bytes, file and, of elements that were read, statistics."""
    described: list[Any] = [weight.dtype, weight.shape, weight.nbytes, weight.location]
    if weight.values is not None:
        described.append(_statistics(np.asarray(weight.values)))
    return described


def _statistics(values: Any) -> list[list[str]]:
    if values.dtype.kind in "OSU" or not values.size:
        return [["elements", _text(values.ravel()[:_MOST_ELEMENTS].tolist())]]
    if values.size <= 16:
        return [["elements", _text(values.tolist())]]
    summary = summarize(values, quantiles=())
    shown = {
        "min": summary.min,
        "max": summary.max,
        "mean": summary.mean,
        "std": summary.std,
        "zeros": f"{summary.zeros:,} of {summary.size:,}",
        "NaN": summary.nan,
        "infinities": summary.posinf + summary.neginf,
    }
    return [[title, _text(value)] for title, value in shown.items() if value]


def _text(value: Any) -> str:
    """Return a value as a person reads it, and not more of it than a person reads."""
    if isinstance(value, (list, tuple)):
        listed = ", ".join(map(_text, value[:_MOST_ELEMENTS]))
        more = len(value) - _MOST_ELEMENTS
        return f"[{listed}{f', and {more:,} more' if more > 0 else ''}]"
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    text = str(value)
    more = len(text) - _MOST_LETTERS
    return text if more <= 0 else f"{text[:_MOST_LETTERS]}... and {more:,} more characters"
