"""Casting models to narrower types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from polygraphy.adapters.onnx.cast.precision import (
    cast_precision,
    convert_to_bf16,
    convert_to_fp16,
)
from polygraphy.domain.errors import ModelError, UnknownNameError
from polygraphy.domain.tensors.datatype import DataType
from tests.adapters.onnx.running import alike, copied, run
from tests.support import classifier_files, models

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def parsed(text: str, opset: int = 17, functions: str = "") -> onnx.ModelProto:
    imports = f'"": {opset}' + (', "local": 1' if functions else "")
    return parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> {text} {functions}")


def cast(model: onnx.ModelProto, **kept: Any) -> onnx.ModelProto:
    made = cast_precision(model, DataType.FLOAT16, **kept)
    onnx.checker.check_model(made, full_check=True)
    return made


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def elem_types(model: onnx.ModelProto) -> dict[str, int]:
    return {tensor.name: tensor.data_type for tensor in model.graph.initializer}


def test_identity_becomes_three_nodes() -> None:
    made = cast(models.identity())
    assert ops(made) == ["Cast", "Identity", "Cast"]
    assert made.opset_import[0].version == 8
    assert [
        value.type.tensor_type.elem_type for value in (*made.graph.input, *made.graph.output)
    ] == [1, 1]


@pytest.mark.parametrize(
    "make", [models.mlp, models.conv_net, classifier_files.classifier], ids=lambda f: f.__name__
)
def test_everything_inside_computes_in_float16(make: Callable[[], onnx.ModelProto]) -> None:
    model = make()
    shape = [dim.dim_value or 2 for dim in model.graph.input[0].type.tensor_type.shape.dim]
    feed = {model.graph.input[0].name: np.random.default_rng(0).random(shape, np.float32)}
    made = cast(model)
    assert set(elem_types(made).values()) == {TensorProto.FLOAT16}
    assert ops(made).count("Cast") == len(model.graph.input) + len(model.graph.output)
    assert alike(run(model, **feed), run(made, **feed), rtol=1e-2)


@pytest.mark.parametrize("convert, copies", [(convert_to_fp16, True), (convert_to_bf16, False)])
def test_a_copy_is_made_when_asked_for(convert: Callable[..., Any], copies: bool) -> None:
    model = models.mlp()
    before = copied(model)
    made = convert(model, copy=copies)
    assert (model == before) is copies and (made is model) is not copies


def test_bfloat16_is_stated_everywhere() -> None:
    made = convert_to_bf16(models.mlp())
    onnx.checker.check_model(made, full_check=True)
    assert set(elem_types(made).values()) == {TensorProto.BFLOAT16}


def test_kept_nodes_and_types_get_their_operands_as_they_were() -> None:
    text = "m (float[2,4] x) => (float[2,4] y) { a = Relu(x)  [slow] b = Exp(a)  y = Neg(b) }"
    model = parsed(text)
    assert ops(cast(model)) == ["Cast", "Relu", "Exp", "Neg", "Cast"]
    for kept in ({"keep_ops": {"Exp"}}, {"keep_nodes": ["slow"]}):
        made = cast(model, **kept)
        assert ops(made) == ["Cast", "Relu", "Cast", "Exp", "Cast", "Neg", "Cast"]
        assert alike(run(model, x=X), run(made, x=X), rtol=1e-2)


def test_a_name_that_no_node_has_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="slower"):
        cast(models.mlp(), keep_nodes=["slower"])


def test_a_weight_that_is_used_in_both_types_has_both() -> None:
    text = """m (float[2,4] x) => (float[2,4] y) <float[4] w = {1, 2, 3, 4}>
    { a = Add(x, w)  [wide] b = Mul(a, w)  y = Neg(b) }"""
    model = parsed(text)
    made = cast(model, keep_nodes=["wide"])
    assert sorted(elem_types(made).values()) == [TensorProto.FLOAT, TensorProto.FLOAT16]
    assert elem_types(made)["w"] == TensorProto.FLOAT
    assert alike(run(model, x=X), run(made, x=X), rtol=1e-2)


def test_scales_of_resize_stay_float32() -> None:
    text = """m (float[1,1,2,4] x) => (float[1,1,4,8] y) <float[4] s = {1, 1, 2, 2}>
    { y = Resize<mode="nearest">(x, , s) }"""
    made = cast(parsed(text))
    assert elem_types(made) == {"s": TensorProto.FLOAT}
    assert run(made, x=X.reshape(1, 1, 2, 4))["y"].shape == (1, 1, 4, 8)


def test_attributes_that_name_a_type_follow() -> None:
    text = """m (int64[2,4] i) => (float[2,4] y) {
    a = Cast<to=1>(i)  c = Constant<value_float=0.5>()  s = Shape(a)
    z = ConstantOfShape(s)  d = Add(a, c)  e = Add(d, z)  r = RandomUniform<shape=[2,4]>()
    f = Mul(r, z)  y = Add(e, f) }"""
    model = parsed(text)
    made = cast(model)
    by_op = {node.op_type: node for node in made.graph.node}
    assert by_op["Constant"].attribute[0].t.data_type == TensorProto.FLOAT16
    assert by_op["ConstantOfShape"].attribute[0].t.data_type == TensorProto.FLOAT16
    casts = {
        node.output[0]: node.attribute[0].i for node in made.graph.node if node.op_type == "Cast"
    }
    assert casts == {
        "a": TensorProto.FLOAT16,
        "r_fp16": TensorProto.FLOAT16,
        "y": TensorProto.FLOAT,
    }
    feed = {"i": np.arange(8).reshape(2, 4)}
    assert alike(run(model, **feed), run(made, **feed), rtol=1e-2)


def test_both_branches_and_what_they_take_from_outside() -> None:
    text = """m (float[2,4] x, bool c) => (float[2,4] y) <float[4] w = {1, 2, 3, 4}> {
    a = Relu(x)
    b = If(c) <then_branch = t () => (float[2,4] p) { p = Add(a, w) },
               else_branch = e () => (float[2,4] q) { q = Exp(x) }>
    y = Neg(b) }"""
    model = parsed(text)
    made = cast(model)
    branch = next(node for node in made.graph.node if node.op_type == "If").attribute[0].g
    assert branch.output[0].type.tensor_type.elem_type == TensorProto.FLOAT16
    assert elem_types(made) == {"w": TensorProto.FLOAT16}
    for chosen in (True, False):
        feed = {"x": X, "c": np.array(chosen)}
        assert alike(run(model, **feed), run(made, **feed), rtol=1e-2)
    kept = cast(model, keep_ops={"If"})
    assert alike(run(model, x=X, c=np.array(True)), run(kept, x=X, c=np.array(True)), rtol=1e-2)


def test_a_loop_carries_narrow_values() -> None:
    text = """m (float[2,4] x) => (float[2,4] y) <int64 n = {3}, bool c = {1}> {
    y = Loop(n, c, x) <body = b (int64 i, bool ci, float[2,4] s) => (bool co, float[2,4] r)
    { co = Identity(ci)  r = Add(s, s) }> }"""
    model = parsed(text)
    made = cast(model)
    body = next(node for node in made.graph.node if node.op_type == "Loop").attribute[0].g
    assert body.input[2].type.tensor_type.elem_type == TensorProto.FLOAT16
    assert "Cast" not in [node.op_type for node in body.node]
    assert alike(run(model, x=X), run(made, x=X), rtol=1e-2)


def test_a_loop_that_does_not_accept_bfloat16_stays_in_float32() -> None:
    text = """m (float[2,4] x) => (float[2,4] y) <int64 n = {3}, bool c = {1}> {
    a = Neg(x) y = Loop(n, c, a) <body = b (int64 i, bool ci, float[2,4] s)
    => (bool co, float[2,4] r) { co = Identity(ci)  r = Add(s, s) }> }"""
    made = convert_to_bf16(parsed(text, opset=13))
    onnx.checker.check_model(made, full_check=True)
    body = next(node for node in made.graph.node if node.op_type == "Loop").attribute[0].g
    assert body.input[2].type.tensor_type.elem_type == TensorProto.FLOAT


def test_a_constant_that_does_not_accept_bfloat16_stays_in_float32() -> None:
    text = """m (float[4,4] x) => (float[4,4] y) {
    a = Neg(x)  size = Shape(a)  s = ConstantOfShape<value = float[1] {2.0}>(size)  y = Mul(a, s) }"""
    made = convert_to_bf16(parsed(text))
    onnx.checker.check_model(made, full_check=True)
    constant = next(node for node in made.graph.node if node.op_type == "ConstantOfShape")
    assert constant.attribute[0].t.data_type == TensorProto.FLOAT


FUNCTION = """<domain: "local", opset_import: ["": 17]>
scaled (v) => (r) { k = Constant<value_float=2.0>()  r = Mul(v, k) }"""


def test_a_function_is_cast_with_its_calls() -> None:
    model = parsed(
        "m (float[2,4] x) => (float[2,4] y) { a = local.scaled(x)  y = Neg(a) }", functions=FUNCTION
    )
    made = cast(model)
    assert made.functions[0].node[0].attribute[0].t.data_type == TensorProto.FLOAT16
    assert alike(run(model, x=X), run(made, x=X), rtol=1e-2)


def test_a_function_that_is_called_differently_stays() -> None:
    text = """m (float[2,4] x, double[2] z) => (float[2,4] y, double[2] u)
    { a = local.identity(x)  y = Neg(a)  u = local.identity(z) }"""
    function = '<domain: "local", opset_import: ["": 17]> identity (v) => (r) { r = Identity(v) }'
    model = parsed(text, functions=function)
    feed = {"x": X, "z": np.array([1e-9, 1e300])}
    made = cast(model)
    assert made.functions[0] == model.functions[0]
    assert alike(run(model, **feed), run(made, **feed), rtol=1e-2)


def test_what_an_unknown_operator_makes_stays_as_it_is() -> None:
    made = cast_precision(models.custom_op(), DataType.FLOAT16)
    custom = next(node for node in made.graph.node if node.domain)
    casts = {node.output[0]: node for node in made.graph.node if node.op_type == "Cast"}
    wide = [name for name in custom.input if name not in casts or casts[name].attribute[0].i == 1]
    assert wide == list(custom.input)


def test_overflow_is_clamped_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    model = models.make(
        "mask",
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [models.value("x", (3,))],
        [models.value("y", (3,))],
        weights={"w": np.array([-3e38, 1e-12, 1], np.float32)},
    )
    made = cast(model)
    [weight] = made.graph.initializer
    assert numpy_helper.to_array(weight).tolist() == [-65504.0, 0.0, 1.0]
    said = capsys.readouterr().out
    assert "Weight 'w' does not fit in float16" in said and "1 too large (up to 3e+38)" in said
    assert "1 too small and set to zero" in said


def test_old_opsets_are_refused() -> None:
    with pytest.raises(ModelError, match="opset 8"):
        convert_to_bf16(models.identity())


def test_weights_that_are_not_loaded_are_refused() -> None:
    model = models.mlp()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    with pytest.raises(ModelError, match=r"weights\.bin"):
        convert_to_fp16(model)


def test_what_is_said_about_tensors_inside_is_said_of_their_new_type() -> None:
    model = onnx.shape_inference.infer_shapes(classifier_files.classifier())
    made = cast(model)
    types = {value.name: value.type.tensor_type.elem_type for value in made.graph.value_info}
    assert set(types.values()) == {TensorProto.FLOAT16} and "intermediate" in types


def test_what_only_asks_for_a_shape_takes_what_there_is() -> None:
    text = """m (float[2,4] x) => (float[2,4] y, int64[2] s) <float[4] w = {1, 2, 3, 4}>
    { a = Add(x, w)  s = Shape(a)  [wide] b = Neg(a)  y = Exp(b) }"""
    made = cast(parsed(text), keep_nodes=["wide"])
    assert ops(made).count("Cast") == 4 and list(made.graph.node[2].input) == ["a"]


def test_names_documentation_and_metadata_are_kept() -> None:
    model = models.mlp()
    model.doc_string, model.graph.doc_string = "about", "graph"
    model.metadata_props.add(key="k", value="v")
    model.opset_import.add(domain="other", version=3)
    model.graph.initializer[0].doc_string = "weight"
    model.graph.quantization_annotation.add(tensor_name="x")
    made = cast(model)
    assert (made.doc_string, made.graph.doc_string) == ("about", "graph")
    assert made.metadata_props == model.metadata_props and made.opset_import == model.opset_import
    assert made.graph.initializer[0].doc_string == "weight"
    assert made.graph.quantization_annotation == model.graph.quantization_annotation
    assert [node.name for node in model.graph.node if node.name] == [
        node.name for node in made.graph.node if node.op_type != "Cast"
    ]


def test_a_node_without_a_name_is_named_by_what_it_computes() -> None:
    text = "m (float[2,4] x) => (float[2,4] y) { a = Relu(x)  [slow] b = Exp(a)  y = Neg(b) }"
    made = cast(parsed(text), keep_nodes=["a"])
    assert ops(made) == ["Relu", "Cast", "Exp", "Neg", "Cast"]
    with pytest.raises(UnknownNameError, match="'b' does not exist"):
        cast(parsed(text), keep_nodes=["b"])  # That node has a name.
