"""A quantized model whose names are not those of its reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from polygraphy.adapters.onnx.edit.quantized_model import open_quantized
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.domain.quantization.lines import excluded_names, has_unnamed
from tests.support.models import make, value

RNG = np.random.default_rng(3)
WEIGHTS = {
    "w1": RNG.normal(size=(32, 8)).astype(np.float32),
    "b1": RNG.normal(size=8).astype(np.float32),
    "w2": RNG.normal(size=(8, 4)).astype(np.float32),
}
FEED = {"x": RNG.normal(size=(5, 32)).astype(np.float32)}


def network() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["product"], "product"),
        helper.make_node("Add", ["product", "b1"], ["sum"], "bias"),
        helper.make_node("Relu", ["sum"], ["positive"], "relu"),
        helper.make_node("MatMul", ["positive", "w2"], ["y"], "last"),
    ]
    ends = [value("x", [5, 32])], [value("y", [5, 4])]
    return make("network", nodes, *ends, weights=WEIGHTS, opset=17)


class _Reader:
    def __init__(self) -> None:
        self.feeds = iter([FEED])

    def get_next(self) -> Any:
        return next(self.feeds, None)


def test_the_form_that_the_quantizer_read_is_the_reference(tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_static

    right = network()
    optimized = OnnxrtParty().runtime_graph(right, level="ENABLE_BASIC")
    assert [node.op_type for node in optimized.graph.node] == ["Gemm", "Relu", "MatMul"]

    def quantized(model: onnx.ModelProto) -> onnx.ModelProto:
        onnx.save(model, str(tmp_path / "float.onnx"))
        quantize_static(str(tmp_path / "float.onnx"), str(tmp_path / "q.onnx"), _Reader())
        return onnx.load(str(tmp_path / "q.onnx"))

    opened = open_quantized(quantized(optimized), [right, optimized])
    assert opened.reference is optimized
    exact = opened.float_at_sites(range(len(opened.sites)))
    values = [OnnxrtParty().load(model)(FEED)["y"] for model in (exact, right)]
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-4)
    assert open_quantized(quantized(right), [right, optimized]).reference is right


def test_an_operator_whose_output_has_a_new_name_is_paired() -> None:
    model, right = network(), network()
    product = model.graph.node[0]
    codes = RNG.integers(0, 256, (8, 1, 16)).astype(np.uint8)
    size = {"K": 32, "N": 8, "bits": 4, "block_size": 32}
    blocks = helper.make_node(
        "MatMulNBits", ["x", "codes", "scales"], ["product_Q4"], "product_Q4",
        domain="com.microsoft", **size,
    )  # fmt: skip
    product.CopyFrom(blocks)
    model.graph.node[1].input[0] = "product_Q4"
    for name, array in (("codes", codes), ("scales", np.ones((8, 1), np.float32))):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    opened = open_quantized(model, [right])
    [site] = opened.sites
    assert site.name == "product" and site.exact is not None
    assert "product" in [node.name for node in opened.nodes]


def test_a_node_has_the_name_by_which_its_quantizer_knows_it(tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic

    right = network()
    for node in right.graph.node:
        node.name = ""
    optimized = OnnxrtParty().runtime_graph(right, level="ENABLE_BASIC")
    optimized.graph.node[0].name = "fused"
    onnx.save(optimized, str(tmp_path / "float.onnx"))
    quantize_dynamic(str(tmp_path / "float.onnx"), str(tmp_path / "q.onnx"))
    opened = open_quantized(onnx.load(str(tmp_path / "q.onnx")), [optimized])
    # It replaces a Gemm by a MatMul and an Add before it looks for the nodes to exclude.
    assert excluded_names(opened.nodes, ["fused", "y"]) == ["fused_MatMul", "y"]
    assert not has_unnamed(opened.nodes, ["fused"]) and has_unnamed(opened.nodes, ["y"])
    assert [node.name for node in opened.named_reference({}).graph.node][-1] == "y"


def test_an_unnamed_node_is_called_by_its_output_in_the_reference(tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_static

    right = network()
    del right.graph.node[1:]
    right.graph.node[0].name, right.graph.node[0].output[0] = "", "y"
    right.graph.output[0].CopyFrom(value("y", [5, 8]))
    onnx.save(right, str(tmp_path / "float.onnx"))
    quantize_static(str(tmp_path / "float.onnx"), str(tmp_path / "q.onnx"), _Reader())
    opened = open_quantized(onnx.load(str(tmp_path / "q.onnx")), [right])
    assert [node.name for node in opened.nodes] == ["y"]
