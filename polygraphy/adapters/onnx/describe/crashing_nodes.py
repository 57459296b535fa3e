"""Nodes that would end the process in ONNX Runtime, and functions that it would expand without end,
found in the bytes of a model.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Union

from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

from polygraphy import mod
from polygraphy.adapters.onnx.graph.growth import check_expansion
from polygraphy.adapters.onnx.storage.parsing import (
    BYTES,
    DEEPEST,
    MODEL,
    NODE,
    PARTS,
    TENSOR,
    MalformedError,
    message_fields,
    names_pattern,
    translate_onnx_errors,
)
from polygraphy.adapters.onnx_common.inference import crashes_by_attribute
from polygraphy.adapters.onnx_common.messages import NUMBERED
from polygraphy.domain.errors import ModelError

onnx = mod.lazy_import("onnx")

Content = Union[mmap.mmap, bytes]

_OUTPUT, _NAME, _OP_TYPE = 2, 3, 4
_FUNCTIONS = 25
_NAMED = names_pattern(NUMBERED)
"""Only nodes in whose bytes one of these occurs are looked into."""
_NONE = "", ""


def crashing_node(model: str | Path | bytes) -> tuple[str, str]:
    """Return a phrase for the first node that crashes ONNX Runtime, and what to do.

    Such nodes are an If, Loop, Scan or Split that omits an output, or a Split into fewer parts
    than it has outputs. Both texts are empty if there is none, or if the model cannot be read,
    which loading reports better.

    Args:
        model: the path of a model, or its bytes.

    Raises:
        ModelError: the model has too many nodes after its functions are inlined.
    """
    functions: list[bytes] = []
    try:
        if isinstance(model, bytes):
            crashing = _find_in_message(model, 0, len(model), MODEL, 0)
            functions = _functions_of(model)
        else:
            with (
                Path(model).open("rb") as stream,
                mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            ):
                crashing = _find_in_message(mapped, 0, len(mapped), MODEL, 0)
                functions = _functions_of(mapped)
    except (OSError, ValueError, MalformedError, ModelError, IndexError):
        return _NONE
    if functions and crashing == _NONE:
        _check_functions(model, functions)
    return crashing


def _functions_of(content: Content) -> list[bytes]:
    """Return the serialized functions of a serialized model."""
    return [
        content[inner:after]
        for number, wire, _, inner, after in message_fields(content, 0, len(content))
        if wire == BYTES and number == _FUNCTIONS
    ]


def _check_functions(model: str | Path | bytes, functions: Sequence[bytes]) -> None:
    """Raise ModelError if a model has too many nodes after its functions are inlined.
    Its graph is read only if one call of each function would make too many."""
    library = onnx.ModelProto()
    try:
        library.functions.extend(map(onnx.FunctionProto.FromString, functions))
        for function in library.functions:
            library.graph.node.add(
                op_type=function.name, domain=function.domain, overload=function.overload
            )
        check_expansion(library)
    except DecodeError:
        return
    except ModelError:
        is_file = not isinstance(model, bytes)
        check_expansion(
            onnx.load(str(model), load_external_data=False)
            if is_file
            else onnx.load_from_string(model)
        )


def _find_in_message(
    content: Content, start: int, end: int, kind: int, depth: int
) -> tuple[str, str]:
    """Return phrase and advice for the first crashing node in a part of a serialized model.
    The result is empty without one.
    """
    if depth > DEEPEST:
        return _NONE
    for number, wire, _, inner, after in message_fields(content, start, end):
        part = PARTS[kind].get(number, TENSOR)
        if wire != BYTES or part == TENSOR:
            continue
        match = _NONE
        if part != NODE:
            match = _find_in_message(content, inner, after, part, depth + 1)
        elif _NAMED.search(content, inner, after):
            match = _find_in_node(content, inner, after, depth)
        if match != _NONE:
            return match
    return _NONE


def _find_in_node(content: Content, start: int, end: int, depth: int) -> tuple[str, str]:
    """Return phrase and advice if a serialized node or one inside it crashes, else two ""."""
    outputs, texts = [], {_NAME: "", _OP_TYPE: ""}
    for number, wire, _, inner, after in message_fields(content, start, end):
        if wire == BYTES and number == _OUTPUT:
            outputs.append(content[inner:after].decode("utf-8", "replace"))
        elif wire == BYTES and number in texts:
            texts[number] = content[inner:after].decode("utf-8", "replace")
    name = f"The {texts[_OP_TYPE]} node {texts[_NAME]!r}"
    if texts[_OP_TYPE] in NUMBERED and not all(outputs):
        return (
            f"{name} omits output {outputs.index('')} of {len(outputs)}",
            "Give that output a name, even if no node reads it.",
        )
    if texts[_OP_TYPE] == "Split" and _is_short(content[start:end]):
        return (
            f"{name} has {len(outputs)} outputs, but its attribute num_outputs is smaller",
            "Set num_outputs to the number of outputs.",
        )
    return _find_in_message(content, start, end, NODE, depth + 1)


def _is_short(content: bytes) -> bool:
    """Return whether a serialized Split has fewer parts than outputs.

    Raises:
        ModelError: it is damaged.
    """
    from onnx import NodeProto

    with translate_onnx_errors("A node cannot be read"):
        return crashes_by_attribute(NodeProto.FromString(content))
