"""The loss from quantizing the operands of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.sizes import without_fills
from polygraphy.domain.tensors.precision import has_text

OUTPUT = -1
"""The position of an operand that no node reads: an output of the model."""
USUAL_LOSS = 0.15
"""Largest error from quantizing a model to eight bits, relative to the size of an output:
`decisions.md` measures 0.004 to 0.11."""


@frozen
class QuantizedOperand:
    """A tensor that is quantized before a node reads it, or before the model returns it.

    Attributes:
        node: the node, by its name, or that of what it makes; of an output, the one that makes it.
        position: the index of its operand; `OUTPUT` for an output.
        name: the tensor that it reads.
        step: does to an array what quantizing does to this; None where that is not known.
    """

    node: str
    position: int
    name: str
    step: Callable[[Any], Any] | None


def losses(operands: Iterable[QuantizedOperand], read: Callable[[str], Any]) -> dict[str, float]:
    """Return, by node, the largest relative RMS error that quantization causes in one of its
    inputs; infinite if unknown.

    Args:
        operands: the quantized sites.
        read: returns what an operand holds, by its name, where it is not quantized; None where that
            is not known.
    """
    losses_by_name: dict[str, float] = {}
    known_values: dict[str, float] = {}
    for operand in operands:
        if operand.name not in known_values:
            known_values[operand.name] = _loss(operand, read(operand.name))
        losses_by_name[operand.node] = max(
            losses_by_name.get(operand.node, 0.0), known_values[operand.name]
        )
    return losses_by_name


def find_other_selection(
    values: Mapping[str, Any], expected: Mapping[str, Any]
) -> tuple[str, int, int] | None:
    """Return the first output with another number of rows, and both numbers, or None.
    The result is None if there is none, or if shapes differ in more than one axis."""
    for name in (name for name in expected if name in values):
        shape, other_shape = np.shape(values[name]), np.shape(expected[name])
        if shape != other_shape and len(shape) == len(other_shape):
            axes = [at for at, pair in enumerate(zip(shape, other_shape)) if pair[0] != pair[1]]
            if len(axes) == 1:
                return name, shape[axes[0]], other_shape[axes[0]]
    return None


def rms_ratio(value: Any, reference: Any) -> float:
    """Return the RMS of the difference over the RMS of the reference, over finite elements that are
    no fill values. The result is infinite if shapes differ, only one has infinity or NaN, or
    strings differ.
    """
    if has_text(value) or has_text(reference):
        return 0.0 if np.array_equal(value, reference) else inf
    value, reference = np.asarray(value, np.float64), np.asarray(reference, np.float64)
    finite = np.isfinite(reference)
    if value.shape != reference.shape or not np.array_equal(np.isfinite(value), finite):
        return inf
    # A mask of -1e4 would hide that all other elements are lost.
    finite &= np.isfinite(without_fills(value, reference))
    size = root_mean_square(reference[finite])
    off = root_mean_square(value[finite] - reference[finite])
    return off / size if size else (inf if off else 0.0)


def _loss(quantized_operand: QuantizedOperand, array: Any) -> float:
    """Return the error of quantizing an array, relative to its RMS."""
    if array is None or quantized_operand.step is None:
        return inf
    size = root_mean_square(array)
    with np.errstate(all="ignore"):
        off = root_mean_square(np.asarray(quantized_operand.step(array), np.float64) - array)
    return off / size if size else float(off > 0)
