from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.binding import bind
from polygraphy.domain.data import synthesis
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import (
    InputError,
    MissingDependencyError,
    UnknownNameError,
    UsageError,
)
from polygraphy.domain.ports import Tensors
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.facts import InputHint, ModelFacts
from polygraphy.domain.tensors.metadata import TensorMetadata
from tests.domain.strategies import shapes

F32, F64, F16 = DataType.FLOAT32, DataType.FLOAT64, DataType.FLOAT16
I32, I64, BOOL = DataType.INT32, DataType.INT64, DataType.BOOL
SAMPLED = [entry for entry in DataType if entry.kind in ("floating", "integral", "bool")]


def describe(*inputs: tuple[Any, ...]) -> TensorMetadata:
    metadata = TensorMetadata()
    for name, dtype, shape in inputs:
        metadata.add(name, dtype, shape)
    return metadata


def feed(metadata: TensorMetadata, index: int = 0, **settings: Any) -> dict[str, Any]:
    """Return one feed dictionary for a model with such inputs."""
    loader = DataLoader(**settings)
    loader.input_metadata = metadata
    return loader[index]


def sample(dtype: Any, shape: Any = (3,), index: int = 0, **settings: Any) -> Any:
    """Return the data of the one input of a model."""
    return feed(describe(("x", dtype, shape)), index, **settings)["x"]


# The promise to users: their golden files stay valid. The values are those of older releases.

UNIT = [4.17022005e-01, 7.20324493e-01, 1.14374817e-04, 3.02332573e-01, 1.46755891e-01,
        9.23385948e-02]  # fmt: skip
SEED_1 = {"seed": 1}
RECORDED: list[tuple[Any, Any, dict[str, Any], list[Any]]] = [
    (F64, (6,), SEED_1, UNIT),
    (F32, (6,), SEED_1,
     [4.17021990e-01, 7.20324516e-01, 1.14374816e-04, 3.02332580e-01, 1.46755889e-01,
      9.23385918e-02]),
    (F16, (6,), SEED_1, [4.170e-01, 7.202e-01, 1.144e-04, 3.022e-01, 1.467e-01, 9.235e-02]),
    (DataType.INT8, (6,), SEED_1, [1, 0, 1, 0, 1, 0]),
    (DataType.UINT8, (6,), SEED_1, [1, 0, 1, 0, 1, 0]),
    (DataType.INT16, (6,), {}, [1, 1, 1, 1, 0, 1]),
    (I32, (6,), SEED_1, [1, 1, 0, 0, 1, 1]),
    (I64, (6,), SEED_1, [1, 1, 0, 0, 1, 1]),
    (DataType.UINT64, (6,), SEED_1, [1, 1, 0, 0, 1, 1]),
    (BOOL, (6,), SEED_1, [True, False, True, False, False, True]),
    (F32, (4,), {"seed": 2}, [0.4359949, 0.02592623, 0.5496625, 0.4353224]),
    (F32, (), {}, 0.417022),  # type: ignore[list-item]
    (I32, (), {}, 1),  # type: ignore[list-item]
    (F32, (0, 3), {}, []),
    (F32, (3,), {"val_range": (-1, 1)}, [-0.16595599, 0.44064897, -0.99977124]),
    (F64, (3,), {"val_range": (-1, 1)}, [-0.16595599, 0.44064899, -0.99977125]),
    (I32, (8,), {"val_range": (-3, 5)}, [2, 5, 2, -3, -3, -2, 4, 3]),
    (I32, (6,), {"val_range": (-1.5, 5.9)}, [4, 2, 3, -1, 0, 2]),
    (I64, (5,), {"val_range": (0, 2**40)},
     [163196666091, 1095766950793, 876169207429, 620178591873, 1020783786492]),
    (DataType.UINT8, (8,), {"val_range": (0, 255)}, [37, 244, 193, 106, 235, 128, 71, 255]),
    (BOOL, (4,), {"val_range": (0, 0)}, [False] * 4),
    (BOOL, (4,), {"val_range": (1, 1)}, [True] * 4),
    (BOOL, (6,), {"val_range": (0, 5)}, [True, False, True, False, False, True]),
    (F32, (3,), {"val_range": (0, math.inf)}, [math.inf] * 3),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "shape", "settings", "expected"), RECORDED)
