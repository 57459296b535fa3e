"""Functions that users hand over, checked before they are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from polygraphy.domain.errors import UsageError

__all__ = ["check_takes"]


def check_takes(function: Callable[..., Any], what: str, *arguments: str) -> None:
    """Make sure that a function can be called with so many positional arguments.

    Args:
        function: the function; one whose signature cannot be known is taken as it is.
        what: what the function is for, for the message, such as "comparison function".
        arguments: what it is called with, in words; nothing for no argument.

    Raises:
        UsageError: it takes others.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        called = function if hasattr(function, "__code__") else type(function).__call__
        code = getattr(called, "__code__", None)
        where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
        given = " and ".join(arguments) or "no argument"
        raise UsageError(
            f"The {what} {name}{where} is called with {given}: {error}.",
            hint=f"Let it take {len(arguments) or 'no'} argument{'s' * (len(arguments) > 1)}.",
        ) from None
