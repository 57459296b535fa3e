"""Shapes of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polygraphy.cli.errors import BadValue
from polygraphy.cli.kinds.base import Kind
from polygraphy.cli.kinds.numbers import bracketed

__all__ = ["Shapes"]


class Shapes(Kind):
    """Shapes of tensors by name: ``image:[1,3,224,224] mask:[1,224,224]``; a name may repeat."""

    nargs = "+"
    metavar = "INPUT:[DIM,...]"

    def parse(self, words: Sequence[str]) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Return a dictionary from names to the shapes given for each, in order."""
        shapes: dict[str, list[tuple[int, ...]]] = {}
        for word in words:
            name, colon, text = word.rpartition(":")
            if not colon or not name:
                raise BadValue(
                    f"{word!r} does not say which input has which shape, as in input:[1,3,224,224]"
                )
            shapes.setdefault(name, []).append(tuple(map(_dim, bracketed(text))))
        return {name: tuple(listed) for name, listed in shapes.items()}

    def unparse(self, value: Mapping[str, Sequence[Sequence[int]]]) -> list[str]:
        """Return one word per shape."""
        return [
            f"{name}:[{','.join(map(str, shape))}]"
            for name, shapes in value.items()
            for shape in shapes
        ]


def _dim(text: str) -> int:
    try:
        dim = int(text)
    except ValueError:
        raise BadValue(f"the dimension {text!r} is not a number") from None
    if dim < 0:
        raise BadValue(f"the dimension {dim} is negative")
    return dim
