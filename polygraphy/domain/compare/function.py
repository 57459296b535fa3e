"""What comparison functions share: which output is compared with which, and in what shape."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from attrs import frozen

from polygraphy.domain.compare.align import aligned
from polygraphy.domain.compare.result import ComparedTensor, CompareResult, UncomparedResult
from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.results.lineage import Lineage
from polygraphy.domain.results.results import IterationResult
from polygraphy.domain.results.runner_names import label_of_runner
from polygraphy.domain.tensors.facts import Facts, compute_dtype
from polygraphy.domain.tensors.naming import meant
from polygraphy.domain.tensors.pairing import FindOutput, OutputPair, pair_by_source, pair_outputs

Array = np.ndarray[Any, Any]


class BaseCompareFunc(Protocol):
    """Compares one iteration of two runs. Any callable of this form will do."""

    def __call__(
        self, iter_result0: IterationResult, iter_result1: IterationResult
    ) -> Mapping[str, Any]:
        """Return, per output of the first run, something that is truthy when it passed."""


@frozen
class Side:
    """One side of a comparison.

    Attributes:
        tensor: what is known of the output.
        array: its elements, in the shape that both sides were brought to.
        outputs: all outputs of the run.
    """

    tensor: ComparedTensor
    array: Array
    outputs: Mapping[str, Any]

    @property
    def facts(self) -> Facts | None:
        """What is known of the model; None when nothing is."""
        return self.outputs.facts if isinstance(self.outputs, IterationResult) else None

    @property
    def computed_in(self) -> str | None:
        """The coarsest data type in which the output was computed; None when not known. Finding out
        may take looking into a model, so it is only asked for where it matters.
        """
        return compute_dtype(self.facts, self.name)

    @property
    def lineage(self) -> Lineage | None:
        """What the outputs were computed from; None where that is not known."""
        return self.outputs.lineage if isinstance(self.outputs, IterationResult) else None

    @property
    def name(self) -> str:
        """Name of the output in its run."""
        return self.tensor.name


class JudgesAverages(Protocol):
    """What a comparison function may have besides: a say in whether averages can be judged."""

    def check_averages(self) -> None:
        """Raise `UsageError` if the mean of the metrics of several iterations cannot be judged."""


class UsesThreads(Protocol):
    """What a comparison function may have besides: several threads."""

    def grant_threads(self, count: int) -> None:
        """Set how many threads may be used where the user has not asked for a number."""


class Labelled(Protocol):
    """What a comparison function may have besides: a name for logs and results."""

    label: str


class PairwiseCompareFunc:
    """A comparison function that answers about one pair of outputs at a time.

    Subclasses say how two arrays of one shape are compared (`compare_arrays`), and which of their
    settings may differ from output to output (`per_output_settings`). Pairing, shapes, missing
    outputs and settings for outputs that do not exist are dealt with here.
    """

    label = ""
    given_by = "as given"
    """Why thresholds are what they are that were given, as verdicts say it."""
    _asked: int | None = None
    _granted = 1

    @property
    def threads(self) -> int:
        """How many threads may work on a large output at the same time; setting it asks for a
        number, which is never exceeded.
        """
        return self._asked or self._granted

    @threads.setter
    def threads(self, count: int) -> None:
        self._asked = count

    def grant_threads(self, count: int) -> None:
        """Say how many threads may be used where nobody asked for a number."""
        self._granted = count

    def __init__(
        self,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        self.check_shapes = check_shapes is not False
        self.fail_fast = bool(fail_fast)
        self.find_output_func = find_output_func

    def per_output_settings(self) -> Iterable[Any]:
        """Return the settings that may be dictionaries from output names to values."""
        raise NotImplementedError

    def compare_arrays(self, value: Side, reference: Side, setting: str) -> CompareResult:
        """Compare two arrays of one shape; `setting` is the name that settings are looked up by."""
        raise NotImplementedError

    def check_averages(self) -> None:
        """Make sure that the mean of the metrics of several iterations can be judged.

        Raises:
            UsageError: it cannot: a verdict is about single elements.
        """

    def named_outputs(self) -> set[str]:
        """Return the names of the outputs that have a setting of their own."""
        return {
            name
            for setting in self.per_output_settings()
            if isinstance(setting, Mapping)
            for name in setting
            if name
        }

    def _setting_name(self, name0: str, name1: str, settings: Mapping[str, str]) -> str:
        """Return the name under which an output has its settings: the first run's, or the
        second's.
        """
        return settings.get(name0) or settings.get(name1) or name0

    def _settings_by_output(self, known: Collection[str]) -> dict[str, str]:
        """Return under which name those outputs have settings that have some of their own.

        Raises:
            UnknownNameError: a setting is for an output that neither run has.
        """
        settings: dict[str, str] = {}
        for name in sorted(self.named_outputs()):
            output = meant(name, known)
            if output is None:
                raise UnknownNameError("Output", name, known)
            if name == output or output not in settings:
                settings[output] = name
        return settings

    def __call__(
        self, iter_result0: IterationResult, iter_result1: IterationResult
    ) -> dict[str, CompareResult]:
        """Compare all outputs of one iteration of two runs.

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
        """Do what a call does, for whoever does not change the outputs before each result was told
        to `own_arrays` or `settle`: until then, results may compute from the outputs themselves.
        """
        known = dict.fromkeys((*_known_names(iter_result0), *_known_names(iter_result1)))
        settings = self._settings_by_output(known)
        results: dict[str, CompareResult] = {}
        for pair in self._pairs(iter_result0, iter_result1):
            key = pair.name0 or pair.name1 or ""
            if key in results:  # An output may be compared with several.
                one = pair.name0 or f"nothing of {iter_result0.runner_name}"
                key = f"{one} vs. {pair.name1}"
            results[key] = self._compare(pair, iter_result0, iter_result1, settings)
            if self.fail_fast and not results[key]:
                break
        return results

    def _pairs(self, result0: IterationResult, result1: IterationResult) -> Iterable[OutputPair]:
        if self.find_output_func is None:
            if is_program(result0) == is_program(result1):
                return pair_outputs(result0, result1)
            return pair_by_source(result0, result1, _sources(result0), _sources(result1))
        pairs = []
        for index, name in enumerate(result0):
            found = self.find_output_func(name, index, result1)
            partners = [found] if isinstance(found, str) or found is None else list(found)
            for partner in partners:
                if partner is not None and partner not in result1:
                    raise UnknownNameError(
                        f"Output of {label_of_runner(result1.runner_name)}", partner, result1
                    )
            pairs += [OutputPair(name, partner) for partner in partners or [None]]
        return pairs

    def _compare(
        self,
        pair: OutputPair,
        result0: IterationResult,
        result1: IterationResult,
        settings: Mapping[str, str],
    ) -> CompareResult:
        if pair.name0 is None or pair.name1 is None:
            name = pair.name0 or pair.name1
            has, lacks = (result0, result1) if pair.name1 is None else (result1, result0)
            return UncomparedResult(
                f"Output {name!r} of {label_of_runner(has.runner_name)} has no counterpart in"
                f" {label_of_runner(lacks.runner_name)}, which has:"
                f" {', '.join(map(repr, lacks)) or 'no outputs'}.",
                is_missing=True,
            )
        arrays = _array(result0[pair.name0]), _array(result1[pair.name1])
        for name, run, array in zip((pair.name0, pair.name1), (result0, result1), arrays):
            if array is None:
                return UncomparedResult(
                    f"Output {name!r} of {label_of_runner(run.runner_name)} is a sequence of"
                    " tensors of different shapes, not a tensor: sequences are not compared."
                )
        value, reference = (np.asarray(array) for array in arrays)
        tensors = ComparedTensor.of(pair.name0, value), ComparedTensor.of(pair.name1, reference)
        fitted = aligned(value, reference, check_shapes=self.check_shapes)
        if fitted is None:
            result: CompareResult = UncomparedResult(
                f"Shape mismatch: {tensors[0]} is compared with {tensors[1]}."
            )
        else:
            result = self.compare_arrays(
                Side(tensors[0], fitted[0], result0),
                Side(tensors[1], fitted[1], result1),
                self._setting_name(pair.name0, pair.name1, settings),
            )
        result.tensor0, result.tensor1 = tensors
        return result


def _known_names(outputs: Mapping[str, Any]) -> Iterable[str]:
    """Return the names of a run's outputs, also of those that are compared at another time."""
    return outputs.known_names() if isinstance(outputs, IterationResult) else outputs


def _sources(outputs: Mapping[str, Any]) -> Mapping[str, str]:
    """Return from which tensors of a program outputs come; nothing where that is not known."""
    if is_program(outputs):
        return {name: name for name in outputs}
    return getattr(getattr(outputs, "facts", None), "sources", {})


def is_program(outputs: Any) -> bool:
    """Return whether outputs are all tensors of a program; see `Facts.is_program`."""
    return getattr(getattr(outputs, "facts", None), "is_program", False)


def _array(output: Any) -> Array | None:
    """Return an output as an array; None for a sequence of what is not of one shape."""
    try:
        return np.asarray(output)
    except ValueError:
        return None
