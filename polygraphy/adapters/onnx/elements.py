"""The elements of a tensor in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.domain.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from onnx import TensorProto

__all__ = ["STRIPPED", "elements", "is_stripped"]

numpy_helper = mod.lazy_import("onnx.numpy_helper")

STRIPPED = "TRT_WEIGHTLESS"
"""What the documentation of a weight begins with, and a slash, when its elements were left out."""


def elements(tensor: TensorProto) -> np.ndarray[Any, Any]:
    """Return the elements of a tensor.

    Raises:
        ModelError: they are of no known type, or not as many as its shape asks for.
    """
    if is_stripped(tensor):
        raise ModelError(
            f"Weight {tensor.name!r} was left out of the model by `surgeon weight-strip`.",
            hint="Take the model that has its weights, or run `surgeon weight-reconstruct`.",
        )
    try:
        made: np.ndarray[Any, Any] = numpy_helper.to_array(tensor)
    except Exception as error:  # It raises whatever NumPy does about sizes and types.
        raise ModelError(
            f"Weight {tensor.name!r} cannot be read: {' '.join(str(error).split())}"
        ) from error
    return made


def is_stripped(tensor: TensorProto) -> bool:
    """Tell whether the elements of a weight were left out on purpose."""
    return tensor.doc_string.startswith(f"{STRIPPED}/") and not tensor.raw_data
