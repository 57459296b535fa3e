"""The size of a model when it runs or its functions are inlined: a file of a kilobyte may need
terabytes. Sizes are estimated before anything is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from polygraphy import config
from polygraphy.adapters.onnx.graph.element_types import domain_of
from polygraphy.adapters.onnx.storage.weights import all_tensors, byte_size, is_stored
from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.domain.errors import ModelError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


LIFTED_BY = "Set POLYGRAPHY_EXPANSION_LIMIT_MB to a larger number, or to -1 for no limit."

_BYTES_OF_NODE = 1024  # Upper estimate for a graph with inlined functions and inferred shapes.
# Upper estimate for copies of large weights: transposed, converted to a wider type, or repeated.
_PER_BYTE = 8
LONGEST_VECTOR = 1 << 16
"""More elements than any shape has dimensions: longer vectors are not propagated."""
_LONGEST_COPY = 1 << 20
"""Longest list of other types, whose elements take about 150 bytes each. Weights for the entries
of a vocabulary are shorter."""
_UNKNOWN_RANK = 16
_DEEPEST_CALLS = 100
"""Nested calls of functions that the onnx package and ONNX Runtime accept."""
_CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})
_SOURCES = frozenset({"Constant", "Shape"})
_INTEGERS = (6, 7)  # Data types int32 and int64.
_COPYING = frozenset({"Cast", "Concat", "Identity", "Slice", "Squeeze", "Unsqueeze"})
"""Operators through which the onnx package propagates lists of all types, not of integers alone."""


def limit_bytes(size: float = 0) -> float:
    """Return the number of bytes to which data of this size may be expanded."""
    megabytes = config.EXPANSION_LIMIT_MB
    return float("inf") if megabytes < 0 else megabytes * 2.0**20 + _PER_BYTE * size


def model_bytes(model: ModelProto) -> int:
    """Return the number of bytes of a model, including weights in files by their declared sizes."""
    return int(model.ByteSize()) + sum(map(byte_size, filter(is_stored, all_tensors(model))))


def count_inlined_nodes(model: ModelProto) -> int:
    """Return the number of nodes of a model after all its functions are inlined.

    Raises:
        ModelError: a function calls itself, two have the same name, or calls are nested too
            deeply.
    """
    bodies: dict[tuple[str, str, str], Any] = {}
    for function in model.functions:
        key = (domain_of(function.domain), function.name, function.overload)
        if key in bodies:
            raise ModelError(f"The model has two functions {function.name!r} of domain {key[0]!r}.")
        bodies[key] = function
    counts: dict[tuple[str, str, str], int] = {}
    entered: list[tuple[str, str, str]] = []

    def count(nodes: Iterable[NodeProto]) -> int:
        """Return the expanded number of nodes of a list, including subgraphs."""
        total = 0
        for node in nodes:
            key = (domain_of(node.domain), node.op_type, node.overload)
            total += count_in_function(key) if key in bodies else 1
            total += sum(count(graph.node) for graph in graphs_of(node))
        return total

    def count_in_function(key: tuple[str, str, str]) -> int:
        """Return the expanded number of nodes of a function, computed once."""
        if key in entered:
            raise ModelError(f"Function {key[1]!r} of domain {key[0]!r} calls itself.")
        if len(entered) >= _DEEPEST_CALLS:
            raise ModelError(
                f"The model is invalid: functions call each other more than {_DEEPEST_CALLS} levels"
                f" deep, from {entered[0][1]!r} to {key[1]!r}."
            )
        if key not in counts:
            entered.append(key)
            counts[key] = count(bodies[key].node)
            entered.pop()
        return counts[key]

    total = count(model.graph.node)
    for key in bodies:
        count_in_function(key)
    return total


def check_expansion(model: ModelProto) -> None:
    """Raise ModelError if a model has too many nodes after its functions are inlined,
    as shape inference and ONNX Runtime do, or functions that cannot be inlined.

    Raises:
        ModelError: it would have too many nodes, or has functions that cannot be inlined.
    """
    if not model.functions:
        return
    nodes, most = count_inlined_nodes(model), limit_bytes() / _BYTES_OF_NODE
    if nodes > most:
        raise ModelError(
            f"The model has {nodes:,} nodes after its functions are inlined, more than the limit"
            f" of {most:,.0f}.",
            hint=LIFTED_BY,
        )


def has_long_vectors(model: ModelProto) -> bool:
    """Return whether an integer list becomes longer than any shape, because shape inference would
    turn each element into a dimension.

    Args:
        model: a model that `check_expansion` accepts.
    """
    if max(vector_lengths(model).values(), default=0) > LONGEST_VECTOR:
        return True
    growing = {"Concat", *_CONTROL_FLOW}
    if not model.functions and not any(node.op_type in growing for node in model.graph.node):
        return False
    lists = partial(_with_lists, of_integers=False)
    lengths = _lengths(model, lists, _length_of_copies, _LONGEST_COPY)
    return max(lengths.values(), default=0) > _LONGEST_COPY


def vector_lengths(model: ModelProto, *, with_weights: bool = True) -> dict[str, int]:
    """Return, by name, the maximum length of integer lists that nodes of the main graph compute, up
    to the first one longer than any shape; a list inside a node counts as its output.

    Args:
        model: a model that `check_expansion` accepts.
        with_weights: whether weights count as lists, in addition to computed shapes.
    """
    weights_of = _with_lists if with_weights else lambda _, known_value: dict(known_value)
    return _lengths(model, weights_of, _length)


def _lengths(
    model: ModelProto,
    weights_of: Callable[[GraphProto, Mapping[str, int]], dict[str, int]],
    length_of: Callable[[NodeProto, Sequence[int]], int],
    most: int = LONGEST_VECTOR,
) -> dict[str, int]:
    """Return the lengths of lists by name, up to the first one that is too long.

    Args:
        model: the model.
        weights_of: returns the known lengths together with those of a graph's weights.
        length_of: returns the length of the list that a node computes from lists of these lengths;
            0 for other results.
        most: the longest allowed size.
    """
    bodies: dict[Any, Any] = {(domain_of(f.domain), f.name, f.overload): f for f in model.functions}

    def lengths_in(nodes: Iterable[NodeProto], known_lengths: dict[str, int]) -> int:
        """Record in `known_lengths` the lengths of lists that nodes compute; return the largest."""
        longest = 0
        for node in nodes:
            op = node.op_type
            input_lengths = [known_lengths.get(name, 0) for name in node.input[:]]
            if op in _CONTROL_FLOW:
                for graph in graphs_of(node):
                    inside = lengths_in(graph.node, weights_of(graph, known_lengths))
                    longest, input_lengths = max(longest, inside), [*input_lengths, inside]
            elif not any(input_lengths) and op not in _SOURCES and not bodies:
                continue
            key = (domain_of(node.domain), op, node.overload) if bodies else None
            if key in bodies:
                inner = dict(zip(bodies[key].input, input_lengths))
                longest = max(longest, lengths_in(bodies[key].node, inner))
                output_lengths = [inner.get(name, 0) for name in bodies[key].output]
            else:
                output_lengths = [length_of(node, input_lengths)] * len(node.output)
            known_lengths.update(zip(node.output[:], output_lengths))
            longest = max(longest, *output_lengths, 0)
            if longest > most:
                break
        return longest

    weights = weights_of(model.graph, {})
    lengths = dict(weights)
    lengths_in(model.graph.node, lengths)
    return {name: length for name, length in lengths.items() if name not in weights}


def _with_lists(
    graph: GraphProto, known_lengths: Mapping[str, int], *, of_integers: bool = True
) -> dict[str, int]:
    """Return known lengths together with those of the one-dimensional weights of a graph."""
    lists = dict(known_lengths)
    for tensor in graph.initializer:
        if len(tensor.dims) == 1 and (tensor.data_type in _INTEGERS) is of_integers:
            lists[tensor.name] = tensor.dims[0]
    return lists


def _length(node: NodeProto, lengths: Sequence[int]) -> int:
    """Return the maximum length of an integer list that a node computes; 0 for other results."""
    op = node.op_type
    if op == "Concat":
        return sum(lengths)
    if op == "Shape":
        return _UNKNOWN_RANK
    if op in ("Gather", "GatherElements"):
        return min(lengths[1] or 1, LONGEST_VECTOR + 1) if len(lengths) > 1 and lengths[0] else 0
    if op == "Constant":
        for attribute in node.attribute:
            if (
                attribute.name == "value"
                and len(attribute.t.dims) == 1
                and attribute.t.data_type in _INTEGERS
            ):
                return int(attribute.t.dims[0])
            if attribute.name == "value_ints":
                return len(attribute.ints)
    return max(lengths, default=0)


def _length_of_copies(node: NodeProto, lengths: Sequence[int]) -> int:
    """Return the length of a list of a different type that a node computes; 0 for other results."""
    if node.op_type in _CONTROL_FLOW:
        return max(lengths, default=0)
    if node.op_type == "Constant":
        for attribute in node.attribute:
            if (
                attribute.name == "value"
                and len(attribute.t.dims) == 1
                and attribute.t.data_type not in _INTEGERS
            ):
                return int(attribute.t.dims[0])
            if attribute.name == "value_floats":
                return len(attribute.floats)
    if node.op_type == "Concat":
        return sum(lengths) if all(lengths) else 0
    return lengths[0] if node.op_type in _COPYING and lengths else 0


def element_count(node: NodeProto, value: Callable[[str], Any], size: Callable[[str], Any]) -> Any:
    """Return the number of elements of the result of a node, if its operands determine it, or None.
    The result is None if they are unknown, or for other operators.

    Args:
        node: the node.
        value: returns the elements of a tensor as an array; None if they are unknown.
        size: returns the shape of a tensor.
    """
    rule = None if domain_of(node.domain) else _RULES.get(node.op_type)
    if rule is None:
        return None
    operands = [value(name) if name else None for name in node.input]
    try:
        return rule(node, operands, [size(name) for name in node.input])
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError):
        return None  # Unknown or invalid; other checks report this better.


def _range_size(_: NodeProto, values: Sequence[Any], __: Sequence[Any]) -> int:
    """Return the number of elements of a Range."""
    start, limit, delta = (value.reshape(-1)[0].item() for value in values[:3])
    count: int = ceil((limit - start) / delta)
    return max(0, count)


def _expand_size(_: NodeProto, values: Sequence[Any], shapes: Sequence[Any]) -> int:
    """Return the number of elements of an Expand."""
    shape, wanted = list(shapes[0]), [int(dim) for dim in values[1]]
    rank = max(len(shape), len(wanted))
    pairs = zip([1] * (rank - len(shape)) + shape, [1] * (rank - len(wanted)) + wanted)
    return int(prod(max(pair) for pair in pairs))


def _one_hot_size(_: NodeProto, values: Sequence[Any], shapes: Sequence[Any]) -> int:
    """Return the number of elements of a OneHot."""
    return int(prod(shapes[0]) * int(values[1].reshape(-1)[0]))


def _pad_size(_: NodeProto, values: Sequence[Any], shapes: Sequence[Any]) -> int:
    """Return the number of elements of a Pad."""
    pads = [int(number) for number in values[1]]
    rank = len(pads) // 2
    if rank != len(shapes[0]):
        return int(prod(shapes[0]) + sum(map(abs, pads)) ** rank)
    return int(prod(max(0, dim + pads[i] + pads[i + rank]) for i, dim in enumerate(shapes[0])))


def _resize_size(_: NodeProto, values: Sequence[Any], shapes: Sequence[Any]) -> int:
    """Return the number of elements of a Resize."""
    if len(values) > 3 and values[3] is not None:
        return int(prod(int(number) for number in values[3]))
    scales = values[2] if len(values) > 2 else values[1]
    return int(prod(int(dim * scale) + 1 for dim, scale in zip(shapes[0], scales)))


_RULES: dict[str, Callable[[Any, Sequence[Any], Sequence[Any]], int]] = {
    "BlackmanWindow": lambda _, values, __: int(values[0].reshape(-1)[0]),
    "ConstantOfShape": lambda _, values, __: int(prod(int(dim) for dim in values[0])),
    "Expand": _expand_size,
    "HammingWindow": lambda _, values, __: int(values[0].reshape(-1)[0]),
    "HannWindow": lambda _, values, __: int(values[0].reshape(-1)[0]),
    "OneHot": _one_hot_size,
    "Pad": _pad_size,
    "Range": _range_size,
    "Resize": _resize_size,
    "Tile": lambda _, values, shapes: int(
        prod(shapes[0]) * prod(int(number) for number in values[1])
    ),
    "Upsample": _resize_size,
}
"""Operators whose operands determine the size of the result; checked before shape inference."""
