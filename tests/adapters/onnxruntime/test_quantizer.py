"""Static quantization, judged by what the quantized models compute."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.adapters.onnxruntime.quantizer import (
    load_ranges,
    quantize,
    save_ranges,
)
from polygraphy.backend.onnx import convert_to_fp16
from polygraphy.comparator import DataLoader
from polygraphy.domain.errors import FileError, InputError, UsageError
from polygraphy.domain.tensors.datatype import DataType
from tests.support import models
from tests.support.examples import scaled


def feeds(shape: tuple[int, ...] = (4, 8), count: int = 6) -> list[dict[str, Any]]:
    random = np.random.RandomState(3)
    return [{"x": random.standard_normal(shape).astype(np.float32)} for _ in range(count)]


def outputs(model: onnx.ModelProto, feed: dict[str, Any]) -> np.ndarray[Any, Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    [made] = session.run(None, feed)
    return np.asarray(made)


def quantized_int8(model: onnx.ModelProto, data: Any, **options: Any) -> onnx.ModelProto:
    made: onnx.ModelProto = quantize(model, data, DataType.INT8, **options)
    onnx.checker.check_model(made)
    return made


@pytest.mark.parametrize("method", ["entropy", "minmax", "percentile"])
def test_quantized_models_compute_nearly_the_same(method: str) -> None:
    model, data = models.mlp(), feeds()
    quantized = quantized_int8(model, data, method=method)
    ops = [node.op_type for node in quantized.graph.node]
    assert ops.count("QuantizeLinear") == 2 and ops.count("DequantizeLinear") == 4
    exact, lowered = outputs(model, data[0]), outputs(quantized, data[0])
    error = np.abs(exact - lowered).max() / np.abs(exact).max()
    assert 0 < error < 0.05


def test_generated_data_are_legal_indices() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> m (int64[4] i) => (float[4, 2] y)
        <float[1, 2] table = {1, 2}, float[2, 2] w = {1, 2, 3, 4}>
        { e = Gather(table, i)  y = MatMul(e, w) }"""
    model = onnx.parser.parse_model(text)
    assert "QuantizeLinear" in {
        node.op_type for node in quantized_int8(model, DataLoader()).graph.node
    }


def test_convolutions_are_quantized_per_channel() -> None:
    quantized = quantized_int8(models.conv_net(), feeds((2, 3, 16, 16)), method="minmax")
    scales = {one.name: one for one in quantized.graph.initializer}
    [conv] = [node for node in quantized.graph.node if node.op_type == "Conv"]
    [weight] = [node for node in quantized.graph.node if conv.input[1] in node.output]
    assert list(scales[weight.input[1]].dims) == [8]
    zeros = onnx.numpy_helper.to_array(scales[weight.input[2]])
    assert zeros.dtype == np.int8 and not zeros.any()
    bias = conv.input[2]
    assert scales[bias].data_type == onnx.TensorProto.FLOAT


def test_ranges_take_in_what_was_seen() -> None:
    cache = io.BytesIO()
    data = feeds()
    quantized_int8(models.mlp(), data, method="minmax", cache=cache)
    every = np.concatenate([feed["x"] for feed in data])
    ranges = json.loads(cache.getvalue())
    assert ranges["calibration"] == "minmax"
    assert list(ranges["ranges"]) == ["x", "h_relu"]
    assert ranges["ranges"]["x"] == [float(every.min()), float(every.max())]


def test_the_cache_spares_the_data(tmp_path: Path) -> None:
    cache = str(tmp_path / "calibration.json")
    first = quantized_int8(models.mlp(), feeds(), method="minmax", cache=cache)

    def never() -> Iterator[dict[str, Any]]:
        raise AssertionError("the data are not needed")

    again = quantized_int8(models.mlp(), never, cache=cache)
    assert again.SerializeToString(deterministic=True) == first.SerializeToString(
        deterministic=True
    )
    assert quantized_int8(models.mlp(), None, cache=cache).graph.node


def test_a_cache_serves_whatever_nodes_are_kept() -> None:
    cache = io.BytesIO()
    for keep_nodes in (["hidden", "logits"], ["hidden"]):
        quantized_int8(models.mlp(), feeds(), method="minmax", cache=cache, keep_nodes=keep_nodes)
    for keep_nodes in ([], ["hidden"], ["logits"]):
        assert quantized_int8(models.mlp(), None, cache=cache, keep_nodes=keep_nodes).graph.node


