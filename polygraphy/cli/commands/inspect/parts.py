"""The commands `inspect outputs` and `inspect sparsity`."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.inspect.model_options import (
    ExternalDataOptions,
    OneModelOptions,
    TensorOptions,
)
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.values import Values
from polygraphy.codegen.docstring import quoted


class InspectOutputsCommand(Command):
    """List the tensors of an ONNX model, which --onnx-outputs can make its outputs: names, data
    types, shapes, and the nodes that compute them.
    """

    name = "inspect outputs"
    groups = (OneModelOptions, TensorOptions)

    def program(self, values: Values) -> Program:
        path = values[OneModelOptions].path
        return Program(
            "show.py.j2",
            f"List the tensors of {quoted(path)}.",
            call=call_of("inspect_outputs", values, path),
        )


class InspectSparsityCommand(Command):
    """Tell which weights of an ONNX model are 2:4 sparse, so that of every four values that a
    product sums, two are zero. Exits with 0 either way.
    """

    name = "inspect sparsity"
    groups = (OneModelOptions, ExternalDataOptions)

    def program(self, values: Values) -> Program:
        path = values[OneModelOptions].path
        return Program(
            "act.py.j2",
            f"Check which weights of {quoted(path)} are 2:4 sparse.",
            call=call_of("inspect_sparsity", values, path),
        )
