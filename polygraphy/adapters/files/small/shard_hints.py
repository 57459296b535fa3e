"""Hints on how to split a model, as the JSON that NVIDIA's Polygraphy 0.53 has for them: objects
that name their class under ``polygraphy_class``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from polygraphy.adapters.os.paths import atomic_file, readable_file, translate_os_errors
from polygraphy.domain.errors import FileError
from polygraphy.domain.sharding import (
    CONTEXT,
    REDUCTIONS,
    TENSOR,
    AttentionLayer,
    Collectives,
    FusedAttention,
    ShardHints,
    ShardTensor,
)
from polygraphy.domain.tensors.naming import with_article

_CLASSES: dict[str, type] = {
    "AttentionLayerHint": AttentionLayer,
    "DistCollective": Collectives,
    "FusedAttention": FusedAttention,
    "ShardHints": ShardHints,
    "ShardTensor": ShardTensor,
}
_NAMES = {kind: name for name, kind in _CLASSES.items()}
_MARKER = "polygraphy_class"


def read_shard_hints(path: str) -> ShardHints:
    """Return the sharding hints in a file.

    Raises:
        FileError: it does not exist, is not JSON, or contains something else.
    """
    file = readable_file(path)
    with translate_os_errors(path, "read"):
        content = file.read_bytes()
    try:
        hints = _from_json(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise FileError(
            f"{path} contains no shard hints: {error}.",
            path=path,
            hint="Create one with polygraphy template shard-hints.",
        ) from error
    if not isinstance(hints, ShardHints):
        raise FileError(
            f"{path} contains {with_article(type(hints).__name__)} instead of shard hints.",
            path=path,
            hint="Create one with polygraphy template shard-hints.",
        )
    return hints


def write_shard_hints(path: str, hints: ShardHints) -> None:
    """Write a file, completely or not at all."""
    text = json.dumps(_to_json(hints), indent=4)
    with atomic_file(Path(path)) as stream:
        stream.write(f"{text}\n".encode())


def _to_json(value: Any) -> Any:
    """Return a hint as JSON values."""
    if type(value) in _NAMES:
        fields = attrs.fields(type(value))
        plain = {field.name: _to_json(getattr(value, field.name)) for field in fields}
        return {**plain, _MARKER: _NAMES[type(value)]}
    return [_to_json(item) for item in value] if isinstance(value, tuple) else value


def _from_json(plain: Any) -> Any:
    """Return the hint from JSON values; raise ValueError if they are invalid."""
    if isinstance(plain, list):
        return tuple(map(_from_json, plain))
    if not isinstance(plain, Mapping):
        return plain
    name = plain.get(_MARKER)
    if name not in _CLASSES:
        raise ValueError(f"the class {name!r} is unknown")
    names = {field.name for field in attrs.fields(_CLASSES[name])}
    jsons = {key: _from_json(entry) for key, entry in plain.items() if key != _MARKER}
    for key, entry in jsons.items():
        if key not in names:
            raise ValueError(f"{name} has no {key!r}")
        if not _CHECKS[key](entry):
            raise ValueError(f"{key!r} of {name} cannot be {entry!r}")
    if name in ("AttentionLayerHint", "ShardTensor") and not _NAMED[name] <= jsons.keys():
        raise ValueError(f"a {name} does not name a tensor")
    return _CLASSES[name](**jsons)


_NAMED = {"AttentionLayerHint": {"q"}, "ShardTensor": {"name"}}


def _is_integer(value: Any) -> bool:
    """Return whether a value is an integer, not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_boolean(value: Any) -> bool:
    """Return whether a value is a boolean."""
    return isinstance(value, bool)


def _is_string(value: Any) -> bool:
    """Return whether a value is a string."""
    return isinstance(value, str)


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check that also accepts None."""
    return lambda value: value is None or check(value)


def _tuple_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check for tuples whose elements pass a check."""
    return lambda value: isinstance(value, tuple) and all(map(check, value))


def _instance_of(kind: type) -> Callable[[Any], bool]:
    """Return a check for instances of a type."""
    return lambda value: isinstance(value, kind)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "attention_layers": _tuple_of(_instance_of(AttentionLayer)),
    "dist_collectives": _instance_of(Collectives),
    "gather_kv": _is_boolean,
    "gather_q": _is_boolean,
    "group_size": _is_integer,
    "groups": _tuple_of(_is_integer),
    "inputs": _tuple_of(_instance_of(ShardTensor)),
    "is_causal": _is_boolean,
    "k_seq_len_idx": _is_integer,
    "k_shuffle": _or_none(_tuple_of(_is_integer)),
    "kv_rank": _or_none(_is_integer),
    "name": _is_string,
    "nb_rank": _is_integer,
    "outputs": _tuple_of(_instance_of(ShardTensor)),
    "parallelism": lambda value: value in (CONTEXT, TENSOR),
    "q": _is_string,
    "q_shuffle": _or_none(_tuple_of(_is_integer)),
    "rank": _or_none(_is_integer),
    "reduce_op": lambda value: value in REDUCTIONS,
    "replace": _or_none(_instance_of(FusedAttention)),
    "root": _is_integer,
    "seq_len_idx": _is_integer,
    "v_seq_len_idx": _is_integer,
    "v_shuffle": _or_none(_tuple_of(_is_integer)),
}
