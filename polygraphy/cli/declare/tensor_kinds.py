"""Forms of value about tensors of a model, and attributes of its nodes."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import Kind, bracketed
from polygraphy.cli.declare.kinds.shapes import dims_in, is_by_x, quoted, shapes_in

_UNKNOWN = "auto"


class TensorSpec(NamedTuple):
    """A tensor by name, with what was said about it; None is for what is to be found out."""

    name: str
    shape: tuple[int | str | None, ...] | None = None
    dtype: str | None = None


class Tensors(Kind):
    """Tensors with their shapes and data types, all but the name may be left out or ``auto``:
    ``x:[1,3,N]:float32 y:auto:auto z``.
    """

    nargs = "*"
    metavar = "NAME[:SHAPE][:DTYPE]"

    def parse(self, words: Sequence[str]) -> tuple[TensorSpec, ...]:
        """Return the tensors, in order."""
        specs = tuple(map(_spec, words))
        names = [spec.name for spec in specs]
        for name in names:
            if names.count(name) > 1:
                raise BadValue(f"tensor {name!r} is there twice")
        return specs

    def unparse(self, value: Sequence[TensorSpec]) -> list[str]:
        """Return one word per tensor."""
        return [
            ":".join((spec.name, _shape_text(spec.shape), spec.dtype or _UNKNOWN)) for spec in value
        ]

    def argument(self, value: Sequence[TensorSpec]) -> Any:
        """Return the expression of metadata."""
        from polygraphy.codegen.call import Metadata

        return Metadata(value)


def _spec(word: str) -> TensorSpec:
    """Take a word apart from its end, because names may hold colons."""
    name, dtype, shape = word, None, None
    rest, colon, last = name.rpartition(":")
    is_shape = _is_shape(last)
    if colon and last.startswith("[") and not is_shape:
        raise BadValue(f"{word!r} has an unmatched bracket")
    if colon and not is_shape and _is_dtype(last):
        name, dtype = rest, last.lower()
        rest, colon, last = name.rpartition(":")
        is_shape = _is_shape(last)
    elif colon and not is_shape and (rest.endswith("]") or rest.endswith(f":{_UNKNOWN}")):
        raise BadValue(f"{last!r} in {word!r} is no data type, such as float32 or int64")
    if colon and is_shape:
        name, shape = rest, tuple(map(_dim, dims_in(last)))
    elif colon and last == _UNKNOWN:
        name = rest
    if not name:
        raise BadValue(f"{word!r} names no tensor")
    return TensorSpec(name, shape, None if dtype == _UNKNOWN else dtype)


def _is_shape(text: str) -> bool:
    return is_by_x(text) or (text.startswith("[") and text.endswith("]"))


def _is_dtype(text: str) -> bool:
    from polygraphy.domain.tensors.datatype import DataType

    return text.lower() == _UNKNOWN or text.upper() in DataType.__members__


def _dim(text: str) -> int | str | None:
    """Return a dimension: a number, a name, or None for any."""
    plain = text.strip("'\"")
    try:
        value = int(plain)
    except ValueError:
        if not plain:
            raise BadValue("a dimension is empty") from None
        return None if plain in ("None", "?") else plain
    return None if value < 0 else value


def _shape_text(shape: Sequence[int | str | None] | None) -> str:
    if shape is None:
        return _UNKNOWN
    return f"[{','.join('-1' if dim is None else str(dim) for dim in shape)}]"


class NamedShapes(Kind):
    """One shape per tensor: ``image:[1,3,224,224] mask:[N,224]``; a dimension may be a name."""

    nargs = "+"
    metavar = "INPUT:[DIM,...]"

    def parse(self, words: Sequence[str]) -> dict[str, tuple[int | str | None, ...]]:
        """Return a dictionary from names to shapes."""
        shapes: dict[str, tuple[int | str | None, ...]] = {}
        for name, dims in shapes_in(words):
            if name in shapes:
                raise BadValue(f"there are two shapes for {name!r}")
            shapes[name] = tuple(map(_dim, dims))
        return shapes

    def unparse(self, value: Mapping[str, Sequence[int | str | None]]) -> list[str]:
        return [f"{quoted(name)}:{_shape_text(shape)}" for name, shape in value.items()]

    def argument(self, value: Mapping[str, Sequence[int | str | None]]) -> Any:
        """Return a dictionary from names to lists."""
        return {name: list(shape) for name, shape in value.items()}


class Attributes(Kind):
    """Attributes of a node: ``axis=1 alpha=0.5 mode=linear sizes=[1,2]``."""

    nargs = "+"
    metavar = "NAME=VALUE"

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Return a dictionary from names to numbers, texts, and lists of either."""
        attributes: dict[str, Any] = {}
        for word in words:
            name, equals, text = word.partition("=")
            if not equals or not name:
                raise BadValue(f"{word!r} does not give an attribute a value, as in axis=1")
            if name in attributes:
                raise BadValue(f"there are two values for {name!r}")
            attributes[name] = _attribute(text)
        return attributes

    def unparse(self, value: Mapping[str, Any]) -> list[str]:
        return [f"{name}={item!r}" for name, item in value.items()]


def _attribute(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if text.startswith("["):
            value = [_attribute(part) for part in bracketed(text)]
        else:
            return text
    if isinstance(value, tuple):
        value = list(value)
    items = value if isinstance(value, list) else [value]
    kinds = {type(item) for item in items}
    if kinds == {int, float}:
        value, kinds = [float(item) for item in items], {float}
    if not kinds or len(kinds) > 1 or not kinds <= {int, float, str}:
        raise BadValue(f"{text!r} is no number, text, or list of numbers or of texts")
    return value
