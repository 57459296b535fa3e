"""`diagnose --trt --fp16` of networks in which something is beyond what fp16 holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
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
# read instead. What is scaled beyond fp16; and rows of zeros that nothing but an epsilon keeps from
# being divided by zero. TensorRT 8.6 computes operators in float32 that it fuses, so there has to
# be something between that it stores: in ResNet-50 a sum after the epsilon, and a Conv before what
# is scaled back.
ZEROS = [("Sub", ["t", "lots"], "low"), ("Relu", ["low"], "nothing")]
FAULTS: dict[str, list[tuple[str, list[str], str]]] = {
    "encoder overflow": [
        ("Mul", ["t", "large"], "up"),
        ("Abs", ["up"], "kept"),
        ("Mul", ["kept", "small"], "back"),
    ],
    "resnet50 overflow": [
        ("Relu", ["t"], "kept"),
        ("Mul", ["kept", "small"], "back"),
    ],
    "encoder epsilon": [
        *ZEROS,
        ("ReduceSum", ["nothing"], "total"),
        ("Add", ["total", "epsilon"], "kept"),
        ("Div", ["nothing", "kept"], "normalized"),
        ("Add", ["t", "normalized"], "back"),
    ],
    "resnet50 epsilon": [
        *ZEROS,
        ("Mul", ["nothing", "nothing"], "squared"),
        ("Add", ["squared", "epsilon"], "kept"),
        ("ReduceMean", ["kept"], "variance"),
        ("Sqrt", ["variance"], "spread"),
        ("Div", ["nothing", "spread"], "normalized"),
        ("Add", ["t", "normalized"], "back"),
    ],
}
VALUES = {"large": 3e4, "small": 1 / 3e4, "lots": 1e3, "epsilon": 1e-9}
CULPRITS = {"overflow": ("planted_up", "batchnormalization_40"), "epsilon": ("planted_kept",)}


def planted(model: onnx.ModelProto, fault: str) -> onnx.ModelProto:
    """Return a model with a fault planted after its ninth Add, or after a norm of a Conv that is
    scaled.
    """
    graph = model.graph
    if fault == "resnet50 overflow":
        at = [node.output[0] for node in graph.node].index("batchnormalization_40")
        for weight in graph.initializer:
            if weight.name in graph.node[at].input[1:3]:
                scaled = numpy_helper.to_array(weight) * np.float32(VALUES["large"])
                weight.CopyFrom(numpy_helper.from_array(scaled, weight.name))
    else:
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
            **({"axes": [-1]} if operator == "ReduceMean" else {}),
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


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_planted_fault_is_named_and_mended(run: Run, tmp_path: Path, fault: str) -> None:
    host, cause = fault.split()
    build, shapes = HOSTS[host]
    onnx.save(planted(build(), fault), str(tmp_path / "m.onnx"))
    # At optimization level 0 TensorRT 8.6 takes no tactics of fp16, and everything agrees.
    code, said = run(f"diagnose m.onnx --trt --fp16 --input-shapes {shapes} --format json")
    document = json.JSONDecoder().raw_decode(said[said.index("{") :])[0]
    assert (code, document["verdict"]) == (1, "fault"), said
    [culprit] = document["culprits"]
    assert set(culprit["nodes"]) <= set(CULPRITS[cause]), said
    assert culprit["cause"] == cause
    assert culprit["remedy"]["proven"]
    # Later builds are quiet: what TensorRT says of them, it said of the first.
    assert said.count("Finished engine building") == 1, said
