"""`diagnose --trt --fp16` of an encoder whose residual is scaled beyond fp16 and back."""

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
from tests.support.networks import encoder

__all__ = ["run"]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]


def test_a_planted_overflow_is_mended(run: Run, tmp_path: Path) -> None:
    model = encoder(layers=2)
    at = [i for i, node in enumerate(model.graph.node) if node.op_type == "Add"][8]
    made = model.graph.node[at].output[0]
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            if name == made:
                node.input[position] = "back"
    for name, factor in (("large", 1e5), ("small", 1e-5)):
        array = np.array([factor], np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    nodes = list(model.graph.node)
    nodes[at + 1 : at + 1] = [
        helper.make_node("Mul", [made, "large"], ["up"], name="planted_large"),
        helper.make_node("Abs", ["up"], ["kept"], name="planted_abs"),
        helper.make_node("Mul", ["kept", "small"], ["back"], name="planted_back"),
    ]
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, str(tmp_path / "m.onnx"))
    code, said = run("diagnose m.onnx --trt --fp16 --input-shapes tokens:[2,32] --format json")
    document = json.JSONDecoder().raw_decode(said[said.index("{") :])[0]
    assert (code, document["verdict"]) == (1, "fault")
    assert all(one["remedy"]["proven"] for one in document["culprits"])
