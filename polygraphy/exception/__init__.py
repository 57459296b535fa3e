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
    UnknownInputError,
    UnknownNameError,
    UsageError,
)
from polygraphy.mod.deferred import deferred_names

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
    "UnknownInputError",
    "UnknownNameError",
    "UsageError",
]

__getattr__ = deferred_names(globals(), submodules=("exception",))
