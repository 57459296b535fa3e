from __future__ import annotations

import pickle
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polygraphy.binding import bind
from polygraphy.domain.errors import DataTypeConversionException, MissingDependencyError
from polygraphy.domain.tensors.datatype import DataType, DataTypeConverter, DataTypeEntry

MEMBERS = list(DataType)
every_member = pytest.mark.parametrize("entry", MEMBERS, ids=str)

# As older releases print them; files and scripts rely on the names and sizes.
PUBLISHED = {
    "FLOAT64": 8, "FLOAT32": 4, "FLOAT16": 2, "BFLOAT16": 2, "FLOAT8E4M3FN": 1,
    "FLOAT8E4M3FNUZ": 1, "FLOAT8E5M2": 1, "FLOAT8E5M2FNUZ": 1, "FLOAT8E8M0": 1, "FLOAT4": 0.5,
    "INT64": 8, "INT32": 4, "INT16": 2, "INT8": 1, "INT4": 0.5,
    "UINT64": 8, "UINT32": 4, "UINT16": 2, "UINT8": 1,
    "BOOL": 1, "STRING": 0,
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_members(name: str) -> None:
    entry = getattr(DataType, name)
    assert (str(entry), repr(entry)) == (name.lower(), f"DataType.{name}")
    assert (entry.name, entry.itemsize) == (name.lower(), PUBLISHED[name])
    assert entry.is_floating == (name.startswith(("FLOAT", "BFLOAT")))
    assert entry.is_integral == (name.startswith(("INT", "UINT")))
    assert DataType[name] is DataType[name.lower()] is entry


def test_members_are_unique_and_iterable() -> None:
    assert len({entry.name for entry in MEMBERS}) == len(MEMBERS)
    assert len(set(MEMBERS)) == len(MEMBERS)
    assert list(DataType.__members__.values()) == MEMBERS
    assert set(PUBLISHED) <= set(DataType.__members__)


@every_member
def test_entries_are_values(entry: DataTypeEntry) -> None:
    again = pickle.loads(pickle.dumps(entry))
    assert again == entry
    assert hash(again) == hash(entry)
    with pytest.raises(AttributeError):
        entry.name = "other"  # type: ignore[misc]


def test_entries_differ_from_what_they_stand_for() -> None:
    assert DataType.FLOAT32 != DataType.FLOAT64
    for other in (np.float32, np.dtype("float32"), "float32", 1):
        assert other != DataType.FLOAT32


@every_member
def test_there_and_back_through_numpy(entry: DataTypeEntry) -> None:
    native = entry.numpy()
    assert isinstance(native, np.dtype)
    assert DataType.from_dtype(native) is entry
    assert DataType.from_dtype(native.type) is entry
    assert DataType.to_dtype(entry, "numpy") == native


@every_member
def test_sizes_agree_with_numpy(entry: DataTypeEntry) -> None:
    if entry is not DataType.STRING:
        assert entry.numpy().itemsize == max(entry.itemsize, 1)


@pytest.mark.parametrize(
    ("native", "entry"),
    [
        (float, DataType.FLOAT64), (int, DataType.INT64), (bool, DataType.BOOL),
        (str, DataType.STRING), (object, DataType.STRING), (bytes, DataType.STRING),
        ("float32", DataType.FLOAT32), ("f2", DataType.FLOAT16),
        (np.dtype("<U7"), DataType.STRING), (np.bool_, DataType.BOOL),
        (ml_dtypes.bfloat16, DataType.BFLOAT16),
        (np.dtype(ml_dtypes.float8_e4m3fn), DataType.FLOAT8E4M3FN),
        (np.complex64, DataType.COMPLEX64),
    ],
    ids=str,
)  # fmt: skip
def test_names_of_python_and_numpy(native: Any, entry: DataTypeEntry) -> None:
    assert DataType.from_dtype(native) is entry
    assert DataType.from_dtype(native, "numpy") is entry


@every_member
def test_our_names_are_data_types(entry: DataTypeEntry) -> None:
    assert DataType.from_dtype(entry.name) is entry


def test_nothing_and_ours_stay_as_they_are() -> None:
    assert DataType.from_dtype(None) is None
    assert DataType.from_dtype(DataType.INT8) is DataType.INT8
    assert DataType.from_dtype(DataType.INT8, source_module="onnx") is DataType.INT8


@pytest.mark.parametrize("unknown", [np.dtype("M8[s]"), "nonsense", np.dtype([("a", "i4")])])
def test_what_has_no_counterpart_is_reported(unknown: Any) -> None:
    with pytest.raises(DataTypeConversionException, match="numpy data type"):
        DataType.from_dtype(unknown)


def test_the_library_is_found_out() -> None:
    assert DataType.from_dtype(1) is DataType.FLOAT32
    assert DataType.from_dtype(16) is DataType.BFLOAT16
    assert DataType.from_dtype("tensor(float)") is DataType.FLOAT32
    with pytest.raises(DataTypeConversionException, match="onnx data type 0"):
        DataType.from_dtype(0)


def test_torch_and_tensorrt_are_known_by_their_types() -> None:
    class Converter:
        def to_native(self, entry: DataTypeEntry) -> Any:
            return f"native {entry}" if entry is DataType.FLOAT32 else None

        def from_native(self, dtype: Any) -> DataTypeEntry | None:
            return DataType.FLOAT16

    for library, module in (("torch", "torch"), ("tensorrt", "tensorrt_rtx.bindings")):
        native = type("dtype", (), {"__module__": module})()
        with bind(DataTypeConverter, Converter(), key=library):
            assert DataType.from_dtype(native) is DataType.FLOAT16
            assert getattr(DataType.FLOAT32, library)() == "native float32"
            with pytest.raises(DataTypeConversionException, match=f"{library} has no .* bool"):
                getattr(DataType.BOOL, library)()


def test_an_unknown_library_is_reported() -> None:
    with pytest.raises(DataTypeConversionException, match=r"'nonsense'.*numpy, onnx"):
        DataType.from_dtype(1, source_module="nonsense")
    with pytest.raises(DataTypeConversionException, match="'nonsense'"):
        DataType.to_dtype(DataType.BOOL, "nonsense")


@pytest.mark.skipif(find_spec("tensorrt") is not None, reason="TensorRT is installed")
def test_a_library_that_is_not_installed_is_named() -> None:
    with pytest.raises(MissingDependencyError, match="tensorrt is required"):
        DataType.FLOAT32.tensorrt()


def test_a_library_may_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    from polygraphy.datatype import datatype, register_dtype_exporter, register_dtype_importer
    from polygraphy.domain.tensors import datatype as domain

    assert datatype.register_dtype_importer is register_dtype_importer
    monkeypatch.setattr(domain, "_importers", {})
    monkeypatch.setattr(domain, "_exporters", {})

    @register_dtype_importer("mine")
    def from_mine(dtype: Any) -> Any:
        return {"f": DataType.FLOAT32, "odd": DataType.INT4}.get(dtype)

    @register_dtype_exporter("mine")
    def to_mine(dtype: Any) -> Any:
        return {DataType.FLOAT32: "f"}.get(dtype)

    try:
        assert DataType.from_dtype("f", "mine") is DataType.FLOAT32 is from_mine("f")
        assert DataType.from_dtype("odd") is DataType.INT4
        assert DataType.from_dtype("float16") is DataType.FLOAT16
        assert DataType.to_dtype(DataType.FLOAT32, "mine") == to_mine(DataType.FLOAT32) == "f"
        entry: Any = DataType.FLOAT32
        assert entry.mine() == "f"
        with pytest.raises(DataTypeConversionException, match="int4"):
            DataType.INT4.mine()  # type: ignore[attr-defined]
        with pytest.raises(DataTypeConversionException, match="zz"):
            DataType.from_dtype("zz", "mine")
    finally:
        del DataTypeEntry.mine  # type: ignore[attr-defined]
