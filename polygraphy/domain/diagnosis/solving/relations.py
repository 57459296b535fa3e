"""How saved outputs follow from computed ones: by an operator at the end of a model that is missing
or too many, by a factor, an offset or another order.

A relation names no node, but says where to look if nothing else than outputs is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from typing import Any

import numpy as np

from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.words import relations
from polygraphy.domain.tensors.precision import is_float

Array = np.ndarray[Any, Any]
_LEFT = 1e-5
"""What a relation may leave of a difference, as a share of the RMS. Chosen, not measured."""
_TELLING = 6
"""Fewest elements of which a factor and an offset prove a relation. Chosen, not measured."""
_LARGEST_RANK = 4
"""Axes of the largest tensors whose orders are tried."""


def _softmax(value: Array) -> Array:
    """Return the softmax along the last axis."""
    powers = np.exp(value - value.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


_OPERATORS: Mapping[str, Callable[[Array], Array]] = {
    "Softmax": _softmax,
    "LogSoftmax": lambda value: np.log(_softmax(value)),
    "Sigmoid": lambda value: 1 / (1 + np.exp(-value)),
    "Tanh": np.tanh,
    "Relu": lambda value: np.maximum(value, 0),
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Abs": np.abs,
    relations.L2: lambda value: value / np.sqrt(np.square(value).sum(axis=-1, keepdims=True)),
    relations.L1: lambda value: value / np.abs(value).sum(axis=-1, keepdims=True),
}
"""Operators that often end a model, and what they compute."""


def find_relation(name: str, value: Any, expected: Any) -> Fact | None:
    """Return how a saved output follows from the computed one; None if no simple relation holds.

    Args:
        name: the output.
        value: its computed value.
        expected: its saved value.
    """
    arrays = [np.asarray(array) for array in (value, expected)]
    if not all(map(is_float, arrays)) or arrays[0].size != arrays[1].size:
        return None
    if arrays[0].size < _TELLING:
        return None
    own, saved = (array.astype(np.float64) for array in arrays)
    if not (np.isfinite(own).all() and np.isfinite(saved).all()):
        return None
    with np.errstate(all="ignore"):
        return next(_relations(name, own, saved), None)


def _relations(name: str, own: Array, saved: Array) -> Iterator[Fact]:
    """Yield the relations that hold, the simplest first."""
    if own.shape == saved.shape:
        yield from _linear_relations(name, own, saved)
        for op, function in _OPERATORS.items():
            if own.ndim and _are_close(function(own), saved):
                yield relations.lacks_operator(name, op)
            elif own.ndim and _are_close(own, function(saved)):
                yield relations.has_extra_operator(name, op)
    yield from _orders(name, own, saved)


def _linear_relations(name: str, own: Array, saved: Array) -> Iterator[Fact]:
    """Yield an offset, a factor, or both."""
    if np.ptp(own) <= _LEFT * root_mean_square(own) or np.ptp(saved) <= _LEFT:
        return  # Constant outputs fit every offset.
    offset = float(np.mean(saved - own))
    if _are_close(own + offset, saved):
        yield relations.has_offset(name, offset)
        return
    factor = float(np.vdot(own, saved) / np.vdot(own, own))
    if _are_close(own * factor, saved):
        yield relations.has_factor(name, factor)
        return
    centered = own - own.mean()
    slope = float(np.vdot(centered, saved) / np.vdot(centered, centered))
    shift = float(np.mean(saved) - slope * np.mean(own))
    if _are_close(own * slope + shift, saved):
        yield relations.has_factor_and_offset(name, slope, shift)


def _orders(name: str, own: Array, saved: Array) -> Iterator[Fact]:
    """Yield the order of axes, or the reversed axis, with which the outputs are equal."""
    if not 1 <= own.ndim <= _LARGEST_RANK:
        return
    for order in permutations(range(own.ndim)):
        turned = np.transpose(own, order)
        if order != (*range(own.ndim),) and _are_close(turned, saved):
            yield relations.has_other_axes(name, order)
    for axis in range(own.ndim):
        if own.shape[axis] > 1 and _are_close(np.flip(own, axis), saved):
            yield relations.is_reversed(name, axis)


def _are_close(value: Array, expected: Array) -> bool:
    """Return whether an array equals the expected one up to rounding."""
    if value.shape != expected.shape or not np.isfinite(value).all():
        return False
    limit = _LEFT * max(root_mean_square(expected), 1e-30)
    return bool(np.max(np.abs(value - expected), initial=0.0) <= limit)
