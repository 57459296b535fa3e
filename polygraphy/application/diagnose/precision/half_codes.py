"""What half precision changes in the codes of a quantized model: by one quantization step, or more.

Every node that computes codes runs on the codes of float32, so that one difference does not cause
the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polygraphy.application.diagnose.case import REFUSALS
from polygraphy.application.diagnose.precision.half import Feed, OpenedHalf, open_half
from polygraphy.domain.diagnosis.words import quantization as words
from polygraphy.domain.quantization.code_tensors import StepDifference, step_differences
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.ports.diagnosing import CodeTensors, Compute, find_code_tensors

LoadHalf = Callable[[OpenedHalf, Any], Compute]
"""Returns a function that computes a model in half precision: opened, and as it is in float32."""


def rounded_node_by_node(half: OpenedHalf, model: Any) -> Compute:
    """Return a function that computes a model with rounding at every operator."""
    return half.model.load()


def find_half_steps(
    model: Any,
    dtype: DataTypeEntry,
    feeds: Sequence[Feed],
    notes: list[str],
    load: LoadHalf = rounded_node_by_node,
) -> Sequence[StepDifference]:
    """Return the tensors of codes that half precision changes by one quantization step, each
    computed from equal codes; empty if that does not explain the outputs.

    Args:
        model: a quantized model, an ``onnx.ModelProto`` in float32.
        dtype: the narrow type.
        feeds: the data.
        notes: receives the sentence about the differences.
        load: loads the model in half precision.
    """
    codes = find_code_tensors(model)
    if not codes.tensors:
        return ()
    try:
        differences, explains = _compare_codes(codes, dtype, feeds, load)
    except REFUSALS as error:
        notes.append(words.codes_not_compared(error))
        return ()
    notes.append(words.code_differences(differences, len(codes.tensors)))
    return (
        differences if explains and all(difference.steps == 1 for difference in differences) else ()
    )


def _compare_codes(
    codes: CodeTensors, dtype: DataTypeEntry, feeds: Sequence[Feed], load: LoadHalf
) -> tuple[list[StepDifference], bool]:
    """Return the largest difference of each tensor of codes, and whether outputs match.
    They match if those that are computed from equal codes are within the tolerance.
    """
    worst: dict[str, StepDifference] = {}
    exact = open_half(codes.with_codes(), dtype).model.load(plain=True)
    explains = True
    for feed in feeds:
        values = exact(feed)
        given_codes = {tensor.name: np.asarray(values[tensor.name]) for tensor in codes.tensors}
        split, extra = codes.split(given_codes)
        half = open_half(split, dtype)
        computed = load(half, split)({**feed, **extra})
        # Outputs without a later quantization have the limit of half precision.
        outputs = {name: value for name, value in values.items() if name not in given_codes}
        explains = explains and half.tolerance.error(outputs, computed).is_tolerable
        for difference in step_differences(codes.tensors, given_codes, computed):
            before = worst.get(difference.tensor.name, difference)
            worst[difference.tensor.name] = max(
                difference, before, key=lambda candidate: (candidate.steps, candidate.share)
            )
    return [*worst.values()], explains
