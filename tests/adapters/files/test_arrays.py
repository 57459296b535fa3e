"""Arrays of every data type, shape and order come back as they were; nothing is ever unpickled."""

from __future__ import annotations

import base64
import io
import json
import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy.adapters.files.codecs import FormattedArray
from polygraphy.adapters.files.formats.npy import with_trailing_nuls
from polygraphy.adapters.files.json.json_codec import ContentError
from polygraphy.adapters.files.store import json_io
from polygraphy.adapters.files.store.store import FileResultStore
from polygraphy.domain.errors import FileError
from polygraphy.domain.results.results import IterationResult, RunResults
from tests.support.examples import scaled

Array = npt.NDArray[Any]

NARROW = [
    name
    for name, kind in vars(ml_dtypes).items()
    if isinstance(kind, type) and issubclass(kind, np.generic)
]
DTYPES = (
    hnp.scalar_dtypes()
    | hnp.unicode_string_dtypes()
    | hnp.byte_string_dtypes()
    | hnp.array_dtypes(max_size=3)
    | hnp.complex_number_dtypes()
    | st.just(np.dtype("<U0"))
)
ORDERS = st.sampled_from(["as it is", "reversed", "transposed", "fortran", "every other"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arrays")


def rearranged(array: Array, order: str) -> Array:
    if order == "reversed" and array.ndim:
        return array[::-1]
    if order == "every other" and array.ndim:
        return array[..., ::2]
    if order == "fortran":
        return np.asarray(array, order="F")
    return array.T if order == "transposed" else array


def assert_identical(loaded: Any, array: Array) -> None:
    assert isinstance(loaded, np.ndarray)
    assert loaded.dtype == array.dtype
    assert loaded.dtype.byteorder == array.dtype.byteorder
    assert loaded.shape == array.shape
    assert loaded.tobytes() == array.tobytes()
    assert loaded.flags.writeable


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    array=hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)),
    order=ORDERS,
    name=st.text(),
)
@example(np.array(3.25, np.float32), "as it is", "scalar")
@example(np.zeros(3, [("Ā", np.int8), ("b", np.float64)]), "every other", "structured")
@example(np.zeros((0, 4), np.float32), "fortran", '"quoted" \\ \u2028')
@example(np.arange(6, dtype=">f8").reshape(2, 3), "fortran", "")
def test_comes_back_as_it_was(folder: Path, array: Array, order: str, name: str) -> None:
    array = rearranged(array, order)
    json_io.save({name: array}, folder / "array.json")
    loaded = json_io.load(folder / "array.json", dict)
    assert list(loaded) == [name]
    assert_identical(loaded[name], array)
    assert_identical(json_io.loads(json_io.dumps([array]), list)[0], array)


@given(
    array=hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=4)),
    order=ORDERS,
)
def test_the_payload_is_what_numpy_saves(array: Array, order: str) -> None:
    array = rearranged(array, order)
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    payload = json.loads(json_io.dumps(array))["array"]
    assert base64.b64decode(payload) == stream.getvalue()


@pytest.mark.parametrize("order", ["as it is", "transposed", "every other", "fortran"])
def test_large_arrays_that_are_not_contiguous(folder: Path, order: str) -> None:
    array = rearranged(np.arange(1_100_000, dtype=np.int16).reshape(1100, 1000), order)
    json_io.save(array, folder / "array.json")
    assert_identical(json_io.load(folder / "array.json", np.ndarray), array)


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("shape", [(), (0, 3), (16, 16)])
def test_narrow_types_come_back_bit_by_bit(folder: Path, name: str, shape: Any) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    raw = np.arange(np.prod(shape, dtype=int)).astype(f"u{dtype.itemsize}").reshape(shape)
    array = raw.view(dtype)
    json_io.save({"x": array, "t": array.T}, folder / "array.json")
    saved = json.loads((folder / "array.json").read_text())["x"]
    assert list(saved) == ["array", "dtype", "polygraphy_class"]
    assert saved["dtype"] == name
    assert_identical(np.load(io.BytesIO(base64.b64decode(saved["array"]))), raw)
    loaded = json_io.load(folder / "array.json", dict)
    assert_identical(loaded["x"], array)
    assert_identical(loaded["t"], array.T)


def test_subclasses_are_saved_as_arrays(folder: Path) -> None:
    path = folder / "mapped.bin"
    np.arange(4.0).tofile(path)
    mapped = np.memmap(path)
    assert type(json_io.loads(json_io.dumps(mapped), np.ndarray)) is np.ndarray
    assert_identical(json_io.loads(json_io.dumps(mapped), np.ndarray), np.asarray(mapped))


