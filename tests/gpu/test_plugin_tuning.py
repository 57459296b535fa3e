"""`plugin autotune` with a plugin that comes with TensorRT."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from polygraphy.backend.onnx import OnnxFromPath
from polygraphy.backend.trt import CreateConfig, EngineFromNetwork, NetworkFromOnnxModel, TrtRunner
from polygraphy.plugin import (
    PluginMatch,
    ReplacePlugins,
    autotune_plugins,
    match_plugins,
    replace_plugins,
)
from tests.gpu.commands import Run, run

pytest.importorskip("onnx_graphsurgeon")

__all__ = ["run"]  # The fixture that is used here.

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]

PLUGIN = "CustomGeluPluginDynamic"
PATTERN = """
import numpy as np


def get_matching_subgraphs(graph):
    return [
        {{"inputs": [node.inputs[0].name], "outputs": ["{output}"],
          "attributes": {{"type_id": np.int32(0)}}}}
        for node in graph.nodes
        if node.name == "{first}"
    ]


def get_plugin_metadata():
    return {{"name": "{name}", "op": "CustomGeluPluginDynamic"}}
"""


def model() -> onnx.ModelProto:
    """Return x [64, 256] -> y: a GELU of eight nodes, then a ReLU."""
    constants = {"c0": 0.044715, "c1": (2 / np.pi) ** 0.5, "one": 1.0, "half": 0.5}
    steps = [
        ("Mul", "x", "x", "square"),
        ("Mul", "square", "x", "cube"),
        ("Mul", "cube", "c0", "small"),
        ("Add", "x", "small", "inner"),
        ("Mul", "inner", "c1", "scaled"),
        ("Tanh", "scaled", "", "tanh"),
        ("Add", "tanh", "one", "shifted"),
        ("Mul", "x", "half", "halved"),
        ("Mul", "halved", "shifted", "gelu"),
        ("Relu", "gelu", "", "y"),
    ]
    nodes = [
        helper.make_node(op, [name for name in (left, right) if name], [output], name=output)
        for op, left, right, output in steps
    ]
    shape = [64, 256]
    graph = helper.make_graph(
        nodes,
        "gelu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.float32(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def plugins(tmp_path: Path) -> str:
    """Return a folder of two plugins: for the whole GELU, for which the plugin is; and for the
    ReLU, for which it is not.
    """
    onnx.save(model(), tmp_path / "model.onnx")
    for name, first, output in (("right", "square", "gelu"), ("wrong", "y", "y")):
        folder = tmp_path / "plugins" / name
        folder.mkdir(parents=True)
        text = PATTERN.format(name=name, first=first, output=output)
        (folder / "pattern.py").write_text(text)
    return str(tmp_path / "plugins")


@pytest.mark.parametrize("mode", ["greedy", "exhaustive"])
def test_a_plugin_is_kept_only_if_it_computes_the_same(
    mode: str, plugins: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "model.onnx")

    def make_runner(chosen: Sequence[PluginMatch]) -> TrtRunner:
        # Plugins ask for cuBLAS and cuDNN, which need not be there, unless these are left out.
        replaced = ReplacePlugins(OnnxFromPath(path), plugins, chosen)
        config = CreateConfig(tactic_sources=[])
        return TrtRunner(
            EngineFromNetwork(NetworkFromOnnxModel(replaced), config), device_times=True
        )

    matches = match_plugins(OnnxFromPath(path), plugins)
    assert [match.name for match in matches] == ["right", "wrong"]
    chosen = autotune_plugins(make_runner, matches, mode=mode, threshold=1.0)
    said = capsys.readouterr()
    print(said.out)
    assert "wrong: output 'y' differs; skipped" in said.out + said.err
    assert "right: Latency: " in said.out + said.err
    assert "Baseline performance: Latency: " in said.out
    assert {match.name for match in chosen} <= {"right"}
    ops = {node.op_type for node in replace_plugins(OnnxFromPath(path), plugins, chosen).graph.node}
    assert "Relu" in ops
    assert (PLUGIN in ops) is bool(chosen)


def test_a_command_tunes_a_model_that_runs(plugins: str, run: Run) -> None:
    code, said = run(
        "plugin autotune model.onnx --plugin-dir plugins -o tuned.onnx --report report.json"
        " --timing-cache t.cache --tactic-sources"
    )
    print(said)
    assert code == 0
    assert "right: Latency: " in said
    assert "Plugin Autotuning Report" in said
    assert "wrong (" not in said
    code, said = run("run tuned.onnx --trt --validate --tactic-sources")
    assert code == 0, said
