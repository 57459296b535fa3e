"""Common parts in the names of a state and of its successor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ENDS_IN_N = re.compile(r"^(h|c|state|hidden|cell|s|r\d?)n$")
_DIRECTIONS = frozenset(
    {"present", "past", "new", "next", "out", "output", "in", "input", "prev", "previous",
     "updated", "cur", "current", "init", "initial", "last", "o", "i", "n"}
)  # fmt: skip
"""Words that say which side of a step a tensor is on."""
_CACHE = frozenset({"past", "present", "cache", "caches", "state", "states", "hidden", "memory"})
"""Words that say that a tensor is a state, without which a number alone is no name."""
_KINDS = frozenset({"key", "keys", "value", "values", "k", "v", "cell", "conv", "recurrent"})
_SHORT = {"keys": "key", "k": "key", "v": "value", "states": "state", "caches": "cache"}


def words_of(name: str) -> list[str]:
    """Return the words of a name, in lower case."""
    words = [word.lower() for word in _WORD.findall(name)]
    return [match[1] if (match := _ENDS_IN_N.match(word)) else word for word in words]


def is_state_like(name: str) -> bool:
    """Return whether a name suggests a state."""
    words = words_of(name)
    return not _CACHE.isdisjoint(words) or words[:1] in (["h"], ["c"])


@lru_cache(maxsize=4096)
def is_cross_attention(name: str) -> bool:
    """Return whether a name suggests an encoder's (cross-attention) state, which never changes."""
    return not {"encoder", "cross", "enc"}.isdisjoint(words_of(name))


def stem_of(name: str) -> tuple[str, ...]:
    """Return the parts of a name without words for input or output; empty if nothing is left."""
    words = words_of(name)
    is_cache = not _CACHE.isdisjoint(words)
    text = " ".join(words).replace("key values", "past").replace("key value", "past")
    stem = [_SHORT.get(word, word) for word in text.split() if word not in _DIRECTIONS]
    if is_cache and any(word in _KINDS for word in stem):
        stem = [word for word in stem if word not in ("cache", "state")]
    if len(stem) > 1 and stem[-1] == "0" and stem[0] in ("h", "c"):
        stem = stem[:-1]  # PyTorch calls the states h0 before, and hn after the step.
    if all(word.isdigit() for word in stem) and not is_cache:
        return ()
    if stem:
        return tuple(stem)
    return ("state",) if is_cache else ()


def pairs_by_name(outputs: Sequence[str], inputs: Sequence[str]) -> dict[str, str]:
    """Return, by output, the input that continues it, from names alone.
    Ambiguous names are skipped.
    """
    by_stem: dict[tuple[str, ...], list[str]] = {}
    for name in inputs:
        by_stem.setdefault(stem_of(name), []).append(name)
    stems = [stem_of(name) for name in outputs]
    pairs = {}
    for name, stem in zip(outputs, stems):
        partners = by_stem.get(stem, [])
        if stem and len(partners) == 1 and stems.count(stem) == 1:
            pairs[name] = partners[0]
    return pairs


def pairs_by_config(
    config: object, outputs: Sequence[str], inputs: Sequence[str]
) -> dict[str, str]:
    """Return the input that each output becomes according to a `genai_config.json`:
    patterns such as ``past_key_values.%d.key``.

    Args:
        config: the file as JSON has it; of anything else nothing follows.
        outputs: the outputs of the model.
        inputs: its inputs.
    """
    pairs: dict[str, str] = {}
    parts = config.get("model") if isinstance(config, Mapping) else None
    for part in parts.values() if isinstance(parts, Mapping) else ():
        if not isinstance(part, Mapping):
            continue
        past, present = part.get("inputs"), part.get("outputs")
        if not (isinstance(past, Mapping) and isinstance(present, Mapping)):
            continue
        for key, pattern in past.items():
            other_value = present.get(str(key).replace("past", "present"))
            if "past" in str(key) and isinstance(pattern, str) and isinstance(other_value, str):
                for index in range(len(inputs) if "%d" in pattern else 1):
                    old, new = pattern.replace("%d", f"{index}"), other_value.replace(
                        "%d", f"{index}"
                    )
                    if old in inputs and new in outputs:
                        pairs[new] = old
    return pairs