@pytest.mark.parametrize("scalar", [np.datetime64("2020-01-01"), np.complex64(1j), np.bytes_(b"x")])
def test_scalars_that_json_lacks_become_arrays(scalar: Any) -> None:
    assert_identical(json_io.loads(json_io.dumps(scalar), np.ndarray), np.asarray(scalar))


@pytest.mark.parametrize(
    "array",
    [
        np.array([None]),
        np.array(["text", 1], dtype=object),
        np.zeros(2, [("a", object), ("b", int)]),
    ],
)
def test_objects_are_refused(folder: Path, array: Array) -> None:
    (folder / "objects.json").write_text("before")
    with pytest.raises(FileError) as caught:
        json_io.save([{"x": array}], folder / "objects.json")
    assert str(caught.value) == (
        f"Could not save to {folder}/objects.json: an array of Python objects cannot be saved"
        " (at [0]['x']). Convert it, for example with array.astype(float)."
    )
    assert (folder / "objects.json").read_text() == "before"


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (3, 2)])
def test_texts_that_are_python_objects_are_saved(
    folder: Path, suffix: str, shape: tuple[int, ...]
) -> None:
    texts = np.array(["a", "\u00e9" * 40, ""] * 2, dtype=object)[: int(np.prod(shape))]
    texts = texts.reshape(shape)
    results = RunResults([("runner", [IterationResult({"y": texts, "x": np.ones(2)})])])
    results.save(str(folder / f"texts{suffix}"))
    (found,) = RunResults.load(str(folder / f"texts{suffix}"))[0][1]
    assert found["y"].dtype.kind == "U"
    assert found["y"].shape == shape
    assert found["y"].tolist() == texts.tolist()


class _Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("something was unpickled",))


def _npy_bytes(array: Array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def _as_document(payload: bytes, **fields: Any) -> str:
    text = base64.b64encode(payload).decode()
    return json.dumps({"array": text, **fields, "polygraphy_class": "ndarray"})


def test_pickles_are_never_loaded() -> None:
    bomb = np.array([_Bomb()], dtype=object)
    archive = io.BytesIO()
    np.savez(archive, bomb)
    pickled = pickle.dumps(_Bomb())
    with pytest.raises(FileError, match="pickled Python objects, which are never loaded"):
        json_io.loads(_as_document(_npy_bytes(bomb)), object)
    for payload in (_npy_bytes(bomb), archive.getvalue(), pickled):
        with pytest.raises(FileError, match="Could not read JSON text: an array"):
            json_io.loads(_as_document(payload), object)
        legacy = {"array": payload.decode("latin-1"), "polygraphy_class": "ndarray"}
        with pytest.raises(FileError, match="Could not read JSON text"):
            json_io.loads(json.dumps(legacy), object)


# Files of old versions.


@pytest.mark.parametrize("marker", ["polygraphy_class", "__polygraphy_encoded_ndarray"])
@pytest.mark.parametrize("as_text", ["latin-1", "base64"])
@pytest.mark.parametrize("container", ["npy", "npz"])
def test_old_forms_are_read(folder: Path, marker: str, as_text: str, container: str) -> None:
    array = np.arange(300, dtype=np.float64).reshape(20, 15)  # Has every kind of byte.
    stream = io.BytesIO()
    (np.save if container == "npy" else np.savez)(stream, array)
    content = stream.getvalue()
    payload = (
        base64.b64encode(content).decode() if as_text == "base64" else content.decode("latin-1")
    )
    legacy_value = "polygraphy_serialized_json_type"
    value = "ndarray" if marker == "polygraphy_class" else legacy_value
    text = json.dumps([{"array": payload, marker: value}])
    assert_identical(json_io.loads(text, list)[0], array)
    (folder / "old.json").write_text(text)
    assert_identical(json_io.load(folder / "old.json", list)[0], array)


def test_formatted_arrays_keep_both_shapes() -> None:
    text = json_io.dumps(FormattedArray(np.arange(4.0), (1, 3, 1)))
    loaded = json_io.loads(text, FormattedArray)
    assert loaded.shape == (1, 3, 1)
    np.testing.assert_array_equal(loaded.array, np.arange(4.0))


# Damage.

WHOLE = _npy_bytes(np.arange(100.0))


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (b"", "does not start like an .npy file"),
        (b"PNG" + WHOLE, "does not start like an .npy file"),
        (WHOLE[:9], "does not start like an .npy file"),
        (WHOLE[:100], "an array is damaged"),
        (WHOLE[:-1], "expected 800 bytes according to its header, found 799"),
        (WHOLE + b"x", "expected 800 bytes according to its header, found 801"),
        (WHOLE.replace(b"(100,)", b"(2**9)"), "an array is damaged"),
        (WHOLE.replace(b"(100,), }", b"(10**18,)"), "an array is damaged"),
        (WHOLE.replace(b"'shape': (100,), }  ", b"'shape': (9999999,)}"), "expected 79999992"),
        (WHOLE.replace(b"<f8", b"<f7"), "an array is damaged"),
        (b"\x93NUMPY\x09" + WHOLE[7:], "an array is damaged"),
        (b"PK\x03\x04" + WHOLE, "an array is damaged"),
    ],
)
def test_damage_is_reported(folder: Path, payload: bytes, complaint: str) -> None:
    text = _as_document(payload)
    with pytest.raises(FileError, match=complaint):
        json_io.loads(text, object)
    (folder / "damaged.json").write_text(text)
    with pytest.raises(FileError, match=complaint):
        json_io.load(folder / "damaged.json", object)


