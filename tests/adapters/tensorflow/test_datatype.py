"""TensorFlow's data types and ours."""

from __future__ import annotations

import pytest

tf = pytest.importorskip("tensorflow")

from polygraphy.adapters.tensorflow.module import TensorFlowDataTypes  # noqa: E402
from polygraphy.domain.errors import DataTypeConversionException  # noqa: E402
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry  # noqa: E402


@pytest.mark.parametrize("entry", list(DataType), ids=str)
def test_there_and_back(entry: DataTypeEntry) -> None:
    native = TensorFlowDataTypes().to_native(entry)
    if native is None:
        assert entry.name in {"float4", "float8e8m0", "float8e4m3fnuz", "float8e5m2fnuz"}
        return
    assert isinstance(native, tf.DType)
    assert DataType.from_dtype(native) is entry
    if entry is not DataType.STRING:
        assert native.as_numpy_dtype == entry.numpy()


def test_what_is_unknown_is_none() -> None:
    assert TensorFlowDataTypes().from_native(tf.resource) is None
    with pytest.raises(DataTypeConversionException, match="tensorflow"):
        DataType.from_dtype(tf.qint8)