def test_a_cache_that_lacks_tensors_is_made_anew_or_refused(tmp_path: Path) -> None:
    cache = tmp_path / "calibration.json"
    save_ranges(cache, {"x": (-1.0, 1.0)}, "minmax")
    with pytest.raises(FileError, match="has no ranges for 'h_relu'"):
        quantized_int8(models.mlp(), None, cache=cache)
    quantized_int8(models.mlp(), feeds(), cache=cache, method="minmax")
    assert set(load_ranges(cache) or ()) == {"x", "h_relu"}


def test_tables_of_tensorrt_are_read(tmp_path: Path) -> None:
    scale = struct.pack("!f", 0.03125).hex()
    table = tmp_path / "trt.cache"
    table.write_text(f"TRT-8600-EntropyCalibration2\nx: {scale}\na: b: {scale}\n")
    assert load_ranges(table) == {"x": (-3.96875, 3.96875), "a: b": (-3.96875, 3.96875)}


@pytest.mark.parametrize("text", ["nonsense", "{}", '{"ranges": {"x": [2, 1]}}', "TRT-1\nx 00"])
def test_other_files_are_no_caches(tmp_path: Path, text: str) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(FileError, match="not a calibration cache"):
        load_ranges(tmp_path / "c")


pairs = st.tuples(st.floats(-1e30, 1e30), st.floats(-1e30, 1e30)).map(lambda p: (min(p), max(p)))


@settings(max_examples=scaled(50))
@given(st.dictionaries(st.text(), pairs))
def test_ranges_survive_the_cache(ranges: dict[str, tuple[float, float]]) -> None:
    cache = io.BytesIO(b"something longer that was there before, and has to go" * 9)
    save_ranges(cache, ranges, "entropy")
    assert load_ranges(cache) == ranges


def test_old_operator_sets_are_lifted() -> None:
    model = models.mlp()
    del model.opset_import[:]
    model.opset_import.append(onnx.helper.make_opsetid("", 11))
    quantized = quantized_int8(model, feeds(), method="minmax")
    assert quantized.opset_import[0].version >= 13


def test_a_data_loader_is_reported_what_the_inputs_are() -> None:
    loader = DataLoader(iterations=2)
    assert quantized_int8(models.mlp(), loader, method="minmax").graph.node


def test_of_a_model_without_products_nothing_is_quantized() -> None:
    quantized = quantized_int8(models.identity(), feeds((1, 1, 2, 2)))
    assert [node.op_type for node in quantized.graph.node] == ["Identity"]


def test_a_generator_is_enough_and_an_empty_one_is_not() -> None:
    quantized_int8(models.mlp(), iter(feeds()), method="minmax")
    for model in (models.mlp(), models.identity()):
        with pytest.raises(InputError, match="the data loader is empty"):
            quantized_int8(model, iter(()))
    with pytest.raises(InputError, match="nor a calibration cache"):
        quantized_int8(models.mlp(), None)


def test_methods_are_known() -> None:
    with pytest.raises(UsageError, match="'entropy', 'minmax'"):
        quantized_int8(models.mlp(), feeds(), method="median")


def test_nan_and_infinity_do_not_spoil_a_range() -> None:
    data = feeds()
    data[1]["x"][0, :2] = np.inf, np.nan
    cache = io.BytesIO()
    for method in ("minmax", "percentile"):
        cache = io.BytesIO()
        quantized_int8(models.mlp(), data, method=method, cache=cache)
        low, high = json.loads(cache.getvalue())["ranges"]["x"]
        assert -10 < low < high < 10


# Tests of float8, and of nodes that keep their type, follow.


def _unfused(model: onnx.ModelProto, feed: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Run a model as it is: ONNX Runtime fuses float8 into kernels that do not take it, and loses
    the Relu in front of a QuantizeLinear.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(None, feed)[0])


def quantize_to_float8(model: onnx.ModelProto, data: Any, **options: Any) -> onnx.ModelProto:
    made: onnx.ModelProto = quantize(model, data, DataType.FLOAT8E4M3FN, **options)
    onnx.checker.check_model(made, full_check=True)
    return made


