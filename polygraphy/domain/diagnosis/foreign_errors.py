"""Errors of other code during a diagnosis: exporters, quantizers, and backends that load an
invalid node.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polygraphy.domain.errors import BackendError, PolygraphyException


class ForeignError(BackendError):
    """An error that other code raised, such as an exporter.

    Attributes:
        original: that error.
    """

    def __init__(self, original: Exception) -> None:
        """Wrap an error."""
        super().__init__(f"{type(original).__name__}: {original}")
        self.original = original


@contextmanager
def foreign_errors() -> Iterator[None]:
    """Raise ForeignError for any error of other code inside the block,
    such as an exporter, a quantizer, or a backend that loads an invalid node."""
    try:
        yield
    except PolygraphyException:
        raise
    except Exception as error:
        raise ForeignError(error) from error


def original_error(error: Exception) -> Exception:
    """Return the error that other code raised, for a ForeignError; else the error itself."""
    return error.original if isinstance(error, ForeignError) else error