def test_data_are_those_of_older_releases(
    dtype: DataTypeEntry, shape: Any, settings: dict[str, Any], expected: Any
) -> None:
    found = sample(dtype, shape, **settings)
    assert type(found) is np.ndarray
    assert found.dtype == dtype.numpy()
    assert found.shape == shape
    rtol = 1e-3 if dtype is F16 else 1e-6 if dtype in (F32, F64) else 0
    np.testing.assert_allclose(found.astype(np.float64).ravel(), np.ravel(expected), rtol=rtol)
    if rtol == 0:
        assert found.tolist() == (expected if shape else int(expected))


def test_text_is_that_of_older_releases() -> None:
    assert sample(DataType.STRING, (2,)).tolist() == ["0.417022004702574", "0.7203244934421581"]


# What an input of each type holds between two others of float32, and what the last of them holds:
# how much a type draws decides about every input after it.
BETWEEN: list[tuple[Any, list[Any], float]] = [
    (F64, [0.87073231, 0.20671916, 0.91861091, 0.48841119, 0.61174386], 0.7659079),
    (F32, [0.87073231, 0.20671916, 0.91861091, 0.48841119, 0.61174386], 0.7659079),
    (I64, [1, 1, 0, 0, 0], 0.979445),
    (I32, [1, 1, 0, 0, 0], 0.979445),
    (DataType.INT16, [1, 0, 1, 1, 0], 0.3637369),
    (DataType.INT8, [1, 1, 0, 0, 1], 0.20671916),
    (DataType.UINT64, [1, 1, 0, 0, 0], 0.979445),
    (DataType.UINT32, [1, 1, 0, 0, 0], 0.979445),
    (DataType.UINT16, [1, 0, 1, 1, 0], 0.3637369),
    (DataType.UINT8, [1, 1, 0, 0, 1], 0.20671916),
    (BOOL, [True, True, True, True, False], 0.83132786),
]


@pytest.mark.parametrize(("dtype", "middle", "last"), BETWEEN, ids=lambda v: str(v)[:20])
def test_inputs_draw_one_after_another(dtype: Any, middle: list[Any], last: float) -> None:
    metadata = describe(("a", F32, (1,)), ("x", dtype, (5,)), ("b", F32, (1,)))
    data = feed(metadata, seed=5)
    assert list(data) == ["a", "x", "b"]
    np.testing.assert_allclose(data["a"], [0.22199318], rtol=1e-6)
    np.testing.assert_allclose(data["x"].astype(np.float64), middle, rtol=1e-6)
    np.testing.assert_allclose(data["b"], [last], rtol=1e-6)


def test_ranges_per_input() -> None:
    metadata = describe(("x", F32, (3,)), ("y", F32, (3,)))
    data = feed(metadata, val_range={"x": (5, 6)})
    np.testing.assert_allclose(data["x"], [5.417022, 5.7203245, 5.0001144], rtol=1e-6)
    np.testing.assert_allclose(data["y"], [0.30233258, 0.14675589, 0.09233859], rtol=1e-6)
    data = feed(metadata, val_range={"x": (5, 6), "": (10, 11)})
    np.testing.assert_allclose(data["y"], [10.302333, 10.146756, 10.092339], rtol=1e-6)


def test_a_range_for_an_unknown_input_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"'nope'.*'x1', 'x2'"):
        feed(describe(("x1", F32, (1,)), ("x2", F32, (1,))), val_range={"nope": (5, 6)})


# Laws.

every_dtype = pytest.mark.parametrize("dtype", SAMPLED, ids=str)
seeds = st.integers(0, 2**33)
tensors = st.lists(
    st.tuples(st.sampled_from(SAMPLED), shapes), min_size=1, max_size=3
).map(lambda kinds: describe(*((f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(kinds))))  # fmt: skip


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return list(left) == list(right) and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and left[name].tobytes() == right[name].tobytes()
        for name in left
    )


@given(tensors, seeds)
def test_the_same_seed_gives_the_same_data(metadata: TensorMetadata, seed: int) -> None:
    assert same(feed(metadata, seed=seed), feed(metadata, seed=seed))


