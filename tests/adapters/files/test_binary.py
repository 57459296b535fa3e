"""Files that hold arrays as they are: .safetensors, .npz, .npy."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from polygraphy.adapters.files.formats.binary import open_tensors, write_tensors
from polygraphy.adapters.files.json.json_codec import ContentError
from polygraphy.adapters.files.store.store import FileResultStore
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.results.results import IterationResult, RunResults
from tests.support.examples import scaled

DTYPES = [
    np.dtype(name)
    for name in ("?", "u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8")
] + [np.dtype(name) for name in ("<c8", "<c16", ">f4", ">i8", "<U3", "S2", "<M8[s]")]
NARROW = [
    np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz")
] + [np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4), np.dtype(ml_dtypes.float4_e2m1fn)]

shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
plain_arrays = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays.arrays(dtype, shapes))
narrow_arrays = st.tuples(st.sampled_from(NARROW), arrays.arrays(np.int8, shapes)).map(
    lambda made: made[1].astype(made[0])
)
tensors = st.dictionaries(st.text(max_size=5), plain_arrays | narrow_arrays, max_size=4)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tensors") / "file.safetensors"


def content_of(made: dict[str, Any], description: Any = None) -> bytes:
    stream = io.BytesIO()
    write_tensors(stream, made, description)
    return stream.getvalue()


def read_all(path: Path) -> dict[str, Any]:
    return {name: tensor.read() for name, tensor in open_tensors(path)[0].items()}


@settings(deadline=None)
@given(tensors, st.lists(st.text()))
def test_what_is_written_is_read_again(path: Path, made: dict[str, Any], about: list[str]) -> None:
    path.write_bytes(content_of(made, about))
    opened, description = open_tensors(path)
    assert description == about
    assert set(opened) == set(made)
    for name, array in made.items():
        found = opened[name].read()
        assert found.shape == array.shape
        assert found.dtype == array.dtype.newbyteorder("<")
        assert found.tobytes() == array.astype(found.dtype).tobytes()
        assert not found.flags.writeable


def sample() -> bytes:
    return content_of({"x": np.arange(6, dtype=np.float32), "n": np.array([1, 2], ml_dtypes.int4)})


def test_no_byte_may_change_unnoticed(path: Path) -> None:
    whole = sample()
    path.write_bytes(whole)
    expected = {name: array.tobytes() for name, array in read_all(path).items()}
    for position in range(len(whole)):
        for change in (1, 0x80):
            changed = bytearray(whole)
            changed[position] ^= change
            path.write_bytes(changed)
            try:
                found = {name: array.tobytes() for name, array in read_all(path).items()}
            except ContentError:
                continue
            assert position < len(whole) - 26  # Of the header only: names, or what nobody reads.
            assert list(found.values()) == list(expected.values())


def test_a_file_that_is_cut_off_is_refused(path: Path) -> None:
    whole = sample()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ContentError):
            open_tensors(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(ContentError, match="data after its tensors"):
        open_tensors(path)


entries = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F32", "U8", "I4", 3, None]),
        "shape": st.lists(st.integers(-2, 2**70), max_size=3) | st.text(max_size=2),
        "data_offsets": st.lists(st.integers(-2, 40), max_size=3) | st.none(),
    },
)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(["a", "b", "__metadata__"]), entries | st.none() | st.text()),
    st.binary(max_size=24),
)
def test_no_header_leads_outside_of_the_file(path: Path, header: Any, data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    try:
        found = read_all(path)
    except ContentError:
        return
    assert sum(array.nbytes for array in found.values()) == len(data)


@pytest.mark.parametrize(
    "own",
    [
        {"dtype": "O", "shape": [3]},
        {"dtype": "no such", "shape": [24]},
        {"dtype": "int4", "shape": [-4, -6]},
        {"dtype": "int4", "shape": [25]},
        {"dtype": ["int4"], "shape": [24]},
        "text",
    ],
)
def test_metadata_that_do_not_fit(path: Path, own: Any) -> None:
    about = json.dumps({"version": 1, "description": None, "tensors": {"x": own}})
    header = {
        "__metadata__": {"polygraphy": about},
        "x": {"dtype": "U8", "shape": [24], "data_offsets": [0, 24]},
    }
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(24))
    with pytest.raises(ContentError, match="the entry of tensor 'x' is invalid"):
        open_tensors(path)


def test_python_objects_are_refused() -> None:
    with pytest.raises(ContentError, match="Python objects"):
        content_of({"x": np.array([{}], dtype=object)})
    with pytest.raises(ContentError, match="cannot store a tensor named"):
        content_of({"__metadata__": np.ones(1)})


def test_other_software_reads_and_writes_the_same_files(path: Path) -> None:
    other = pytest.importorskip("safetensors.numpy")
    made = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array([1, 2], np.int64)}
    path.write_bytes(content_of(made))
    for name, array in other.load_file(path).items():
        np.testing.assert_array_equal(array, made[name])
    other.save_file(made, path)
    [feed] = FileResultStore().iterate(path, dict)
    assert set(feed) == set(made)
    for name, array in made.items():
        np.testing.assert_array_equal(feed[name], array)


# The store.


def results(*values: float) -> RunResults:
    return RunResults(
        (name, [IterationResult({"y": np.full(3, value)}, 0.25, name) for value in values])
        for name in ("first", "second")
    )


def test_results_of_one_iteration_are_a_file(tmp_path: Path) -> None:
    path = tmp_path / "results.safetensors"
    results(1).save(path)
    loaded = RunResults.load(path)
    assert loaded == results(1)
    assert [(one.runtime, one.runner_name) for _, [one] in loaded] == [
        (0.25, "first"),
        (0.25, "second"),
    ]
    with pytest.raises(FileError, match=r"first has 2 iterations, but a \.safetensors file"):
        results(1, 2).save(path)
    assert RunResults.load(path) == results(1)


def test_several_iterations_are_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "results.safetensors"
    for value, name in ((1, "is_file"), (2, "is_dir")):
        with FileResultStore().writer(path, RunResults) as writer:
            for step in results(*range(value)).split():
                writer.add(step)
        assert getattr(path, name)()
        assert list(tmp_path.iterdir()) == [path]
    assert RunResults.concat(FileResultStore().iterate(path, RunResults)) == results(0, 1)
    assert sorted(file.name for file in path.iterdir()) == [
        "0000000000.safetensors",
        "0000000001.safetensors",
    ]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "inputs.safetensors"
    FileResultStore().save([{"x": np.ones(2)}], path)
    before = path.read_bytes()
    with (
        pytest.raises(FileError, match="'x' is of type 'str'"),
        FileResultStore().writer(path, dict) as writer,
    ):
        writer.add({"x": np.zeros(2)})
        writer.add({"x": "text"})
    with pytest.raises(UsageError), FileResultStore().writer(path, dict) as writer:
        writer.add({"x": np.zeros(2)})
        raise UsageError("Something else went wrong.")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_tensor_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "inputs.safetensors"
    FileResultStore().save({"x": np.ones(2)}, path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert FileResultStore().look_into(path).runs == (("", 1),)
    [feed] = FileResultStore().iterate(path, dict)
    with pytest.raises(FileError, match=r"tensor 'x' is damaged: its checksum is wrong"):
        _ = feed["x"]


@pytest.mark.parametrize("value", [[{"x": np.ones(1)}] * 2, [1], "text"])
def test_what_has_no_form_in_a_single_file(tmp_path: Path, value: Any) -> None:
    with pytest.raises(FileError, match="of one iteration"):
        FileResultStore().save(value, tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_says_what_it_holds_is_nothing_else(tmp_path: Path) -> None:
    FileResultStore().save([{"x": np.ones(2)}], tmp_path / "x.safetensors")
    with pytest.raises(FileError, match="it contains input data, not inference results"):
        FileResultStore().iterate(tmp_path / "x.safetensors", RunResults)


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_files_of_numpy_are_inputs_or_results(tmp_path: Path, suffix: str) -> None:
    path, array = tmp_path / f"x{suffix}", np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(path, x=array, z=array + 1) if suffix == ".npz" else np.save(path, array)
    [feed] = FileResultStore().iterate(path, dict)
    assert list(feed) == (["x", "z"] if suffix == ".npz" else ["x"])
    np.testing.assert_array_equal(feed["x"], array)
    [results] = FileResultStore().iterate(path, RunResults)
    for one in (results, FileResultStore().load(path, RunResults)):
        [(runner, [outputs])] = list(one)
        assert runner == path.name
        np.testing.assert_array_equal(outputs["x"], array)
    with pytest.raises(FileError, match="it contains input data, not accuracy results"):
        FileResultStore().load(path, AccuracyResults)
    before = path.read_bytes()
    with pytest.raises(FileError, match=f"{suffix} files can be read, but not written"):
        FileResultStore().save([feed], path)
    with pytest.raises(FileError, match=f"{suffix} files can be read, but not written"):
        FileResultStore().writer(path, dict)
    assert path.read_bytes() == before


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_pickles_are_never_loaded_and_damage_is_named(tmp_path: Path, suffix: str) -> None:
    path, array = tmp_path / f"x{suffix}", np.array([{}], dtype=object)
    np.savez(path, x=array) if suffix == ".npz" else np.save(path, array, allow_pickle=True)
    with pytest.raises(FileError, match="pickled Python objects, which are never loaded"):
        list(FileResultStore().iterate(path, dict))
    np.savez(path, x=np.ones(50)) if suffix == ".npz" else np.save(path, np.ones(50))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FileError, match=r"x\.np[yz].*(damaged|truncated)"):
        list(FileResultStore().iterate(path, dict))


@settings(max_examples=scaled(60))
@given(
    st.sampled_from(["a.npz", "compressed.npz", "a.npy"]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=3),
    st.floats(0, 1),
)
def test_damaged_archives_and_arrays_are_named(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    changes: list[tuple[float, int]],
    kept: float,
) -> None:
    """Whatever the parsers of NumPy and the standard library raise of it."""
    made = io.BytesIO()
    if name == "a.npy":
        np.save(made, np.arange(6.0))
    else:
        save = np.savez if name == "a.npz" else np.savez_compressed
        save(made, x=np.arange(6.0), y=np.ones((2, 3), np.int8))
    content = bytearray(made.getvalue())
    for where, value in changes:
        content[int(where * len(content))] = value
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(bytes(content[: round(kept * len(content))]))
    try:
        for feed in FileResultStore().iterate(path, dict):
            assert all(isinstance(array, np.ndarray) for array in feed.values())
    except FileError as error:
        assert name in str(error) and len(str(error)) < 400 and "\n" not in str(error)
    else:
        assert changes or kept > 0.9


@pytest.mark.parametrize("name", ["a.npz", "a.npy"])
def test_what_parsers_raise_of_damage_is_translated(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "a.npz":
        np.savez(path, x=np.arange(6.0))
        content = path.read_bytes()
        directory = content.index(b"PK\x01\x02")  # The compression method is 10 bytes further.
        damaged = content[: directory + 10] + b"\x63" + content[directory + 11 :]
    else:
        np.save(path, np.arange(6.0))
        content = path.read_bytes()
        damaged = content.replace(b"(6,)", b"(6, ")
    path.write_bytes(damaged)
    with pytest.raises(FileError, match=name):
        [dict(feed) for feed in FileResultStore().iterate(path, dict)]
