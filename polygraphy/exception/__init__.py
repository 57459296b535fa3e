"""All exceptions of this package."""

from polygraphy.domain.errors import (
    BackendError,
    CheckFailedError,
    DamagedFileError,
    DataTypeConversionException,
    FileError,
    InconclusiveError,
    InputError,
    MissingDependencyError,
    MissingFileError,
    ModelError,
    NotFetchedError,
    PolygraphyException,
    PolygraphyInternalException,
    UnavailableError,
    UnknownKeyError,
    UnknownNameError,
    UnsupportedModelError,
    UnsupportedOperatorError,
    UsageError,
)
from polygraphy.mod.deferred import defer_names

__all__ = [
    "BackendError",
    "CheckFailedError",
    "DamagedFileError",
    "DataTypeConversionException",
    "FileError",
    "InconclusiveError",
    "InputError",
    "MissingDependencyError",
    "MissingFileError",
    "ModelError",
    "NotFetchedError",
    "PolygraphyException",
    "PolygraphyInternalException",
    "UnavailableError",
    "UnknownKeyError",
    "UnknownNameError",
    "UnsupportedModelError",
    "UnsupportedOperatorError",
    "UsageError",
]

__getattr__ = defer_names(globals(), submodules=("exception",))
