"""The command `inspect capability`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.commands.inspect.capability_options import CapabilityOptions
from polygraphy.cli.commands.inspect.model_options import ExternalDataOptions, OneModelOptions
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.errors import warn
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.onnx import OnnxShapeOptions
from polygraphy.cli.shared.onnx_model import onnx_of
from polygraphy.cli.shared.report import ReportOptions
from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.render import render


class InspectCapabilityCommand(Command):
    """Tells which parts of a model TensorRT supports."""

    name = "inspect capability"
    description = (
        "Tell which nodes of an ONNX model the parser of TensorRT does not support, and why. Exits"
        " with 0 when it supports all of them and with 1 when it does not."
    )
    groups = (
        OneModelOptions,
        CapabilityOptions,
        OnnxShapeOptions,
        ExternalDataOptions,
        ScriptOptions,
        ReportOptions,
        LogOptions,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        options = values[CapabilityOptions]
        _warn_about_unused(options)
        model = values[OneModelOptions].path
        saves = options.save_external_data is not None
        without = {} if saves else {"size_threshold": None, "all_tensors_to_one_file": None}
        return render(
            "inspect_capability.py.j2",
            f"Tell which nodes of {quoted(model)} TensorRT does not support.",
            words,
            model=model,
            call=call_of("inspect_capability", values, **without),
            onnx=onnx_of(values),
            log=log_of(values),
        )


def _warn_about_unused(options: CapabilityOptions) -> None:
    given = {
        "--external-data-size-threshold": options.external_data_size_threshold is not None,
        "--no-save-all-tensors-to-one-file": options.no_save_all_tensors_to_one_file,
    }
    unused = [flag for flag, is_given in given.items() if is_given]
    if options.save_external_data is None and unused:
        warn(f"{', '.join(unused)}: without effect, because --save-external-data is not given.")
    elif options.save_external_data is not None and not options.with_partitioning:
        warn("--save-external-data: without effect, because only --with-partitioning saves models.")
