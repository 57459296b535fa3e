"""Values as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import attrs

from polygraphy.domain.tensors.metadata import MetadataTuple


def plain(value: Any) -> Any:
    """Return a value as JSON has it: objects become dictionaries of their fields, and NaN and
    infinities texts: ``nan``, ``inf``, ``-inf``.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, MetadataTuple):
        dtype, shape = value
        return {"dtype": plain(None if dtype is None else str(dtype)), "shape": plain(shape)}
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        return {one.name: plain(getattr(value, one.name)) for one in fields}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return plain(value.value)
    tolist: Callable[[], Any] | None = getattr(value, "tolist", None)
    return str(value) if tolist is None else plain(tolist())
