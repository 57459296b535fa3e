"""Loaders that several backends use."""

from polygraphy.adapters.base.loader import (
    BytesFromPath,
    InvokeFromScript,
    SaveBytes,
    bytes_from_path,
    invoke_from_script,
    save_bytes,
)
from polygraphy.mod.deferred import defer_names

__all__ = [
    "BytesFromPath",
    "InvokeFromScript",
    "SaveBytes",
    "bytes_from_path",
    "invoke_from_script",
    "save_bytes",
]

__getattr__ = defer_names(globals(), submodules=("loader",))
