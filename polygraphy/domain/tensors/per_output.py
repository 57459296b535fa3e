"""One value for all outputs, or one for each.

Wherever a setting may differ from output to output it is either the value itself or a dictionary
from names to values, in which the key ``""`` stands for every output that is not named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, Union, cast

T = TypeVar("T")
PerOutput = Union[T, Mapping[str, T]]


def kept_setting(setting: T) -> T:
    """Return a setting as it is now, whatever becomes of the dictionary or list that it is."""
    if isinstance(setting, Mapping):
        return cast("T", {name: kept_setting(value) for name, value in setting.items()})
    return cast("T", list(setting)) if isinstance(setting, list) else setting


def value_for(setting: PerOutput[T] | None, name: str, default: T) -> T:
    """Return the value of `setting` for the output `name`; `default` when it has none."""
    if setting is None:
        return default
    if isinstance(setting, Mapping):
        return cast("T", setting.get(name, setting.get("", default)))
    return setting
