"""From options to the context of a program: which PyTorch models it runs, and how."""

from __future__ import annotations

from polygraphy.cli.backends.pluginref import PluginRefOptions
from polygraphy.cli.backends.torch import TorchOptions
from polygraphy.cli.declare.command import Values
from polygraphy.cli.shared.onnx import OutputOptions
from polygraphy.codegen.parts.torch_model import TorchModels


def torch_of(values: Values) -> TorchModels:
    """Return how PyTorch runs what its flag names."""
    options = values[TorchOptions]
    return TorchModels(
        compiled=options.torch_compile,
        device=options.torch_device,
        mark_all=values[OutputOptions].mark_all,
    )


def references_of(values: Values) -> str | None:
    """Return the script with plugin references."""
    return values[PluginRefOptions].plugin_references
