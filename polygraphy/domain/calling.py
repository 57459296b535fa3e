"""Objects that users hand over: what they can do, what they take, and what they answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from polygraphy.domain.errors import UsageError

R = TypeVar("R")


def optional_method(owner: object, declared: Callable[..., R]) -> Callable[..., R] | None:
    """Return the method of an object that a class declares,
    if the object has it, itself or through ``__getattr__`` as wrappers do; else None.
    """
    method: Callable[..., R] | None = getattr(owner, declared.__name__, None)
    return method


def name_of(function: object) -> str:
    """Return the name of a function, or of the class of an object that is called as one."""
    return str(getattr(function, "__name__", type(function).__name__))


def rename_argument(function: Callable[..., Any], argument: str, name: str) -> Callable[..., Any]:
    """Return the same function, in which an argument is called `name`."""
    code = function.__code__
    names = tuple(name if co_varname == argument else co_varname for co_varname in code.co_varnames)
    function_type = FunctionType(
        code.replace(co_varnames=names),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    function_type.__kwdefaults__ = function.__kwdefaults__
    function_type.__doc__ = function.__doc__
    function_type.__annotations__ = {
        name if parameter == argument else parameter: kind
        for parameter, kind in function.__annotations__.items()
    }
    return function_type


def check_signature(function: Callable[..., Any], text: str, *arguments: str) -> None:
    """Raise UsageError unless a function accepts this number of positional arguments.

    Args:
        function: the function; one whose signature cannot be known is taken as it is.
        text: the purpose of the function, for the message, such as "comparison function".
        arguments: its arguments, in words; empty for no argument.

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
        name = name_of(function)
        called = function if hasattr(function, "__code__") else type(function).__call__
        code = getattr(called, "__code__", None)
        where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
        given_name = " and ".join(arguments) or "no argument"
        raise UsageError(
            f"The {text} {name}{where} is called with {given_name}: {error}.",
            hint=f"It must accept {len(arguments) or 'no'} argument{'s' * (len(arguments) > 1)}.",
        ) from None


def verdict_of(answer: Any, function: str, output: str) -> Any:
    """Return the result of a comparison function for an output.
    Raise UsageError if its truth value is not a verdict. None does not pass.

    Raises:
        UsageError: it is something that is true whatever was found, such as a text or a tuple, or a
            number that may be a metric.
    """
    kind = type(answer)
    if kind is bool or answer is None:
        return answer
    if hasattr(answer, "dtype") and hasattr(answer, "item"):
        try:
            return verdict_of(answer.item(), function, output)
        except (ValueError, RuntimeError):  # `item` fails for arrays with several elements.
            raise _no_verdict_error(f"{answer.shape} values", function, output, ".all()") from None
    if isinstance(answer, (int, float)):
        if answer in (0, 1):
            return bool(answer)
        raise _no_verdict_error(f"the number {answer!r}", function, output, " <= limit")
    if hasattr(kind, "__bool__"):
        return answer
    raise _no_verdict_error(f"a {kind.__name__}", function, output)


def _no_verdict_error(name: str, function: str, output: str, how: str = "") -> UsageError:
    """Return the UsageError for a comparison function that returned no verdict."""
    example = f", as in {{{output!r}: found{how}}}" if how else ""
    return UsageError(
        f"The comparison function {function} returned {name} for output {output!r}, which is"
        " not a verdict.",
        hint=f"Return True or False{example}, or an object whose class has __bool__.",
    )
