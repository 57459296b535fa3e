"""PyTorch's data types, and NumPy arrays from tensors and back, in every type that both have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.domain.errors import DataTypeConversionException, InputError, MissingDependencyError
from polygraphy.domain.tensors.datatype import NUMPY_NAMES, DataType, DataTypeEntry

if TYPE_CHECKING:
    import numpy as np
    import torch as pytorch
if TYPE_CHECKING:
    import numpy as np


numpy = mod.lazy_import("numpy")
torch = mod.lazy_import("torch>=2.2")


def tensor_from(name: str, data: Any, device: Any) -> pytorch.Tensor:
    """Return the data for an input as a new tensor on a device, which the model may write to.

    Raises:
        InputError: PyTorch has no such data type, or it is not an array.
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
            f"Input {name!r} has the data type {entry}, which PyTorch does not support."
        ) from error
    # PyTorch accepts contiguous memory, and warns about read-only memory.
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


# PyTorch's float4 and int4 hold two values in an element, or can only be stored.
_ABSENT = {*(entry for entry in DataType if entry.itemsize < 1), DataType.STRING}
_ENTRIES = {
    f"torch.{NUMPY_NAMES.get(entry.name, entry.name)}": entry
    for entry in DataType
    if entry not in _ABSENT
}


class TorchDataTypes:
    """Converts between this package's data types and PyTorch's."""

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return the `torch.dtype`; None if this release of PyTorch has none."""
        if entry in _ABSENT:
            return None
        return getattr(torch, NUMPY_NAMES.get(entry.name, entry.name), None)

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return this package's data type; None for quantized types."""
        return _ENTRIES.get(str(dtype))


class TorchTensors:
    """Converts arrays to PyTorch tensors on the CPU, and tensors on any device to arrays."""

    def prepare(self) -> None:
        """Import PyTorch; raise MissingDependencyError if it is not installed."""
        if not torch.is_installed():
            install = torch.install_command()
            raise MissingDependencyError(
                "Generating PyTorch tensors requires PyTorch, which is not installed. Install"
                f" it with: {install}",
                module="torch",
                install=install,
            )

    def from_array(self, name: str, array: np.ndarray[Any, Any]) -> Any:
        """Return a tensor; raise InputError if PyTorch has no such data type."""
        return tensor_from(name, array, "cpu")

    def to_array(self, tensor: Any) -> np.ndarray[Any, Any]:
        """Return the elements of a tensor."""
        return array_from(tensor)
