"""Would a model work in half precision, and which nodes have to stay in float32?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.run.half_precision import OnnxNarrowModels
from polygraphy.application.diagnose.precision import half
from polygraphy.application.diagnose.precision.half import (
    HalfPrecision,
    try_half_precision,
)
from polygraphy.domain.diagnosis.commands import convert_command
from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.tensors.datatype import DataType
from tests.support.diagnosis.half_precision_cases import BLAMED, PLANTED, SIZE, network
from tests.support.examples import scaled
from tests.support.models import make, value


def error_with(model: onnx.ModelProto, keep: Sequence[str]) -> float:
    """Return how far half precision is off, on other data than the search had."""
    opened = OnnxNarrowModels().open(model, DataType.FLOAT16)
    feed = {"x": np.random.RandomState(99).uniform(-1, 1, (2, SIZE)).astype(np.float32)}
    exact, made = opened.measure(feed)[0]["y"], opened.load(without=keep)(feed)["y"]
    return float(np.abs(made - exact).max() / np.abs(exact).max())


def test_a_healthy_model_works() -> None:
    for dtype in ("fp16", "bf16"):
        found = try_half_precision(network(None), dtype)
        assert found
        assert found.verdict == "agree"
        assert (found.kept, found.culprits, found.checks) == ((), (), 1)
        assert 0 < found.before.excess < 1
        assert found.feeds == 3


@settings(deadline=None, max_examples=scaled(40))
@given(st.sampled_from(sorted(PLANTED)), st.integers(0, 3), st.integers(0, 1000))
def test_a_planted_fault_is_named_and_mended(kind: str, at: int, seed: int) -> None:
    model = network(kind, at, seed=seed)
    found = try_half_precision(model)
    assert (found.verdict, bool(found)) == ("fault", False)
    culprit = found.culprits[0]
    assert BLAMED[kind] in culprit.nodes
    assert culprit.fault.cause == kind
    planted = {name for _, name, _ in PLANTED[kind]}
    assert {name for each in found.culprits for name in each.nodes} <= planted
    assert found.after.is_tolerable
    assert error_with(model, found.kept) < 0.02
    assert not error_with(model, ()) < 0.02


def test_two_faults_are_distinguished() -> None:
    first = network("overflow", 0)
    second = onnx.compose.add_prefix(network("epsilon", 2), "b_")
    for node in second.graph.node:
        node.input[:] = ["y" if name == "b_x" else name for name in node.input]
    model = make(
        "both",
        [*first.graph.node, *second.graph.node],
        first.graph.input,
        second.graph.output,
        weights={
            each.name: numpy_helper.to_array(each)
            for each in (*first.graph.initializer, *second.graph.initializer)
        },
    )
    found = try_half_precision(model)
    assert [(each.nodes, each.fault.cause) for each in found.culprits] == [
        (["large"], "overflow"),
        (["b_safe"], "epsilon"),
    ]


@pytest.mark.slow
def test_a_search_without_end_is_cut_short_with_a_set_that_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = network("epsilon", layers=20)
    fewest = try_half_precision(model)
    monkeypatch.setattr(half, "_CHECKS", (0, 0))
    said: list[str] = []
    found = try_half_precision(model, report=lambda attempt: said.append(attempt.result))
    assert (fewest.verdict, fewest.is_fewest) == ("fault", True)
    assert (found.verdict, found.is_fewest) == ("fault", False)
    assert found.checks < fewest.checks
    assert {*fewest.kept} < {*found.kept} < {node.name for node in model.graph.node}
    assert found.after.is_tolerable
    assert any("cut short" in each for each in said)


def test_a_model_that_keeps_no_answer_is_ill_conditioned() -> None:
    weights = {"w": np.array([1e5], np.float32)}
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["t"], name="much"),
        helper.make_node("Sin", ["t"], ["y"], name="turn"),
    ]
    model = make("wild", nodes, [value("x", [4])], [value("y", [4])], weights=weights)
    found = try_half_precision(model, "bf16")
    assert (found.verdict, found.culprits, found.kept) == ("ill-conditioned", (), ())


def test_what_is_nan_in_float32_is_said_first() -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["t"], name="turned"),
        helper.make_node("Log", ["t"], ["u"], name="logarithm"),
        helper.make_node("Relu", ["u"], ["y"], name="after"),
    ]
    found = try_half_precision(make("nan", nodes, [value("x", [4])], [value("y", [4])]))
    assert found.verdict == "fault"
    [culprit] = found.culprits
    assert (culprit.nodes, culprit.fault.cause) == (["logarithm"], "nan")


def deep(layers: int) -> onnx.ModelProto:
    """Return a chain in which every layer adds to the error, and none more than others."""
    random = np.random.RandomState(0)
    weights, nodes = {}, []
    for layer in range(layers):
        turn = np.linalg.qr(random.randn(SIZE, SIZE))[0]
        weights[f"w{layer}"] = turn.astype(np.float32)
        made = "y" if layer == layers - 1 else f"t{layer}"
        reads = ["x" if not layer else f"t{layer - 1}", f"w{layer}"]
        nodes.append(helper.make_node("MatMul", reads, [made], name=f"n{layer}"))
    return make("deep", nodes, [value("x", [2, SIZE])], [value("y", [2, SIZE])], weights=weights)


@pytest.mark.slow
def test_rounding_everywhere_in_a_deep_model_blames_nobody() -> None:
    found = try_half_precision(deep(400))
    assert (found.verdict, found.culprits, found.checks) == ("agree", (), 1)
    exact = try_half_precision(deep(20), rtol=1e-2, atol=0)
    assert exact.verdict != "agree"


@pytest.mark.slow
def test_rounding_that_adds_up_to_too_much_blames_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half, "MOST", 1.0)
    found = try_half_precision(deep(1000))
    assert (found.verdict, found.culprits, found.kept) == ("inconclusive", (), ())
    assert found.adds_up
    assert found.before.excess > 1


@pytest.mark.slow
def test_nodes_that_gain_little_are_not_at_fault() -> None:
    model = deep(40)
    usual = try_half_precision(model)
    found = try_half_precision(model, rtol=1e-2 * usual.before.excess / 1.05)
    assert (found.verdict, list(found.culprits), found.adds_up) == ("inconclusive", [], True)
    assert 0 < len(found.kept) < 20
    assert found.after.is_tolerable


@pytest.mark.slow
def test_what_overflows_is_named_beside_rounding_that_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(half, "MOST", 0.5)
    monkeypatch.setattr(half, "GROWTH", 10.0)
    model = deep(250)
    weights = {"much": np.array([1e7], np.float32), "back": np.array([1e-7], np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in weights.items())
    nodes = [
        helper.make_node("Mul", ["y", "much"], ["large"], name="large"),
        helper.make_node("Mul", ["large", "back"], ["end"], name="small"),
    ]
    model.graph.node.extend(nodes)
    model.graph.output[0].name = "end"
    found = try_half_precision(model)
    assert found.verdict == "fault"
    assert {each.fault.cause for each in found.culprits} == {"overflow"}
    assert {name for each in found.culprits for name in each.nodes} <= {"large", "small"}
    assert not found.after.is_tolerable


@pytest.mark.parametrize("bias", [2e5, 6e5])
def test_a_bias_that_is_too_large_is_no_rounding_that_adds_up(
    bias: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLANTED, "rounding", [("Add", "far", bias), ("Sub", "near", bias)])
    model = network("rounding")
    found = try_half_precision(model)
    assert (found.verdict, {*found.kept} >= {"far", "near"}) == ("fault", True)
    assert {each.fault.cause for each in found.culprits} == {"overflow"}
    assert error_with(model, found.kept) < 0.02


def quantized(size: int = SIZE) -> onnx.ModelProto:
    """Return a model that quantizes what it computes, and dequantizes it."""
    random = np.random.RandomState(0)
    weights = {
        "w": random.randn(SIZE, size).astype(np.float32),
        "v": random.randint(-127, 127, (size, SIZE)).astype(np.int8),
        "unit": np.array(0.01, np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("DynamicQuantizeLinear", ["a"], ["q", "s", "z"], name="steps"),
        helper.make_node("MatMulInteger", ["q", "v", "z"], ["p"], name="product"),
        helper.make_node("Cast", ["p"], ["f"], name="cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "unit"], ["t"], name="scales"),
        helper.make_node("Mul", ["f", "t"], ["y"], name="scaled"),
    ]
    return make("int8", nodes, [value("x", [2, SIZE])], [value("y", [2, SIZE])], weights=weights)


def test_sums_of_integers_that_are_too_large_are_named() -> None:
    found = try_half_precision(quantized(512))
    assert {name for each in found.culprits for name in each.nodes} <= {"cast", "scaled"}
    assert {each.fault.cause for each in found.culprits} == {"overflow"}


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_positions_that_the_type_rounds_are_named_also_before_an_operator_without_it(
    dtype: str,
) -> None:
    """Cos of this opset has no bfloat16, and reads rounded angles nevertheless."""
    nodes = [
        helper.make_node("Cast", ["at"], ["position"], name="cast", to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["position", "steps"], ["angles"], name="angles"),
        helper.make_node("Cos", ["angles"], ["cos"], name="cos"),
        helper.make_node("Mul", ["x", "cos"], ["y"], name="turned"),
    ]
    inputs = [value("x", [32, 8]), helper.make_tensor_value_info("at", TensorProto.INT64, [32, 1])]
    weights = {"steps": (1 / 10 ** np.arange(8, dtype=np.float32))[None]}
    model = make("positions", nodes, inputs, [value("y", [32, 8])], weights=weights)
    x = np.random.RandomState(0).randn(32, 8).astype(np.float32)
    found = try_half_precision(
        model, dtype, data_loader=[{"x": x, "at": np.arange(5000, 5032)[:, None]}]
    )
    assert found.verdict == "fault"
    assert [(each.nodes[0], each.fault.loss.kind) for each in found.culprits] == [
        ("cast", "integers")
    ]
    assert found.after.is_tolerable


@pytest.mark.parametrize("has_import", [True, False])
def test_operators_of_onnx_runtime_are_computed(has_import: bool) -> None:
    weights = {"w": np.random.RandomState(0).randn(SIZE, SIZE).astype(np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"], name="before"),
        helper.make_node("Gelu", ["t"], ["u"], name="gelu", domain="com.microsoft"),
        helper.make_node(
            "FusedMatMul", ["u", "w"], ["y"], name="last", domain="com.microsoft", alpha=1e-3
        ),
    ]
    ends = [value("x", [2, SIZE])], [value("y", [2, SIZE])]
    model = make("own", nodes, *ends, weights=weights, domains=["com.microsoft"])
    if not has_import:  # As ONNX Runtime's optimizer for transformers writes it.
        own_import = next(one for one in model.opset_import if one.domain)
        model.opset_import.remove(own_import)
    found = try_half_precision(model)
    assert (found.verdict, found.feeds) == ("agree", 3)
    assert found.before.off > 0


def test_a_tolerance_can_be_given() -> None:
    model = network(None)
    assert try_half_precision(model, rtol=0.1)
    strict: HalfPrecision = try_half_precision(model, rtol=0, atol=1e-9)
    assert strict.verdict != "agree"


def test_data_can_be_given() -> None:
    large = [{"x": np.full((2, SIZE), 1e5, np.float32)}]
    found = try_half_precision(network(None), data_loader=large)
    assert (found.verdict, found.feeds) == ("fault", 1)
    assert {each.fault.cause for each in found.culprits} == {"overflow"}
    assert found.culprits[0].fault.tensor == "x"


def test_other_types_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="fp8"):
        try_half_precision(network(None), "fp8")


def test_the_command_is_one_for_a_shell() -> None:
    said = convert_command("my models/a.onnx", "fp16", ["n 1", "m"])
    assert said == (
        "polygraphy convert 'my models/a.onnx' --fp-to-fp16 --cast-keep-nodes 'n 1' m"
        " -o a_fp16.onnx"
    )
    assert (
        convert_command("a.onnx", "bf16", [])
        == "polygraphy convert a.onnx --to-bf16 -o a_bf16.onnx"
    )
