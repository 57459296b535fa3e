"""The base of every loader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Union

from polygraphy import func

T = TypeVar("T")
Deferred = Union[T, Callable[[], T]]


class BaseLoader:
    """Keeps its arguments when it is made, and does its work each time it is called.

    A loader of your own implements `call_impl`; callers always use the call operator.
    """

    def call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work; implemented by each loader."""
        raise NotImplementedError(f"{type(self).__name__} does not implement call_impl")

    @func.constantmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work and hand over the result; under internal checks, make sure that the loader
        stays as it is, so that it does the same the next time.
        """
        return self.call_impl(*args, **kwargs)

    def __repr__(self) -> str:
        from reprlib import repr as short_repr

        arguments = ", ".join(
            f"{name.lstrip('_')}={short_repr(value)}"
            for name, value in vars(self).items()
            if value is not None
        )
        return f"{type(self).__name__}({arguments})"


def evaluate(value: Deferred[T]) -> T:
    """Return what a callable makes, or the value itself: arguments may be given either way."""
    return value() if callable(value) else value
