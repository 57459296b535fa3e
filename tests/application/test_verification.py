"""What is tolerated of an edited model that computes in a narrow type."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from polygraphy.adapters.onnx.run.half_precision import OnnxNarrowModels
from polygraphy.application.compare.verification import verify
from polygraphy.backend.onnx import convert_to_fp16
from polygraphy.comparator import SimpleCompareFunc
from polygraphy.domain.tensors.datatype import DataType
from tests.support.models import make, value

FEED = {"x": np.random.RandomState(3).randn(8, 64).astype(np.float32)}
Captured = pytest.CaptureFixture[str]


def sensitive(scale: float = 6, *, as_nodes: bool = False) -> onnx.ModelProto:
    """Sums of large products that cancel out: what their weights lose is more than is usual."""
    weight = scale * np.random.RandomState(7).randn(64, 64).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["long"], "product"),
        helper.make_node("Identity", ["long"], ["same"], "middle"),
        helper.make_node("Add", ["same", "zero"], ["y"], "sum"),
    ]
    tensors = {"w": weight, "zero": np.zeros(1, np.float32)}
    constants = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
        for name, array in tensors.items()
    ]
    return make(
        "sensitive",
        [*constants, *nodes] if as_nodes else nodes,
        [value("x", [8, 64])],
        [value("y", [8, 64])],
        weights=None if as_nodes else tensors,
    )


def returning_bfloat16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Cast the output of a model to bfloat16, for which NumPy has no kind."""
    [output] = model.graph.output
    cast = helper.make_node("Cast", [output.name], ["z"], "cast", to=onnx.TensorProto.BFLOAT16)
    model.graph.node.append(cast)
    output.CopyFrom(value("z", [8, 64], onnx.TensorProto.BFLOAT16))
    return model


def told_of(narrow: onnx.ModelProto, model: onnx.ModelProto, capsys: Captured) -> tuple[bool, str]:
    """Verify a narrow model; return whether it passed, and what was said."""
    capsys.readouterr()
    passed = bool(verify(model, narrow, [FEED], SimpleCompareFunc(rtol=1e-2, atol=1e-2)))
    return passed, capsys.readouterr().out


@pytest.mark.parametrize("as_nodes", [False, True])
def test_what_rounding_the_weights_explains_is_tolerated(as_nodes: bool, capsys: Captured) -> None:
    model = sensitive(as_nodes=as_nodes)
    passed, said = told_of(convert_to_fp16(model), model, capsys)
    assert passed
    assert (
        "Output 'y': rounding the weights to float16 alone makes 0.0355, so abs=0.071 is tolerated"
        " instead of abs=0.01." in said
    )
    assert "instead of" not in told_of(convert_to_fp16(sensitive(0.1)), sensitive(0.1), capsys)[1]


def test_outputs_in_bfloat16_are_tolerated_the_same(capsys: Captured) -> None:
    model = returning_bfloat16(sensitive(60))
    narrow = returning_bfloat16(convert_to_fp16(sensitive(60)))
    _, said = told_of(narrow, model, capsys)
    assert "Output 'z': rounding the weights to float16 alone" in said


@pytest.mark.parametrize("op", ["Log", "Neg", "Tanh", "Round"])
def test_a_fault_is_more_than_rounding(op: str, capsys: Captured) -> None:
    model = sensitive()
    narrow = convert_to_fp16(model)
    [node] = [each for each in narrow.graph.node if each.name == "middle"]
    node.op_type = op
    passed, said = told_of(narrow, model, capsys)
    assert not passed and "rounding the inputs" not in said


def test_weights_that_do_not_fit_are_no_rounding(capsys: Captured) -> None:
    model = sensitive(6e4)  # Some of them become 65504; the products are infinite.
    assert told_of(convert_to_fp16(model), model, capsys)[0] is False
    model = sensitive(3e4)
    model.graph.node[1].op_type = "Tanh"  # Which hides that.
    assert told_of(convert_to_fp16(model), model, capsys)[0] is False


def test_where_rounding_decides_everything_no_more_than_five_times_as_much_is_tolerated(
    capsys: Captured,
) -> None:
    model = sensitive(1000)
    model.graph.node[1].op_type = "Sin"
    passed, said = told_of(convert_to_fp16(model), model, capsys)
    assert not passed
    assert "so abs=0.05 is tolerated instead of abs=0.01" in said
    assert "Output 'y': rounding the inputs to float16 alone changes it by" in said
    assert "that sensitive" in said


def test_weights_of_nodes_that_stay_in_float32_are_not_rounded() -> None:
    model = sensitive()
    [before] = [each for each in model.graph.initializer if each.name == "w"]
    for keep_nodes, is_rounded in (([], True), (["product"], False)):
        narrow = convert_to_fp16(model, keep_nodes=keep_nodes)
        found = OnnxNarrowModels().with_rounded_weights(model, narrow)
        assert found is not None and found[1] == DataType.FLOAT16
        [after] = [each for each in found[0].graph.initializer if each.name == "w"]
        changed = numpy_helper.to_array(after) - numpy_helper.to_array(before)
        assert (changed.any(), np.abs(changed).max() < 0.01) == (is_rounded, True)
    assert OnnxNarrowModels().with_rounded_weights(model, model) is None
