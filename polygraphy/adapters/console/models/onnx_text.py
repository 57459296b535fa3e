"""An ONNX model, and a TensorFlow graph, as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Union

import numpy as np

from polygraphy.domain.model import Attribute, Detail, Graph, Model, Node, Tensor, Weight
from polygraphy.domain.model.description import TensorFlowGraph
from polygraphy.domain.tensors.naming import one_line

_INDENT = "    "
_SHOWN_TYPES = ("tensor", "tensors", "graph", "graphs")


def onnx_lines(model: Model, detail: Detail) -> list[str]:
    """Return the lines of text about a model."""
    return ["==== ONNX Model ====", *lines_below_heading(model, detail)]


def lines_below_heading(model: Model, detail: Detail) -> Iterator[str]:
    """Yield the lines of text about a model without the heading: from the model's name on."""
    versions = {domain: version for domain, version in model.opsets.items() if domain}
    text = f" | Other Opsets: {versions}" if versions else ""
    opset = model.opsets.get("", model.opsets.get("ai.onnx", "unknown"))
    yield f"Name: {one_line(model.graph.name)} | ONNX Opset: {opset}{text}"
    yield ""
    if detail.attrs and model.graph.doc:
        yield "---- Docstring ----"
        yield from (f"| {line}" for line in model.graph.doc.splitlines())
        yield ""
    yield from graph_lines(model.graph, detail)
    if detail.layers and model.functions:
        yield ""
        yield f"---- {len(model.functions)} Function(s) ----"
        for function in model.functions:
            name = f"{function.domain}.{function.name}" if function.domain else function.name
            inputs, outputs = ", ".join(function.inputs), ", ".join(function.outputs)
            yield f"{one_line(f'{name}({inputs}) -> ({outputs})')} | {function.node_count} Node(s)"


def graph_lines(graph: Graph, detail: Detail) -> list[str]:
    """Return the lines about a whole graph; all text about a node is one element."""
    lines = _graph_lines(graph, detail, "Graph")
    if detail.layers and graph.nodes:
        last = lines.pop().split("\n")
        while not last[-1].strip():
            last.pop()
        lines += last
    return lines


def _graph_lines(
    graph: Graph, detail: Detail, title: str, outer: _Texts | None = None
) -> list[str]:
    """Return the lines about a graph: inputs, outputs, weights and nodes."""
    weight_texts = [
        f"{one_line(weight.name)} [dtype={weight.dtype}, shape={weight.shape}]"
        for weight in (graph.weights if detail.layers else ())
    ]
    lines = [
        f"---- {len(graph.inputs)} {title} Input(s) ----",
        _text_in_braces(map(tensor_text, graph.inputs)),
        "",
        f"---- {len(graph.outputs)} {title} Output(s) ----",
        _text_in_braces(map(tensor_text, graph.outputs)),
        "",
        f"---- {len(graph.weights)} Initializer(s) ----",
        *_weight_lines(graph.weights, weight_texts, detail),
        "",
        f"---- {graph.node_count} Node(s) ----",
    ]
    if detail.layers:
        lines += _node_texts(graph.nodes, detail, _tensor_texts(graph, weight_texts, outer))
    return lines


def _text_in_braces(texts: Iterable[str]) -> str:
    """Return texts as a list in braces, one per line."""
    return "{" + ",\n ".join(texts) + "}"


def tensor_text(tensor: Tensor) -> str:
    """Return a tensor as text: its name, and its data type and shape if they are known."""
    facts = []
    if tensor.dtype is not None:
        facts.append(f"dtype={tensor.dtype}")
    if tensor.shape is not None:
        facts.append(f"shape={tuple(-1 if dim is None else dim for dim in tensor.shape)}")
    return f"{one_line(tensor.name)} [{', '.join(facts)}]" if facts else one_line(tensor.name)


def _weight_lines(weights: tuple[Weight, ...], texts: list[str], detail: Detail) -> Iterator[str]:
    """Yield the lines about the weights of a graph, as far as the detail requires."""
    if detail.weights:
        for position, weight in enumerate(weights):
            if position > 0:
                yield ""
            yield f"Initializer | {one_line(weight.name)} {_values_title(weight)}"
            yield from (_INDENT + line for line in _value_lines(weight))
        if not weights:
            yield "{}"
    elif detail.layers:
        yield _text_in_braces(texts)


