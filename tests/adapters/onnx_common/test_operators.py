"""What the reference evaluator computes, against ONNX Runtime without optimization and
against formulas in float64, over random shapes and attributes at every version of the operators.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.onnx_common.evaluator import IMPLIED, OPERATORS, evaluator_of
from polygraphy.backend.onnx import OnnxReferenceRunner
from tests.adapters.onnx_common.formulas import FORMULAS
from tests.support import random_nodes
from tests.support.examples import scaled
from tests.support.models import classifier, make, value

ort = pytest.importorskip("onnxruntime")

ALL = [(op, v) for op in sorted(random_nodes.OPERATORS) for v in random_nodes.versions(op)]
SEEDS = range(max(2, scaled(6)))
OLDER = tuple(map(int, ort.__version__.split(".")[:2])) < (1, 32)


def evaluated(model: onnx.ModelProto, feed: dict[str, Any]) -> list[Any]:
    with OnnxReferenceRunner(model) as runner:
        outputs = runner.infer(feed)
    return [outputs[value.name] for value in model.graph.output]


def in_onnx_runtime(model: onnx.ModelProto, feed: dict[str, Any]) -> list[Any] | None:
    """Return the outputs, or None where ONNX Runtime has no kernel or refuses the attributes."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        made: list[Any] = session.run(None, feed)
    except Exception:
        return None
    return made


def differs_in_onnx_runtime(node: onnx.NodeProto, feed: dict[str, Any], opset: int) -> bool:
    """Return whether ONNX Runtime is known to depart from the standard at this node, or the
    standard does not say what it computes.
    """
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    is_padded = attrs.get("auto_pad", b"").startswith(b"SAME") or attrs.get("ceil_mode")
    if node.op_type.endswith("Pool") and is_padded and OLDER:  # Windows of padding alone.
        return True
    if node.op_type == "LpPool":  # Padding is negative where windows are smaller than strides.
        return attrs.get("auto_pad", b"").startswith(b"SAME")
    if node.op_type == "Dropout":  # What the mask is in inference.
        return opset == 10 and len(node.output) > 1
    if node.op_type in ("GRU", "LSTM", "RNN"):  # Overflows.
        return b"Softplus" in attrs.get("activations", [])
    if node.op_type == "Resize":
        how = attrs.get("coordinate_transformation_mode", b"")
        # The length of the result is rounded first; axes of unchanged length are not cropped.
        if how in (b"align_corners", b"tf_crop_and_resize"):
            return True
        scales = feed.get("x1") if opset == 10 else feed.get("x2")
        if scales is None or not scales.size:
            return False
        sizes = feed["x0"].shape[-len(scales) :]
        return any(f != 1 and int(f * n) == n for f, n in zip(scales, sizes))
    return False


def assert_close(found: Any, wanted: Any, what: str) -> None:
    assert found.shape == wanted.shape, what
    assert found.dtype == wanted.dtype, what
    if found.dtype.kind in "fc":
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5, err_msg=what)
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=what)


@pytest.mark.parametrize("op, opset", ALL, ids=str)
def test_operators_agree_with_onnx_runtime(op: str, opset: int) -> None:
    if OLDER and op in ("Attention", "AveragePool"):
        pytest.skip("ONNX Runtime below 1.32 departs from the standard")
    compared = 0
    for seed in SEEDS:
        model, feed = random_nodes.random_node(op, opset, seed)
        node = model.graph.node[0]
        theirs = in_onnx_runtime(model, feed)
        if theirs is None or differs_in_onnx_runtime(node, feed, opset):
            continue
        ours = evaluated(model, feed)
        what = f"{op} {opset}, seed {seed}: {onnx.helper.printable_node(node)}"
        for found, wanted in zip(ours, theirs, strict=True):
            assert_close(np.asarray(found), np.asarray(wanted), what)
        compared += 1
    if not compared:
        pytest.skip("ONNX Runtime does not run this version")


def _has_formula(op: str, opset: int, model: onnx.ModelProto) -> bool:
    attrs = {a.name for a in model.graph.node[0].attribute}
    if op in ("Add", "Mul", "Sub"):
        return opset < 7
    if op == "DequantizeLinear":
        return "block_size" not in attrs
    return "activations" not in attrs


@given(
    version=st.sampled_from([(op, v) for op, v in ALL if op in FORMULAS]),
    seed=st.integers(0, 2**20),
)
def test_operators_agree_with_formulas(version: tuple[str, int], seed: int) -> None:
    op, opset = version
    model, feed = random_nodes.random_node(op, opset, seed)
    if not _has_formula(op, opset, model):
        return
    node = model.graph.node[0]
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attrs = {k: v.decode() if isinstance(v, bytes) else v for k, v in attrs.items()}
    operands = [feed[name].astype(np.float64) if name else None for name in node.input]
    wanted = FORMULAS[op](*operands, opset=opset, **attrs)
    found = np.asarray(evaluated(model, feed)[0])
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2e-5, atol=2e-6)


