"""Options for the model, and for loading TensorFlow graphs and converting them to ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from os.path import isdir
from pathlib import Path
from typing import Any

from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.kinds import Choice, Integer, Shapes, Text
from polygraphy.cli.declare.kinds.base import split_symbol
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.cli.shared.onnx import EVERY_TENSOR, OutputOptions, Outputs
from polygraphy.codegen.source import Call, quote_word
from polygraphy.domain.catalog.formats import FORMATS, format_named, formats_of

__all__ = [
    "MODEL_TYPES",
    "CheckedModelOptions",
    "ModelOptions",
    "NamedModel",
    "model_shapes_option",
    "model_type",
    "split_symbol",
]

MODEL_TYPES = tuple(FORMATS)


class NamedModel(Options):
    """Base class of options that name a model."""

    model_file: str | None

    @property
    def in_words(self) -> str:
        """Return the quoted file name of the model for sentences; empty without one."""
        path = split_symbol(self.model_file or "")[0]
        return quote_word(path.replace("\\", "/").rpartition("/")[2]) if path else ""


@option_group
class ModelOptions(NamedModel):
    """Model: the model, and the shapes of its inputs."""

    model_file: str | None = option(
        reads="Model", kind=Text("MODEL", nargs="?"), help="Path of the model."
    )
    model_type: str | None = option(
        "--model-type",
        kind=Choice(*MODEL_TYPES),
        help="Type of the model.",
        otherwise="by the file extension, or the contents of the folder",
    )
    input_shapes: Mapping[str, tuple[tuple[int, ...], ...]] | None = option(
        "--input-shapes",
        "--inputs",
        kind=Shapes(),
        help="Shapes of inputs, as in --input-shapes image:1x3x224x224 mask:1x224x224. Names may"
        " be patterns. Polygraphy generates data in these shapes. If an input has several shapes,"
        " iterations cycle through them. TensorRT also uses them as its profile, unless"
        " --trt-min-shapes, --trt-opt-shapes or --trt-max-shapes is set.",
    )


@option_group
class CheckedModelOptions(Options):
    """Model: the model, and the shapes of the data for running it."""

    path: str = option(reads="Model", kind=Text("MODEL"), default="", help="Path of the model.")
    input_shapes: Mapping[str, tuple[tuple[int, ...], ...]] | None = option(
        "--input-shapes",
        "--inputs",
        kind=Shapes(),
        help="Shapes of inputs for generated data, as in --input-shapes image:1x3x224x224.",
    )


def model_shapes_option(help: str, otherwise: str = "") -> Any:
    """Return the declaration of `--input-shapes`, for commands in which `--inputs` means something
    else.
    """
    return option(
        "--input-shapes",
        "--model-input-shapes",
        "--model-inputs",
        kind=Shapes(),
        help=help,
        otherwise=otherwise,
    )


def model_type(options: ModelOptions) -> str | None:
    """Return the type of the model; None if it is unknown."""
    if options.model_type is not None or options.model_file is None:
        return options.model_type
    named = format_named(split_symbol(options.model_file)[0])
    if named is None and isdir(options.model_file):  # noqa: PTH112 - Path's refuses long names.
        return _kind_of_folder(Path(options.model_file))
    return named


def _kind_of_folder(folder: Path) -> str | None:
    """Return the kind of model in a folder; None if it contains none."""
    if any((folder / name).exists() for name in ("saved_model.pb", "saved_model.pbtxt")):
        return "saved-model"
    is_checkpoint = (folder / "checkpoint").exists() or any(folder.glob("*.index"))
    return "ckpt" if is_checkpoint else None


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
    """TensorFlow Model Loading: the source of the graph, and its outputs."""

    ckpt: str | None = option(
        "--ckpt",
        feeds="GraphFromCkpt.name",
        kind=Text("NAME"),
        help="Name of the checkpoint, without extension, if MODEL is a folder.",
    )
    tf_outputs: tuple[str, ...] = option(
        "--tf-outputs",
        feeds="ModifyGraphOutputs.outputs",
        kind=Outputs("NAME"),
        help="Tensors of the graph that become its outputs; '*' means every tensor.",
    )
    freeze_graph: bool = option("--freeze-graph", help="Freeze and optimize the graph.")


@option_group
class TfOnnxOptions(Options):
    """TensorFlow to ONNX: conversion of a TensorFlow graph to an ONNX model."""

    opset: int | None = option(
        "--opset",
        kind=Integer(minimum=1),
        help="Opset of the ONNX model that is created from a TensorFlow graph; convert also"
        " changes the opset of ONNX models.",
        otherwise="11",
    )


def graph_of(values: Values, kind: str) -> tuple[Call, ...]:
    """Return the calls that load a graph: the first gets the path, later ones the result before
    them.

    Args:
        values: the options.
        kind: the type of the model, one of `TF_TYPES`.

    Raises:
        CommandLineError: a checkpoint is named, but the model is not one.
    """
    load = values[TfLoadOptions]
    if load.ckpt is not None and kind != "ckpt":
        raise CommandLineError(
            f"--ckpt requires a checkpoint, but the model is of type {kind}. Use the folder of"
            " the checkpoint as MODEL."
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
    """Return the type of the model; `unknown` if nothing shows it."""
    kind = model_type(values[ModelOptions])
    if kind is None and values[TfLoadOptions].ckpt is not None:
        return "ckpt"
    return kind or unknown
