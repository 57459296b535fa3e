"""Cutting a part out of a model."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from polygraphy.adapters.onnx.edit.extraction import extract, extract_subgraph
from polygraphy.adapters.onnx.graph.graphsurgeon import gs_from_onnx
from polygraphy.domain.errors import PolygraphyException, UnknownNameError, UsageError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata
from tests.adapters.onnx.running import alike, run
from tests.support import classifier_files, models


def named(*names: str) -> TensorMetadata:
    made = TensorMetadata()
    for name in names:
        made.add(name, None, None)
    return made


def shape_of(value: onnx.ValueInfoProto) -> list[object]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def parsed(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')


def test_what_lies_between_is_left_with_its_weights() -> None:
    made = extract_subgraph(
        classifier_files.classifier(), named("relu1_output"), named("intermediate")
    )
    onnx.checker.check_model(made, full_check=True)
    assert [node.name for node in made.graph.node] == ["pool1", "sensitive_layer"]
    assert {tensor.name for tensor in made.graph.initializer} == {"conv2.weight", "conv2.bias"}
    assert shape_of(made.graph.input[0]) == ["batch", 8, 56, 56]
    assert shape_of(made.graph.output[0]) == ["batch", 16, 14, 14]


def test_both_halves_compute_what_the_whole_does() -> None:
    feed = {"input": np.random.default_rng(0).random((2, 3, 224, 224), np.float32)}
    first = extract_subgraph(classifier_files.classifier(), None, named("intermediate"))
    second = extract_subgraph(classifier_files.classifier(), named("intermediate"), None)
    assert alike(
        run(classifier_files.classifier(), **feed), run(second, **run(first, **feed)), rtol=1e-5
    )


def test_given_types_and_shapes_count() -> None:
    inputs = TensorMetadata().add("relu1_output", DataType.FLOAT32, ["n", 8, None, 56])
    made = extract_subgraph(classifier_files.classifier(), inputs, named("intermediate"))
    assert shape_of(made.graph.input[0]) == ["n", 8, 0, 56]
    wrong = TensorMetadata().add("relu1_output", DataType.FLOAT16, None)
    with pytest.raises(UsageError, match="float32, not float16"):
        extract_subgraph(classifier_files.classifier(), wrong)


def test_mistakes_are_reported() -> None:
    with pytest.raises(UnknownNameError, match="relu1_output"):
        extract_subgraph(classifier_files.classifier(), named("relu1_outputs"))
    with pytest.raises(UsageError, match="'mask', which is not among"):
        extract_subgraph(classifier_files.masked_mean(), named("image"))
    with pytest.raises(UsageError, match="without outputs"):
        extract_subgraph(classifier_files.classifier(), None, TensorMetadata())


def test_what_is_not_known_is_an_error_or_found_out_by_running() -> None:
    unknown = models.custom_op()
    [inner] = [node.output[0] for node in unknown.graph.node if node.domain]
    with pytest.raises(UsageError, match="Missing shapes or data types"):
        extract_subgraph(models.custom_op(), named(inner), None)
    assert extract_subgraph(models.custom_op(), named(inner), None, check_meta=False)
    text = "m (float[2,3] x, int64[n] s) => (float y) { r = Reshape(x, s)  y = ReduceSum(r) }"
    data = {"x": np.zeros((2, 3), np.float32), "s": np.array([3, 2])}
    made = extract(parsed(text), named("r"), None, data_loader=[data])
    assert shape_of(made.graph.input[0]) == [0, 0]  # Of other data it has another shape.
    fixed = """m (float[6] x) => (float y) {
    i = NonZero(x)  s = Squeeze(i)  r = Reshape(x, s)  y = ReduceSum(r) }"""
    data = {"x": np.array([0, 1, 1, 1, 0, 0], np.float32)}
    made = extract(parsed(fixed), named("r"), None, data_loader=[data])
    assert shape_of(made.graph.input[0]) == [1, 2, 3]


@pytest.mark.parametrize("part", [extract, extract_subgraph])
def test_an_output_without_a_shape_gets_the_inferred_one(part: Any) -> None:
    text = "m (float[N,3] x) => (float y) { h = Relu(x)  y = Relu(h) }"
    model = parsed(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    made = part(model, named("h"), None)
    assert shape_of(made.graph.output[0]) == ["N", 3]
    for batch in (2, 5):
        assert run(made, h=np.ones((batch, 3), np.float32))["y"].shape == (batch, 3)


def test_an_output_whose_shape_nothing_tells_is_saved_without() -> None:
    text = """m (float[n,3] x, int64[k] s) => (float y) {
    r = Reshape(x, s)  p = Pad <mode = "reflect"> (x, s)  y = ReduceSum(p) }"""
    made = extract(parsed(text), None, named("r"))
    assert not made.graph.output[0].type.tensor_type.HasField("shape")
    with pytest.raises(PolygraphyException, match=r"'r', as in name:.*--input-shapes"):
        extract(parsed(text.replace("ReduceSum(p)", "ReduceSum(r)")), named("r"), None)


def test_dimensions_that_inference_makes_up_are_any() -> None:
    text = "m (float[2,3] x) => (int64[a,b] y) { k = NonZero(x)  y = Neg(k) }"
    made = extract_subgraph(parsed(text), named("k"), None)
    assert shape_of(made.graph.input[0]) == [2, 0]


def test_an_output_whose_other_result_is_an_input_now() -> None:
    text = """m (float[4] x) => (float[2] y) { a, b = Split(x)  c = Neg(a)  y = Add(c, b) }"""
    made = extract_subgraph(parsed(text), named("x", "a"), named("y"))
    onnx.checker.check_model(made, full_check=True)
    feed = {"x": np.array([1, 2, 3, 4], np.float32), "a": np.array([10, 20], np.float32)}
    assert run(made, **feed)["y"].tolist() == [-7, -16]


def test_what_branches_take_from_outside_is_needed() -> None:
    text = """m (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {3, 4}> {
    a = Exp(x)  b = Neg(a)
    y = If(c) <then_branch = t () => (float[2] p) { p = Add(b, w) },
    else_branch = e () => (float[2] q) { q = Abs(b) }> }"""
    made = extract_subgraph(parsed(text), named("a", "c"), None)
    assert [node.op_type for node in made.graph.node] == ["Neg", "If"]
    assert [tensor.name for tensor in made.graph.initializer] == ["w"]
    with pytest.raises(UsageError, match="input 'x'"):
        extract_subgraph(parsed(text), named("c"), None)


def test_nothing_else_of_the_model_is_lost() -> None:
    model = classifier_files.classifier()
    model.doc_string, model.producer_name = "about", "exporter"
    model.metadata_props.add(key="k", value="v")
    model.opset_import.add(domain="other", version=2)
    model.functions.add(name="f", domain="other").opset_import.add(domain="", version=17)
    model.graph.quantization_annotation.add(tensor_name="intermediate")
    model.graph.quantization_annotation.add(tensor_name="output1")
    model.graph.value_info.append(
        helper.make_tensor_value_info("pool1_output", TensorProto.FLOAT, ["batch", 8, 14, 14])
    )
    made = extract_subgraph(model, named("relu1_output"), named("intermediate"))
    assert (made.doc_string, made.producer_name) == ("about", "exporter")
    assert made.metadata_props[0].value == "v" and made.functions[0].name == "f"
    assert [entry.domain for entry in made.opset_import] == ["", "other"]
    assert [each.tensor_name for each in made.graph.quantization_annotation] == ["intermediate"]
    assert [value.name for value in made.graph.value_info] == ["pool1_output"]


def test_weights_of_old_models_stay_among_the_inputs() -> None:
    model = classifier_files.classifier()
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
    made = extract_subgraph(model, named("relu1_output"), named("intermediate"))
    onnx.checker.check_model(made)
    assert [value.name for value in made.graph.input] == [
        "relu1_output",
        "conv2.weight",
        "conv2.bias",
    ]


def test_graphsurgeon_graphs_come_and_go() -> None:
    gs = pytest.importorskip("onnx_graphsurgeon")
    graph = gs_from_onnx(classifier_files.classifier())
    made = extract_subgraph(graph, named("relu1_output"), named("intermediate"))
    assert isinstance(made, gs.Graph) and [node.op for node in made.nodes] == ["MaxPool", "Conv"]


def test_a_name_without_its_number_means_the_one_tensor_of_an_operation() -> None:
    nodes = [
        helper.make_node("Relu", ["image:0"], ["mid:0"]),
        helper.make_node("Exp", ["mid:0"], ["out:0"]),
        helper.make_node("Neg", ["mid:0"], ["out:1"]),
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])
        for name in ("image:0", "out:0", "out:1")
    ]
    made = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]))
    unknown = TensorMetadata().add("mid", None, None)
    for part in (
        extract(copy.deepcopy(made), TensorMetadata().add("image", None, None), unknown),
        extract_subgraph(made, TensorMetadata().add("image", None, [3]), unknown),
    ):
        assert [value.name for value in (*part.graph.input, *part.graph.output)] == [
            "image:0",
            "mid:0",
        ]
    with pytest.raises(UnknownNameError, match="out:0"):
        extract_subgraph(made, None, TensorMetadata().add("out", None, None))
