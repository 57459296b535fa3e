"""A program, exported again by the exporter of a model, if that export is correct."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.rounding import rounding_accumulates
from polygraphy.domain.diagnosis.foreign_errors import foreign_errors, original_error
from polygraphy.domain.diagnosis.words import steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import (
    Exporter,
    OpenedProgram,
    describe_with_weights,
)
from polygraphy.ports.editing import OpenModel, open_model


@frozen
class ReferenceExport:
    """A correct export of the program, by the exporter of the model.

    Attributes:
        model: the export.
        exporter: the name of the exporter.
        command: the command line that exports it; empty if there is none.
        is_same_release: whether the model names the version of this exporter.
        release: the version of this exporter.
    """

    model: OpenModel
    exporter: Exporter
    command: str
    is_same_release: bool
    release: str

    @property
    def words(self) -> str:
        """Return the name of the exporter as text."""
        return f"dynamo={self.exporter.dynamo}"


def export_again(
    case: Case, program: OpenedProgram, feed: Feed, expected: Values
) -> ReferenceExport | None:
    """Return a new export of the program in the same way as the model; None if that fails.

    Args:
        case: the model.
        program: the program that the model was exported from.
        feed: the data, which are the example.
        expected: the results of the program, by the outputs of the model.

    Returns:
        The export; None where the exporter fails, or what it makes is wrong as well.
    """
    described = describe_with_weights(case.model.given)
    producer, _, release = described.producer.rpartition(" ")
    recorded = bool(getattr(case.facts, "sources", {}))
    kinds = [recorded] if recorded or "torch" in producer.lower() else [False, True]
    sizes = {
        name: {
            axis: dim
            for axis, dim in enumerate(meta.shape or ())
            if isinstance(dim, str) and not dim.isdigit()  # Some exporters use lengths as names.
        }
        for name, meta in case.model.inputs.items()
    }
    opset = described.opsets.get("", described.opsets.get("ai.onnx"))
    with case.record_step(titles.SAME_EXPORTER) as notes:
        for dynamo in kinds:
            exporter = Exporter(dynamo, opset, sizes, case.model.outputs)
            try:
                model, command, exporter = export_for_example(program, feed, exporter)
                with foreign_errors():  # The export may have different inputs and outputs.
                    is_right = _is_right(case, model, example_of(program, feed), expected)
            except PolygraphyException as error:
                kind = type(original_error(error)).__name__
                notes.append(steps.twin_fails(f"dynamo={dynamo}", kind))
                continue
            notes.append(steps.twin_is(f"dynamo={dynamo}", is_right))
            if is_right:
                is_same_release = release.partition("+")[0] == program.release or not producer
                return ReferenceExport(model, exporter, command, is_same_release, program.release)
    return None


def export_for_example(
    program: OpenedProgram, feed: Feed, exporter: Exporter
) -> tuple[OpenModel, str, Exporter]:
    """Return the model exported for an example, the command for it, and the settings.

    The model has dynamic sizes if possible, else fixed ones.

    Raises:
        BackendError: the exporter fails, or the example is not valid.
        ModelError: it exports an invalid model.
    """

    def export(exporter: Exporter) -> tuple[OpenModel, str, Exporter]:
        """Return the model exported with some sizes, the command, and the settings."""
        with foreign_errors():
            model, command = program.export_again(feed, exporter)
            return open_model(model), command, exporter

    try:
        return export(exporter)
    except PolygraphyException:
        if not any(exporter.sizes.values()):
            raise
        return export(evolve(exporter, sizes={}))


def example_of(program: OpenedProgram, feed: Feed) -> Feed:
    """Return the data of all inputs of a program, also of those that its model lacks."""
    return {**feed, **getattr(program, "lost", {})}


def feed_export(model: OpenModel, feed: Feed) -> Feed:
    """Return the data under the input names of a new export,
    and in its precision if the model has another one."""
    is_named = set(model.inputs) <= feed.keys()
    arrays = [feed[name] for name in model.inputs] if is_named else [*feed.values()]
    pairs = zip(model.inputs.items(), arrays, strict=True)
    return {name: _in_precision(array, meta.dtype) for (name, meta), array in pairs}


def _in_precision(array: Any, dtype: DataTypeEntry | None) -> Any:
    """Return floating-point numbers in another floating-point type; other arrays unchanged."""
    if dtype is None or not dtype.is_floating or not is_float(np.asarray(array)):
        return array
    return np.asarray(array).astype(dtype.numpy(), copy=False)


def _is_right(case: Case, model: OpenModel, feed: Feed, expected: Values) -> bool:
    """Return whether a model computes the expected outputs up to rounding."""
    exported_feed = feed_export(model, feed)
    values = case.parties[0].load(model.given)(exported_feed)
    names = dict(zip(case.model.outputs, model.outputs, strict=True))
    expected_values = {names[name]: value for name, value in expected.items()}
    apart = case.with_model(model)
    differing = apart.find_deviations(values, expected_values)
    return not differing or rounding_accumulates(
        apart, [exported_feed], {0: [values], 1: [expected_values]}
    )
