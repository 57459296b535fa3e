from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy.domain.data.loading import check_feed, fit_feed
from polygraphy.domain.errors import InputError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata

WANTED = TensorMetadata().add("x", DataType.FLOAT32, ("n", 2)).add("mask", DataType.BOOL, None)
FITTING = {"x": np.zeros((3, 2), np.float32), "mask": np.zeros((), np.bool_)}


def one(dtype: Any, shape: Any) -> TensorMetadata:
    return TensorMetadata().add("x", dtype, shape)


def fit(array: Any, dtype: Any, shape: Any = None) -> Any:
    fitted, _ = fit_feed({"x": array}, one(dtype, shape))
    return fitted["x"]


# Checking.


@pytest.mark.parametrize(
    "feed",
    [
        FITTING,
        dict(reversed(FITTING.items())),
        {**FITTING, "x": np.zeros((0, 2), np.float32)},
        {**FITTING, "mask": np.zeros((5, 5), np.bool_)},
        {"x": 0x7F0000000000, "mask": 0x7F0000001000},
    ],
    ids=["plain", "order", "empty", "any rank", "addresses"],
)
def test_what_fits_passes(feed: dict[str, Any]) -> None:
    check_feed(feed, WANTED)
    assert fit_feed(feed, WANTED) == (feed, [])


