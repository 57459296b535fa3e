"""NumPy arrays from tensors, and the other way round, in every data type that both have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.domain.errors import DataTypeConversionException, InputError
from polygraphy.domain.tensors.datatype import DataType

if TYPE_CHECKING:
    import numpy as np
    import torch as pytorch


numpy = mod.lazy_import("numpy")
torch = mod.lazy_import("torch>=2.2")


def tensor_from(name: str, data: Any, device: Any) -> pytorch.Tensor:
    """Return the data for an input as a new tensor on a device, which the model may write to.

    Raises:
        InputError: PyTorch has no such data type, or it is no array.
    """
    if isinstance(data, torch.Tensor):
        moved: pytorch.Tensor = data.to(device)
        return moved.clone() if moved is data else moved
    if not isinstance(data, numpy.ndarray):
        raise InputError(f"The data for input {name!r} must be an array or a tensor.")
    entry = DataType.from_dtype(data.dtype)
    try:
        dtype = entry.torch()
    except DataTypeConversionException as error:
        raise InputError(
            f"PyTorch has no tensors of {entry}, as input {name!r} is given."
        ) from error
    # PyTorch takes what lies in memory in order, and warns of what it must not write to.
    array = numpy.array(data, order="C")
    if array.dtype.isbuiltin == 2:  # A type of ml_dtypes.
        bits = torch.from_numpy(array.reshape(-1).view(numpy.uint8))
        tensor = bits.view(dtype).reshape(array.shape)
    else:
        tensor = torch.from_numpy(array)
    sent: pytorch.Tensor = tensor.to(device)
    return sent


def array_from(tensor: pytorch.Tensor) -> np.ndarray[Any, Any]:
    """Return a new array with the elements of a tensor."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    dtype = DataType.from_dtype(plain.dtype, "torch").numpy()
    if dtype.isbuiltin == 2:
        contiguous = plain.cpu().contiguous()
        bits = contiguous.reshape(-1).view(torch.uint8).numpy()
        return numpy.array(bits.view(dtype).reshape(tuple(contiguous.shape)))  # type: ignore[no-any-return]
    is_on_cpu = plain.device.type == "cpu"
    array = plain.cpu().numpy()
    return numpy.array(array) if is_on_cpu else array  # type: ignore[no-any-return]
