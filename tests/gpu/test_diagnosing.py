"""`diagnose --trt --fp16` of networks in which something is beyond what fp16 holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from polygraphy.adapters.tensorrt.library.gpu import has_gpu
from polygraphy.adapters.tensorrt.library.module import is_installed
from tests.gpu.commands import Run, run
from tests.support.networks import encoder, resnet50

__all__ = ["run"]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]


def small_resnet50() -> onnx.ModelProto:
    """Return ResNet-50 for images of 64 x 64: what is built is built quickly."""
    model = resnet50()
    for size in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        size.dim_value = 64
    return model


HOSTS = {
    "encoder": (lambda: encoder(layers=2), "tokens:[2,32]"),
    "resnet50": (small_resnet50, "x:[1,3,64,64]"),
}

# What follows a tensor `t`, as operators, their inputs and outputs: "back" is what its consumers
# read instead. A residual that is scaled beyond fp16; and a spread that nothing but an epsilon
# keeps from being zero.
FAULTS: dict[str, list[tuple[str, list[str], str]]] = {
    "overflow": [
        ("Mul", ["t", "large"], "up"),
        ("Abs", ["up"], "kept"),
        ("Mul", ["kept", "small"], "back"),
    ],
    "epsilon": [
        ("Mul", ["t", "zero"], "nothing"),
        ("Mul", ["nothing", "nothing"], "squared"),
        ("ReduceMean", ["squared"], "variance"),
        ("Add", ["variance", "epsilon"], "kept"),
        ("Sqrt", ["kept"], "spread"),
        ("Div", ["nothing", "spread"], "normalised"),
        ("Add", ["t", "normalised"], "back"),
    ],
}
VALUES = {"large": 1e5, "small": 1e-5, "zero": 0.0, "epsilon": 1e-9}


def planted(model: onnx.ModelProto, fault: str) -> onnx.ModelProto:
    """Return a model with a fault planted after its ninth Add."""
    graph = model.graph
    at = [i for i, node in enumerate(graph.node) if node.op_type == "Add"][8]
    made = graph.node[at].output[0]
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name == made:
                node.input[position] = "back"
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    nodes[at + 1 : at + 1] = [
        helper.make_node(
            operator,
            [made if name == "t" else name for name in inputs],
            [output],
            name=f"planted_{output}",
            **({"axes": [-1], "keepdims": 1} if operator == "ReduceMean" else {}),
        )
        for operator, inputs, output in FAULTS[fault]
    ]
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for _, inputs, _ in FAULTS[fault] for name in inputs}
    for name in used & set(VALUES):
        array = np.array([VALUES[name]], np.float32)
        graph.initializer.append(numpy_helper.from_array(array, name))
    return model


@pytest.mark.parametrize("host", list(HOSTS))
@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_planted_fault_is_named_and_mended(
    run: Run, tmp_path: Path, host: str, fault: str
) -> None:
    build, shapes = HOSTS[host]
    onnx.save(planted(build(), fault), str(tmp_path / "m.onnx"))
    # At a lower optimization level TensorRT 8.6 takes no tactics of fp16, and everything agrees.
    code, said = run(f"diagnose m.onnx --trt --fp16 --input-shapes {shapes} --format json")
    document = json.JSONDecoder().raw_decode(said[said.index("{") :])[0]
    assert (code, document["verdict"]) == (1, "fault")
    assert all(one["remedy"]["proven"] for one in document["culprits"])
    named = {node for one in document["culprits"] for node in one["nodes"]}
    assert named & {f"planted_{output}" for _, _, output in FAULTS[fault]}
    causes = {one["cause"] for one in document["culprits"]}
    assert causes <= ({"epsilon", "underflow", "nan"} if fault == "epsilon" else {"overflow"})
