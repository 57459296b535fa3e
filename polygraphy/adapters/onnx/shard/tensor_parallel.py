"""Splits the weights of an ONNX model over devices, as Megatron-LM does.

A product with a weight can be split by the rows of the weight if each device has its part of the
other operand's last axis; the sums of the parts are then added up between the devices. So from each
such product it is asked backwards what would have to be split, and along which axis: through
elementwise operators, transpositions, the reshapes that split heads off, and the products and
Softmax inside attention, up to products whose weights are split by columns. Nothing needs to be
exchanged between the two. What cannot be split stays whole on every device.

Source: Shoeybi et al., "Megatron-LM: Training multi-billion parameter language models using model
parallelism", arXiv:1909.08053, 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.constants import graph_weights
from polygraphy.adapters.onnx.graph.graph import clean, sort, taken_names, unused_name
from polygraphy.adapters.onnx.graph.open_model import OpenGraph
from polygraphy.adapters.onnx.shard.collectives import ALL_REDUCE, collective
from polygraphy.adapters.onnx.shard.split_block import Block, Cannot, Slice
from polygraphy.adapters.onnx.storage.elements import elements, plain_dtype, put
from polygraphy.adapters.onnx.storage.stored import is_stored
from polygraphy.adapters.onnx.storage.weights import all_tensors, byte_size
from polygraphy.adapters.onnx_common.messages import copy_of, used_by
from polygraphy.domain.errors import ModelError
from polygraphy.domain.sharding import ShardHints
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto


numpy = mod.lazy_import("numpy")
numpy_helper = mod.lazy_import("onnx.numpy_helper")
onnx = mod.lazy_import("onnx")


def split_tensors(model: ModelProto, hints: ShardHints) -> list[ModelProto]:
    """Return one model for each device, in order of their numbers.

    Args:
        model: the model with inferred shapes; it is not changed.
        hints: how many devices there are (`hints.dist_collectives.nb_rank`).

    Raises:
        ModelError: nothing in the model can be split over so many devices.
    """
    count = hints.dist_collectives.nb_rank
    blocks = _blocks(model.graph, count)
    if not blocks:
        raise ModelError(
            f"Nothing in the model can be split over {count} devices: there are no two products"
            " with weights whose sizes these divide, with only elementwise operators or attention"
            " between them."
        )
    whole = _size(model)
    made = []
    for rank in range(count):
        part = copy_of(model)
        for block in blocks:
            _split(part.graph, block, rank, hints)
        del part.graph.value_info[:]
        sort(part.graph)
        clean(part.graph)
        made.append(part)
    G_LOGGER.info(
        f"Split {len(blocks)} block(s) of products over {count} devices: each has"
        f" {_size(made[0]):,} of {whole:,} bytes of weights."
    )
    return made


def _size(model: ModelProto) -> int:
    """Return how many bytes the constants of a model take, wherever they are."""
    return sum(map(byte_size, all_tensors(model)))


def _blocks(graph: GraphProto, count: int) -> list[Block]:
    """Return what can be split, in the order of the graph; no weight is part of two blocks."""
    taken: set[str] = set()
    blocks: list[Block] = []
    if count < 2:
        return blocks
    opened = OpenGraph(graph)
    for node in graph.node:
        if node.op_type not in ("MatMul", "Gemm"):
            continue
        try:
            block = Block.ending_with(opened, node, count)
        except Cannot as reason:
            G_LOGGER.verbose(
                f"{node.op_type} {node.name or node.output[0]!r} stays whole: {reason}."
            )
            continue
        names = {one.name for one in block.slices}
        if not names & taken:
            taken |= names
            blocks.append(block)
    return blocks


def _split(graph: GraphProto, block: Block, rank: int, hints: ShardHints) -> None:
    """Leave a device its part of a block, and add up the sums of all devices behind it."""
    count = hints.dist_collectives.nb_rank
    weights = graph_weights(graph)
    taken = taken_names(graph)
    uses = _uses(graph)
    for one in block.slices:
        _replace_weight(graph, one, _part_of(weights[one.name], one, rank, count), uses, taken)
    for shape in block.shapes:
        made = numpy.array(shape.value, numpy.int64)
        _replace_weight(graph, shape, numpy_helper.from_array(made, shape.name), uses, taken)
    end = next(node for node in graph.node if block.output in node.output)
    partial = unused_name(f"{block.output}_partial", taken)
    end.output[0] = partial
    nodes = collective(
        ALL_REDUCE, partial, block.output, hints.dist_collectives, taken, reduce_op="sum"
    )
    graph.node.extend(nodes)


def _part_of(weight: TensorProto, one: Slice, rank: int, count: int) -> TensorProto:
    """Return a device's part of a weight, which is kept in a file where the weight is."""
    array = _sliced(elements(weight), one, rank, count)
    if is_stored(weight) and plain_dtype(weight) is not None:
        part: TensorProto = onnx.TensorProto(
            name=one.name, data_type=weight.data_type, dims=array.shape
        )
        put(part, array, in_file=True)
    else:
        part = numpy_helper.from_array(array, one.name)
    return part


def _sliced(array: Any, one: Slice, rank: int, count: int) -> Any:
    if one.axis is None:  # A bias that is to be added once, and not by every device.
        return array if rank == 0 else numpy.zeros_like(array)
    size = array.shape[one.axis] // count
    part = [slice(None)] * array.ndim
    part[one.axis] = slice(rank * size, (rank + 1) * size)
    return numpy.ascontiguousarray(array[tuple(part)])


def _uses(graph: GraphProto) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in graph.node:
        for name in used_by(node):
            counts[name] = counts.get(name, 0) + 1
    return counts


def _replace_weight(
    graph: GraphProto, one: Any, tensor: Any, uses: dict[str, int], taken: set[str]
) -> None:
    """Give the operands of the block another weight; who else uses the old one keeps it."""
    if uses.get(one.name, 0) > len(one.places):
        tensor.name = unused_name(f"{one.name}_part", taken)
        _point_to(graph, one.places, tensor.name)
    else:
        old = next((each for each in graph.initializer if each.name == one.name), None)
        if old is not None:
            old.CopyFrom(tensor)
            return
        tensor.name = unused_name(f"{one.name}_part", taken)
        _point_to(graph, one.places, tensor.name)
    graph.initializer.append(tensor)


def _point_to(graph: GraphProto, places: Sequence[tuple[int, int]], name: str) -> None:
    for node, operand in places:
        graph.node[node].input[operand] = name