@given(tensors, seeds, st.integers(0, 5))
def test_iterations_count_up_the_seed(metadata: TensorMetadata, seed: int, index: int) -> None:
    later = feed(metadata, index, seed=seed, iterations=6)
    assert same(later, feed(metadata, seed=seed + index))


def test_another_seed_gives_other_data() -> None:
    metadata = describe(("x", F32, (100,)))
    drawn = {feed(metadata, seed=seed)["x"].tobytes() for seed in range(20)}
    assert len(drawn) == 20


@given(tensors)
def test_data_are_as_the_model_asks_for(metadata: TensorMetadata) -> None:
    data = feed(metadata)
    assert list(data) == list(metadata)
    for name, (dtype, shape) in metadata.items():
        assert type(data[name]) is np.ndarray
        assert (data[name].dtype, list(data[name].shape)) == (dtype.numpy(), shape)


def test_iterating_is_indexing() -> None:
    loader = DataLoader(iterations=3, seed=7, input_metadata=describe(("x", F32, (2,))))
    assert len(loader) == 3
    drawn = list(loader)
    assert len(drawn) == 3
    assert all(same(data, loader[index]) for index, data in enumerate(drawn))
    assert same(drawn[0], next(iter(loader)))
    for index in (3, -1):
        with pytest.raises(IndexError):
            loader[index]


def test_data_belong_to_the_caller() -> None:
    loader = DataLoader(input_metadata=describe(("x", F32, (2,))))
    before = loader[0]["x"].copy()
    loader[0]["x"][:] = 9
    np.testing.assert_array_equal(loader[0]["x"], before)


# Ranges.


@every_dtype
def test_the_default_range_is_the_unit_interval(dtype: DataTypeEntry) -> None:
    drawn = sample(dtype, (1000,)).astype(np.float64)
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    assert len(np.unique(drawn)) >= 2


@every_dtype
@given(ends=st.tuples(st.integers(-200, 300), st.integers(-200, 300)).map(sorted), seed=seeds)
def test_ranges_are_respected_by_every_type(
    dtype: DataTypeEntry, ends: list[int], seed: int
) -> None:
    native = dtype.numpy()
    if dtype is BOOL:
        ends = [min(max(end, 0), 1) for end in ends]
    low, high = (float(np.array(end).astype(native)) for end in ends)
    if (low, high) != tuple(ends):  # The type cannot hold the ends of the range.
        return
    drawn = sample(dtype, (50,), val_range=tuple(ends), seed=seed).astype(np.float64)
    assert (drawn >= low).all()
    assert (drawn <= high).all()


@pytest.mark.parametrize("dtype", [e for e in SAMPLED if not e.is_floating], ids=str)
def test_both_ends_of_a_range_of_integers_are_drawn(dtype: DataTypeEntry) -> None:
    low, high = (0, 1) if dtype is BOOL or dtype.name == "int2" else (1, 3)
    drawn = set(sample(dtype, (500,), val_range=(low, high)).astype(int).tolist())
    assert drawn == set(range(low, high + 1))


@pytest.mark.parametrize(
    "dtype", [e for e in SAMPLED if e.is_integral and e.itemsize >= 1], ids=str
)
def test_all_of_an_integer_type_can_be_drawn(dtype: DataTypeEntry) -> None:
    info = np.iinfo(dtype.numpy())
    drawn = sample(dtype, (500,), val_range=(int(info.min), int(info.max)))
    middle = (int(info.min) + int(info.max)) // 2
    assert (drawn.astype(object) > middle).any()
    assert (drawn.astype(object) < middle).any()
    with pytest.raises(InputError, match=f"does not fit into {dtype}"):
        sample(dtype, val_range=(int(info.min), int(info.max) + 1))
    with pytest.raises(InputError, match=f"does not fit into {dtype}"):
        sample(dtype, val_range=(int(info.min) - 1, int(info.max)))


@pytest.mark.parametrize("dtype", [DataType.INT4, DataType.UINT4], ids=str)
def test_a_range_that_four_bits_cannot_hold_is_refused(dtype: DataTypeEntry) -> None:
    with pytest.raises(InputError, match=f"does not fit into {dtype}"):
        sample(dtype, val_range=(0, 100))


