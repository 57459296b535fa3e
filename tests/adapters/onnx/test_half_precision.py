"""Models computed in half precision, rounding at every operator, against NumPy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from polygraphy.adapters.onnx.run import node_kernels
from polygraphy.adapters.onnx.run.half_precision import OnnxNarrowModel, OnnxNarrowModels
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.datatype import DataType
from tests.support.models import make, value

X = value("x", [2, 3])
Y = value("y", [2, 3])


def weight(name: str, *values: float) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(values, np.float32), name)


def arrays(weights: Iterable[onnx.TensorProto]) -> dict[str, Any]:
    return {each.name: numpy_helper.to_array(each) for each in weights}


def node(op: str, reads: str, makes: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, reads.split(), makes.split(), name=f"{op}_{makes}", **attributes)


def opened(
    nodes: list[onnx.NodeProto], *weights: onnx.TensorProto, bf16: bool = False
) -> OnnxNarrowModel:
    model = make("half", nodes, [X], [Y], weights=arrays(weights))
    return OnnxNarrowModels().open(model, DataType.BFLOAT16 if bf16 else DataType.FLOAT16)


FEED = {"x": np.array([[0.1, 1.3, -2.7], [3.14159, 40.4, -500.9]], np.float32)}


def test_every_operator_rounds() -> None:
    nodes = [node("Mul", "x a", "t"), node("Add", "t b", "y")]
    model = opened(nodes, weight("a", 1.1), weight("b", 0.3))
    half = np.float16
    expected = (FEED["x"].astype(half) * half(1.1) + half(0.3)).astype(np.float32)
    assert np.array_equal(model.load()(FEED)["y"], expected)
    kept = model.load(without=["Mul_t"])(FEED)["y"]
    wide = (FEED["x"] * np.float32(1.1)).astype(half)
    assert np.array_equal(kept, (wide + half(0.3)).astype(np.float32))
    exact, losses = model.measure(FEED)
    assert np.array_equal(exact["y"], FEED["x"] * np.float32(1.1) + np.float32(0.3))
    assert [loss.name for loss in losses] == ["Mul_t", "Add_y"] == list(model.passes)
    assert all(0 < loss.results[0].error < 1e-3 for loss in losses)


def test_bfloat16_keeps_large_numbers_and_drops_digits() -> None:
    nodes = [node("Mul", "x big", "t"), node("Mul", "t small", "y")]
    weights = weight("big", 1e6), weight("small", 1e-6)
    assert not np.isfinite(opened(nodes, *weights).load()(FEED)["y"]).all()
    made = opened(nodes, *weights, bf16=True).load()(FEED)["y"]
    assert made == pytest.approx(FEED["x"], rel=2e-2)
    assert not np.allclose(made, FEED["x"], rtol=1e-3)


def test_what_a_node_reads_and_loses_is_reported() -> None:
    model = opened(
        [node("Mul", "x big", "t"), node("Add", "t eps", "u"), node("Mul", "u small", "y")],
        weight("big", 1e5), weight("eps", 1e-12), weight("small", 1e-5),
    )  # fmt: skip
    _, losses = model.measure(FEED)
    by_name = {loss.name: loss for loss in losses}
    assert by_name["Mul_t"].weights["big"].clamped == 1
    assert by_name["Mul_t"].results[0].above > 0
    assert by_name["Add_u"].weights["eps"].flushed == 1
    assert by_name["Add_u"].operands[0].above > 0
    assert model.users == {"Mul_t": ["Add_u"], "Add_u": ["Mul_y"]}
    assert np.isfinite(model.load(without=["Mul_t", "Add_u", "Mul_y"])(FEED)["y"]).all()


def test_sums_of_a_reduction_have_to_fit_but_not_those_of_a_product() -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], name="mean", axes=[1]),
        helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
        helper.make_node("Reshape", ["x", "shape"], ["image"], name="reshape"),
        helper.make_node("GlobalAveragePool", ["image"], ["pool"], name="pool"),
    ]
    outputs = [value("mean", [1, 1]), value("product", [1, 1]), value("pool", [1, 1, 1])]
    weights = {"w": np.full((20000, 1), 1e-2, np.float32), "shape": np.array([1, 1, 20000])}
    model = make("sums", nodes, [value("x", [1, 20000])], outputs, weights=weights)
    narrow = OnnxNarrowModels().open(model, DataType.FLOAT16)
    feed = {"x": np.full((1, 20000), 10, np.float32)}
    made = narrow.load()(feed)
    assert np.isinf(made["mean"]).all()
    assert made["product"] == pytest.approx(np.full((1, 1), 2000), rel=1e-3)
    assert made["pool"] == pytest.approx(np.full((1, 1, 1), 10))
    losses = {loss.name: loss for loss in narrow.measure(feed)[1]}
    assert losses["mean"].results[0].broken == 1
    assert losses["mean"].results[0].above == 0
    assert losses["pool"].results[0].broken == 0


def test_nodes_inside_branches_are_among_them() -> None:
    def branch(name: str, factor: float) -> onnx.GraphProto:
        return helper.make_graph(
            [node("Mul", f"x {name}_w", f"{name}_y")],
            name,
            [],
            [value(f"{name}_y", [2, 3])],
            [weight(f"{name}_w", factor)],
        )

    chooses = node("If", "c", "t", then_branch=branch("then", 1e6), else_branch=branch("other", 1))
    model = opened(
        [chooses, node("Mul", "t w", "y")],
        weight("w", 1e-6),
        numpy_helper.from_array(np.array(True), "c"),
    )
    assert set(model.passes) == {"Mul_then_y", "Mul_other_y", "Mul_y"}
    assert [loss.name for loss in model.measure(FEED)[1]] == ["Mul_then_y", "Mul_y"]
    assert not np.isfinite(model.load()(FEED)["y"]).all()


def test_what_cannot_be_run_is_one_error() -> None:
    narrow = opened([node("Add", "x w", "y")], weight("w", 1, 2, 3))
    with pytest.raises(BackendError, match="Add_y"):
        narrow.load()({"x": np.zeros((2, 4), np.float32)})


def test_large_convolutions_are_computed_fast_and_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["t"], name="conv", pads=[1, 1, 1, 1], group=2),
        helper.make_node("Conv", ["t", "w"], ["y"], name="plain", pads=[1, 1, 1, 1], group=2),
    ]
    random = np.random.RandomState(1)
    weights = {
        "w": (random.randn(16, 8, 3, 3) / 9).astype(np.float32),
        "b": random.randn(16).astype(np.float32),
    }
    image = [value(name, [1, 16, 48, 48]) for name in "xy"]
    model = make("convolutions", nodes, image[:1], image[1:], weights=weights)
    feed = {"x": random.randn(1, 16, 48, 48).astype(np.float32)}
    made, asked = [], []
    resolve = node_kernels.resolve
    monkeypatch.setattr(node_kernels, "resolve", lambda *port: asked.append(port) or resolve(*port))
    for large in (1, 1 << 60):
        monkeypatch.setattr(node_kernels, "_LARGE", large)
        narrow = OnnxNarrowModels().open(model, DataType.FLOAT16)
        made.append((narrow.measure(feed)[0]["y"], narrow.load()(feed)["y"]))
        assert len(asked) == 2
    for fast, slow in zip(*made):
        assert np.allclose(fast, slow, rtol=2e-3, atol=2e-3)


def test_an_evaluator_without_bfloat16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = np.zeros(1, np.uint16)
    monkeypatch.setattr(onnx.numpy_helper, "to_array", lambda tensor: bits)
    with pytest.raises(BackendError, match="does not compute in bfloat16"):
        opened([node("Relu", "x", "y")], bf16=True)
    assert opened([node("Relu", "x", "y")]).passes
