"""Which models are shown, and how much of them: all, or in `inspect outputs` and `inspect sparsity`
a part.
"""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.commands.command import OneCall
from polygraphy.cli.declare.kinds import Choice, Choices, Integer, Text, Texts
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.shared.onnx import EXTERNAL_DATA_FOLDER, LOADERS
from polygraphy.domain.catalog.formats import FORMATS

_MODES = {
    "none": (),
    "basic": ("layers",),
    "attrs": ("layers", "attrs"),
    "full": ("layers", "attrs", "weights"),
}


class _Models(Texts):
    """One or more models; a missing one does not hide the others."""

    def files(self, value: Sequence[str]) -> list[tuple[str, str | None]]:
        """Return the single path.
        The result is empty for several, because a missing one must not hide the others."""
        return super().files(value) if len(value) == 1 else []


@option_group
class InspectedModelOptions(Options):
    """Model: the models to show."""

    paths: tuple[str, ...] = option(
        reads="Model",
        kind=_Models("MODEL"),
        help="ONNX or TensorFlow models, TensorRT engines or network scripts.",
    )
    model_type: str | None = option(
        "--model-type",
        kind=Choice(*(name for name, model_format in FORMATS.items() if model_format.technology)),
        help="Type of the models.",
        otherwise="by the file extension",
        feeds=("inspect_model.model_type", "draw_model.model_type"),
    )
    display_as: str | None = option(
        "--display-as",
        "--convert-to",
        kind=Choice("trt"),
        help="Show the TensorRT network of an ONNX model.",
        feeds=("inspect_model.display_as", "draw_model.display_as"),
    )


@option_group
class OneModelOptions(Options):
    """Model: the model to show."""

    path: str = option(reads="Model", kind=Text("MODEL"), default="", help="An ONNX model.")


@option_group
class TensorOptions(Options):
    """Tensors: the tensors to show."""

    names: tuple[str, ...] = option(
        "--names",
        kind=Texts("NAME"),
        help="Tensors to show; names may be patterns, such as 'conv*'.",
        otherwise="all",
        feeds="inspect_outputs.names",
    )


@option_group
class ModelDetailOptions(Options):
    """Detail: the amount of detail."""

    show: tuple[str, ...] = option(
        "--show",
        kind=Choices("layers", "attrs", "weights", "quantization"),
        help="Details to show: layers; their attributes and subgraphs (attrs, together with"
        " layers); the elements of weights; the quantized tensors with their ranges"
        " (quantization).",
    )
    mode: str | None = option(
        "--mode",
        kind=Choice(*_MODES),
        help="Details to show, as an alias: basic is --show layers, attrs is --show layers"
        " attrs, full is --show layers attrs weights.",
    )
    show_weights: bool = option(
        "--show-weights", help="Show the elements of weights; an alias" " of --show weights."
    )
    stats: bool = option(
        "--stats",
        help="Show the size and cost of an ONNX model: parameters, multiply-accumulate"
        " operations, memory of activations, and the number of each operator. For TensorRT"
        " networks and engines, show layers by type and data type, and the known sizes.",
        feeds="inspect_model.stats",
    )
    list_unbounded_dds: bool = option(
        "--list-unbounded-dds",
        help="List the tensors of an ONNX model that determine the size of other tensors without"
        " an upper bound, for surgeon sanitize --set-unbounded-dds-upper-bound. Fold constants"
        " and infer shapes first.",
        feeds="inspect_model.list_unbounded_dds",
    )
    reference: str | None = option(
        "--reference",
        kind=Text("MODEL"),
        reads="Model",
        help="Original float model of a quantized model. Show the loss of each quantized"
        " weight, and the least possible loss with the same format.",
        feeds="inspect_model.reference",
    )
    load_inputs: tuple[str, ...] = option(
        "--load-inputs",
        kind=Texts("PATH"),
        reads="File of input data",
        help="Input data. Show the loss of each quantized activation, and the least possible loss"
        " with the same format; ONNX Runtime runs the model.",
        feeds="inspect_model.inputs",
    )
    combine_tensor_info: str | None = option(
        "--combine-tensor-info",
        reads="File of inference results",
        help="Show statistics of these saved outputs next to the layers of an engine.",
        feeds="inspect_model.tensor_info",
    )


@option_group
class PageOptions(Options):
    """Page: the graph of the model in a browser, instead of text."""

    visual: bool = option(
        "--visual",
        help="Show the model in a browser on this machine until Ctrl-C: its graph, a search, and"
        " the details of each node.",
    )
    visual_port: int | None = option(
        "--visual-port",
        needs="--visual",
        kind=Integer(minimum=0),
        help="Port of the page; 0 means any free port.",
        feeds="draw_model.port",
    )
    save_visual: str | None = option(
        "--save-visual",
        writes=True,
        help="Save the page as one HTML file, which works offline, instead of showing it.",
    )
    visual_errors: str | None = option(
        "--visual-errors",
        needs=("--visual", "--save-visual"),
        reads="Report",
        kind=Text("REPORT.json"),
        help="Color the nodes of the page by the errors in a file that --report PATH.json saved.",
        otherwise="by operators",
        feeds="draw_model.report",
    )


@option_group
class ExternalDataOptions(Options):
    """ONNX Model Loading: external weights of an ONNX model."""

    external_data_dir: str | None = EXTERNAL_DATA_FOLDER
    ignore_external_data: bool = option(
        "--ignore-external-data",
        help="Never load weights from external files.",
        feeds=tuple(f"{name}.ignore_external_data" for name in LOADERS),
    )


def details_to_show(options: ModelDetailOptions) -> list[str]:
    """Return the details to show, in the order of the choices of `--show`."""
    requested_names = {*options.show, *_MODES[options.mode or "none"]}
    if options.show_weights:
        requested_names.add("weights")
    return [word for word in (*_MODES["full"], "quantization") if word in requested_names]


INSPECT_OUTPUTS = OneCall(
    "inspect outputs",
    "List the tensors of an ONNX model for use with --onnx-outputs: names, data types, shapes, and"
    " the nodes that compute them.",
    (OneModelOptions, TensorOptions),
    says="List the tensors of {}.",
    call="inspect_outputs",
)

INSPECT_SPARSITY = OneCall(
    "inspect sparsity",
    "List the weights of an ONNX model that are 2:4 sparse: two of every four values along the axis"
    " of a product are zero. Always exits with 0.",
    (OneModelOptions, ExternalDataOptions),
    says="Check which weights of {} are 2:4 sparse.",
    call="inspect_sparsity",
    template="act.py.j2",
)
