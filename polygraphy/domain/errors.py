"""Every error of this package, one tree.

::

    PolygraphyException                  3   anything that stops a run
    ├── UsageError                       2   the request is invalid
    │   ├── UnknownNameError             2   a name that the model, the data or a script does not
    have
    │   │   └── UnknownKeyError          2   a profile or results do not have it (also KeyError)
    │   └── InputError                   2   data that do not fit the model (also ValueError)
    ├── CheckFailedError                 1   a check ran and said no: accuracy, validation, lint
    ├── FileError                        3   a file is missing, empty, damaged or cannot be written
    │   ├── MissingFileError             3   a file does not exist (also FileNotFoundError)
    │   ├── DamagedFileError             3   a content is not what it should be (also ValueError)
    │   └── ModelError                   3   a file that is not the model that it should be
    │       └── NotFetchedError          3   a pointer of Git LFS in place of a model
    ├── BackendError                     3   a backend could not load, build or run
    │   ├── UnsupportedModelError        3   a backend does not support a model by design
    │   ├── UnsupportedOperatorError     3   a backend has no implementation of an operator
    │   └── UnavailableError             3   its package, or a GPU that it needs, is missing
    │       └── MissingDependencyError   3   an optional package is not installed (also ImportError)
    ├── DataTypeConversionException      3   a data type that the other side does not have
    └── InconclusiveError                4   neither passed nor failed

    PolygraphyInternalException              a defect of this package, never a mistake of its user

The number is the exit code with which a program ends when it meets the error (`exit_code`). An
error says what was expected, what was found and, in `hint`, what to do about it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any

_LISTED = 10
"""Existing names that an error lists."""


class PolygraphyException(Exception):
    """The base of all errors of this package. `hint` is a sentence that says what to do."""

    exit_code = 3

    def __init__(self, message: object = "", *, hint: str = "") -> None:
        """Create an error with its message and, if known, a hint."""
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        """Return the message followed by the hint."""
        message = Exception.__str__(self)  # A KeyError quotes its message.
        return f"{message} {self.hint}" if self.hint else message

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle stores, for any constructor, so that errors can cross to another
        process."""
        return _restore_error, (type(self), self.args, vars(self))


def _restore_error(
    kind: type[PolygraphyException], args: tuple[Any, ...], fields: dict[str, Any]
) -> PolygraphyException:
    """Return an error from the parts of its pickle."""
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(fields)
    return error


class UsageError(PolygraphyException):
    """An invalid option, value or combination of options."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name that does not exist, with the existing names (`known`) and the closest ones
    (`matches`)."""

    def __init__(self, noun: str, name: str, known_names: Iterable[str], *, hint: str = "") -> None:
        """Create the error for a name; the message lists close matches."""
        self.name = name
        self.known = tuple(known_names)
        self.matches = close_matches(name, self.known)
        listed = ", ".join(map(repr, self.known[:_LISTED])) or "none"
        if len(self.known) > _LISTED:
            listed += f", and {len(self.known) - _LISTED} more"
        if self.matches and not hint:
            hint = "Did you mean " + " or ".join(repr(match) for match in self.matches) + "?"
        super().__init__(f"{noun} {name!r} does not exist. Available: {listed}.", hint=hint)


class UnknownKeyError(UnknownNameError, KeyError):
    """A key that a collection does not have, such as an input of a profile or a runner of
    results.
    """


class InputError(UsageError, ValueError):
    """Data that do not fit the model: a wrong name, data type or shape."""


class CheckFailedError(PolygraphyException):
    """A check that ran to its end and failed."""

    exit_code = 1


class FileError(PolygraphyException):
    """A file that is missing, empty, damaged or not writable. `path` is the file."""

    def __init__(self, message: object, *, path: object = None, hint: str = "") -> None:
        """Create the error with the path of the file."""
        super().__init__(message, hint=hint)
        self.path = path


class MissingFileError(FileError, FileNotFoundError):
    """A file that does not exist; `errno`, `strerror` and `filename` are those of Python's
    FileNotFoundError."""

    errno = errno.ENOENT
    strerror = "No such file or directory"

    @property
    def filename(self) -> str | None:
        """Return the path as text; None if there is no path."""
        return None if self.path is None else str(self.path)


class DamagedFileError(FileError, ValueError):
    """A file with invalid content, or a value that a file format cannot store."""


class ModelError(FileError):
    """A model file that is invalid, or not of the expected kind."""


class NotFetchedError(ModelError):
    """A Git LFS pointer file whose content was not fetched."""


class BackendError(PolygraphyException):
    """A backend that could not load, build or run. `backend` is its name."""

    is_crash = False
    """Whether the failure ended its process."""
    is_stopped = False
    """Whether it was stopped at a time limit."""

    def __init__(self, message: object, *, backend: str = "", hint: str = "") -> None:
        """Create the error with the name of the backend."""
        super().__init__(message, hint=hint)
        self.backend = backend


class UnsupportedOperatorError(BackendError):
    """An operator that a backend does not implement."""


class UnsupportedModelError(BackendError):
    """A model that a backend does not support by design; `hint` says which one it supports."""


class UnavailableError(BackendError):
    """A backend that cannot run on this machine: its package, or the hardware it needs, is
    missing.
    """


class MissingDependencyError(UnavailableError, ImportError):
    """An optional package that is not installed. `install` is the command that installs it."""

    def __init__(self, message: object, *, module: str = "", install: str = "") -> None:
        """Create the error for a module, with the command that installs it."""
        super().__init__(message, backend=module)
        self.module = module
        self.install = install


class DataTypeConversionException(PolygraphyException):
    """A data type that the target library does not have."""


class InconclusiveError(PolygraphyException):
    """Neither passed nor failed: nothing, or too little, could be judged."""

    exit_code = 4


class PolygraphyInternalException(Exception):
    """A defect of this package, never an error of its user."""

    exit_code = 3


def close_matches(
    name: str, known_names: Iterable[str], limit: int = 3, cutoff: float = 0.6
) -> tuple[str, ...]:
    """Return at most `limit` of the `known_names` names that `name` may be a misspelling of, best
    first.
    """
    from difflib import get_close_matches

    lowered = {candidate.lower(): candidate for candidate in known_names}
    return tuple(
        lowered[match] for match in get_close_matches(name.lower(), lowered, limit, cutoff)
    )
