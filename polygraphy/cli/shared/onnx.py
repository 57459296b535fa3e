"""How an ONNX model is loaded and changed before it is run, and where that is saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polygraphy.cli.declare.kinds import Text, Texts
from polygraphy.cli.declare.kinds.numbers import ByteSize
from polygraphy.cli.declare.option import Options, option, option_group

LOADERS = ("check_lint", "draw_model", "inspect_model", "inspect_sparsity", "onnx_from_path")
"""The functions of commands that load ONNX models as the options say."""
SAVERS = ("save_onnx", "save_shards")
"""Those that save them."""
CASTS = ("convert_to_fp16", "convert_to_bf16")
"""What narrows data types."""
EVERY_TENSOR = ("*",)
"""The value of an option that makes every tensor an output."""


class Outputs(Texts):
    """Names of tensors, or ``*`` for all of them, which may also be spelled ``mark all``."""

    def parse(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the names, or `EVERY_TENSOR`."""
        return EVERY_TENSOR if " ".join(words) == "mark all" else tuple(words)

    def argument(self, value: Sequence[str]) -> Any:
        """Return a list, or the constant that stands for every tensor."""
        from polygraphy.codegen.call import Name

        return Name("polygraphy.constants", "MARK_ALL") if value == EVERY_TENSOR else list(value)


@option_group
class OutputOptions(Options):
    """Outputs: which tensors are compared, in every backend."""

    mark_all: bool = option(
        "--mark-all",
        help="Make every tensor an output in every selected backend, and compare those that both"
        " sides have, in the order in which the model computes them.",
        feeds="Comparator.compare_accuracy.allow_missing_outputs",
    )
    exclude_outputs: tuple[str, ...] = option(
        "--exclude-outputs",
        kind=Texts("NAME"),
        help="Tensors that are no outputs in any backend; names may be patterns.",
    )


EXTERNAL_DATA_FOLDER: Any = option(
    "--external-data-dir",
    "--load-external-data",
    "--ext",
    reads="Folder of weights",
    kind=Text("DIR"),
    help="Folder of the files with the model's weights, if they are not beside the model.",
    feeds=tuple(f"{name}.external_data_dir" for name in LOADERS),
)

STRUCTURE_ONLY: Any = option(
    "--ignore-external-data",
    help="Load the structure of the model only, without weights from other files.",
    feeds="onnx_from_path.ignore_external_data",
)


@option_group
class OnnxLoadOptions(Options):
    """ONNX Model Loading: the weights and the outputs of an ONNX model."""

    external_data_dir: str | None = EXTERNAL_DATA_FOLDER
    ignore_external_data: bool = STRUCTURE_ONLY
    onnx_outputs: tuple[str, ...] = option(
        "--onnx-outputs",
        kind=Outputs("NAME"),
        help="Tensors of the ONNX model that become its outputs, in place of its own; names may be"
        " patterns, such as 'conv*'. '*' is every tensor, and so is 'mark all'.",
        feeds="modify_outputs.outputs",
    )
    onnx_exclude_outputs: tuple[str, ...] = option(
        "--onnx-exclude-outputs",
        kind=Texts("NAME"),
        help="Tensors of the ONNX model that are no outputs; names may be patterns.",
    )
    onnx_outputs_by_type: tuple[str, ...] = option(
        "--onnx-outputs-by-type",
        kind=Texts("OP"),
        help="Types of operators, such as Conv: what they compute becomes outputs of the ONNX"
        " model, in place of its own, and besides those of --onnx-outputs.",
        feeds="modify_outputs.mark_types",
    )


def _cast(argument: str) -> tuple[str, ...]:
    """Return what an option about both conversions feeds."""
    return tuple(f"{name}.{argument}" for name in CASTS)


_CASTS = ("--fp-to-fp16", "--to-bf16")


