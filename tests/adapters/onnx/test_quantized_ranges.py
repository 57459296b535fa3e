"""Ranges that one quantized model gets from another, and who quantized a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import helper, numpy_helper

from polygraphy.adapters.nncf import quantizing_again
from polygraphy.adapters.onnx.edit.quantized_model import open_quantized
from polygraphy.adapters.onnx.edit.quantized_nodes import (
    is_corrected,
    is_nearer_to_another,
    producer_of,
)
from polygraphy.adapters.onnx.edit.quantizing import copy_quantization, quantized_operands
from polygraphy.adapters.onnx_common.quantized_ranges import activation_scales, copy_ranges


def model_with(scale: float, bias: float, **weights: Any) -> onnx.ModelProto:
    """Return y = DQ(Q(x)) + bias."""
    arrays = {"s": np.float32(scale), "z": np.int8(3), "b": np.full(2, bias, np.float32), **weights}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Add", ["d", "b"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "y")]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    return helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], held))


def test_ranges_and_corrected_biases_are_those_of_the_other_model() -> None:
    made, model = model_with(0.5, 1.5), model_with(0.25, 1.25)
    copy_ranges(made, model, model_with(1, 1))
    evaluate = onnx.reference.ReferenceEvaluator
    x = {"x": np.array([0.3, 20], np.float32)}
    np.testing.assert_array_equal(evaluate(made).run(None, x), evaluate(model).run(None, x))
    assert activation_scales(made)["x"][0] == np.float32(0.25)
    excluded = model_with(0.5, 1)  # The quantizer did not correct this bias.
    copy_ranges(excluded, model, model_with(1, 1))
    bias = next(one for one in excluded.graph.initializer if one.name == "b")
    assert numpy_helper.to_array(bias)[0] == 1


def test_corrected_biases_in_constant_nodes_are_those_of_the_other_model() -> None:
    models = [model_with(1, bias) for bias in (1.5, 1.25, 1)]
    for model in models:
        bias = next(one for one in model.graph.initializer if one.name == "b")
        node = helper.make_node("Constant", [], ["b"], value=bias)
        model.graph.initializer.remove(bias)
        model.graph.node.insert(0, node)
    copy_ranges(*models)
    assert numpy_helper.to_array(models[0].graph.node[0].attribute[0].t)[0] == 1.25


def test_options_with_which_nncf_fails_are_not_those_of_a_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def quantize(reference: Any, feeds: Any, options: Any, *rest: Any) -> onnx.ModelProto:
        if options["type"]:
            raise AttributeError("'NoneType' object has no attribute 'shape'")
        return model_with(1, 1)

    monkeypatch.setattr(quantizing_again, "_quantize", quantize)
    reference = model_with(1, 1)
    reference.graph.node.append(helper.make_node("Softmax", ["d"], ["s"]))
    found = quantizing_again._matching_options(reference, model_with(1, 1), [{}])
    assert found == {"preset": "PERFORMANCE", "type": None}


@pytest.mark.parametrize(("note", "producer"), [("onnxruntime.quant", "static"), ("", "modelopt")])
def test_a_model_without_quantized_weights_is_that_of_modelopt_without_a_note(
    note: str, producer: str
) -> None:
    model = model_with(1, 1)
    model.producer_name = "onnx.quantize"
    if note:
        model.metadata_props.add(key="onnx.infer", value=note)
    assert producer_of(model) == producer


def test_quark_and_neural_compressor_are_recognized() -> None:
    model = model_with(1, 1)
    model.producer_name = "quark.onnx"
    assert producer_of(model) == "quark"
    model.producer_name = "onnx.quantize"
    pair = next(node for node in model.graph.node if node.op_type == "DequantizeLinear")
    pair.output[0] = "x_dequantized"
    model.graph.node.append(helper.make_node("Relu", ["x_dequantized"], ["r"], "relu_quant"))
    opened = open_quantized(model, [])
    assert opened.producer == "neural-compressor"
    assert "relu" in [
        node.quantizer_name for node in opened.nodes
    ]  # It excludes nodes by their own names.


def test_a_bias_that_nncf_corrects_by_twice_its_size_is_not_that_of_another_layer() -> None:
    draw = np.random.default_rng(8).standard_normal
    own, other = draw(16), draw(16)
    corrected = -0.7 * own + 0.2 * draw(16)
    assert is_corrected(corrected, own, "nncf") and not is_corrected(-own, own, "nncf")
    assert not is_nearer_to_another(corrected, own, [own, other])
    assert is_nearer_to_another(other + 0.01, own, [own, other])


def test_a_model_of_an_opset_without_quantization_is_quantized_like_a_newer_one() -> None:
    reference, model = model_with(1, 1.0), model_with(0.5, 1.0)
    del reference.graph.node[:2]
    reference.graph.node[0].input[0] = "x"
    del reference.graph.initializer[:2]
    reference.opset_import[0].version, model.opset_import[0].version = 9, 11
    label = reference.graph.node[0].output[0]
    [operand] = quantized_operands(model)
    quantized = copy_quantization(reference, model, [(label, 0, operand.name)])
    onnx.checker.check_model(quantized)
    assert [node.op_type for node in quantized.graph.node] == [
        "QuantizeLinear",
        "DequantizeLinear",
        "Add",
    ]
    assert reference.opset_import[0].version == 9
