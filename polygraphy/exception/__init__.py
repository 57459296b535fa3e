"""Every error of this package."""

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
    PolygraphyException,
    PolygraphyInternalException,
    UnknownKeyError,
    UnknownNameError,
    UsageError,
)
from polygraphy.mod.deferred import deferred_names

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
    "PolygraphyException",
    "PolygraphyInternalException",
    "UnknownKeyError",
    "UnknownNameError",
    "UsageError",
]

__getattr__ = deferred_names(globals(), submodules=("exception",))
