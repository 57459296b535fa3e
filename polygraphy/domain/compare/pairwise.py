"""Compares the outputs of two runs pair by pair: which with which, and in what shape."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define

from polygraphy.domain.compare.result import (
    ComparedTensor,
    CompareResult,
    OutputCompareResult,
    UncomparedResult,
)
from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.results.results import IterationResult, Lineage, label_of_runner
from polygraphy.domain.sizes import flat_elements
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.facts import Facts, compute_dtype
from polygraphy.domain.tensors.maps import common_keys, numbers_of_maps
from polygraphy.domain.tensors.pairing import FindOutput, OutputPair, pair_by_source, pair_outputs


@define  # Not frozen: an iteration may have hundreds, and frozen objects take longer to create.
class Side:
    """One of the two outputs of a comparison, with facts about its model.

    Attributes:
        tensor: the known facts about the output.
        array: its elements, in the shape that both sides were brought to.
        outputs: all outputs of the run.
    """

    tensor: ComparedTensor
    array: Array
    outputs: Mapping[str, Any]

    @property
    def facts(self) -> Facts | None:
        """Return facts about the model; None if unknown."""
        return self.outputs.facts if isinstance(self.outputs, IterationResult) else None

    @property
    def compute_dtype(self) -> str | None:
        """Return the least precise data type in the computation of the output; None if unknown.
        Can load the model, so read it only if needed.
        """
        return compute_dtype(self.facts, self.name)

    @property
    def lineage(self) -> Lineage | None:
        """Return the tensors from which the outputs were computed; None if unknown."""
        return self.outputs.lineage if isinstance(self.outputs, IterationResult) else None

    def perturbed_outputs(self, dtype: str) -> Sequence[Mapping[str, Any]]:
        """Return two perturbed computations of the outputs, rounded to a data type.
        The result is empty if not possible.
        """
        perturb = self.outputs.perturb if isinstance(self.outputs, IterationResult) else None
        return () if perturb is None else perturb(dtype)

    @property
    def name(self) -> str:
        """The name of the output in its run."""
        return self.tensor.name


def compare_pairs(
    result0: IterationResult,
    result1: IterationResult,
    compare: Callable[[Side, Side], CompareResult],
    find_output: FindOutput | None,
    *,
    check_shapes: bool,
    fail_fast: bool,
) -> dict[str, CompareResult]:
    """Return, by output, the result of comparing one iteration of two runs.

    Args:
        result0: the outputs of the first run.
        result1: those of the second run, the reference.
        compare: compares two outputs of one shape.
        find_output: finds the counterpart of an output; see `PairwiseCompareFunc`.
        check_shapes: whether outputs of different shapes fail.
        fail_fast: whether to stop at the first output that fails.
    """
    results: dict[str, CompareResult] = {}
    for pair in _pairs(find_output, result0, result1):
        key = pair.name0 or pair.name1 or ""
        if key in results:
            # Add the other name, because the output is compared with several outputs.
            name0 = pair.name0 or f"nothing of {result0.runner_name}"
            key = f"{name0} vs. {pair.name1}"
        results[key] = _compare_pair(pair, result0, result1, compare, check_shapes=check_shapes)
        if fail_fast and not results[key]:
            break
    OutputCompareResult.prepare_verdicts(results.values())
    return results


def _pairs(
    find_output: FindOutput | None, result0: IterationResult, result1: IterationResult
) -> Iterable[OutputPair]:
    """Return the pairs of outputs to compare."""
    if find_output is None:
        if is_program(result0) == is_program(result1):
            return pair_outputs(result0, result1)
        return pair_by_source(result0, result1, _sources(result0), _sources(result1))
    pairs = []
    for index, name in enumerate(result0):
        output = find_output(name, index, result1)
        partners = [output] if isinstance(output, str) or output is None else list(output)
        for partner in partners:
            if partner is not None and partner not in result1:
                raise UnknownNameError(
                    f"Output of {label_of_runner(result1.runner_name)}", partner, result1
                )
        pairs += [OutputPair(name, partner) for partner in partners or [None]]
    return pairs


def _compare_pair(
    pair: OutputPair,
    result0: IterationResult,
    result1: IterationResult,
    compare: Callable[[Side, Side], CompareResult],
    *,
    check_shapes: bool,
) -> CompareResult:
    """Return the comparison of two outputs, or that one of them is missing."""
    if pair.name0 is None or pair.name1 is None:
        name = pair.name0 or pair.name1
        has, lacks = (result0, result1) if pair.name1 is None else (result1, result0)
        return UncomparedResult(
            f"Output {name!r} of {label_of_runner(has.runner_name)} has no counterpart in"
            f" {label_of_runner(lacks.runner_name)}, which has:"
            f" {', '.join(map(repr, lacks)) or 'no outputs'}.",
            is_missing=True,
        )
    value, reference = _arrays(result0[pair.name0], result1[pair.name1])
    if value is None or reference is None:
        name, run = (pair.name0, result0) if value is None else (pair.name1, result1)
        return UncomparedResult(
            f"Output {name!r} of {label_of_runner(run.runner_name)} is a sequence of tensors"
            " whose shapes differ from those of the other run."
        )
    tensors = ComparedTensor.of(pair.name0, value), ComparedTensor.of(pair.name1, reference)
    fitted = align_shapes(value, reference, check_shapes=check_shapes)
    if fitted is None:
        result: CompareResult = UncomparedResult(
            f"Shape mismatch: {tensors[0]} is compared with {tensors[1]}."
        )
    else:
        result = compare(Side(tensors[0], fitted[0], result0), Side(tensors[1], fitted[1], result1))
    result.tensor0, result.tensor1 = tensors
    return result


def output_names_of_runs(*runs: Mapping[str, Any]) -> Collection[str]:
    """Return the output names of all runs, including outputs that are compared separately."""
    return dict.fromkeys(
        name
        for outputs in runs
        for name in (outputs.known_names() if isinstance(outputs, IterationResult) else outputs)
    )


def _sources(outputs: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the program tensors that outputs come from; empty if unknown."""
    if is_program(outputs):
        return {name: name for name in outputs}
    return getattr(getattr(outputs, "facts", None), "sources", {})