@option_group
class OnnxCastOptions(Options):
    """ONNX Precision: the data type in which an ONNX model computes."""

    fp_to_fp16: bool = option(
        "--fp-to-fp16",
        excludes="--to-bf16",
        help="Convert the ONNX model to fp16; its inputs and outputs keep their types.",
    )
    to_bf16: bool = option(
        "--to-bf16", help="Convert the ONNX model to bf16; its inputs and outputs keep their types."
    )
    cast_keep_ops: tuple[str, ...] = option(
        "--cast-keep-ops",
        needs=_CASTS,
        feeds=_cast("keep_ops"),
        kind=Texts("OP"),
        help="Types of operators that stay in fp32, such as Softmax.",
    )
    cast_keep_nodes: tuple[str, ...] = option(
        "--cast-keep-nodes",
        needs=_CASTS,
        feeds=_cast("keep_nodes"),
        kind=Texts("NODE"),
        help="Nodes that stay in fp32; one without a name goes by those of its results.",
    )
    cast_only_ops: tuple[str, ...] = option(
        "--cast-only-ops",
        needs=_CASTS,
        feeds=_cast("only_ops"),
        kind=Texts("OP"),
        help="Types of operators that are converted; nothing else is then.",
    )
    cast_only_nodes: tuple[str, ...] = option(
        "--cast-only-nodes",
        needs=_CASTS,
        feeds=_cast("only_nodes"),
        kind=Texts("NODE"),
        help="Nodes that are converted; nothing else is then.",
    )
    cast_io: bool = option(
        "--cast-io",
        needs=_CASTS,
        feeds=_cast("cast_io"),
        help="Convert the types of its inputs and outputs, too.",
    )


def onnx_alone_option(*feeds: str, needs: str | tuple[str, ...] = ()) -> Any:
    """Return the option that keeps ONNX Runtime out of shape inference, and what it feeds."""
    return option(
        "--no-onnxruntime-shape-inference",
        needs=needs,
        help="Infer them with the onnx package alone. Otherwise ONNX Runtime's symbolic shape"
        " inference is asked for ranks that it does not find, where sympy is installed.",
        as_=False,
        feeds=feeds,
    )


@option_group
class OnnxShapeOptions(Options):
    """ONNX Shape Inference: data types and shapes that an ONNX model does not state."""

    shape_inference: bool = option(
        "--shape-inference",
        "--do-shape-inference",
        help="Infer the shapes of the ONNX model's tensors when it is loaded.",
        feeds=("inspect_model.infer_shapes", "draw_model.infer_shapes"),
    )
    no_onnxruntime_shape_inference: bool = onnx_alone_option(
        "inspect_model.allow_onnxruntime",
        "draw_model.allow_onnxruntime",
        "infer_shapes.allow_onnxruntime",
        needs="--shape-inference",
    )


EXTERNAL_DATA_NAME: Any = option(
    "--save-external-data",
    "--external-data-path",
    kind=Text("NAME", nargs="?", without_word=""),
    help="Save its large weights in a file of this name beside it; without a name, that of the"
    " model with .data appended. Models of 2 GB or more always are saved so.",
    feeds=tuple(f"{name}.external_data_path" for name in SAVERS),
)

EXTERNAL_DATA_THRESHOLD: Any = option(
    "--external-data-size-threshold",
    kind=ByteSize(),
    help="Weights of more bytes go to that file, as in 16e6, 512K, 4M.",
    otherwise="1024",
    feeds=tuple(f"{name}.size_threshold" for name in SAVERS),
)

ONE_FILE_PER_WEIGHT: Any = option(
    "--no-save-all-tensors-to-one-file",
    help="Save each of those weights in a file of its own.",
    as_=False,
    feeds=tuple(f"{name}.all_tensors_to_one_file" for name in SAVERS),
)


@option_group
class OnnxSaveOptions(Options):
    """ONNX Model Saving: the ONNX model as it is run, with all changes."""

    save_onnx: str | None = option(
        "--save-onnx", writes=True, help="Save the ONNX model that is run.", feeds="save_onnx.path"
    )
    save_external_data: str | None = EXTERNAL_DATA_NAME
    external_data_size_threshold: int | None = EXTERNAL_DATA_THRESHOLD
    no_save_all_tensors_to_one_file: bool = ONE_FILE_PER_WEIGHT
