"""A decoder with two branches as two files: one for the prompt, and one for each later step."""

from __future__ import annotations

import onnx
from onnx import helper

from .decoders import decoder
from .specs import Spec


def split(spec: Spec, fault: str = "") -> tuple[onnx.ModelProto, onnx.ModelProto, set[str]]:
    """Return the model of later steps, that of the first step, and the nodes and tensors that may be
    named for a fault. The keys and values of an encoder are outputs of the first alone.
    """
    whole, wrong = decoder(spec, fault)
    [node] = (each for each in whole.graph.node if each.op_type == "If")
    branches = {each.name: each.g for each in node.attribute}
    main = _model(whole, branches["then_branch"], [*node.output], has_past=True)
    first = _model(whole, branches["else_branch"], [*node.output], has_past=False)
    return main, first, wrong


def _model(
    whole: onnx.ModelProto, branch: onnx.GraphProto, names: list[str], *, has_past: bool
) -> onnx.ModelProto:
    read = {name for node in branch.node for name in node.input}
    read |= {each.name for each in branch.output}
    inputs = [
        each
        for each in whole.graph.input
        if each.name in read and (has_past or not each.name.startswith("past"))
    ]
    types = {each.name: each for each in whole.graph.output}
    nodes, outputs = [*branch.node], []
    for result, name in zip(branch.output, names):
        if has_past and "encoder" in name:
            continue
        nodes.append(helper.make_node("Identity", [result.name], [name], name=f"n_{name}"))
        outputs.append(types[name])
    weights = [each for each in whole.graph.initializer if each.name in read]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=whole.opset_import, ir_version=10)
    onnx.checker.check_model(model)
    return model
