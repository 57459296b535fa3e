"""Outputs as tensors of PyTorch, for callers whose inputs are."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from polygraphy.adapters.arrays.foreign import is_torch
from polygraphy.domain.errors import DataTypeConversionException
from polygraphy.domain.tensors.datatype import DataType


def has_torch(arrays: Iterable[Any]) -> bool:
    """Return whether one of the arrays is a tensor of PyTorch."""
    return "torch" in sys.modules and any(is_torch(array) for array in arrays)


def as_torch(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs as tensors that share their memory: on the CPU for arrays of NumPy, on the GPU
    for views of device memory. What PyTorch has no data type for stays as it is.
    """
    return {name: _tensor(output) for name, output in outputs.items()}


def _tensor(output: Any) -> Any:
    if not hasattr(output, "nbytes"):
        return output
    try:
        dtype = DataType.from_dtype(output.dtype).torch()
    except DataTypeConversionException:
        return output
    # By way of bytes, which all data types consist of.
    torch = sys.modules["torch"]
    if not output.nbytes:
        device = "cpu" if isinstance(output, np.ndarray) else "cuda"
        return torch.empty(tuple(output.shape), dtype=dtype, device=device)
    if isinstance(output, np.ndarray):
        raw = torch.from_numpy(output.reshape(-1).view(np.uint8))
    else:
        view = type(output)(output.ptr, (output.nbytes,), np.uint8, output.owner)
        raw = torch.as_tensor(view, device="cuda")
    return raw.view(dtype).reshape(tuple(output.shape))