@given(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)).map(sorted))
def test_large_integers_are_exact(ends: list[int]) -> None:
    drawn = sample(I64, (20,), val_range=tuple(ends)).tolist()
    assert all(ends[0] <= value <= ends[1] for value in drawn)


def test_one_value_is_a_range() -> None:
    assert sample(I64, val_range=(2**60 + 1, 2**60 + 1)).tolist() == [2**60 + 1] * 3
    assert sample(F64, val_range=(0.1, 0.1)).tolist() == [0.1] * 3


def test_fractional_ends_leave_the_integers_between_them() -> None:
    assert set(sample(I32, (200,), val_range=(0.9, 5.9)).tolist()) == {1, 2, 3, 4, 5}
    assert set(sample(I32, (200,), val_range=(-2.5, -0.5)).tolist()) == {-2, -1}
    with pytest.raises(InputError, match=r"no integer between 0\.2 and 0\.7 for input 'x'"):
        sample(I32, val_range=(0.2, 0.7))


@pytest.mark.parametrize("ends", [(-math.inf, math.inf), (0, math.inf), (-math.inf, 0)])
def test_infinite_ranges(ends: tuple[float, float]) -> None:
    drawn = sample(F32, (100,), val_range=ends)
    assert np.isinf(drawn).all()
    assert set(np.unique(drawn).tolist()) == {end for end in ends if math.isinf(end)}
    with pytest.raises(InputError, match="'x' contains integers"):
        sample(I32, val_range=ends)


def test_a_range_wider_than_the_largest_number_is_finite() -> None:
    drawn = sample(F64, (100,), val_range=(-1.5e308, 1.5e308))
    assert np.isfinite(drawn).all()


@pytest.mark.filterwarnings("error")
def test_what_a_narrow_type_cannot_hold_becomes_infinite_silently() -> None:
    assert sample(F16, (50,), val_range=(0, 1e6)).max() == np.inf


def test_a_range_of_flags_around_zero() -> None:
    assert not sample(BOOL, val_range=(-1, 0)).all()
    assert set(sample(BOOL, (100,), val_range=(-1, 1)).tolist()) == {True, False}


# Shapes and types.


def test_unknown_dimensions_become_one_and_a_note_says_so() -> None:
    loader = DataLoader(iterations=2)
    loader.input_metadata = describe(("x", F32, ("batch", -1, None, 2)), ("y", F32, (3,)))
    assert loader[0]["x"].shape == (1, 1, 1, 2)
    assert loader[1]["x"].shape == (1, 1, 1, 2)
    (note,) = loader.notes
    assert "x (dtype=float32, shape=('batch', -1, None, 2))" in note
    assert "Will use shape: [1, 1, 1, 2]" in note


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"min_shape": (3,), "max_shape": (5,)}, (3,)),
        ({"min_shape": (3,)}, (3,)),
        ({"max_shape": (5,)}, (5,)),
    ],
)
def test_known_bounds_are_used_silently(bounds: dict[str, Any], expected: Any) -> None:
    loader = DataLoader()
    loader.input_metadata = TensorMetadata().add("x", F32, ("n",), **bounds)
    assert loader[0]["x"].shape == expected
    assert loader.notes == []


def given_by_user(
    user: TensorMetadata | None, model: TensorMetadata, **settings: Any
) -> DataLoader:
    loader = DataLoader(input_metadata=user, **settings)
    loader.input_metadata = model
    return loader


def test_a_given_shape_and_type_outrank_the_model() -> None:
    model = describe(("x", F32, ("n", 2)), ("y", I32, (1,)))
    data = given_by_user(describe(("x", I32, (2, 2))), model)[0]
    assert data["x"].tolist() == [[1, 1], [0, 0]]
    assert list(data) == ["x", "y"]
    data = given_by_user(describe(("x", None, (3, 2))), model)[0]
    assert (data["x"].dtype, data["x"].shape) == (np.float32, (3, 2))
    data = given_by_user(describe(("x", F64, None)), describe(("x", F32, (2,))))[0]
    assert (data["x"].dtype, data["x"].shape) == (np.float64, (2,))


def test_a_given_type_is_enough_where_the_model_has_none() -> None:
    assert sample(None, (2,)).dtype == np.float32
    assert given_by_user(describe(("x", I64, (2,))), describe(("x", None, None)))[0][
        "x"
    ].tolist() == [1, 1]


