"""Data types of tensors, in one vocabulary for all backends.

`DataType.FLOAT32` and its siblings are `DataTypeEntry` values: a name, a size in bytes and a kind.
How NumPy names them is known here; how a backend names them is known by that backend's adapter,
reached through the port `DataTypeConverter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from attrs import field, frozen

from polygraphy.binding import UnboundPortError, resolve
from polygraphy.domain.errors import DataTypeConversionException
from polygraphy.domain.tensors import lazy_numpy as np
from polygraphy.domain.tensors.pickling import pickle_as

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

F = TypeVar("F", bound="Callable[..., Any]")


@pickle_as("polygraphy.datatype.datatype")
@frozen(repr=False)
class DataTypeEntry:
    """One data type: its `name`, and its `itemsize` in bytes (a fraction for packed types, 0 for
    strings).
    """

    name: str
    itemsize: float
    kind: str = field(alias="type")

    @property
    def is_floating(self) -> bool:
        """Return whether values are floating-point numbers."""
        return self.kind == "floating"

    @property
    def is_integral(self) -> bool:
        """Return whether values are integers, signed or not; bool is not one."""
        return self.kind == "integral"

    def numpy(self) -> np.dtype[Any]:
        """Return the NumPy data type; the narrow ones come from `ml_dtypes`."""
        return _to_numpy(self)

    def onnx(self) -> int:
        """Return the member of `onnx.TensorProto.DataType`."""
        return int(DataType.to_dtype(self, "onnx"))

    def onnxruntime(self) -> str:
        """Return ONNX Runtime's name, such as ``tensor(float)``."""
        return str(DataType.to_dtype(self, "onnxruntime"))

    def tensorrt(self) -> Any:
        """Return the member of `tensorrt.DataType`."""
        return DataType.to_dtype(self, "tensorrt")

    def torch(self) -> Any:
        """Return the `torch.dtype`."""
        return DataType.to_dtype(self, "torch")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state in the form that NVIDIA's Polygraphy also reads."""
        return {"name": self.name, "itemsize": self.itemsize, "kind": self.kind}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled data type; NVIDIA's Polygraphy saves a number for the kind."""
        kind = state["kind"] if "kind" in state else DataType[state["name"]].kind
        for name, value in ("name", state["name"]), ("itemsize", state["itemsize"]), ("kind", kind):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        """Return the name of the data type."""
        return self.name

    def __repr__(self) -> str:
        """Return the expression of the data type, such as ``DataType.FLOAT32``."""
        return f"DataType.{self.name.upper()}"


class _Members(type):
    """Metaclass that makes `DataType` iterable and adds `__members__`, like an enumeration."""

    __members__: dict[str, DataTypeEntry]

    def __iter__(cls) -> Iterator[DataTypeEntry]:
        """Yield all data types."""
        return iter(cls.__members__.values())

    def __getitem__(cls, name: str) -> DataTypeEntry:
        """Return the data type with a name such as ``FLOAT32``."""
        return cls.__members__[name.upper()]


def _entry(name: str, itemsize: float, kind: str) -> DataTypeEntry:
    """Return a data type with its item size in bytes and the kind of its values."""
    return DataTypeEntry(name, itemsize, kind)


class DataType(metaclass=_Members):
    """All data types, and the conversions between ours and those of other libraries."""

    FLOAT64 = _entry("float64", 8, "floating")
    FLOAT32 = _entry("float32", 4, "floating")
    FLOAT16 = _entry("float16", 2, "floating")
    BFLOAT16 = _entry("bfloat16", 2, "floating")
    FLOAT8E4M3FN = _entry("float8e4m3fn", 1, "floating")
    FLOAT8E4M3FNUZ = _entry("float8e4m3fnuz", 1, "floating")
    FLOAT8E5M2 = _entry("float8e5m2", 1, "floating")
    FLOAT8E5M2FNUZ = _entry("float8e5m2fnuz", 1, "floating")
    FLOAT8E8M0 = _entry("float8e8m0", 1, "floating")
    FLOAT4 = _entry("float4", 0.5, "floating")
    INT64 = _entry("int64", 8, "integral")
    INT32 = _entry("int32", 4, "integral")
    INT16 = _entry("int16", 2, "integral")
    INT8 = _entry("int8", 1, "integral")
    INT4 = _entry("int4", 0.5, "integral")
    INT2 = _entry("int2", 0.25, "integral")
    UINT64 = _entry("uint64", 8, "integral")
    UINT32 = _entry("uint32", 4, "integral")
    UINT16 = _entry("uint16", 2, "integral")
    UINT8 = _entry("uint8", 1, "integral")
    UINT4 = _entry("uint4", 0.5, "integral")
    UINT2 = _entry("uint2", 0.25, "integral")
    BOOL = _entry("bool", 1, "bool")
    STRING = _entry("string", 0, "string")
    COMPLEX64 = _entry("complex64", 8, "complex")
    COMPLEX128 = _entry("complex128", 16, "complex")

    @staticmethod
    def from_dtype(dtype: Any, source_module: str | None = None) -> Any:
        """Return our data type for a data type of another library.

        Args:
            dtype: the type of the library: a NumPy dtype, an `onnx.TensorProto` integer,
                ``tensor(float)``, ...
            source_module: ``numpy``, ``onnx``, ``onnxruntime``, ``tensorflow``, ``tensorrt`` or
                ``torch``; detected if it is None.

        Raises:
            DataTypeConversionException: this package has no such type.
        """
        if dtype is None or isinstance(dtype, DataTypeEntry):
            return dtype
        module = source_module or _module_of(dtype)
        if module in _importers:
            numpy = _importers[module](dtype)
        elif module == "numpy":
            numpy = _from_numpy(dtype)
        else:
            numpy = _converter(module).from_native(dtype)
        if numpy is None and source_module is None:
            importers = (importer(dtype) for importer in _importers.values())
            numpy = next((entry for entry in importers if entry is not None), None)
        if numpy is None:
            raise DataTypeConversionException(f"{module} data type {dtype!r} is not supported.")
        return numpy

    @staticmethod
    def to_dtype(dtype: DataTypeEntry, target_module: str) -> Any:
        """Return the data type of the library `target_module` for a data type of ours.

        Raises:
            DataTypeConversionException: the library does not have it.
        """
        if target_module in _exporters:
            native = _exporters[target_module](dtype)
        elif target_module == "numpy":
            return _to_numpy(dtype)
        else:
            native = _converter(target_module).to_native(dtype)
        if native is None:
            raise DataTypeConversionException(f"{target_module} has no data type {dtype}.")
        return native


