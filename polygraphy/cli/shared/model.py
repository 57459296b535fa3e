"""Which model."""

from __future__ import annotations

from collections.abc import Mapping
from os.path import isdir
from pathlib import Path
from typing import Any

from polygraphy.cli.declare.kinds import Choice, Shapes, Text
from polygraphy.cli.declare.kinds.base import split_symbol
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.codegen.source import quoted
from polygraphy.domain.catalog.formats import FORMATS, format_named

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
    """Options that name a model."""

    model_file: str | None

    @property
    def in_words(self) -> str:
        """What a sentence calls the model: its file, quoted; empty for none."""
        path = split_symbol(self.model_file or "")[0]
        return quoted(path.replace("\\", "/").rpartition("/")[2]) if path else ""


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
        otherwise="as the file extension says, or what the folder holds",
    )
    input_shapes: Mapping[str, tuple[tuple[int, ...], ...]] | None = option(
        "--input-shapes",
        "--inputs",
        kind=Shapes(),
        help="Shapes of inputs, as in --input-shapes image:1x3x224x224 mask:1x224x224. Names may"
        " be patterns. Data are generated in these shapes; an input that is given several takes"
        " them in turn. They are TensorRT's profile where no --trt-min-shapes and the like are.",
    )


@option_group
class CheckedModelOptions(Options):
    """Model: the model, and the shapes of the data with which it is run."""

    path: str = option(reads="Model", kind=Text("MODEL"), default="", help="Path of the model.")
    input_shapes: Mapping[str, tuple[tuple[int, ...], ...]] | None = option(
        "--input-shapes",
        "--inputs",
        kind=Shapes(),
        help="Shapes of inputs for generated data, as in --input-shapes image:1x3x224x224.",
    )


def model_shapes_option(help: str, otherwise: str = "") -> Any:
    """Return the option `--input-shapes` of commands where `--inputs` means something else."""
    return option(
        "--input-shapes",
        "--model-input-shapes",
        "--model-inputs",
        kind=Shapes(),
        help=help,
        otherwise=otherwise,
    )


def model_type(options: ModelOptions) -> str | None:
    """Return the type of the model, None when nothing tells it."""
    if options.model_type is not None or options.model_file is None:
        return options.model_type
    named = format_named(split_symbol(options.model_file)[0])
    if named is None and isdir(options.model_file):  # noqa: PTH112 - Path's refuses long names.
        return _kind_of_folder(Path(options.model_file))
    return named


def _kind_of_folder(folder: Path) -> str | None:
    """Return what a folder holds, None for no model at all."""
    if any((folder / name).exists() for name in ("saved_model.pb", "saved_model.pbtxt")):
        return "saved-model"
    is_checkpoint = (folder / "checkpoint").exists() or any(folder.glob("*.index"))
    return "ckpt" if is_checkpoint else None
