"""Finds nodes that leave out a numbered result, in the bytes of a model: ONNX Runtime crashes when
it runs one, and takes the process with it. The onnx package takes longer to import than most
models take to run, so it is not asked.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Union

from polygraphy.adapters.onnx.storage.wire import (
    BYTES,
    DEEPEST,
    MODEL,
    NODE,
    PARTS,
    TENSOR,
    MalformedError,
    fields,
    naming,
)
from polygraphy.adapters.onnx_common.omitted import NUMBERED

Content = Union[mmap.mmap, bytes]

_OUTPUT, _NAME, _OP_TYPE = 2, 3, 4
_NAMED = naming(NUMBERED)
"""Only nodes in whose bytes one of these occurs are looked into."""


def first_omission(model: str | Path | bytes) -> str:
    """Return which node of a model leaves out a numbered result; empty where none does, or where
    the model cannot be read, about which loading it says more.

    Args:
        model: the path of a model, or its bytes.
    """
    try:
        if isinstance(model, bytes):
            return _in_message(model, 0, len(model), MODEL, 0)
        with (
            Path(model).open("rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        ):
            return _in_message(mapped, 0, len(mapped), MODEL, 0)
    except (OSError, ValueError, MalformedError, IndexError):
        return ""


def _in_message(content: Content, start: int, end: int, kind: int, depth: int) -> str:
    if depth > DEEPEST:
        return ""
    for number, wire, _, inner, after in fields(content, start, end):
        part = PARTS[kind].get(number, TENSOR)
        if wire != BYTES or part == TENSOR:
            continue
        if part == NODE:
            found = _NAMED.search(content, inner, after) and _in_node(content, inner, after, depth)
        else:
            found = _in_message(content, inner, after, part, depth + 1)
        if found:
            return found
    return ""


def _in_node(content: Content, start: int, end: int, depth: int) -> str:
    outputs, texts = [], {_NAME: "", _OP_TYPE: ""}
    for number, wire, _, inner, after in fields(content, start, end):
        if wire == BYTES and number == _OUTPUT:
            outputs.append(content[inner:after].decode("utf-8", "replace"))
        elif wire == BYTES and number in texts:
            texts[number] = content[inner:after].decode("utf-8", "replace")
    if texts[_OP_TYPE] in NUMBERED and not all(outputs):
        return (
            f"The {texts[_OP_TYPE]} node {texts[_NAME]!r} leaves out result"
            f" {outputs.index('')} of {len(outputs)}"
        )
    return _in_message(content, start, end, NODE, depth + 1)
