"""PyTorch's data types."""

from __future__ import annotations

from typing import Any

from polygraphy import mod
from polygraphy.domain.tensors.datatype import NUMPY_NAMES, DataType, DataTypeEntry

torch = mod.lazy_import("torch>=2.2")

# PyTorch's float4 and int4 hold two values in an element, or can be stored only.
_ABSENT = {*(entry for entry in DataType if entry.itemsize < 1), DataType.STRING}
_ENTRIES = {
    f"torch.{NUMPY_NAMES.get(entry.name, entry.name)}": entry
    for entry in DataType
    if entry not in _ABSENT
}


class TorchDataTypes:
    """Translates between our data types and PyTorch's."""

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return the `torch.dtype`; None where this release of PyTorch has none."""
        if entry in _ABSENT:
            return None
        return getattr(torch, NUMPY_NAMES.get(entry.name, entry.name), None)

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return our data type; None for quantised types."""
        return _ENTRIES.get(str(dtype))
