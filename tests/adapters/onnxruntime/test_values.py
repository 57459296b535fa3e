"""Outputs and inputs of data types that ONNX Runtime neither gives to nor takes from NumPy (such
as bfloat16), and texts.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, parser

from polygraphy.adapters.arrays.foreign import pack_bits, unpack_bits
from polygraphy.backend.onnx import OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator
from polygraphy.datatype import DataType
from polygraphy.mod import version

KINDS = {
    "BFLOAT16": ml_dtypes.bfloat16,
    "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn,
    "FLOAT8E5M2": ml_dtypes.float8_e5m2,
    "INT4": ml_dtypes.int4,
    "UINT4": ml_dtypes.uint4,
}


def cast(source: int, target: int, shape: list[int], opset: int = 21) -> bytes:
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=target)],
        "cast",
        [helper.make_tensor_value_info("x", source, shape)],
        [helper.make_tensor_value_info("y", target, shape)],
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10 if opset < 25 else 13)
    return bytes(model.SerializeToString())


def run(model: Any, **feed: Any) -> dict[str, Any]:
    with OnnxrtRunner(SessionFromOnnx(model)) as runner:
        return runner.infer(feed)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("shape", [[], [0], [1], [5], [2, 3]])
def test_every_data_type_goes_in_and_out(name: str, shape: list[int]) -> None:
    number, dtype = getattr(TensorProto, name), np.dtype(KINDS[name])
    x = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    out = run(cast(TensorProto.FLOAT, number, shape), x=x)["y"]
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, x.astype(dtype))
    back = run(cast(number, TensorProto.FLOAT, shape), x=x.astype(dtype))["y"]
    np.testing.assert_array_equal(back, x)


def test_negative_numbers_of_four_bits_keep_their_sign() -> None:
    x = np.array([-8, -1, 0, 7, -3], np.float32)
    out = run(cast(TensorProto.FLOAT, TensorProto.INT4, [5]), x=x)["y"]
    assert out.astype(np.int32).tolist() == [-8, -1, 0, 7, -3]


PACKED = ["int4", "uint4", "float4", "int2", "uint2"]


@pytest.mark.skipif(
    not hasattr(TensorProto, "INT2") or version(onnxruntime.__version__) < version("1.26"),
    reason="onnx has had int2 since 1.20, and not every ONNX Runtime that follows it",
)
@pytest.mark.parametrize(("number", "values"), [(25, [0, 1, 2, 3, 3]), (26, [-2, -1, 0, 1, 1])])
def test_numbers_of_two_bits(number: int, values: list[int]) -> None:
    kept = np.array(values, np.float32)
    out = run(cast(TensorProto.FLOAT, number, [5], 25), x=kept)["y"]
    assert out.astype(np.int32).tolist() == values
    assert run(cast(number, TensorProto.FLOAT, [5], 25), x=out)["y"].tolist() == kept.tolist()


@given(st.lists(st.integers(0, 15)), st.sampled_from(PACKED))
def test_packing_is_undone_by_unpacking(values: list[int], name: str) -> None:
    dtype = getattr(DataType, name.upper())
    bits, native = round(8 * dtype.itemsize), dtype.numpy()
    raw = np.array(values, np.uint8) % 2**bits
    array = unpack_bits(np.array([0x21, 0xF3], np.uint8), bits, native, 16 // bits)
    assert array.dtype == dtype.numpy()
    given = unpack_bits(pack_bits(_from_bits(raw, native), bits), bits, native, raw.size)
    np.testing.assert_array_equal(given, _from_bits(raw, dtype.numpy()))


def _from_bits(raw: Any, dtype: Any) -> Any:
    if dtype.name in ("int4", "int2"):
        half = 8 if dtype.name == "int4" else 2
        return ((raw.astype(np.int8) ^ half) - half).astype(dtype)
    return raw.astype(dtype) if dtype.name in ("uint4", "uint2") else raw.view(dtype)


def _texts() -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.STRING, ["n"]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "texts", values[:1], values[1:]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


TEXT = st.text(st.sampled_from("a\0é "), max_size=3)


@given(st.lists(TEXT, min_size=1, max_size=3), st.lists(TEXT, min_size=1, max_size=3))
@settings(deadline=None)
def test_texts_are_equal_where_they_are_the_same(one: list[str], other: list[str]) -> None:
    model = _texts().SerializeToString()
    outputs = [run(model, x=np.array(texts, object))["y"] for texts in (one, other)]
    for found, texts in zip(outputs, (one, other)):
        assert found.tolist() == texts
    runs = [[{"y": output}] for output in outputs]
    results = _results(runs)
    assert bool(Comparator.compare_accuracy(results)) == (one == other)


def _results(runs: list[list[dict[str, Any]]]) -> Any:
    from polygraphy.comparator import RunResults

    results = RunResults()
    for index, iterations in enumerate(runs):
        results.add(iterations, runner_name=f"r{index}")
    return results


@pytest.mark.parametrize("kind", [OnnxrtRunner, OnnxReferenceRunner])
def test_declared_shapes_of_outputs(kind: Any) -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[3,n] x) => (float[3,n] y, float z)'
        " { y = Abs(x) z = ReduceSum<keepdims = 0>(x) }"
    )
    loader = SessionFromOnnx(model.SerializeToString()) if kind is OnnxrtRunner else model
    with kind(loader) as runner:
        shapes = {name: list(shape) for name, shape in runner.declared_output_shapes().items()}
    assert shapes["y"] == [3, "n"]
    assert not shapes.get("z")
