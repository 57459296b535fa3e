"""Walking and trimming the graph of an ONNX model in place.

Elements of a repeated field are deleted by slices, and nodes are reordered by sorting: neither
copies what stays, so weights are not touched. Lists of names are copied to be gone through, which
is several times quicker than asking the message for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from polygraphy.adapters.onnx_common.messages import (
    captured_by,
    copy_of,
    graphs_of,
    names_in,
    used_by,
    weight_names,
)
from polygraphy.domain.errors import ModelError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

IR_WITHOUT_WEIGHTS_AS_INPUTS = 4
"""The version of the format from which on initialisers need not be inputs as well."""


def producers(graph: GraphProto) -> dict[str, int]:
    """Return the index of the node that makes each tensor.

    Raises:
        ModelError: several nodes make the same: which one is meant?
    """
    made_by = {name: i for i, node in enumerate(graph.node) for name in node.output[:] if name}
    # An empty name that is counted, too, only costs the time to look again.
    if len(made_by) < sum(len(node.output) for node in graph.node):
        _refuse_duplicates(graph)
    return made_by


def _refuse_duplicates(graph: GraphProto) -> None:
    makers: dict[str, NodeProto] = {}
    for node in graph.node:
        for name in filter(None, node.output):
            if name in makers:
                both = " and ".join(
                    f"the {each.op_type} node {each.name!r}" for each in (makers[name], node)
                )
                raise ModelError(f"Tensor {name!r} of graph {graph.name!r} is made by {both}.")
            makers[name] = node


def delete_where(repeated: Any, is_unwanted: Callable[[Any], bool]) -> int:
    """Delete elements of a repeated field, and return how many."""
    unwanted = [index for index, element in enumerate(repeated) if is_unwanted(element)]
    end = len(unwanted)
    while end:
        start = end - 1
        while start and unwanted[start - 1] == unwanted[start] - 1:
            start -= 1
        del repeated[unwanted[start] : unwanted[end - 1] + 1]
        end = start
    return len(unwanted)


def clean_model(model: ModelProto) -> int:
    """Remove what neither an output of the model nor its training depends on; see `clean`."""
    return clean(model.graph, _trained(model))


def _trained(model: ModelProto) -> set[str]:
    """Return the names of what the training of a model computes with and assigns to."""
    names: set[str] = set()
    for training in model.training_info:
        for graph in (training.initialization, training.algorithm):
            names.update(captured_by(graph))
        for binding in (*training.initialization_binding, *training.update_binding):
            names.update((binding.key, binding.value))
    return names


def clean(graph: GraphProto, others: Collection[str] = ()) -> int:
    """Remove what no output depends on: nodes, weights, and what is said about tensors that are
    gone; in sub-graphs, too. Inputs stay.

    Args:
        graph: the graph.
        others: tensors that stay as if they were outputs.

    Returns:
        How many nodes were removed, those inside removed ones not counted.
    """
    nodes = list(graph.node)
    needed, used = behind(graph, {value.name for value in graph.output}.union(others))
    removed = sum(clean(inner) for index in needed for inner in graphs_of(nodes[index]))
    if removed:  # What graphs inside took from here may not be used any more.
        needed, used = behind(graph, {value.name for value in graph.output}.union(others))
    if len(needed) < len(nodes):
        positions = iter(range(len(nodes)))
        removed += delete_where(graph.node, lambda _: next(positions) not in needed)
    drop_unused(graph, used)
    return removed


def needed(graph: GraphProto) -> set[str]:
    """Return the tensors on which outputs of a graph depend, and the outputs."""
    return behind(graph, [value.name for value in graph.output])[1]


def behind(
    graph: GraphProto, names: Iterable[str], ends: Collection[str] = ()
) -> tuple[set[int], set[str]]:
    """Return the nodes on which tensors depend, and the tensors that are used on the way, these
    included.

    Args:
        graph: the graph.
        names: the tensors.
        ends: tensors behind which nothing is looked for.
    """
    made_by, nodes = producers(graph), list(graph.node)
    found: set[int] = set()
    used = set(names)
    pending = [name for name in used if name not in ends]
    while pending:
        index = made_by.get(pending.pop())
        if index is not None and index not in found:
            found.add(index)
            taken = set(used_by(nodes[index])) - used
            used |= taken
            pending += [name for name in taken if name not in ends]
    return found, used


def drop_unused(graph: GraphProto, used: set[str]) -> None:
    """Remove weights that are not in `used`, and what is said about tensors that do not exist.
    Weights that say how a tensor is quantised stay with that.

    A weight that is listed among the inputs, too, as old versions of the format ask for, goes with
    its input, which otherwise would have to be fed.
    """
    made = {name for node in graph.node for name in node.output[:]}
    made.update(value.name for value in graph.input)
    used = used | {
        entry.value
        for annotation in graph.quantization_annotation
        if annotation.tensor_name in made or annotation.tensor_name in used
        for entry in annotation.quant_parameter_tensor_names
    }
    unused = {tensor.name for tensor in graph.initializer if tensor.name not in used}
    delete_where(graph.initializer, lambda tensor: tensor.name in unused)
    delete_where(graph.input, lambda value: value.name in unused)
    delete_where(graph.sparse_initializer, lambda sparse: sparse.values.name not in used)
    known = made - unused | weight_names(graph)
    delete_where(graph.value_info, lambda value: value.name not in known)
    delete_where(graph.quantization_annotation, lambda each: each.tensor_name not in known)


def sort(graph: GraphProto) -> bool:
    """Put nodes behind those that they depend on, and otherwise leave them in their order; in
    sub-graphs, too.

    Returns:
        Whether the order has changed.

    Raises:
        ModelError: nodes depend on each other in a circle, or make the same tensor.
    """
    nodes = list(graph.node)
    changed = sum(sort(inner) for node in nodes for inner in graphs_of(node)) > 0
    made_by = producers(graph)
    consumers: list[list[int]] = [[] for _ in nodes]
    missing = [0] * len(nodes)
    for index, node in enumerate(nodes):
        for producer in {made_by[name] for name in used_by(node) if name in made_by}:
            consumers[producer].append(index)
            missing[index] += 1
    ready = [index for index, count in enumerate(missing) if count == 0]
    heapify(ready)
    ranks: dict[int, int] = {}
    while ready:
        index = heappop(ready)
        ranks[index] = len(ranks)
        for consumer in consumers[index]:
            missing[consumer] -= 1
            if missing[consumer] == 0:
                heappush(ready, consumer)
    if len(ranks) < len(nodes):
        first = next(node for index, node in enumerate(nodes) if index not in ranks)
        raise ModelError(
            f"The nodes of graph {graph.name!r} depend on each other in a circle, in or behind"
            f" which the {first.op_type} node {first.name or first.output[0]!r} is."
        )
    if all(index == rank for index, rank in ranks.items()):
        return changed
    positions = iter(range(len(nodes)))
    graph.node.sort(key=lambda _: ranks[next(positions)])  # Keys are asked for once, in order.
    return True


def is_in_order(graph: GraphProto) -> bool:
    """Return whether no node of a graph, or of those inside it, takes what a later one makes."""
    taken: set[str] = set()
    for node in graph.node:
        if not taken.isdisjoint(node.output[:]):
            return False
        taken.update(node.input[:])
        for inner in graphs_of(node):
            if not is_in_order(inner):
                return False
            taken.update(captured_by(inner))
        taken.discard("")
    return True


def in_order(model: ModelProto) -> ModelProto:
    """Return a model whose nodes are in an order in which they can be computed: converters append
    nodes, which some backends accept. It is a copy where it was not so; raises as `sort` does.
    """
    if is_in_order(model.graph):
        return model
    made = copy_of(model)
    sort(made.graph)
    return made


def taken_names(graph: GraphProto) -> set[str]:
    """Return the names of all tensors and nodes of a graph and of those inside it."""
    names = names_in(graph)
    for node in graph.node:
        names.add(node.name)
        for inner in graphs_of(node):
            names |= taken_names(inner)
    return names


def unused_name(wanted: str, taken: set[str]) -> str:
    """Return a name that starts like `wanted` and is not taken; it is from now on."""
    made, count = wanted, 1
    while made in taken:
        made, count = f"{wanted}_{count}", count + 1
    taken.add(made)
    return made


def rename_uses(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Let every node of a graph, and of those inside it, that takes some tensors take others."""
    for node in graph.node:
        for position, name in enumerate(node.input[:]):
            if name in names:
                node.input[position] = names[name]
        for inner in graphs_of(node):
            own = names_in(inner)
            seen = {name: after for name, after in names.items() if name not in own}
            rename_uses(inner, seen)
            for value in inner.output:
                value.name = seen.get(value.name, value.name)
