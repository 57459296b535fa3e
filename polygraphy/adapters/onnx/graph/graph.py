"""Walking and trimming the graph of an ONNX model in place.

Elements of a repeated field are deleted by slices, and nodes are reordered by sorting: neither
copies the remaining elements, so weights are not touched. Lists of names are copied before
iterating, which is several times faster than reading them from the message.

The weights of an ONNX graph: initializers, and the values of Constant nodes.

Exporters write either, with the same result, so all code finds weights through this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.element_types import domain_of
from polygraphy.adapters.onnx_common.messages import (
    copy_of,
    graphs_of,
    outer_names,
    tensor_names,
    tensors_read,
    weight_names,
)
from polygraphy.domain.checks.order import FUNCTION, MisplacedNode
from polygraphy.domain.errors import ModelError

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto


IR_WITHOUT_WEIGHTS_AS_INPUTS = 4
"""The first version of the format in which initializers need not be inputs."""


def producers(graph: GraphProto | FunctionProto) -> dict[str, int]:
    """Return the index of the node that computes each tensor, by name.

    Raises:
        ModelError: several nodes compute the same tensor.
    """
    makers = {name: i for i, node in enumerate(graph.node) for name in node.output[:] if name}
    # Empty names of omitted outputs only cause an unnecessary check.
    if len(makers) < sum(len(node.output) for node in graph.node):
        _refuse_duplicates(graph)
    return makers


def _refuse_duplicates(graph: GraphProto | FunctionProto) -> None:
    """Raise ModelError if two nodes compute the same tensor."""
    makers: dict[str, NodeProto] = {}
    for node in graph.node:
        for name in filter(None, node.output):
            if name in makers:
                both_text = " and ".join(
                    f"the {maker.op_type} node {maker.name!r}" for maker in (makers[name], node)
                )
                raise ModelError(
                    f"Tensor {name!r} of graph {graph.name!r} is computed twice: by {both_text}."
                )
            makers[name] = node


def delete_where(repeated: Any, is_unwanted: Callable[[Any], bool]) -> int:
    """Delete elements of a repeated field, and return their number."""
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
    """Remove what no output or training needs, and return the number of removed nodes;
    see `clean`.
    """
    return clean(model.graph, training_tensors(model))


def training_tensors(model: ModelProto) -> set[str]:
    """Return the names of the tensors that the training of a model reads and assigns."""
    names: set[str] = set()
    for training in model.training_info:
        for graph in (training.initialization, training.algorithm):
            names.update(outer_names(graph))
        for binding in (*training.initialization_binding, *training.update_binding):
            names.update((binding.key, binding.value))
    return names


def clean(graph: GraphProto, other_names: Collection[str] = ()) -> int:
    """Remove everything that no output depends on (nodes, weights, declarations),
    including in subgraphs, and return the number of removed nodes. Inputs are kept.

    Args:
        graph: the graph.
        other_names: additional tensors to keep, like outputs.

    Returns:
        The number of removed nodes, not counting nodes inside removed ones.
    """
    nodes = list(graph.node)
    needed, used = dependencies_of(graph, {value.name for value in graph.output}.union(other_names))
    removed = sum(clean(inner) for index in needed for inner in graphs_of(nodes[index]))
    if removed:  # Subgraphs were removed, so the tensors that they read may be unused now.
        needed, used = dependencies_of(
            graph, {value.name for value in graph.output}.union(other_names)
        )
    if len(needed) < len(nodes):
        positions = iter(range(len(nodes)))
        removed += delete_where(graph.node, lambda _: next(positions) not in needed)
    drop_unused(graph, used)
    return removed


def required_tensors(graph: GraphProto) -> set[str]:
    """Return the outputs of a graph, and all tensors that they depend on."""
    return dependencies_of(graph, [value.name for value in graph.output])[1]


def dependencies_of(
    graph: GraphProto, names: Iterable[str], ends: Collection[str] = ()
) -> tuple[set[int], set[str]]:
    """Return the indices of the nodes that tensors depend on, and all tensor names on the way.

    The names include the given ones.

    Args:
        graph: the graph.
        names: the tensors.
        ends: tensors at which the search stops.
    """
    makers, nodes = producers(graph), list(graph.node)
    positions: set[int] = set()
    used = set(names)
    pending = [name for name in used if name not in ends]
    while pending:
        index = makers.get(pending.pop())
        if index is not None and index not in positions:
            positions.add(index)
            used_names = set(tensors_read(nodes[index])) - used
            used |= used_names
            pending += [name for name in used_names if name not in ends]
    return positions, used


def drop_unused(graph: GraphProto, used: set[str]) -> None:
    """Remove weights that are not in `used`, and declarations of tensors that do not exist.
    Quantization parameters stay with their tensor.

    A weight that is also listed among the inputs, as old versions of the format require, is removed
    with its input, which would otherwise need data.
    """
    names = {name for node in graph.node for name in node.output[:]}
    names.update(value.name for value in graph.input)
    used = used | {
        entry.value
        for annotation in graph.quantization_annotation
        if annotation.tensor_name in names or annotation.tensor_name in used
        for entry in annotation.quant_parameter_tensor_names
    }
    unused = {tensor.name for tensor in graph.initializer if tensor.name not in used}
    delete_where(graph.initializer, lambda tensor: tensor.name in unused)
    delete_where(graph.input, lambda value: value.name in unused)
    delete_where(graph.sparse_initializer, lambda sparse: sparse.values.name not in used)
    needed_names = names - unused | weight_names(graph)
    delete_where(graph.value_info, lambda value: value.name not in needed_names)
    delete_where(graph.quantization_annotation, lambda value: value.tensor_name not in needed_names)


def sort(graph: GraphProto | FunctionProto) -> bool:
    """Sort nodes after those that they depend on, including in subgraphs, in an otherwise stable
    order. Return whether the order changed.

    Returns:
        Whether the order has changed.

    Raises:
        ModelError: nodes depend on each other in a cycle, or compute the same tensor.
    """
    nodes = list(graph.node)
    inner_graphs = [graphs_of(node) for node in nodes]
    changed = sum(sort(inner) for graphs in inner_graphs for inner in graphs) > 0
    makers = producers(graph)
    consumers: list[list[int]] = [[] for _ in nodes]
    missing = [0] * len(nodes)
    for index, node in enumerate(nodes):
        read = tensors_read(node, inner_graphs[index])
        for producer in {makers[name] for name in read if name in makers}:
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
            f"The nodes of graph {graph.name!r} form a cycle at or before the {first.op_type}"
            f" node {first.name or first.output[0]!r}."
        )
    if all(index == rank for index, rank in ranks.items()):
        return changed
    positions = iter(range(len(nodes)))
    # `sort` calls the key function once for each node, in order.
    graph.node.sort(key=lambda _: ranks[next(positions)])
    return True


def is_in_order(graph: GraphProto | FunctionProto) -> bool:
    """Return whether no node of a graph or its subgraphs reads a tensor that a later node
    computes."""
    used_names: set[str] = set()
    for node in graph.node:
        if not used_names.isdisjoint(node.output[:]):
            return False
        used_names.update(node.input[:])
        for inner in graphs_of(node):
            if not is_in_order(inner):
                return False
            used_names.update(outer_names(inner))
        used_names.discard("")
    return True


def sort_model(model: ModelProto) -> ModelProto:
    """Return a model whose nodes are in execution order: a copy if the order changed.
    Converters append nodes, which some backends accept.
    """
    if all(map(is_in_order, _graphs(model))):
        return model
    new_model = copy_of(model)
    sort_nodes_of(new_model)
    return new_model


def sort_nodes_of(model: ModelProto) -> bool:
    """Sort the nodes of a model and of its functions, and return whether the order changed; see
    `sort`."""
    return sum(sort(graph) for graph in _graphs(model)) > 0


def find_misplaced_node(model: ModelProto) -> MisplacedNode | None:
    """Return the first node that reads a tensor before another node computes it; None if nodes are
    in order."""
    owners = [("", ""), *((FUNCTION, function.name) for function in model.functions)]
    for graph, owner in zip(_graphs(model), owners):
        if found := _misplaced_node(model, graph, owner):
            return found
    return None


def _misplaced_node(
    model: ModelProto, graph: GraphProto | FunctionProto, owner: tuple[str, str]
) -> MisplacedNode | None:
    """Return the first such node of a graph, which belongs to an operator and a label or name."""
    later = {name for node in graph.node for name in node.output[:] if name}
    for node in graph.node:
        label = node.name or next(iter(node.output), "")
        read = list(node.input)
        for inner in graphs_of(node):
            if found := _misplaced_node(model, inner, (node.op_type, label)):
                return found
            read += outer_names(inner)
        if early := next((name for name in read if name in later), None):
            return MisplacedNode(label, node.op_type, early, *owner, model)
        later.difference_update(node.output)
    return None


def _graphs(model: ModelProto) -> list[GraphProto | FunctionProto]:
    """Return the main graph of a model, and its functions."""
    return [model.graph, *model.functions]


def names_in_use(graph: GraphProto) -> set[str]:
    """Return the names of all tensors and nodes of a graph and its subgraphs."""
    names = tensor_names(graph)
    for node in graph.node:
        names.add(node.name)
        for inner in graphs_of(node):
            names |= names_in_use(inner)
    return names


def unique_name(wanted: str, used_names: set[str]) -> str:
    """Return an unused name that starts like `wanted`, and add it to `used_names`."""
    text, count = wanted, 1
    while text in used_names:
        text, count = f"{wanted}_{count}", count + 1
    used_names.add(text)
    return text


def rename_uses(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Replace names of input tensors in all nodes of a graph and its subgraphs."""
    for node in graph.node:
        for position, name in enumerate(node.input[:]):
            if name in names:
                node.input[position] = names[name]
        for inner in graphs_of(node):
            own_names = tensor_names(inner)
            afters = {name: after for name, after in names.items() if name not in own_names}
            rename_uses(inner, afters)
            for value in inner.output:
                value.name = afters.get(value.name, value.name)


