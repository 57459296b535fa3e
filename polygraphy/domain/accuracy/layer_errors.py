"""How each output of a model fared, in the order in which the model computes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from attrs import frozen

from polygraphy.domain.accuracy.output_rows import larger
from polygraphy.domain.compare.result import CompareResult

Iterations = Collection[Mapping[str, Any]]


@frozen
class LayerError:
    """What was found about one output in all iterations.

    Attributes:
        name: of the output.
        dtypes: its data types on both sides, each once; empty where they are not known.
        shapes: its shapes, by runner.
        absolute: the largest absolute difference, in the output's own unit; None where there is
            none, NaN where one is.
        relative: the largest relative difference.
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
    found: dict[str, _Found] = {}
    for answers in iterations:
        for name, answer in answers.items():
            if name not in found:
                found[name] = _Found(answer)
            found[name].add(answer)
    return [each.as_error(name) for name, each in found.items()]


class Failure(NamedTuple):
    """The first output that fails, in the order of iterations and outputs; `output` is None where
    an iteration was not compared at all.
    """

    iteration: int
    output: str | None


def first_failure(iterations: Iterations) -> Failure | None:
    """Return what fails first; None when every iteration passed."""
    for index, answers in enumerate(iterations):
        if not answers:
            return Failure(index, None)
        for name, answer in answers.items():
            if not answer:
                return Failure(index, name)
    return None


class _Found:
    """What was found about one output so far; the first iteration tells what it is."""

    __slots__ = ("absolute", "passed", "relative", "tensors")

    def __init__(self, first: Any) -> None:
        both = (first.tensor0, first.tensor1) if isinstance(first, CompareResult) else ()
        self.tensors = [tensor for tensor in both if tensor is not None]
        self.absolute: float | None = None
        self.relative: float | None = None
        self.passed = True

    def add(self, answer: Any) -> None:
        self.absolute = larger(self.absolute, getattr(answer, "max_absdiff", None))
        self.relative = larger(self.relative, getattr(answer, "max_reldiff", None))
        self.passed = self.passed and bool(answer)

    def as_error(self, name: str) -> LayerError:
        return LayerError(
            name,
            dtypes=tuple(dict.fromkeys(tensor.dtype for tensor in self.tensors)),
            shapes=tuple(dict.fromkeys(tensor.shape for tensor in self.tensors)),
            absolute=self.absolute,
            relative=self.relative,
            passed=self.passed,
        )