@pytest.mark.parametrize(
    ("feed", "words"),
    [
        ({}, "The following inputs were not found in"),
        ({"x": np.zeros((1, 2), np.float32), "y": np.zeros(1)}, "Extra inputs in"),
        ({"x": np.zeros((1, 2))}, "unexpected dtype"),
        ({"x": np.zeros((1, 3), np.float32)}, "incompatible shape"),
    ],
)
def test_what_does_not_fit_is_said_in_the_words_that_tests_of_others_look_for(
    feed: Any, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        check_feed(feed, one(DataType.FLOAT32, (1, 2)))


def test_nothing_fits_nothing() -> None:
    check_feed({}, TensorMetadata())
    with pytest.raises(InputError, match=r"expects \[\]\. Extra inputs in the data: 'x'"):
        check_feed({"x": np.zeros(1)}, TensorMetadata())


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"x": np.zeros((3, 2))}, ["'x'", "float32", "float64"]),
        ({"x": np.zeros((3, 3), np.float32)}, ["'x'", "('n', 2)", "(3, 3)"]),
        ({"x": np.zeros((3, 2, 1), np.float32)}, ["'x'", "('n', 2)", "(3, 2, 1)"]),
        ({"x": np.zeros(2, "M8[s]")}, ["'x'", "float32", "datetime64"]),
        ({"extra": np.zeros(1)}, ["'extra'", "['x', 'mask']"]),
    ],
)
def test_what_does_not_fit_is_explained(change: dict[str, Any], facts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        check_feed({**FITTING, **change}, WANTED)
    for fact in facts:
        assert fact in str(caught.value)


def test_a_misspelt_name_is_guessed() -> None:
    with pytest.raises(
        InputError,
        match=r"not found in the data: 'mask'. Extra inputs in the data: 'msak'.*Did you mean 'mask'",
    ):
        check_feed({"x": FITTING["x"], "msak": FITTING["mask"]}, WANTED)


def test_an_unknown_type_takes_anything() -> None:
    check_feed({"x": np.zeros(1)}, one(None, None))
    check_feed({"x": np.array(["text"])}, one(None, None))


@pytest.mark.parametrize("array", [[1.0, 2.0], None, "text", 1.5, (1,)], ids=str)
def test_what_is_no_array_is_reported(array: Any) -> None:
    with pytest.raises(InputError, match="'x'"):
        check_feed({"x": array}, one(DataType.FLOAT32, None))
    with pytest.raises(InputError, match="'x'"):
        fit_feed({"x": array}, one(DataType.FLOAT32, None))


# Fitting names.


def test_a_feed_that_fits_is_passed_on_without_a_copy() -> None:
    fitted, notes = fit_feed(FITTING, WANTED)
    assert all(fitted[name] is FITTING[name] for name in FITTING)
    assert fitted is not FITTING
    assert notes == []


def test_names_are_matched_like_outputs() -> None:
    feed = {"graph/X:0": FITTING["x"], "other": FITTING["mask"]}
    fitted, notes = fit_feed(feed, WANTED)
    assert list(fitted) == ["x", "mask"]
    assert fitted["x"] is feed["graph/X:0"]
    assert fitted["mask"] is feed["other"]
    assert len(notes) == 2
    assert "'x'" in notes[0]
    assert "'graph/X:0'" in notes[0]


def test_what_nobody_asks_for_is_dropped() -> None:
    fitted, notes = fit_feed({**FITTING, "extra": np.zeros(1)}, WANTED)
    assert list(fitted) == ["x", "mask"]
    assert notes == []


def test_what_is_missing_is_reported() -> None:
    with pytest.raises(InputError, match="not found in the data: 'mask'"):
        fit_feed({"x": FITTING["x"]}, WANTED)
    with pytest.raises(InputError, match="not found in the data: 'x', 'mask'"):
        fit_feed({}, WANTED)


def test_no_data_are_used_twice() -> None:
    wanted = TensorMetadata().add("a", DataType.INT64, (1,)).add("b", DataType.INT64, (1,))
    feed = {"b": np.array([1]), "c": np.array([2])}
    with pytest.raises(InputError, match=r"found in the data: 'a'\. Extra inputs in the data: 'c'"):
        fit_feed(feed, wanted)


# Fitting data types.

NUMBERS = [entry for entry in DataType if entry.kind in ("floating", "integral", "bool")]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_small_integers_fit_every_type(dtype: Any) -> None:
    array = np.array([1, 1, 1])
    fitted, notes = fit_feed({"x": array}, one(dtype, (3,)))
    assert fitted["x"].dtype == dtype.numpy()
    assert fitted["x"].astype(np.int64).tolist() == [1, 1, 1]
    assert bool(notes) == (dtype is not DataType.INT64)
    assert all(f"cast from int64 to {dtype}" in note for note in notes)


integral = st.sampled_from([entry for entry in DataType if entry.is_integral])
integers = hnp.arrays(
    st.sampled_from([np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64]),
    hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
)


@given(integers, integral)
def test_integers_survive_or_are_refused(array: Any, dtype: Any) -> None:
    try:
        fitted = fit(array, dtype)
    except InputError:
        bits = round(dtype.itemsize * 8)
        low, high = (0, 2**bits) if dtype.name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        assert any(not low <= value < high for value in array.ravel().tolist())
    else:
        assert fitted.dtype == dtype.numpy()
        assert [int(value) for value in fitted.ravel()] == array.ravel().tolist()


@given(hnp.arrays(np.float64, (3,)), integral)
def test_fractions_never_become_integers(array: Any, dtype: Any) -> None:
    try:
        fitted = fit(array, dtype)
    except InputError:
        return
    assert [int(value) for value in fitted] == array.tolist()


@given(hnp.arrays(np.float64, (3,), elements=st.floats(-1e300, 1e300)))
def test_numbers_are_rounded_as_numpy_rounds_them(array: Any) -> None:
    with np.errstate(over="ignore"):
        expected = array.astype(np.float32)
    assume(np.isfinite(expected).all())
    np.testing.assert_array_equal(fit(array, DataType.FLOAT32), expected, strict=True)


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.FLOAT8E4M3FN], ids=str)
def test_a_number_that_is_too_large_is_refused(dtype: Any) -> None:
    with pytest.raises(InputError, match=f"'x'.*{dtype}.*float64 and values"):
        fit(np.array([1e30]), dtype)


def test_a_number_that_is_too_large_for_float4_is_refused() -> None:
    with pytest.raises(InputError):
        fit(np.array([100.0]), DataType.FLOAT4)


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BFLOAT16], ids=str)
def test_nan_and_infinity_stay(dtype: Any) -> None:
    fitted = fit(np.array([np.nan, np.inf, -np.inf, -0.0]), dtype).astype(np.float64)
    assert np.isnan(fitted[0])
    assert fitted[1:].tolist() == [np.inf, -np.inf, 0]
    assert np.signbit(fitted[3])


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.5, -1.0, 256.0])
def test_what_an_integer_cannot_hold_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="cannot hold"):
        fit(np.array([value]), DataType.UINT8)


