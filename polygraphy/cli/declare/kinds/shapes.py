"""Shapes of tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds.base import Kind
from polygraphy.cli.declare.kinds.numbers import bracketed

_COMMA = re.compile(r":\[[^\]]*\]|(?P<comma>,)")
"""A shape in brackets, or a comma outside of one."""
_QUOTED = re.compile(r"'((?:[^']|'')+)':")
_BY_X = re.compile(r"(?:-?\d+|[A-Z]\w*?|\?)(?:[xX](?:-?\d+|[A-Z]\w*?|\?))+")
"""Dimensions as trtexec spells them: 1x3x224x224. A name of a dimension counts where it begins with
a capital, as in Nx3: `max3` is one dimension.
"""


class Shapes(Kind):
    """Shapes of tensors by name: ``image:[1,3,224,224] mask:1x224x224``; a name may repeat."""

    nargs = "+"
    metavar = "INPUT:[DIM,...]"

    def parse(self, words: Sequence[str]) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Return a dictionary from names to the shapes given for each, in order."""
        shapes: dict[str, list[tuple[int, ...]]] = {}
        for name, dims in shapes_in(words):
            shapes.setdefault(name, []).append(tuple(map(_dim, dims)))
        return {name: tuple(listed) for name, listed in shapes.items()}

    def unparse(self, value: Mapping[str, Sequence[Sequence[int]]]) -> list[str]:
        """Return one word per shape."""
        return [
            f"{quoted(name)}:[{','.join(map(str, shape))}]"
            for name, shapes in value.items()
            for shape in shapes
        ]


def shapes_in(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the names of tensors that some words give shapes, each with its dimensions.

    A word is ``name:[1,3]``, ``name:1,3``, ``name:1x3``, or several of them with commas between; a
    name that holds a comma comes in single quotes.

    Raises:
        BadValue: a word has no name, no colon, or unmatched brackets.
    """
    found = []
    for word in words:
        for entry in _entries(word):
            name, text = _named(entry)
            found.append((name, dims_in(text)))
    return found


def _named(entry: str) -> tuple[str, str]:
    """Split the name from the shape."""
    in_quotes = _QUOTED.match(entry)
    if in_quotes:
        return in_quotes[1].replace("''", "'"), entry[in_quotes.end() :]
    name, colon, text = entry.rpartition(":")
    if not colon or not name:
        raise BadValue(
            f"{entry!r} does not say which input has which shape, as in input:[1,3,224,224] or"
            " input:1x3x224x224"
        )
    return name, text


def dims_in(text: str) -> list[str]:
    """Return the dimensions of one shape: ``[1,3]``, ``1,3``, ``1x3``, and ``scalar`` for none."""
    if text == "scalar":
        return []
    return re.split("[xX]", text) if is_by_x(text) else bracketed(text)


def is_by_x(text: str) -> bool:
    """Return whether a text is dimensions with an ``x`` between them."""
    return _BY_X.fullmatch(text) is not None


def quoted(name: str) -> str:
    """Return a name as it has to be written for `shapes_in`."""
    if "," not in name and name[:1] != "'":
        return name
    doubled = name.replace("'", "''")
    return f"'{doubled}'"


def _entries(word: str) -> list[str]:
    """Split a word at the commas between tensors: those behind which a name with a shape
    follows.
    """
    entries: list[str] = []
    rest = word
    while rest:
        in_quotes = _QUOTED.match(rest)
        start = in_quotes.end() - 1 if in_quotes else 0  # The colon belongs to the shape.
        commas = (found.start() for found in _COMMA.finditer(rest, start) if found["comma"])
        comma = next(commas, len(rest))
        part, rest = rest[:comma], rest[comma + 1 :]
        if entries and ":" not in part:
            entries[-1] += f",{part}"
        else:
            entries.append(part)
    is_list = all(":" in entry for entry in entries)
    return entries if is_list and entries else [word]


def _dim(text: str) -> int:
    try:
        dim = int(text)
    except ValueError:
        raise BadValue(f"the dimension {text!r} is not a number") from None
    if dim < 0:
        raise BadValue(f"the dimension {dim} is negative")
    return dim
