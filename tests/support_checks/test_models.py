"""The small models compute what their docstrings say, in both CPU backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from tests.support import models

Array = npt.NDArray[Any]
Backend = Callable[[onnx.ModelProto, dict[str, Array]], dict[str, Array]]

INT32 = st.integers(-(2**31), 2**31 - 1)


def by_reference(model: onnx.ModelProto, feed: dict[str, Array]) -> dict[str, Array]:
    evaluator = ReferenceEvaluator(model)
    return dict(zip(evaluator.output_names, evaluator.run(None, feed), strict=True))


def by_onnxruntime(model: onnx.ModelProto, feed: dict[str, Array]) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


BACKENDS = (by_reference, by_onnxruntime)

both_backends = pytest.mark.parametrize("infer", BACKENDS)


@pytest.mark.parametrize(
    "factory",
    [
        models.bfloat16_output,
        models.conv_net,
        models.custom_op,
        models.dynamic_identity,
        models.every_dtype,
        models.identity,
        models.identity_fp16,
        models.mlp,
        models.unstable,
    ],
)
def test_the_same_call_gives_the_same_bytes(factory: Callable[[], onnx.ModelProto]) -> None:
    first, second = (factory().SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_an_invalid_model_is_refused() -> None:
    with pytest.raises(onnx.checker.ValidationError):
        models.make(
            "dangling",
            [onnx.helper.make_node("Relu", ["nowhere"], ["y"])],
            [models.value("x", [1])],
            [models.value("y", [1])],
        )


@both_backends
def test_mlp(infer: Backend) -> None:
    model = models.mlp(features=3, hidden=5, classes=2)
    weights = {w.name: onnx.numpy_helper.to_array(w) for w in model.graph.initializer}
    x = np.random.RandomState(0).standard_normal((7, 3)).astype(np.float32)
    hidden = np.maximum(x @ weights["hidden.weight"] + weights["hidden.bias"], 0)
    expected = hidden @ weights["logits.weight"] + weights["logits.bias"]
    np.testing.assert_allclose(infer(model, {"x": x})["y"], expected, rtol=1e-4, atol=1e-5)


def test_conv_net_is_the_same_in_both_backends() -> None:
    x = np.random.RandomState(0).standard_normal((2, 3, 16, 16)).astype(np.float32)
    reference, other = (infer(models.conv_net(), {"x": x})["y"] for infer in BACKENDS)
    assert reference.shape == (2, 5)
    assert reference.std() > 0.1
    np.testing.assert_allclose(reference, other, rtol=1e-4, atol=1e-5)


@both_backends
def test_unstable_is_finite_for_positive_values_only(infer: Backend) -> None:
    x = np.array([-1, 0, 1, np.inf], dtype=np.float32)
    with np.errstate(all="ignore"):
        outputs = infer(models.unstable(), {"x": x})
    np.testing.assert_array_equal(outputs["log"], [np.nan, -np.inf, 0, np.inf])
    np.testing.assert_array_equal(outputs["reciprocal"], [-1, np.inf, 1, 0])


@both_backends
@given(values=st.lists(INT32, max_size=5))
def test_every_dtype(infer: Backend, values: list[int]) -> None:
    x = np.array(values, dtype=np.int32)
    with np.errstate(over="ignore"):
        outputs = infer(models.every_dtype(), {"x": x})
    for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64"):
        np.testing.assert_array_equal(outputs[name], x.astype(name), strict=True)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(outputs["float16"], x.astype(np.float16), strict=True)
    np.testing.assert_array_equal(outputs["bool"], x > 0, strict=True)
    assert outputs["int64"].dtype == np.int64
    assert outputs["int64"].tolist() == [v + 2**62 for v in values]
    assert outputs["uint64"].dtype == np.uint64
    assert outputs["uint64"].tolist() == [v + 2**63 for v in values]
    assert outputs["string"].tolist() == [str(v) for v in values]
    assert outputs["scalar"].shape == ()
    np.testing.assert_allclose(outputs["scalar"], x.sum(dtype=np.float64), rtol=1e-5, atol=1e3)
    assert outputs["empty"].shape == (0, len(values))


def test_bfloat16_output_is_more_than_onnxruntime_converts() -> None:
    x = np.array([1.001, -3], dtype=np.float32)
    model = models.bfloat16_output()
    y = by_reference(model, {"x": x})["y"]
    np.testing.assert_array_equal(y, x.astype(ml_dtypes.bfloat16), strict=True)
    with pytest.raises(RuntimeError, match=r"bfloat16|Numpy type"):
        by_onnxruntime(model, {"x": x})


def test_every_dtype_without_strings_lacks_only_them() -> None:
    names, fewer = (
        [output.name for output in models.every_dtype(strings=strings).graph.output]
        for strings in (True, False)
    )
    assert fewer == [name for name in names if name != "string"]
