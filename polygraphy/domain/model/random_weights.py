"""Numbers in place of weights that are not known."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from polygraphy.domain.tensors.datatype import DataTypeEntry

_INTEGERS = 8
"""Integers are drawn from below this magnitude, which every integer type of weights holds."""


def random_weight(shape: tuple[int, ...], dtype: DataTypeEntry, seed: int) -> np.ndarray[Any, Any]:
    """Return random numbers of a shape and a type.

    Floating-point numbers are normally distributed, and the larger the tensor is beside its first
    dimension, the smaller they are, so that sums over them stay in range.
    """
    random = np.random.default_rng(seed)
    if dtype.is_floating:
        scale = np.float32(1 / max(1.0, prod(shape[1:])) ** 0.5)
        made: np.ndarray[Any, Any] = random.standard_normal(shape, np.float32) * scale
        return made.astype(dtype.numpy())
    low = -_INTEGERS if not dtype.name.startswith(("u", "bool")) else 0
    high = 2 if dtype.name == "bool" else _INTEGERS
    return random.integers(low, high, shape).astype(dtype.numpy())