onnx = mod.lazy_import("onnx")

_NUMBERS = {
    "value_float": ("FLOAT", "f"),
    "value_floats": ("FLOAT", "floats"),
    "value_int": ("INT64", "i"),
    "value_ints": ("INT64", "ints"),
    "value_string": ("STRING", "s"),
    "value_strings": ("STRING", "strings"),
}
"""Attributes with a constant: its type, and its field."""


def is_constant(node: NodeProto) -> bool:
    """Return whether a node is a Constant of the standard."""
    return node.op_type == "Constant" and not domain_of(node.domain)


def constant_tensor(node: NodeProto, *, in_place: bool = False) -> TensorProto | None:
    """Return the value of a Constant node; None if it is sparse or set by a caller.

    Args:
        node: a node for which `is_constant` holds.
        in_place: whether numbers in the node are replaced by a tensor, so that changes of the
            returned tensor change the node.
    """
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            return None
        if attribute.name == "value":
            tensor: TensorProto = attribute.t
            return tensor
        numbers = _from_numbers(attribute)
        if numbers is not None:
            if not in_place:
                return numbers
            del node.attribute[:]
            tensor_field: TensorProto = node.attribute.add(
                name="value", type=onnx.AttributeProto.TENSOR
            ).t
            tensor_field.CopyFrom(numbers)
            return tensor_field
    return None


