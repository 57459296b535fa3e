"""Splits the weights of an ONNX model over devices, as Megatron-LM does.

A product with a weight can be split by the rows of the weight if each device has its part of the
other operand's last axis; the partial sums are then added up across devices. So from each such
product, this module determines backwards the tensors to split, and their axes: through elementwise
operators, transpositions, the reshapes that split heads off, and the products and Softmax inside
attention, up to products whose weights are split by columns. Between the two, devices exchange
nothing. All other weights stay whole on every device.

Source: Shoeybi et al., "Megatron-LM: Training multi-billion parameter language models using model
parallelism", arXiv:1909.08053, 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import (
    clean,
    graph_weights,
    names_in_use,
    sort,
    unique_name,
)
from polygraphy.adapters.onnx.graph.open_model import OpenGraph
from polygraphy.adapters.onnx.storage.elements import elements, plain_dtype, replace_elements
from polygraphy.adapters.onnx.storage.weights import all_tensors, byte_size, is_stored
from polygraphy.adapters.onnx_common.messages import copy_of, tensors_read
from polygraphy.domain.errors import ModelError
from polygraphy.domain.sharding import Collectives, ShardHints
from polygraphy.domain.tensors.naming import count_text
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


_BETWEEN = frozenset({"Add", "Cast", "Div", "Identity", "Mul", "Where"})
"""Operators between the first product and Softmax: scaling and masking."""
_AFTER = frozenset({"Cast", "Dropout", "Identity", "Where"})
"""Operators between Softmax and the second product."""


@frozen(eq=False)
class Attention:
    """An attention layer.

    Attributes:
        nodes: its nodes in order: the first is the product of Q and K, the last that with V; or a
            single node of the standard's Attention.
        scores: the tensors from the first product to Softmax, for each of `between`.
        between: the nodes between the first product and Softmax.
    """

    nodes: tuple[NodeProto, ...]
    scores: tuple[str, ...] = ()
    between: tuple[NodeProto, ...] = field(default=())

    @property
    def is_single(self) -> bool:
        """Return whether it is one node of the standard operator Attention,
        whose K is not transposed.
        """
        return len(self.nodes) == 1

    @property
    def q(self) -> str:
        """Return the name of tensor Q."""
        return str(self.nodes[0].input[0])

    @property
    def k(self) -> str:
        """Return the name of tensor K, as it is multiplied."""
        return str(self.nodes[0].input[1])

    @property
    def v(self) -> str:
        """Return the name of tensor V."""
        return str(self.nodes[0].input[2] if self.is_single else self.nodes[-1].input[1])

    @property
    def output(self) -> str:
        """Return the name of the result."""
        return str(self.nodes[-1].output[0])


def attention_layers(graph: GraphProto, *, scale_is_computed: bool = False) -> Iterator[Attention]:
    """Yield the attention layers of a graph in order, without those in subgraphs.

    Args:
        graph: the graph.
        scale_is_computed: whether nodes may compute the scale and the mask; otherwise, these must
            be weights, constants or inputs.
    """
    opened = OpenGraph(graph)
    for node in graph.node:
        if node.domain not in ("", "ai.onnx"):
            continue
        if node.op_type == "Attention" and len(node.input) >= 3:
            yield Attention((node,))
        elif node.op_type == "Softmax":
            before = _nodes_before(node, opened, scale_is_computed=scale_is_computed)
            after = _nodes_after(node, opened)
            if before and after:
                scores = tuple(str(node.output[0]) for node in before)
                yield Attention((*before, node, *after), scores, tuple(before[1:]))


def _nodes_before(
    softmax: NodeProto, graph: OpenGraph, *, scale_is_computed: bool
) -> list[NodeProto]:
    """Return the first product and the nodes between it and Softmax; empty if there is none."""
    chain: list[NodeProto] = []
    name = softmax.input[0]
    while (node := graph.maker(name)) is not None:
        chain.insert(0, node)
        if node.op_type == "MatMul":
            return chain
        if node.op_type not in _BETWEEN:
            return []
        computed = [n for n in node.input if n in graph.makers and n not in graph.constant_nodes]
        kinds = {value: graph.protos[graph.makers[value]].op_type for value in computed}
        branches = [value for value in computed if kinds[value] in (*_BETWEEN, "MatMul")]
        other_computed = [value for value in computed if value not in branches]
        if len(branches) != 1 or (other_computed and not scale_is_computed):
            return []
        name = branches[0]
    return []


def _nodes_after(softmax: NodeProto, graph: OpenGraph) -> list[NodeProto]:
    """Return the nodes from Softmax to the second product, including it; empty if there is none."""
    chain: list[NodeProto] = []
    name = softmax.output[0]
    while True:
        following = graph.readers.get(name, [])
        if len(following) != 1:
            return []
        node = graph.protos[following[0]]
        chain.append(node)
        if node.op_type == "MatMul":
            return chain if node.input[0] == name else []
        if node.op_type not in _AFTER:
            return []
        name = node.output[0]


onnx = mod.lazy_import("onnx")

COLLECTIVE = "DistCollective"
ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER = "all_gather", "all_reduce", "reduce_scatter"


def collective(
    operation: str,
    source: str,
    target: str,
    settings: Collectives,
    used_names: set[str],
    *,
    axis: int = 0,
    rank: int | None = None,
    reduce_op: str = "none",
) -> list[NodeProto]:
    """Return nodes that compute one tensor from another across devices, in execution order.

    Args:
        operation: `ALL_GATHER`, `ALL_REDUCE` or `REDUCE_SCATTER`.
        source: the tensor that the nodes read.
        target: the tensor that they compute.
        settings: the settings, such as the participating devices.
        used_names: names in use; new ones are added.
        axis: the axis along which the tensor is split or joined.
        rank: number of its axes; only needed for an axis other than the first.
        reduce_op: the operation that combines the values of an element on all devices.

    Raises:
        ModelError: the required rank is unknown or too small.
    """
    permutation = _swap_with_first(axis, rank, source)
    before, after = source, target
    nodes = []
    if permutation:
        before = unique_name(f"{source}_to_front", used_names)
        nodes.append(transpose(source, before, permutation, used_names))
        after = unique_name(f"{target}_at_front", used_names)
    nodes.append(
        onnx.helper.make_node(
            COLLECTIVE,
            [before],
            [after],
            name=unique_name(f"{operation}_{target}", used_names),
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
        nodes.append(transpose(after, target, permutation, used_names))
    return nodes


def _swap_with_first(axis: int, rank: int | None, name: str) -> list[int]:
    """Return the permutation that swaps an axis with the first; it is its own inverse."""
    if rank is not None and not -rank <= axis < rank:
        raise ModelError(f"Tensor {name!r} has {rank} axes, so axis {axis} does not exist.")
    if axis == 0:
        return []
    if rank is None:
        raise ModelError(
            f"The rank of tensor {name!r} is unknown.",
            hint="Infer shapes, or set it: --i-rank, --o-rank, --kv-rank.",
        )
    permutation = list(range(rank))
    permutation[axis], permutation[0] = permutation[0], permutation[axis]
    return permutation if permutation != list(range(rank)) else []


def transpose(
    source: str, target: str, permutation: Sequence[int], used_names: set[str]
) -> NodeProto:
    """Return a Transpose node from one tensor to another."""
    node: NodeProto = onnx.helper.make_node(
        "Transpose",
        [source],
        [target],
        name=unique_name(f"transpose_{target}", used_names),
        perm=list(permutation),
    )
    return node


Place = tuple[int, int]
"""A node, by its index, and one of its operands."""

_UNARY = frozenset(
    {
        "Abs", "Cast", "Dropout", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish",
        "Identity", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid",
        "Softplus", "Softsign", "Sqrt", "Swish", "Tanh",
    }
)  # fmt: skip
_BINARY = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub", "Where"})


class SplitError(Exception):
    """Raised if something cannot be split; the message gives the reason."""


@frozen
class Slice:
    """A weight that is divided between devices.

    Attributes:
        name: the weight.
        axis: the axis along which it is split; None for a bias that only the first device adds.
        places: the operands of the block that read it.
    """

    name: str
    axis: int | None
    places: tuple[Place, ...]


@frozen
class NewShape:
    """The target shape of a Reshape for the part of one device."""

    name: str
    value: tuple[int, ...]
    places: tuple[Place, ...]


@frozen
class Block:
    """The nodes between products whose weights are split by columns, and one whose weight is split
    by rows.

    Attributes:
        output: the result of the last product: a sum over all devices.
        slices: the weights that are split.
        shapes: the target shapes of Reshape nodes that change.
    """

    output: str
    slices: tuple[Slice, ...]
    shapes: tuple[NewShape, ...]

    @staticmethod
    def find(graph: OpenGraph, node: NodeProto, count: int) -> Block:
        """Return the block whose last node is a product.

        Args:
            graph: the graph, with shapes.
            node: a node of type MatMul or Gemm.
            count: number of devices.

        Raises:
            SplitError: there is none.
        """
        search = _SplitSearch(graph, count)
        search.start_at(node)
        search.check_inside()
        return Block(str(node.output[0]), tuple(search.slices()), tuple(search.shapes.values()))


@frozen(eq=False)
class _SplitSearch:
    """Determines, from the last product back, the tensors that must be split."""

    graph: OpenGraph
    count: int
    shapes: dict[str, NewShape] = field(factory=dict)
    _split: dict[str, int] = field(factory=dict)
    _nodes: set[int] = field(factory=set)
    _weights: dict[tuple[str, int | None], list[Place]] = field(factory=dict)

    def start_at(self, node: NodeProto) -> None:
        """Start at the last product, whose weight is split by rows."""
        index, weight = self.graph.makers[node.output[0]], node.input[1]
        attributes = _attributes(node)
        if attributes.get("transA"):
            raise SplitError("its first input is transposed")
        dense = self.graph.dense_weights
        if weight not in dense or len(dense[weight].dims) != 2:
            raise SplitError("it has no weight with two axes")
        self._nodes.add(index)
        self._record_slice(weight, 1 if attributes.get("transB") else 0, (index, 1))
        if len(node.input) > 2 and node.input[2]:
            if node.input[2] not in self.graph.dense_weights:
                raise SplitError("its bias is computed")
            self._weights.setdefault((node.input[2], None), []).append((index, 2))
        self._require_split(node.input[0], self._rank(node.input[0]) - 1)
        if not any(axis is not None for _, axis in list(self._weights)[1:]):
            raise SplitError("nothing before it has weights")

    def slices(self) -> list[Slice]:
        """Return the weights that are split."""
        return [Slice(name, axis, tuple(uses)) for (name, axis), uses in self._weights.items()]

    def check_inside(self) -> None:
        """Raise if other nodes read split tensors, or a weight is split twice."""
        for name in self.graph.outputs:
            if name in self._split:
                raise SplitError(f"{name!r}, an output of the model, would be split")
        for name in self._split:
            for consumer in self.graph.readers.get(name, ()):
                if consumer not in self._nodes:
                    proto = self.graph.protos[consumer]
                    raise SplitError(f"{proto.op_type} {proto.name!r} also reads {name!r}")
        names = [name for name, _ in self._weights]
        if len(set(names)) < len(names):
            raise SplitError("a weight would be split in two ways")

    def _rank(self, name: str) -> int:
        """Return the number of axes of a tensor."""
        return len(self._shape(name))

    def _shape(self, name: str) -> tuple[Any, ...]:
        """Return the shape of a tensor; raise `SplitError` if it is unknown."""
        shape = self.graph.shape(name)
        if shape is None:
            raise SplitError(f"the shape of {name!r} is not known")
        return shape

    def _record_slice(self, name: str, axis: int, position: Place) -> None:
        """Record that a weight of a node is split along an axis."""
        size = self.graph.dense_weights[name].dims[axis]
        if size % self.count:
            raise SplitError(f"axis {axis} of weight {name!r} has {size} elements")
        positions = self._weights.setdefault((name, axis), [])
        if position not in positions:
            positions.append(position)

    def _require_split(self, name: str, axis: int) -> None:
        """Require a tensor to be split along an axis."""
        if name in self._split:
            if self._split[name] != axis:
                raise SplitError(f"{name!r} would be split along two axes")
            return
        index = self.graph.makers.get(name)
        if index is None:
            raise SplitError(f"{name!r} is an input")
        size = self._shape(name)[axis]
        if not isinstance(size, int) or size % self.count:
            raise SplitError(f"axis {axis} of {name!r} has {size} elements")
        self._split[name] = axis
        self._nodes.add(index)
        node = self.graph.protos[index]
        if node.domain not in ("", "ai.onnx") or name != node.output[0]:
            raise SplitError(f"there is no rule for {node.op_type}")
        if node.op_type in _UNARY:
            self._require_split(node.input[0], axis)
        elif node.op_type in _BINARY:
            self._split_elementwise(index, node, axis)
        elif node.op_type in _RULES:
            _RULES[node.op_type](self, index, node, axis)
        else:
            raise SplitError(f"there is no rule for {node.op_type}")

    def _split_elementwise(self, index: int, node: NodeProto, axis: int) -> None:
        """Split an elementwise node: slice its weights, and require its other inputs to be
        split, along an axis.
        """
        rank = self._rank(node.output[0])
        for operand, name in enumerate(node.input):
            shape = self._shape(name)
            own_axis = axis - rank + len(shape)
            if own_axis < 0 or shape[own_axis] == 1:  # A length of 1 is broadcast.
                continue
            if name in self.graph.dense_weights:
                self._record_slice(name, own_axis, (index, operand))
            else:
                self._require_split(name, own_axis)

    def _split_matmul(self, index: int, node: NodeProto, axis: int) -> None:
        """Split a MatMul along an axis of its output; raise SplitError if impossible."""
        rank = self._rank(node.output[0])
        left, right = node.input[0], node.input[1]
        if right in self.graph.dense_weights and self._rank(right) == 2:
            if axis != rank - 1:
                raise SplitError(f"{node.op_type} {node.name!r} would be split by input rows")
            self._record_slice(right, 1, (index, 1))
            return
        for name, is_summed in ((left, rank - 1), (right, rank - 2)):
            own_axis = axis - rank + self._rank(name)
            if axis == is_summed or own_axis < 0 or self._shape(name)[own_axis] == 1:
                continue  # The tensor lacks this axis, so all of it is needed.
            if name in self.graph.dense_weights:
                raise SplitError(f"weight {name!r} has more than two axes")
            self._require_split(name, own_axis)

    def _split_gemm(self, index: int, node: NodeProto, axis: int) -> None:
        """Split a Gemm along its columns; raise SplitError if that is impossible."""
        attributes = _attributes(node)
        if axis != 1 or attributes.get("transA") or node.input[1] not in self.graph.dense_weights:
            raise SplitError(f"{node.op_type} {node.name!r} would be split by input rows")
        self._record_slice(node.input[1], 0 if attributes.get("transB") else 1, (index, 1))
        if len(node.input) > 2 and node.input[2]:
            bias = node.input[2]
            if bias not in self.graph.dense_weights:
                raise SplitError("its bias is computed")
            shape = self._shape(bias)
            if shape and shape[-1] != 1:
                self._record_slice(bias, len(shape) - 1, (index, 2))

    def _split_softmax(self, index: int, node: NodeProto, axis: int) -> None:
        """Require the input of a Softmax to be split; raise SplitError along the sum."""
        rank = self._rank(node.output[0])
        if _attributes(node).get("axis", -1) % rank == axis:
            raise SplitError(f"{node.op_type} {node.name!r} sums along the axis")
        self._require_split(node.input[0], axis)

    def _split_concat(self, index: int, node: NodeProto, axis: int) -> None:
        """Split a Concat along an axis; raise SplitError for the axis that it joins."""
        if _attributes(node).get("axis", 0) % self._rank(node.output[0]) == axis:
            raise SplitError(f"{node.op_type} {node.name!r} joins along the axis")
        for operand, name in enumerate(node.input):
            if name in self.graph.dense_weights:
                self._record_slice(name, axis, (index, operand))
            else:
                self._require_split(name, axis)

    def _split_transpose(self, index: int, node: NodeProto, axis: int) -> None:
        """Require the input of a Transpose to be split along the axis that becomes the given
        one."""
        rank = self._rank(node.input[0])
        permutation = _attributes(node).get("perm", list(range(rank))[::-1])
        self._require_split(node.input[0], permutation[axis])

    def _split_reshape(self, index: int, node: NodeProto, axis: int) -> None:
        """Require the input of a Reshape to be split along the axis that becomes the given one.
        The part of a device must be contiguous.
        """
        before, after = self._shape(node.input[0]), self._shape(node.output[0])
        matching_axis = _matching_axis(before, after, axis)
        if matching_axis is None:
            raise SplitError(f"Reshape {node.name!r} mixes the axis with others")
        target = self.graph.constant(node.input[1])
        if target is None or len(target) != len(after):
            raise SplitError(f"the output shape of Reshape {node.name!r} is computed at run time")
        if target[axis] > 0:
            value = list(target)
            value[axis] //= self.count
            position = (index, 1)
            self.shapes[f"{index}"] = NewShape(node.input[1], tuple(value), (position,))
        elif target[axis] == 0 and matching_axis != axis:
            raise SplitError(f"the output shape of Reshape {node.name!r} copies an input size")
        self._require_split(node.input[0], matching_axis)


_RULES: dict[str, Callable[[_SplitSearch, int, Any, int], None]] = {
    "Concat": _SplitSearch._split_concat,
    "Gemm": _SplitSearch._split_gemm,
    "MatMul": _SplitSearch._split_matmul,
    "Reshape": _SplitSearch._split_reshape,
    "Softmax": _SplitSearch._split_softmax,
    "Transpose": _SplitSearch._split_transpose,
}


def _matching_axis(before: tuple[Any, ...], after: tuple[Any, ...], axis: int) -> int | None:
    """Return the axis of a tensor with the same consecutive pieces as an axis after a reshape.
    The result is None if there is none.

    The numbers of elements before both axes must be equal, and the axis must be the outermost of
    those that it is split into or joined with: the heads, not the axis inside a head.
    """
    for matching_axis in range(len(before)):
        if _same_size(before[:matching_axis], after[:axis]) and isinstance(
            before[matching_axis], int
        ):
            rest_before, rest_after = before[matching_axis:], after[axis:]
            if _same_size(rest_before, rest_after):
                outermost_before = before[matching_axis]
                is_multiple = (
                    outermost_before % after[axis] == 0 or after[axis] % outermost_before == 0
                )
                if is_multiple and outermost_before > 1:
                    return matching_axis
    return None


def _same_size(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Return whether two lists of dimensions have the same product.
    Dynamic ones are compared by name.
    """
    names_left = sorted(str(dim) for dim in left if not isinstance(dim, int))
    names_right = sorted(str(dim) for dim in right if not isinstance(dim, int))
    numbers_left = [dim for dim in left if isinstance(dim, int)]
    numbers_right = [dim for dim in right if isinstance(dim, int)]
    return (
        names_left == names_right
        and "None" not in names_left
        and prod(numbers_left) == prod(numbers_right)
    )


