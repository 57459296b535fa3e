from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.data.loading import arrays_of
from polygraphy.domain.errors import InputError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata

TYPES = [np.dtype(t) for t in ("f4", "f2", "i8", "u1", "?", ml_dtypes.bfloat16)]


@given(st.sampled_from(TYPES), st.lists(st.integers(1, 4), max_size=4), st.integers(-1, 3))
def test_what_was_written_is_read(dtype: np.dtype[Any], shape: list[int], open_at: int) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    reported: list[Any] = ["n" if at == open_at else dim for at, dim in enumerate(shape)]
    metadata = TensorMetadata().add("x", DataType.from_dtype(dtype), reported)
    found = arrays_of({"x": array.tobytes()}, metadata)["x"]
    assert found.dtype == dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("data", "shape", "word"),
    [
        (b"123", [1], "elements of 4 bytes, but the data has 3"),
        (b"12345678", [3], "which does not fit 2 elements"),
        (b"12345678", ["n", 3], "which does not fit 2 elements"),
        (b"12345678", ["n", "m"], "do not determine its 2 dynamic dimensions"),
    ],
)
def test_what_does_not_fit_is_reported(data: bytes, shape: Any, word: str) -> None:
    with pytest.raises(InputError, match=word):
        arrays_of({"x": data}, TensorMetadata().add("x", DataType.FLOAT32, shape))


def test_names_are_matched_and_text_is_refused() -> None:
    metadata = TensorMetadata().add("image", DataType.FLOAT32, [1])
    assert list(arrays_of({"IMAGE_0": bytes(4)}, metadata)) == ["image"]
    with pytest.raises(InputError, match="No data for input 'image'"):
        arrays_of({}, metadata)
    with pytest.raises(InputError, match="cannot be read from raw bytes"):
        arrays_of({"x": b""}, TensorMetadata().add("x", DataType.STRING, [1]))
