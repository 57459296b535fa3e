"""What ONNX Runtime implements of an operator, if an error says that a kernel is missing."""

from __future__ import annotations

import pytest

from polygraphy.adapters.onnxruntime.kernels import kernel_advice


@pytest.mark.parametrize(
    ("node", "advice"),
    [
        ("Erf(13)", "The CPU implements Erf for float32: cast its inputs."),
        ("TopK(11)", "The CPU implements TopK for float32, float64, "),
        ("Erf(1)", "ONNX Runtime implements Erf from opset 9 on: use a higher opset."),
        ("Missing(1)", "ONNX Runtime has no CPU kernel for Missing: replace the operator."),
    ],
)
def test_the_advice_says_what_the_cpu_implements(node: str, advice: str) -> None:
    text = f"Could not find an implementation for {node} node with name 'n'"
    assert advice in kernel_advice(text)


def test_other_errors_have_no_advice() -> None:
    assert not kernel_advice("This is an invalid model.")