@pytest.mark.parametrize("dtype", ["float128x", "finfo", "__name__", "", "complex64x"])
def test_a_type_that_is_not_known_is_reported(dtype: str) -> None:
    with pytest.raises(FileError, match=f"type {dtype!r} is unknown"):
        json_io.loads(_as_document(WHOLE, dtype=dtype), object)


def test_a_type_of_another_size_is_reported() -> None:
    with pytest.raises(FileError, match="an object of type 'ndarray' in it is damaged"):
        json_io.loads(_as_document(_npy_bytes(np.zeros(3, np.uint8)), dtype="bfloat16"), object)


@pytest.mark.parametrize("payload", [None, 3, ["k05VTVBZ"], {}])
def test_a_payload_that_is_no_text_is_reported(payload: Any) -> None:
    with pytest.raises(FileError, match="an object of type 'ndarray' in it is damaged"):
        json_io.loads(json.dumps({"array": payload, "polygraphy_class": "ndarray"}), object)


def test_a_payload_that_is_missing_is_reported() -> None:
    with pytest.raises(
        FileError, match="an object of type 'ndarray' in it is damaged: 'array' is missing"
    ):
        json_io.loads('{"polygraphy_class": "ndarray"}', object)


@pytest.mark.parametrize("end", [".json", ".npy", ".npz"])
def test_what_numpy_saves_of_bfloat16_is_that_again(folder: Path, end: str) -> None:
    array = np.array([[1, -2.5, np.nan]], ml_dtypes.bfloat16)
    bare = array.view("V2")  # As it comes back from numpy.load.
    path = folder / f"bare{end}"
    if end == ".json":
        json_io.save([{"x": bare}], path)
    else:
        saved: Any = np.save if end == ".npy" else np.savez
        saved(path, bare) if end == ".npy" else saved(path, x=bare)
    (feed,) = FileResultStore().iterate(path, dict)
    (loaded,) = feed.values()
    assert loaded.dtype == ml_dtypes.bfloat16
    assert loaded.tobytes() == array.tobytes()


def test_other_bare_bytes_stay_what_they_are(folder: Path) -> None:
    for array in (np.zeros(2, "V1"), np.zeros(2, "V4"), np.zeros(2, [("a", "u1"), ("b", "u1")])):
        json_io.save(array, folder / "bare.json")
        assert_identical(json_io.load(folder / "bare.json", np.ndarray), array)


TEXTS = st.text(st.sampled_from("a\u00e9\0"), max_size=4)


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
@settings(max_examples=scaled(60))
@given(texts=st.lists(TEXTS, max_size=4), as_bytes=st.booleans())
def test_nuls_at_the_end_of_texts_are_saved(
    folder: Path, suffix: str, texts: list[str], as_bytes: bool
) -> None:
    """NumPy's own texts end before them."""
    made = [text.encode() for text in texts] if as_bytes else texts
    array = np.array([made] * 2, dtype=object)
    path = str(folder / f"texts{suffix}")
    RunResults([("runner", [IterationResult({"y": array})])]).save(path)
    (found,) = RunResults.load(path)[0][1]
    assert found["y"].tolist() == [texts] * 2
    RunResults([("runner", [found])]).save(path)  # And so they are when what was read is saved.
    assert RunResults.load(path)[0][1][0]["y"].tolist() == [texts] * 2


@pytest.mark.parametrize(
    "nuls", [[[9, 1]], [[-1, 1]], [[0, 0]], [[0, 10**9]], [[0]], 3, [["0", 1]]]
)
def test_a_wrong_number_of_nuls_is_damage(nuls: Any) -> None:
    with pytest.raises(ContentError, match="an array of strings is damaged"):
        with_trailing_nuls(np.array(["ab", "c"]), nuls)
    with pytest.raises(ContentError, match="its data type is float64"):
        with_trailing_nuls(np.ones(2), nuls)
