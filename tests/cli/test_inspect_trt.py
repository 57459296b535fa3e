"""What may be said about networks and engines that `inspect model` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from polygraphy.adapters.report.session import ReportsRecorder
from polygraphy.adapters.tensorrt.network.network import layers_of
from polygraphy.backend.trt import ModifyNetworkOutputs, NetworkFromOnnxPath
from polygraphy.binding import bind
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.domain.errors import UsageError
from polygraphy.domain.report.document import Recorder
from polygraphy.inspect import inspect_model
from polygraphy.ports.models import ModelReports
from tests.codegen.commands import rendered
from tests.support import models
from tests.support.calls import holds_call
from tests.support.engines import identity, trt
from tests.support.fake_tensorrt import FakeTensorRT
from tests.support.rtx import rtx

__all__ = ["rtx", "trt"]

_NETWORK = "inspect model m.onnx --convert-to trt"
FLAGS = {
    f"{_NETWORK} --plugins a.so": "LoadPlugins(plugins=['a.so'], obj=NetworkFromOnnxPath(MODEL))",
    f"{_NETWORK} --trt-outputs a": "ModifyNetworkOutputs(parse_network, outputs=['a'])",
    f"{_NETWORK} --trt-npps p.py": (
        "PostprocessNetwork(parse_network, func=InvokeFromScript('p.py', name='postprocess'))"
    ),
    f"{_NETWORK} --plugin-instancenorm": "NetworkFromOnnxPath(MODEL, plugin_instancenorm=True)",
    f"{_NETWORK} --tensor-dtypes x:fp16": (
        "SetTensorDatatypes(parse_network, tensor_datatypes={'x': 'float16'})"
    ),
    f"{_NETWORK} --mark-debug a --show layers": "inspect_model(load_network, show=['layers'])",
    f"{_NETWORK} --layer-precisions a:fp16": (
        "SetLayerPrecisions(parse_network, layer_precisions={'a': 'float16'})"
    ),
    f"{_NETWORK} --strongly-typed": "NetworkFromOnnxPath(MODEL, strongly_typed=True)",
    "inspect model n.py:make --decomposable-attentions": "InvokeFromScript(MODEL, name='make')",
    "inspect model n.py --trt-network-func make --mark-debug a": (
        "InvokeFromScript(MODEL, name='make')"
    ),
    "inspect model e.plan --load-runtime l.so": (
        "inspect_model(EngineFromPath(MODEL, runtime=LoadRuntime('l.so')))"
    ),
    "inspect model e.plan --dla-workspace-allocation-strategy shared_static": (
        "EngineFromPath(MODEL, dla_workspace_allocation_strategy='shared_static')"
    ),
    "inspect model e.bin --model-type engine --plugins a.so": (
        "LoadPlugins(plugins=['a.so'], obj=EngineFromPath(MODEL))"
    ),
    "inspect model n.py --trt-network-func make": "inspect_model('n.py', network_func='make')",
}


@pytest.mark.parametrize("command", FLAGS)
def test_each_flag_reaches_the_program(command: str) -> None:
    assert holds_call(rendered(command), FLAGS[command])


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("inspect model m.onnx --trt-outputs a", "Add --convert-to trt"),
        ("inspect model a.plan b.plan --plugins a.so", "requires a single model, but there are 2"),
        (f"{_NETWORK} --trt-outputs a --save-visual p.html", "Remove --visual"),
    ],
)
def test_what_cannot_be_meant(command: str, reason: str) -> None:
    with pytest.raises(CommandLineError, match=reason):
        rendered(command)


@pytest.mark.parametrize(
    ("command", "warning"),
    [
        ("inspect model a.plan --plugins a.so --trt-outputs a", "--trt-outputs: has no effect"),
        ("inspect model a.plan --strongly-typed", "--strongly-typed: has no effect"),
        (f"{_NETWORK} --load-runtime l.so", "--load-runtime: has no effect"),
    ],
)
def test_what_has_no_effect(command: str, warning: str, capsys: pytest.CaptureFixture[str]) -> None:
    rendered(command)
    assert warning in capsys.readouterr().err


def test_a_network_that_a_loader_makes_is_shown(
    rtx: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models.save(models.mlp(), tmp_path / "mlp.onnx")
    load = NetworkFromOnnxPath(str(tmp_path / "mlp.onnx"))
    parts = load()
    count = len(layers_of(parts[1]))
    inspect_model(ModifyNetworkOutputs(load, outputs=["h_relu"]), show=["layers"])
    shown = capsys.readouterr().out
    assert f"{count} Layer(s)" in shown
    assert "h_relu" in shown.partition("Layer(s)")[0]
    inspect_model(parts)
    assert f"{count} Layer(s)" in capsys.readouterr().out
    with pytest.raises(UsageError, match="What was loaded: data-dependent shapes"):
        inspect_model(parts, stats=True, list_unbounded_dds=True)


def test_statistics_of_a_network(
    rtx: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models.save(models.mlp(), tmp_path / "mlp.onnx")
    models.save(models.conv_net(), tmp_path / "conv.onnx")
    inspect_model(str(tmp_path / "mlp.onnx"), display_as="trt", stats=True)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    count = sum(weight.size for weight in _weights(models.mlp()))
    assert f"Parameters    | {count} ({4 * count} bytes)" in lines
    assert "Not Counted   | x, y, of unknown size" in lines
    assert [line.split()[-1] for line in lines if line.startswith("ActivationType.RELU")] == ["1"]
    assert not any(line.startswith("Layer 0") for line in lines)  # They were not asked for.
    recorder = Recorder()
    with bind(ModelReports, ReportsRecorder(recorder)):
        inspect_model(str(tmp_path / "conv.onnx"), display_as="trt", stats=True)
    shown, found = (result for result in recorder.results)
    assert shown["model"]["layers"] == []
    count = sum(weight.size for weight in _weights(models.conv_net()))
    assert count <= found["statistics"]["parameters"] < count + 8  # The parser adds a shape.
    assert sum(found["statistics"]["precisions"].values()) == found["statistics"]["layers"]


def _weights(model: Any) -> list[Any]:
    return [onnx.numpy_helper.to_array(one) for one in model.graph.initializer]


def test_an_engine_that_a_loader_makes_is_shown(
    trt: FakeTensorRT, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = identity(trt)
    for name, value in {"name": "fake", "refittable": True, "num_layers": 3}.items():
        monkeypatch.setattr(engine, name, value, raising=False)
    monkeypatch.setattr(engine, "is_shape_inference_io", lambda name: False, raising=False)
    inspect_model(lambda: engine)
    assert "Name: fake" in capsys.readouterr().out