def _from_numbers(attribute: AttributeProto) -> TensorProto | None:
    """Return the tensor of an attribute such as ``value_ints``; None for other attributes."""
    if attribute.name not in _NUMBERS:
        return None
    number, field = _NUMBERS[attribute.name]
    is_list = field.endswith("s") and len(field) > 1
    elements = list(getattr(attribute, field)) if is_list else [getattr(attribute, field)]
    dims = [len(elements)] if is_list else []
    tensor: TensorProto = onnx.helper.make_tensor(
        "", onnx.TensorProto.DataType.Value(number), dims, elements
    )
    return tensor


def constants_of(
    nodes: Iterable[NodeProto], changed: Collection[str] = ()
) -> dict[str, TensorProto]:
    """Return the values of the Constant nodes among some nodes, by the names of their results.

    Args:
        nodes: the nodes.
        changed: the nodes whose tensors will be changed; see `constant_tensor`.
    """
    tensors: dict[str, TensorProto] = {}
    for node in nodes:
        if is_constant(node) and len(node.output) == 1:
            tensor = constant_tensor(node, in_place=node.output[0] in changed)
            if tensor is not None:
                tensors[node.output[0]] = tensor
    return tensors


def graph_weights(
    graph: GraphProto, changed: Collection[str] | None = None
) -> dict[str, TensorProto]:
    """Return the dense weights of a graph by name, not those of its subgraphs.
    A tensor in a Constant node has a different name than the weight.

    Args:
        graph: the graph.
        changed: the weights to return, whose tensors may be changed (default: all weights, for
            reading only).
    """
    constants = constants_of(graph.node, changed or ())
    constants.update((tensor.name, tensor) for tensor in graph.initializer)
    if changed is None:
        return constants
    return {name: tensor for name, tensor in constants.items() if name in changed}


def add_weight(
    model: ModelProto, tensor: TensorProto, name: str, graph: GraphProto | None = None
) -> TensorProto:
    """Add a copy of a tensor to the weights of a graph (default: that of the model), and to its
    inputs if the version of the format requires it; return the copy.
    """
    graph = model.graph if graph is None else graph
    weight: TensorProto = graph.initializer.add()
    weight.CopyFrom(tensor)
    weight.name = name
    declare_weights(model, graph)
    return weight


def declare_weights(model: ModelProto, graph: GraphProto | None = None) -> bool:
    """List all weights of a graph (default: that of the model) as inputs if the version of the
    format requires it; return whether some were missing.
    """
    graph = model.graph if graph is None else graph
    if model.ir_version >= IR_WITHOUT_WEIGHTS_AS_INPUTS:
        return False
    names = {value.name for value in graph.input}
    missing = [tensor for tensor in graph.initializer if tensor.name not in names]
    graph.input.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        for tensor in missing
    )
    return bool(missing)


def to_initializers(model: ModelProto, graph: GraphProto, names: Collection[str]) -> None:
    """Convert the Constant nodes of some weights to initializers,
    which can be stored in files or stripped.

    Before version 4 of the format, subgraphs cannot have initializers: their Constant nodes stay.
    """
    is_old = model.ir_version < IR_WITHOUT_WEIGHTS_AS_INPUTS
    if is_old and graph is not model.graph:
        return
    tensors = {name: tensor for name, tensor in constants_of(graph.node).items() if name in names}
    for name, tensor in tensors.items():
        add_weight(model, tensor, name, graph)
    delete_where(graph.node, lambda node: is_constant(node) and node.output[0] in tensors)
