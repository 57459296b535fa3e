"""Every error of this package."""

from polygraphy.domain.errors import (
    BackendError,
    CheckFailedError,
    DataTypeConversionException,
    FileError,
    InconclusiveError,
    InputError,
    MissingDependencyError,
    ModelError,
    PolygraphyException,
    PolygraphyInternalException,
    UnknownNameError,
    UsageError,
)

__all__ = [
    "BackendError",
    "CheckFailedError",
    "DataTypeConversionException",
    "FileError",
    "InconclusiveError",
    "InputError",
    "MissingDependencyError",
    "ModelError",
    "PolygraphyException",
    "PolygraphyInternalException",
    "UnknownNameError",
    "UsageError",
]
