"""The formulas that decide between two implementations, against the evaluator and ONNX Runtime."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.backend.test.case.node import collect_testcases

from polygraphy.adapters.onnx.run.reference import FormulaParty, PackageParty
from polygraphy.adapters.onnx_common.evaluator import evaluator_of, formula_evaluator
from polygraphy.adapters.onnx_common.formulas import FORMULAS
from polygraphy.domain.errors import BackendError
from tests.support import random_nodes
from tests.support.examples import scaled
from tests.support.models import make, value

KNOWN = [
    (op, v) for op in FORMULAS if op in random_nodes.OPERATORS for v in random_nodes.versions(op)
]


def results(evaluator: Any, feed: dict[str, Any]) -> Any:
    return np.asarray(evaluator.run(None, dict(feed))[0])


@settings(max_examples=scaled(300))
@given(known=st.sampled_from(KNOWN), seed=st.integers(0, 2**20))
def test_formulas_agree_with_the_evaluator(known: tuple[str, int], seed: int) -> None:
    op, version = known
    model, feed = random_nodes.random_node(op, version, seed)
    try:
        ours = results(formula_evaluator(model), feed)
    except Exception as error:
        assert "NotImplementedError" in repr(error)
        return
    expected = results(evaluator_of(model), feed)
    assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
    if ours.dtype.kind == "f":
        np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=2e-5)
    else:
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("op", ["Tanh", "Softmax", "Erf", "Sigmoid", "Exp"])
def test_they_are_computed_in_float64_and_given_in_the_type_of_the_inputs(op: str) -> None:
    x = np.linspace(-3, 3, 64, dtype=np.float32)[None]
    model = make("one", [helper.make_node(op, ["x"], ["y"])], [value("x", [1, 64])],
                 [value("y", [1, 64])])  # fmt: skip
    wide = {
        "Tanh": np.tanh, "Exp": np.exp, "Sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        "Softmax": lambda v: np.exp(v) / np.exp(v).sum(),
        "Erf": np.vectorize(math.erf),
    }[op](x.astype(np.float64))  # fmt: skip
    made = FormulaParty().load(model)({"x": x})["y"]
    assert made.dtype == np.float32
    assert np.array_equal(made, wide.astype(np.float32))


@pytest.mark.parametrize(("onesided", "shape"), [(1, (2, 90)), (1, (1, 90, 1)), (0, (1, 90, 2))])
def test_the_spectrum_of_frames_is_as_precise_as_float32(
    onesided: int, shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(5)
    weights = {"step": np.array(16), "window": np.hanning(40).astype(np.float32)}
    node = helper.make_node("STFT", ["x", *weights], ["y"], onesided=onesided)
    model = make("one", [node], [value("x", shape)], [value("y", ["n", "f", "b", 2])],
                 weights=weights)  # fmt: skip
    x = rng.standard_normal(shape).astype(np.float32)
    made = FormulaParty().load(model)({"x": x})["y"]
    wave = x.reshape(len(x), 90, -1).astype(np.float64)
    wave = wave[..., 0] + (1j * wave[..., 1] if wave.shape[-1] == 2 else 0)
    frames = [np.fft.fft(wave[:, at : at + 40] * weights["window"]) for at in (0, 16, 32, 48)]
    expected = np.stack(frames, 1)[..., : 21 if onesided else 40]
    expected = np.stack([expected.real, expected.imag], -1)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-6)


def test_what_has_no_formula_is_refused() -> None:
    nodes = [helper.make_node("CastLike", ["x", "x"], ["y"])]
    model = make("one", nodes, [value("x", [4])], [value("y", [4])])
    with pytest.raises(BackendError, match="no formula for CastLike"):
        FormulaParty().load(model)
    with pytest.raises(
        BackendError, match="The reference evaluator uses CastLike from the onnx package"
    ):
        PackageParty().load(model)


def _array(value: Any) -> Any:
    is_proto = isinstance(value, onnx.TensorProto)
    return onnx.numpy_helper.to_array(value) if is_proto else np.asarray(value)


def test_a_cast_to_bfloat16_rounds_where_onnx_has_no_type_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(onnx.helper, "tensor_dtype_to_np_dtype", lambda _: np.dtype("float32"))
    nodes = [
        helper.make_node("Cast", ["x"], ["narrow"], to=onnx.TensorProto.BFLOAT16),
        helper.make_node("Cast", ["narrow"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    model = make("casts", nodes, [value("x", [2])], [value("y", [2])])
    made = FormulaParty().load(model)({"x": np.array([1.17597, 2], np.float32)})
    assert made["y"].tolist() == [1.1796875, 2]


@pytest.mark.thorough
def test_formulas_make_what_the_node_tests_of_the_onnx_package_expect() -> None:
    """Each may refuse a rare form, and is right about most."""
    right: set[str] = set()
    for case in collect_testcases(None):
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].domain or nodes[0].op_type not in FORMULAS:
            continue
        for inputs, outputs in case.data_sets:
            names = [name for name in nodes[0].input if name]
            given, expected = (list(map(_array, each)) for each in (inputs, outputs))
            try:
                evaluator = formula_evaluator(case.model)
                made = evaluator.run(None, dict(zip(names, given)))
            except Exception as error:
                assert "NotImplementedError" in repr(error), case.name
                continue
            right.add(nodes[0].op_type)
            for one, other in zip(made, expected):
                assert (one.shape, one.dtype) == (other.shape, other.dtype), case.name
                limit = 0.01 if other.dtype.itemsize < 4 else max(case.rtol or 0, 1e-4)
                np.testing.assert_allclose(
                    one.astype(np.float64), other.astype(np.float64), limit, 1e-5, err_msg=case.name
                )
    assert right >= {"RNN", "GRU", "LSTM", "GridSample", "ArgMax", "Expand", "Reshape", "Tile"}
    assert right >= {"Einsum", "GatherND", "GatherElements", "ScatterElements", "TopK", "Cast"}


def recurrent(draw: Callable[[Any], Any], op: str) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A node of a recurrent operator, with any of what it takes."""
    gates, functions = {"RNN": (1, 1), "GRU": (3, 2), "LSTM": (4, 3)}[op]
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    steps, batch, size, hidden = 4, 2, 3, 2
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    ways = 2 if direction == "bidirectional" else 1
    layout = draw(st.integers(0, 1))
    state = (batch, ways, hidden) if layout else (ways, batch, hidden)
    shapes: dict[str, tuple[int, ...]] = {
        "x": (batch, steps, size) if layout else (steps, batch, size),
        "w": (ways, gates * hidden, size),
        "r": (ways, gates * hidden, hidden),
        "b": (ways, 2 * gates * hidden),
        "h": state,
    }
    feed = {name: rng.standard_normal(of).astype(np.float32) for name, of in shapes.items()}
    names = ["x", "w", "r", "b", "", "h"]
    if draw(st.booleans()):
        names[4], feed["lengths"] = "lengths", np.array([4, 2], np.int32)
    if op == "LSTM":
        feed["c"] = rng.standard_normal(state).astype(np.float32)
        feed["p"] = rng.standard_normal((ways, 3 * hidden)).astype(np.float32)
        names += ["c", "p"]
    chosen = draw(
        st.lists(
            st.sampled_from(["Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh",
                             "Sigmoid", "Softplus", "Softsign", "Tanh", "ThresholdedRelu"]),
            min_size=functions * ways, max_size=functions * ways,
        )
    )  # fmt: skip
    how: dict[str, Any] = {"activations": chosen} if draw(st.booleans()) else {}
    if op != "LSTM" and draw(st.booleans()):
        how["clip"] = 0.7
    if op == "GRU":
        how["linear_before_reset"] = draw(st.integers(0, 1))
    if op == "LSTM":
        how["input_forget"] = draw(st.integers(0, 1))
    made = ["y", "yh", "yc"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(
        op, names, made, hidden_size=hidden, direction=direction, layout=layout, **how
    )
    kinds = {"lengths": onnx.TensorProto.INT32}
    inputs = [
        value(name, [*array.shape], kinds.get(name, onnx.TensorProto.FLOAT))
        for name, array in feed.items()
    ]
    return (
        make(
            "one",
            [node],
            inputs,
            [value(name, [None] * (4 if name == "y" else 3)) for name in made],
            opset=14,
        ),
        feed,
    )


@settings(max_examples=scaled(100), deadline=None)
@given(data=st.data(), op=st.sampled_from(["RNN", "GRU", "LSTM"]))
def test_recurrent_formulas_agree_with_the_evaluator_in_every_form(data: Any, op: str) -> None:
    model, feed = recurrent(data.draw, op)
    ours, theirs = (made(model).run(None, dict(feed)) for made in (formula_evaluator, evaluator_of))
    for one, other in zip(ours, theirs):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


@settings(max_examples=scaled(100), deadline=None)
@given(
    seed=st.integers(0, 2**20),
    mode=st.sampled_from(["linear", "nearest", "cubic"]),
    padding=st.sampled_from(["zeros", "border", "reflection"]),
    aligned=st.integers(0, 1),
    rank=st.integers(1, 3),
)
def test_the_formula_of_grid_sample_agrees_with_the_evaluator(
    seed: int, mode: str, padding: str, aligned: int, rank: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, 3, *rng.integers(1, 6, rank))).astype(np.float32)
    grid = rng.uniform(-2.5, 2.5, (2, *rng.integers(1, 5, rank), rank)).astype(np.float32)
    node = helper.make_node(
        "GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding, align_corners=aligned
    )
    inputs = [value("x", [*x.shape]), value("g", [*grid.shape])]
    model = make("one", [node], inputs, [value("y", [None] * (rank + 2))], opset=20)
    feed = {"x": x, "g": grid}
    ours, theirs = (results(made(model), feed) for made in (formula_evaluator, evaluator_of))
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


