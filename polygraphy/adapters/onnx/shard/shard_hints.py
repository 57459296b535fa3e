"""Finds out how an ONNX model can be split over devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from polygraphy.adapters.base.loader import Deferred, evaluate
from polygraphy.adapters.onnx.graph.editing import faults_of
from polygraphy.adapters.onnx.graph.graph import producers
from polygraphy.adapters.onnx.graph.shapes import described, value_infos
from polygraphy.adapters.onnx.shard.attention import Attention, attentions
from polygraphy.adapters.onnx_common.messages import inputs_of, used_by
from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.sharding import (
    CONTEXT,
    REDUCTIONS,
    TENSOR,
    AttentionLayer,
    Collectives,
    FusedAttention,
    ShardHints,
    ShardTensor,
)
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto


_NATIVE, _FUSED = "native", "fused"


def find_shard_hints(
    model: Deferred[ModelProto],
    *,
    parallelism: str = CONTEXT,
    nb_rank: int = 1,
    root: int = -1,
    gpus: int = 0,
    groups: Sequence[int] = (),
    cp_type: str = _NATIVE,
    suggest_io: bool = True,
    i_idx: int = 0,
    o_idx: int = 0,
    k_idx: int = 0,
    v_idx: int = 0,
    i_rank: int | None = None,
    o_rank: int | None = None,
    kv_rank: int | None = None,
    reduce_op: str = "max",
    attention_pattern: int = 0,
    q_shuffle: Sequence[int] | None = None,
    k_shuffle: Sequence[int] | None = None,
    v_shuffle: Sequence[int] | None = None,
    is_causal: bool = False,
) -> ShardHints:
    """Return how an ONNX model can be split over devices.

    Args:
        model: the model, or a loader that makes it.
        parallelism: ``CP`` to split the sequence, ``TP`` to split the weights.
        nb_rank: how many devices there are.
        root: the device that results go to which go to one.
        gpus: how many devices take part; 0 for all.
        groups: the groups of devices that take part; empty for all.
        cp_type: ``native`` to gather K and V, ``fused`` to make each attention layer one node.
        suggest_io: whether the inputs that Q, K and V depend on are split, and the outputs that
            depend on attention are put together; otherwise none are.
        i_idx: the axis of the sequence in inputs.
        o_idx: the axis of the sequence in outputs.
        k_idx: the axis of the sequence in K, as it is multiplied.
        v_idx: the axis of the sequence in V.
        i_rank: how many axes inputs have whose shape the model does not say.
        o_rank: the same for outputs.
        kv_rank: the same for K and V.
        reduce_op: what becomes of the copies of an input that the devices have.
        attention_pattern: 0 for attention whose scale and mask are weights or inputs, 1 where they
            may be computed.
        q_shuffle: a permutation of the axes of Q, for `cp_type` ``fused``.
        k_shuffle: the same for K.
        v_shuffle: the same for V.
        is_causal: whether a position only attends to those before it.

    Raises:
        UnknownNameError: a choice that does not exist.
    """
    _check("Way to split", parallelism, (CONTEXT, TENSOR))
    _check("Type", cp_type, (_NATIVE, _FUSED))
    _check("Reduction", reduce_op, REDUCTIONS)
    given = evaluate(model)
    with faults_of(given):
        graph = given.graph
        infos = value_infos(given)
        layers = list(attentions(graph, scale_is_computed=attention_pattern == 1))
        for layer in layers:
            G_LOGGER.info(f"Found attention layer with Q tensor {layer.q}")

        def rank_of(names: Iterable[str], fallback: int | None) -> int | None:
            shapes = [described(infos.get(name)).shape for name in names]
            return next((len(shape) for shape in shapes if shape is not None), fallback)

        fused = None
        if cp_type == _FUSED:
            fused = FusedAttention(
                is_causal=is_causal,
                q_shuffle=_permutation(q_shuffle),
                k_shuffle=_permutation(k_shuffle),
                v_shuffle=_permutation(v_shuffle),
                nb_rank=nb_rank,
            )
        taken = _inputs_behind(graph, layers) if suggest_io else []
        made = _outputs_behind(graph, layers) if suggest_io else []
        return ShardHints(
            parallelism=parallelism,
            attention_layers=tuple(
                AttentionLayer(layer.q, gather_kv=fused is None, replace=fused) for layer in layers
            ),
            dist_collectives=Collectives(gpus, root, nb_rank, reduce_op, tuple(groups)),
            inputs=tuple(ShardTensor(name, i_idx, rank_of([name], i_rank)) for name in taken),
            outputs=tuple(ShardTensor(name, o_idx, rank_of([name], o_rank)) for name in made),
            k_seq_len_idx=k_idx,
            v_seq_len_idx=v_idx,
            kv_rank=rank_of((name for one in layers for name in (one.k, one.v)), kv_rank),
        )


def _check(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise UnknownNameError(what, name, known)


def _permutation(axes: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if axes is None else tuple(axes)


def _inputs_behind(graph: GraphProto, layers: Sequence[Attention]) -> list[str]:
    """Return the inputs that Q, K or V of some layers depend on, in the order of the graph."""
    made_by = producers(graph)
    pending = [name for layer in layers for name in (layer.q, layer.k, layer.v)]
    # What scales and masks is not split: it is not looked for behind the scores of other layers.
    inside = {name for layer in layers for name in layer.scores}
    seen = set(pending)
    while pending:
        name = pending.pop()
        if name not in made_by:
            continue
        node = graph.node[made_by[name]]
        reads = [one for one in node.input if one in inside] if name in inside else used_by(node)
        for read in reads:
            if read and read not in seen:
                seen.add(read)
                pending.append(read)
    return [value.name for value in inputs_of(graph) if value.name in seen]


def _outputs_behind(graph: GraphProto, layers: Sequence[Attention]) -> list[str]:
    """Return the outputs that depend on some layers, in the order of the graph."""
    behind = {layer.output for layer in layers}
    for node in graph.node:
        if not behind.isdisjoint(used_by(node)):
            behind.update(filter(None, node.output))
    return [value.name for value in graph.output if value.name in behind]