def test_without_a_model_the_given_metadata_are_used() -> None:
    loader = DataLoader(input_metadata=describe(("x", F32, (1,))), iterations=2)
    assert [round(float(data["x"][0]), 6) for data in loader] == [0.417022, 0.435995]
    assert DataLoader()[0] == {}
    assert DataLoader().input_metadata is None


def test_patterns_stand_for_all_inputs_that_match() -> None:
    model = describe(("a1", F32, ("n",)), ("a2", F32, ("n",)), ("b", F32, ("n",)))
    for order in (1, -1):
        user = describe(*[("a*", None, (2,)), ("a2", None, (3,)), ("?", None, (4,))][::order])
        data = given_by_user(user, model)[0]
        assert [array.shape for array in data.values()] == [(2,), (3,), (4,)]


def test_an_operation_stands_for_its_only_tensor() -> None:
    model = describe(("image:0", F32, ("n",)), ("mask:0", F32, ("m",)), ("mask:1", F32, ("m",)))
    data = given_by_user(describe(("image", None, (2,))), model, val_range={"image": (5, 5)})[0]
    assert data["image:0"].tolist() == [5, 5]
    assert data["mask:0"].shape == (1,)
    for user, settings in (
        (describe(("mask", None, (2,))), {}),
        (None, {"val_range": {"mask": (0, 1)}}),
    ):
        with pytest.raises(UnknownNameError, match="'mask' does not exist"):
            given_by_user(user, model, **settings)[0]


def test_a_name_with_special_characters_is_a_name_first() -> None:
    model = describe(("x[0]", F32, ("n",)), ("x0", F32, ("m",)))
    data = given_by_user(describe(("x[0]", None, (2,))), model)[0]
    assert [array.shape for array in data.values()] == [(2,), (1,)]


@pytest.mark.parametrize("name", ["imput", "b*", "INPUT"])
def test_metadata_for_an_unknown_input_are_refused(name: str) -> None:
    loader = given_by_user(describe((name, None, (2,))), describe(("input", F32, (2,))))
    with pytest.raises(UnknownNameError, match="'input'"):
        loader[0]


def test_a_shape_that_does_not_fit_is_refused() -> None:
    loader = given_by_user(describe(("x", None, (3, 3))), describe(("x", F32, ("b", 2))))
    with pytest.raises(InputError, match=r"'x' has shape \('b', 2\).*\(3, 3\)"):
        loader[0]


def test_an_unknown_rank_needs_a_shape() -> None:
    with pytest.raises(InputError, match="'x' has no shape"):
        sample(F32, None)
    data = given_by_user(describe(("x", None, (2, 2))), describe(("x", F32, None)))[0]
    assert data["x"].shape == (2, 2)


def test_a_shape_that_can_only_be_the_value_of_a_shape_tensor_is() -> None:
    loader = given_by_user(
        describe(("s", None, (3, 4)), ("x", None, None)),
        describe(("s", I32, (2,)), ("x", F32, (2,))),
    )
    data = loader[0]
    assert data["s"].tolist() == [3, 4]
    assert data["s"].dtype == np.int32
    np.testing.assert_allclose(data["x"], UNIT[:2], rtol=1e-6)
    (note,) = loader.notes
    assert "s | Using [3, 4] as its value" in note


# What is refused.


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"seed": -1}, "seed"),
        ({"iterations": -1}, "iterations"),
        ({"iterations": -3}, "iteration"),
        ({"val_range": (1, 0)}, "1, 0"),
        ({"val_range": (math.nan, 1)}, "nan"),
        ({"val_range": {"x": (0, 1), "y": (1, 0)}}, "1, 0"),
        ({"data_loader_backend_module": "jax"}, "jax"),
    ],
)
def test_what_cannot_be_meant_is_refused(settings: dict[str, Any], fact: str) -> None:
    with pytest.raises(UsageError, match=fact):
        DataLoader(**settings)


@pytest.mark.parametrize("val_range", [5, (1, 2, 3), {"x": 1}], ids=str)
def test_a_range_that_is_no_pair_is_refused(val_range: Any) -> None:
    with pytest.raises(UsageError):
        DataLoader(val_range=val_range)


