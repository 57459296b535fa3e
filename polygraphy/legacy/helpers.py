"""Small helpers that scripts use: names, sequences, shapes, files, texts and queues."""

from __future__ import annotations

import math
import re
import sys
import tempfile
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeVar

from polygraphy.adapters.os.paths import (
    atomic_file,
    ensure_parent,
    readable_file,
    translate_os_errors,
)
from polygraphy.constants import TAB
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors import shapes
from polygraphy.domain.tensors.naming import is_pattern
from polygraphy.domain.tensors.shapes import Shape, is_shape_dynamic, volume
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.domain.tensors.metadata import TensorMetadata

__all__ = [
    "LockFile",
    "NamedTemporaryFile",
    "TempAttrChange",
    "add_file_suffix",
    "check_called_by",
    "check_sequence_contains",
    "contains_wildcard",
    "default",
    "find_in_dirs",
    "find_str_in_iterable",
    "get_file_size",
    "getattr_nested",
    "indent_block",
    "invert_dict",
    "invoke_if_callable",
    "is_empty_shape",
    "is_inf",
    "is_nan",
    "is_sequence",
    "is_shape_dynamic",
    "is_valid_shape_override",
    "load_file",
    "make_repr",
    "makedirs",
    "match_keys",
    "override_dynamic_shape",
    "sanitize_filename",
    "save_file",
    "str_from_layer",
    "try_getattr",
    "try_match_shape",
    "try_receive_on_queue",
    "try_send_on_queue",
    "unique_list",
    "unpack_args",
    "value_or_from_dict",
    "volume",
]


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)
T = TypeVar("T")

contains_wildcard = is_pattern


def default(value: T | None, default: T) -> T:
    """Return a value; `default` if it is None."""
    return default if value is None else value


def is_sequence(obj: Any) -> bool:
    """Return whether an object is ordered and indexed but not text: a list, a tuple, an array."""
    if isinstance(obj, (str, bytes, Mapping)):
        return False
    return hasattr(obj, "__iter__") and hasattr(obj, "__getitem__")


def unique_list(sequence: Iterable[K]) -> list[K]:
    """Return the elements of a sequence, each once, in order."""
    return list(dict.fromkeys(sequence))


def invert_dict(dct: Mapping[K, V]) -> dict[V, K]:
    """Return the keys by value; if values repeat, the last key is kept."""
    return {value: key for key, value in dct.items()}


def unpack_args(args: Any, num: int) -> tuple[Any, ...]:
    """Return the first `num` values, padded with None.
    A value that is not a tuple counts as the first.
    """
    given_args = args if isinstance(args, tuple) else (args,)
    return (*given_args[:num], *[None] * (num - len(given_args)))


def invoke_if_callable(func: Any, *args: Any, **kwargs: Any) -> tuple[Any, bool]:
    """Return the result of a callable and True, or any other value and False."""
    return (func(*args, **kwargs), True) if callable(func) else (func, False)


def value_or_from_dict(obj: Any, key: Hashable, default: Any = None) -> Any:
    """Return a setting, or its entry for a key if it is a dictionary.

    Args:
        obj: the value itself, or a dictionary in which the key ``""`` stands for all other names.
        key: the name.
        default: the value for a dictionary without either.
    """
    return obj.get(key, obj.get("", default)) if isinstance(obj, Mapping) else obj


def find_str_in_iterable(name: str, seq: Iterable[str], index: int | None = None) -> str | None:
    """Return the text of a sequence that matches a name; None if there is none.

    It is the equal text, else the first one that contains the name or is contained in it, ignoring
    case, else the one at position `index`, else None.
    """
    texts = list(seq)
    if name in texts:
        return name
    lowered = name.lower()
    for text in texts:
        if lowered in text.lower() or text.lower() in lowered:
            return text
    return texts[index] if index is not None and 0 <= index < len(texts) else None


