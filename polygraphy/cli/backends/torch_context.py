"""From options to the context of a program: which PyTorch models it runs, and how."""

from __future__ import annotations

from polygraphy.cli.backends.pluginref import PluginRefOptions
from polygraphy.cli.backends.torch import TorchOptions
from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import warn
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.shared.model import split_symbol
from polygraphy.cli.shared.onnx import OutputOptions
from polygraphy.cli.shared.runners import RunnerOptions
from polygraphy.codegen.parts.torch_model import TorchModels


def torch_of(values: Values) -> TorchModels:
    """Return how PyTorch runs what it is given; options that are about nothing are named."""
    options = values[TorchOptions]
    if not _named(values):
        unused = flags_given(values, [TorchOptions])
        if unused:
            warn(f"{', '.join(unused)}: without effect, because nothing runs in PyTorch.")
        return TorchModels()
    return TorchModels(
        compiled=options.torch_compile,
        device=options.torch_device,
        mark_all=values[OutputOptions].mark_all,
    )


def references_of(values: Values) -> str | None:
    """Return the script with plugin references; it is named if it is not used."""
    script = values[PluginRefOptions].plugin_references
    if script is not None and "pluginref" not in values[RunnerOptions].runners:
        warn("--plugin-references: without effect, because --pluginref is not given.")
        return None
    return script


def read_by_torch(values: Values) -> list[tuple[str, str | None]]:
    """Return the scripts and models that are read, each with its flag."""
    return [
        *(("--torch", split_symbol(path)[0]) for path in _named(values)),
        ("--plugin-references", values[PluginRefOptions].plugin_references),
    ]


def _named(values: Values) -> list[str]:
    runners = (runner.partition(":") for runner in values[RunnerOptions].runners)
    return [path for name, _, path in runners if name == "torch"]
