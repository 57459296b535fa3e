"""Arrays of every dtype and layout, with the values that break arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy.domain.arithmetic import moments as sums
from polygraphy.domain.arithmetic import summary as ordering
from polygraphy.domain.arithmetic.passes import blocks, selection, streams

__all__ = [
    "EXTENDED",
    "FLOATS",
    "INTEGERS",
    "NUMBERS",
    "arrays",
    "floats_with_ties",
    "relaid",
    "shapes",
    "tiny_blocks",
]

Array = np.ndarray[Any, Any]

INTEGERS = [
    np.dtype(name)
    for name in ("?", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
] + [np.dtype(getattr(ml_dtypes, name)) for name in ("int4", "uint4", "int2", "uint2")]
EXTENDED = [
    np.dtype(getattr(ml_dtypes, name))
    for name in (
        "bfloat16",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "float4_e2m1fn",
    )
]
FLOATS = [np.dtype(name) for name in ("float16", "float32", "float64")] + EXTENDED
NUMBERS = INTEGERS + FLOATS


def shapes(min_size: int = 0, max_size: int = 90) -> st.SearchStrategy[tuple[int, ...]]:
    return hnp.array_shapes(
        min_dims=0, max_dims=4, min_side=0 if min_size == 0 else 1, max_side=9
    ).filter(lambda shape: min_size <= int(np.prod(shape, dtype=int)) <= max_size)


@st.composite
def arrays(draw: st.DrawFn, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """An array of a numeric dtype: few values many times, or all kinds of values."""
    ranges = _bounds(dtype)
    if ranges is not None:
        low, high = ranges
        near = [low, low + 1, 0, 1, high - 1, high, (low + high) // 2]
        element = st.one_of(
            st.sampled_from([x for x in near if low <= x <= high]), st.integers(low, high)
        )
        values = draw(hnp.arrays(object, shape, elements=element))
        return values.astype(dtype) if dtype.kind in "biu" else values.astype("i8").astype(dtype)
    numbers = draw(hnp.arrays(np.float64, shape, elements=floats_with_ties()))
    with np.errstate(all="ignore"):
        return numbers.astype(dtype)


def floats_with_ties() -> st.SearchStrategy[float]:
    return st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, 1.0, 1.5, -2.0, 3.0, 1e-3, 448.0]),
        st.sampled_from([float("nan"), float("inf"), float("-inf"), 65504.0, 1e-8, 3.4e38]),
        st.floats(width=32),
        st.floats(),
    )


def _bounds(dtype: np.dtype[Any]) -> tuple[int, int] | None:
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if dtype.name.startswith(("int", "uint")):
        return int(ml_dtypes.iinfo(dtype).min), int(ml_dtypes.iinfo(dtype).max)
    return None


@st.composite
def relaid(draw: st.DrawFn, array: Array) -> Array:
    """The same elements in another memory layout, byte order or writability."""
    way = draw(st.sampled_from(["fortran", "strided", "negative", "swapped", "readonly", "same"]))
    if way == "fortran" and array.ndim:
        return np.asfortranarray(array)
    if way == "strided" and array.ndim:
        wide = np.repeat(array, 2, axis=-1)
        return wide[..., ::2]
    if way == "negative" and array.ndim:
        return np.ascontiguousarray(np.flip(array))[(slice(None, None, -1),) * array.ndim]
    if way == "swapped" and array.dtype.kind in "iufc" and array.dtype.itemsize > 1:
        return array.astype(array.dtype.newbyteorder())
    copy = array.copy()
    copy.flags.writeable = way != "readonly"
    return copy


@contextmanager
def tiny_blocks(
    block: int = 16, *, sample: int = 24, kept: int = 1 << 20, threads_from: int = 64
) -> Iterator[None]:
    """Walk small arrays as large ones are walked: in blocks, by sample, in threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", block)
        patch.setattr(blocks, "SPAN", 2)
        patch.setattr(blocks, "PARALLEL", threads_from)
        patch.setattr(ordering, "SORTED", 0)
        patch.setattr(streams, "KEPT", 0)
        patch.setattr(selection, "SAMPLE", sample)
        patch.setattr(selection, "SAMPLE_LEAST", min(sample, 8))
        patch.setattr(selection, "KEPT", kept)
        patch.setattr(sums, "ROW", 8)
        yield
