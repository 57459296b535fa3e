"""Base of all metrics: thresholds, verdicts, and the functions that compute them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from attrs import field, frozen, validators

from polygraphy.domain.calling import rename_argument
from polygraphy.domain.catalog.metrics import Metric
from polygraphy.domain.compare.function import PairwiseCompareFunc
from polygraphy.domain.compare.pairwise import Side
from polygraphy.domain.compare.result import CompareResult, UncomparedResult, excess_ratio
from polygraphy.domain.errors import UsageError
from polygraphy.domain.limits import Threshold
from polygraphy.domain.tensors.naming import PerOutput, copy_setting, value_for
from polygraphy.domain.tensors.pairing import FindOutput

Base = TypeVar("Base")
Measured = float | tuple[float, Mapping[str, Any]]
"""A metric, with further facts about the difference if there are any."""

_MOST_DECIBELS = 6000.0
"""This number of decibels is a factor of 1e300; more would exceed a float."""


def _limit(value: Any) -> float:
    """Return a threshold; raise UsageError if it is NaN."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"A threshold must be a number, not {value!r}.") from None
    if math.isnan(number):
        raise UsageError("A threshold must not be NaN: nothing could pass it.")
    return value if type(value) is int else number  # Files keep the original value.


@frozen
class MetricThreshold(Threshold):
    """The limit of a metric: the largest allowed value, or the smallest if more is better.

    Attributes:
        threshold: the limit, which is itself still allowed.
        reason: the origin of this number, in words: the default, as given, ...
    """

    threshold: float = field(converter=_limit)
    reason: str = field(
        default="the default",
        validator=validators.instance_of(str),
        eq=False,
        kw_only=True,
    )

    metric: ClassVar[Metric]
    """What the number means; each kind of threshold has its own."""

    def metric_fields(self) -> tuple[str, ...]:
        """Return the name of the field with the limit."""
        return (self.metric.field,)

    def passed(self, metric_values: Mapping[str, float | None]) -> bool:
        """Return whether the metric passes; NaN and None never pass."""
        value = metric_values.get(self.metric.field)
        return value is not None and self.allows(value)

    def allows(self, value: float, *, lower_is_better: bool | None = None) -> bool:
        """Return whether a value passes; the metric's direction applies unless it is set here."""
        is_small = self.metric.lower_is_better if lower_is_better is None else lower_is_better
        return abs(value) <= self.threshold if is_small else value >= self.threshold

    def describe(self, metric_values: Mapping[str, float | None]) -> tuple[str, bool] | None:
        """Return ``L2 Norm: 0.1 (tolerance: 1e-05) | FAILED``, and whether it passed, or None.
        The result is None without a value."""
        value = metric_values.get(self.metric.field)
        if value is None:
            return None
        passed, unit = self.allows(value), self.metric.unit
        held_to = "tolerance" if self.metric.lower_is_better else "min required"
        verdict = "PASSED" if passed else "FAILED"
        text = f"{self.metric.title}: {value:.15g}{unit}"
        return f"{text} ({held_to}: {self.threshold:.15g}{unit}) | {verdict}", passed


