"""Splits ONNX models over several devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.graph.editing import translate_model_faults
from polygraphy.adapters.onnx.graph.graph import (
    clean,
    graph_weights,
    names_in_use,
    producers,
    rename_uses,
    sort,
    unique_name,
)
from polygraphy.adapters.onnx.graph.shapes import add_shapes, describe_value, value_infos
from polygraphy.adapters.onnx.shard.tensor_parallel import (
    ALL_GATHER,
    REDUCE_SCATTER,
    Attention,
    attention_layers,
    collective,
    split_tensors,
    transpose,
)
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.saving import SaveOnnx
from polygraphy.adapters.onnx_common.loadable import evaluate_model
from polygraphy.adapters.onnx_common.messages import inputs_of, tensors_read
from polygraphy.domain.errors import ModelError, UnknownNameError
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
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


onnx = mod.lazy_import("onnx")

_RANK = 4
_SWAPPED = (0, 1, 3, 2)


def fuse_attention(
    graph: GraphProto, attention: Attention, fused: FusedAttention, used_names: set[str]
) -> None:
    """Replace an attention layer with four-axis tensors by one node.
    Its old nodes lose their consumers.

    Raises:
        ModelError: it does more between its products than a node of Attention can: scale by a
            number, and add a mask.
    """
    if attention.is_single:
        node = attention.nodes[0]
        _set_fused_attributes(node, fused)
        return
    scale, mask = _scale_and_mask(graph, attention)
    q = _add_transpose(graph, attention.q, fused.q_shuffle, used_names)
    k = _add_transpose(graph, attention.k, fused.k_shuffle or _SWAPPED, used_names)
    v = _add_transpose(graph, attention.v, fused.v_shuffle, used_names)
    output = attention.output
    outputs = attention.nodes[-1].output
    outputs[0] = unique_name(f"{output}_replaced", used_names)
    name = unique_name(f"{output}_shuffled", used_names) if fused.q_shuffle else output
    node = onnx.helper.make_node(
        "Attention",
        [q, k, v, *([mask] if mask else [])],
        [name],
        name=unique_name(f"attention_{output}", used_names),
        scale=scale,
    )
    _set_fused_attributes(node, fused)
    graph.node.append(node)
    if fused.q_shuffle:
        _append_transpose(graph, name, output, _inverse(fused.q_shuffle), used_names)


def _set_fused_attributes(node: NodeProto, fused: FusedAttention) -> None:
    """Set the attributes of a fused attention node."""
    values = {"is_causal": int(fused.is_causal), "TRT_decomposable": 0, "nb_rank": fused.nb_rank}
    attribute = [attribute for attribute in node.attribute if attribute.name not in values]
    del node.attribute[:]
    node.attribute.extend(attribute)
    node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in values.items())


def _add_transpose(
    graph: GraphProto, name: str, permutation: Sequence[int] | None, used_names: set[str]
) -> str:
    """Add a Transpose node if there is a permutation; return the name of its result."""
    if permutation is None:
        return name
    new_name = unique_name(f"{name}_shuffled", used_names)
    _append_transpose(graph, name, new_name, permutation, used_names)
    return new_name


def _append_transpose(
    graph: GraphProto, source: str, target: str, permutation: Sequence[int], used_names: set[str]
) -> None:
    """Add a Transpose node; raise ModelError for an invalid permutation."""
    if sorted(permutation) != list(range(_RANK)):
        raise ModelError(
            f"{list(permutation)} is not a permutation of the {_RANK} axes of tensor {source!r}."
        )
    graph.node.append(transpose(source, target, permutation, used_names))


def _inverse(permutation: Sequence[int]) -> list[int]:
    """Return the inverse of a permutation."""
    return [permutation.index(axis) for axis in range(len(permutation))]


def _scale_and_mask(graph: GraphProto, attention: Attention) -> tuple[float, str]:
    """Return the scale of the scores, and the name of the tensor that is added to them.
    The result is empty for none.
    """
    weights = graph_weights(graph)
    scale, mask = 1.0, ""
    for node, before in zip(attention.between, attention.scores):
        names = [name for name in node.input if name != before]
        number = _constant_number(weights.get(names[0])) if len(names) == 1 else None
        if node.op_type == "Identity":
            continue
        if node.op_type == "Mul" and number is not None and not mask:
            scale *= number
        elif node.op_type == "Div" and number and not mask and node.input[0] == before:
            scale /= number
        elif node.op_type == "Add" and len(names) == 1 and not mask:
            mask = names[0]
        else:
            raise ModelError(
                f"The attention layer with Q {attention.q!r} cannot become one node because of"
                f" its {node.op_type} node {node.name or node.output[0]!r}.",
                hint="Use --cp-type native.",
            )
    return scale, mask


def _constant_number(tensor: TensorProto | None) -> float | None:
    """Return the value of a constant with one element; None for other tensors."""
    array = None if tensor is None else elements(tensor)
    return None if array is None or array.size != 1 else float(array.reshape(-1)[0])


def split_context(model: ModelProto, hints: ShardHints) -> None:
    """Split a model in place along the sequence; all devices get the same model.

    Inputs and outputs keep their names and shapes: each device gets the whole inputs and uses its
    part, and returns the whole outputs.

    Raises:
        UnknownNameError: the model lacks an input, an output or an attention layer.
        ModelError: the rank of a tensor is unknown, or it has no such axis.
    """
    graph = model.graph
    splitting = _SplitGraph(graph, hints)
    layers = {layer.q: layer for layer in hints.attention_layers}
    attentions = {
        attention_layer.q: attention_layer
        for attention_layer in attention_layers(graph, scale_is_computed=True)
    }
    for q, layer in layers.items():
        if q not in attentions:
            raise UnknownNameError("Attention layer with Q", q, list(attentions))
        if layer.replace is not None:
            fuse_attention(graph, attentions[q], layer.replace, splitting.taken)
        else:
            splitting.gather_inputs(
                attentions[q], gathers_q=layer.gather_q, gathers_kv=layer.gather_kv
            )
    for tensor in hints.inputs:
        splitting.scatter_input(tensor)
    for tensor in hints.outputs:
        splitting.gather_output(tensor)
    del graph.value_info[:]  # The known shapes are no longer valid.
    sort(graph)
    clean(graph)


class _SplitGraph:
    """A graph while it is split."""

    def __init__(self, graph: GraphProto, hints: ShardHints) -> None:
        """Set the graph, and the hints for splitting it."""
        self._graph = graph
        self._hints = hints
        self._gathered: dict[tuple[str, int], str] = {}
        self.taken = names_in_use(graph)

    def gather_inputs(self, attention: Attention, *, gathers_q: bool, gathers_kv: bool) -> None:
        """Gather the inputs of an attention layer, so that it sees all positions."""
        hints = self._hints
        first, last = attention.nodes[0], attention.nodes[-1]
        # The standard's Attention reads K without a transposition, like V.
        k_axis = hints.v_seq_len_idx if attention.is_single else hints.k_seq_len_idx
        if gathers_q:
            first.input[0] = self._gather(attention.q, hints.v_seq_len_idx)
        if gathers_kv:
            v_at = 2 if attention.is_single else 1
            v = self._gather(attention.v, hints.v_seq_len_idx)
            first.input[1] = self._gather(attention.k, k_axis)
            last.input[v_at] = v

    def _gather(self, name: str, axis: int) -> str:
        """Add nodes that gather a tensor once; return the name of the result."""
        if (name, axis) not in self._gathered:
            new_name = unique_name(f"{name}_gathered", self.taken)
            self._add_nodes(
                collective(
                    ALL_GATHER,
                    name,
                    new_name,
                    self._hints.dist_collectives,
                    self.taken,
                    axis=axis,
                    rank=self._hints.kv_rank,
                )
            )
            self._gathered[name, axis] = new_name
        return self._gathered[name, axis]

    def scatter_input(self, tensor: ShardTensor) -> None:
        """Replace an input by the part of this device."""
        _check_name("Input", tensor.name, self._graph.input)
        part = unique_name(f"{tensor.name}_part", self.taken)
        rename_uses(self._graph, {tensor.name: part})
        collectives = self._hints.dist_collectives
        self._add_nodes(
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
        """Assemble an output from the parts of all devices."""
        _check_name("Output", tensor.name, self._graph.output)
        part = unique_name(f"{tensor.name}_part", self.taken)
        for node in self._graph.node:
            for position, name in enumerate(node.output):
                if name == tensor.name:
                    node.output[position] = part
        rename_uses(self._graph, {tensor.name: part})
        self._add_nodes(
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

    def _add_nodes(self, nodes: Sequence[NodeProto]) -> None:
        """Append nodes to the graph."""
        self._graph.node.extend(nodes)


def _check_name(what: str, name: str, values: Any) -> None:
    """Raise UnknownNameError if no input or output has this name."""
    known_values: Mapping[str, None] = dict.fromkeys(value.name for value in values)
    if name not in known_values:
        raise UnknownNameError(what, name, list(known_values))


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
    """Return hints for splitting an ONNX model over devices.

    Args:
        model: the model, or a loader that returns it.
        parallelism: ``CP`` to split the sequence, ``TP`` to split the weights.
        nb_rank: number of devices.
        root: the device that receives results of reduce and gather operations.
        gpus: number of participating devices; 0 for all.
        groups: the groups of participating devices; empty for all.
        cp_type: ``native`` to gather K and V, ``fused`` to make each attention layer one node.
        suggest_io: whether to split the inputs that Q, K and V depend on, and to assemble the
            outputs that depend on attention.
        i_idx: the axis of the sequence in inputs.
        o_idx: the axis of the sequence in outputs.
        k_idx: the axis of the sequence in K, as it is multiplied.
        v_idx: the axis of the sequence in V.
        i_rank: the rank of inputs with unknown shape.
        o_rank: the rank of outputs with unknown shape.
        kv_rank: the rank of K and V if their shapes are unknown.
        reduce_op: the operation that combines the copies of an input on the devices.
        attention_pattern: 0 for attention whose scale and mask are weights or inputs, 1 if they may
            be computed.
        q_shuffle: a permutation of the axes of Q, for `cp_type` ``fused``.
        k_shuffle: the same for K.
        v_shuffle: the same for V.
        is_causal: whether a position only attends to those before it.

    Raises:
        UnknownNameError: a choice does not exist.
    """
    _check("Parallelism", parallelism, (CONTEXT, TENSOR))
    _check("Type", cp_type, (_NATIVE, _FUSED))
    _check("Reduction", reduce_op, REDUCTIONS)
    proto = evaluate(model)
    with translate_model_faults(proto):
        graph = proto.graph
        infos = value_infos(proto)
        layers = list(attention_layers(graph, scale_is_computed=attention_pattern == 1))
        for layer in layers:
            G_LOGGER.info(f"Found attention layer with Q tensor {layer.q}")

        def rank_of(names: Iterable[str], fallback: int | None) -> int | None:
            """Return the rank of the first tensor with a known one; else `fallback`."""
            shapes = [describe_value(infos.get(name)).shape for name in names]
            return next((len(shape) for shape in shapes if shape is not None), fallback)

        q, k, v = (_permutation(shuffle) for shuffle in (q_shuffle, k_shuffle, v_shuffle))
        fused = FusedAttention(is_causal, q, k, v, nb_rank) if cp_type == _FUSED else None
        inputs_behind = _inputs_behind(graph, layers) if suggest_io else []
        outputs_behind = _outputs_behind(graph, layers) if suggest_io else []
        return ShardHints(
            parallelism=parallelism,
            attention_layers=tuple(
                AttentionLayer(layer.q, gather_kv=fused is None, replace=fused) for layer in layers
            ),
            dist_collectives=Collectives(gpus, root, nb_rank, reduce_op, tuple(groups)),
            inputs=tuple(
                ShardTensor(name, i_idx, rank_of([name], i_rank)) for name in inputs_behind
            ),
            outputs=tuple(
                ShardTensor(name, o_idx, rank_of([name], o_rank)) for name in outputs_behind
            ),
            k_seq_len_idx=k_idx,
            v_seq_len_idx=v_idx,
            kv_rank=rank_of((name for layer in layers for name in (layer.k, layer.v)), kv_rank),
        )


def _check(what: str, name: str, known_names: Sequence[str]) -> None:
    """Raise UnknownNameError if a name is unknown."""
    if name not in known_names:
        raise UnknownNameError(what, name, known_names)


def _permutation(axes: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return axes as a tuple; None without axes."""
    return None if axes is None else tuple(axes)


