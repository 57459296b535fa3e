"""Runs small models in the reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.adapters.onnx_common.evaluated import failure_of
from polygraphy.domain.checks.lint import TrialValue
from polygraphy.domain.errors import BackendError, DataTypeConversionException
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry


class ReferenceTrial:
    """Loads models and runs each once."""

    def configured(
        self,
        providers: Sequence[Any] | None,
        graph_optimization_level: str | None,
        provider_libraries: Mapping[str, str] | None = None,
    ) -> ReferenceTrial:
        """Return this trial: there is one way only in which the evaluator runs models."""
        return self

    def run(
        self, model: bytes | str, feed: Mapping[str, Any], outputs: Sequence[str]
    ) -> dict[str, TrialValue]:
        """Load a model and run it; BackendError when that cannot be done."""
        given = {
            name: value.raw if isinstance(value, TrialValue) else np.asarray(value)
            for name, value in feed.items()
        }
        from polygraphy.adapters.onnx_common.evaluator import evaluator_of

        try:
            with np.errstate(all="ignore"):
                loaded = evaluator_of(model)
                taken = {name: given[name] for name in loaded.input_names if name in given}
                results = loaded.run(list(outputs), taken)
        except Exception as error:  # Implementations of operators are plain NumPy code.
            raise BackendError(failure_of(error), backend="onnx") from error
        return {name: _described(raw) for name, raw in zip(outputs, results)}


def _described(raw: Any) -> TrialValue:
    if isinstance(raw, list):
        return TrialValue(raw, _dtype(raw[0]) if raw else None, None)
    return TrialValue(raw, _dtype(raw), tuple(np.shape(raw)))


def _dtype(array: Any) -> DataTypeEntry | None:
    try:
        found: DataTypeEntry = DataType.from_dtype(np.asarray(array).dtype)
    except DataTypeConversionException:
        return None
    return found