def _attributes(node: NodeProto) -> dict[str, Any]:
    """Return the numeric attributes of a node."""
    values: dict[str, Any] = {}
    for attribute in node.attribute:
        values[attribute.name] = list(attribute.ints) if attribute.ints else attribute.i
    return values


numpy = mod.lazy_import("numpy")
numpy_helper = mod.lazy_import("onnx.numpy_helper")


def split_tensors(model: ModelProto, hints: ShardHints) -> list[ModelProto]:
    """Return one model for each device, in order of their numbers.

    Args:
        model: the model with inferred shapes; it is not changed.
        hints: number of devices (`hints.dist_collectives.nb_rank`).

    Raises:
        ModelError: nothing in the model can be split over so many devices.
    """
    count = hints.dist_collectives.nb_rank
    blocks = _blocks(model.graph, count)
    if not blocks:
        raise ModelError(
            f"Nothing in the model can be split over {count} devices. This requires two matrix"
            f" products whose weights have sizes divisible by {count}, with only elementwise"
            " operators or attention between them."
        )
    size = _size(model)
    tensors = []
    for rank in range(count):
        part = copy_of(model)
        for block in blocks:
            _split_block(part.graph, block, rank, hints)
        del part.graph.value_info[:]
        sort(part.graph)
        clean(part.graph)
        tensors.append(part)
    G_LOGGER.info(
        f"Split {count_text(len(blocks), 'block')} of matrix products over {count} devices: each"
        f" device has {_size(tensors[0]):,} of {size:,} bytes of weights."
    )
    return tensors


