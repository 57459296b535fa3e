"""The precisions that a TensorRT build may compute in, beside float32."""

from __future__ import annotations

from attrs import frozen


@frozen
class Precision:
    """A precision in which TensorRT can build layers.

    Attributes:
        name: its argument of `CreateConfig`, its flag of the builder, and of the command line.
        dtype: the data type that layers compute in, by the name of its `DataType`.
        is_quantized: whether value ranges have to be known.
    """

    name: str
    dtype: str
    is_quantized: bool = False


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("tf32", "float32"),
        Precision("fp16", "float16"),
        Precision("bf16", "bfloat16"),
        Precision("fp8", "float8e4m3fn", is_quantized=True),
        Precision("int8", "int8", is_quantized=True),
    )
}
"""All precisions, by name; of two floating-point or two quantized ones, the first is preferred."""

REDUCED = {
    name: precision for name, precision in PRECISIONS.items() if precision.dtype != "float32"
}
"""Those in which results are stored, too, so that a model can be cast or quantized to them."""

HALF = {precision.dtype: name for name, precision in REDUCED.items() if not precision.is_quantized}
"""The names of the floating-point ones among them, by data type."""

COARSE = (*HALF, "tf32")
"""Data types of computations that may decide differently between nearly equal numbers."""
