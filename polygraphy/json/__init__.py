"""Save and load objects as JSON, including types that you register.

::

    @Encoder.register(Point)
    def encode(point):
        return {"x": point.x, "y": point.y}

    @Decoder.register(Point)
    def decode(fields):
        return Point(fields["x"], fields["y"])

    save_json([Point(1, 2)], "points.json")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from polygraphy.adapters.files.json.json_codec import Decoder, Encoder
from polygraphy.adapters.files.store import json_io
from polygraphy.adapters.files.store.json_io import PathOrFile
from polygraphy.logger import G_LOGGER
from polygraphy.mod.deferred import defer_names

__all__ = [
    "Decoder",
    "Encoder",
    "add_json_methods",
    "from_json",
    "load_json",
    "save_json",
    "to_json",
]

__getattr__ = defer_names(globals(), submodules=("serde",))

Class = TypeVar("Class", bound=type)


def to_json(obj: Any) -> str:
    """Return `obj` as JSON text; raise FileError if it, or a part of it, has no JSON form."""
    return json_io.dumps(obj)


def from_json(src: str) -> Any:
    """Return the object in JSON text; raise FileError if it is truncated, damaged or not JSON."""
    return json_io.loads(src, object)


def save_json(obj: Any, dest: PathOrFile, description: str | None = None) -> None:
    """Write `obj` to a file, completely or not at all, or to an open file.

    Args:
        obj: numbers, strings, lists, dictionaries, arrays, and objects with an encoder.
        dest: path of the file, or a file that is open for writing bytes or text.
        description: name of the object in the log; without it nothing is logged.

    Raises:
        FileError: the file cannot be written, or the object cannot be represented in JSON.
    """
    if description is not None:
        G_LOGGER.info(f"Saving {description} to {json_io.name_of(dest)}")
    json_io.save(obj, dest)


def load_json(src: PathOrFile, description: str | None = None) -> Any:
    """Return the object in a file.

    Args:
        src: path of the file, or an open file, which is read from its start.
        description: a description of the file, for the log; without it nothing is logged.

    Raises:
        FileError: the file is missing, empty, truncated, damaged or not JSON.
    """
    return _load(src, object, description)


def add_json_methods(description: str | None = None) -> Callable[[Class], Class]:
    """Return a class decorator that adds ``to_json()``, ``from_json()``, ``save()`` and ``load()``.

    ``from_json(src)`` and ``load(src)`` are static, and raise a FileError if the object that they
    read is not of this class.

    Args:
        description: the name of objects of the class in the log; without it nothing is logged.
    """

    def add_methods(cls: Class) -> Class:
        """Return the class with the methods `to_json`, `from_json`, `save` and `load`."""

        def save(self: Any, dest: PathOrFile) -> None:
            """Write this object to a file, completely or not at all, or to an open file."""
            save_json(self, dest, description)

        def from_json(src: str) -> Any:
            """Return an object of this class from JSON text."""
            return json_io.loads(src, cls)

        def load(src: PathOrFile) -> Any:
            """Return an object of this class from a file, or from an open file from its start."""
            return _load(src, cls, description)

        methods = {
            "to_json": to_json,
            "save": save,
            "from_json": staticmethod(from_json),
            "load": staticmethod(load),
        }
        for name, method in methods.items():
            setattr(cls, name, method)
        return cls

    return add_methods


def _load(src: PathOrFile, kind: type, description: str | None) -> Any:
    """Return an object of a type from a JSON file."""
    if description is not None:
        G_LOGGER.progress(f"Loading {description} from {json_io.name_of(src)}")
    return json_io.load(src, kind)
