"""Whether rounding explains that an output failed: the answer as data, and its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from attrs import frozen

from polygraphy.domain.accuracy.output_rows import OutputRow, factor_in_words
from polygraphy.domain.rounding import Rounding


@frozen
class RoundingAnswer:
    """Whether rounding explains that an output failed.

    Attributes:
        rounding: the rounding limit.
        is_explained: whether the difference is within it.
        is_for_all: whether that holds for all outputs that failed.
        ratio: the difference as a multiple of the limit; 1 if unknown.
        is_accumulation: whether rounding can accumulate to so much along a model, and that was not
            measured.
    """

    rounding: Rounding
    is_explained: bool = False
    is_for_all: bool = False
    ratio: float = 1.0
    is_accumulation: bool = False


def explain_by_rounding(row: OutputRow, failing: Sequence[OutputRow]) -> RoundingAnswer | None:
    """Return the answer to whether rounding explains a failed output; None if it is unknown.

    Args:
        row: the output.
        failing: all that failed.
    """
    from polygraphy.domain.compare.result import excess_ratio

    worst, rounding = row.worst, row.worst.rounding
    if rounding is None or rounding.rtol == 0:
        return None
    if worst.is_rounding:
        is_for_all = all(output_row.worst.is_rounding for output_row in failing)
        return RoundingAnswer(rounding, is_explained=True, is_for_all=is_for_all)
    numbers = worst.absolute, worst.relative
    if worst.element is not None:
        numbers = worst.element.absolute, worst.element.relative
    ratio = min(excess_ratio(numbers[0], rounding.atol), excess_ratio(numbers[1], rounding.rtol))
    if not isfinite(ratio) or ratio <= 1:
        return RoundingAnswer(rounding)
    is_measured = any(
        getattr(output_row.limit, "is_rounding_limit", False) for output_row in failing
    )
    is_accumulation = float(f"{ratio:.2g}") <= rounding.largest_factor and not is_measured
    return RoundingAnswer(rounding, ratio=ratio, is_accumulation=is_accumulation)


def rounding_in_words(row: OutputRow, failing: Sequence[OutputRow]) -> str:
    """Return whether rounding explains an output that failed, as a sentence.
    The result is empty if that is unknown. The steps of a quantized type are so large that they can
    hide a fault: the answer is never yes.

    Args:
        row: the output.
        failing: all that failed.
    """
    answer = explain_by_rounding(row, failing)
    if answer is None:
        return ""
    rounding, lowered = answer.rounding, answer.rounding.lowered
    limits = f"up to {rounding.atol:.1e} abs or {rounding.rtol:.1e} rel"
    explained = f"{rounding.dtype} rounding explains {limits}"
    if lowered is not None:
        explained = f"{lowered.describe()}, which explains {limits}"
    if answer.is_explained:
        return _describe_explained(answer, explained)
    if answer.ratio == 1:
        return f"No: {explained}, but not this difference."
    factor = factor_in_words(answer.ratio)
    if answer.is_accumulation:
        return (
            f"Perhaps: for one operator, {explained}; the difference is {factor} times larger."
            " Rounding can accumulate along the model ('auto' measures that)."
        )
    return f"No: {explained}; the difference is {factor} times larger."


def _describe_explained(answer: RoundingAnswer, explained: str) -> str:
    """Return the sentence for an output that rounding explains."""
    lowered = answer.rounding.lowered
    if lowered is not None:
        option = f" For float32: {lowered.option}" if lowered.option else ""
        return f"Yes: {explained}.{option}"
    is_for_all = answer.is_for_all
    which = "all failed outputs" if is_for_all else "this output, but not for all failed outputs"
    if is_coarse(answer.rounding):
        return (
            f"Perhaps: {explained}, enough for {which}. A fault can be this small: if"
            " diagnose finds none, accept the difference with --rtol auto."
        )
    return f"Yes: {explained}, enough for {which}."


def is_coarse(rounding: Rounding) -> bool:
    """Return whether the computation is quantized."""
    return "int" in rounding.dtype
