"""TensorFlow's data types."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.domain.tensors.datatype import NUMPY_NAMES, DataType, DataTypeEntry

_ENTRIES = {NUMPY_NAMES.get(entry.name, entry.name): entry for entry in DataType}


class TensorFlowDataTypes:
    """Translates between our data types and the members of `tensorflow.dtypes`."""

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return the `tf.DType`; None where this release of TensorFlow has none."""
        try:
            return tensorflow_module().as_dtype(NUMPY_NAMES.get(entry.name, entry.name))
        except TypeError:
            return None

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return our data type; None for quantised types, resources and variants."""
        return _ENTRIES.get(getattr(dtype, "name", ""))
