"""What is wrong with a content, before it is known which file it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError

from polygraphy.domain.errors import DamagedFileError, FileError


class ContentError(ValueError):
    """Something cannot be written, or what was read is not what it should be.

    The message is a clause, such as "it is truncated"; `content_errors_named` makes a sentence of
    it. `hint` says what to do, in a sentence of its own.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self._trail: list[str | int] = []

    def inside(self, step: str | int) -> None:
        """Note that the trouble is in the element `step` of what surrounds it; innermost first."""
        self._trail.append(step)

    def __str__(self) -> str:
        message = super().__str__()
        steps = (f"[{step!r}]" for step in reversed(self._trail))
        return f"{message} (at {''.join(steps)})" if self._trail else message


class InvalidJsonError(FileError, JSONDecodeError):
    """A text that is no JSON, or not all of it."""

    def __init__(
        self, message: str, cause: JSONDecodeError, *, path: object = None, hint: str = ""
    ) -> None:
        JSONDecodeError.__init__(self, cause.msg, cause.doc, cause.pos)
        self.args = (message,)
        self.path = path
        self.hint = hint


@contextmanager
def content_errors_named(doing: str, path: object = None) -> Iterator[None]:
    """Turn a ContentError inside the block into ``DamagedFileError("Could not {doing}: ...")``."""
    try:
        yield
    except ContentError as error:
        message, cause = f"Could not {doing}: {error}.", error.__cause__
        if isinstance(cause, JSONDecodeError):
            raise InvalidJsonError(message, cause, path=path, hint=error.hint) from error
        raise DamagedFileError(message, path=path, hint=error.hint) from error