def _inputs_behind(graph: GraphProto, layers: Sequence[Attention]) -> list[str]:
    """Return the inputs that Q, K or V of some layers depend on, in graph order."""
    makers = producers(graph)
    pending = [name for layer in layers for name in (layer.q, layer.k, layer.v)]
    # Scales and masks are not split, so the search ignores the scores of other layers.
    inside = {name for layer in layers for name in layer.scores}
    visited = set(pending)
    while pending:
        name = pending.pop()
        if name not in makers:
            continue
        node = graph.node[makers[name]]
        reads = (
            [name for name in node.input if name in inside]
            if name in inside
            else tensors_read(node)
        )
        for read in reads:
            if read and read not in visited:
                visited.add(read)
                pending.append(read)
    return [value.name for value in inputs_of(graph) if value.name in visited]


def _outputs_behind(graph: GraphProto, layers: Sequence[Attention]) -> list[str]:
    """Return the outputs that depend on some layers, in graph order."""
    behind = {layer.output for layer in layers}
    for node in graph.node:
        if not behind.isdisjoint(tensors_read(node)):
            behind.update(filter(None, node.output))
    return [value.name for value in graph.output if value.name in behind]


shard_model: Callable[..., list[Any]]


@mod.export(funcify=True)
class ShardModel(BaseLoader):
    """Splits an ONNX model over several devices."""

    def __init__(self, model: Deferred[ModelProto], hints: ShardHints) -> None:
        """Set the model, and the way to split it.

        Args:
            model: the model, or a loader that returns it.
            hints: the sharding hints.
        """
        self._model = model
        self._hints = hints

    def call_impl(self) -> list[ModelProto]:
        """Return the models: one for all devices if the sequence is split, one for each device if
        weights are.

        Raises:
            UnknownNameError: the model lacks a tensor that the hints name.
            ModelError: it cannot be split in this way.
        """
        model = evaluate_model(self._model)
        with translate_model_faults(model):
            if self._hints.parallelism == TENSOR:
                add_shapes(model, allow_onnxruntime=False)
                return split_tensors(model, self._hints)
            hints = self._hints
            if not (hints.attention_layers or hints.inputs or hints.outputs):
                G_LOGGER.warning("Nothing to split: the hints list no tensors.")
            split_context(model, hints)
            return [model]


