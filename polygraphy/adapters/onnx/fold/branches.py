"""Puts the branch that is taken in place of an If node whose condition is a constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import rename_uses, unused_name

if TYPE_CHECKING:
    from onnx import GraphProto


onnx = mod.lazy_import("onnx")


def open_branch(
    graph: GraphProto,
    branch: GraphProto,
    outputs: Sequence[str],
    taken: set[str],
    called: set[str],
) -> dict[str, str]:
    """Add the nodes of a branch to those of the graph around its If node, under names that fit, and
    take its weights over.

    Args:
        graph: the graph around.
        branch: the branch, which is changed.
        outputs: the tensors that the If node makes.
        taken: the names that are taken in the graph; those of the branch are added.
        called: the names of its nodes; those of the branch are added.

    Returns:
        The names of the tensors of the branch by those that they had there.
    """
    results = [value.name for value in branch.output]
    makers = {name for node in branch.node for name in node.output if name}
    final = {}
    for result, output in zip(results, outputs):
        if output and result in makers and result not in final:
            final[result] = output
    names: dict[str, str] = {}
    for name in makers:
        names[name] = final.get(name) or unused_name(f"{name}_inlined", taken)
    weights = [*branch.initializer, *(sparse.values for sparse in branch.sparse_initializer)]
    for tensor in weights:
        names[tensor.name] = unused_name(f"{tensor.name}_inlined", taken)
    rename_uses(branch, names)
    for node in branch.node:
        if node.name:  # Exporters number the nodes of each graph.
            node.name = unused_name(node.name, called)
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
    graph.node.extend([*branch.node, *passed])
    return names
