"""Every error of this package, one tree.

::

    PolygraphyException                  3   anything that stops a run
    ├── UsageError                       2   what the caller asked for cannot be meant
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
"""How many of the names that there are an error lists."""


class PolygraphyException(Exception):
    """Anything that stops a run. `hint` says what to do about it, in one sentence."""

    exit_code = 3

    def __init__(self, message: object = "", *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = Exception.__str__(self)  # A KeyError quotes its message.
        return f"{message} {self.hint}" if self.hint else message

    def __reduce__(self) -> tuple[Any, ...]:
        """Let errors cross to another process, whatever their constructors take."""
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
    """A flag, a value or a combination of them that cannot be meant."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name that does not exist; `name`, `known` and `matches` tell which, what there is, and what
    was meant.
    """

    def __init__(self, noun: str, name: str, known_names: Iterable[str], *, hint: str = "") -> None:
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
    """A key that a collection does not have: an input of a profile, a runner of results."""


class InputError(UsageError, ValueError):
    """Data that do not fit the model: a name, a data type or a shape."""


class CheckFailedError(PolygraphyException):
    """A check ran to its end and said no."""

    exit_code = 1


class FileError(PolygraphyException):
    """A file is missing, empty, damaged or cannot be written. `path` is the file."""

    def __init__(self, message: object, *, path: object = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class MissingFileError(FileError, FileNotFoundError):
    """A file that does not exist; `errno`, `strerror` and `filename` are as in Python's own."""

    errno = errno.ENOENT
    strerror = "No such file or directory"

    @property
    def filename(self) -> str | None:
        """The path, as text."""
        return None if self.path is None else str(self.path)


class DamagedFileError(FileError, ValueError):
    """A content that is not what it should be, or that a file cannot hold."""


class ModelError(FileError):
    """A file that is not the model that it should be."""


class NotFetchedError(ModelError):
    """A file that Git LFS stands for, and that was not fetched."""


class BackendError(PolygraphyException):
    """A backend could not load, build or run. `backend` is its name."""

    is_crash = False
    """Whether it ended its process."""

    def __init__(self, message: object, *, backend: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.backend = backend


class UnsupportedOperatorError(BackendError):
    """A backend has no implementation of an operator."""


class UnavailableError(BackendError):
    """A backend can run nothing here: its package, or hardware that it needs, is missing."""


class MissingDependencyError(UnavailableError, ImportError):
    """An optional package is not installed. `install` is the one command that installs it."""

    def __init__(self, message: object, *, module: str = "", install: str = "") -> None:
        super().__init__(message, backend=module)
        self.module = module
        self.install = install


class DataTypeConversionException(PolygraphyException):
    """A data type that the other side does not have."""


class InconclusiveError(PolygraphyException):
    """Neither passed nor failed: there was nothing to judge, or too little."""

    exit_code = 4


class PolygraphyInternalException(Exception):
    """A defect of this package, never a mistake of its user."""

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
