"""A part of a model that shows a fault by itself: what is handed to those who can mend it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.diagnosis.culprit import Culprit
from polygraphy.domain.rounding import deviation
from polygraphy.domain.tensors.precision import epsilon_of, is_float

MODEL_FILE, DATA_FOLDER, PROGRAM_FILE = "model.onnx", "test_data_set_0", "reproduce.py"
"""Contents of a folder with a failure; the first two as in onnx's backend tests."""


@frozen
class Failure:
    """A failure of a backend, with all that a program needs to reproduce it.

    Attributes:
        culprit: the parts at fault.
        model: the part, as an ``onnx.ModelProto``.
        inputs: its input values by name, in the order of its inputs.
        expected: the correct values, by name, in the order of its outputs.
        tolerances: by output how far it may be off; None where it has to be the same.
        party: the name of the backend that runs the model.
        settings: the settings of that party: arguments of its loader that are not the default.
        without: the rewrites that must be disabled for correct outputs; empty if unknown.
        nodes: the number of nodes of the whole model in the part.
        said: the observation, a sentence.
    """

    culprit: Culprit
    model: Any
    inputs: Mapping[str, Any]
    expected: Mapping[str, Any]
    tolerances: Mapping[str, float | None]
    party: str
    settings: Mapping[str, Any]
    without: Sequence[str]
    nodes: int
    said: str


def find_failing_outputs(
    values: Mapping[str, Any], expected: Mapping[str, Any], plain: Mapping[str, Any]
) -> tuple[str, dict[str, float | None]] | None:
    """Return a description of the failing outputs, and a tolerance for each; None if none fails.
    The tolerance detects the failure, but not rounding.

    Args:
        values: the computed values, by name.
        expected: the expected outputs.
        plain: the values of the same party without the fault, if known.
    """
    tolerances: dict[str, float | None] = {}
    text = ""
    most = 1.0
    for name, expected_value in expected.items():
        output_deviation = deviation(values[name], expected_value)
        usual = (
            deviation(plain[name], expected_value)
            if name in plain
            else deviation(expected_value, expected_value)
        )
        if not is_float(expected_value) or not np.isfinite(expected_value).any():
            tolerances[name] = None
        else:
            explained = _rounding_limit(expected_value)
            if np.isfinite(usual.largest):
                explained = max(explained, 2 * usual.largest)
            is_seen = np.isfinite(output_deviation.largest) and output_deviation.largest > explained
            tolerances[name] = _round(
                np.sqrt(explained * output_deviation.largest) if is_seen else explained
            )
        if output_deviation.excess > max(most, 4 * min(usual.excess, output_deviation.excess / 4)):
            text, most = f"{name!r} {output_deviation.in_words()}.", output_deviation.excess
    return (text, tolerances) if text else None


def usual_tolerances(expected: Mapping[str, Any]) -> dict[str, float | None]:
    """Return, by output, a tolerance of half its significant digits, or None.
    The result is None if it has no finite values.
    """
    return {
        name: (
            _round(np.sqrt(_rounding_limit(expected) * _size(expected)))
            if is_float(expected) and np.isfinite(expected).any()
            else None
        )
        for name, expected in expected.items()
    }


def _rounding_limit(expected: Any) -> float:
    """Return the largest error that rounding can cause in the largest element."""
    return max(32 * epsilon_of(expected.dtype) * _size(expected), 1e-30)


def _size(expected: Any) -> float:
    """Return the largest finite absolute value; 0 if there is none."""
    return float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))


def _round(value: float) -> float:
    """Return a number rounded to one digit."""
    return float(f"{value:.1g}")
