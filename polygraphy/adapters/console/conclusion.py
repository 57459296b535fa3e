"""What a comparison comes to, in plain words: the worst output, by how much it differs, and what
would help.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite, isinf, isnan

from attrs import frozen

from polygraphy.adapters.console.metrics import metric_words
from polygraphy.adapters.console.numbers import format_number, tolerance
from polygraphy.domain.accuracy.accuracy import AccuracyResult, WorstOutput
from polygraphy.domain.arithmetic import Element
from polygraphy.domain.compare.differences import OutputCompareResult
from polygraphy.domain.compare.metric import MetricResult
from polygraphy.domain.report.summary import round_up


def conclusion_of(result: AccuracyResult) -> str:
    """Return a sentence or more about the worst output; empty where no metric tells which it is.

    Of what passed, it is about all iterations of that output, of what failed about the worst one.
    """
    worst, passed = result.worst(), bool(result)
    if worst is None or bool(worst.result) is not passed:  # What failed may have no metrics.
        return ""
    several = any(len(iterations) > 1 for _, iterations in result.read())
    if isinstance(worst.result, MetricResult):
        where = _where(worst.iteration, several)
        failing = [each for each in result.failures() if isinstance(each, MetricResult)]
        return metric_words(worst.name, where, worst.result, failing)
    if not isinstance(worst.result, OutputCompareResult):
        return f"Worst output: {worst.name!r}{_where(worst.iteration, several)}: {worst.result}"
    if passed:
        return _passed(worst, result, several=several)
    return _failed(worst, worst.result, list(result.failures()), several=several)


def _where(iteration: int | None, several: bool) -> str:
    if iteration is None:
        return " on average"
    return f" in iteration {iteration}" if several else ""


def _allowed(result: OutputCompareResult) -> str:
    limits = result.tolerance
    return (
        f"the tolerance abs={tolerance(limits.atol)} or rel={tolerance(limits.rtol)}"
        f" ({limits.reason})"
    )


# What passed.


def _passed(worst: WorstOutput, result: AccuracyResult, *, several: bool) -> str:
    """Return how far apart an output is in any iteration, and which tolerance it kept."""
    found = [
        (iteration, answer)
        for pair, iteration, name, answer in result.judged_answers()
        if name == worst.name and pair == worst.runners
        if isinstance(answer, OutputCompareResult)
    ]
    iteration, largest = max(found, key=lambda each: _size(each[1].max_absdiff))
    answers = [answer for _, answer in found]
    relative = max(_size(answer.max_reldiff) for answer in answers)
    allowed = _allowed(largest)
    if worst.excess == 0 and not any(_differs(answer) for *_, answer in result.judged_answers()):
        return (
            f"No difference at all: every element of every output is equal; {allowed} was not"
            " needed."
        )
    return (
        f"Worst output: {worst.name!r}{_where(iteration, several)} differs by at most"
        f" {format_number(largest.max_absdiff)} (relative {format_number(relative)});"
        f" within {allowed}{_kept(answers)}."
    )


def _size(metric: float | None) -> float:
    return -1.0 if metric is None else inf if isnan(metric) else metric


def _differs(answer: object) -> bool:
    return not isinstance(answer, OutputCompareResult) or answer.max_absdiff != 0


def _kept(answers: Sequence[OutputCompareResult]) -> str:
    """Return which tolerance the answers kept, where that is not both."""
    absolute, relative = True, True
    for answer in answers:
        for statistic in answer.tolerance.check_error_stat:
            needed = answer.required(statistic)
            absolute &= needed[0] is not None and needed[0] <= answer.tolerance.atol
            relative &= needed[1] is not None and needed[1] <= answer.tolerance.rtol
    if absolute and relative:
        return ""
    if absolute or relative:
        return f", by the {'absolute' if absolute else 'relative'} one"
    return ", by one or the other everywhere"


# What failed.


def _failed(
    worst: WorstOutput, result: OutputCompareResult, failing: Sequence[object], *, several: bool
) -> str:
    """Return by how much the worst output differs, against which tolerance, where, and what would
    help.
    """
    found, called = result.mismatches, f"{worst.name!r}{_where(worst.iteration, several)}"
    if result.max_absdiff is not None and isnan(result.max_absdiff):
        facts = [
            f"Worst output: {called} has differences that are NaN; that exceeds {_allowed(result)}."
        ]
    else:
        largest = (
            f"{format_number(result.max_absdiff)} (relative {format_number(result.max_reldiff)})"
        )
        facts = [
            f"Worst output: {called} differs by up to {largest}; that exceeds {_allowed(result)}."
        ]
    if found is not None and found.worst is not None:
        facts.append(f"{found.count} of {found.size} elements exceed it")
        if found.nan and not _is_infinite(found.worst):
            facts[-1] += f", {found.nan} of them because of NaN"
        facts[-1] += (
            f"; the worst is at {found.worst.index}: {format_number(found.worst.value)} instead of"
            f" {format_number(found.worst.reference)}."
        )
    facts += _rounding_words(result, failing)
    advice = _advice(result, failing)
    if advice:
        facts.append(advice)
    elif found is not None and _is_infinite(found.worst):
        facts.append(
            "Infinities of the same sign are only equal when that is asked for"
            " (infinities_compare_equal)."
        )
    elif found is not None and found.nan:
        facts.append("No tolerance would pass: find where the NaN is born.")
    return " ".join(facts)


@frozen
class _Needed:
    """The tolerances either of which would do; infinite where none would."""

    absolute: float
    relative: float

    @staticmethod
    def by(answers: Iterable[object]) -> _Needed:
        absolute = relative = 0.0
        for answer in answers:
            if not isinstance(answer, OutputCompareResult):
                return _Needed(inf, inf)
            for statistic in answer.tolerance.check_error_stat:
                needed = answer.required(statistic)
                absolute = max(absolute, _limit(needed[0]))
                relative = max(relative, _limit(needed[1]))
        return _Needed(absolute, relative)

    def in_words(self) -> str:
        """Name those that there are; empty where there is none."""
        offers = []
        if isfinite(self.absolute):
            offers.append(f"an absolute tolerance of {round_up(self.absolute)}")
        if isfinite(self.relative):
            one = "a relative one" if offers else "a relative tolerance"
            offers.append(f"{one} of {round_up(self.relative)}")
        return " or ".join(offers)


def _limit(metric: float | None) -> float:
    return inf if metric is None or isnan(metric) else metric


def _advice(result: OutputCompareResult, failing: Sequence[object]) -> str:
    """Return which tolerance all that failed would pass with, or else the worst output alone."""
    for answers, whom in (
        (failing, ""),
        ([result], f" this output, of {len(failing)} that failed"),
    ):
        words = _Needed.by(answers).in_words()
        if words:
            return f"{words[0].upper()}{words[1:]} would pass{whom}."
    return ""


def _is_infinite(element: Element | None) -> bool:
    """Return whether both sides are the same infinity, whose difference is NaN."""
    if element is None or not isinstance(element.value, float):
        return False
    return isinf(element.value) and bool(element.value == element.reference)


def _rounding_words(result: OutputCompareResult, failing: Sequence[object]) -> list[str]:
    """Return what rounding alone explains of a difference that is too large."""
    rounding = result.rounding
    if rounding is None or rounding.rtol == 0:
        return []
    atol, rtol = format_number(rounding.atol), format_number(rounding.rtol)
    explained = f"Rounding explains abs={atol} or rel={rtol} ({rounding})"
    if result.may_add_up:
        return [
            f"{explained} of one operator; this may be what adds up along the model, which the"
            " tolerance 'auto' counts."
        ]
    if not result.is_rounding:
        return [f"{explained}, and not this difference."]
    if all(isinstance(each, OutputCompareResult) and each.is_rounding for each in failing):
        return [f"{explained}, which is enough: the tolerance 'auto' would pass."]
    return [f"{explained}, which is enough for this output, but not for all that failed."]
