"""Base of comparison functions, without NumPy, for programs that only name one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.tensors.naming import match_name

if TYPE_CHECKING:
    from polygraphy.domain.compare.pairwise import Side
    from polygraphy.domain.compare.result import CompareResult
    from polygraphy.domain.results.results import IterationResult
    from polygraphy.domain.tensors.pairing import FindOutput


class BaseCompareFunc(Protocol):
    """Compares one iteration of two runs. Any callable with this signature can be used."""

    def __call__(
        self, iter_result0: IterationResult, iter_result1: IterationResult
    ) -> Mapping[str, Any]:
        """Return, by output of the first run, a value that is true if the output passed."""


class PairwiseCompareFunc:
    """A comparison function that compares one pair of outputs at a time.

    Subclasses implement the comparison of two arrays of one shape (`compare_arrays`), and list the
    settings that may differ between outputs (`per_output_settings`). This class handles pairing,
    shapes, missing outputs and settings for outputs that do not exist. Other functions may also
    have `check_averages`, `grant_threads` and `label`, which are called in the same way.

    Attributes:
        label: a name for logs and results.
    """

    label = ""
    given_by = "as given"
    """Why thresholds are what they are that were given, as verdicts say it."""
    _asked: int | None = None
    _granted = 1

    @property
    def threads(self) -> int:
        """Return the maximum number of threads for one large output.
        Setting it fixes the number.
        """
        return self._asked or self._granted

    @threads.setter
    def threads(self, count: int) -> None:
        """Return the maximum number of threads for one large output.
        Setting it fixes the number.
        """
        self._asked = count

    def grant_threads(self, count: int) -> None:
        """Set the number of threads, unless a fixed number is set."""
        self._granted = count

    def __init__(
        self,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set whether shapes must match, whether to stop at the first failure, and how outputs are
        paired."""
        self.check_shapes = check_shapes is not False
        self.fail_fast = bool(fail_fast)
        self.find_output_func = find_output_func

    def per_output_settings(self) -> Iterable[Any]:
        """Return the settings that may be dictionaries from output names to values."""
        raise NotImplementedError

    def compare_arrays(self, value: Side, reference: Side, setting: str) -> CompareResult:
        """Return the comparison of two arrays of equal shape; `setting` is the key of settings."""
        raise NotImplementedError

    def check_averages(self) -> None:
        """Raise an error unless averages over iterations can be judged.

        Raises:
            UsageError: it cannot: a verdict is about single elements.
        """

    def named_outputs(self) -> set[str]:
        """Return the names of outputs with their own settings."""
        return {
            name
            for setting in self.per_output_settings()
            if setting is not None and isinstance(setting, Mapping)
            for name in setting
            if name
        }

    def setting_name(self, name0: str, name1: str, settings: Mapping[str, str]) -> str:
        """Return the key of an output's settings: its name in the first, else the second run."""
        return settings.get(name0) or settings.get(name1) or name0

    def settings_by_output(self, dims: Collection[str]) -> dict[str, str]:
        """Return, by output, the key of its own settings; outputs without any are missing.

        Raises:
            UnknownNameError: a setting is for an output that neither run has.
        """
        settings: dict[str, str] = {}
        for name in sorted(self.named_outputs()):
            output = match_name(name, dims)
            if output is None:
                raise UnknownNameError("Output", name, dims)
            if name == output or output not in settings:
                settings[output] = name
        return settings

    def __call__(
        self, iter_result0: IterationResult, iter_result1: IterationResult
    ) -> dict[str, CompareResult]:
        """Return the comparison of each output of one iteration of two runs.

        Returns:
            One result per output of the first run, in its order, then one per output that only the
            second run has. They stay as they are, whatever becomes of the outputs.

        Raises:
            UnknownNameError: a setting names an output that neither run has.
        """
        results = self.compare(iter_result0, iter_result1)
        for result in results.values():
            result.own_arrays()
        return results

    def compare(
        self, iter_result0: IterationResult, iter_result1: IterationResult
    ) -> dict[str, CompareResult]:
        """Return the lazily computed results of `__call__`:
        the outputs must not change until `own_arrays` or `settle` is called on each result.
        """
        from polygraphy.domain.compare.pairwise import compare_pairs, output_names_of_runs

        settings: Mapping[str, str] = {}
        if self.named_outputs():
            settings = self.settings_by_output(output_names_of_runs(iter_result0, iter_result1))

        def compare(value: Side, reference: Side) -> CompareResult:
            """Return the comparison of two outputs, by their own settings."""
            setting = self.setting_name(value.name, reference.name, settings)
            return self.compare_arrays(value, reference, setting)

        return compare_pairs(
            iter_result0,
            iter_result1,
            compare,
            self.find_output_func,
            check_shapes=self.check_shapes,
            fail_fast=self.fail_fast,
        )