@given(op=st.sampled_from(["Softmax", "LogSoftmax"]), far=st.floats(50, 1e4))
def test_logarithms_of_small_probabilities_are_finite(op: str, far: float) -> None:
    x = np.array([[0, far]], dtype=np.float32)
    model, feed = random_nodes.node_model(op, 13, [x], {})
    (found,) = evaluated(model, feed)
    wanted = [-far, 0] if op == "LogSoftmax" else [np.exp(-far), 1]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize(
    "op, inputs",
    [
        ("GroupNormalization", [(2, 4, 3), (2,), (2,)]),
        ("LayerNormalization", [(2, 4), (4,)]),
        ("MeanVarianceNormalization", [(2, 3, 4, 4)]),
        ("ReduceSum", [(4000,)]),
        ("Gelu", [(40,)]),
    ],
)
def test_half_precision_is_rounded_once(op: str, inputs: list[Any]) -> None:
    rng = np.random.default_rng(0)
    operands = [rng.uniform(-2, 2, shape).astype(np.float16) for shape in inputs]
    attrs = {"num_groups": 2}
    opset = {"GroupNormalization": 18, "Gelu": 20}.get(op, 17)
    attrs = attrs if op == "GroupNormalization" else {}
    if op == "GroupNormalization" and opset not in random_nodes.versions(op):
        opset, operands[1:] = 21, [np.repeat(value, 2) for value in operands[1:]]
    halves = evaluated(*random_nodes.node_model(op, opset, operands, attrs))[0]
    doubles = evaluated(
        *random_nodes.node_model(op, opset, [o.astype(np.float64) for o in operands], attrs)
    )[0]
    np.testing.assert_array_equal(halves, doubles.astype(np.float16))


def test_every_row_of_the_table_is_a_version_of_an_operator() -> None:
    for op, rows in OPERATORS.items():
        known = [s for s in onnx.defs.get_all_schemas_with_history() if s.name == op]
        known = [s.since_version for s in known if s.domain == ""]
        assert rows[0][0] in known, op
        for (_, last, _), (first, _, _) in itertools.pairwise(rows):
            assert first == last + 1 and first in known, op
    for op, opset in IMPLIED:
        assert onnx.defs.get_schema(op, opset, "").since_version == opset


def test_every_operator_that_is_computed_here_has_random_nodes() -> None:
    # What takes no tensors has tests of its own beside the evaluator's.
    others = {"Loop", "Optional", "OptionalHasElement", "Scan"}
    assert set(OPERATORS) - set(random_nodes.OPERATORS) == others


@pytest.mark.parametrize("depth", [np.array(5), np.array([5])], ids=["a number", "a list of one"])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_takes_its_depth_in_either_form(depth: Any, axis: int) -> None:
    helper = onnx.helper
    node = helper.make_node("OneHot", ["i", "depth", "values"], ["y"], axis=axis)
    weights = {"depth": depth, "values": np.array([-2.0, 7.0], np.float32)}
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [2, 3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    feed = {"i": np.array([[0, 4, -1], [2, 9, -5]])}
    [made], [wanted] = evaluated(model, feed), in_onnx_runtime(model, feed) or [None]
    np.testing.assert_array_equal(made, wanted)
    assert made.dtype == np.float32


@pytest.mark.parametrize("shape", [(2, 40), (2, 40, 1), (2, 40, 2)])
def test_spectra_are_those_of_onnx_runtime_for_any_form_of_a_signal(shape: Any) -> None:
    """Exporters write real signals with and without a last axis of one element."""
    rng = np.random.default_rng(0)
    weights = {"step": np.array(3), "window": rng.random(8).astype(np.float32)}
    node = onnx.helper.make_node("STFT", ["x", *weights], ["y"], onesided=int(shape[-1] != 2))
    model = make("net", [node], [value("x", shape)], [value("y", [None] * 4)], weights=weights)
    feed = {"x": rng.standard_normal(shape).astype(np.float32)}
    [wanted] = in_onnx_runtime(model, feed) or [None]
    assert wanted is not None
    [found] = evaluated(model, feed)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_long_kernels_of_one_channel_are_convolved_as_in_onnx_runtime() -> None:
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((6, 1, 40)).astype(np.float32)}
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], group=2, strides=[3], dilations=[2])
    model = make(
        "net", [node], [value("x", (2, 2, 200))], [value("y", [None] * 3)], weights=weights
    )
    feed = {"x": rng.standard_normal((2, 2, 200)).astype(np.float32)}
    [wanted], [found] = in_onnx_runtime(model, feed) or [None], evaluated(model, feed)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_maps_from_classes_to_scores_are_those_of_onnx_runtime() -> None:
    model = classifier()
    model.graph.output.insert(0, onnx.ValueInfoProto(name="s"))
    x = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    scores, made = evaluator_of(model).run(None, {"x": x})
    assert made == [dict(zip("abc", row)) for row in scores.tolist()]
    [_, expected] = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert [list(row) for row in made] == [list(row) for row in expected]
    np.testing.assert_allclose(
        [[*row.values()] for row in made], [[*row.values()] for row in expected], rtol=1e-6
    )
