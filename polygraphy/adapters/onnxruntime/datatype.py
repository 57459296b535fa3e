"""ONNX Runtime's names of data types: ``tensor(float)`` and its siblings."""

from __future__ import annotations

from typing import Any

from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

_OTHER_NAMES = {"float64": "double", "float32": "float", "float4": "float4e2m1"}


class OnnxrtDataTypes:
    """Translates between our data types and ONNX Runtime's names for tensors of them."""

    _to_native = {
        entry: f"tensor({_OTHER_NAMES.get(entry.name, entry.name)})" for entry in DataType
    }
    _from_native = {native: entry for entry, native in _to_native.items()}

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return ``tensor(...)``."""
        return self._to_native.get(entry)

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return our data type; None for what is no tensor: sequences, maps, optionals."""
        return self._from_native.get(dtype)
