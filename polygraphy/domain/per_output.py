"""One value for all outputs, or one for each.

Wherever a setting may differ from output to output it is either the value itself or a dictionary
from names to values, in which the key ``""`` stands for every output that is not named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, Union, cast

__all__ = ["PerOutput", "value_for"]

T = TypeVar("T")
PerOutput = Union[T, Mapping[str, T]]


def value_for(setting: PerOutput[T] | None, name: str, default: T) -> T:
    """Return the value of `setting` for the output `name`; `default` when it has none."""
    if setting is None:
        return default
    if isinstance(setting, Mapping):
        return cast("T", setting.get(name, setting.get("", default)))
    return setting
