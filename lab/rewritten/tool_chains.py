"""More references with different nodes: chains of tools, and the spellings of other exporters."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from .rewrites import Rewrite, Writer, optimize, rewrite_by_onnxscript, simplify_by_onnxsim, slim


def chain(*rewrites: Rewrite) -> Rewrite:
    """Return a rewrite that applies several in order."""

    def rewrite(model: onnx.ModelProto) -> onnx.ModelProto | None:
        """Return the model after all rewrites, or None if one does not apply."""
        rewritten: onnx.ModelProto | None = model
        for rewrite in rewrites:
            if rewritten is None:
                return None
            rewritten = rewrite(rewritten)
        return rewritten

    return rewrite


def transformer(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return the model optimized by ONNX Runtime's transformer optimizer, or None."""
    from onnxruntime.transformers import optimizer

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        path = str(Path(folder) / "model.onnx")
        onnx.save(model, path)
        return optimizer.optimize_model(path, model_type="bert", opt_level=0).model


def common_half(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return the model in float16, converted by onnxconverter-common, or None."""
    try:
        from onnxconverter_common import float16
    except ImportError:
        return None
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return float16.convert_float_to_float16(copy, keep_io_types=True)


def einsums(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return a model whose products are Einsum nodes, or None without products."""
    writer = Writer(model)
    for node in model.graph.node:
        ranks = [writer.rank(name) for name in node.input]
        if node.op_type == "MatMul" and ranks[0] >= 2 and ranks[1] in (2, ranks[0]):
            batch = "bcdefg"[: ranks[0] - 2]
            right_batch = batch if ranks[1] == ranks[0] else ""
            equation = f"{batch}ik,{right_batch}kj->{batch}ij"
            writer.add("Einsum", list(node.input), node.output[0], equation=equation)
        else:
            writer.keep(node)
    return writer.finished()


def apart(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return a model with convolutions split into Pad, Conv and Add, or into halves.

    None without convolutions.
    """
    writer = Writer(model)
    for number, node in enumerate(model.graph.node):
        attributes = {
            attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute
        }
        weight = writer.weights.get(node.input[1]) if len(node.input) > 1 else None
        if (
            node.op_type != "Conv"
            or weight is None
            or attributes.get("auto_pad", b"NOTSET")
            not in (
                b"NOTSET",
                "NOTSET",
            )
        ):
            writer.keep(node)
            continue
        read, rank = node.input[0], weight.ndim - 2
        pads = list(attributes.pop("pads", [0] * (2 * rank)))
        if any(pads) and writer.opset >= 11:
            both = [0, 0, *pads[:rank], 0, 0, *pads[rank:]]
            read = writer.add("Pad", [read, writer.integers(both)])
        elif any(pads):
            attributes["pads"] = pads
        bias = writer.weights.get(node.input[2]) if len(node.input) > 2 else None
        half = len(weight) // 2
        if attributes.get("group", 1) == 1 and half and number % 2:
            parts = [
                writer.add("Conv", [read, writer.weight(np.ascontiguousarray(w))], **attributes)
                for w in (weight[:half], weight[half:])
            ]
            joined_parts = writer.add("Concat", parts, axis=1)
        else:
            joined_parts = writer.add("Conv", [read, node.input[1]], **attributes)
        if bias is None:
            writer.add("Identity", [joined_parts], node.output[0])
        else:
            shaped = writer.weight(bias.reshape(-1, *[1] * rank))
            writer.add("Add", [joined_parts, shaped], node.output[0])
    return writer.finished()


def products(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return a model whose 1x1 convolutions are matrix products, or None without any."""
    writer = Writer(model)
    for node in model.graph.node:
        attributes = {
            attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute
        }
        weight = writer.weights.get(node.input[1]) if len(node.input) > 1 else None
        if (
            node.op_type != "Conv"
            or weight is None
            or weight.ndim != 4
            or weight.shape[2:] != (1, 1)
            or attributes.get("group", 1) != 1
            or any(attributes.get("pads", [0]))
            or max(attributes.get("strides", [1])) > 1
        ):
            writer.keep(node)
            continue
        turned = writer.add("Transpose", [node.input[0]], perm=[0, 2, 3, 1])
        matrix = writer.weight(np.ascontiguousarray(weight[:, :, 0, 0].T))
        product = writer.add("MatMul", [turned, matrix])
        if len(node.input) > 2:
            product = writer.add("Add", [product, node.input[2]])
        writer.add("Transpose", [product], node.output[0], perm=[0, 3, 1, 2])
    return writer.finished()


def join_products(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return a model that joins products of the same tensor and splits the result, or None."""
    writer, groups = Writer(model), dict[str, list[onnx.NodeProto]]()
    for node in model.graph.node:
        weight = writer.weights.get(node.input[1]) if len(node.input) > 1 else None
        if node.op_type == "MatMul" and weight is not None and weight.ndim == 2:
            groups.setdefault(node.input[0], []).append(node)
    first = {group[0].output[0]: group for group in groups.values() if len(group) > 1}
    done = {node.output[0] for nodes_of_name in first.values() for node in nodes_of_name[1:]}
    for node in model.graph.node:
        name = node.output[0] if node.output else ""
        if name in first:
            arrays = [writer.weights[product_node.input[1]] for product_node in first[name]]
            product = writer.add(
                "MatMul", [node.input[0], writer.weight(np.concatenate(arrays, 1))]
            )
            start = 0
            for product_node, array in zip(first[name], arrays):
                ends = [start, start + array.shape[1]]
                bounds = [writer.integers([value]) for value in (*ends, -1)]
                writer.add("Slice", [product, *bounds], product_node.output[0])
                start = ends[1]
        elif name not in done:
            writer.keep(node)
    return writer.finished()


def scaled_apart(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return a model that scales the data of its products, not their weights, or None."""
    writer = Writer(model)
    for node in model.graph.node:
        weight = writer.weights.get(node.input[1]) if len(node.input) > 1 else None
        if (
            node.op_type in ("MatMul", "Conv")
            and weight is not None
            and writer.is_float(node.input[0])
        ):
            attributes = {
                attribute.name: helper.get_attribute_value(attribute)
                for attribute in node.attribute
            }
            halved = writer.add("Mul", [node.input[0], writer.number(0.5)])
            twice = writer.weight(np.float32(2) * weight)
            writer.add(node.op_type, [halved, twice, *node.input[2:]], node.output[0], **attributes)
        else:
            writer.keep(node)
    return writer.finished()


CHAINS: dict[str, Rewrite] = {
    "slim, ort extended": chain(slim, optimize("EXTENDED")),
    "onnxscript, ort all": chain(rewrite_by_onnxscript, optimize("ALL")),
    "ort basic, onnxsim": chain(optimize("BASIC"), simplify_by_onnxsim),
    "transformer optimizer": transformer,
    "common half": common_half,
    "einsums": einsums,
    "pads and halves apart": apart,
    "products for taps": products,
    "joined products": join_products,
    "scaled apart": scaled_apart,
}
