"""The range of an input that a model's quantization represents."""

from __future__ import annotations

import onnx
import pytest

from polygraphy.adapters.onnx.describe.reading import describe_with_weights
from polygraphy.domain.quantization.input_ranges import quantized_input_ranges

MODEL = """
<ir_version: 9, opset_import: ["": 17]>
m (float[1,2] x) => (float[1,2] y)
<float s = {{0.5}}, int8 z = {{28}}, float two = {{2}}, float[1,2] pair = {{1, 4}},
 float[1,2] mean = {{-10, 0}}>
{{
    {before}
    q = QuantizeLinear (t, s, z)
    y = DequantizeLinear (q, s, z)
}}
"""


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("t = Identity (x)", (-78.0, 49.5)),
        ("t = Mul (x, two)", (-39.0, 24.75)),
        ("t = Div (x, two)", (-156.0, 99.0)),
        ("t = Sub (two, x)", (-47.5, 80.0)),
        ("h = Sub (x, mean) t = Div (h, pair)", (-88.0, 39.5)),
        ("h = Add (two, x) u = Mul (h, pair) t = Sub (u, two)", (-21.0, 10.875)),
        ("t = Relu (x)", None),
        ("t = Div (two, x)", None),
    ],
)
def test_input_range_is_that_of_the_first_codes(
    before: str, expected: tuple[float, float] | None
) -> None:
    graph = describe_with_weights(onnx.parser.parse_model(MODEL.format(before=before))).graph
    assert quantized_input_ranges(graph) == ({} if expected is None else {"x": expected})