_importers: dict[str, Callable[[Any], DataTypeEntry | None]] = {}
_exporters: dict[str, Callable[[DataTypeEntry], Any]] = {}


def register_dtype_importer(source_module: str) -> Callable[[F], F]:
    """Return a decorator that registers a function that `DataType.from_dtype` calls for a module's
    data types.

    Args:
        source_module: the name of the module for `from_dtype`.

    Returns:
        A decorator for a function that receives a data type of the module and returns ours, or None
        if there is none.
    """

    def register(function: F) -> F:
        """Register a function as the importer, and return it."""
        _importers[source_module] = function
        return function

    return register


def register_dtype_exporter(target_module: str) -> Callable[[F], F]:
    """Return a decorator that registers a function that `DataType.to_dtype` calls for a module;
    `DataType.FLOAT32` and the others get a method of the module's name.

    Args:
        target_module: the name of the module for `to_dtype`.

    Returns:
        A decorator for a function that receives one of our data types and returns the corresponding
        type of the module, or None if there is none.
    """

    def register(function: F) -> F:
        """Register a function as the exporter, and return it."""
        _exporters[target_module] = function
        if not hasattr(DataTypeEntry, target_module):
            setattr(DataTypeEntry, target_module, lambda e: DataType.to_dtype(e, target_module))
        return function

    return register


DataType.__members__ = {
    name: value for name, value in vars(DataType).items() if isinstance(value, DataTypeEntry)
}

# Names of data types in NumPy (with ml_dtypes), PyTorch and TensorFlow, if they differ from ours.
NUMPY_NAMES = {
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4": "float4_e2m1fn",
}
_ML_DTYPES = {"bfloat16", "int4", "uint4", "int2", "uint2", *NUMPY_NAMES}
_BY_NAME = {entry.name: entry for entry in DataType}
_FROM_NUMPY = {
    NUMPY_NAMES.get(entry.name, entry.name): entry for entry in DataType if entry.name != "string"
}


def _to_numpy(entry: DataTypeEntry) -> np.dtype[Any]:
    """Return the NumPy data type of an entry; the narrow ones come from `ml_dtypes`."""
    if entry.name in _ML_DTYPES:
        import ml_dtypes

        narrow: np.dtype[Any] = np.dtype(
            getattr(ml_dtypes, NUMPY_NAMES.get(entry.name, entry.name))
        )
        return narrow
    return np.dtype(np.str_ if entry.name == "string" else entry.name)


def _from_numpy(dtype: DTypeLike) -> DataTypeEntry | None:
    """Return our data type for a NumPy one, or for one of our names; None if there is none."""
    try:
        resolved = np.dtype(dtype)
    except TypeError:
        return _BY_NAME.get(dtype) if isinstance(dtype, str) else None
    is_meant = isinstance(dtype, (str, np.dtype)) or dtype in (object, np.object_)
    if resolved.kind == "O" and not is_meant:
        return None  # NumPy accepts any class, and returns the data type `object`.
    if resolved.kind in "USOT":
        return DataType.STRING
    return _FROM_NUMPY.get(resolved.name)


_BY_PACKAGE = {
    "tensorflow": "tensorflow",
    "tensorrt": "tensorrt",
    "tensorrt_rtx": "tensorrt",
    "torch": "torch",
}


def _module_of(dtype: Any) -> str:
    """Return the name of the library that a data type belongs to, without importing any."""
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        return "onnx"
    if isinstance(dtype, str) and "(" in dtype:
        return "onnxruntime"
    owner = dtype.__module__ if isinstance(dtype, type) else type(dtype).__module__
    root = str(owner).partition(".")[0]
    return _BY_PACKAGE.get(root, "numpy")


class DataTypeConverter(Protocol):
    """Translates between our data types and a library's; bound once per library, with its name as
    the key.
    """

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return the library's data type for `entry`; None if it has none."""

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return our data type for the library's `dtype`; None if there is none."""


def _converter(module: str) -> DataTypeConverter:
    """Return the converter for a library; raise DataTypeConversionException if it has none."""
    try:
        return resolve(DataTypeConverter, module)
    except UnboundPortError:
        raise DataTypeConversionException(
            f"Data types of {module!r} are unknown.",
            hint="Known: numpy, onnx, onnxruntime, tensorflow, tensorrt, torch.",
        ) from None