def test_only_zero_and_one_become_flags() -> None:
    assert fit(np.array([0, 1]), DataType.BOOL).tolist() == [False, True]
    with pytest.raises(InputError):
        fit(np.array([2]), DataType.BOOL)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_complex_numbers_keep_their_imaginary_part() -> None:
    with pytest.raises(InputError):
        fit(np.array([1 + 2j]), DataType.FLOAT32)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [(np.array(["1"]), DataType.INT64), (np.array([1]), DataType.STRING)],
)
def test_text_and_numbers_are_not_mixed(array: Any, dtype: Any) -> None:
    with pytest.raises(InputError, match=f"must have data type {dtype}"):
        fit(array, dtype)


def test_narrow_arrays_are_widened() -> None:
    assert fit(np.array([1.5], ml_dtypes.bfloat16), DataType.FLOAT32).tolist() == [1.5]
    assert fit(np.array([-8, 7], ml_dtypes.int4), DataType.INT64).tolist() == [-8, 7]


# Fitting shapes.


@pytest.mark.parametrize(
    ("shape", "wanted", "expected"),
    [
        ((2, 2, 1, 1), (1, 1, 2, 2), (1, 1, 2, 2)),
        ((4, 3, 2), (2, "h", 3), (2, 4, 3)),
        ((6,), (2, 3), (2, 3)),
        ((2, 3), ("n",), (6,)),
        ((2, 3, 4), (-1, 4), (6, 4)),
        ((), (1, 1), (1, 1)),
        ((1, 1), (), ()),
        ((0, 3), (3, 0), (3, 0)),
    ],
)
def test_shapes_are_transposed_or_reshaped(shape: Any, wanted: Any, expected: Any) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    fitted, notes = fit_feed({"x": array}, one(DataType.INT64, wanted))
    assert fitted["x"].shape == expected
    assert sorted(fitted["x"].ravel().tolist()) == sorted(array.ravel().tolist())
    assert notes == [f"Input 'x' was reshaped from {shape} to {expected}."]


def test_images_are_transposed_not_reshaped() -> None:
    image = np.arange(24).reshape(1, 2, 4, 3)
    fitted = fit(image, DataType.INT64, (1, 3, 2, 4))
    np.testing.assert_array_equal(fitted, image.transpose(0, 3, 1, 2))


@pytest.mark.parametrize(
    ("shape", "wanted"), [((5,), (2, 3)), ((2, 3), ("a", "b", "c")), ((4,), (3,)), ((0,), (1,))]
)
def test_a_shape_that_cannot_be_meant_is_refused(shape: Any, wanted: Any) -> None:
    with pytest.raises(InputError, match="Shape mismatch: input 'x'"):
        fit(np.zeros(shape, np.float32), DataType.FLOAT32, wanted)


@given(
    hnp.arrays(np.int64, hnp.array_shapes(max_dims=3, min_side=0, max_side=3)),
    st.lists(st.one_of(st.integers(0, 4), st.just("n")), max_size=3),
)
def test_values_survive_every_fitting(array: Any, wanted: Any) -> None:
    try:
        fitted = fit(array, DataType.INT64, wanted)
    except InputError:
        return
    check_feed({"x": fitted}, one(DataType.INT64, wanted))
    assert sorted(fitted.ravel().tolist()) == sorted(array.ravel().tolist())


@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=3)), st.data())
def test_fitting_twice_is_fitting_once(array: Any, data: st.DataObject) -> None:
    wanted = one(DataType.FLOAT32, data.draw(st.permutations(list(array.shape))))
    once, _ = fit_feed({"x": array}, wanted)
    twice, notes = fit_feed(once, wanted)
    assert twice["x"] is once["x"]
    assert notes == []


def test_one_sample_does_not_become_several() -> None:
    asked = TensorMetadata().add("x", DataType.FLOAT32, ("batch", 1, 8, 8))
    with pytest.raises(InputError, match="turn one sample into 3"):
        fit_feed({"x": np.zeros((1, 3, 8, 8), np.float32)}, asked)
    several, _ = fit_feed({"x": np.zeros((3, 8, 8, 1), np.float32)}, asked)
    assert several["x"].shape == (3, 1, 8, 8)
    first, _ = fit_feed(
        {"x": np.zeros((5, 1, 7), np.float32)},
        TensorMetadata().add("x", DataType.FLOAT32, ("n", 5, 7)),
    )
    assert first["x"].shape == (1, 5, 7)
