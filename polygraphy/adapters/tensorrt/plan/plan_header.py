"""What the first bytes of a file say that is given as an engine.

TensorRT answers a file that is no plan with log lines about tags and archives, and some of its
versions read far before they find out. What a file is instead is plain from how it begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from polygraphy.domain.errors import ModelError

HEADER_SIZE = 64
"""How many bytes are looked at."""

_RTX_TAG = b"vtrt\0\0\0\0"
"""How plans of TensorRT-RTX begin; the size of the plan is in the eight bytes from 16."""
_SIZE = slice(16, 24)

_LFS = b"version https://git-lfs"
_TEXT = re.compile(rb"[\t\n\r -~]{16,}")
_ONNX = re.compile(rb"\x08[\x01-\x20][\x12\x1a\x22\x28\x32\x3a\x42]")

_IS: tuple[tuple[str, Callable[[bytes], object], str], ...] = (
    (
        "a pointer of Git LFS to the engine, which was not fetched",
        lambda head: head.startswith(_LFS),
        "Fetch it: git lfs pull.",
    ),
    (
        "an ONNX model",
        _ONNX.match,
        "Build it: polygraphy convert MODEL --convert-to trt, or run it with --model-type onnx.",
    ),
    (
        "a calibration cache",
        lambda head: head.startswith(b"TRT-"),
        "Use it in a build: --int8 --calibration-cache.",
    ),
    ("a zip archive", lambda head: head.startswith(b"PK\3\4"), ""),
    ("gzip data", lambda head: head.startswith(b"\x1f\x8b"), "Unpack it first."),
    ("an HDF5 file", lambda head: head.startswith(b"\x89HDF"), "Use --model-type keras."),
    (
        "a shared library",
        lambda head: head.startswith(b"\x7fELF"),
        "Plugins are loaded by --plugins.",
    ),
    (
        "nothing but zeros at its beginning",
        lambda head: len(head) > 7 and not any(head),
        "Copy it again.",
    ),
    ("text", _TEXT.fullmatch, ""),
)


def check_plan(head: bytes, size: int, path: str | Path | None = None) -> None:
    """Do nothing for what may be a plan; whether it is one, TensorRT knows.

    Args:
        head: the first `HEADER_SIZE` bytes.
        size: how many bytes there are in all.
        path: the file, for messages; None for memory.

    Raises:
        ModelError: it is something else, or the end of it is missing.
    """
    name = "The engine" if path is None else str(path)
    for kind, is_such, hint in _IS:
        if is_such(head):
            raise ModelError(f"{name} is no TensorRT engine: it is {kind}.", path=path, hint=hint)
    if head.startswith(_RTX_TAG) and len(head) >= _SIZE.stop:
        expected = int.from_bytes(head[_SIZE], "little")
        if size < expected:
            raise ModelError(
                f"{name} is truncated: it has {size} of {expected} bytes.",
                path=path,
                hint="Copy it again, or build it again.",
            )
