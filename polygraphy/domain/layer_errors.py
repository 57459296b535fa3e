"""How each output of a model fared, in the order in which the model computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from attrs import frozen

from polygraphy.domain.compare.result import ComparedTensor, CompareResult

__all__ = ["LayerError", "first_failure", "layer_errors"]

Iterations = Sequence[Mapping[str, Any]]


@frozen
class LayerError:
    """What was found about one output in all iterations.

    Attributes:
        name: of the output.
        dtypes: its data types on both sides, each once; empty where they are not known.
        shapes: its shapes, likewise.
        absolute: the largest absolute difference, in the output's own unit; None where there is
            none, NaN where one is.
        relative: the largest relative difference, likewise.
        passed: whether it passed in every iteration.
    """

    name: str
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    absolute: float | None
    relative: float | None
    passed: bool


def layer_errors(iterations: Iterations) -> list[LayerError]:
    """Sum up the answers about two runs: one mapping from output names to answers per iteration."""
    names = dict.fromkeys(name for answers in iterations for name in answers)
    return [
        _summed_up(name, [answers[name] for answers in iterations if name in answers])
        for name in names
    ]


def first_failure(iterations: Iterations) -> tuple[int, str] | None:
    """Return the iteration and the name of the first output that fails; None when all passed."""
    for index, answers in enumerate(iterations):
        for name, answer in answers.items():
            if not answer:
                return index, name
    return None


def _summed_up(name: str, answers: Sequence[Any]) -> LayerError:
    tensors: list[ComparedTensor] = []
    if isinstance(answers[0], CompareResult):
        both = (answers[0].tensor0, answers[0].tensor1)
        tensors = [tensor for tensor in both if tensor is not None]
    return LayerError(
        name,
        dtypes=tuple(dict.fromkeys(tensor.dtype for tensor in tensors)),
        shapes=tuple(dict.fromkeys(tensor.shape for tensor in tensors)),
        absolute=_largest([getattr(answer, "max_absdiff", None) for answer in answers]),
        relative=_largest([getattr(answer, "max_reldiff", None) for answer in answers]),
        passed=all(answers),
    )


def _largest(values: Sequence[float | None]) -> float | None:
    """Return the largest of some metrics; NaN counts as larger than any number."""
    known = [value for value in values if value is not None]
    return max(known, key=lambda value: (isnan(value), value), default=None)
