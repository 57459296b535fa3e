"""Which line of a program a node was exported from, where the exporter of PyTorch recorded it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.storage.parsing import text
from polygraphy.domain.model import Origin
from polygraphy.domain.tensors.naming import one_line

if TYPE_CHECKING:
    from onnx import NodeProto

_TRACE = "pkg.torch.onnx.stack_trace"
_SCOPES = "pkg.torch.onnx.name_scopes"
_IN_TRACE = re.compile(r'^ *File "(.+?)", line (\d+)', re.MULTILINE)
"""A frame of a Python traceback, of which the last one is the innermost."""
_IN_DOCUMENTATION = re.compile(r"^(.+?)\((\d+)\): ", re.MULTILINE)
"""A frame as the exporter writes it that traces TorchScript: the first one is the innermost."""
_OF_TORCH = re.compile(r"[/\\]torch[/\\](?:nn|jit|onnx|export|fx|utils|autograd|_)")
"""Frames in which PyTorch calls what the program consists of, or computes it."""
_LONGEST = 200
_MOST = 1 << 16
"""Characters of a record that are read."""


def origin_of(node: NodeProto) -> Origin | None:
    """Return where a node comes from; None where its model does not say."""
    records = {text(entry.key): text(entry.value) for entry in node.metadata_props}
    frames = _IN_TRACE.findall(records.get(_TRACE, "")[:_MOST])[::-1]
    frames = frames or _IN_DOCUMENTATION.findall(text(node.doc_string)[:_MOST])
    if not frames:
        return None
    path, line = next((each for each in frames if not _OF_TORCH.search(each[0])), frames[0])
    scope = _scope(records.get(_SCOPES, "")) or _scope_in(node.name)
    return Origin(one_line(path), int(line[:9]), one_line(scope)[:_LONGEST])


def _scope(record: str) -> str:
    """Return the innermost module of a list of scopes, whose last is the operation itself."""
    try:
        scopes = ast.literal_eval(record[:_MOST]) if record else []
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    if not isinstance(scopes, list):
        return ""
    return next((each for each in reversed(scopes[:-1]) if isinstance(each, str) and each), "")


def _scope_in(name: str) -> str:
    """Return the modules that a name such as ``/blocks.0/f/Gemm`` begins with."""
    return name.rpartition("/")[0].strip("/")
