"""Graphs of TensorFlow as models: how they are loaded, and become ONNX models."""

from __future__ import annotations

from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.kinds import Integer, Text
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.declare.values import Values, call_of
from polygraphy.cli.shared.model import ModelOptions, model_type
from polygraphy.cli.shared.onnx import EVERY_TENSOR, OutputOptions, Outputs
from polygraphy.codegen.source import Call
from polygraphy.domain.catalog.formats import formats_of

TF_TYPES = formats_of("tensorflow")
"""Types of models that TensorFlow loads."""

_LOADERS = {
    "keras": "GraphFromKeras",
    "saved-model": "GraphFromSavedModel",
    "ckpt": "GraphFromCkpt",
    "frozen": "GraphFromFrozen",
}


@option_group
class TfLoadOptions(Options):
    """TensorFlow Model Loading: where the graph comes from, and its outputs."""

    ckpt: str | None = option(
        "--ckpt",
        feeds="GraphFromCkpt.name",
        kind=Text("NAME"),
        help="Name of the checkpoint, without extension, in the folder that MODEL is.",
    )
    tf_outputs: tuple[str, ...] = option(
        "--tf-outputs",
        feeds="ModifyGraphOutputs.outputs",
        kind=Outputs("NAME"),
        help="Tensors of the graph that become its outputs; '*' is every tensor.",
    )
    freeze_graph: bool = option("--freeze-graph", help="Freeze the graph, and optimise it.")


@option_group
class TfOnnxOptions(Options):
    """TensorFlow to ONNX: how a TensorFlow graph becomes an ONNX model."""

    opset: int | None = option(
        "--opset",
        kind=Integer(minimum=1),
        help="Opset of the ONNX model that a TensorFlow graph becomes; convert rewrites ONNX"
        " models for it, too.",
        otherwise="11",
    )


def graph_of(values: Values, kind: str) -> tuple[Call, ...]:
    """Return what loads a graph: calls of which the first one takes the path, and each other what
    the one before gives.

    Args:
        values: the options.
        kind: the type of the model, one of `TF_TYPES`.

    Raises:
        CommandLineError: a checkpoint is named, and the model is none.
    """
    load = values[TfLoadOptions]
    if load.ckpt is not None and kind != "ckpt":
        raise CommandLineError(
            f"--ckpt names a checkpoint, but the model is of type {kind}. Give the folder of the"
            " checkpoint as MODEL."
        )
    outputs = call_of("ModifyGraphOutputs", values)
    if values[OutputOptions].mark_all:
        outputs = outputs.of(outputs=Outputs("NAME").argument(EVERY_TENSOR))
    return (
        call_of(_LOADERS[kind], values),
        *([outputs] if outputs.kwargs else ()),
        *([Call("OptimizeGraph")] if load.freeze_graph else ()),
    )


def kind_of_model(values: Values, *, unknown: str = "onnx") -> str:
    """Return the type of the model; `unknown` where nothing tells."""
    kind = model_type(values[ModelOptions])
    if kind is None and values[TfLoadOptions].ckpt is not None:
        return "ckpt"
    return kind or unknown
