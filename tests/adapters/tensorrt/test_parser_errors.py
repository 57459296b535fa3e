"""What is said of a model that the ONNX parser of TensorRT refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from onnx.parser import parse_model

from polygraphy.adapters.tensorrt.library import module
from polygraphy.adapters.tensorrt.library.module import Reasons
from polygraphy.adapters.tensorrt.network.onnx_network import parsing_error, warn_about_opset
from tests.support.tensorrt_names import named_module

MODEL = parse_model("""
<ir_version: 8, opset_import: ["" : 15]>
g (float[2, n] x, float[4] s) => (float[k] y) { r = Relu (x) y = Add (r, s) }
""")
MODEL.graph.node[1].name = "add"


def refusing(**error: Any) -> Any:
    """Return a parser with one error."""
    facts = {"code": "ErrorCode.UNSUPPORTED_NODE", "desc": "no way", **error}
    reported = SimpleNamespace(
        **{name: (lambda value=value: value) for name, value in facts.items()}
    )
    return SimpleNamespace(num_errors=1, get_error=lambda index: reported)


@pytest.mark.parametrize("extra", [{}, {"node_name": "add", "node_operator": "Add"}])
def test_an_error_says_what_the_node_was_given(extra: dict[str, str]) -> None:
    said = str(parsing_error(refusing(node=1, **extra), "m.onnx", Reasons(), lambda: MODEL))
    assert "node 1" in said
    assert "no way (Add of opset 15 on r float32[2,n], s float32[4])" in said


@pytest.mark.parametrize("node", [-1, 7])
def test_an_error_without_a_node_is_said_as_it_is(node: int) -> None:
    said = str(parsing_error(refusing(node=node), "m.onnx", Reasons(), lambda: MODEL))
    assert "UNSUPPORTED_NODE: no way" in said
    assert "opset" not in said


@pytest.mark.parametrize("text", ["DLA validation failed", "no way"])
def test_advice_about_dla_is_for_errors_of_dla_only(text: str) -> None:
    parser = refusing(node=-1, desc=text)
    said = str(parsing_error(parser, "m.onnx", Reasons(), lambda: MODEL))
    assert ("on a machine without DLA" in said) == (text != "no way")


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear", "Add"])
def test_advice_about_quantization_is_for_quantized_nodes_only(op: str) -> None:
    parser = refusing(node=-1, desc=f"{op}: no way")
    said = str(parsing_error(parser, "m.onnx", Reasons(), lambda: MODEL))
    assert ("'ActivationSymmetric': True" in said) == (op != "Add")


@pytest.mark.parametrize(
    ("version", "opset", "is_too_new"),
    [("8.6.0", 17, False), ("8.6.0", 18, True), ("10.0.1", 18, False)],
)
def test_an_opset_that_tensorrt_does_not_know_is_a_warning(
    version: str, opset: int, is_too_new: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    model = parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g (float[2] x) => () {{}}')
    with module.use_module(named_module(version)):
        warn_about_opset(f"m{version}.onnx", lambda: model)
    assert ("Export it with opset 17, or convert it" in capsys.readouterr().out) == is_too_new


def test_gpus_are_named_if_there_is_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_count_gpus", lambda: 2)
    monkeypatch.setattr(module, "_gpu_name", lambda driver, index: f"{driver} {index}")
    for driver, names in (("card", ["card 0", "card 1"]), (None, [])):
        monkeypatch.setattr(module, "_driver", lambda driver=driver: driver)
        assert module.gpu_names() == names
