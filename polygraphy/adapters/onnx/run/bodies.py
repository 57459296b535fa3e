"""The graphs inside nodes, as models of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.shapes import inferred_value_infos
from polygraphy.adapters.onnx.graph.value_infos import described, value_info
from polygraphy.adapters.onnx.run.subgraph import copy_frame
from polygraphy.adapters.onnx_common.messages import names_in, used_by
from polygraphy.domain.tensors.metadata import MetadataTuple, TensorMetadata

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

numpy = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")

Values = Callable[[Sequence[str]], Mapping[str, Any]]
"""Returns what tensors of the graph around hold."""

_BODIES = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}


def body_of(
    model: ModelProto, node: NodeProto, values: Values
) -> tuple[ModelProto, dict[str, Any]] | None:
    """Return what a node computes inside, as a model, and the data of its inputs: the branch of an
    ``If`` that is taken; of a ``Loop`` or a ``Scan`` the first iteration.

    Args:
        model: holds the node in its graph.
        node: any node.
        values: returns what tensors of the graph hold.

    Returns:
        None where there is nothing inside, or it computes nothing.
    """
    graphs = {attribute.name: attribute.g for attribute in node.attribute}
    names = [name for name in _BODIES.get(node.op_type, ()) if name in graphs]
    if not names:
        return None
    if node.op_type == "If":
        [taken] = values(node.input[:1]).values()
        names = names[:1] if bool(numpy.asarray(taken).reshape(-1)[0]) else names[1:]
    if not names or not graphs[names[0]].node:
        return None
    body = graphs[names[0]]
    return _model_of(model, body, _own_feed(node, body, values), values)


def _own_feed(node: NodeProto, body: GraphProto, values: Values) -> dict[str, Any]:
    """Return what the inputs of a body hold in its first iteration."""
    names = [value.name for value in body.input]
    given = values([name for name in node.input if name])
    first = [given.get(name) for name in node.input]
    if node.op_type == "Loop":
        _, condition, *states = first
        start = True if condition is None else bool(numpy.asarray(condition).reshape(-1)[0])
        first = [numpy.array(0, numpy.int64), numpy.array(start), *states]
    elif node.op_type == "Scan":
        scanned = next(int(a.i) for a in node.attribute if a.name == "num_scan_inputs")
        axes = next((list(a.ints) for a in node.attribute if a.name == "scan_input_axes"), None)
        count = len(first) - scanned
        slices = [
            numpy.take(array, 0, axis=0 if axes is None else axes[index])
            for index, array in enumerate(first[count:])
        ]
        first = [*first[:count], *slices]
    return {name: array for name, array in zip(names, first) if array is not None}


def _model_of(
    model: ModelProto, body: GraphProto, feed: dict[str, Any], values: Values
) -> tuple[ModelProto, dict[str, Any]]:
    """Return a body as a model, which takes what it reads from around it as inputs, but for
    weights.
    """
    around = model.graph
    weights = {tensor.name: tensor for tensor in around.initializer}
    sparse = {tensor.values.name: tensor for tensor in around.sparse_initializer}
    constants = {
        name: node for node in around.node if node.op_type == "Constant" for name in node.output
    }
    own = names_in(body)
    reads = dict.fromkeys(name for node in body.node for name in used_by(node))
    captured = [name for name in reads if name not in own]

    inner: ModelProto = onnx.ModelProto()
    copy_frame(model, inner)
    inner.graph.CopyFrom(body)
    inner.graph.name = body.name or around.name
    del inner.graph.node[:]
    inner.graph.node.extend(constants[name] for name in captured if name in constants)
    inner.graph.node.extend(body.node)
    inner.graph.initializer.extend(weights[name] for name in captured if name in weights)
    inner.graph.sparse_initializer.extend(sparse[name] for name in captured if name in sparse)
    known = (weights, sparse, constants)
    outer = [name for name in captured if not any(name in each for each in known)]
    feed = {**feed, **values(outer)}
    types = TensorMetadata.from_feed_dict(feed)
    stated = {value.name: value for value in body.input}
    del inner.graph.input[:]
    for name, meta in types.items():
        if name in reads:
            # Bodies say little about their inputs; what is known is what they hold.
            shape = described(stated[name]).shape if name in stated else None
            inner.graph.input.append(
                value_info(name, MetadataTuple(meta.dtype, shape or meta.shape))
            )
    made = {name for node in body.node for name in node.output}
    outputs = [value for value in body.output if value.name in made]
    del inner.graph.output[:]
    inner.graph.output.extend(outputs)
    if any(described(value).shape is None for value in outputs):  # Bodies may leave them out.
        inferred = inferred_value_infos(inner)
        for value in inner.graph.output:
            value.CopyFrom(inferred.get(value.name, onnx.ValueInfoProto(name=value.name)))
    return inner, {value.name: feed[value.name] for value in inner.graph.input}
