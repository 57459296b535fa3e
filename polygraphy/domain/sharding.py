"""Splitting a model over several devices that compute one inference together."""

from __future__ import annotations

from attrs import frozen

CONTEXT, TENSOR = "CP", "TP"
"""Ways to split: every device has all weights and a part of the sequence, or all of the sequence
and a part of the weights.
"""

REDUCTIONS = ("sum", "prod", "min", "max", "avg")
"""Reductions of the values of one element on several devices."""


@frozen
class FusedAttention:
    """An attention layer as a single node that distributes itself over the devices.

    Attributes:
        is_causal: whether a position only attends to those before it.
        q_shuffle: a permutation of the axes of Q for the input of the node; None for none.
        k_shuffle: a permutation of the axes of K; None swaps the last two, as in the product of Q
            and K.
        v_shuffle: a permutation of the axes of V; None for none.
        nb_rank: the number of devices of the node.
    """

    is_causal: bool = False
    q_shuffle: tuple[int, ...] | None = None
    k_shuffle: tuple[int, ...] | None = None
    v_shuffle: tuple[int, ...] | None = None
    nb_rank: int = 1


@frozen
class AttentionLayer:
    """The way to split one attention layer.

    Attributes:
        q: the tensor that is multiplied by K.
        gather_kv: whether each device gets all of K and V.
        gather_q: whether each device gets all of Q.
        replace: the node that takes its place; None to keep the node.
    """

    q: str
    gather_kv: bool = True
    gather_q: bool = False
    replace: FusedAttention | None = None


@frozen
class Collectives:
    """The settings shared by all operations between devices.

    Attributes:
        group_size: number of participating devices; 0 for all.
        root: the device that receives a result, if only one device receives it; -1 for none.
        nb_rank: number of devices.
        reduce_op: one of `REDUCTIONS`: the operation that combines the copies of an input.
        groups: the groups of participating devices; empty for all.
    """

    group_size: int = 0
    root: int = -1
    nb_rank: int = 1
    reduce_op: str = "max"
    groups: tuple[int, ...] = ()


@frozen
class ShardTensor:
    """An input or output to split: its axis, and its number of axes."""

    name: str
    seq_len_idx: int = 0
    rank: int | None = None


@frozen
class ShardHints:
    """The way to split a model.

    Attributes:
        parallelism: `CONTEXT` or `TENSOR`.
        attention_layers: the sharding of the attention layers.
        dist_collectives: the way the devices communicate.
        inputs: the inputs that are split.
        outputs: the outputs that are gathered.
        k_seq_len_idx: the axis of the sequence in K, as it is multiplied.
        v_seq_len_idx: the axis of the sequence in V, as it is multiplied, and in Q.
        kv_rank: the rank of K and V.
    """

    parallelism: str = CONTEXT
    attention_layers: tuple[AttentionLayer, ...] = ()
    dist_collectives: Collectives = Collectives()
    inputs: tuple[ShardTensor, ...] = ()
    outputs: tuple[ShardTensor, ...] = ()
    k_seq_len_idx: int = 0
    v_seq_len_idx: int = 0
    kv_rank: int | None = None
