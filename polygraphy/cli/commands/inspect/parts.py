"""The commands `inspect outputs` and `inspect sparsity`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.commands.inspect.model_options import (
    ExternalDataOptions,
    OneModelOptions,
    TensorOptions,
)
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.report import ReportOptions
from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.render import render


class InspectOutputsCommand(Command):
    """Lists the tensors of a model."""

    name = "inspect outputs"
    description = (
        "List the tensors of an ONNX model, which --onnx-outputs can make its outputs: names, data"
        " types, shapes, and the nodes that compute them."
    )
    groups = (OneModelOptions, TensorOptions, ScriptOptions, ReportOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        path = values[OneModelOptions].path
        return render(
            "show.py.j2",
            f"List the tensors of {quoted(path)}.",
            words,
            call=call_of("inspect_outputs", values, path),
            log=log_of(values),
        )


class InspectSparsityCommand(Command):
    """Looks for 2:4 sparsity."""

    name = "inspect sparsity"
    description = (
        "Tell which weights of an ONNX model are 2:4 sparse, so that of every four values that a"
        " product sums, two are zero. Exits with 0 either way."
    )
    groups = (OneModelOptions, ExternalDataOptions, ScriptOptions, ReportOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        path = values[OneModelOptions].path
        return render(
            "inspect_sparsity.py.j2",
            f"Check which weights of {quoted(path)} are 2:4 sparse.",
            words,
            call=call_of("inspect_sparsity", values, path),
            log=log_of(values),
        )
