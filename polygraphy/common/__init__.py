"""Descriptions of tensors, and errors."""

from polygraphy.domain.errors import (
    DataTypeConversionException,
    PolygraphyException,
    PolygraphyInternalException,
)
from polygraphy.domain.tensors.formatted import FormattedArray
from polygraphy.domain.tensors.metadata import BoundedShape, MetadataTuple, TensorMetadata
from polygraphy.mod.deferred import defer_names

__all__ = [
    "BoundedShape",
    "DataTypeConversionException",
    "FormattedArray",
    "MetadataTuple",
    "PolygraphyException",
    "PolygraphyInternalException",
    "TensorMetadata",
]

__getattr__ = defer_names(globals(), submodules=("constants", "exception", "interface", "struct"))
