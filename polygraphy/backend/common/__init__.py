"""Loaders that no backend owns."""

from polygraphy.adapters.common.bytes import (
    BytesFromPath,
    InvokeFromScript,
    SaveBytes,
    bytes_from_path,
    invoke_from_script,
    save_bytes,
)

__all__ = [
    "BytesFromPath",
    "InvokeFromScript",
    "SaveBytes",
    "bytes_from_path",
    "invoke_from_script",
    "save_bytes",
]