def save_shards(
    models: Sequence[ModelProto],
    path: str,
    external_data_path: str | None = None,
    size_threshold: int | None = None,
    all_tensors_to_one_file: bool | None = None,
) -> None:
    """Save the models for several devices.

    Args:
        models: one model for all devices, or one for each in the order of their numbers.
        path: the file. The model for device `i` of `n` has ``_tp<n>_rank<i>`` appended to its
            name.
        external_data_path: the file for weights, relative to that; empty for the usual one. If
            there are several models, these files get the same suffix.
        size_threshold: size in bytes above which a weight is saved in this file.
        all_tensors_to_one_file: whether all weights go to one file.

    Raises:
        FileError: a file cannot be written.
    """
    for rank, model in enumerate(models):
        ending = f"_tp{len(models)}_rank{rank}" if len(models) > 1 else ""
        SaveOnnx(
            model,
            _with_ending(path, ending),
            external_data_path and _with_ending(external_data_path, ending),
            size_threshold=size_threshold,
            all_tensors_to_one_file=all_tensors_to_one_file,
        ).call_impl()


def _with_ending(path: str, ending: str) -> str:
    """Return a path with an ending added to the name of the file."""
    given_path = Path(path)
    return str(given_path.with_name(f"{given_path.stem}{ending}{given_path.suffix}"))