def _size(model: ModelProto) -> int:
    """Return the number of bytes of the constants of a model, also in files."""
    return sum(map(byte_size, all_tensors(model)))


def _blocks(graph: GraphProto, count: int) -> list[Block]:
    """Return the blocks that can be split, in graph order; no weight is part of two blocks."""
    used_names: set[str] = set()
    blocks: list[Block] = []
    if count < 2:
        return blocks
    opened = OpenGraph(graph)
    for node in graph.node:
        if node.op_type not in ("MatMul", "Gemm"):
            continue
        try:
            block = Block.find(opened, node, count)
        except SplitError as reason:
            G_LOGGER.verbose(
                f"{node.op_type} {node.name or node.output[0]!r} is not split: {reason}."
            )
            continue
        names = {part.name for part in block.slices}
        if not names & used_names:
            used_names |= names
            blocks.append(block)
    return blocks


def _split_block(graph: GraphProto, block: Block, rank: int, hints: ShardHints) -> None:
    """Reduce a block to the part of one device, and add up the sums of all devices after it."""
    count = hints.dist_collectives.nb_rank
    weights = graph_weights(graph)
    used_names = names_in_use(graph)
    uses = _uses(graph)
    for part in block.slices:
        _replace_weight(
            graph, part, _part_of(weights[part.name], part, rank, count), uses, used_names
        )
    for shape in block.shapes:
        array = numpy.array(shape.value, numpy.int64)
        _replace_weight(graph, shape, numpy_helper.from_array(array, shape.name), uses, used_names)
    end = next(node for node in graph.node if block.output in node.output)
    partial = unique_name(f"{block.output}_partial", used_names)
    end.output[0] = partial
    nodes = collective(
        ALL_REDUCE, partial, block.output, hints.dist_collectives, used_names, reduce_op="sum"
    )
    graph.node.extend(nodes)


