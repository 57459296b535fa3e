"""How the ground floor raises errors whose classes are defined above it.

The classes are named as text and imported at the moment of the error, so that this floor knows no
other layer and costs nothing to import.
"""

from __future__ import annotations

__all__ = [
    "INTERNAL_ERROR",
    "PUBLIC_ERROR",
    "import_exception_class",
    "mark_as_logged",
    "was_logged",
]

PUBLIC_ERROR = "polygraphy.exception:PolygraphyException"
"""The error that `Logger.critical` raises."""

INTERNAL_ERROR = "polygraphy.exception:PolygraphyInternalException"
"""The error that `Logger.internal_error` raises."""

_MARK = "_polygraphy_was_logged"


def import_exception_class(name: str) -> type[BaseException]:
    """Return the exception class with the name `module:attribute`; its module is imported."""
    module, _, attribute = name.partition(":")
    error_class: type[BaseException] = getattr(__import__(module, fromlist=[attribute]), attribute)
    return error_class


def mark_as_logged(error: BaseException) -> None:
    """Record that the log contains the message of `error`."""
    # Written to `__dict__`, because some exception classes reject new attributes.
    error.__dict__[_MARK] = True


def was_logged(error: BaseException) -> bool:
    """Return whether the log contains the message of `error`."""
    return _MARK in error.__dict__
