"""Metadata of tensors before they exist: names, data types, shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from polygraphy.domain.errors import DataTypeConversionException
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.maps import common_keys, numbers_of_maps
from polygraphy.domain.tensors.naming import one_line
from polygraphy.domain.tensors.pickling import PublishedDict, pickle_as
from polygraphy.domain.tensors.shapes import Dim, Shape


@pickle_as("polygraphy.common.struct")
class BoundedShape(list[Dim]):
    """A shape with its smallest (`min`) and largest (`max`) value, if known."""

    def __init__(
        self, shape: Shape, min: Sequence[int] | None = None, max: Sequence[int] | None = None
    ) -> None:
        """Create a shape with optional bounds."""
        super().__init__(shape)
        self.min = min
        self.max = max

    def __repr__(self) -> str:
        """Return the shape and its bounds as text."""
        return f"BoundedShape({list(self)}, min={self.min}, max={self.max})"


@pickle_as("polygraphy.common.struct")
class MetadataTuple:
    """Data type, shape and description of one tensor; unpacks into ``dtype, shape``."""

    __slots__ = ("docstring", "dtype", "shape")

    def __init__(self, dtype: Any, shape: Shape | None, docstring: str | None = None) -> None:
        """Create the metadata of a tensor; the data type may be one of any library."""
        self.dtype = dtype
        self.shape = shape
        self.docstring = docstring

    def __iter__(self) -> Iterator[Any]:
        """Yield the data type, then the shape."""
        yield self.dtype
        yield self.shape

    def __setstate__(self, state: Any) -> None:
        """Restore pickled metadata; NVIDIA's Polygraphy uses a different name for the data type."""
        attributes = (
            state[1] if isinstance(state, tuple) else {"dtype": state.pop("_dtype"), **state}
        )
        for name, value in attributes.items():
            setattr(self, name, value)

    def __eq__(self, other: object) -> bool:
        """Return whether data type and shape are equal, also to a plain tuple."""
        if not isinstance(other, MetadataTuple):
            return NotImplemented
        shape = None if self.shape is None else list(self.shape)
        reference_shape = None if other.shape is None else list(other.shape)
        return bool(self.dtype == other.dtype) and shape == reference_shape

    def __hash__(self) -> int:
        """Return the hash of data type and shape."""
        return hash((self.dtype, None if self.shape is None else tuple(self.shape)))

    def __repr__(self) -> str:
        """Return the metadata as text."""
        return f"MetadataTuple({self.dtype!r}, {self.shape!r})"

    def __str__(self) -> str:
        """Return the metadata in the form of messages."""
        facts = []
        if self.dtype is not None:
            facts.append(f"dtype={self.dtype}")
        if self.shape is not None:
            facts.append(f"shape={tuple(self.shape)}")
            bounds = self.shape if isinstance(self.shape, BoundedShape) else None
            if bounds is not None and bounds.min is not None:
                facts.append(f"min_shape={list(bounds.min)}")
            if bounds is not None and bounds.max is not None:
                facts.append(f"max_shape={list(bounds.max)}")
        if self.docstring:
            facts.append(self.docstring)
        return f"[{', '.join(facts)}]" if facts else ""


@pickle_as("polygraphy.common.struct")
class TensorMetadata(PublishedDict[MetadataTuple]):
    """The metadata of tensors by name, in order."""

    @staticmethod
    def from_feed_dict(feed_dict: Mapping[str, Any]) -> TensorMetadata:
        """Return the metadata of arrays, of other objects with a `dtype` and a `shape`, and of the
        numbers of maps, as [maps, keys]."""
        metadata = TensorMetadata()
        for name, value in feed_dict.items():
            keys = common_keys(value)
            array = numbers_of_maps(value, keys) if keys else value
            shape = getattr(array, "shape", None)  # An address of device memory has no metadata.
            dtype = getattr(array, "dtype", None)
            metadata.add(name, dtype, None if shape is None else tuple(shape))
        return metadata

    def add(
        self,
        name: str,
        dtype: Any,
        shape: Shape | None,
        min_shape: Sequence[int] | None = None,
        max_shape: Sequence[int] | None = None,
        docstring: str | None = None,
    ) -> TensorMetadata:
        """Add one tensor and return this object, so that calls can be chained."""
        bounded = None if shape is None else BoundedShape(shape, min=min_shape, max=max_shape)
        self[name] = MetadataTuple(_our_dtype(dtype), bounded, docstring)
        return self

    def with_numpy_dtypes(self) -> TensorMetadata:
        """Return a copy with NumPy data types; data types that NumPy lacks are unchanged."""
        converted = TensorMetadata()
        for name, (dtype, shape) in self.items():
            converted[name] = MetadataTuple(_to_numpy(dtype), shape, self[name].docstring)
        return converted

    def __str__(self) -> str:
        """Return the tensors as text, in order."""
        return (
            "{"
            + ",\n ".join(f"{one_line(name)} {meta}".rstrip() for name, meta in self.items())
            + "}"
        )

    def __repr__(self) -> str:
        """Return the tensors as text, in order."""
        calls = "".join(
            f".add({name!r}, {dtype!r}, {None if shape is None else list(shape)!r})"
            for name, (dtype, shape) in self.items()
        )
        return f"TensorMetadata(){calls}"


def _our_dtype(dtype: Any) -> Any:
    """Return our data type for one of any library.
    One without an equivalent is returned unchanged."""
    try:
        return DataType.from_dtype(dtype)
    except DataTypeConversionException:
        return dtype


def _to_numpy(dtype: Any) -> Any:
    """Return the NumPy data type of one of ours; any other object is returned unchanged."""
    if not isinstance(dtype, DataTypeEntry):
        return dtype
    try:
        return dtype.numpy()
    except DataTypeConversionException:
        return dtype
