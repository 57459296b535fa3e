"""The names that recorded versions of TensorRT have, and modules that have those names only."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace

__all__ = ["VERSIONS", "keywords_of", "named_module", "names_of"]

_TABLE = json.loads(
    (Path(__file__).parents[1] / "data" / "tensorrt_names.json").read_text(encoding="utf-8")
)
VERSIONS: list[str] = _TABLE["versions"]
"""8.6, 10.0, 10.16, 11.4, and TensorRT-RTX 1.7."""


def names_of(version: str) -> set[str]:
    """Return the names in a version: classes, ``Class.member`` and ``Enum.VALUE``."""
    index = VERSIONS.index(version)
    return {name for name, has in _TABLE["names"].items() if has[index] == "1"}


def keywords_of(version: str) -> set[str]:
    """Return the keywords of functions in a version, as ``Class.member(keyword)``.

    These are the functions that the adapter calls with keywords.
    """
    index = VERSIONS.index(version)
    return {name for name, has in _TABLE["keywords"].items() if has[index] == "1"}


def named_module(version: str) -> ModuleType:
    """Return a module with the names of a version, without behavior."""
    is_rtx = version.startswith("rtx-")
    module = ModuleType("tensorrt_rtx" if is_rtx else "tensorrt")
    module.__version__ = version.removeprefix("rtx-")  # type: ignore[attr-defined]
    for name in sorted(names_of(version)):
        owner, _, member = name.partition(".")
        if not member:
            setattr(module, owner, SimpleNamespace(__members__={}))
            continue
        holder = getattr(module, owner)
        value = SimpleNamespace(name=member)
        setattr(holder, member, value)
        holder.__members__[member] = value
    return module