def match_keys(keys: Iterable[str], targets: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the matching key of each target, by target, and the keys without a match.
    A key is a name or a pattern. An equal key has priority over patterns.
    """
    matches: dict[str, str] = {}
    idle = []
    for key in sorted(keys, key=contains_wildcard):
        matched = [target for target in targets if target == key or fnmatchcase(target, key)]
        if not matched:
            idle.append(key)
        for target in matched:
            matches.setdefault(target, key)
    return matches, idle


def check_sequence_contains(
    sequence: Iterable[Any],
    items: Iterable[Any],
    name: str | None = None,
    items_name: str | None = None,
    log_func: Callable[[str], Any] | None = None,
    check_missing: bool | None = None,
    check_extra: bool | None = None,
) -> None:
    """Report if a sequence lacks some items, or contains others.

    Args:
        sequence: the sequence to check.
        items: the expected items.
        name: name of the sequence.
        items_name: the name of its elements.
        log_func: called with each complaint (default: raise it).
        check_missing: whether missing items are reported (default: True).
        check_extra: whether additional elements are reported (default: True).

    Raises:
        UsageError: there is a complaint, and no `log_func`.
    """
    present, wanted = unique_list(sequence), unique_list(items)
    name_alone, where = items_name or "items", name or "the sequence"
    missing = [item for item in wanted if item not in present] if check_missing is not False else []
    extra = [item for item in present if item not in wanted] if check_extra is not False else []
    for text, wrong in (("not found", missing), ("not expected", extra)):
        if not wrong:
            continue
        message = f"These {name_alone} were {text} in {where}: {wrong}. It contains: {present}."
        if log_func is None:
            raise UsageError(message)
        log_func(message)


Function = TypeVar("Function", bound=Callable[..., Any])


class TempAttrChange:
    """Sets attributes of an object inside a `with` block, and restores them at its end."""

    def __init__(self, arg_group: Any, attr_values: Mapping[str, Any]) -> None:
        """Set the object and the temporary values of its attributes."""
        self._owner = arg_group
        self._values = attr_values

    def __enter__(self) -> None:
        """Set the temporary values."""
        self._before = {name: getattr(self._owner, name) for name in self._values}
        self._set(self._values)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Restore the values."""
        self._set(self._before)

    def _set(self, values: Mapping[str, Any]) -> None:
        """Set attributes of the owner."""
        for name, value in values.items():
            setattr(self._owner, name, value)


def getattr_nested(obj: Any, attr: str) -> Any:
    """Return a nested attribute: ``a.b.c`` for the name ``b.c``."""
    for name in attr.split("."):
        obj = getattr(obj, name)
    return obj


def try_getattr(obj: Any, attr: str, default: Any = None) -> Any:
    """Return an attribute, or `default` if there is none."""
    return getattr(obj, attr, default)


def check_called_by(expected_caller_name: str) -> Callable[[Function], Function]:
    """Return a decorator that warns if a function is called by any but the one of this name."""

    def decorate(function: Function) -> Function:
        """Return the function with the check."""

        @wraps(function)
        def check_and_call(*args: Any, **kwargs: Any) -> Any:
            """Return the result of the function; warn if another function calls it."""
            if sys._getframe(1).f_code.co_name != expected_caller_name:
                G_LOGGER.warning(
                    f"Calling '{function.__name__}()' directly is not recommended. Use"
                    f" '{expected_caller_name}()' instead."
                )
            return function(*args, **kwargs)

        return check_and_call  # type: ignore[return-value]

    return decorate


def indent_block(block: Any, level: int = 1) -> str:
    """Return an object as text with each line indented by `level` times four spaces."""
    return "\n".join(TAB * level + line for line in str(block).split("\n"))


def is_nan(obj: Any) -> bool:
    """Return whether an object is a `float` that is NaN."""
    return isinstance(obj, float) and math.isnan(obj)


def is_inf(obj: Any) -> bool:
    """Return whether an object is a `float` that is infinite."""
    return isinstance(obj, float) and math.isinf(obj)


def make_repr(type_str: str, *args: Any, **kwargs: Any) -> tuple[str, bool, bool]:
    """Return a call's source text, whether all arguments are None, and whether all named are.
    The call creates an object.

    Args:
        type_str: the type of the called object.
        args: its arguments by position.
        kwargs: its named arguments; None is omitted.

    Returns:
        The text, whether all of `args` are None, and whether all of `kwargs` are.
    """
    values = {name: value for name, value in kwargs.items() if value is not None}
    texts = [_as_source(value) for value in args]
    texts += [f"{name}={_as_source(value)}" for name, value in values.items()]
    return f"{type_str}({', '.join(texts)})", all(argument is None for argument in args), not values


def _as_source(value: Any) -> str:
    """Return the `repr` of a value, with calls for floats without a literal."""
    if is_nan(value) or is_inf(value):
        return f"float('{value}')"
    if type(value) in (list, tuple):
        inner = ", ".join(map(_as_source, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if type(value) is dict:
        pairs = (f"{_as_source(key)}: {_as_source(value)}" for key, value in value.items())
        return f"{{{', '.join(pairs)}}}"
    return repr(value)


def str_from_layer(
    prefix: str,
    index: int,
    name: str,
    op: str,
    input_names: Sequence[str],
    input_meta: TensorMetadata,
    output_names: Sequence[str],
    output_meta: TensorMetadata,
) -> str:
    """Return the description of a layer as text that ends with a line feed.

    Args:
        prefix: the word for a layer, such as ``Node``.
        index: its index in the model.
        name: the name of the layer.
        op: the type of the layer.
        input_names: the names of its inputs.
        input_meta: the metadata of its inputs.
        output_names: the names of its outputs.
        output_meta: the metadata of its outputs.
    """
    inputs, outputs = _tensors(input_names, input_meta), _tensors(output_names, output_meta)
    arrow = f"\n{TAB} -> " if "\n" in inputs else " -> "
    return f"{prefix} {index:<4} | {name} [Op: {op}]\n{indent_block(inputs)}{arrow}{outputs}\n"


def _tensors(names: Sequence[str], metadata: TensorMetadata) -> str:
    """Return the metadata of named tensors as text."""
    from polygraphy.domain.tensors.metadata import TensorMetadata

    return str(TensorMetadata((name, metadata[name]) for name in names))


def try_send_on_queue(queue: Any, obj: Any) -> None:
    """Put an object into a queue; log a warning if that fails."""
    try:
        queue.put(obj)
    except Exception as error:  # Anything can fail between two processes.
        G_LOGGER.warning(f"Could not send on the queue: {type(error).__name__}: {error}")


def try_receive_on_queue(queue: Any, timeout: float | None = None) -> Any:
    """Return the next object of a queue; None, with a warning, if that fails.

    Args:
        queue: the queue.
        timeout: the number of seconds to wait (default: no limit).
    """
    try:
        return queue.get(block=True, timeout=timeout)
    except Exception as error:  # Anything can fail between two processes.
        G_LOGGER.warning(f"Could not receive on the queue: {type(error).__name__}: {error}")
        return None


def override_dynamic_shape(shape: Shape, default_shape_value: int | None = None) -> list[int]:
    """Return a shape with every dynamic dimension replaced by a number (default: 1)."""
    number = 1 if default_shape_value is None else default_shape_value
    return list(shapes.override_dynamic_shape(shape, number))


def is_valid_shape_override(new_shape: Shape, original_shape: Shape | None) -> bool:
    """Return whether a shape can replace another: of the same rank, and equal except in dimensions
    that are dynamic in the other.
    """
    return shapes.fits(new_shape, original_shape)  # type: ignore[arg-type]


def is_empty_shape(shape: Shape) -> bool:
    """Return whether arrays of a shape have no elements, for any size of its dynamic dimensions."""
    return any(dim == 0 for dim in shape)


def try_match_shape(arr: Any, shape: Shape) -> Any:
    """Return an array in another shape: transposed if that fits, else reshaped.
    It is unchanged if the number of elements differs.
    """
    # Imported here, because the other functions do not need NumPy.
    from polygraphy.domain.data.loading import fit_shape

    fitted = fit_shape(arr, shape)
    if fitted is None or fitted is arr:
        return arr
    G_LOGGER.info(f"Reshaped an array from {tuple(arr.shape)} to {tuple(fitted.shape)}.")
    return fitted


class NamedTemporaryFile:
    """A temporary file that is deleted at the end of its `with` block, and can be opened by name
    until then.

    Attributes:
        name: its path.
    """

    def __init__(
        self, mode: str | None = None, prefix: str | None = None, suffix: str | None = None
    ) -> None:
        """Create the file; `mode` is that of the stream (default: ``wb+``)."""
        self._stream: IO[Any] = tempfile.NamedTemporaryFile(  # noqa: SIM115
            mode or "wb+", prefix=prefix, suffix=suffix, delete=False
        )
        self.name = self._stream.name

    def __enter__(self) -> NamedTemporaryFile:
        """Return the file, which is deleted at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close and delete the file."""
        self._stream.close()
        Path(self.name).unlink(missing_ok=True)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream."""
        return getattr(self._stream, name)


class LockFile:
    """Holds a lock on a path inside a `with` block, against other processes and threads. The lock
    is a file next to the path, with ``.lock`` appended."""

    def __init__(self, path: str | Path) -> None:
        """Create a lock for a path."""
        from filelock import FileLock

        self._lock = FileLock(f"{ensure_parent(path)}.lock")

    def __enter__(self) -> None:
        """Wait until no other process holds the lock, and acquire it."""
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the lock."""
        self._lock.release()


def load_file(src: str | Path | IO[Any], mode: str = "rb", description: str | None = None) -> Any:
    """Return the contents of a file or a stream.

    Args:
        src: a path, or a stream, which is read from its beginning if it can be.
        mode: ``rb`` for bytes, ``r`` for text.
        description: its contents, for the log.

    Raises:
        FileError: the file is missing or cannot be read.
    """
    if not isinstance(src, (str, Path)):
        if src.seekable():
            src.seek(0)
        return src.read()
    if description is not None:
        G_LOGGER.progress(f"Loading {description} from {src}")
    path = readable_file(src, may_be_empty=True)
    with translate_os_errors(path, "read"):
        return path.read_bytes() if "b" in mode else path.read_text(encoding="utf-8")


def save_file(
    contents: Any, dest: str | Path | IO[Any], mode: str = "wb", description: str | None = None
) -> Any:
    """Write bytes or text, and return the destination.

    Args:
        contents: the contents to write.
        dest: a path, whose file is written completely or not at all, or a stream; an existing empty
            file is filled in place.
        mode: ``wb`` for bytes, ``w`` for text.
        description: its description, for the log.

    Raises:
        FileError: the file cannot be written.
    """
    if not isinstance(dest, (str, Path)):
        dest.write(contents)
        dest.flush()
        return dest
    if description is not None:
        G_LOGGER.info(f"Saving {description} to {dest}")
    with atomic_file(dest, mode) as stream:
        stream.write(contents)
    return dest


def find_in_dirs(name_glob: str, dirs: Iterable[str | Path]) -> list[str]:
    """Return the paths below some folders, at any depth where the pattern says so (``**``), that
    match a pattern; in order, folder by folder.
    """
    return [str(path) for folder in dirs for path in sorted(Path(folder).glob(name_glob))]


def makedirs(path: str | Path) -> None:
    """Create the parent folder of a path.

    Raises:
        FileError: it cannot be created.
    """
    ensure_parent(path)


def get_file_size(src: str | Path | IO[Any]) -> int:
    """Return the size of a file, or of the contents of a stream, in bytes.

    Raises:
        FileError: the file does not exist.
    """
    if isinstance(src, (str, Path)):
        with translate_os_errors(src, "look at"):
            return Path(src).stat().st_size
    position = src.tell()
    size = src.seek(0, 2)
    src.seek(position)
    return size


def add_file_suffix(path: str, suffix: str) -> str:
    """Return a path with text inserted before its extension:
    ``a_1.onnx`` for ``a.onnx`` and ``_1``.
    """
    parsed = Path(path)
    return str(parsed.with_name(f"{parsed.stem}{suffix}{parsed.suffix}"))


def sanitize_filename(path: str) -> str:
    """Return a text as a file name that is valid on any system: invalid characters become ``_``."""
    name = re.sub(r'[\x00-\x1f<>:"/\\|?*]', "_", path).rstrip(". ")
    return name or "_"