def test_as_people_read_it() -> None:
    assert repr(DataLoader()) == "DataLoader(seed=1, iterations=1, val_range=(0.0, 1.0))"
    made = DataLoader(seed=0, iterations=2, val_range=(0, 5), data_loader_backend_module="numpy")
    assert (made.seed, made.iterations, made.val_range) == (0, 2, (0, 5))


# Shapes in turn.


def test_shapes_are_taken_in_turn() -> None:
    turns = [TensorMetadata().add("x", None, (size, 3)) for size in (2, 6)]
    loader = DataLoader(input_metadata=turns, iterations=5)
    loader.input_metadata = TensorMetadata().add("x", np.float32, ("batch", 3))
    assert [feed["x"].shape[0] for feed in loader] == [2, 6, 2, 6, 2]


def test_there_is_one_iteration_per_shape_by_default() -> None:
    turns = [TensorMetadata().add("x", np.float32, (size,)) for size in (1, 2, 3)]
    assert [feed["x"].size for feed in DataLoader(input_metadata=turns)] == [1, 2, 3]


def test_no_turns_at_all_are_refused() -> None:
    with pytest.raises(UsageError, match="at least one iteration"):
        DataLoader(input_metadata=[])


class _Library:
    """Stands for another array library, whose arrays are lists."""

    def __init__(self, *, is_there: bool = True) -> None:
        self.is_there = is_there

    def prepare(self) -> None:
        if not self.is_there:
            raise MissingDependencyError("It is not installed.", module="torch")

    def from_array(self, name: str, array: np.ndarray[Any, Any]) -> Any:
        return [name, array.tolist()]

    def to_array(self, tensor: Any) -> np.ndarray[Any, Any]:
        return np.asarray(tensor[1])


def test_other_array_libraries_get_the_same_numbers() -> None:
    metadata = TensorMetadata().add("x", np.float32, (2,))
    plain = DataLoader(input_metadata=metadata)[0]["x"]
    with bind(Tensors, _Library(), "torch"):
        loader = DataLoader(input_metadata=metadata, data_loader_backend_module="torch")
        assert loader[0]["x"] == ["x", plain.tolist()]
    with (
        bind(Tensors, _Library(is_there=False), "torch"),
        pytest.raises(MissingDependencyError, match="not installed"),
    ):
        DataLoader(data_loader_backend_module="torch")
    with pytest.raises(UsageError, match="numpy, torch"):
        DataLoader(data_loader_backend_module="jax")


def test_inputs_without_a_range_take_their_legal_values_from_the_model() -> None:
    metadata = TensorMetadata().add("i", np.int8, (500,)).add("f", np.float16, (500,))
    facts = ModelFacts(
        input_hints={"i": InputHint(0, 1000, "indices"), "f": InputHint(0, 1, "a mask")}
    )

    def generated(val_range: Any) -> tuple[Any, list[str]]:
        loader = DataLoader(val_range=val_range)
        loader.input_metadata, loader.model_facts = metadata, facts
        return loader[0], loader.notes

    feed, notes = generated(None)
    assert 100 < feed["i"].max() <= 127
    assert set(feed["f"].tolist()) == {0.0, 1.0}
    assert feed["f"].dtype == np.float16
    assert len(notes) == 2
    assert "Input tensor: f | Using whole numbers from 0 to 1: the model uses it as" in notes[1]
    assert "from 0 to 127: the model uses it as indices" in notes[0]
    for val_range in ((0, 5), {"i": (0, 5), "f": (0, 5)}, {"": (0, 5)}):
        feed, notes = generated(val_range)
        assert feed["i"].max() == 5
        assert len(set(feed["f"].tolist())) > 6
        assert not notes
    assert generated({"f": (0, 5)})[0]["i"].max() > 100


def test_whole_numbers_that_nobody_limits_are_said_to_be_few() -> None:
    asked = TensorMetadata().add("i", np.int32, (4,)).add("f", np.float32, (4,))
    loader = DataLoader(input_metadata=asked)
    assert set(loader[0]["i"]) <= {0, 1}
    (note,) = loader.notes
    assert (
        "Input tensor: i | Using whole numbers from 0 to 1" in note
        and "Set a different range" in note
    )
    given = DataLoader(input_metadata=asked, val_range={"i": (0, 1)})
    assert given[0] and not given.notes


