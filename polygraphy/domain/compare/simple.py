"""The comparison function `simple`: absolute and relative differences, element by element or by a
statistic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from operator import is_not
from typing import TYPE_CHECKING, Any, Union

from polygraphy.domain.compare.function import PairwiseCompareFunc
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.naming import PerOutput, copy_setting, value_for

if TYPE_CHECKING:  # Comparing imports NumPy, which a program may need only later.
    from polygraphy.domain.compare.pairwise import Side
    from polygraphy.domain.compare.result import CompareResult
    from polygraphy.domain.limits import Tolerance
    from polygraphy.domain.rounding import Rounding
    from polygraphy.domain.tensors.pairing import FindOutput

DEFAULT_ERROR_QUANTILE = 0.99
AUTO = "auto"
"""Stands for the tolerance that rounding explains."""

Statistic = Union[str, Sequence[str]]


class SimpleCompareFunc(PairwiseCompareFunc):
    """Compares absolute and relative differences with tolerances.

    The second run is the reference: relative differences are relative to the magnitude of its
    values.
    """

    label = "simple"
    notes_infinities = False
    """Whether results note equal infinities that pass, because the user did not ask for it."""
    _shared: tuple[tuple[Any, ...], tuple[Tolerance, float] | None] | None = None

    def __init__(  # noqa: PLR0917 - the order is that of published scripts
        self,
        check_shapes: bool | None = None,
        rtol: PerOutput[float | str] | None = None,
        atol: PerOutput[float | str] | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
        check_error_stat: PerOutput[Statistic] | None = None,
        infinities_compare_equal: bool | None = None,
        save_heatmaps: str | None = None,
        show_heatmaps: bool | None = None,
        save_error_metrics_plot: str | None = None,
        show_error_metrics_plot: bool | None = None,
        error_quantile: PerOutput[float] | None = None,
    ) -> None:
        """Set the tolerances; each setting may be one value, or one per output.

        Args:
            check_shapes: whether outputs of different shapes fail (the default), or are transposed
                or reshaped.
            rtol: the largest tolerable relative difference (default: 1e-5). ``"auto"`` is the
                rounding limit of the data type in which the output was computed; it then also
                applies to `atol` if that is not set.
            atol: the largest tolerable absolute difference, in the same form; ``"auto"`` also
                depends on the magnitude of the second run's values.
            fail_fast: whether to stop at the first output that fails.
            find_output_func: finds the partner of an output: called with its name, its position and
                the second run's outputs, returns one or several names, or None.
            check_error_stat: the statistic to check: ``elemwise`` (the default), ``max``, ``mean``,
                ``median`` or ``quantile``, or several of them, all of which must pass.
            infinities_compare_equal: whether two infinities of the same sign are equal (default:
                only if a tolerance is ``"auto"``).
            save_heatmaps: a folder for heat maps of outputs and differences.
            show_heatmaps: whether heat maps are shown.
            save_error_metrics_plot: a folder for plots of the differences over the outputs.
            show_error_metrics_plot: whether these plots are shown.
            error_quantile: the quantile that ``quantile`` checks, from 0 to 1 (default: 0.99).

        Raises:
            UsageError: a value is out of its range.
            MissingDependencyError: plots are requested, and no library that draws them is
                installed.
        """
        from polygraphy.domain.compare.simple_arrays import Pictures
        from polygraphy.domain.rounding import Rounding

        super().__init__(check_shapes, fail_fast, find_output_func)
        self.rtol = copy_setting(rtol)
        self.atol = copy_setting(atol)
        self.check_error_stat = copy_setting(check_error_stat)
        self.infinities_compare_equal = bool(infinities_compare_equal)
        self.error_quantile = copy_setting(error_quantile)
        self.pictures = Pictures(
            save_heatmaps,
            bool(show_heatmaps),
            save_error_metrics_plot,
            bool(show_error_metrics_plot),
        )
        for name in self.named_outputs() | {""}:
            self.tolerance_for(name, Rounding.exact_limit("any"))
            self.quantile_for(name)

    def tolerance_for(self, name: str, rounding: Rounding | None = None) -> Tolerance:
        """Return the tolerance of the output `name`.

        Args:
            name: the output.
            rounding: the rounding limit; only needed if a tolerance is ``"auto"``.

        Raises:
            UsageError: a tolerance is ``"auto"``, and the rounding limit is unknown.
        """
        tolerances = self._tolerances_of(name)
        if rounding is None and AUTO in tolerances:
            raise UsageError(
                f"The tolerance of output {name!r} depends on its values, which are unknown here.",
                hint="Set numbers instead of 'auto'.",
            )
        rounding = rounding if AUTO in tolerances else None
        checked = value_for(self.check_error_stat, name, "elemwise")
        statistics = checked if isinstance(checked, str) else tuple(checked)
        try:
            return _shared_tolerance(statistics, *tolerances, rounding, self.given_by)
        except TypeError:  # The value is not hashable: let the constructor report the error.
            return _make_tolerance(statistics, *tolerances, rounding, self.given_by)

    def shared_limits(self) -> tuple[Tolerance, float] | None:
        """Return the tolerance and the quantile of all outputs; None if outputs differ in them."""
        settings = self.rtol, self.atol, self.check_error_stat, self.error_quantile
        if self._shared is None or any(map(is_not, settings, self._shared[0])):
            # Do not share limits if a derived class may choose them by name, or if a list may
            # change later.
            is_shared = type(self) is SimpleCompareFunc and AUTO not in settings[:2]
            is_shared = is_shared and not any(
                isinstance(setting, (Mapping, list)) for setting in settings
            )
            limits = (self.tolerance_for(""), self.quantile_for("")) if is_shared else None
            self._shared = settings, limits
        return self._shared[1]

    def is_auto(self, name: str) -> bool:
        """Return whether a tolerance of the output `name` is ``"auto"``."""
        return AUTO in self._tolerances_of(name)

    def _tolerances_of(self, name: str) -> tuple[float | str | None, float | str | None]:
        """Return the absolute and the relative tolerance as configured.
        A single ``"auto"`` applies to both if the other is unset.
        """
        atol, rtol = value_for(self.atol, name, None), value_for(self.rtol, name, None)
        if AUTO in (atol, rtol):
            return AUTO if atol is None else atol, AUTO if rtol is None else rtol
        return atol, rtol

    def thresholds_for(self, output_name: str) -> Tolerance:
        """Return the tolerance of the output."""
        return self.tolerance_for(output_name)

    def quantile_for(self, name: str) -> float:
        """Return the quantile to check for the output `name`, from 0 to 1."""
        quantile = float(value_for(self.error_quantile, name, DEFAULT_ERROR_QUANTILE))
        if not 0 <= quantile <= 1:
            raise UsageError(f"A quantile must be between 0 and 1, not {quantile}.")
        return quantile

    def per_output_settings(self) -> tuple[Any, ...]:
        """Return the tolerances and the checked statistics."""
        return self.rtol, self.atol, self.check_error_stat, self.error_quantile

    def check_averages(self) -> None:
        """Raise an error for ``elemwise``, which judges single elements and has no mean."""
        from polygraphy.domain.rounding import Rounding

        checked = self.check_error_stat
        names = list(checked) if isinstance(checked, Mapping) else [""]
        exact = Rounding.exact_limit("any")
        if any("elemwise" in self.tolerance_for(name, exact).check_error_stat for name in names):
            raise UsageError(
                "The average over iterations cannot be checked element by element.",
                hint="Check max, mean, median or quantile for every output.",
            )

    def compare_arrays(self, value: Side, reference: Side, setting: str) -> CompareResult:
        """Return the comparison of two arrays of equal shape; metrics are computed on access."""
        return _comparison()(self, value, reference, setting)

    def __repr__(self) -> str:
        """Return the expression that creates the function."""
        return (
            f"SimpleCompareFunc(rtol={self.rtol!r}, atol={self.atol!r},"
            f" check_error_stat={self.check_error_stat!r})"
        )


@cache
def _comparison() -> Callable[[SimpleCompareFunc, Side, Side, str], CompareResult]:
    """Return the function that compares two arrays; imported once, because there may be thousands
    of outputs."""
    from polygraphy.domain.compare.simple_arrays import compare_arrays

    return compare_arrays


def _make_tolerance(
    check_error_stat: str | tuple[str, ...],
    atol: float | str | None,
    rtol: float | str | None,
    rounding: Rounding | None,
    given_by: str,
) -> Tolerance:
    """Return the tolerance from the given values, rounding, and the defaults."""
    from polygraphy.domain import limits as tolerance

    defaults = tolerance.DEFAULT_ATOL, tolerance.DEFAULT_RTOL
    explained = (None, None) if rounding is None else (rounding.atol, rounding.rtol)

    def limit(
        limit_given: float | str | None, default: float, explained: float | None
    ) -> tuple[Any, str]:
        """Return a limit and its source.

        The limit is the value that was set, the rounding limit for "auto", or the default.
        """
        if limit_given is None:
            return default, "the default"
        if limit_given == AUTO and explained is not None:
            return explained, f"{tolerance.ROUNDING_LIMIT} of {rounding}"
        return limit_given, given_by

    absolute, why_absolute = limit(atol, defaults[0], explained[0])
    relative, why_relative = limit(rtol, defaults[1], explained[1])
    reason = tolerance.joint_reason(why_absolute, why_relative)
    return tolerance.Tolerance(check_error_stat, absolute, relative, reason)


_shared_tolerance = lru_cache(maxsize=256, typed=True)(_make_tolerance)
"""The outputs of many iterations share one."""