@pytest.mark.parametrize("method", ["entropy", "percentile"])
@pytest.mark.parametrize(
    ("make", "shape"), [(models.mlp, (4, 8)), (models.conv_net, (2, 3, 16, 16))]
)
def test_float8_is_as_exact_as_its_three_bits(make: Any, shape: Any, method: str) -> None:
    model, data = make(), feeds(shape)
    quantized = quantize_to_float8(model, data, method=method)
    exact, lowered = outputs(model, data[0]), _unfused(quantized, data[0])
    error = np.abs(exact - lowered).max() / np.abs(exact).max()
    # Each operand is off by 1/16 at most, and mostly by less; sums even that out.
    assert 0 < error < 0.1
    reference = onnx.reference.ReferenceEvaluator(quantized).run(None, data[0])
    assert np.allclose(np.asarray(reference[0]), lowered, atol=1e-4 * np.abs(exact).max())


@settings(max_examples=scaled(15), deadline=None)
@given(st.floats(-30, 30), st.floats(0, 6))
def test_no_value_that_was_seen_is_cut_off(exponent: float, spread: float) -> None:
    random = np.random.RandomState(5)
    weights = (random.standard_normal((8, 4)) * 2.0**exponent).astype(np.float32)
    weights[0, 0] *= np.float32(10.0**spread)  # one that is out of the ordinary
    model = models.make(
        "product",
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        [models.value("x", (4, 8))],
        [models.value("y", (4, 4))],
        weights={"w": weights},
    )
    quantized = quantize_to_float8(model, feeds(), method="minmax")
    scales = {one.name: onnx.numpy_helper.to_array(one) for one in quantized.graph.initializer}
    assert scales["w_scale"] == pytest.approx(np.abs(weights).max() / 448, rel=1e-5)
    seen = max(float(np.abs(feed["x"]).max()) for feed in feeds())
    assert scales["x_scale"] == pytest.approx(seen / 448, rel=1e-5)
    assert not [node for node in quantized.graph.node if node.name.startswith("polygraphy")]


@pytest.mark.parametrize("dtype", [DataType.INT8, DataType.FLOAT8E4M3FN], ids=str)
def test_nodes_keep_their_type(dtype: Any) -> None:
    model = models.mlp()
    model.graph.node[2].name = ""
    for kept, quantized in (("hidden", ["h_relu"]), ("y", ["x"])):
        made = quantize(model, feeds(), dtype, method="minmax", keep_nodes=[kept])
        assert [
            node.input[0] for node in made.graph.node if node.op_type == "QuantizeLinear"
        ] == quantized
        assert sorted(node.name for node in made.graph.node if node.op_type == "Gemm") == [
            "",
            "hidden",
        ]


def test_all_nodes_may_keep_their_type(capsys: pytest.CaptureFixture[str]) -> None:
    made = quantized_int8(models.mlp(), feeds(), method="minmax", keep_nodes=["hidden", "logits"])
    assert [node.op_type for node in made.graph.node] == ["Gemm", "Relu", "Gemm"]
    assert "except those that keep their type" in " ".join(capsys.readouterr().out.split())


def test_weights_in_constant_nodes_are_quantized() -> None:
    model = models.mlp()
    [weight] = [one for one in model.graph.initializer if one.name == "hidden.weight"]
    model.graph.initializer.remove(weight)
    constant = onnx.helper.make_node("Constant", [], ["hidden.weight"], value=weight)
    model.graph.node.insert(0, constant)
    quantized = quantized_int8(model, feeds(), method="minmax")
    assert [node.op_type for node in quantized.graph.node].count("DequantizeLinear") == 4


@pytest.mark.parametrize("dtype", [DataType.INT8, DataType.FLOAT8E4M3FN], ids=str)
def test_models_of_float16_are_quantized(dtype: Any) -> None:
    model = convert_to_fp16(models.mlp(), cast_io=True)
    data = [{"x": feed["x"].astype(np.float16)} for feed in feeds()]
    made = quantize(model, data, dtype, method="minmax")
    onnx.checker.check_model(made, full_check=True)
    exact = outputs(models.mlp(), feeds()[0])
    error = np.abs(_unfused(made, data[0]) - exact).max() / np.abs(exact).max()
    assert error < 0.1
