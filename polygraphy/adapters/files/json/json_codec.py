"""`Encoder` and `Decoder`: the saved fields of each type.

A saved object is a JSON object whose last key, ``polygraphy_class``, names its type::

    @Encoder.register(Point)
    def encode(point):
        return {"x": point.x, "y": point.y}

    @Decoder.register(Point)
    def decode(fields):
        return Point(fields["x"], fields["y"])
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from json import JSONDecodeError
from typing import Any, TypeVar

from polygraphy.constants import LEGACY_KEY_PREFIX, LEGACY_TYPE_MARKER, TYPE_MARKER
from polygraphy.domain.errors import DamagedFileError, FileError, MissingDependencyError, UsageError


class ContentError(ValueError):
    """A value that cannot be written, or invalid content that was read.

    The message is a clause, such as "it is truncated"; `translate_content_errors` makes a
    sentence of it. `hint` says what to do, in a sentence of its own.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Create the error, without a location yet."""
        super().__init__(message)
        self.hint = hint
        self._trail: list[str | int] = []

    def add_location(self, step: str | int) -> None:
        """Record the element that contains the error; innermost first."""
        self._trail.append(step)

    def __str__(self) -> str:
        """Return the message with the location in the document."""
        message = super().__str__()
        steps = (f"[{step!r}]" for step in reversed(self._trail))
        return f"{message} (at {''.join(steps)})" if self._trail else message


class InvalidJsonError(FileError, JSONDecodeError):
    """Text that is not valid JSON, or incomplete."""

    def __init__(
        self, message: str, cause: JSONDecodeError, *, path: object = None, hint: str = ""
    ) -> None:
        """Create the error from that of the json module."""
        JSONDecodeError.__init__(self, cause.msg, cause.doc, cause.pos)
        self.args = (message,)
        self.path = path
        self.hint = hint


@contextmanager
def translate_content_errors(doing: str, path: object = None) -> Iterator[None]:
    """Convert a ContentError inside the block to ``DamagedFileError("Could not {doing}: ...")``."""
    try:
        yield
    except ContentError as error:
        message, cause = f"Could not {doing}: {error}.", error.__cause__
        if isinstance(cause, JSONDecodeError):
            raise InvalidJsonError(message, cause, path=path, hint=error.hint) from error
        raise DamagedFileError(message, path=path, hint=error.hint) from error


Fields = dict[str, Any]
EncodeFunction = TypeVar("EncodeFunction", bound=Callable[[Any], Any])
DecodeFunction = TypeVar("DecodeFunction", bound=Callable[[Fields], Any])
T = TypeVar("T")

_Encoding = tuple[str, Callable[[Any], Any]]
"""A marker, and the function that returns the fields."""


class DeferredText:
    """A long string of a document, read from the file on access."""

    def __len__(self) -> int:
        """Return the number of bytes of its text."""
        raise NotImplementedError

    def __getitem__(self, part: slice, /) -> bytes:
        """Return a slice of its text, as it is in the document."""
        raise NotImplementedError


class Encoder:
    """The registry of functions that convert objects to JSON fields, by type.

    Attributes:
        polygraphy_registered: the functions by type.
    """

    polygraphy_registered: dict[type | str, Callable[[Any], Any]] = {}
    _encodings: dict[type | str, _Encoding] = {}
    _found: dict[type, _Encoding | None] = {}

    @classmethod
    def register(
        cls, typ: type | str, alias: str | None = None, *, marker: str | None = None
    ) -> Callable[[EncodeFunction], EncodeFunction]:
        """Return a decorator for the function that encodes objects of a type and its subclasses.

        The function takes an object and returns a dictionary of fields, to which the marker is
        added. Fields may contain anything that can be saved. If the function returns another type
        than a dictionary, that value is saved instead.

        Args:
            typ: the type; or its full name, such as "torch.Tensor", if its module may be missing.
            alias: another name of the type in files; only the Decoder uses it.
            marker: name of the type in files (default: its name).
        """
        name = marker or (typ if isinstance(typ, str) else typ.__name__)

        def add_encoder(function: EncodeFunction) -> EncodeFunction:
            """Register a function as the encoder of the type, and return it."""
            cls._encodings[typ] = (name, function)
            cls.polygraphy_registered[typ] = function
            cls._found.clear()
            return function

        return add_encoder

    @classmethod
    def find(cls, kind: type) -> _Encoding | None:
        """Return the encoding of a type, or of its nearest base class; None if there is none."""
        if kind not in cls._found:
            keys = (key for base in kind.__mro__ for key in (base, _full_name(base)))
            encodings = (cls._encodings[key] for key in keys if key in cls._encodings)
            cls._found[kind] = next(encodings, None)
        return cls._found[kind]


class Decoder:
    """The registry of functions that create objects from JSON fields, by the marker of their type.

    Attributes:
        polygraphy_registered: the functions by marker.
    """

    polygraphy_registered: dict[str, Callable[[Fields], Any]] = {}
    _taking_deferred: set[str] = set()

    @classmethod
    def register(
        cls, typ: type | str, alias: str | None = None, *, takes_deferred_text: bool = False
    ) -> Callable[[DecodeFunction], DecodeFunction]:
        """Return a decorator for the function that creates an object from a dictionary of fields.

        Args:
            typ: the type, whose name is the marker; or the marker.
            alias: another marker for the same function.
            takes_deferred_text: whether the function accepts a `DeferredText` as a string.
        """
        name = typ if isinstance(typ, str) else typ.__name__

        def add_decoder(function: DecodeFunction) -> DecodeFunction:
            """Register a function as the decoder of the type, and return it."""
            for marker in filter(None, (name, alias)):
                cls.polygraphy_registered[marker] = function
                cls._taking_deferred.discard(marker)
                if takes_deferred_text:
                    cls._taking_deferred.add(marker)
            return function

        return add_decoder

    @classmethod
    def decode(cls, marker: str, fields: Fields) -> Any:
        """Return the object that fields describe.

        Raises:
            ContentError: the marker is unknown, or its function does not expect these fields.
        """
        if marker not in cls.polygraphy_registered:
            raise ContentError(
                f"it contains an object of unknown type {marker!r}",
                hint="It is from a different version, or from code that must be imported first.",
            )
        if marker not in cls._taking_deferred:
            fields = {key: _fetch_text(value) for key, value in fields.items()}
        damaged = f"an object of type {marker!r} in it is damaged"
        try:
            return cls.polygraphy_registered[marker](fields)
        except (ContentError, MissingDependencyError):
            raise
        except KeyError as error:
            raise ContentError(f"{damaged}: {error} is missing") from error
        except (AttributeError, IndexError, TypeError, ValueError, UsageError) as error:
            raise ContentError(f"{damaged}: {error}") from error


def encode_value(value: Any) -> Any:
    """Return the value to save: fields with the marker last, or an unchanged value.

    Raises:
        ContentError: objects of its type cannot be saved.
    """
    encoder = Encoder.find(type(value))
    if encoder is None:
        raise ContentError(
            f"an object of type {type(value).__name__!r} cannot be written as JSON",
            hint="Register one with polygraphy.json.Encoder.",
        )
    marker, encode = encoder
    fields = encode(value)
    if not isinstance(fields, dict):
        return fields
    return {**fields, TYPE_MARKER: fields.get(TYPE_MARKER, marker)}


def decode_tree(tree: Any) -> Any:
    """Return the objects that a tree of dictionaries, lists and scalars describes.

    Raises:
        ContentError: an object is unknown or damaged; the error gives its location.
    """
    try:
        return _decode(tree)
    except RecursionError as error:
        raise ContentError("it is nested too deeply") from error


def _decode(tree: Any) -> Any:
    """Return the objects that a tree describes."""
    if isinstance(tree, dict):
        key = marker_key(tree)
        fields = {name: _decode_child(name, value) for name, value in tree.items() if name != key}
        if key is None:
            return {name: _fetch_text(value) for name, value in fields.items()}
        return Decoder.decode(_type_name(tree, key), fields)
    if isinstance(tree, list):
        return [_decode_child(index, value) for index, value in enumerate(tree)]
    return tree


def _decode_child(step: str | int, value: Any) -> Any:
    """Return a decoded part of a document; an error names the key or index."""
    if not isinstance(value, (dict, list)):
        return value
    try:
        return _decode(value)
    except ContentError as error:
        error.add_location(step)
        raise


def check_kinds(kind: type[T], values: Iterable[Any]) -> list[T]:
    """Return the values as a list; raise TypeError if one is not a `kind`."""
    listed = list(values)
    for value in listed:
        if not isinstance(value, kind):
            raise TypeError(f"{type(value).__name__} found where {kind.__name__} is expected")
    return listed


def marker_of(tree: Any) -> str | None:
    """Return the type name of a JSON object; None for other values."""
    key = marker_key(tree) if isinstance(tree, dict) else None
    return None if key is None else _type_name(tree, key)


def marker_key(fields: Mapping[Any, Any]) -> str | None:
    """Return the key that holds the type of a JSON object, in its current or old form, or None.
    The result is None without one.
    """
    if TYPE_MARKER in fields:
        return TYPE_MARKER
    for key, value in fields.items():
        is_legacy = isinstance(key, str) and key.startswith(LEGACY_KEY_PREFIX)
        if is_legacy and isinstance(value, str) and value == LEGACY_TYPE_MARKER:
            return str(key)
    return None


def _type_name(fields: Mapping[str, Any], key: str) -> str:
    """Return the name of the type that a field or a key of a JSON object marks."""
    return str(fields[key]) if key == TYPE_MARKER else key[len(LEGACY_KEY_PREFIX) :]


def _fetch_text(value: Any) -> Any:
    """Return a deferred text as a string; other values unchanged."""
    if not isinstance(value, DeferredText):
        return value
    try:
        return json.loads(b'"' + value[:] + b'"')
    except ValueError as error:
        raise ContentError(f"it is damaged: {error}") from error


def _full_name(kind: type) -> str:
    """Return the module and qualified name of a type."""
    return f"{kind.__module__}.{kind.__qualname__}"


def metric_in(fields: Mapping[str, Any], name: str) -> float | None:
    """Return the number in a field of a JSON object; None if it is missing.

    Raises:
        TypeError: the field is not a number.
    """
    value = fields.get(name)
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{name!r} is {value!r}, not a number")
