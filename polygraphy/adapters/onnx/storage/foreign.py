"""The errors of the onnx package and of protobuf, as errors of this package: the one place where
they are translated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polygraphy.domain.errors import ModelError, PolygraphyException

_PACKAGES = frozenset({"google", "onnx"})
_SYMPTOMS = (IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError)
"""What the package's C++ and Python code raises for a model that it does not expect."""


def one_line(error: Exception) -> str:
    """Return what an error says, in one line; of a C++ assertion that failed only the reason."""
    text = " ".join(str(error).split())
    if "Assertion" in text:
        text = text.rpartition("failed: ")[2]
    return text or type(error).__name__


@contextmanager
def onnx_errors(
    failed: str, kind: type[PolygraphyException] = ModelError, hint: str = ""
) -> Iterator[None]:
    """Turn what the onnx package raises inside the block into an error of this package.

    Args:
        failed: what failed, the beginning of the message.
        kind: the class of the error.
        hint: what to do.
    """
    try:
        yield
    except PolygraphyException:
        raise
    except Exception as error:
        package = type(error).__module__.partition(".")[0]
        # protobuf's implementations have their classes in other places.
        is_foreign = package in _PACKAGES or type(error).__name__ in ("DecodeError", "EncodeError")
        if not is_foreign and not isinstance(error, _SYMPTOMS):
            raise
        raise kind(f"{failed}: {one_line(error)}", hint=hint) from error