def _values_title(weight: Weight) -> str:
    """Return the title above the values of a weight."""
    return f"[dtype={weight.dtype}, shape={list(weight.shape)}] | Values:"


def _value_lines(weight: Weight) -> list[str]:
    """Return the lines of the values of a weight."""
    if weight.values is None:
        source = f", from {weight.location}" if weight.location else ""
        return [f"({weight.nbytes} bytes{source}, not shown)"]
    values = np.asarray(weight.values)
    if values.size == 1 and values.dtype.kind in "iu":
        # Format a single integer directly, because NumPy's formatter is slow.
        return [f"{'[' * values.ndim}{values.item()}{']' * values.ndim}"]
    return str(values).splitlines() or [""]


class _SubgraphTexts:
    """The texts about tensors in a subgraph, with those of the outer graph as a fallback."""

    def __init__(self, texts: Mapping[str, str], outer: _Texts) -> None:
        """Set the texts of a subgraph, and those of its outer graph."""
        self._texts = texts
        self._outer = outer

    def get(self, name: str, unknown: str, /) -> str:
        """Return the text about a tensor from the innermost graph that has it; else `unknown`."""
        return self._texts.get(name) or self._outer.get(name, unknown)


_Texts = Union[Mapping[str, str], _SubgraphTexts]
"""Texts about tensors, by name."""


def _tensor_texts(graph: Graph, weight_texts: Iterable[str], outer: _Texts | None) -> _Texts:
    """Return the text about each tensor of a graph, by name."""
    texts = {name: tensor_text(tensor) for name, tensor in graph.tensors.items()}
    for weight, text in zip(graph.weights, weight_texts):
        texts[weight.name] = f"Initializer | {text}"
    return texts if outer is None else _SubgraphTexts(texts, outer)


def _node_texts(nodes: Iterable[Node], detail: Detail, texts: _Texts) -> list[str]:
    # A large model has tens of thousands of nodes, so do little for each node.
    """Return the text about each node."""
    node_texts, get = [], texts.get
    for index, node in enumerate(nodes):
        inputs = ",\n     ".join([get(name, one_line(name)) for name in node.inputs])
        outputs = ",\n         ".join([get(name, one_line(name)) for name in node.outputs])
        text = f"    {{{inputs}}}\n    " if node.inputs else "    {}"
        attributes = _attributes_text(node, detail, texts) if detail.attrs else ""
        number = str(index).ljust(4)
        node_texts.append(
            f"Node {number} | {one_line(node.name)} [Op: {one_line(node.op)}]\n{text} ->"
            f" {{{outputs}}}\n{attributes}"
        )
    return node_texts


def _attributes_text(node: Node, detail: Detail, texts: _Texts) -> str:
    """Return the text about the attributes of a node."""
    lines = ["---- Attributes ----"] if node.attributes else []
    for attribute in node.attributes:
        label = f"{node.name}.{attribute.name}" if node.name else attribute.name
        lines += _attribute_lines(one_line(label), attribute, detail, texts)
    return "".join(f"{_INDENT}{line}\n" for line in lines)


def _attribute_lines(
    label: str, attribute: Attribute, detail: Detail, texts: _Texts
) -> Iterator[str]:
    """Yield the lines about an attribute."""
    if attribute.kind not in _SHOWN_TYPES:
        value: Any = attribute.value
        yield f"{label} = {list(value) if isinstance(value, tuple) else value}"
        return
    several = attribute.kind.endswith("s")
    for position, value in enumerate(attribute.value if several else (attribute.value,)):
        numbered = f"{label}[{position}]" if several else label
        if isinstance(value, Graph):
            yield f"{numbered} = "
            inner = "\n".join(_graph_lines(value, detail, "Subgraph", texts))
            yield from (f"{_INDENT * 2}{line}" for line in inner.split("\n"))
        elif detail.weights:
            yield f"{numbered} = Tensor: {_values_title(value)}"
            yield from (_INDENT + line for line in _value_lines(value))
        else:
            yield f"{numbered} = Tensor: [dtype={value.dtype}, shape={list(value.shape)}]"


def tensorflow_lines(described: TensorFlowGraph, detail: Detail) -> Iterator[str]:
    """Yield the lines of text about a TensorFlow graph."""
    yield "==== TensorFlow Graph ===="
    yield f"Name: {one_line(described.graph.name)} | Type: {described.kind}"
    yield ""
    yield from graph_lines(described.graph, detail)
