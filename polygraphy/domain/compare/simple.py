"""The comparison function `simple`: absolute and relative differences, element by element or by a
statistic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Union

import numpy as np

from polygraphy.domain.arithmetic import Difference
from polygraphy.domain.compare.align import aligned
from polygraphy.domain.compare.result import (
    ComparedTensor,
    CompareResult,
    OutputCompareResult,
    UncomparedResult,
)
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.pairing import FindOutput, OutputPair, pair_outputs
from polygraphy.domain.per_output import PerOutput, value_for
from polygraphy.domain.results import IterationResult
from polygraphy.domain.tolerance import DEFAULT_ATOL, DEFAULT_RTOL, Tolerance

__all__ = ["DEFAULT_ERROR_QUANTILE", "BaseCompareFunc", "SimpleCompareFunc"]

DEFAULT_ERROR_QUANTILE = 0.99

Statistic = Union[str, Sequence[str]]


class BaseCompareFunc(Protocol):
    """Compares one iteration of two runs. Any callable of this form will do."""

    def __call__(
        self, iter_result0: IterationResult, iter_result1: IterationResult
    ) -> Mapping[str, Any]:
        """Return, per output of the first run, something that is truthy when it passed."""


class SimpleCompareFunc:
    """Compares absolute and relative differences with tolerances.

    The second run is the reference: relative differences are of the magnitude of its values.
    """

    label = "simple"

    def __init__(
        self,
        check_shapes: bool | None = None,
        rtol: PerOutput[float] | None = None,
        atol: PerOutput[float] | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
        check_error_stat: PerOutput[Statistic] | None = None,
        infinities_compare_equal: bool | None = None,
        error_quantile: PerOutput[float] | None = None,
    ) -> None:
        """Set what is tolerated; each setting may be one value, or one per output.

        Args:
            check_shapes: whether outputs of different shapes fail (the default), or are transposed
                or reshaped.
            rtol: the largest tolerable relative difference; 1e-5 unless given.
            atol: the largest tolerable absolute difference; 1e-5 unless given.
            fail_fast: whether to stop at the first output that fails.
            find_output_func: finds the partner of an output: called with its name, its position and
                the second run's outputs, returns one or several names, or None.
            check_error_stat: what is checked: ``elemwise`` (the default), ``max``, ``mean``,
                ``median`` or ``quantile``, or several of them, all of which must pass.
            infinities_compare_equal: whether two infinities of the same sign are equal.
            error_quantile: the quantile that ``quantile`` checks, from 0 to 1; 0.99 unless given.

        Raises:
            UsageError: a value is out of its range.
        """
        self.check_shapes = check_shapes is not False
        self.rtol = rtol
        self.atol = atol
        self.fail_fast = bool(fail_fast)
        self.find_output_func = find_output_func
        self.check_error_stat = check_error_stat
        self.infinities_compare_equal = bool(infinities_compare_equal)
        self.error_quantile = error_quantile
        self.threads = 1
        for name in self._named_outputs() | {""}:
            self.tolerance_for(name)
            self._quantile_for(name)

    def tolerance_for(self, name: str) -> Tolerance:
        """Return what the output `name` is held to."""
        given = self.rtol is not None or self.atol is not None
        return Tolerance(
            check_error_stat=value_for(self.check_error_stat, name, "elemwise"),
            atol=value_for(self.atol, name, DEFAULT_ATOL),
            rtol=value_for(self.rtol, name, DEFAULT_RTOL),
            reason="as given" if given else "the default",
        )

    def thresholds_for(self, output_name: str) -> Tolerance:
        """Return what the output is held to."""
        return self.tolerance_for(output_name)

    def _quantile_for(self, name: str) -> float:
        quantile = float(value_for(self.error_quantile, name, DEFAULT_ERROR_QUANTILE))
        if not 0 <= quantile <= 1:
            raise UsageError(f"A quantile lies between 0 and 1, unlike {quantile}.")
        return quantile

    def _named_outputs(self) -> set[str]:
        settings = (self.rtol, self.atol, self.check_error_stat, self.error_quantile)
        return {
            name for setting in settings if isinstance(setting, Mapping) for name in setting if name
        }

    def _setting_name(self, name0: str, name1: str) -> str:
        """Return the name under which an output has its settings: the first run's, or the
        second's.
        """
        named = self._named_outputs()
        return name1 if name1 in named and name0 not in named else name0

    def __call__(
        self, iter_result0: IterationResult, iter_result1: IterationResult
    ) -> dict[str, CompareResult]:
        """Compare all outputs of one iteration of two runs.

        Returns:
            One result per output of the first run, in its order, then one per output that only the
            second run has.

        Raises:
            UnknownNameError: a setting names an output that neither run has.
        """
        known = dict.fromkeys((*iter_result0, *iter_result1))
        for name in sorted(self._named_outputs()):
            if name not in known:
                raise UnknownNameError("Output", name, known)
        results: dict[str, CompareResult] = {}
        for pair in self._pairs(iter_result0, iter_result1):
            key = pair.name0 or pair.name1 or ""
            if key in results:  # An output may be compared with several.
                key = f"{pair.name0} vs. {pair.name1}"
            results[key] = self._compare(pair, iter_result0, iter_result1)
            if self.fail_fast and not results[key]:
                break
        return results

    def _pairs(self, result0: IterationResult, result1: IterationResult) -> Iterable[OutputPair]:
        if self.find_output_func is None:
            return pair_outputs(result0, result1)
        pairs = []
        for index, name in enumerate(result0):
            found = self.find_output_func(name, index, result1)
            partners = [found] if isinstance(found, str) or found is None else list(found)
            for partner in partners:
                if partner is not None and partner not in result1:
                    raise UnknownNameError(f"Output of {result1.runner_name}", partner, result1)
            pairs += [OutputPair(name, partner) for partner in partners or [None]]
        return pairs

    def _compare(
        self, pair: OutputPair, result0: IterationResult, result1: IterationResult
    ) -> CompareResult:
        if pair.name0 is None or pair.name1 is None:
            name = pair.name0 or pair.name1
            has, lacks = (result0, result1) if pair.name1 is None else (result1, result0)
            return UncomparedResult(
                f"Output {name!r} of {has.runner_name} has no counterpart in {lacks.runner_name}, "
                f"which has: {', '.join(map(repr, lacks)) or 'no outputs'}.",
                is_missing=True,
            )
        value, reference = np.asarray(result0[pair.name0]), np.asarray(result1[pair.name1])
        tensors = ComparedTensor.of(pair.name0, value), ComparedTensor.of(pair.name1, reference)
        fitted = aligned(value, reference, check_shapes=self.check_shapes)
        if fitted is None:
            failed = UncomparedResult(
                f"Shape mismatch: {tensors[0]} is compared with {tensors[1]}."
            )
            failed.tensor0, failed.tensor1 = tensors
            return failed
        difference = Difference(
            *fitted, infinities_equal=self.infinities_compare_equal, threads=self.threads
        )
        setting = self._setting_name(pair.name0, pair.name1)
        tolerance = self.tolerance_for(setting)
        result = OutputCompareResult.of(
            (pair.name0, pair.name1), fitted, difference, tolerance, self._quantile_for(setting)
        )
        result.tensor0, result.tensor1 = tensors
        return result

    def __repr__(self) -> str:
        return (
            f"SimpleCompareFunc(rtol={self.rtol!r}, atol={self.atol!r},"
            f" check_error_stat={self.check_error_stat!r})"
        )
