"""Splits an ONNX model along the sequence: every device has all weights, and computes its part of
the positions. Only attention looks at several positions at once, so there the parts of K and V are
gathered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import clean, rename_uses, sort, taken_names, unused_name
from polygraphy.adapters.onnx.shard.attention import Attention, attentions
from polygraphy.adapters.onnx.shard.collectives import ALL_GATHER, REDUCE_SCATTER, collective
from polygraphy.adapters.onnx.shard.fused_attention import fuse
from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.sharding import ShardHints, ShardTensor

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


onnx = mod.lazy_import("onnx")


def split_context(model: ModelProto, hints: ShardHints) -> None:
    """Split a model in place: it is the same for every device.

    Its inputs and outputs keep their names and shapes: each device takes its part of the inputs,
    which all of them get whole, and all of them make the whole outputs.

    Raises:
        UnknownNameError: the model lacks an input, an output or an attention layer.
        ModelError: it is not known how many axes a tensor has, or it has no such axis.
    """
    graph = model.graph
    splitting = _Splitting(graph, hints)
    layers = {layer.q: layer for layer in hints.attention_layers}
    found = {one.q: one for one in attentions(graph, scale_is_computed=True)}
    for q, layer in layers.items():
        if q not in found:
            raise UnknownNameError("Attention layer with Q", q, list(found))
        if layer.replace is not None:
            fuse(graph, found[q], layer.replace, splitting.taken)
        else:
            splitting.gather(found[q], gathers_q=layer.gather_q, gathers_kv=layer.gather_kv)
    for tensor in hints.inputs:
        splitting.scatter_input(tensor)
    for tensor in hints.outputs:
        splitting.gather_output(tensor)
    del graph.value_info[:]  # What was known about shapes holds no more.
    sort(graph)
    clean(graph)


class _Splitting:
    """One graph while it is split."""

    def __init__(self, graph: GraphProto, hints: ShardHints) -> None:
        self._graph = graph
        self._hints = hints
        self._gathered: dict[tuple[str, int], str] = {}
        self.taken = taken_names(graph)

    def gather(self, attention: Attention, *, gathers_q: bool, gathers_kv: bool) -> None:
        """Let an attention layer see all positions."""
        hints = self._hints
        first, last = attention.nodes[0], attention.nodes[-1]
        # The standard's Attention takes K as it takes V, and not transposed.
        k_axis = hints.v_seq_len_idx if attention.is_single else hints.k_seq_len_idx
        if gathers_q:
            first.input[0] = self._gather(attention.q, hints.v_seq_len_idx)
        if gathers_kv:
            v_at = 2 if attention.is_single else 1
            v = self._gather(attention.v, hints.v_seq_len_idx)
            first.input[1] = self._gather(attention.k, k_axis)
            last.input[v_at] = v

    def _gather(self, name: str, axis: int) -> str:
        if (name, axis) not in self._gathered:
            made = unused_name(f"{name}_gathered", self.taken)
            self._add(
                collective(
                    ALL_GATHER,
                    name,
                    made,
                    self._hints.dist_collectives,
                    self.taken,
                    axis=axis,
                    rank=self._hints.kv_rank,
                )
            )
            self._gathered[name, axis] = made
        return self._gathered[name, axis]

    def scatter_input(self, tensor: ShardTensor) -> None:
        """Take this device's part of an input."""
        _check_name("Input", tensor.name, self._graph.input)
        part = unused_name(f"{tensor.name}_part", self.taken)
        rename_uses(self._graph, {tensor.name: part})
        collectives = self._hints.dist_collectives
        self._add(
            collective(
                REDUCE_SCATTER,
                tensor.name,
                part,
                collectives,
                self.taken,
                axis=tensor.seq_len_idx,
                rank=tensor.rank,
                reduce_op=collectives.reduce_op,
            )
        )

    def gather_output(self, tensor: ShardTensor) -> None:
        """Put an output together out of all parts."""
        _check_name("Output", tensor.name, self._graph.output)
        part = unused_name(f"{tensor.name}_part", self.taken)
        for node in self._graph.node:
            for position, name in enumerate(node.output):
                if name == tensor.name:
                    node.output[position] = part
        rename_uses(self._graph, {tensor.name: part})
        self._add(
            collective(
                ALL_GATHER,
                part,
                tensor.name,
                self._hints.dist_collectives,
                self.taken,
                axis=tensor.seq_len_idx,
                rank=tensor.rank,
            )
        )

    def _add(self, nodes: Sequence[NodeProto]) -> None:
        self._graph.node.extend(nodes)


def _check_name(what: str, name: str, values: Any) -> None:
    known: Mapping[str, None] = dict.fromkeys(value.name for value in values)
    if name not in known:
        raise UnknownNameError(what, name, list(known))