class MetricResult(CompareResult):
    """The value of a metric for one output; true if it passed.

    NaN never passes, nor does a metric that was not computed or has no threshold.

    Attributes:
        value: the metric; None when it was not computed.
        thresholds: its thresholds; None if it has none.
    """

    metric: ClassVar[Metric]

    def __init__(
        self, value: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None:
        """Create a result from a value and its threshold."""
        super().__init__(thresholds)
        self.value = value

    def _load_pickled_metrics(self, state: dict[str, Any]) -> None:
        """Load the metric from the state of a pickle of NVIDIA's Polygraphy."""
        self.value = state.get(self.metric.field)

    def metric_fields(self) -> tuple[str, ...]:
        """Return the name of the metric."""
        return (self.metric.field,)

    def metric_values(self) -> dict[str, float | None]:
        """Return the value of the metric, by its name."""
        return {self.metric.field: self.value}

    @property
    def is_in_decibels(self) -> bool:
        """Return whether the metric is a ratio in decibels."""
        return self.metric.scale == "decibels"

    def with_metrics(self, values: Mapping[str, float | None]) -> MetricResult:
        """Return a result with a new value and the same threshold."""
        return type(self)(values[self.metric.field], self.thresholds)

    def as_fields(self) -> dict[str, Any]:
        """Return the fields to save, by name."""
        return {**self.metric_values(), "thresholds": self.thresholds}

    @property
    def excess(self) -> float:
        """Return the metric relative to its threshold: at most 1 if passed, infinite for NaN.

        Decibels are compared as the amplitudes that they stand for, similarities by their distance
        from 1.
        """
        if self.value is None or self.thresholds is None or math.isnan(self.value):
            return math.inf
        limit = self.thresholds.threshold
        if self.metric.scale == "decibels":
            ratio = 10.0 ** (min(limit - self.value, _MOST_DECIBELS) / 20)
        elif self.metric.scale == "similarity":
            ratio = excess_ratio(1 - self.value, max(1 - limit, 0))
        else:
            ratio = excess_ratio(abs(self.value), limit)
        if self:
            return min(ratio, 1.0) if not math.isnan(ratio) else 1.0
        return ratio if ratio > 1 else math.inf  # A threshold that no value can reach.

    def __bool__(self) -> bool:
        """Return whether the value is within the threshold."""
        if self.value is None or self.thresholds is None:
            return False
        allowed: bool = self.thresholds.allows(
            self.value, lower_is_better=self.metric.lower_is_better
        )
        return allowed

    def __repr__(self) -> str:
        """Return the value and its threshold as text."""
        return (
            f"{type(self).__name__}({self.metric.field}={self.value!r},"
            f" thresholds={self.thresholds!r})"
        )


class DetailedResult(MetricResult):
    """The value of a metric, with details that are shown and saved but not judged.

    Attributes:
        details: the facts by name: numbers, lists and dictionaries, as they are saved.
    """

    def __init__(
        self,
        value: float | None = None,
        thresholds: MetricThreshold | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Create a result from a value, its threshold, and details."""
        super().__init__(value, thresholds)
        self.details: Mapping[str, Any] = dict(details or {})

    def as_fields(self) -> dict[str, Any]:
        """Return the fields to save, by name, including the details."""
        return {**self.metric_values(), **self.details, "thresholds": self.thresholds}


class MetricCompareFunc(PairwiseCompareFunc):
    """Compares one metric of each output with its threshold, which may differ between outputs.

    Subclasses name the classes of the results and thresholds, and compute the metric.
    """

    result_type: ClassVar[type[MetricResult]]
    threshold_type: ClassVar[type[MetricThreshold]]

    def __init__(
        self,
        threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the threshold, as one value or one per output."""
        super().__init__(check_shapes, fail_fast, find_output_func)
        self.threshold = copy_setting(threshold)
        for name in self.named_outputs() | {""}:
            self.thresholds_for(name)

    @property
    def label(self) -> str:  # type: ignore[override]
        """The name of the function."""
        return self.result_type.metric.function

    def per_output_settings(self) -> tuple[PerOutput[float] | None]:
        """Return the threshold, which may differ by output."""
        return (self.threshold,)

    def thresholds_for(self, output_name: str) -> MetricThreshold:
        """Return the threshold of an output."""
        value: float | None = value_for(self.threshold, output_name, None)
        if value is None:
            return self.threshold_type(self.result_type.metric.default)
        return self.threshold_type(value, reason=self.given_by)

    def measure(self, value: Side, reference: Side, setting: str) -> Measured:
        """Return the metric of two arrays of equal shape, with the settings of `setting`.

        Raises:
            TypeError: they do not hold numbers.
        """
        raise NotImplementedError

    def compare_arrays(self, value: Side, reference: Side, setting: str) -> CompareResult:
        """Return the metric of two arrays; outputs without numbers fail."""
        try:
            return self.result_of(value, reference, setting)
        except TypeError:
            return UncomparedResult(
                f"{self.result_type.metric.title} requires numbers: {value.tensor} cannot be"
                f" compared with {reference.tensor}."
            )

    def result_of(self, value: Side, reference: Side, setting: str) -> CompareResult:
        """Return the metric of two arrays of equal shape, judged by the threshold of `setting`.

        Raises:
            TypeError: they do not hold numbers.
        """
        measured_value, *details = _parts(self.measure(value, reference, setting))
        return self.result_type(measured_value, self.thresholds_for(setting), *details)

    def __repr__(self) -> str:
        """Return the expression that creates the function."""
        return f"{type(self).__name__}({self.threshold!r})"


def _parts(measured_value: Any) -> tuple[Any, ...]:
    """Return a value as a tuple."""
    return measured_value if isinstance(measured_value, tuple) else (measured_value,)


def classes_of(
    row: Metric, measure: Callable[..., Measured] | type[MetricCompareFunc]
) -> tuple[type[MetricThreshold], type[MetricResult], type[MetricCompareFunc]]:
    """Return the classes of a metric: threshold, result and comparison function.

    Args:
        row: their names, their descriptions, and the names of their arguments.
        measure: the method `measure`, or a class that has one, and takes a threshold first.
    """
    metric: dict[str, Any] = {"metric": row}
    threshold = frozen(
        _derive_class(row.threshold_name, MetricThreshold, row.threshold_doc, metric)
    )
    base: type[MetricResult] = DetailedResult
    if not row.details:
        base = MetricResult
        metric[row.field] = property(
            lambda self: self.value, doc="The metric; None when it was not computed."
        )
        metric["__init__"] = rename_argument(MetricResult.__init__, "value", row.field)
    result = _derive_class(row.result_name, base, row.result_doc, metric)
    compare: Any = measure if isinstance(measure, type) else MetricCompareFunc
    members: dict[str, Any] = {} if isinstance(measure, type) else {"measure": measure}
    init = rename_argument(compare.__init__, "threshold", row.argument)
    limit = row.threshold_doc[0].lower() + row.threshold_doc[1:].rstrip(".")
    init.__doc__ = init.__doc__ or f"Set {limit} (default: {row.default_text})."
    members |= {"result_type": result, "threshold_type": threshold, "__init__": init}
    return threshold, result, _derive_class(row.class_name, compare, row.function_doc, members)


def _derive_class(name: str, base: type[Base], doc: str, members: dict[str, Any]) -> type[Base]:
    """Return a new class with this name, base, docstring and members."""
    if "__init__" in members:
        members["__init__"].__qualname__ = f"{name}.__init__"
    return type(name, (base,), {"__doc__": doc, **members})
