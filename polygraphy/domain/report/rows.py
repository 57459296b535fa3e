"""Sums up the answers about the outputs of two runs, a row per output, without holding arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf, isnan
from typing import Any

from polygraphy.domain.compare.differences import OutputCompareResult
from polygraphy.domain.compare.metric import MetricResult
from polygraphy.domain.compare.result import CompareResult, UncomparedResult
from polygraphy.domain.report.document import Element, OutputRow
from polygraphy.domain.report.plain import plain


class Rows:
    """Takes one iteration after the other."""

    def __init__(self) -> None:
        self._found: dict[str, _Found] = {}

    def add(self, iteration: int, answers: Mapping[str, Any]) -> list[str]:
        """Take the answers about an iteration; return the outputs that exceed their tolerance more
        than they did before, and more than is allowed.
        """
        worse = []
        for name, answer in answers.items():
            found = self._found.get(name)
            if found is None:
                found = self._found[name] = _Found()
            if found.add(iteration, answer):
                worse.append(name)
        return worse

    def detail(self, name: str, detail: Mapping[str, Any]) -> None:
        """Keep what is known besides about the worst iteration of an output."""
        self._found[name].detail = detail

    def rows(self) -> list[OutputRow]:
        """Return the rows, in the order in which the outputs were first seen."""
        return [found.row(name) for name, found in self._found.items()]


def rows_of(iterations: Iterable[Mapping[str, Any]]) -> list[OutputRow]:
    """Sum up answers that are all there already."""
    rows = Rows()
    for index, answers in enumerate(iterations):
        rows.add(index, answers)
    return rows.rows()


class _Found:
    """What was found about one output so far."""

    def __init__(self) -> None:
        self.count = self.passed = 0
        self.metrics: dict[str, float | None] = {}
        self.worst: tuple[float, int, Any] = (-1.0, 0, None)
        self.facts: dict[str, Any] = {}
        self.detail: Mapping[str, Any] | None = None

    def add(self, iteration: int, answer: Any) -> bool:
        """Take an answer; return whether it is the worst of those that failed so far."""
        passed = bool(answer)
        self.count += 1
        self.passed += passed
        if not isinstance(answer, CompareResult):
            return False
        worse = _worse_of(answer)
        for field, value in answer.metric_values().items():
            known = self.metrics.get(field)
            self.metrics[field] = value if known is None else worse(known, value)
        excess = answer.excess
        size = (0.0 if passed else inf) if excess is None else excess
        if isinstance(answer, UncomparedResult):
            size = inf
        if size <= self.worst[0]:
            return False
        self.worst = (size, iteration, excess)
        self.facts = _facts(answer)
        self.detail = None
        return not passed

    def row(self, name: str) -> OutputRow:
        facts = self.facts
        return OutputRow(
            name=name,
            passed=self.passed == self.count,
            passed_iterations=self.passed,
            iterations=self.count,
            metrics={field: value for field, value in self.metrics.items() if value is not None},
            worst_iteration=self.worst[1] if facts else None,
            excess=self.worst[2] if facts else None,
            detail=self.detail,
            **facts,
        )


def _facts(answer: CompareResult) -> dict[str, Any]:
    """Return what is said of the worst iteration."""
    facts: dict[str, Any] = {"tolerance": _tolerance(answer.thresholds)}
    if answer.tensor0 is not None and answer.tensor0.dtype != "?":
        facts.update(dtype=answer.tensor0.dtype, shape=answer.tensor0.shape)
    if isinstance(answer, UncomparedResult):
        facts["reason"] = answer.reason
    if isinstance(answer, OutputCompareResult) and not answer:
        mismatches, rounding = answer.mismatches, answer.rounding
        if mismatches is not None:
            facts.update(mismatched=mismatches.count, size=mismatches.size)
            if mismatches.worst is not None:
                worst = mismatches.worst
                facts["worst"] = Element(
                    tuple(map(int, worst.index)), plain(worst.value), plain(worst.reference)
                )
        if rounding is not None:
            facts["rounding"] = plain(rounding)
            facts["is_rounding"] = answer.is_rounding
    return facts


def _tolerance(thresholds: Any) -> Mapping[str, Any] | None:
    return None if thresholds is None else plain(thresholds)


def _worse_of(answer: CompareResult) -> Callable[[float | None, float | None], float | None]:
    """Return what chooses the worse one of two values of a metric; NaN is the worst."""
    is_small_better = not isinstance(answer, MetricResult) or answer.metric.lower_is_better
    sign = 1.0 if is_small_better else -1.0

    def key(value: float) -> tuple[bool, float]:
        return isnan(value), sign * value

    def worse(one: float | None, other: float | None) -> float | None:
        if one is None or other is None:
            return other if one is None else one
        return max(one, other, key=key)

    return worse
