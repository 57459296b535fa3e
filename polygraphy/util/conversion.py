"""Which library an array is of, and the same elements as an array of another."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from polygraphy.domain.errors import UsageError
from polygraphy.ports.binding import resolve
from polygraphy.ports.running import Tensors

__all__ = [
    "Array",
    "is_device_view",
    "is_numpy",
    "is_on_cpu",
    "is_on_gpu",
    "is_torch",
    "like",
    "to_numpy",
    "to_torch",
]

Array = np.ndarray[Any, Any]


def is_numpy(obj: Any) -> bool:
    """Return whether something is a NumPy array or scalar."""
    return isinstance(obj, (np.ndarray, np.generic))


def is_torch(obj: Any) -> bool:
    """Return whether something is a PyTorch tensor; PyTorch is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor)


def is_device_view(obj: Any) -> bool:
    """Return whether something is a `polygraphy.cuda.DeviceView`, or a `DeviceArray`."""
    cuda = sys.modules.get("polygraphy.adapters.cuda.array")
    return cuda is not None and isinstance(obj, cuda.DeviceView)


def is_on_gpu(obj: Any) -> bool:
    """Return whether the elements are in device memory."""
    return is_device_view(obj) or (is_torch(obj) and obj.device.type == "cuda")


def is_on_cpu(obj: Any) -> bool:
    """Return whether the elements are in host memory."""
    return is_numpy(obj) or (is_torch(obj) and obj.device.type == "cpu")


def to_numpy(obj: Any) -> Array:
    """Return a NumPy array of the elements; of host memory without a copy where possible.

    Raises:
        UsageError: it is no array, nor a number.
    """
    if is_torch(obj):
        return resolve(Tensors, "torch").to_array(obj)
    if is_device_view(obj):
        copied: Array = obj.numpy()
        return copied
    if is_numpy(obj) or isinstance(obj, (bool, int, float, complex)):
        return np.asarray(obj)
    raise UsageError(f"A {type(obj).__name__} is no array that is known here.")


def to_torch(obj: Any) -> Any:
    """Return a PyTorch tensor; one is returned as it is.

    Raises:
        MissingDependencyError: PyTorch is not installed.
        InputError: PyTorch has no such data type.
    """
    if is_torch(obj):
        return obj
    tensors = resolve(Tensors, "torch")
    tensors.prepare()
    return tensors.from_array("array", to_numpy(obj))


def like(obj: Any, found: Array) -> Any:
    """Return an array in the library of the first."""
    return to_torch(found).to(obj.device) if is_torch(obj) else found
