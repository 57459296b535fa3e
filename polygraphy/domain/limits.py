"""Thresholds: how much two outputs may differ, and why that much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan
from typing import Any, ClassVar

from attrs import field, frozen, validators

from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.pickling import pickle_as

DEFAULT_RTOL = 1e-5
DEFAULT_ATOL = 1e-5
ROUNDING_LIMIT = "rounding limit"
"""The beginning of the reason for a tolerance from rounding."""

STATISTICS = ("elemwise", "max", "mean", "median", "quantile")
"""Values that can be checked: every element, or one statistic of all differences."""


def joint_reason(absolute: str, relative: str) -> str:
    """Return why two tolerances have their values, from the reason for each."""
    return absolute if absolute == relative else f"abs {absolute}, rel {relative}"


def _statistics(value: str | Iterable[str]) -> tuple[str, ...]:
    """Return error statistics as names; raise UsageError for an unknown one."""
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names:
        raise UsageError("At least one error statistic is required.")
    for name in names:
        if name not in STATISTICS:
            raise UsageError(
                f"Error statistic {name!r} does not exist.",
                hint=f"Available: {', '.join(STATISTICS)}.",
            )
    return names


def _number(value: Any) -> float:
    """Return a tolerance as a number; raise UsageError if it is negative or NaN."""
    try:
        number = float("true or false" if isinstance(value, bool) else value)
    except (TypeError, ValueError):
        raise UsageError(f"A tolerance must be a number, not {value!r}.") from None
    if isnan(number) or number < 0:
        raise UsageError(f"A tolerance must be a number of at least 0, not {value!r}.")
    return number


@pickle_as("polygraphy.comparator.compare")
class Threshold:
    """The limit for the metrics of one output; the base of all thresholds."""

    __slots__ = ()

    METRIC_FIELDS: ClassVar[list[str]] = []
    """Metrics that a threshold of this kind can limit, if it limits one of several."""

    def metric_fields(self) -> tuple[str, ...]:
        """Return the names of the metrics that decide."""
        raise NotImplementedError(f"{type(self).__name__} does not implement metric_fields")

    def passed(self, metric_values: Mapping[str, float | None]) -> bool:
        """Return whether metrics pass, by name; NaN or None never passes."""
        raise NotImplementedError(f"{type(self).__name__} does not implement passed")

    def describe(self, metric_values: Mapping[str, float | None]) -> tuple[str, bool] | None:
        """Return the verdict as a line, and whether it passed; None if one line cannot show it."""
        return None


@pickle_as("polygraphy.comparator.compare")
@frozen
class Tolerance(Threshold):
    """The tolerance of one output.

    Attributes:
        check_error_stat: the statistics that are checked, each of which must pass; see
            `STATISTICS`.
        atol: the largest absolute difference, in the output's own unit.
        rtol: the largest difference relative to the magnitude of the second run's value.
        reason: the origin of these numbers, in words, such as "the default".

    A difference is within tolerance if it satisfies `atol` or `rtol`, or both. With ``elemwise``,
    every element must do so. With another statistic, that statistic of the absolute or of the
    relative differences must.
    """

    METRIC_FIELDS: ClassVar[list[str]] = [
        f"{statistic}_{kind}"
        for statistic in STATISTICS
        if statistic != "elemwise"
        for kind in ("absdiff", "reldiff")
    ]
    """Metrics that a threshold of this kind can limit, if it limits one of several."""

    check_error_stat: tuple[str, ...] = field(default=("elemwise",), converter=_statistics)
    atol: float = field(default=DEFAULT_ATOL, converter=_number)
    rtol: float = field(default=DEFAULT_RTOL, converter=_number)
    reason: str = field(default="the default", validator=validators.instance_of(str), eq=False)

    @property
    def is_rounding_limit(self) -> bool:
        """Return whether the tolerance is the measured rounding limit of the model,
        as for ``auto``."""
        return ROUNDING_LIMIT in self.reason

    def metric_fields(self) -> tuple[str, ...]:
        """Return the names of the metrics that decide.
        ``elemwise`` needs the arrays and has none."""
        return tuple(
            f"{statistic}_{kind}"
            for statistic in self.check_error_stat
            if statistic != "elemwise"
            for kind in ("absdiff", "reldiff")
        )

    def passed(self, metric_values: Mapping[str, float | None]) -> bool:
        """Return whether metrics such as ``max_absdiff`` pass; NaN never passes.

        Raises:
            UsageError: ``elemwise`` is checked, which needs the arrays, or a metric is missing.
        """
        if "elemwise" in self.check_error_stat:
            raise UsageError(
                "Single elements can be checked only while the outputs are in memory.",
                hint="Check max, mean, median or quantile instead.",
            )
        return all(self.allows(statistic, metric_values) for statistic in self.check_error_stat)

    def allows(self, statistic: str, metric_values: Mapping[str, float | None]) -> bool:
        """Return whether one statistic, such as ``max``, of the absolute and relative differences
        passes.
        """
        absolute = metric_values.get(f"{statistic}_absdiff")
        relative = metric_values.get(f"{statistic}_reldiff")
        if absolute is None or relative is None:
            raise UsageError(f"The results do not contain the {statistic} difference.")
        if isnan(absolute) or isnan(relative):
            return False
        return absolute <= self.atol or relative <= self.rtol

    def describe(self, metric_values: Mapping[str, float | None]) -> tuple[str, bool] | None:
        """Return a line about the check, and whether it passed, or None.
        The result is None if it is element by element."""
        if "elemwise" in self.check_error_stat:
            return None
        passed = self.passed(metric_values)
        differences = ", ".join(
            f"{name}: abs={metric_values[f'{name}_absdiff']:.6g},"
            f" rel={metric_values[f'{name}_reldiff']:.6g}"
            for name in self.check_error_stat
        )
        verdict = "PASSED" if passed else "FAILED"
        held_to = f"(tolerance: abs={_number_text(self.atol)}, rel={_number_text(self.rtol)})"
        return f"Difference | {differences} {held_to} | {verdict}", passed

    def __str__(self) -> str:
        """Return the tolerance as text."""
        return f"(rel={_number_text(self.rtol)}, abs={_number_text(self.atol)})"


def _number_text(number: float) -> str:
    """Return a number as text with up to 15 digits."""
    return f"{number:.15g}"
