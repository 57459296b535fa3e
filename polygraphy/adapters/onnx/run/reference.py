"""Runs ONNX models in the reference evaluator of the `onnx` package: slow, in NumPy, and faithful
to the standard.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.base.loader import Deferred, evaluate
from polygraphy.adapters.onnx.describe.facts import find_facts
from polygraphy.adapters.onnx.graph.graph import sort_model
from polygraphy.adapters.onnx.graph.inlining import inline_functions
from polygraphy.adapters.onnx.storage.elements import elements, is_stripped
from polygraphy.adapters.onnx.storage.model import OnnxFromPath
from polygraphy.adapters.onnx.storage.weights import load_weights
from polygraphy.adapters.onnx_common.evaluated import (
    EvaluatedRunner,
    describe_failure,
    translate_errors,
)
from polygraphy.domain.checks.lint import TrialValue
from polygraphy.domain.data.loading import check_has_outputs
from polygraphy.domain.errors import BackendError, DataTypeConversionException
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.facts import Facts, ModelFacts

if TYPE_CHECKING:
    from onnx import ModelProto


numpy = mod.lazy_import("numpy")

translated = partial(
    translate_errors,
    who="The ONNX reference evaluator",
    backend="onnx",
    remedy="the reference evaluator does not support it.",
)


@mod.export()
class OnnxReferenceRunner(EvaluatedRunner):
    """Runs an ONNX model in the reference evaluator."""

    outputs_are_fresh = True
    leaves_inputs_alone = True
    rewrites_nothing = True

    def __init__(self, model: Deferred[ModelProto], name: str | None = None) -> None:
        """Create a runner of a model, or of the model that a loader returns on activation."""
        super().__init__(name=name, prefix="onnx-runner")
        self._model = model
        self._facts: Facts = ModelFacts()

    def activate_impl(self) -> None:
        """Load the model and look up the implementation of every node."""
        from polygraphy.adapters.onnx_common.evaluator import evaluator_of

        model = load_weights(inline_functions(sort_model(evaluate(self._model))))
        _check_weights(model)
        check_has_outputs(model.graph.output)
        with translated("load"):
            self._evaluator = evaluator_of(model)
        self._facts = find_facts(self._evaluator.proto_)

    def get_model_facts(self) -> Facts:
        """Return the facts about the model: the evaluator computes in the data types of its
        tensors.
        """
        return self._facts

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the outputs of one evaluation of the graph; see `EvaluatedRunner`."""
        with translated("run"):
            return super().infer_impl(feed_dict)


def _check_weights(model: ModelProto) -> None:
    """Raise ModelError if the elements of a weight are missing."""
    for tensor in model.graph.initializer:
        if is_stripped(tensor):
            elements(tensor)  # Reading the elements raises an error that says what to do.


def evaluate_constants(model: Any, outputs: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the values of `outputs`.
    Raise BackendError if the reference evaluator has no implementation.
    """
    from polygraphy.adapters.onnx_common.evaluator import evaluator_of

    with translated("evaluate"):
        values = evaluator_of(model).run(list(outputs), {})
    return {name: numpy.asarray(value) for name, value in zip(outputs, values)}


@mod.export()
class OnnxParty:
    """The reference evaluator of the onnx package; implements the port `SuspectedParty`."""

    name = "onnx"
    passes = ()
    rewrites = False
    levels: Sequence[str] = ()
    settings: Mapping[str, Any] = MappingProxyType({"module": "onnx.reference"})
    options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, name: str | None = None) -> None:
        """Set the name of the backend in a diagnosis."""
        self.name = name or type(self).name

    @property
    def backend(self) -> str:
        """Return the flag of its kind, without the dashes."""
        return type(self).name

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Return a function that evaluates a model; see the port."""
        runner = OnnxReferenceRunner(OnnxFromPath(model) if isinstance(model, str) else model)
        runner.activate()
        return partial(runner.infer, check_inputs=False)

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any | None:
        """Return the model itself, because nothing is rewritten."""
        return model

    def remedy(self, *, plain: bool, without: Collection[str]) -> Mapping[str, Any]:
        """Return no options, because nothing is rewritten."""
        return {}


class FormulaParty(OnnxParty):
    """Float64 formulas for single nodes; decides between two other backends."""

    name = "formulas"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Return a function that runs a model with formulas in float64."""
        from polygraphy.adapters.onnx_common.evaluator import formula_evaluator

        with translated("load"):
            return partial(_evaluate_outputs, formula_evaluator(model))


class PackageParty(OnnxParty):
    """The unmodified reference evaluator of the onnx package. It refuses nodes that `OnnxParty`
    computes with the same code."""

    name = "package"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Return a function that runs a model in the onnx package."""
        from onnx.reference import ReferenceEvaluator

        from polygraphy.adapters.onnx_common.evaluator import operators_run_by_onnx

        if borrowed := operators_run_by_onnx(model):
            borrowed_text = ", ".join(borrowed)
            raise BackendError(
                f"The reference evaluator uses {borrowed_text} from the onnx package, so the two"
                " are not independent.",
                backend=self.name,
            )
        with translated("load"):
            return partial(_evaluate_outputs, ReferenceEvaluator(model))


def _evaluate_outputs(evaluator: Any, feed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of an evaluator by name."""
    with translated("run"):
        return dict(zip(evaluator.output_names, evaluator.run(None, dict(feed))))


class ReferenceTrial:
    """Loads models and runs each of them once."""

    def with_settings(
        self,
        providers: Sequence[Any] | None,
        graph_optimization_level: str | None,
        provider_libraries: Mapping[str, str] | None = None,
    ) -> ReferenceTrial:
        """Return this trial, because the evaluator has no settings."""
        return self

    def run(
        self, model: bytes | str, feed: Mapping[str, Any], outputs: Sequence[str]
    ) -> dict[str, TrialValue]:
        """Return the outputs of a model, which is loaded and run.
        Raise BackendError if that fails."""
        raws = {
            name: value.raw if isinstance(value, TrialValue) else np.asarray(value)
            for name, value in feed.items()
        }
        from polygraphy.adapters.onnx_common.evaluator import evaluator_of

        try:
            with np.errstate(all="ignore"):
                loaded = evaluator_of(model)
                used_values = {name: raws[name] for name in loaded.input_names if name in raws}
                results = loaded.run(list(outputs), used_values)
        except Exception as error:  # Implementations of operators are plain NumPy code.
            raise BackendError(describe_failure(error), backend="onnx") from error
        return {name: _trial_value(raw) for name, raw in zip(outputs, results)}


def _trial_value(raw: Any) -> TrialValue:
    """Return a value with its data type and shape."""
    if isinstance(raw, list):
        return TrialValue(raw, _dtype(raw[0]) if raw else None, None)
    return TrialValue(raw, _dtype(raw), tuple(np.shape(raw)))


def _dtype(array: Any) -> DataTypeEntry | None:
    """Return the data type of an array; None if it is unknown."""
    try:
        dtype: DataTypeEntry = DataType.from_dtype(np.asarray(array).dtype)
    except DataTypeConversionException:
        return None
    return dtype
