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
    """One or more models; of several, one that is not there hides none of the others."""

    def files(self, value: Sequence[str]) -> list[tuple[str, str | None]]:
        return super().files(value) if len(value) == 1 else []


@option_group
class InspectedModelOptions(Options):
    """Model: the models that are shown."""

    paths: tuple[str, ...] = option(
        reads="Model",
        kind=_Models("MODEL"),
        help="ONNX or TensorFlow models, TensorRT engines or network scripts.",
    )
    model_type: str | None = option(
        "--model-type",
        kind=Choice(*(name for name, each in FORMATS.items() if each.technology)),
        help="Type of the models.",
        otherwise="as the file extension says",
        feeds=("inspect_model.model_type", "draw_model.model_type"),
    )
    display_as: str | None = option(
        "--display-as",
        "--convert-to",
        kind=Choice("trt"),
        help="Show an ONNX model as the network that TensorRT makes of it.",
        feeds=("inspect_model.display_as", "draw_model.display_as"),
    )


@option_group
class OneModelOptions(Options):
    """Model: the model that is looked into."""

    path: str = option(reads="Model", kind=Text("MODEL"), default="", help="An ONNX model.")


@option_group
class TensorOptions(Options):
    """Tensors: which tensors are shown."""

    names: tuple[str, ...] = option(
        "--names",
        kind=Texts("NAME"),
        help="Only these tensors; names may be patterns, such as 'conv*'.",
        otherwise="all",
        feeds="inspect_outputs.names",
    )


@option_group
class ModelDetailOptions(Options):
    """Detail: how much is shown."""

    show: tuple[str, ...] = option(
        "--show",
        kind=Choices("layers", "attrs", "weights"),
        help="Show layers; their attributes and the graphs inside them (attrs, together with"
        " layers); the elements of weights.",
    )
    mode: str | None = option(
        "--mode",
        kind=Choice(*_MODES),
        help="The older way to say so: basic is --show layers, attrs is --show layers attrs, full"
        " is --show layers attrs weights.",
    )
    show_weights: bool = option("--show-weights", help="The older way to say --show weights.")
    stats: bool = option(
        "--stats",
        help="Show how large an ONNX model is, and what it costs to run: parameters,"
        " multiply-accumulate operations, the memory that activations take, and how often each"
        " operator occurs; of networks and engines of TensorRT, layers by type and data type, and"
        " the sizes that they tell.",
        feeds="inspect_model.stats",
    )
    list_unbounded_dds: bool = option(
        "--list-unbounded-dds",
        help="Name the tensors of an ONNX model whose elements decide without any limit how large"
        " others become, for surgeon sanitize --set-unbounded-dds-upper-bound; the model's"
        " constants should have been folded and its shapes be known.",
        feeds="inspect_model.list_unbounded_dds",
    )
    combine_tensor_info: str | None = option(
        "--combine-tensor-info",
        reads="File of inference results",
        help="Show statistics of these saved outputs with the layers of an engine.",
        feeds="inspect_model.tensor_info",
    )


@option_group
class PageOptions(Options):
    """Page: the model as a drawing in a browser, instead of text."""

    visual: bool = option(
        "--visual",
        help="Show the model in a browser on this machine, until ctrl-C: its graph to move around"
        " in, with a search, and what each node consists of.",
    )
    visual_port: int | None = option(
        "--visual-port",
        needs="--visual",
        kind=Integer(minimum=0),
        help="The port of that page; 0 is any that is free.",
        feeds="draw_model.port",
    )
    save_visual: str | None = option(
        "--save-visual",
        writes=True,
        help="Save the page as one HTML file, which needs no network, instead of showing it.",
    )
    visual_errors: str | None = option(
        "--visual-errors",
        needs=("--visual", "--save-visual"),
        reads="Report",
        kind=Text("REPORT.json"),
        help="Colour the nodes of the page by the errors in what --report PATH.json saved.",
        otherwise="by operators",
        feeds="draw_model.report",
    )


@option_group
class ExternalDataOptions(Options):
    """ONNX Model Loading: the weights of an ONNX model that are in other files."""

    external_data_dir: str | None = EXTERNAL_DATA_FOLDER
    ignore_external_data: bool = option(
        "--ignore-external-data",
        help="Leave weights in other files alone, even where they would be looked at.",
        feeds=tuple(f"{name}.ignore_external_data" for name in LOADERS),
    )


def shown(options: ModelDetailOptions) -> list[str]:
    """Return what is shown, in the order of `--show`'s choices: the union of all ways to say so."""
    asked = {*options.show, *_MODES[options.mode or "none"]}
    if options.show_weights:
        asked.add("weights")
    return [word for word in _MODES["full"] if word in asked]


INSPECT_OUTPUTS = OneCall(
    "inspect outputs",
    "List the tensors of an ONNX model, which --onnx-outputs can make its outputs: names, data"
    " types, shapes, and the nodes that compute them.",
    (OneModelOptions, TensorOptions),
    says="List the tensors of {}.",
    call="inspect_outputs",
)

INSPECT_SPARSITY = OneCall(
    "inspect sparsity",
    "Tell which weights of an ONNX model are 2:4 sparse, so that of every four values that a"
    " product sums, two are zero. Exits with 0 either way.",
    (OneModelOptions, ExternalDataOptions),
    says="Check which weights of {} are 2:4 sparse.",
    call="inspect_sparsity",
    template="act.py.j2",
)
