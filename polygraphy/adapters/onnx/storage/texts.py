"""Texts of messages: protobuf hands over those that are no UTF-8 as bytes."""

from __future__ import annotations

from collections.abc import Iterable

from polygraphy.domain.errors import ModelError


def text(value: str) -> str:
    """Return a text of a message; ModelError when it is none."""
    return value if isinstance(value, str) else texts((value,))[0]


def texts(values: Iterable[str]) -> tuple[str, ...]:
    """Return texts of a message; ModelError when one is none."""
    made = tuple(values)
    check_texts(made)
    return made


def check_texts(values: tuple[str | bytes, ...]) -> None:
    """Look at texts of a message.

    Raises:
        ModelError: one is none.
    """
    try:
        "".join(values)  # type: ignore[arg-type]
    except TypeError:
        wrong = next(one for one in values if isinstance(one, bytes))
        raise ModelError(
            f"ONNX model is invalid: the name {wrong!r} is no UTF-8, so the model is damaged.",
            hint="Export or download it again.",
        ) from None
