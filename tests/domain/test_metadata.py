from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import BoundedShape, MetadataTuple, TensorMetadata
from tests.domain.strategies import names, shapes

__all__ = ["DataType", "TensorMetadata"]  # What the texts that are evaluated below refer to.


def metadata() -> TensorMetadata:
    return (
        TensorMetadata()
        .add("x", DataType.INT64, ("batch", -1, None, 3), docstring="hello")
        .add("y", None, None)
        .add("z", DataType.FLOAT16, (2,), min_shape=(1,), max_shape=(4,))
        .add("s", DataType.BOOL, ())
    )


def test_entries_unpack_into_type_and_shape() -> None:
    dtype, shape = metadata()["x"]
    assert dtype is DataType.INT64
    assert shape == ["batch", -1, None, 3]
    assert list(metadata()["y"]) == [None, None]
    assert metadata()["x"].docstring == "hello"


def test_order_is_that_of_adding() -> None:
    assert list(metadata()) == ["x", "y", "z", "s"]
    assert list(metadata().add("x", None, None)) == ["x", "y", "z", "s"]


def test_bounds_are_kept_with_the_shape() -> None:
    shape = metadata()["z"].shape
    assert isinstance(shape, BoundedShape)
    assert (shape.min, shape.max) == ((1,), (4,))
    assert repr(shape) == "BoundedShape([2], min=(1,), max=(4,))"
    assert BoundedShape((1, 3)) == [1, 3]


def test_metadata_is_a_dictionary() -> None:
    assert isinstance(metadata(), dict)
    assert metadata() == metadata()
    assert metadata() != TensorMetadata()
    assert metadata().get("nope") is None
    with pytest.raises(KeyError):
        metadata()["nope"]


def test_entries_are_equal_by_type_and_shape() -> None:
    assert MetadataTuple(DataType.BOOL, (1, 2)) == MetadataTuple(DataType.BOOL, [1, 2], "doc")
    assert MetadataTuple(DataType.BOOL, None) != MetadataTuple(DataType.BOOL, ())
    assert MetadataTuple(DataType.BOOL, (1,)) != MetadataTuple(DataType.INT8, (1,))
    assert MetadataTuple(DataType.BOOL, (1,)) != (DataType.BOOL, (1,))
    assert len({MetadataTuple(DataType.BOOL, (1,)), MetadataTuple(DataType.BOOL, [1])}) == 1


def test_as_people_read_it() -> None:
    assert str(metadata()) == (
        "{x [dtype=int64, shape=('batch', -1, None, 3), hello],\n"
        " y,\n"
        " z [dtype=float16, shape=(2,), min_shape=[1], max_shape=[4]],\n"
        " s [dtype=bool, shape=()]}"
    )
    assert str(TensorMetadata()) == "{}"
    assert str(TensorMetadata().add("x", None, (1,))) == "{x [shape=(1,)]}"
    assert str(TensorMetadata().add("x", DataType.INT8, None)) == "{x [dtype=int8]}"


def test_as_code() -> None:
    assert repr(TensorMetadata()) == "TensorMetadata()"
    added = TensorMetadata().add("x", DataType.FLOAT32, (1, 3, 4))
    assert repr(added) == "TensorMetadata().add('x', DataType.FLOAT32, [1, 3, 4])"
    assert eval(repr(metadata())) == metadata()


@given(st.dictionaries(names, st.tuples(st.sampled_from(list(DataType)), shapes)))
def test_code_gives_the_same_again(entries: dict[str, tuple[Any, Any]]) -> None:
    built = TensorMetadata()
    for name, (dtype, shape) in entries.items():
        built.add(name, dtype, shape)
    assert eval(repr(built)) == built


def test_from_maps_of_a_classifier() -> None:
    maps = [{"a": 0.5, "b": 0.5}, {"a": 1.0, "b": 0.0}, {"b": 1.0, "a": 0.0}]
    expected = TensorMetadata().add("y", DataType.FLOAT32, (3, 2))
    assert TensorMetadata.from_feed_dict({"y": maps}) == expected


def test_from_arrays() -> None:
    feed = {"a": np.ones((2, 3)), "b": np.ones((), np.int32), "c": np.array(["text"])}
    expected = (
        TensorMetadata()
        .add("a", DataType.FLOAT64, (2, 3))
        .add("b", DataType.INT32, ())
        .add("c", DataType.STRING, (1,))
    )
    assert TensorMetadata.from_feed_dict(feed) == expected


def test_numpy_dtypes_are_a_copy() -> None:
    original = metadata()
    converted = original.with_numpy_dtypes()
    assert [dtype for dtype, _ in converted.values()] == [
        np.dtype("int64"), None, np.dtype("float16"), np.dtype("bool"),
    ]  # fmt: skip
    assert converted["x"].docstring == "hello"
    assert converted["z"].shape == original["z"].shape
    assert original == metadata()


def test_dtypes_of_others_stay_as_they_are() -> None:
    class Alien:
        pass

    assert TensorMetadata().add("x", Alien, (1,)).with_numpy_dtypes()["x"].dtype is Alien