def _part_of(weight: TensorProto, weight_slice: Slice, rank: int, count: int) -> TensorProto:
    """Return the part of a weight for a device, which is stored in a file if the weight is."""
    array = _slice_weight(elements(weight), weight_slice, rank, count)
    if is_stored(weight) and plain_dtype(weight) is not None:
        part: TensorProto = onnx.TensorProto(
            name=weight_slice.name, data_type=weight.data_type, dims=array.shape
        )
        replace_elements(part, array, in_file=True)
    else:
        part = numpy_helper.from_array(array, weight_slice.name)
    return part


def _slice_weight(array: Any, weight_slice: Slice, rank: int, count: int) -> Any:
    """Return the part of a weight for one device."""
    if weight_slice.axis is None:  # Only one device adds this bias.
        return array if rank == 0 else numpy.zeros_like(array)
    size = array.shape[weight_slice.axis] // count
    part = [slice(None)] * array.ndim
    part[weight_slice.axis] = slice(rank * size, (rank + 1) * size)
    return numpy.ascontiguousarray(array[tuple(part)])


def _uses(graph: GraphProto) -> dict[str, int]:
    """Return the number of nodes that read each tensor."""
    counts: dict[str, int] = {}
    for node in graph.node:
        for name in tensors_read(node):
            counts[name] = counts.get(name, 0) + 1
    return counts


def _replace_weight(
    graph: GraphProto, target: Any, tensor: Any, uses: dict[str, int], used_names: set[str]
) -> None:
    """Make the operands of a block read another weight; other readers keep the old one."""
    if uses.get(target.name, 0) > len(target.places):
        tensor.name = unique_name(f"{target.name}_part", used_names)
        _replace_operands(graph, target.places, tensor.name)
    else:
        old = next((weight for weight in graph.initializer if weight.name == target.name), None)
        if old is not None:
            old.CopyFrom(tensor)
            return
        tensor.name = unique_name(f"{target.name}_part", used_names)
        _replace_operands(graph, target.places, tensor.name)
    graph.initializer.append(tensor)


def _replace_operands(graph: GraphProto, positions: Sequence[tuple[int, int]], name: str) -> None:
    """Make some inputs of nodes read another tensor."""
    for node, operand in positions:
        graph.node[node].input[operand] = name
