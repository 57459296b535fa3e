"""The command `inspect capability`."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import RunnerModel
from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.inspect.capability_options import CapabilityOptions
from polygraphy.cli.commands.inspect.model_options import ExternalDataOptions, OneModelOptions
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.errors import warn
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.onnx import OnnxShapeOptions
from polygraphy.cli.shared.onnx_model import onnx_of
from polygraphy.codegen.docstring import quoted


class InspectCapabilityCommand(Command):
    """Tell which nodes of an ONNX model the parser of TensorRT does not support, and why. Exits
    with 0 when it supports all of them and with 1 when it does not.
    """

    name = "inspect capability"
    groups = (
        OneModelOptions,
        CapabilityOptions,
        OnnxShapeOptions,
        ExternalDataOptions,
    )

    def program(self, values: Values) -> Program:
        options = values[CapabilityOptions]
        _warn_about_unused(options)
        model = values[OneModelOptions].path
        saves = options.save_external_data is not None
        without = {} if saves else {"size_threshold": None, "all_tensors_to_one_file": None}
        return Program(
            "inspect_capability.py.j2",
            f"Tell which nodes of {quoted(model)} TensorRT does not support.",
            model=model,
            call=call_of(
                "inspect_capability", values, onnx_of(values).loader(RunnerModel.path), **without
            ),
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
