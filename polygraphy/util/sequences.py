"""Sequences, names and values that may be missing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.naming import is_pattern

__all__ = [
    "check_sequence_contains",
    "contains_wildcard",
    "default",
    "find_str_in_iterable",
    "invert_dict",
    "invoke_if_callable",
    "is_sequence",
    "match_keys",
    "unique_list",
    "unpack_args",
    "value_or_from_dict",
]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)
T = TypeVar("T")

contains_wildcard = is_pattern


def default(value: T | None, default: T) -> T:
    """Return `default` in place of None."""
    return default if value is None else value


def is_sequence(obj: Any) -> bool:
    """Return whether something is ordered and indexed, but no text: lists, tuples, arrays."""
    if isinstance(obj, (str, bytes, Mapping)):
        return False
    return hasattr(obj, "__iter__") and hasattr(obj, "__getitem__")


def unique_list(sequence: Iterable[K]) -> list[K]:
    """Return the elements of a sequence, each once, in order."""
    return list(dict.fromkeys(sequence))


def invert_dict(dct: Mapping[K, V]) -> dict[V, K]:
    """Return keys by values; where values repeat the last key counts."""
    return {value: key for key, value in dct.items()}


def unpack_args(args: Any, num: int) -> tuple[Any, ...]:
    """Return the first `num` of some values; None stands for each that there is not. What is no
    tuple counts as the first.
    """
    given = args if isinstance(args, tuple) else (args,)
    return (*given[:num], *[None] * (num - len(given)))


def invoke_if_callable(func: Any, *args: Any, **kwargs: Any) -> tuple[Any, bool]:
    """Return what a callable returns, and True; or a value itself, and False."""
    return (func(*args, **kwargs), True) if callable(func) else (func, False)


def value_or_from_dict(obj: Any, key: Hashable, default: Any = None) -> Any:
    """Return the value of a setting that may differ by name.

    Args:
        obj: the value itself, or a dictionary in which the key ``""`` stands for all other names.
        key: the name.
        default: what a dictionary without either is worth.
    """
    return obj.get(key, obj.get("", default)) if isinstance(obj, Mapping) else obj


def find_str_in_iterable(name: str, seq: Iterable[str], index: int | None = None) -> str | None:
    """Return the text of a sequence that a name means.

    That is the same text, else the first that contains the name or is contained in it, whatever
    the case, else the one at position `index`, else None.
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
    """Return, for each target that is matched, the key (a name or pattern) that does so, and the
    keys that match nothing. A key that is equal goes before one that is a pattern.
    """
    found: dict[str, str] = {}
    idle = []
    for key in sorted(keys, key=contains_wildcard):
        matched = [target for target in targets if target == key or fnmatchcase(target, key)]
        if not matched:
            idle.append(key)
        for target in matched:
            found.setdefault(target, key)
    return found, idle


def check_sequence_contains(
    sequence: Iterable[Any],
    items: Iterable[Any],
    name: str | None = None,
    items_name: str | None = None,
    log_func: Callable[[str], Any] | None = None,
    check_missing: bool | None = None,
    check_extra: bool | None = None,
) -> None:
    """Complain where a sequence lacks some items, or holds others.

    Args:
        sequence: what is looked at.
        items: what it should hold.
        name: what the sequence is called.
        items_name: what its elements are called.
        log_func: takes each complaint (default: it is raised).
        check_missing: whether items may lack; they may not unless this is False.
        check_extra: whether there may be others; there may not unless this is False.

    Raises:
        UsageError: there is a complaint, and no `log_func`.
    """
    held, wanted = unique_list(sequence), unique_list(items)
    what, where = items_name or "items", name or "the sequence"
    missing = [item for item in wanted if item not in held] if check_missing is not False else []
    extra = [item for item in held if item not in wanted] if check_extra is not False else []
    for text, wrong in (("not found", missing), ("not expected", extra)):
        if not wrong:
            continue
        message = f"These {what} were {text} in {where}: {wrong}. It holds: {held}."
        if log_func is None:
            raise UsageError(message)
        log_func(message)
