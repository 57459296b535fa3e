"""What every threshold can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from polygraphy.domain.tensors.pickling import pickled_as


@pickled_as("polygraphy.comparator.compare")
class Threshold:
    """What the metrics of one output are held to; the base of all thresholds."""

    __slots__ = ()

    METRIC_FIELDS: ClassVar[list[str]] = []
    """The metrics that a threshold of this kind can be about, where it chooses some of several."""

    def metric_fields(self) -> tuple[str, ...]:
        """Name the metrics that decide."""
        raise NotImplementedError(f"{type(self).__name__} does not implement metric_fields")

    def passed(self, metric_values: Mapping[str, float | None]) -> bool:
        """Judge metrics by name; one that is NaN or None never passes."""
        raise NotImplementedError(f"{type(self).__name__} does not implement passed")

    def describe(self, metric_values: Mapping[str, float | None]) -> tuple[str, bool] | None:
        """Return the verdict in a line, and whether it passed; None where a line cannot tell."""
        return None
