"""Matches of plugins as YAML, one document per plugin, as NVIDIA's Polygraphy 0.53 has them::

name: toyPlugin
op: CustomToy
instances:
- inputs: [X, W]
  outputs: [Y]
  attributes:
    k: 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polygraphy import mod
from polygraphy.adapters.os.paths import atomic_file, translate_os_errors
from polygraphy.domain.errors import FileError, MissingFileError
from polygraphy.domain.model.plugins import PluginInstance, PluginMatch

_WRITER = "Create one with polygraphy plugin match."

yaml = mod.lazy_import("yaml")


def read_matches(path: str) -> list[PluginMatch]:
    """Return the plugin matches in a file.

    Raises:
        FileError: it does not exist, is not YAML, or a document is incomplete.
    """
    file = Path(path)
    if not file.exists():
        raise MissingFileError(f"{path} does not exist.", path=path, hint=_WRITER)
    with translate_os_errors(path, "read"):
        content = file.read_bytes()
    try:
        documents = list(yaml.safe_load_all(content))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise FileError(f"{path} is not a YAML file: {reason}.", path=path) from error
    return [
        _parse_match(document, f"{path}: plugin {number}")
        for number, document in enumerate(documents, 1)
        if document is not None
    ]


def write_matches(path: str, matches: Sequence[PluginMatch]) -> None:
    """Write a file, completely or not at all."""
    documents = [
        {
            "name": match.name,
            "op": match.op,
            "instances": [
                {
                    "inputs": list(instance.inputs),
                    "outputs": list(instance.outputs),
                    "attributes": dict(instance.attributes),
                }
                for instance in match.instances
            ],
        }
        for match in matches
    ]
    text: str = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)
    with atomic_file(path) as stream:
        stream.write((text if documents else "").encode("utf-8", "backslashreplace"))


def _parse_match(document: Any, where: str) -> PluginMatch:
    """Return the plugin match that a YAML document describes.
    Raise ContentError if it is invalid."""
    _require(isinstance(document, Mapping), f"{where} is not a mapping with name, op and instances")
    for key in ("name", "op"):
        _require(isinstance(document.get(key), str), f"{where} has no string under {key!r}")
    listed = document.get("instances")
    _require(isinstance(listed, list), f"{where} has no list under 'instances'")
    instances = tuple(
        _parse_instance(entry, f"{where}, instance {number}")
        for number, entry in enumerate(listed, 1)
    )
    return PluginMatch(document["name"], document["op"], instances)


def _parse_instance(document: Any, where: str) -> PluginInstance:
    """Return the plugin instance that a YAML document describes.
    Raise ContentError if it is invalid.
    """
    _require(isinstance(document, Mapping), f"{where} is not a mapping with inputs and outputs")
    names = {}
    for key in ("inputs", "outputs"):
        listed = document.get(key)
        is_list = isinstance(listed, list) and all(isinstance(name, str) for name in listed)
        _require(is_list, f"{where} has no list of names under {key!r}")
        names[key] = tuple(listed)
    attributes = document.get("attributes") or {}
    _require(isinstance(attributes, Mapping), f"{where} has no mapping under 'attributes'")
    return PluginInstance(names["inputs"], names["outputs"], dict(attributes))


def _require(is_right: bool, message: str) -> None:
    """Raise FileError with a message unless a condition is true."""
    if not is_right:
        raise FileError(f"{message}.", hint=_WRITER)
