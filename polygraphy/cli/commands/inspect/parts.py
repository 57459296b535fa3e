"""The commands `inspect outputs` and `inspect sparsity`."""

from __future__ import annotations

from polygraphy.cli.commands.command import OneCall
from polygraphy.cli.commands.inspect.model_options import (
    ExternalDataOptions,
    OneModelOptions,
    TensorOptions,
)


class InspectOutputsCommand(OneCall):
    """List the tensors of an ONNX model, which --onnx-outputs can make its outputs: names, data
    types, shapes, and the nodes that compute them.
    """

    name = "inspect outputs"
    groups = (OneModelOptions, TensorOptions)
    says = "List the tensors of {}."
    call = "inspect_outputs"


class InspectSparsityCommand(OneCall):
    """Tell which weights of an ONNX model are 2:4 sparse, so that of every four values that a
    product sums, two are zero. Exits with 0 either way.
    """

    name = "inspect sparsity"
    groups = (OneModelOptions, ExternalDataOptions)
    says = "Check which weights of {} are 2:4 sparse."
    call = "inspect_sparsity"
    template = "act.py.j2"
