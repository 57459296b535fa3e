"""What a program compares, and what it does to outputs before, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

from attrs import Factory, asdict, frozen

from polygraphy.domain.catalog.metrics import THRESHOLDS


@frozen
class SimpleFunction:
    """Arguments of the comparison function `simple`; None leaves the default alone."""

    check_shapes: bool | None = None
    rtol: Any = None
    atol: Any = None
    fail_fast: bool | None = None
    check_error_stat: Any = None
    infinities_compare_equal: bool | None = None
    save_heatmaps: str | None = None
    show_heatmaps: bool | None = None
    save_error_metrics_plot: str | None = None
    show_error_metrics_plot: bool | None = None
    error_quantile: Any = None

    @property
    def is_default(self) -> bool:
        """Whether no argument is given."""
        return self == SimpleFunction()

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return "SimpleCompareFunc"

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the class, by name."""
        return asdict(self, recurse=False)


@frozen
class ThresholdFunction:
    """A comparison function with a threshold, by its name, and its further settings; None leaves a
    default alone.
    """

    name: str
    threshold: Any = None
    settings: Mapping[str, Any] = Factory(dict)
    check_shapes: bool | None = None
    fail_fast: bool | None = None

    is_default = False

    @property
    def class_name(self) -> str:
        """Name of the class; KeyError for an unknown function."""
        return THRESHOLDS[self.name].class_name

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the class, by name."""
        shapes = {} if self.name == "indices" else {"check_shapes": self.check_shapes}
        return {
            THRESHOLDS[self.name].argument: self.threshold,
            **self.settings,
            **shapes,
            "fail_fast": self.fail_fast,
        }


Function = Union[SimpleFunction, ThresholdFunction]


@frozen
class Postprocess:
    """What is done to outputs before they are compared: `script` (path and symbol) if it is given,
    else the largest elements: `top_k` is a number, a number with an axis, or a dictionary of such.
    """

    top_k: Any = None
    script: tuple[str, str] | None = None


@frozen
class Comparison:
    """What is compared and checked: with the function in `script` (path and symbol) if it is given,
    else with `functions`.
    """

    validate: bool = False
    fail_fast: bool = False
    load_outputs: Sequence[str] = ()
    functions: Sequence[Function] = (SimpleFunction(),)
    script: tuple[str, str] | None = None
    check_average: bool = False
    allow_missing_outputs: bool = False
    save_results: str | None = None
    postprocess: Postprocess | None = None
    save_worst: int | None = None
    save_worst_path: str | None = None
    save_error_by_depth: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether the comparison function that is used unless others are given does."""
        return self.script is None and list(self.functions) == [SimpleFunction()]
