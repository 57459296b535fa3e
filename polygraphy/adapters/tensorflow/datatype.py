"""TensorFlow's data types."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

# What TensorFlow calls the types whose name there is not ours.
_NAMES = {
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float4": "float4_e2m1fn",
    "float8e8m0": "float8_e8m0fnu",
}
_ENTRIES = {_NAMES.get(entry.name, entry.name): entry for entry in DataType}


class TensorFlowDataTypes:
    """Translates between our data types and the members of `tensorflow.dtypes`."""

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return the `tf.DType`; None where this release of TensorFlow has none."""
        try:
            return tensorflow_module().as_dtype(_NAMES.get(entry.name, entry.name))
        except TypeError:
            return None

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return our data type; None for quantised types, resources and variants."""
        return _ENTRIES.get(getattr(dtype, "name", ""))