def test_the_package_computes_what_the_reference_has_of_its_own() -> None:
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["y"])]
    model = make("one", nodes, [value("x", [4])], [value("y", [4])], weights={"axis": np.int64(0)})
    made = PackageParty().load(model)({"x": np.array([0, 1, 0, 2], np.float32)})["y"]
    assert made.tolist() == [0, 1, 1, 3]


@pytest.mark.parametrize("op", ["ReduceL1", "ReduceMax", "ReduceProd", "ReduceSumSquare"])
def test_a_reduction_over_no_axes_reduces_every_element_alone(op: str) -> None:
    node = helper.make_node(op, ["x", "axes"], ["y"], keepdims=0, noop_with_empty_axes=1)
    inputs = [
        value("x", [2, 3], onnx.TensorProto.INT32),
        value("axes", [0], onnx.TensorProto.INT64),
    ]
    outputs = [value("y", [2, 3], onnx.TensorProto.INT32)]
    model = make("one", [node], inputs, outputs, opset=18)
    x = np.arange(-2, 4, dtype=np.int32).reshape(2, 3)
    made = FormulaParty().load(model)({"x": x, "axes": np.zeros(0, np.int64)})["y"]
    right = {"ReduceL1": abs(x), "ReduceSumSquare": x * x}.get(op, x)
    assert made.dtype == x.dtype
    np.testing.assert_array_equal(made, right)
