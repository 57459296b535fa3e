"""Puts operations between devices into ONNX graphs: nodes of TensorRT's operator DistCollective.

They split and join along the first axis. For another one, Transpose nodes around them bring that
axis to the front and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import unused_name
from polygraphy.domain.errors import ModelError
from polygraphy.domain.sharding import Collectives

if TYPE_CHECKING:
    from onnx import NodeProto


onnx = mod.lazy_import("onnx")

COLLECTIVE = "DistCollective"
ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER = "all_gather", "all_reduce", "reduce_scatter"


def collective(
    operation: str,
    source: str,
    target: str,
    settings: Collectives,
    taken: set[str],
    *,
    axis: int = 0,
    rank: int | None = None,
    reduce_op: str = "none",
) -> list[NodeProto]:
    """Return nodes that make one tensor of another, in an order in which they can be computed.

    Args:
        operation: `ALL_GATHER`, `ALL_REDUCE` or `REDUCE_SCATTER`.
        source: what they take.
        target: what they make.
        settings: which devices take part.
        taken: names that are taken already; those that are made are added.
        axis: the axis along which the tensor is split or joined.
        rank: how many axes it has; only needed for an axis other than the first.
        reduce_op: what becomes of the values that the devices have of one element.

    Raises:
        ModelError: the number of axes is needed, and not known or too small.
    """
    permutation = _to_front(axis, rank, source)
    before, after = source, target
    nodes = []
    if permutation:
        before = unused_name(f"{source}_to_front", taken)
        nodes.append(transpose(source, before, permutation, taken))
        after = unused_name(f"{target}_at_front", taken)
    nodes.append(
        onnx.helper.make_node(
            COLLECTIVE,
            [before],
            [after],
            name=unused_name(f"{operation}_{target}", taken),
            collective_operation=operation,
            reduce_op=reduce_op,
            root=settings.root,
            group_size=settings.group_size,
            nb_rank=settings.nb_rank,
        )
    )
    groups = onnx.AttributeProto(name="groups", type=onnx.AttributeProto.INTS)
    groups.ints.extend(settings.groups)
    nodes[-1].attribute.append(groups)
    if permutation:
        nodes.append(transpose(after, target, permutation, taken))
    return nodes


def _to_front(axis: int, rank: int | None, name: str) -> list[int]:
    """Return the permutation that swaps an axis with the first; it is its own inverse."""
    if rank is not None and not -rank <= axis < rank:
        raise ModelError(f"Tensor {name!r} has {rank} axes, and so no axis {axis}.")
    if axis == 0:
        return []
    if rank is None:
        raise ModelError(
            f"It is not known how many axes tensor {name!r} has.",
            hint="Infer shapes, or say it: --i-rank, --o-rank, --kv-rank.",
        )
    permutation = list(range(rank))
    permutation[axis], permutation[0] = permutation[0], permutation[axis]
    return permutation if permutation != list(range(rank)) else []


def transpose(source: str, target: str, permutation: Sequence[int], taken: set[str]) -> NodeProto:
    """Return a Transpose node that makes one tensor of another."""
    made: NodeProto = onnx.helper.make_node(
        "Transpose",
        [source],
        [target],
        name=unused_name(f"transpose_{target}", taken),
        perm=list(permutation),
    )
    return made
