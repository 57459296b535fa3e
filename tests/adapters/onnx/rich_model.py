"""A model with everything that the ONNX format has, and what each part of it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

from polygraphy.adapters.onnx.storage.parsing import encode_field
from polygraphy.adapters.onnx.storage.weights import all_graphs

__all__ = ["Facts", "facts_of", "rich_model"]

Facts = dict[tuple[str, str, str], Any]
"""What is said: of which kind of thing, its name, and what about it."""

_TEXT = """
<ir_version: 10, opset_import: ["" : 17, "own" : 1, "other" : 3],
 producer_name: "maker", producer_version: "1.2", domain: "org.example", model_version: 7,
 doc_string: "model doc">
rich (float[batch,4] x, bool flag) => (float[batch,4] y, float[batch,4] z)
<float[4,4] W = {1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1}, float[4] bias = {1,2,3,4}, float scale = {2},
 uint8 zero = {0}>
{
    a = MatMul(x, W)
    b = Mul(a, S)
    c = own.Twice(b)
    k = Constant<value = float[4] {1,1,1,1}>()
    k2 = Neg(k)
    d = Add(c, k2)
    e = Relu(d)
    seq = SequenceConstruct(e, d)
    one = Constant<value = int64 {1}>()
    f = SequenceAt(seq, one)
    opt = Optional(f)
    g = OptionalGetElement(opt)
    h = If(flag) <
        then_branch = then () => (float[batch,4] t) {
            t0 = Add(g, bias)
            t = Relu(t0)
        },
        else_branch = otherwise () => (float[batch,4] o) { o = Neg(g) }
    >
    m = own.Mystery(h)
    y = Identity(m)
    z = Abs(e)
}
<domain: "own", opset_import: ["" : 17, "other" : 3], doc_string: "function doc">
Twice (x) => (y) { y = Add(x, x) }
"""
_INNER = {"a": [None, 4], "b": [None, 4], "c": [None, 4], "d": [None, 4], "e": [None, 4],
          "f": [None, 4], "g": [None, 4], "h": [None, 4], "m": [None, 4]}  # fmt: skip
_NAMED = ("initializer", "input", "output", "value_info", "node")
_LATER = re.compile(rb"later [\w ]+;")


def rich_model() -> onnx.ModelProto:
    """Return the model. Everything that can has a doc string, metadata, and a field that the
    format has not yet.
    """
    model = parser.parse_model(_TEXT)
    graph = model.graph
    _add_sparse(graph, "S", [4], [2, 3], [1.0, 3.0])
    for name, shape in _INNER.items():
        graph.value_info.append(helper.make_tensor_value_info(name, 1, ["batch", *shape[1:]]))
    tensor = helper.make_tensor_type_proto(1, ["batch", 4])
    for name, kind in (
        ("seq", helper.make_sequence_type_proto(tensor)),
        ("opt", helper.make_optional_type_proto(tensor)),
    ):
        graph.value_info.append(helper.make_value_info(name, kind))
    inner = graph.node[[node.op_type for node in graph.node].index("If")].attribute[0].g
    inner.value_info.append(helper.make_tensor_value_info("t0", 1, ["batch", 4]))
    for one, name in ((graph, "b"), (graph, "x"), (graph, "S"), (inner, "t0")):
        annotation = one.quantization_annotation.add(tensor_name=name)
        for key, value in (("SCALE_TENSOR", "scale"), ("ZERO_POINT_TENSOR", "zero")):
            annotation.quant_parameter_tensor_names.add(key=key, value=value)
    training = model.training_info.add()
    training.algorithm.name = "training"
    training.update_binding.add(key="W", value="W_new")
    _describe(model)
    return onnx.ModelProto.FromString(model.SerializeToString())


def _add_sparse(
    graph: onnx.GraphProto, name: str, dims: list[int], where: list[int], values: list[float]
) -> None:
    sparse = graph.sparse_initializer.add(dims=dims)
    sparse.values.CopyFrom(numpy_helper.from_array(np.array(values, np.float32), name))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array(where, np.int64), f"{name}_indices"))


def _describe(model: onnx.ModelProto) -> None:
    """Add to each part what only people and later versions read."""
    for graph in all_graphs(model.graph):
        for count, node in enumerate(graph.node):
            node.name = f"{graph.name}{count}_{node.op_type}"
        for kind in _NAMED:
            for part in getattr(graph, kind):
                _annotate(part, f"{kind} {part.name}")
        for value in (*graph.input, *graph.output, *graph.value_info):
            value.type.denotation = "TENSOR"
            for dim in value.type.tensor_type.shape.dim[:1]:
                dim.denotation = "DATA_BATCH"
        _annotate(graph, f"graph {graph.name}")
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    _add_later(attribute, f"attribute {attribute.name}")
    for function in model.functions:
        _annotate(function, f"function {function.name}")
    model.metadata_props.add(key="note", value="model")
    _add_later(model, "model")


def _annotate(part: Any, what: str) -> None:
    part.doc_string = f"{what} doc"
    part.metadata_props.add(key="note", value=what)
    _add_later(part, what)


def _add_later(part: Any, what: str) -> None:
    part.MergeFromString(encode_field(9999, f"later {what};".encode()))


def facts_of(model: onnx.ModelProto) -> Facts:
    """Return what is said in a model."""
    facts: Facts = {
        ("model", "", each): getattr(model, each)
        for each in ("producer_name", "producer_version", "domain", "model_version", "doc_string")
    }
    facts.update({("opset", one.domain, "version"): one.version for one in model.opset_import})
    facts["model", "", "metadata"] = _metadata(model)
    facts["model", "", "training"] = [each.SerializeToString() for each in model.training_info]
    for function in model.functions:
        facts["function", function.name, "domains"] = {o.domain for o in function.opset_import}
        facts["function", function.name, "doc_string"] = function.doc_string
        facts["function", function.name, "metadata"] = _metadata(function)
    for graph in all_graphs(model.graph):
        facts["graph", graph.name, "doc_string"] = graph.doc_string
        facts["graph", graph.name, "metadata"] = _metadata(graph)
        for kind in _NAMED:
            for part in getattr(graph, kind):
                name = part.name
                kept = "value" if kind in ("input", "output", "value_info") else kind
                facts[kept, name, "doc_string"] = part.doc_string
                facts[kept, name, "metadata"] = _metadata(part)
                if kept == "value":
                    facts.update({(kept, name, what): found for what, found in _of_type(part.type)})
        for sparse in graph.sparse_initializer:
            facts["sparse", sparse.values.name, "bytes"] = sparse.SerializeToString()
        for annotation in graph.quantization_annotation:
            names = {one.key: one.value for one in annotation.quant_parameter_tensor_names}
            facts["annotation", annotation.tensor_name, "names"] = names
            for name in names.values():
                known = {one.name for one in model.graph.initializer}
                facts["annotation", annotation.tensor_name, name] = name in known
    for found in _LATER.findall(model.SerializeToString()):
        _, kind, *name = found[:-1].decode().split()
        kind = "value" if kind in ("input", "output", "value_info") else kind
        facts[kind, " ".join(name), "later"] = True
    return facts


def _metadata(part: Any) -> dict[str, str]:
    return {each.key: each.value for each in part.metadata_props}


def _of_type(kind: onnx.TypeProto) -> Iterator[tuple[str, Any]]:
    yield "denotation", kind.denotation
    yield "kind", kind.WhichOneof("value")
    if kind.WhichOneof("value") != "tensor_type":
        yield "type", kind.SerializeToString()
        return
    yield "elem_type", kind.tensor_type.elem_type
    dims = kind.tensor_type.shape.dim
    yield "dims", [dim.dim_param or dim.dim_value for dim in dims]
    yield "dim denotations", [dim.denotation for dim in dims]
