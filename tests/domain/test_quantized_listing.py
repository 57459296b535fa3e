"""Which tensors of a model are quantized, as its file says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from polygraphy.adapters.onnx.describe.quantized import find_quantized_tensors
from polygraphy.adapters.onnx.describe.reading import describe_file
from polygraphy.application.models.model_inspection import compare_models
from polygraphy.domain.model import Detail, ModelSource
from polygraphy.domain.model.difference import differences
from polygraphy.domain.quantization.listing import name_scales, summarize_quantization

QDQ = """
<ir_version: 9, opset_import: ["": 17]>
m (float[1,4] x) => (float[1,2] y)
<float s = {0.5}, uint8 z = {128}, float ws = {0.25}, int8 wz = {0}, int8[4,2] w = {1,2,3,4,5,6,7,8}>
{
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    v = DequantizeLinear (w, ws, wz)
    y = MatMul (d, v)
}
"""
BLOCKS = """
<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]>
m (float[1,32] x) => (float[1,2] y)
<uint8[2,1,16] w = {CODES}, float[2] s = {0.5, 0.5}>
{
    y = com.microsoft.MatMulNBits <K = 32, N = 2, bits = 4, block_size = 32, accuracy_level = 4> (x, w, s)
}
""".replace("CODES", ",".join(["1"] * 32))
FLOAT = """
<ir_version: 9, opset_import: ["": 17]>
QuantizeMe (float[1,4] x) => (float[1,4] y) { y = Relu (x) }
"""
DYNAMIC = """
<ir_version: 9, opset_import: ["": 17]>
m (float[1,4] x) => (int32[1,2] y)
<uint8[4,2] w = {1,2,3,4,5,6,7,8}, uint8 wz = {0}>
{
    q, s, z = DynamicQuantizeLinear (x)
    y = MatMulInteger (q, w, z, wz)
}
"""

PRODUCT = """
<ir_version: 9, opset_import: ["": 17]>
m (float[1,4] x) => (float[1,2] y)
<uint8[4,2] w = {1,2,3,4,5,6,7,8}, float[2] s = {0.5, 0.25}, uint8[2] z = {3, 4}>
{
    f = Cast <to = 1> (w)
    g = Cast <to = 1> (z)
    u = Sub (f, g)
    v = Mul (s, u)
    y = MatMul (x, v)
}
"""
WEIGHT = """
<ir_version: 9, opset_import: ["": 17]>
m (float[1,4] x) => (float[1,2] y)
<float ws = {0.25}, int8 wz = {0}, int8[4,2] w = {1,2,3,4,5,6,7,8}>
{
    v = DequantizeLinear (w, ws, wz)
    y = MatMul (x, v)
}
"""
TABLE = """
<ir_version: 9, opset_import: ["": 17]>
m (float[4,2] x) => (float[4,2] y)
<uint8[4,2] w = {1,2,3,4,5,6,7,8}>
{
    f = Cast <to = 1> (w)
    y = Mul (f, x)
}
"""


def saved(text: str, folder: Path, name: str = "m.onnx") -> str:
    path = folder / name
    onnx.save(onnx.parser.parse_model(text), str(path))
    return str(path)


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (QDQ, "1 activation (uint8, per tensor), 1 weight (int8, per tensor)"),
        (BLOCKS, "1 weight (4 bits, blocks of 32, no zero points, accuracy_level 4)"),
        (DYNAMIC, "1 activation (uint8, range chosen at run time), 1 weight (uint8, per tensor)"),
        (PRODUCT, "1 weight (uint8, per channel)"),
        (WEIGHT, "1 weight (int8, per tensor)"),
        (TABLE, ""),
        (FLOAT, ""),
    ],
)
def test_a_model_is_summarized_in_a_line(text: str, summary: str, tmp_path: Path) -> None:
    assert summarize_quantization(find_quantized_tensors(saved(text, tmp_path))) == summary


def test_ranges_follow_from_scale_and_zero_point(tmp_path: Path) -> None:
    tensors = {each.name: each.limits for each in find_quantized_tensors(saved(QDQ, tmp_path))}
    assert tensors == {"x": (-64.0, 63.5), "w": (-32.0, 31.75)}


def test_damaged_files_have_no_quantized_tensors(tmp_path: Path) -> None:
    path = Path(saved(QDQ, tmp_path))
    path.write_bytes(path.read_bytes()[:-40])
    assert find_quantized_tensors(str(path)) == []
    assert find_quantized_tensors(str(tmp_path / "missing.onnx")) == []


def test_a_changed_scale_is_named_with_its_tensor_and_range(tmp_path: Path) -> None:
    changed = onnx.parser.parse_model(QDQ)
    for weight in changed.graph.initializer:
        if weight.name == "s":
            weight.CopyFrom(onnx.numpy_helper.from_array(np.array(0.25, np.float32), "s"))
    onnx.save(changed, str(tmp_path / "changed.onnx"))
    detail = Detail(layers=True, attrs=True, weights=True)
    models = [
        describe_file(ModelSource(path), detail)
        for path in (saved(QDQ, tmp_path), str(tmp_path / "changed.onnx"))
    ]
    [found] = name_scales(differences(*models), models[0].graph, models[1].graph)
    assert (found.what, found.name) == ("Scale of 'x'", "s")
    assert found.reference == "0.5, range -64 to 63.5"
    assert found.candidate == "0.25, range -32 to 31.75"


def test_a_difference_says_if_only_the_candidate_is_quantized(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = onnx.parser.parse_model(QDQ)
    plain = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])], "g", model.graph.input, model.graph.output
    )
    path = str(tmp_path / "plain.onnx")
    onnx.save(onnx.helper.make_model(plain, opset_imports=model.opset_import), path)
    compare_models(path, saved(QDQ, tmp_path))
    assert "Quantized: 1 activation" in "".join(capfd.readouterr())
