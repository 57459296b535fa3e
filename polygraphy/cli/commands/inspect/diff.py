"""The command `inspect diff`."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.inspect.data import ReferenceOptions
from polygraphy.cli.declare.errors import CommandLineError, warn_of_idle_flags
from polygraphy.cli.declare.option import Values, call_of, non_default_flags
from polygraphy.cli.shared.compare import (
    FunctionOptions,
    JudgeOptions,
    PlotOptions,
    SimpleOptions,
    TopKOptions,
    compare_func_of,
    functions_of,
)
from polygraphy.codegen.source import quote_word
from polygraphy.domain.catalog.formats import format_named

_COMPARISON = (JudgeOptions, SimpleOptions, FunctionOptions, TopKOptions, PlotOptions)
"""Options for comparing numbers."""


class InspectDiffCommand(Command):
    """Compare saved outputs or inputs with a reference, or an ONNX model with another one: inputs,
    outputs, nodes, attributes and initializers. Relative differences refer to the values of the
    reference. Exits with 0 if everything matches, and with 1 otherwise.
    """

    name = "inspect diff"
    groups = (ReferenceOptions, *_COMPARISON)

    def program(self, values: Values) -> Program:
        """Return the program that compares two files."""
        files = values[ReferenceOptions]
        if _are_models(files):
            unused = non_default_flags(values, _COMPARISON)
            warn_of_idle_flags(unused, ", because models have no tolerance")
            return Program(
                "check.py.j2",
                f"Compare {quote_word(files.candidate)} with the model"
                f" {quote_word(files.reference)}.",
                call=call_of("compare_models", values),
            )
        return Program(
            "inspect_diff.py.j2",
            f"Compare {quote_word(files.candidate)} with the reference"
            f" {quote_word(files.reference)}.",
            call=call_of(
                "compare_saved", values, compare_func=compare_func_of(functions_of(values))
            ),
        )


def _are_models(files: ReferenceOptions) -> bool:
    """Return whether the files have the extensions of ONNX models."""
    models = [path for path in (files.reference, files.candidate) if format_named(path) == "onnx"]
    if len(models) == 1:
        raise CommandLineError(
            f"{models[0]} is a model, and the other file is not. Compare files of one kind."
        )
    return bool(models)
