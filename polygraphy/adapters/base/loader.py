"""The base of every loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, Union

from polygraphy import config, mod
from polygraphy.adapters.os.paths import atomic_file, readable_file, translate_os_errors
from polygraphy.domain.calling import check_signature
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.naming import with_article
from polygraphy.logger import G_LOGGER

T = TypeVar("T")
Deferred = Union[T, Callable[[], T]]


class BaseLoader:
    """Base class of loaders: stores the arguments, and loads an object on each call.

    Your own loader implements `call_impl`; callers always use the call operator.
    """

    def call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Return the loaded object; implemented by each loader."""
        raise NotImplementedError(f"{type(self).__name__} does not implement call_impl")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the loaded object.
        Under internal checks, also verify that loading does not change the loader, so that the
        next call does the same."""
        if config.INTERNAL_CORRECTNESS_CHECKS:
            from polygraphy.func import check_unchanged

            return check_unchanged(self, "__call__", lambda: self.call_impl(*args, **kwargs))
        return self.call_impl(*args, **kwargs)

    def __repr__(self) -> str:
        """Return the expression that creates the loader."""
        from reprlib import repr as short_repr

        arguments = ", ".join(
            f"{name.lstrip('_')}={short_repr(value)}"
            for name, value in vars(self).items()
            if value is not None
        )
        return f"{type(self).__name__}({arguments})"


def evaluate(value: Deferred[T]) -> T:
    """Return the result of calling a loader, or the value itself if it cannot be called."""
    return value() if callable(value) else value


bytes_from_path: Callable[..., bytes]
invoke_from_script: Callable[..., Any]
save_bytes: Callable[..., Any]


@mod.export(funcify=True)
class BytesFromPath(BaseLoader):
    """Reads a file."""

    def __init__(self, path: str) -> None:
        """Create a loader of the bytes of a file."""
        self._path = path

    def call_impl(self) -> bytes:
        """Return the content of the file; raise FileError if it cannot be read."""
        G_LOGGER.progress(f"Loading bytes from {Path(self._path).absolute()}")
        path = readable_file(self._path)
        with translate_os_errors(path, "read"):
            return path.read_bytes()


@mod.export(funcify=True)
class SaveBytes(BaseLoader):
    """Writes bytes to a file and passes them on."""

    def __init__(self, obj: Deferred[Any], path: str) -> None:
        """Create a loader that saves the bytes or the buffer of `obj`, or of its result, to a
        path."""
        self._bytes = obj
        self._path = path

    def call_impl(self) -> Any:
        """Write the file, completely or not at all, and return the bytes."""
        content = evaluate(self._bytes)
        G_LOGGER.info(f"Saving bytes to {Path(self._path).absolute()}")
        with atomic_file(self._path) as stream:
            stream.write(content)
        return content


@mod.export(funcify=True)
class InvokeFromScript(BaseLoader):
    """Calls a function, or an instance of a class, that a user's script defines. The script is
    imported once.
    """

    def __init__(self, path: str, name: str) -> None:
        """Create a loader that calls a symbol of a script."""
        self._path = path
        self._name = name
        self._loaded: list[Any] = []

    @property
    def script(self) -> str:
        """Return the script and the name, as options have them."""
        return f"{self._path}:{self._name}"

    def symbol(self) -> Any:
        """Return the symbol; for a class, an instance of it."""
        if not self._loaded:
            symbol = mod.import_from_script(self._path, self._name)
            if isinstance(symbol, type):
                check_signature(symbol, "class")
                symbol = symbol()
            self._loaded.append(symbol)
        return self._loaded[0]

    def call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the symbol for the same arguments.
        Raise UsageError if it does not accept them.
        """
        target = self.symbol()
        if not callable(target):
            raise UsageError(
                f"{self.script}: {self._name} is {with_article(type(target).__name__)}, not a"
                " function.",
                hint="Name a function that returns it.",
            )
        if not kwargs:
            check_signature(
                target, "function", *(with_article(type(argument).__name__) for argument in args)
            )
        return target(*args, **kwargs)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the return value of the symbol, for a script that loads data."""
        from polygraphy.domain.data.loading import iterate_feeds

        return iterate_feeds(self())

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the symbol, which is imported on first use."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.symbol(), name)
