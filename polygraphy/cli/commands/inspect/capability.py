"""The command `inspect capability`."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import RunnerModel
from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.inspect.model_options import ExternalDataOptions, OneModelOptions
from polygraphy.cli.declare.kinds import Text
from polygraphy.cli.declare.kinds.base import ByteSize
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.cli.shared.onnx import OnnxShapeOptions, onnx_of
from polygraphy.cli.shared.providers import OnnxrtProviderOptions
from polygraphy.codegen.source import quote_word


@option_group
class CapabilityOptions(Options):
    """Capability: scope of the check, and where to save the result."""

    with_partitioning: bool = option(
        "--with-partitioning",
        help="Split the model into supported and unsupported parts, and save each part as a model.",
        feeds="inspect_capability.with_partitioning",
    )
    output: str | None = option(
        "-o",
        "--output",
        kind=Text("DIR"),
        help="Folder for results.txt and the parts. Nothing is saved if the whole model is"
        " supported.",
        otherwise="polygraphy_capability_dumps",
        feeds="inspect_capability.output",
    )
    save_external_data: str | None = option(
        "--save-external-data",
        "--external-data-path",
        needs="--with-partitioning",
        kind=Text("SUFFIX", nargs="?", without_word=""),
        help="Save large weights of each part in a file next to it: the name of the part with"
        " this suffix.",
        otherwise="_ext_data",
        feeds="inspect_capability.external_data_suffix",
    )
    external_data_size_threshold: int | None = option(
        "--external-data-size-threshold",
        needs="--save-external-data",
        kind=ByteSize(),
        help="Size in bytes above which weights are saved in external files, as in 16e6, 512K, 4M.",
        otherwise="1024",
        feeds="inspect_capability.size_threshold",
    )
    no_save_all_tensors_to_one_file: bool = option(
        "--no-save-all-tensors-to-one-file",
        needs="--save-external-data",
        help="Save each external weight in its own file.",
        as_=False,
        feeds="inspect_capability.all_tensors_to_one_file",
    )


class InspectCapabilityCommand(Command):
    """List the nodes of an ONNX model that the TensorRT parser does not support, or with
    --providers those that an execution provider of ONNX Runtime does not run, with reasons. Exits
    with 0 if all nodes are supported, and with 1 otherwise.
    """

    name = "inspect capability"
    groups = (
        OneModelOptions,
        CapabilityOptions,
        OnnxrtProviderOptions,
        OnnxShapeOptions,
        ExternalDataOptions,
    )

    def program(self, values: Values) -> Program:
        """Return the program that lists unsupported nodes."""
        options = values[CapabilityOptions]
        model = values[OneModelOptions].path
        saves = options.save_external_data is not None
        without = {} if saves else {"size_threshold": None, "all_tensors_to_one_file": None}
        providers = values[OnnxrtProviderOptions].providers
        backend = "TensorRT" if providers is None else "an execution provider of ONNX Runtime"
        return Program(
            "inspect_capability.py.j2",
            f"List the nodes of {quote_word(model)} that {backend} does not support.",
            model=model,
            call=call_of(
                "inspect_capability", values, onnx_of(values).loader(RunnerModel.path), **without
            ),
        )
