"""An ONNX model as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from polygraphy.domain.model import Attribute, Detail, Graph, Model, Node, Tensor, Weight

__all__ = ["graph_lines", "named_lines", "onnx_lines", "tensor_text"]

_INDENT = "    "
_SHOWN_TYPES = ("tensor", "tensors", "graph", "graphs")


def onnx_lines(model: Model, detail: Detail) -> list[str]:
    """Return the lines of the text about a model."""
    return ["==== ONNX Model ====", *named_lines(model, detail)]


def named_lines(model: Model, detail: Detail) -> Iterator[str]:
    """Yield these lines without the heading: from the model's name on."""
    others = {domain: version for domain, version in model.opsets.items() if domain}
    more = f" | Other Opsets: {others}" if others else ""
    opset = model.opsets.get("", model.opsets.get("ai.onnx", "unknown"))
    yield f"Name: {model.graph.name} | ONNX Opset: {opset}{more}"
    yield ""
    if detail.attrs and model.graph.doc:
        yield "---- Docstring ----"
        yield from model.graph.doc.splitlines()
        yield ""
    yield from graph_lines(model.graph, detail)
    if detail.layers and model.functions:
        yield ""
        yield f"---- {len(model.functions)} Function(s) ----"
        for function in model.functions:
            name = f"{function.domain}.{function.name}" if function.domain else function.name
            inputs, outputs = ", ".join(function.inputs), ", ".join(function.outputs)
            yield f"{name}({inputs}) -> ({outputs}) | {function.node_count} Node(s)"


def graph_lines(graph: Graph, detail: Detail) -> list[str]:
    """Return the lines about a whole graph."""
    lines = _graph_lines(graph, detail, "Graph", _Operands())
    while detail.layers and lines and not lines[-1].strip():
        lines.pop()
    return lines


def _graph_lines(graph: Graph, detail: Detail, title: str, outer: _Operands) -> list[str]:
    lines = [
        f"---- {len(graph.inputs)} {title} Input(s) ----",
        *_tensor_lines(graph.inputs),
        "",
        f"---- {len(graph.outputs)} {title} Output(s) ----",
        *_tensor_lines(graph.outputs),
        "",
        f"---- {len(graph.weights)} Initializer(s) ----",
        *_weight_lines(graph.weights, detail),
        "",
        f"---- {graph.node_count} Node(s) ----",
    ]
    if detail.layers:
        operands = _Operands(graph, outer)
        for index, node in enumerate(graph.nodes):
            lines += _node_lines(index, node, detail, operands)
            lines.append("")
    return lines


def _tensor_lines(tensors: Iterable[Tensor]) -> list[str]:
    return _braced([tensor_text(tensor) for tensor in tensors])


def _braced(texts: list[str], indent: str = "") -> list[str]:
    if len(texts) < 2:
        return [f"{indent}{{{texts[0]}}}" if texts else f"{indent}{{}}"]
    lines = [f"{indent} {text}," for text in texts]
    lines[0] = f"{indent}{{{texts[0]},"
    lines[-1] = f"{indent} {texts[-1]}}}"
    return lines


def tensor_text(tensor: Tensor) -> str:
    """Return what is written about a tensor: its name, and what is known of it."""
    facts = []
    if tensor.dtype is not None:
        facts.append(f"dtype={tensor.dtype}")
    if tensor.shape is not None:
        facts.append(f"shape={tuple(-1 if dim is None else dim for dim in tensor.shape)}")
    return f"{tensor.name} [{', '.join(facts)}]" if facts else tensor.name


def _weight_lines(weights: tuple[Weight, ...], detail: Detail) -> Iterator[str]:
    if detail.weights:
        for position, weight in enumerate(weights):
            if position > 0:
                yield ""
            yield f"Initializer | {weight.name} {_values_title(weight)}"
            yield from (_INDENT + line for line in _value_lines(weight))
        if not weights:
            yield "{}"
    elif detail.layers:
        yield from _braced([_weight_text(weight) for weight in weights])


def _weight_text(weight: Weight) -> str:
    return f"{weight.name} [dtype={weight.dtype}, shape={weight.shape}]"


def _values_title(weight: Weight) -> str:
    return f"[dtype={weight.dtype}, shape={list(weight.shape)}] | Values:"


def _value_lines(weight: Weight) -> list[str]:
    if weight.values is None:
        place = f", from {weight.location}" if weight.location else ""
        return [f"({weight.nbytes} bytes{place}, not shown)"]
    return str(np.asarray(weight.values)).splitlines() or [""]


class _Operands(dict[str, str]):
    """What is written about tensors, by name, in one graph and those around it, inner ones first.
    Each text is made when it is first looked up.
    """

    def __init__(self, graph: Graph | None = None, outer: _Operands | None = None) -> None:
        super().__init__()
        self._tensors = {} if graph is None else graph.tensors
        self._weights = {} if graph is None else {weight.name: weight for weight in graph.weights}
        self._outer = outer

    def __missing__(self, name: str) -> str:
        if (weight := self._weights.get(name)) is not None:
            text = f"Initializer | {_weight_text(weight)}"
        elif (tensor := self._tensors.get(name)) is not None:
            text = tensor_text(tensor)
        else:
            text = name if self._outer is None else self._outer[name]
        self[name] = text
        return text


def _node_lines(index: int, node: Node, detail: Detail, operands: _Operands) -> list[str]:
    # A large model has tens of thousands of nodes: as little as possible is done for each.
    inputs, outputs = node.inputs, node.outputs
    lines = [f"Node {str(index).ljust(4)} | {node.name} [Op: {node.op}]"]
    arrow = f"{_INDENT} -> " if inputs else f"{_INDENT}{{}} -> "
    if len(inputs) == 1:
        lines.append(f"{_INDENT}{{{operands[inputs[0]]}}}")
    elif inputs:
        lines += _braced([operands[name] for name in inputs], _INDENT)
    if len(outputs) == 1:
        lines.append(f"{arrow}{{{operands[outputs[0]]}}}")
    else:
        first, *others = _braced([operands[name] for name in outputs])
        lines.append(f"{arrow}{first}")
        lines += [f"{_INDENT * 2}{line}" for line in others]
    if detail.attrs and node.attributes:
        lines.append(f"{_INDENT}---- Attributes ----")
        for attribute in node.attributes:
            label = f"{node.name}.{attribute.name}" if node.name else attribute.name
            inner = _attribute_lines(label, attribute, detail, operands)
            lines += [_INDENT + line for line in inner]
    return lines


def _attribute_lines(
    label: str, attribute: Attribute, detail: Detail, operands: _Operands
) -> Iterator[str]:
    if attribute.kind not in _SHOWN_TYPES:
        value: Any = attribute.value
        yield f"{label} = {list(value) if isinstance(value, tuple) else value}"
        return
    several = attribute.kind.endswith("s")
    for position, value in enumerate(attribute.value if several else (attribute.value,)):
        numbered = f"{label}[{position}]" if several else label
        if isinstance(value, Graph):
            yield f"{numbered} = "
            inner = _graph_lines(value, detail, "Subgraph", operands)
            yield from (f"{_INDENT * 2}{line}" for line in inner)
        elif detail.weights:
            yield f"{numbered} = Tensor: {_values_title(value)}"
            yield from (_INDENT + line for line in _value_lines(value))
        else:
            yield f"{numbered} = Tensor: [dtype={value.dtype}, shape={list(value.shape)}]"
