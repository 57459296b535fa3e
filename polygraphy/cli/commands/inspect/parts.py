"""The commands `inspect outputs` and `inspect sparsity`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.commands.inspect.model_options import (
    ExternalDataOptions,
    OneModelOptions,
    TensorOptions,
)
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.codegen.scripts.models import InspectOutputsScript, InspectSparsityScript


class InspectOutputsCommand(Command):
    """Lists the tensors of a model."""

    name = "inspect outputs"
    description = (
        "List the tensors of an ONNX model, which --onnx-outputs can make its outputs: names, data"
        " types, shapes, and the nodes that compute them."
    )
    groups = (OneModelOptions, TensorOptions, ScriptOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that lists the tensors."""
        tensors = values[TensorOptions]
        return InspectOutputsScript(
            command=words,
            path=values[OneModelOptions].path,
            names=list(tensors.names) or None,
            format="json" if tensors.format == "json" else None,
            log=log_of(values[LogOptions]),
        ).render()


class InspectSparsityCommand(Command):
    """Looks for 2:4 sparsity."""

    name = "inspect sparsity"
    description = (
        "Tell which weights of an ONNX model are 2:4 sparse, so that of every four values that a"
        " product sums, two are zero. Exits with 0 either way."
    )
    groups = (OneModelOptions, ExternalDataOptions, ScriptOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that looks at the weights."""
        files = values[ExternalDataOptions]
        return InspectSparsityScript(
            command=words,
            path=values[OneModelOptions].path,
            external_data_dir=files.external_data_dir,
            ignore_external_data=files.ignore_external_data or None,
            log=log_of(values[LogOptions]),
        ).render()
