"""The layers of an engine and their times, from the inspector, the profiler and trtexec."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from polygraphy.adapters.os.paths import check_size
from polygraphy.domain.errors import FileError
from polygraphy.domain.profiling.execution import DEVICE, ExecutedNode, ExecutionProfile

_ONNX_LAYER = re.compile(r"\[ONNX Layer: (.*?)\](?=[\s,;\x1e\x1f]*(?:\[|$))")
"""An ONNX layer in the metadata of an engine with detailed profiling verbosity."""
_REFORMAT = "Reformatting CopyNode"
"""Start of the names of the layers that TensorRT inserts to change a format. They are called after
the layer beside them, and may have its metadata.
"""
_RESHAPE = ("reshape_before_", "reshape_after_")
"""Start of the names of the layers that TensorRT inserts around a product that it computes as a
convolution, called after a node or a tensor.
"""
_OF_PROFILE = re.compile(r"\s*\[profile \d+\]$")
"""End of the names in an engine that has several optimization profiles."""
_UNNAMED = "node_of_"
"""Before the first output of an ONNX node without a name."""
_FOREIGN = re.compile(r"^\{?(?:ForeignNode|Myelin\w*)\[(.*)\]\}?$")
_RANGE = "..."
_POINTWISE = "PWN("
_SEPARATORS = (" + ", " || ", ", ")
_MICROSECONDS = 1e3
_MOST_BYTES = 1 << 26
"""Largest trtexec file; 20,000 layers with long names take 10 MB."""
_LEAST_TIMES = ("medianMs", "averageMs")


def layer_nodes(layers: Iterable[Any], times: Mapping[str, Sequence[float]]) -> list[ExecutedNode]:
    """Return the executed nodes of an engine.

    Args:
        layers: the layers from the inspector: dictionaries, or names if the engine was built
            without detailed profiling verbosity.
        times: microseconds by the name of a layer. Layers that the inspector does not list are at
            the end.
    """
    remaining_times = dict(times)
    nodes = []
    for layer in layers:
        node = _layer_node(layer)
        node_times = remaining_times.pop(node.name, None)
        if node_times is not None:
            nodes.append(evolve(node, times=list(node_times)))
        elif isinstance(layer, Mapping) and not times:
            nodes.append(node)
    nodes += [
        evolve(_layer_node(name), times=list(node_times))
        for name, node_times in remaining_times.items()
    ]
    return nodes


def _layer_node(layer: Any) -> ExecutedNode:
    """Return the executed node for a layer of an engine."""
    facts: Mapping[str, Any] = layer if isinstance(layer, Mapping) else {"Name": str(layer)}
    name = str(facts.get("Name", ""))
    is_reformat = name.startswith(_REFORMAT)
    origins: list[str] = []
    if not is_reformat:
        origins = _ONNX_LAYER.findall(str(facts.get("Metadata") or ""))
        origins = [spelling for origin in origins for spelling in _spellings(origin)] or [
            *origin_names(name)
        ]
    op = str(facts.get("LayerType") or "Layer")
    return ExecutedNode(
        name,
        "Reformat" if is_reformat or name.startswith(_RESHAPE) else op,
        reads=[*_tensor_names(facts.get("Inputs"))],
        makes=[*_tensor_names(facts.get("Outputs"))],
        kernel=str(facts.get("TacticName") or ""),
        origins=list(dict.fromkeys(origins)),
        clock=DEVICE,
    )


def _tensor_names(tensors: Any) -> Iterator[str]:
    """Yield the names of tensors in the JSON of a layer."""
    for entry in tensors if isinstance(tensors, list) else ():
        name = entry.get("Name") if isinstance(entry, Mapping) else entry
        if name:
            yield str(name)


def origin_names(name: str) -> Iterator[str]:
    """Yield the names of the model nodes in the name of a layer; for a range, both ends."""
    text = _OF_PROFILE.sub("", name.strip())
    foreign = _FOREIGN.match(text)
    if foreign is not None:
        for end in foreign[1].split(_RANGE):
            yield from origin_names(end)
        return
    if text.startswith(_POINTWISE) and text.endswith(")"):
        yield from origin_names(text[len(_POINTWISE) : -1])
        return
    for separator in _SEPARATORS:
        parts = split_outside(text, separator)
        if len(parts) > 1:
            for part in parts:
                yield from origin_names(part)
            return
    if text:
        yield from _spellings(text)
        if text.startswith("[") and "]" in text:
            yield text.partition("]")[2].strip()


def _spellings(name: str) -> Iterator[str]:
    """Yield a name, and the tensor by which TensorRT named an unnamed ONNX node."""
    yield name
    if name.startswith(_UNNAMED):
        yield name[len(_UNNAMED) :]


def split_outside(text: str, separator: str) -> list[str]:
    """Return the parts of a text between separators outside brackets."""
    parts, depth, start = [], 0, 0
    for at, name in enumerate(text):
        depth += (name in "([{") - (name in ")]}")
        if depth <= 0 and at >= start and text.startswith(separator, at):
            parts.append(text[start:at])
            start = at + len(separator)
    return [*parts, text[start:]]


def read_profile(path: str, layers: str | None) -> list[ExecutionProfile]:
    """Return the profile in a file of ``trtexec --exportProfile``,
    with the layers in one of ``--exportLayerInfo``; see the port.

    Raises:
        FileError: a file is damaged, or contains no layers.
    """
    rows = _read_json(path)
    times: dict[str, list[float]] = {}
    count = 0.0
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, Mapping):
            continue
        if "name" not in row:
            count = _as_float(row.get("count"), count)
            continue
        times.setdefault(str(row["name"]), [0.0])[0] += _time_of(row, count) * _MICROSECONDS
    if not times:
        raise FileError(
            f"{path} contains no layer times.",
            path=path,
            hint="Use a file from trtexec --exportProfile.",
        )
    notes = []
    if not count and not any(name in row for row in rows for name in _LEAST_TIMES):
        notes.append("The number of runs is unknown, so times are the sums of all runs.")
    document: Any = []
    if layers is None:
        notes.append(
            "Without --exportLayerInfo, layers are matched by name only. Pass that file with"
            " --layers."
        )
    else:
        information = _read_json(layers)
        document = information.get("Layers") if isinstance(information, Mapping) else None
        if not isinstance(document, list) or not document:
            raise FileError(
                f"{layers} contains no layers.",
                path=layers,
                hint="Use a file from trtexec --exportLayerInfo --profilingVerbosity=detailed.",
            )
        if not any(isinstance(layer, Mapping) for layer in document):
            notes.append("For tensors and kernels, add --profilingVerbosity=detailed to trtexec.")
    nodes = layer_nodes(document, times)
    missing = len(times.keys() - {node.name for node in nodes if node.reads or node.makes})
    if (
        layers is not None
        and missing == len(times)
        and any(isinstance(value, Mapping) for value in document)
    ):
        notes.append(f"{layers} does not list these layers: it belongs to a different engine.")
    runs = f"{count:.0f} runs" if count else ""
    setting = ", ".join(filter(None, ("TensorRT", runs)))
    return [ExecutionProfile(Path(path).name, nodes, "trt", setting, notes=notes)]


def _time_of(row: Mapping[str, Any], count: float) -> float:
    """Return the milliseconds of a layer in one run."""
    for name in _LEAST_TIMES:
        if (time := _as_float(row.get(name), -1.0)) >= 0:
            return time
    return _as_float(row.get("timeMs"), 0.0) / (count or 1.0)


def _as_float(value: Any, otherwise: float) -> float:
    """Return a number as a float; a default for other values."""
    is_number = isinstance(value, (int, float)) and math.isfinite(value)
    return float(value) if is_number else otherwise


def _read_json(path: str) -> Any:
    """Return the JSON of a file; raise FileError if it is damaged or cannot be read."""
    try:
        check_size(path, _MOST_BYTES, "Use the files that trtexec wrote for a single engine.")
        # Names of layers may contain control characters, which trtexec does not escape.
        return json.loads(Path(path).read_text(encoding="utf-8", errors="replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise FileError(
            f"{path} is damaged or truncated.", path=path, hint="Run trtexec again."
        ) from error
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}.", path=path) from error
