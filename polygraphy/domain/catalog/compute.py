"""Precisions in which backends compute operators on float32 tensors, other than float32.

The one place that knows it. A backend says which of these it uses (`compute_precision` of its
runner or session); judge, diagnosis, sweeps and reports read it from the facts about a model.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

TF32 = "tf32"
"""The precision that reads 10 bits of the fraction of each operand and sums in float32."""

CONVOLUTIONS = ("Conv", "ConvTranspose", "FusedConv")
PRODUCTS = ("MatMul", "Gemm", "FusedMatMul", "FusedGemm", "TransposeMatMul", "Einsum")
RECURRENT = ("LSTM", "GRU", "RNN")
ATTENTION = ("Attention", "MultiHeadAttention")

TF32_ENVIRONMENT = "NVIDIA_TF32_OVERRIDE"
"""At "0", libraries of NVIDIA never compute in TF32; at "1" they always do, whatever a program asks
for. Measured with ONNX Runtime 1.31 on an H100.
"""
TF32_CAPABILITY = (8, 0)
"""The first compute capability of GPUs that have TF32."""

PRECISION_ATTRIBUTE = "accuracy_level"
"""The attribute of MatMulNBits that selects a precision."""
ACCURACY_LEVELS = {2: "float16", 3: "bfloat16", 4: "int8"}
"""What `accuracy_level` of MatMulNBits selects for its float32 input; 0 and 1 are float32.

Source: the operator documentation of ONNX Runtime.
"""


_MOST_NAMED = 6
"""More operators than these are not listed."""


@frozen
class ComputePrecision:
    """The precision in which a backend computes some operators on float32 tensors.

    Attributes:
        dtype: the precision, such as ``tf32``.
        operators: the ONNX operators that it applies to.
        backend: the backend, as its flag is called.
        option: the option that selects float32 instead, such as ``--providers cuda:use_tf32=0``.
    """

    dtype: str
    operators: tuple[str, ...]
    backend: str = ""
    option: str = ""

    @property
    def by_operator(self) -> Mapping[str, str]:
        """Return the precision of each operator."""
        return dict.fromkeys(self.operators, self.dtype)

    def describe(self) -> str:
        """Return a clause, such as ``onnxrt computes Conv and MatMul in TF32``."""
        *most, last = self.operators or ("float32",)
        names = f"{', '.join(most)} and {last}" if most else last
        if len(self.operators) > _MOST_NAMED:
            # A long list means that the model is too large to be read, so all operators are listed.
            names = "convolutions and matrix products"
        return f"{self.backend or 'the backend'} computes {names} in {self.label}"

    @property
    def label(self) -> str:
        """Return the usual spelling of the precision, such as ``TF32``."""
        return "TF32" if self.dtype == TF32 else self.dtype


TF32_OPERATORS = (*CONVOLUTIONS, *PRODUCTS, *RECURRENT, *ATTENTION)
"""What ONNX Runtime's CUDA provider computes in TF32 by default."""