def is_program(outputs: Any) -> bool:
    """Return whether outputs are all tensors of a program; see `Facts.is_program`."""
    return getattr(getattr(outputs, "facts", None), "is_program", False)


def _arrays(value: Any, reference: Any) -> tuple[Array | None, Array | None]:
    """Return two outputs as arrays, or None.
    The result is None for a sequence of different shapes, unless the other output has the same
    shapes."""
    if isinstance(value, np.ndarray) and isinstance(reference, np.ndarray):
        return value, reference
    keys = common_keys(value, reference)
    if keys:
        return numbers_of_maps(value, keys), numbers_of_maps(reference, keys)
    arrays = _array(value), _array(reference)
    if (
        arrays[0] is None
        and arrays[1] is None
        and [*map(np.shape, value)] == [*map(np.shape, reference)]
    ):
        return flat_elements(value), flat_elements(reference)
    return arrays


def _array(output: Any) -> Array | None:
    """Return an output as an array; None for a sequence of different shapes."""
    try:
        return np.asarray(output)
    except ValueError:
        return None


def align_shapes(
    value: Array, reference: Array, *, check_shapes: bool
) -> tuple[Array, Array] | None:
    """Return both arrays in the shape of `value`, or None.
    The result is None if the shapes differ and must match, or cannot be reconciled.

    The same dimensions in a different order mean a transposed array, for which the first order that
    fits is used; other shapes with the same number of elements mean a reshaped one.
    """
    if value.shape == reference.shape:
        return value, reference
    if check_shapes or value.size != reference.size:
        return None
    if sorted(value.shape) == sorted(reference.shape):
        axes: list[int] = []
        for dim in value.shape:
            axes.append(
                next(a for a, d in enumerate(reference.shape) if d == dim and a not in axes)
            )
        return value, reference.transpose(axes)
    return value, reference.reshape(value.shape)
