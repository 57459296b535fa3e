"""Sequences of maps to floats, as ZipMap computes them for classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polygraphy.domain.tensors import lazy_numpy as np
from polygraphy.domain.tensors.aliases import Array


def common_keys(*sides: Any) -> list[Any]:
    """Return the keys of sequences of maps to floats; empty unless all maps have the same keys."""
    if not all(isinstance(side, list) and side for side in sides):
        return []
    rows = [row for side in sides for row in side]
    if not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
        return []
    are_floats = all(isinstance(number, float) for row in rows for number in row.values())
    return list(rows[0]) if are_floats else []


def numbers_of_maps(maps: Sequence[Any], keys: Sequence[Any]) -> Array:
    """Return the numbers of maps as an array [maps, keys]; they are float32 in ONNX."""
    return np.array([[row[key] for key in keys] for row in maps], np.float32)


def as_array(output: Any) -> Array:
    """Return an output as an array: of maps, their numbers as [maps, keys]."""
    keys = common_keys(output)
    return numbers_of_maps(output, keys) if keys else np.asarray(output)
