"""Compares the codes that two backends compute, in quantization steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen


@frozen
class CodeTensor:
    """A tensor of quantized codes.

    Attributes:
        name: the tensor.
        node: the node that computes it; in front of a QuantizeLinear, the node before that.
        op: its operator.
        least: the smallest code.
        most: the largest code.
    """

    name: str
    node: str
    op: str
    least: float
    most: float


@frozen
class StepDifference:
    """The differences between the codes of a tensor in two backends.

    Attributes:
        tensor: the tensor.
        share: the share of elements that differ.
        steps: the largest difference, in quantization steps.
        index: the position of the first element with it.
        values: the codes there.
    """

    tensor: CodeTensor
    share: float
    steps: int
    index: tuple[int, ...]
    values: tuple[int, int]


def step_differences(
    tensors: Sequence[CodeTensor], codes: Mapping[str, Any], other_values: Mapping[str, Any]
) -> list[StepDifference]:
    """Return the tensors whose codes differ, in the order of the model."""
    differences = []
    for tensor in tensors:
        if tensor.name not in codes or tensor.name not in other_values:
            continue
        first, second = (np.asarray(values[tensor.name]) for values in (codes, other_values))
        if first.shape != second.shape or not first.size:
            continue
        apart = np.abs(first.astype(np.int64) - second.astype(np.int64))
        if apart.any():
            index = tuple(map(int, np.unravel_index(int(apart.argmax()), apart.shape)))
            values = int(first[index]), int(second[index])
            share = float(np.mean(apart > 0))
            differences.append(StepDifference(tensor, share, int(apart.max()), index, values))
    return differences
