"""Models whose nodes are in no order in which they can be computed, graphs without a name, and
weights that are no inputs where the version of the format wants them to be: converters leave all
of these, and backends run them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import parser

from polygraphy.adapters.onnx.graph.graph import is_in_order, sort_model
from polygraphy.backend.onnx import OnnxReferenceRunner, convert_to_fp16
from polygraphy.domain.errors import ModelError
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.surgeon import (
    check_model,
    clean_up,
    copy_nodes,
    extract,
    prune_weights,
    reconstruct_weights,
    simplify,
    strip_weights,
)
from tests.adapters.onnx.running import run

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
    m (float[2, 64] x, bool c) => (float[2, 64] y) <float[64, 64] w> {
        b = If (c) <
            then_branch = t () => (float[2, 64] bt) { bt = Neg(ht) ht = Abs(a) },
            else_branch = e () => (float[2, 64] be) { be = Identity(a) }
        >
        y = Add(b, k)
        a = MatMul(x, v)
        v = Identity(w)
        k = Constant<value = float[1] {0.5}>()
    }"""
X = np.random.default_rng(0).standard_normal((2, 64), np.float32)


def unordered() -> onnx.ModelProto:
    model: onnx.ModelProto = parser.parse_model(TEXT)
    del model.graph.initializer[:]
    weight = np.random.default_rng(1).standard_normal((64, 64), np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return model


def unnamed() -> onnx.ModelProto:
    model = sort_model(unordered())
    model.graph.name = ""
    next(node for node in model.graph.node if node.op_type == "If").attribute[0].g.name = ""
    return model


def undeclared() -> onnx.ModelProto:
    text = """<ir_version: 3, opset_import: ["" : 9]> m (float[2, 4] x) => (float[2, 4] y)
        <float[4, 4] w = {1,2,3,4, 5,6,7,8, 9,8,7,6, 5,4,3,2}, float[4] b = {1, 2, 3, 4}>
        { a = MatMul(x, w) y = Add(a, b) }"""
    model: onnx.ModelProto = parser.parse_model(text)
    return model


def _other(model: onnx.ModelProto) -> onnx.ModelProto:
    other = unordered()
    other.graph.node[2].op_type = "Gemm"
    return copy_nodes(other, model)


EDITS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "nothing": lambda model: model,
    "extract": lambda model: extract(model, None, TensorMetadata().add("y", None, None)),
    "strip": strip_weights,
    "reconstruct": lambda model: reconstruct_weights(strip_weights(model)),
    "clean up": clean_up,
    "copy": _other,
    "prune": prune_weights,
    "simplify": simplify,
    "fp16": convert_to_fp16,
    "fp16 of a copy": lambda model: convert_to_fp16(model, copy=True),
}


@pytest.mark.parametrize("make", [unordered, unnamed])
@pytest.mark.parametrize("name", EDITS)
def test_edits_take_such_models(name: str, make: Callable[[], onnx.ModelProto]) -> None:
    made = check_model(EDITS[name](make()))
    onnx.checker.check_model(made)
    assert is_in_order(made.graph)
    if name not in ("strip", "reconstruct", "prune"):
        for chosen in (False, True):
            want = run(sort_model(unordered()), x=X, c=np.array(chosen))["y"]
            got = run(made, x=X, c=np.array(chosen))["y"]
            np.testing.assert_allclose(got, want, *((0.1, 0.1) if "fp16" in name else (1e-5, 1e-5)))


def test_the_reference_evaluator_runs_them_and_leaves_them_alone() -> None:
    model = unordered()
    with OnnxReferenceRunner(model) as runner:
        made = runner.infer({"x": X, "c": np.array(True)})["y"]
    np.testing.assert_allclose(made, run(sort_model(model), x=X, c=np.array(True))["y"], 1e-4, 1e-4)
    assert model == unordered()


def test_circles_are_said_to_be_such() -> None:
    circle = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[2] x) => (float[2] y)'
        " { a = Add(x, b) b = Neg(a) y = Abs(b) }"
    )
    with pytest.raises(ModelError, match="topologically sorted"):
        check_model(circle)


@pytest.mark.parametrize("change", ["weight", "operator"])
def test_what_differs_is_copied_where_weights_are_no_inputs(change: str) -> None:
    right, wrong = undeclared(), undeclared()
    if change == "weight":
        wrong.graph.initializer[0].float_data[3] = 9
    else:
        wrong.graph.node[1].op_type = "Sub"
    made = check_model(copy_nodes(wrong, right))
    onnx.checker.check_model(made)
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(run(made, x=x)["y"], run(right, x=x)["y"])
