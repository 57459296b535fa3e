"""What a diagnosis prints of how TensorRT was asked to build."""

from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import Any

import pytest
from onnx import parser

from polygraphy.adapters.onnx.describe.reading import describe_with_weights
from polygraphy.adapters.tensorrt import party as module
from polygraphy.adapters.tensorrt.party import TrtParty, add_output_types
from polygraphy.cli.main import main
from polygraphy.diagnose import diagnose
from polygraphy.domain.diagnosis.commands import diagnose_command, run_command
from polygraphy.domain.errors import UsageError

SETTINGS: list[dict[str, Any]] = [
    {},
    {"fp16": True},
    {"bf16": True, "tf32": True},
    {"memory_pool_limits": {"workspace": 5, "dla_local_dram": 2}},
    {"builder_optimization_level": 0, "fp16": True},
    {"int8": True},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_its_options_are_how_it_was_set(
    settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    line = diagnose_command("m.onnx", [TrtParty(**settings)])
    assert main([*shlex.split(line)[1:], "--gen-script", "-"]) == 0
    program = capsys.readouterr().out
    order = ["fp16", "bf16", "tf32", "memory_pool_limits", "builder_optimization_level", "int8"]
    given = [f"{name}={settings[name]!r}" for name in order if name in settings]
    assert f"TrtParty({', '.join(given)})" in program.replace('"', "'")


def test_what_helps_is_printed_with_how_it_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_has_layer_precisions", lambda: True)
    party = TrtParty(fp16=True, memory_pool_limits={"workspace": 5}, builder_optimization_level=2)
    built = "--pool-limit workspace:5 --builder-optimization-level 2"
    line = run_command("m.onnx", [("trt", "trt", party.remedy(plain=False, without=["a b"]))], {})
    layers = "--layer-precisions 'a b:float32' --precision-constraints obey"
    assert line == f"polygraphy run m.onnx --trt --fp16 {built} {layers}"
    plain = run_command("m.onnx", [("trt", "trt", party.remedy(plain=True, without=[]))], {})
    assert plain == f"polygraphy run m.onnx --trt {built}"
    assert main([*shlex.split(line)[1:], "--gen-script", "-"]) == 0


def test_layers_that_tensorrt_does_not_name_are_named_by_their_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_has_layer_precisions", lambda: True)
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[2,3] x, float[3] s) => (float[2,3] y)
        { [norm] a = LayerNormalization(x, s)  [relu] b = Relu(a)  y = Neg(b) }""")
    party = TrtParty(fp16=True)
    party.load(model, without=["norm"])
    kept = party.remedy(plain=False, without=["norm", "relu", "y"])["layer_precisions"]
    assert kept == {"a": "float32", "relu": "float32", "node_of_y": "float32"}


def test_a_model_that_was_not_built_is_closed_without_a_warning() -> None:
    built = TrtParty().load("m.onnx")
    built._runner = SimpleNamespace(is_active=False, deactivate=lambda: pytest.fail("warns"))
    built.close()
    assert built._runner is None


def test_tf32_is_known_and_left_out_for_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_has_layer_precisions", lambda: True)
    monkeypatch.setattr(module, "computes_in_tf32", lambda: True)
    party = TrtParty(tf32=True, builder_optimization_level=1)
    assert party.lowers_to == "tf32"
    assert party.compute_precision is not None and party.compute_precision.option == "omit --tf32"
    assert party.in_float32().options == {"builder_optimization_level": 1}
    assert party.load("m.onnx")._settings["tf32"] is True
    assert party.load("m.onnx", plain=True)._settings["tf32"] is None
    assert TrtParty(tf32=True, fp16=True).lowers_to == "fp16"
    assert TrtParty(tf32=True, fp16=True).in_float32().options == {}
    monkeypatch.setattr(module, "computes_in_tf32", lambda: False)
    assert party.lowers_to is None


def test_tensors_that_are_marked_get_data_types() -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[2,3] x) => (float[2,3] y) { a = Relu(x)  b = Shape(a)  y = Neg(a) }""")
    assert add_output_types(model) is model
    for name in ("a", "b", "nowhere"):
        model.graph.output.add().name = name
    types = [each.type.tensor_type.elem_type for each in add_output_types(model).graph.output]
    assert types == [1, 1, 7, 0]
    assert not model.graph.output[1].type.tensor_type.elem_type


def test_growing_data_need_few_builds_and_all_sizes_of_a_range_fit_each_other() -> None:
    def shapes(past: int, length: int = 1) -> dict[str, tuple[int, ...]]:
        return {"ids": (1, length), "past": (1, 4, past, 8), "mask": (1, past + length)}

    ranges = module.widen_ranges([], shapes(0, 5))
    builds = 1
    for past in range(5, 105):
        if not any(module._contains(each, shapes(past)) for each in ranges):
            ranges, builds = module.widen_ranges(ranges, shapes(past)), builds + 1
        prompt, later = ranges
        assert module._contains(prompt, shapes(0, 5)) and module._contains(later, shapes(past))
        for end in ("min", "opt", "max"):
            sizes = {name: getattr(each, end) for name, each in later.items()}
            assert sizes == shapes(sizes["past"][2])
    assert builds <= 9
    assert module.widen_ranges(ranges, shapes(3)) == module.widen_ranges([], shapes(3))
    others: list[dict[str, tuple[int, ...]]] = [{"x": (1,)}, {**shapes(3), "past": (1, 2)}]
    assert all(len(module.widen_ranges(ranges, each)) == 1 for each in others)


QUANTIZED = """<ir_version: 8, opset_import: ["": 17]>
    m (float[2] x) => (float[2] y) <float s = {0.5}, int8 z = {0}>
    { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }"""
FLOAT = """<ir_version: 8, opset_import: ["": 17]>
    m (float[2] x) => (float[2] y) { y = Relu(x) }"""


def test_int8_is_for_quantized_models_and_not_for_parts_in_float() -> None:
    party = TrtParty(int8=True)
    quantized, part = map(parser.parse_model, (QUANTIZED, FLOAT))
    for plain in (False, True):
        assert party.load(quantized, plain=plain)._settings["int8"] is True
        assert party.load(part, plain=plain)._settings["int8"] is None
    party.check_graph(describe_with_weights(quantized).graph)
    TrtParty().check_graph(describe_with_weights(part).graph)
    with pytest.raises(UsageError, match="no Q/DQ nodes"):
        diagnose(part, [party])


def test_marked_outputs_get_their_type() -> None:
    model = parser.parse_model(FLOAT.replace("y = Relu(x)", "a = Neg(x)  y = Relu(a)"))
    model.graph.output[0].type.tensor_type.elem_type = 0
    model.graph.value_info.add(name="a").CopyFrom(model.graph.input[0])
    model.graph.value_info[0].name = "a"
    model.graph.output.add(name="a")
    assert [
        output.type.tensor_type.elem_type for output in add_output_types(model).graph.output
    ] == [1, 1]
