"""PyTorch's data types and ours."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from polygraphy.adapters.torch.arrays import TorchDataTypes  # noqa: E402
from polygraphy.domain.errors import DataTypeConversionException  # noqa: E402
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry  # noqa: E402


@pytest.mark.parametrize("entry", list(DataType), ids=str)
def test_there_and_back(entry: DataTypeEntry) -> None:
    native = TorchDataTypes().to_native(entry)
    if native is None:
        assert entry.name in {"string", "int4", "uint4", "int2", "uint2", "float4"}
        with pytest.raises(DataTypeConversionException, match="torch"):
            entry.torch()
        return
    assert isinstance(native, torch.dtype)
    assert DataType.from_dtype(native) is entry
    assert native.itemsize == entry.itemsize


def test_what_is_unknown_is_none() -> None:
    assert TorchDataTypes().from_native(torch.quint8) is None
    assert DataType.from_dtype(torch.half) is DataType.FLOAT16
