"""A context manager made of two functions."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Scope"]


class Scope:
    """A context that calls `enter` at its start and `leave` at its end.

    (`contextlib` would do, if importing it did not cost a fifth of an interpreter's start.)
    """

    __slots__ = ("_enter", "_leave")

    def __init__(self, enter: Callable[[], object], leave: Callable[[], object]) -> None:
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> Scope:
        self._enter()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._leave()
