"""Puts the branch that is taken in the place of an If node whose condition is a constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.graph.element_types import domain_of
from polygraphy.adapters.onnx.graph.graph import taken_names, unused_name
from polygraphy.adapters.onnx.graph.renaming import rename_uses

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


onnx = mod.lazy_import("onnx")


def inline_taken_branches(graph: GraphProto, condition: Callable[[str], bool | None]) -> int:
    """Replace the If nodes of a graph whose branch is known.

    Args:
        graph: the graph, changed in place; its weights come to hold those of the branches.
        condition: returns the value of a constant, None for what is none.

    Returns:
        How many were replaced.
    """
    taken: set[str] = set()
    replaced: dict[int, list[NodeProto]] = {}
    for index, node in enumerate(graph.node):
        if node.op_type != "If" or domain_of(node.domain):
            continue
        chosen = condition(node.input[0])
        if chosen is None:
            continue
        taken = taken or taken_names(graph)
        wanted = "then_branch" if chosen else "else_branch"
        branch = next(each.g for each in node.attribute if each.name == wanted)
        replaced[index] = _opened(graph, branch, list(node.output), taken)
    if replaced:
        nodes = [
            made for index, node in enumerate(graph.node) for made in replaced.get(index, [node])
        ]
        copies = [_copied(node) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)
    return len(replaced)


def _opened(
    graph: GraphProto, branch: GraphProto, outputs: list[str], taken: set[str]
) -> list[NodeProto]:
    """Return the nodes of a branch under names that fit the graph around it, and take its weights
    over.
    """
    results = [value.name for value in branch.output]
    makers = {name for node in branch.node for name in node.output if name}
    final = {}
    for result, output in zip(results, outputs):
        if output and result in makers and result not in final:
            final[result] = output
    names = {}
    for name in makers:
        names[name] = final.get(name) or unused_name(f"{name}_inlined", taken)
    weights = [*branch.initializer, *(sparse.values for sparse in branch.sparse_initializer)]
    for tensor in weights:
        names[tensor.name] = unused_name(f"{tensor.name}_inlined", taken)
    rename_uses(branch, names)
    for node in branch.node:
        for position, name in enumerate(node.output):
            node.output[position] = names.get(name, name)
    for tensor in weights:
        tensor.name = names[tensor.name]
    for value in branch.value_info:
        if value.name in names:
            value.name = names[value.name]
    for annotation in branch.quantization_annotation:
        annotation.tensor_name = names.get(annotation.tensor_name, annotation.tensor_name)
        for entry in annotation.quant_parameter_tensor_names:
            entry.value = names.get(entry.value, entry.value)
    graph.initializer.extend(branch.initializer)
    graph.sparse_initializer.extend(branch.sparse_initializer)
    graph.quantization_annotation.extend(branch.quantization_annotation)
    graph.value_info.extend(value for value in branch.value_info if value.name not in outputs)
    passed = [
        onnx.helper.make_node("Identity", [names.get(result, result)], [output])
        for result, output in zip(results, outputs)
        if output and names.get(result) != output
    ]
    return [*branch.node, *passed]


def _copied(node: NodeProto) -> NodeProto:
    copied: NodeProto = onnx.NodeProto()
    copied.CopyFrom(node)
    return copied
