"""Where elements lie in the formats of TensorRT, against the fake's own reading of the formats."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.tensorrt.runtime.memory import Layout, contiguous_strides
from tests.support.fake_tensorrt import COMPONENTS, Tensor, places

SHAPES = st.tuples(*[st.integers(0, 5)] * 4)
FORMATS = st.sampled_from(sorted(COMPONENTS))


def layout_of(tensor_format: str, shape: Any, dtype: Any) -> Layout:
    tensor = Tensor("x", tensor_format=tensor_format)
    components = COMPONENTS[tensor_format]
    return Layout(
        shape,
        np.dtype(dtype),
        tuple(tensor.strides(shape)),
        components,
        1 if components > 1 else -1,
        np.dtype(dtype).itemsize * 8,
    )


@given(SHAPES, FORMATS, st.sampled_from([np.int8, np.float16, ml_dtypes.bfloat16, np.float32]))
def test_each_element_is_in_its_place_and_comes_back(
    shape: Any, tensor_format: str, dtype: Any
) -> None:
    array = (np.arange(prod(shape)) % 100 + 1).astype(dtype).reshape(shape)
    layout = layout_of(tensor_format, shape, dtype)
    memory = layout.pack(array)
    assert memory.nbytes == layout.nbytes
    scalars = memory.view(dtype)
    taken = np.zeros(scalars.size, bool)
    for index, place in places(Tensor("x", tensor_format=tensor_format), shape):
        assert scalars[place] == array[index]
        taken[place] = True
    assert not scalars[~taken].astype(np.float32).any()
    back = layout.unpack(memory)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


@given(st.lists(st.integers(-8, 7), max_size=9))
def test_two_elements_of_four_bits_share_a_byte(values: list[int]) -> None:
    array = np.array(values, dtype=ml_dtypes.int4)
    layout = Layout((len(values),), array.dtype, (1,), bits=4)
    memory = layout.pack(array)
    assert memory.nbytes == layout.nbytes == (len(values) + 1) // 2
    for position, value in enumerate(values):
        assert memory[position // 2] >> 4 * (position % 2) & 15 == value & 15
    assert layout.unpack(memory).astype(int).tolist() == values


@pytest.mark.parametrize("count", [4, 5])
def test_floats_of_four_bits(count: int) -> None:
    array = np.array([0.5, -6, 3, 0, 1][:count]).astype(ml_dtypes.float4_e2m1fn)
    layout = Layout((count,), array.dtype, contiguous_strides((count,)), bits=4)
    back = layout.unpack(layout.pack(array))
    assert back.astype(float).tolist() == array.astype(float).tolist()


def test_strides_without_gaps() -> None:
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert contiguous_strides(()) == ()
