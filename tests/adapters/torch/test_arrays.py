"""Arrays survive the way into tensors and out again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

torch = pytest.importorskip("torch")

from polygraphy.adapters.torch.arrays import (  # noqa: E402
    TorchDataTypes,
    array_from,
    tensor_from,
)
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry  # noqa: E402

TYPES = [entry for entry in DataType if TorchDataTypes().to_native(entry) is not None]


def test_the_usual_types_are_there() -> None:
    names = {entry.name for entry in TYPES}
    assert {"float32", "bfloat16", "float8e4m3fn", "uint64", "bool", "complex64"} <= names
    assert not {"string", "int4", "float4"} & names


@given(st.sampled_from(TYPES), st.data())
def test_there_and_back(entry: DataTypeEntry, data: st.DataObject) -> None:
    dtype = entry.numpy()
    shape = data.draw(arrays.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4))
    bits = data.draw(arrays.arrays(np.uint8, (*shape, dtype.itemsize)))
    array = (
        (bits % 2).view(np.bool_)[..., 0] if entry is DataType.BOOL else bits.view(dtype)[..., 0]
    )
    tensor = tensor_from("x", array, torch.device("cpu"))
    assert tensor.dtype == entry.torch()
    assert tuple(tensor.shape) == array.shape
    back = array_from(tensor)
    assert back.dtype == dtype
    assert back.shape == array.shape
    assert back.tobytes() == np.ascontiguousarray(array).tobytes()
    assert not np.shares_memory(back, array)


def test_lazy_conjugates_and_negatives_are_resolved() -> None:
    tensor = torch.tensor([1 + 2j, 3 - 4j]).conj()
    np.testing.assert_array_equal(array_from(tensor), [1 - 2j, 3 + 4j])
    np.testing.assert_array_equal(array_from(tensor.imag), [-2, 4])
