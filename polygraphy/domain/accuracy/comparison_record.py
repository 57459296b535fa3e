"""What a comparison found, output by output, in plain values for readers that know nothing of this
package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan
from typing import Any

import numpy as np

from polygraphy.domain.accuracy.accuracy import AccuracyResult
from polygraphy.domain.accuracy.pairs import PairResult
from polygraphy.domain.arithmetic import Difference
from polygraphy.domain.compare.differences import OutputCompareResult
from polygraphy.domain.compare.distribution import distribution_of
from polygraphy.domain.compare.result import CompareResult

_Key = tuple[tuple[int, int], int, str]
"""Positions of the two runs, iteration, and name of the output."""


class ComparisonRecord:
    """Collects what is found about each output; of several pairs of runs or iterations the worst
    stands for the output, and the details stay below it.
    """

    def __init__(self) -> None:
        self._entries: dict[_Key, dict[str, Any]] = {}

    def add(self, pair: PairResult) -> None:
        """Take the verdicts of one function on one iteration, while its outputs are at hand."""
        for name, result in pair.results.items():
            key = (pair.positions, pair.iteration, name)
            passed = True if pair.is_judged else None
            entry = self._entries.setdefault(key, {"runners": pair.runners, "passed": passed})
            entry["passed"] = passed and entry["passed"] and bool(result)
            if "max_error" not in entry:
                entry.update(_errors(pair, result))

    def as_dict(self, verdicts: Iterable[AccuracyResult] = ()) -> dict[str, Any]:
        """Return the record of each output: ``max_error`` and ``mean_error``, both absolute and
        None where the output could not be compared, ``passed`` as the verdicts have it,
        ``error_distribution``, and where there are several, the details as ``pairs``, of which none
        has passed or failed by itself where averages are judged.
        """
        failed = {name for verdict in verdicts for name in verdict.failed_names()}
        by_output: dict[str, list[tuple[_Key, dict[str, Any]]]] = {}
        for key, entry in self._entries.items():
            by_output.setdefault(key[2], []).append((key, entry))
        return {
            name: _record(entries, has_failed=name in failed) for name, entries in by_output.items()
        }


def _record(entries: list[tuple[_Key, dict[str, Any]]], *, has_failed: bool) -> dict[str, Any]:
    worst = max((entry for _, entry in entries), key=_badness)
    record = {
        "max_error": worst.get("max_error"),
        "mean_error": worst.get("mean_error"),
        "passed": not has_failed and all(entry["passed"] is not False for _, entry in entries),
        "error_distribution": worst.get("error_distribution"),
    }
    if len(entries) > 1:
        record["pairs"] = [
            {
                "runners": list(entry["runners"]),
                "iteration": iteration,
                "max_error": entry.get("max_error"),
                "mean_error": entry.get("mean_error"),
                "passed": entry["passed"],
            }
            for (_, iteration, _), entry in entries
        ]
    return record


def _badness(entry: Mapping[str, Any]) -> tuple[bool, bool, float]:
    """Order entries: what could not be compared is worst, then NaN, then the largest error."""
    error = entry.get("max_error")
    if error is None:
        return entry["passed"] is False, False, 0.0
    return False, isnan(error), 0.0 if isnan(error) else error


def _errors(pair: PairResult, result: Any) -> dict[str, Any]:
    difference = _difference(pair, result)
    if difference is None:
        return {}
    return {
        "max_error": difference.max_abs(),
        "mean_error": difference.mean_abs(),
        "error_distribution": distribution_of(difference),
    }


def _difference(pair: PairResult, result: Any) -> Difference | None:
    """Return the difference of an output, which other functions than `simple` do not form."""
    if isinstance(result, OutputCompareResult) and result.difference is not None:
        return result.difference
    if not isinstance(result, CompareResult):
        return None
    name0, name1 = result.output0_name, result.output1_name
    if name0 is None or name1 is None:
        return None
    if name0 not in pair.outputs[0] or name1 not in pair.outputs[1]:
        return None
    value, reference = np.asarray(pair.outputs[0][name0]), np.asarray(pair.outputs[1][name1])
    return Difference(value, reference) if value.shape == reference.shape else None
