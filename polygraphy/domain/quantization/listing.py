"""The quantized tensors of a model as its file states them: no model runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from attrs import evolve, frozen

from polygraphy.domain.model import Graph, Node, Weight
from polygraphy.domain.model.code_operands import OPERANDS, Operand
from polygraphy.domain.model.difference import Difference
from polygraphy.domain.quantization.losses import SiteLoss
from polygraphy.domain.quantization.schemes import STORED
from polygraphy.domain.quantization.sites import RAW, Site, is_coarse
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.naming import count_text

_AT_RUN_TIME = "range chosen at run time"
_SHOWN = 4
"""A summary lists this many formats."""


@frozen
class QuantizedTensor:
    """A tensor that a model stores in few bits.

    Attributes:
        name: the tensor before it is quantized; for a weight, its codes.
        kind: ``activation``, ``weight``, ``bias`` or ``operator``.
        format: the data type and the number of scales, in words.
        limits: the smallest and the largest number that can be stored; None if unknown.
        loss: the RMS of the error divided by that of the tensor; None if it was not measured.
        least: the same with the best range for this format; None if it was not measured.
    """

    name: str
    kind: str
    format: str
    limits: tuple[float, float] | None = None
    loss: float | None = None
    least: float | None = None


_BIAS = {"QLinearConv": 8, "QGemm": 6}
INTEGER_WEIGHTS: Mapping[str, Sequence[tuple[int, int, int]]] = {
    "ConvInteger": [(1, 0, 3)],
    "DynamicQuantizeLSTM": [(1, 8, 9), (2, 10, 11)],
    "DynamicQuantizeMatMul": [(1, 2, 3)],
    "MatMulInteger": [(1, 0, 3)],
    "MatMulIntegerToFloat": [(1, 3, 5)],
    "QAttention": [(1, 4, 7)],
}
"""Operators that read integer weights: the positions of each weight, of its scale (0 if a later
node applies it) and of its zero point."""
_FLOATS = ("bfloat16", "float16", "float32", "float64")
_BLOCKS = {"MatMulNBits": (1, 2, 3), "GatherBlockQuantized": (0, 2, 3)}
"""Operators on packed blocks: the positions of weight, scales and zero points."""


def list_quantized_tensors(graph: Graph) -> list[QuantizedTensor]:
    """Return the quantized tensors of a graph and its subgraphs, in the order of their nodes.

    Args:
        graph: with nodes, attributes and, for limits, the elements of weights.
    """
    quantized_tensors: dict[tuple[str, str], QuantizedTensor] = {}
    weights: dict[str, Weight] = {}
    for subgraph in graph.walk():
        weights |= {weight.name: weight for weight in subgraph.all_weights}
        makers = subgraph.makers
        for node in subgraph.nodes:
            for tensor in _quantized_tensors(node, weights, makers):
                quantized_tensors.setdefault((tensor.kind, tensor.name), tensor)
    return list(quantized_tensors.values())


def summarize_quantization(tensors: Sequence[QuantizedTensor]) -> str:
    """Return how a model is quantized, in a line: kinds of tensors and their formats."""
    formats = Counter((tensor.kind, tensor.format) for tensor in tensors)
    parts = [
        f"{count} {plural(kind, count)} ({form})"
        for (kind, form), count in formats.most_common(_SHOWN)
    ]
    quantization = sum(formats.values()) - sum(count for _, count in formats.most_common(_SHOWN))
    return ", ".join([*parts, f"{quantization} in other formats"] if quantization else parts)


def plural(kind: str, count: int) -> str:
    """Return the singular or plural of a kind of tensors, depending on their number."""
    return count_text(count, kind).partition(" ")[2] if kind != "bias" or count == 1 else "biases"


def tensors_with_losses(
    sites: Sequence[Site], losses: Mapping[int, SiteLoss]
) -> Iterator[QuantizedTensor]:
    """Yield the sites of an opened model, with the losses that were measured."""
    for number, site in enumerate(sites):
        loss, scheme = losses.get(number), site.scheme
        is_bias = scheme is None or site.kind == "bias"
        limits = None if is_bias or scheme is None else _extremes(*scheme.limits())
        name = site.name.removesuffix(RAW).removesuffix("_DequantizeLinear_Output")
        listed = QuantizedTensor(name, site.kind, site.format or "quantized", limits)
        yield listed if loss is None else evolve(listed, loss=loss.loss, least=loss.least)


def name_scales(
    differences: Sequence[Difference], reference: Graph, candidate: Graph
) -> list[Difference]:
    """Return differences in which changed scales and zero points have the names of their tensors
    and ranges.
    """
    users = _scale_users(candidate)
    limits = [
        {
            quantized_tensor.name: quantized_tensor.limits
            for quantized_tensor in list_quantized_tensors(side)
        }
        for side in (reference, candidate)
    ]

    def add_range(text: str, tensor: str, side: int) -> str:
        """Return a text with the range of a tensor appended, if it is known."""
        ends = limits[side].get(tensor)
        return text if ends is None else f"{text}, range {ends[0]:.4g} to {ends[1]:.4g}"

    def name_tensor(difference: Difference) -> Difference:
        """Return a difference in a scale or zero point under the name of its tensor."""
        if (
            difference.change != "changed"
            or difference.what != "Initializer"
            or difference.name not in users
        ):
            return difference
        role, tensor = users[difference.name]
        old = add_range(difference.reference, tensor, 0)
        new = add_range(difference.candidate, tensor, 1)
        return evolve(difference, what=f"{role} of {tensor!r}", reference=old, candidate=new)

    return [name_tensor(difference) for difference in differences]


def _scale_users(graph: Graph) -> dict[str, tuple[str, str]]:
    """Return, by scale or zero point, its role ("Scale" or "Zero point") and its tensor."""
    scale_users: dict[str, tuple[str, str]] = {}
    weights = {weight.name for weight in graph.all_weights}
    for node in graph.nodes:
        op = node.op.rpartition(".")[2]
        pairs: list[tuple[int, int, str]] = []
        if op == "QuantizeLinear":
            pairs.append((1, 2, _input(node, 0)))
        elif op == "DequantizeLinear":
            codes = _input(node, 0)
            pairs.append((1, 2, codes if codes in weights else node.outputs[0]))
        elif op in _BLOCKS:
            at, *operands = _BLOCKS[op]
            pairs.append((operands[0], operands[1], _input(node, at)))
        for weight, scale, zero in INTEGER_WEIGHTS.get(op, ()):
            if scale:
                pairs.append((scale, zero, _input(node, weight)))
        for operand in OPERANDS.get(op, ()):
            tensor = node.outputs[0] if operand.codes is None else _input(node, operand.codes)
            pairs.append((operand.scale, operand.zero_point, tensor))
        for scale, zero, tensor in pairs:
            for position, role in ((scale, "Scale"), (zero, "Zero point")):
                if name := _input(node, position):
                    scale_users.setdefault(name, (role, tensor))
    return scale_users


def _quantized_tensors(
    node: Node, weights: Mapping[str, Weight], makers: Mapping[str, Node]
) -> Iterator[QuantizedTensor]:
    """Yield the quantized tensors of a node."""
    op = node.op.rpartition(".")[2]
    if op == "QuantizeLinear":
        kind = "weight" if _input(node, 0) in weights else "activation"
        yield _tensor(node, kind, _input(node, 0), 1, 2, weights)
    elif op == "DequantizeLinear":
        codes = weights.get(_input(node, 0))
        if codes is not None:
            kind = "bias" if codes.dtype == "int32" else "weight"
            yield _tensor(node, kind, codes.name, 1, 2, weights, codes.dtype)
        elif _input(node, 0) not in makers:
            yield _tensor(node, "activation", _input(node, 0), 1, 2, weights)
    elif op in OPERANDS:
        yield from _quantized_operands(node, OPERANDS[op], weights)
        bias = weights.get(_input(node, _BIAS.get(op, 99)))
        if bias is not None:
            yield QuantizedTensor(bias.name, "bias", str(bias.dtype))
    elif op == "DynamicQuantizeLinear":
        yield QuantizedTensor(_input(node, 0), "activation", f"uint8, {_AT_RUN_TIME}")
    elif op in INTEGER_WEIGHTS:
        for weight, scale, zero in INTEGER_WEIGHTS[op]:
            codes = weights.get(_input(node, weight))
            if codes is not None and scale:
                yield _tensor(node, "weight", codes.name, scale, zero, weights, codes.dtype)
            elif codes is not None:
                zeros = weights.get(_input(node, zero))
                count = 1 if zeros is None else int(np.prod(zeros.shape))
                yield QuantizedTensor(codes.name, "weight", _format(codes.dtype, count))
    elif op in _BLOCKS:
        yield _read_packed_weight(node, op, weights)
    elif op == "Mul":
        yield from _product_of_integers(node, weights, makers)
    elif is_coarse(node.op):
        yield QuantizedTensor(node.outputs[0], "operator", op)


def _product_of_integers(
    node: Node, weights: Mapping[str, Weight], makers: Mapping[str, Node]
) -> Iterator[QuantizedTensor]:
    """Yield the weight whose integers a Mul scales behind a Cast, and a Sub of zero points."""
    for position in (0, 1):
        before, scale = makers.get(_input(node, position)), weights.get(_input(node, 1 - position))
        if before is not None and before.op == "Sub":
            before = makers.get(_input(before, 0))
        codes = weights.get(_input(before, 0)) if before and before.op == "Cast" else None
        is_scale = scale is not None and str(scale.dtype) in _FLOATS
        if codes is not None and is_scale and str(codes.dtype) in STORED and len(codes.shape) > 1:
            count = int(np.prod(scale.shape)) if scale is not None else 1
            yield QuantizedTensor(codes.name, "weight", _format(str(codes.dtype), count))


def _quantized_operands(
    node: Node, operands: Sequence[Operand], weights: Mapping[str, Weight]
) -> Iterator[QuantizedTensor]:
    """Yield the quantized tensors among the operands of a node."""
    for operand in operands:
        if operand.codes is None:
            yield _tensor(
                node, operand.kind, node.outputs[0], operand.scale, operand.zero_point, weights
            )
            continue
        codes = weights.get(_input(node, operand.codes))
        if codes is not None:
            scale_operands = operand.scale, operand.zero_point
            yield _tensor(node, "weight", codes.name, *scale_operands, weights, codes.dtype)


def _tensor(
    node: Node,
    kind: str,
    name: str,
    scale: int,
    zero_point: int,
    weights: Mapping[str, Weight],
    dtype: str | None = None,
) -> QuantizedTensor:
    """Return a tensor by the positions of its scale and zero point."""
    scales, zeros = weights.get(_input(node, scale)), weights.get(_input(node, zero_point))
    dtype = dtype or (None if zeros is None else zeros.dtype) or "uint8"
    count = 1 if scales is None else int(np.prod(scales.shape))
    block = node.attribute("block_size", 0)
    form = _format(dtype, count, block) if scales is not None else f"{dtype}, {_AT_RUN_TIME}"
    limits = None
    if scales is not None and scales.values is not None and dtype in STORED and kind != "bias":
        stored, size = STORED[dtype], np.asarray(scales.values, np.float64)
        zero = np.zeros(())
        if zeros is not None and zeros.values is not None:
            zero = np.asarray(zeros.values).astype(np.float64)
        if zero.size in (1, size.size):
            zero = zero.reshape(() if zero.size == 1 else size.shape)
            with np.errstate(invalid="ignore"):  # A wrong scale may be infinite.
                limits = _extremes((stored.least - zero) * size, (stored.most - zero) * size)
    return QuantizedTensor(name, kind, form, limits)


def _read_packed_weight(node: Node, op: str, weights: Mapping[str, Weight]) -> QuantizedTensor:
    """Return the quantized weight of a node that packs codes."""
    codes, _, zero = _BLOCKS[op]
    bits, block = node.attribute("bits", 4), node.attribute("block_size", 128)
    details = [f"{bits} bits", f"blocks of {block}"]
    details.append("zero points" if _input(node, zero) else "no zero points")
    if level := node.attribute("accuracy_level", 0):
        details.append(f"accuracy_level {level}")
    name = _input(node, codes)
    return QuantizedTensor(name, "weight", ", ".join(details))


def _extremes(low: Array, high: Array) -> tuple[float, float] | None:
    """Return the least and the greatest of the limits; None if one is not finite."""
    if not np.size(low) or not np.all(np.isfinite(low)) or not np.all(np.isfinite(high)):
        return None
    return float(min(np.min(low), np.min(high))), float(max(np.max(low), np.max(high)))


def _format(dtype: str | None, scales: int, block: int = 0) -> str:
    """Return the description of a quantized type with its number of scales."""
    if block:
        return f"{dtype}, blocks of {block}"
    return f"{dtype}, per {'tensor' if scales == 1 else 'channel'}"


def _input(node: Node, position: int) -> str:
    """Return the input of a node at a position; empty if it has none."""
    return node.inputs[position] if position < len(node.inputs) else ""
