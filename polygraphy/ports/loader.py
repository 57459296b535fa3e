"""A step that makes something - a model, a session, an engine - when it is called, and not
before.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

__all__ = ["Loader"]

T_co = TypeVar("T_co", covariant=True)


class Loader(Protocol[T_co]):
    """A callable without arguments. Making it does no work; every call does the work anew and hands
    over the result.
    """

    def __call__(self) -> T_co:
        """Do the work; what cannot be done is raised as one of `polygraphy.domain.errors`."""
