"""Errors in functions of Python that TensorRT calls.

An exception must not travel through TensorRT: it would be lost there, or end the process. So it is
kept with the object whose method was called, and raised when TensorRT has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from polygraphy.logger import G_LOGGER
from polygraphy.logger.errors import mark_as_logged

_KEPT = "_polygraphy_error"
_CALLED_BY_BUILDS = ("int8_calibrator", "algorithm_selector")


def guarded(answer: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of methods that TensorRT calls.

    An exception is logged and kept, and the method returns `answer` instead, in this call and in
    all that follow.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(self, _KEPT, None) is not None:
                return answer
            try:
                return method(self, *args, **kwargs)
            except BaseException as error:  # ctrl-C, too, is for the thread that waits for TensorRT
                setattr(self, _KEPT, error)
                if isinstance(error, Exception):
                    G_LOGGER.error(f"{type(error).__name__}: {error}")
                    mark_as_logged(error)
                return answer

        return call

    return decorate


def raise_kept_errors(config: Any) -> None:
    """Raise what went wrong in functions that were called by a build, as it was.

    Call this when a build is over, whether it succeeded or not: without what could not be
    calculated it may well have gone on.

    Args:
        config: the ``IBuilderConfig`` of the build.
    """
    for attribute in _CALLED_BY_BUILDS:
        raise_kept_error(getattr(config, attribute, None))


def raise_kept_error(called: Any) -> None:
    """Raise what went wrong in a method of an object, as it was, if anything did."""
    error = getattr(called, _KEPT, None)
    if error is not None:
        setattr(called, _KEPT, None)
        raise error
