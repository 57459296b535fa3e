"""What is cast can be chosen by operator and by name, and the model computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, parser

from polygraphy.backend.onnx import convert_to_bf16, convert_to_fp16
from polygraphy.domain.errors import UnknownNameError

MODEL = """
<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
chosen (float[2,4] X, bool c) => (float[2,4] Y, float[2,4] R)
<float[4,4] W = {1,2,0,0,0,1,0,0,0,0,1,0,0,3,0,1}>
{
    [first] a = MatMul(X, W)
    [relu] R = Relu(a)
    [choice] b = If (c) <
        then_branch = g1 () => (float[2,4] t) { [inside] t = MatMul(R, W) },
        else_branch = g2 () => (float[2,4] e) { e = Neg(R) }
    >
    d = own.Twice(b)
    [last] Y = Softmax(d)
}
<domain: "own", opset_import: ["" : 17]>
Twice (x) => (y) { [in_function] y = Add(x, x) }
"""


@pytest.fixture
def model() -> ModelProto:
    made = parser.parse_model(MODEL)
    for node, name in zip(made.graph.node, ("first", "relu", "choice", "", "last")):
        node.name = name
    made.graph.node[2].attribute[0].g.node[0].name = "inside"
    onnx.checker.check_model(made, full_check=True)
    return made


def run(model: ModelProto) -> list[Any]:
    dtype = model.graph.input[0].type.tensor_type.elem_type
    given = np.linspace(-1, 1, 8).reshape(2, 4)
    feed = {
        "X": given.astype(np.float16 if dtype == TensorProto.FLOAT16 else np.float32),
        "c": np.array(True),
    }
    session = onnxruntime.InferenceSession(model.SerializeToString())
    assert [value.name for value in session.get_outputs()] == ["Y", "R"]
    outputs: list[Any] = session.run(None, feed)
    return outputs


def narrow(model: ModelProto) -> set[str]:
    """Return the names of nodes that compute in float16, by inferred types."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)

    def walk(graph: onnx.GraphProto) -> set[str]:
        types = {
            value.name: value.type.tensor_type.elem_type
            for value in (*graph.value_info, *graph.output)
        }
        found = set()
        for node in graph.node:
            if types.get(node.output[0]) == TensorProto.FLOAT16 and node.op_type != "Cast":
                found.add(node.name or node.op_type)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    found |= walk(attribute.g)
        return found

    return walk(inferred.graph)


def check_same(model: ModelProto, made: ModelProto) -> None:
    onnx.checker.check_model(made, full_check=True)
    for before, after in zip(run(model), run(made)):
        np.testing.assert_allclose(after.astype(np.float32), before, rtol=1e-2, atol=1e-2)


EVERYTHING = {"first", "relu", "choice", "inside", "Neg", "Twice", "last"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, EVERYTHING),
        ({"keep_ops": ["Softmax"]}, EVERYTHING - {"last"}),
        ({"keep_nodes": ["relu"]}, EVERYTHING - {"relu"}),
        ({"keep_ops": ["If"]}, EVERYTHING - {"choice", "inside", "Neg"}),
        ({"only_ops": ["MatMul"]}, {"first", "inside"}),
        ({"only_ops": ["MatMul"], "keep_nodes": ["inside"]}, {"first"}),
        ({"only_nodes": ["inside"]}, {"inside"}),
        ({"only_nodes": ["relu"], "only_ops": ["Softmax"]}, {"relu", "last"}),
        ({"only_ops": ["Twice"]}, {"Twice"}),
    ],
)
@pytest.mark.parametrize("cast_io", [False, True])
def test_exactly_what_was_chosen_is_cast(
    model: ModelProto, options: dict[str, Any], expected: set[str], cast_io: bool
) -> None:
    made = convert_to_fp16(model, copy=True, cast_io=cast_io, **options)
    assert narrow(made) == expected
    check_same(model, made)


def test_inputs_and_outputs_keep_their_types_unless_they_are_to_be_cast(
    model: ModelProto,
) -> None:
    def types(made: ModelProto) -> list[int]:
        values = (*made.graph.input, *made.graph.output)
        return [value.type.tensor_type.elem_type for value in values]

    wide, narrow, boolean = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BOOL
    assert types(convert_to_fp16(model, copy=True)) == [wide, boolean, wide, wide]
    made = convert_to_fp16(model, copy=True, cast_io=True)
    assert types(made) == [narrow, boolean, narrow, narrow]
    assert all(node.op_type != "Cast" for node in made.graph.node)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_nodes": ["relo"]}, "'relo'.*'relu'"),
        ({"only_nodes": ["nobody"]}, "Node 'nobody'"),
        ({"only_ops": ["Matmul"]}, "Operator type 'Matmul'.*Did you mean 'MatMul'"),
    ],
)
def test_names_that_nothing_goes_by_are_reported(
    model: ModelProto, options: dict[str, Any], message: str
) -> None:
    before = model.SerializeToString(deterministic=True)
    with pytest.raises(UnknownNameError, match=message):
        convert_to_fp16(model, **options)
    assert model.SerializeToString(deterministic=True) == before


def test_the_log_says_what_weights_lost(
    model: ModelProto, capsys: pytest.CaptureFixture[str]
) -> None:
    model.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.full((4, 4), 1.001, np.float32), "W")
    )
    convert_to_bf16(model, copy=True)
    said = capsys.readouterr().out
    assert "Converted 1 weight to bfloat16; the largest error is 0.001, in 'W'." in said
    model.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.ones((4, 4), np.float32), "W")
    )
    convert_to_bf16(model, copy=True)
    assert "all exact" in capsys.readouterr().out


def test_operators_that_are_never_cast_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[2,4] x) => (float[2,4] y) { a = com.microsoft.FastGelu(x) y = Relu(a) }""")
    assert [node.op_type for node in convert_to_fp16(model).graph.node].count("Cast") == 2
    assert "stay in fp32, because they are not ONNX" in (said := capsys.readouterr().out)
    assert "com.microsoft.FastGelu." in said
