"""Functions that older versions had here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygraphy import mod
from polygraphy.legacy.helpers import (
    find_str_in_iterable,
    is_shape_dynamic,
    is_valid_shape_override,
    override_dynamic_shape,
)

__all__ = [
    "default_value",
    "find_in_dict",
    "is_shape_dynamic",
    "is_valid_shape_override",
    "override_dynamic_shape",
]


@mod.deprecate("2.0", "util.default")
def default_value(value: Any, default: Any) -> Any:
    """Return the value, or `default` if it is None."""
    return default if value is None else value


@mod.deprecate("2.0", "util.find_str_in_iterable")
def find_in_dict(name: str, mapping: Mapping[str, Any], index: int | None = None) -> str | None:
    """Return the key of a dictionary that matches a name; None if none does.
    See `util.find_str_in_iterable`.
    """
    return find_str_in_iterable(name, mapping, index)
