"""A decoder with two branches as two files: one for the prompt, and one for each later step."""

from __future__ import annotations

import onnx
from onnx import helper

from .decoders import decoder
from .specs import Spec


def split(spec: Spec, fault: str = "") -> tuple[onnx.ModelProto, onnx.ModelProto, set[str]]:
    """Return the models of later steps and of the first, and the names that may be faulty.

    The names are those of nodes and tensors.
    """
    model, wrong = decoder(spec, fault)
    [node] = (node for node in model.graph.node if node.op_type == "If")
    branches = {attribute.name: attribute.g for attribute in node.attribute}
    main = _model(model, branches["then_branch"], [*node.output], has_past=True)
    first = _model(model, branches["else_branch"], [*node.output], has_past=False)
    return main, first, wrong


def _model(
    full_model: onnx.ModelProto, branch: onnx.GraphProto, names: list[str], *, has_past: bool
) -> onnx.ModelProto:
    """Return the model of one branch, with the inputs and weights that it reads."""
    read = {name for node in branch.node for name in node.input}
    read |= {output.name for output in branch.output}
    inputs = [
        value
        for value in full_model.graph.input
        if value.name in read and (has_past or not value.name.startswith("past"))
    ]
    types = {value.name: value for value in full_model.graph.output}
    nodes, outputs = [*branch.node], []
    for result, name in zip(branch.output, names):
        if has_past and "encoder" in name:
            continue
        nodes.append(helper.make_node("Identity", [result.name], [name], name=f"n_{name}"))
        outputs.append(types[name])
    weights = [weight for weight in full_model.graph.initializer if weight.name in read]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=full_model.opset_import, ir_version=10)
    onnx.checker.check_model(model)
    return model
