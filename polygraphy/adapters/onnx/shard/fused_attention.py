"""Puts one node of the operator Attention in place of the nodes of an attention layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import graph_weights, unused_name
from polygraphy.adapters.onnx.shard.attention import Attention
from polygraphy.adapters.onnx.shard.collectives import transpose
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.domain.errors import ModelError
from polygraphy.domain.sharding import FusedAttention

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto


onnx = mod.lazy_import("onnx")

_RANK = 4
_SWAPPED = (0, 1, 3, 2)


def fuse(graph: GraphProto, attention: Attention, fused: FusedAttention, taken: set[str]) -> None:
    """Replace an attention layer of tensors with four axes; what it consisted of is left without
    consumers.

    Raises:
        ModelError: it does more between its products than a node of Attention can: scale by a
            number, and add a mask.
    """
    if attention.is_single:
        node = attention.nodes[0]
        _set(node, fused)
        return
    scale, mask = _scale_and_mask(graph, attention)
    q = _shuffled(graph, attention.q, fused.q_shuffle, taken)
    k = _shuffled(graph, attention.k, fused.k_shuffle or _SWAPPED, taken)
    v = _shuffled(graph, attention.v, fused.v_shuffle, taken)
    output = attention.output
    outputs = attention.nodes[-1].output
    outputs[0] = unused_name(f"{output}_replaced", taken)
    made = unused_name(f"{output}_shuffled", taken) if fused.q_shuffle else output
    node = onnx.helper.make_node(
        "Attention",
        [q, k, v, *([mask] if mask else [])],
        [made],
        name=unused_name(f"attention_{output}", taken),
        scale=scale,
    )
    _set(node, fused)
    graph.node.append(node)
    if fused.q_shuffle:
        _transpose(graph, made, output, _inverse(fused.q_shuffle), taken)


def _set(node: NodeProto, fused: FusedAttention) -> None:
    values = {"is_causal": int(fused.is_causal), "TRT_decomposable": 0, "nb_rank": fused.nb_rank}
    kept = [one for one in node.attribute if one.name not in values]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.extend(onnx.helper.make_attribute(name, one) for name, one in values.items())


def _shuffled(
    graph: GraphProto, name: str, permutation: Sequence[int] | None, taken: set[str]
) -> str:
    if permutation is None:
        return name
    made = unused_name(f"{name}_shuffled", taken)
    _transpose(graph, name, made, permutation, taken)
    return made


def _transpose(
    graph: GraphProto, source: str, target: str, permutation: Sequence[int], taken: set[str]
) -> None:
    if sorted(permutation) != list(range(_RANK)):
        raise ModelError(
            f"{list(permutation)} is no permutation of the {_RANK} axes of tensor {source!r}."
        )
    graph.node.append(transpose(source, target, permutation, taken))


def _inverse(permutation: Sequence[int]) -> list[int]:
    return [permutation.index(axis) for axis in range(len(permutation))]


def _scale_and_mask(graph: GraphProto, attention: Attention) -> tuple[float, str]:
    """Return by which number the scores are scaled, and what is added to them; empty for
    nothing.
    """
    weights = graph_weights(graph)
    scale, mask = 1.0, ""
    for node, before in zip(attention.between, attention.scores):
        others = [name for name in node.input if name != before]
        number = _number(weights.get(others[0])) if len(others) == 1 else None
        if node.op_type == "Identity":
            continue
        if node.op_type == "Mul" and number is not None and not mask:
            scale *= number
        elif node.op_type == "Div" and number and not mask and node.input[0] == before:
            scale /= number
        elif node.op_type == "Add" and len(others) == 1 and not mask:
            mask = others[0]
        else:
            raise ModelError(
                f"The attention layer with Q {attention.q!r} cannot be one node, because of its"
                f" {node.op_type} node {node.name or node.output[0]!r}.",
                hint="Use --cp-type native.",
            )
    return scale, mask


def _number(tensor: TensorProto | None) -> float | None:
    """Return the value of a constant with one element; None where there is none."""
    array = None if tensor is None else elements(tensor)
    return None if array is None or array.size != 1 else float(array.reshape(-1)[0])
