"""Computes products as hardware does in TF32: with rounded factors, and float32 sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.domain.catalog.compute import ATTENTION, TF32_OPERATORS
from polygraphy.domain.tensors.precision import with_digits

if TYPE_CHECKING:
    from onnx import NodeProto

numpy = mod.lazy_import("numpy")

_SPACING = 2.0**-10
"""The spacing of TF32 at 1."""
_FACTORS = dict.fromkeys(ATTENTION, 3)
"""The number of inputs that are factors, if there are not two.

A recurrent node has two: the data and their weights. cuDNN computes the product of the state in
float32: rounding the other two leaves 4e-7 of the RMS of two GRU nodes that CUDA computed on an
H200, where float32 leaves 3e-4.
"""


def compute_in_tf32(
    node: NodeProto, version: int, run: Callable[..., Any], *, drops: bool = False
) -> Callable[..., Any]:
    """Return the function that computes a node; the factors of products are rounded to TF32.

    Args:
        node: the node.
        version: the version of its operator.
        run: computes it in float32.
        drops: whether digits are dropped instead of rounded.
    """
    if node.op_type not in TF32_OPERATORS:
        return run
    count = _FACTORS.get(node.op_type, 2)

    def call(*inputs: Any, **options: Any) -> Any:
        """Return the outputs of the node."""
        factors = (
            value if value is None else with_digits(numpy.asarray(value), _SPACING, drops=drops)
            for value in inputs[:count]
        )
        return run(*factors, *inputs[count:], **options)

    return call
