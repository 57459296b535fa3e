"""Rows of documents, from those of outputs over all iterations and the worst of every metric."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any

from attrs import evolve

from polygraphy.domain.accuracy import output_rows
from polygraphy.domain.compare.metric import MetricResult
from polygraphy.domain.compare.result import CompareResult
from polygraphy.domain.model import Model, Node
from polygraphy.domain.report.document import Comparison, Element, OutputRow
from polygraphy.domain.report.plain import plain
from polygraphy.domain.rounding import Rounding


class WorstMetrics:
    """Keeps the worst value of each metric of each output, over the iterations."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, float]] = {}

    def add(self, answers: Mapping[str, Any]) -> None:
        """Take the answers about the outputs of an iteration."""
        for name, answer in answers.items():
            if isinstance(answer, CompareResult):
                found = self._found.setdefault(name, {})
                is_less_better = not isinstance(answer, MetricResult) or bool(
                    answer.metric.lower_is_better
                )
                for metric, value in answer.metric_values().items():
                    if value is not None and _is_worse(value, found.get(metric), is_less_better):
                        found[metric] = value

    def of(self, name: str) -> dict[str, float]:
        """Return the metrics of an output by name."""
        return self._found.get(name, {})


def _is_worse(value: float, known: float | None, is_less_better: bool) -> bool:
    """Return whether a value is worse than one that is known; NaN is the worst."""
    if known is None or isnan(value):
        return True
    return not isnan(known) and (value > known if is_less_better else value < known)


def document_row(
    row: output_rows.OutputRow,
    metrics: Mapping[str, float],
    detail: Mapping[str, Any] | None = None,
    noise: Rounding | None = None,
) -> OutputRow:
    """Return a row as documents have it.

    Args:
        row: what was found about an output.
        metrics: the worst value of each metric.
        detail: what is known besides about the worst iteration.
        noise: what rounding explains in the first iteration, for outputs that passed.
    """
    tensor = next((one for one in row.tensors if one is not None and one.dtype != "?"), None)
    worst = row.worst
    element = worst.element
    return OutputRow(
        name=row.name,
        passed=row.passed,
        passed_iterations=row.matched,
        iterations=row.total,
        dtype=tensor.dtype if tensor else None,
        shape=tensor.shape if tensor else None,
        metrics=dict(metrics),
        tolerance=None if row.limit is None else plain(row.limit),
        kept=sorted(row.kept) if row.passed and row.metric == "simple" else None,
        worst_iteration=worst.iteration,
        excess=worst.excess,
        mismatched=worst.mismatched,
        size=worst.size,
        worst=(
            None
            if element is None
            else Element(
                tuple(map(int, element.index)), plain(element.value), plain(element.reference)
            )
        ),
        non_finite=(
            None
            if worst.non_finite is None
            else [{"nan": nan, "inf": inf} for nan, inf in worst.non_finite]
        ),
        rounding=plain(worst.rounding or noise),
        is_rounding=worst.is_rounding if worst.rounding is not None else None,
        reason=worst.reason or None,
        detail=detail,
    )


def with_nodes(comparison: Comparison, model: Model | None) -> Comparison:
    """Return a comparison whose rows name the nodes of a model."""
    if model is None:
        return comparison
    makers = model.graph.makers
    rows = [_with_node(row, makers.get(row.name)) for row in comparison.outputs]
    return evolve(comparison, outputs=rows)


def _with_node(row: OutputRow, node: Node | None) -> OutputRow:
    if node is None:
        return row
    origin = None if node.origin is None else str(node.origin)
    return evolve(row, node=node.label, op=node.op, origin=origin)
