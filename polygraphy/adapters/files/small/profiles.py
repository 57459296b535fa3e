"""Execution profiles on disk: our JSON, and those of other tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs

from polygraphy.adapters.os.paths import (
    atomic_file,
    check_size,
    readable_file,
    translate_os_errors,
)
from polygraphy.binding import resolve
from polygraphy.domain.errors import FileError
from polygraphy.domain.profiling.execution import (
    ExecutedNode,
    ExecutionProfile,
    ModelNodes,
    profile_node,
    settings_of,
)
from polygraphy.ports.running import read_backend_profile

_FORMAT = "polygraphy execution profile"
_VERSION = 1
_HEAD = 1 << 18
"""Characters that tell the format: the log of benchmark_app begins with other lines."""
_MOST_BYTES = 1 << 26
"""Largest size of a saved profile; 50 runs of 20,000 nodes take 10 MB."""
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


def save_profiles(profiles: Sequence[ExecutionProfile], path: str) -> None:
    """Write profiles as JSON; a model of several profiles is written once."""
    models: list[ModelNodes] = []
    entries = []
    for profile in profiles:
        if profile.model is not None and profile.model not in models:
            models.append(profile.model)
        entry = attrs.asdict(attrs.evolve(profile, model=None))
        entry["model"] = None if profile.model is None else models.index(profile.model)
        entries.append(entry)
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "models": [_encode_model(model) for model in models],
        "profiles": entries,
    }
    with atomic_file(path, "w") as stream:
        json.dump(document, stream)


def load_profiles(path: str, layers: str | None = None) -> list[ExecutionProfile]:
    """Return the profiles in a file; see the port."""
    with (
        translate_os_errors(path, "read"),
        readable_file(path, "Profile").open(encoding="utf-8", errors="replace") as stream,
    ):
        head = stream.read(_HEAD)
    if layers is not None:
        readable_file(layers, "Layers")
    kind = _kind_of(head)
    if kind == "":
        return _load_profiles(path)
    if kind is None:
        raise FileError(
            f"{path} is not an execution profile.",
            path=path,
            hint="Use a file from run --save-profile, the profiler of ONNX Runtime,"
            " trtexec --exportProfile or benchmark_app -pc of OpenVINO.",
        )
    read: Any = resolve(cast("Any", read_backend_profile), kind)
    profiles: list[ExecutionProfile] = read(path, layers)
    return profiles


def _kind_of(head: str) -> str | None:
    """Return the backend that wrote a file with this start; "" for this package,
    None if unknown."""
    start = head.lstrip("\ufeff \t\r\n")
    if start.startswith("{"):
        if f'"{_FORMAT}"' in start:
            return ""
        return "openvino" if '"report_type"' in start and '"real_time"' in start else None
    if "layerType" in start:
        return "openvino"
    if start.startswith("["):
        if '"cat"' in start and '"ph"' in start:
            return "onnxrt"
        if '"timeMs"' in start or '"averageMs"' in start or '"count"' in start:
            return "trt"
        return None
    return None


def _load_profiles(path: str) -> list[ExecutionProfile]:
    """Return the profiles of a file; raise FileError if it is damaged."""
    with translate_os_errors(path, "read"):
        check_size(path, _MOST_BYTES, "Profile fewer runs, or fewer sets of input shapes.")
        text = readable_file(path, "Profile").read_bytes()
    try:
        document = json.loads(text)
        version = document["version"]
    except _DAMAGED as error:
        raise _damage_error(path) from error
    if version != _VERSION:
        raise FileError(
            f"{path} has version {version!r} of the format, but this Polygraphy reads version"
            f" {_VERSION}.",
            path=path,
            hint="Profile the model again with this version.",
        )
    try:
        models = [_decode_model(entry) for entry in document["models"]]
        profiles = [_decode_profile(entry, models) for entry in document["profiles"]]
        if not profiles:
            raise ValueError("no profile")
        return profiles
    except (*_DAMAGED, IndexError) as error:
        raise _damage_error(path) from error


def _damage_error(path: str) -> FileError:
    """Return the FileError for a damaged file."""
    return FileError(f"{path} is damaged or truncated.", path=path, hint="Profile the model again.")


def _encode_model(model: ModelNodes) -> dict[str, Any]:
    """Return the JSON object for the nodes of a model."""
    nodes = [
        {
            "name": node.label,
            "op": node.operator,
            "reads": node.inputs,
            "makes": node.makes,
            "settings": settings_of(node),
        }
        for node in model.nodes
    ]
    return {**attrs.asdict(model, recurse=False), "nodes": nodes}


def _decode_model(entry: Mapping[str, Any]) -> ModelNodes:
    """Return the nodes of a model from a JSON object."""
    nodes = [
        profile_node(*(node[key] for key in ("name", "op", "reads", "makes", "settings")))
        for node in entry["nodes"]
    ]
    return ModelNodes(nodes, list(entry["inputs"]), list(entry["outputs"]), str(entry["path"]))


def _decode_profile(entry: Mapping[str, Any], models: Sequence[ModelNodes]) -> ExecutionProfile:
    """Return a profile from a JSON object and the models of the file."""
    fields = dict(entry)
    model = fields.pop("model")
    fields["nodes"] = [_decode_node(node) for node in fields["nodes"]]
    execution_profile = ExecutionProfile(model=None if model is None else models[model], **fields)
    sum(execution_profile.run_times), sum(
        execution_profile.plain_times
    ), execution_profile.node_time  # Raises an error if any of these is not a number.
    return execution_profile


def _decode_node(entry: Mapping[str, Any]) -> ExecutedNode:
    """Return an executed node from a JSON object."""
    fields = dict(entry)
    fields["inner"] = [_decode_node(entry) for entry in fields["inner"]]
    return ExecutedNode(**fields)
