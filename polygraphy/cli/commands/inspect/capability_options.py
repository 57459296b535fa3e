"""What is asked about the support of a model, and where the answer is saved."""

from __future__ import annotations

from polygraphy.cli.declare.kinds import Text
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.declare.size import ByteSize
from polygraphy.cli.shared.onnx import TextOrNothing


@option_group
class CapabilityOptions(Options):
    """Capability: what is asked, and where the answer is saved."""

    with_partitioning: bool = option(
        "--with-partitioning",
        help="Divide the model into parts that are supported and parts that are not, and save each"
        " as a model.",
        feeds="inspect_capability.with_partitioning",
    )
    output: str | None = option(
        "-o",
        "--output",
        kind=Text("DIR"),
        help="Folder for results.txt and the parts. Nothing is saved of a model that is supported.",
        otherwise="polygraphy_capability_dumps",
        feeds="inspect_capability.output",
    )
    save_external_data: str | None = option(
        "--save-external-data",
        "--external-data-path",
        kind=TextOrNothing("SUFFIX"),
        help="Save large weights of the parts in files beside them, which are called as they are"
        " with this suffix; without one, _ext_data.",
        feeds="inspect_capability.external_data_suffix",
    )
    external_data_size_threshold: int | None = option(
        "--external-data-size-threshold",
        kind=ByteSize(),
        help="Weights of more bytes go to such files, as in 16e6, 512K, 4M.",
        otherwise="1024",
        feeds="inspect_capability.size_threshold",
    )
    no_save_all_tensors_to_one_file: bool = option(
        "--no-save-all-tensors-to-one-file",
        help="Save each of those weights in a file of its own.",
        as_=False,
        feeds="inspect_capability.all_tensors_to_one_file",
    )