def test_a_single_legal_value_is_taken() -> None:
    loader = DataLoader(input_metadata=TensorMetadata().add("sr", np.int64, ()))
    loader.model_facts = ModelFacts(input_hints={"sr": InputHint(16000, 16000, "a rate")})
    assert loader[0]["sr"] == 16000
    assert loader.notes == [
        "Input tensor: sr | Using 16000: the model uses it as a rate. Set a different range with --val-range."
    ]


@pytest.mark.parametrize("size", [1, 16383, 16384, 16385, 50_000])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-2.5, 3.0), (0, 7), (-1.0, 0.0)])
def test_large_inputs_are_one_draw_of_the_generator(size: int, bounds: Any) -> None:
    """However many numbers are drawn at a time, they are those of one draw, scaled and rounded."""
    fed = feed(describe(("x", F32, (size,)), ("y", F64, (3,))), 4, iterations=5, val_range=bounds)
    generator = np.random.RandomState(5)
    low, high = bounds
    for name, count, dtype in (("x", size, np.float32), ("y", 3, np.float64)):
        expected = generator.random_sample(count) * (float(high) - float(low)) + low
        np.testing.assert_array_equal(fed[name], expected.astype(dtype))


def test_feeds_are_the_same_one_by_one_and_in_a_row() -> None:
    loader = DataLoader(iterations=4, val_range=(-3.0, 9.0))
    loader.input_metadata = describe(("x", F32, (5,)), ("i", I64, (7,)))
    in_order = list(loader)
    for index in (3, 0, 2, 1):
        for name, array in loader[index].items():
            np.testing.assert_array_equal(array, in_order[index][name])


def test_dimensions_of_one_name_are_as_long_as_those_that_were_given() -> None:
    model = describe(
        ("nodes", I64, ("atoms", 3)), ("kind", I64, ("atoms",)), ("pos", F32, ("atoms", "T")),
        ("edges", I64, (2, "?")), ("length", F32, ("?",)), ("mask", F32, ("batch", 4)),
    )  # fmt: skip
    given = describe(("nodes", None, (12, 3)), ("edges", None, (2, 30)))
    loader = DataLoader(input_metadata=given)
    loader.input_metadata = model
    assert {name: array.shape for name, array in loader[0].items()} == {
        "nodes": (12, 3), "kind": (12,), "pos": (12, 1), "edges": (2, 30), "length": (1,),
        "mask": (1, 4),
    }  # fmt: skip
    assert set(loader.assumed) == {"pos", "length", "mask"}
    [note] = [note for note in loader.notes if "kind" in note and "the same names" in note]
    assert "Will use shape: [12]" in note


def test_dimensions_of_one_name_that_were_given_several_lengths_say_nothing_of_others() -> None:
    model = describe(("a", F32, ("n",)), ("b", F32, ("n",)), ("c", F32, ("n",)))
    loader = DataLoader(input_metadata=describe(("a", None, (3,)), ("b", None, (5,))))
    loader.input_metadata = model
    assert {name: array.shape for name, array in loader[0].items()} == {
        "a": (3,), "b": (5,), "c": (1,),
    }  # fmt: skip


def test_dimensions_that_the_model_requires_have_their_length() -> None:
    loader = DataLoader()
    loader.input_metadata = describe(
        ("past", F32, ("n", "h", 3, "d")), ("v", F32, ("n", "h", 3, "d"))
    )
    loader.model_facts = ModelFacts(dim_lengths={"h": 2, "d": 8})
    assert loader[0]["past"].shape == (1, 2, 3, 8)
    assert len(loader.notes) == 2
    assert "'n' is dynamic, so 1 was used" in loader.notes[0].brief


def test_an_input_larger_than_the_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(synthesis, "_floats", refuse)
    for shape in ((10**6, 10**6), (2**40, 2**40)):
        metadata = TensorMetadata().add("x", DataType.FLOAT32, shape)
        with pytest.raises(InputError, match=r"Input 'x' has shape .* does not fit into memory"):
            next(iter(DataLoader(input_metadata=metadata)))
