"""From options to the context of a program: how it loads and changes its ONNX model."""

from __future__ import annotations

from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.option import Options, argv_of
from polygraphy.cli.shared.onnx import (
    EVERY_TENSOR,
    OnnxCastOptions,
    OnnxLoadOptions,
    OnnxSaveOptions,
    OnnxShapeOptions,
    OutputOptions,
)
from polygraphy.codegen.parts.onnx_model import Cast, OnnxModel
from polygraphy.codegen.parts.tf_graph import TfGraph


def cast_of(options: OnnxCastOptions, usage: str) -> Cast | None:
    """Return to what the model is converted, None for nothing.

    Raises:
        CommandLineError: two of them are asked for.
    """
    if options.fp_to_fp16 and options.to_bf16:
        raise CommandLineError("--fp-to-fp16 and --to-bf16 exclude each other. Choose one.", usage)
    if not options.fp_to_fp16 and not options.to_bf16:
        given = [flag for flag in argv_of(options) if flag.startswith("--cast-")]
        if given:
            warn(f"{', '.join(given)}: no effect without --fp-to-fp16 or --to-bf16.")
        return None
    return Cast(
        "fp16" if options.fp_to_fp16 else "bf16",
        keep_ops=list(options.cast_keep_ops) or None,
        keep_nodes=list(options.cast_keep_nodes) or None,
        only_ops=list(options.cast_only_ops) or None,
        only_nodes=list(options.cast_only_nodes) or None,
        cast_io=options.cast_io or None,
    )


def with_defaults(values: Values) -> Values:
    """Return the options of a command that loads an ONNX model and does not save it as one of its
    options says, with the groups that it lacks as if they had been left out.
    """
    groups: dict[type[Options], Options] = {
        OutputOptions: OutputOptions(),
        OnnxSaveOptions: OnnxSaveOptions(),
    }
    groups.update({type(group): group for group in values})
    return Values(groups)


def onnx_of(
    values: Values,
    usage: str,
    *,
    is_loaded: bool,
    has_others: bool = False,
    cast: Cast | None = None,
    graph: TfGraph | None = None,
    opset: int | None = None,
) -> OnnxModel:
    """Return how the model is loaded.

    Args:
        values: the options; those about outputs, and the three groups about ONNX models.
        usage: the command, for messages.
        is_loaded: whether a runner loads the model at all.
        has_others: whether there is another model that the options for all backends are about.
        cast: to what it is converted.
        graph: the TensorFlow graph that it is converted from, if it is no ONNX file.
        opset: the opset that it is converted to.

    Raises:
        CommandLineError: the model is asked to be changed or saved, and nothing loads it.
    """
    load, save, shape = values[OnnxLoadOptions], values[OnnxSaveOptions], values[OnnxShapeOptions]
    every = OutputOptions() if has_others and not is_loaded else values[OutputOptions]
    marks_all = every.mark_all or load.onnx_outputs == EVERY_TENSOR
    made = OnnxModel(
        graph=graph if is_loaded else None,
        opset=opset if is_loaded else None,
        external_data_dir=load.external_data_dir,
        ignore_external_data=load.ignore_external_data or None,
        infer_shapes=shape.shape_inference,
        allow_onnxruntime=(
            False if shape.shape_inference and shape.no_onnxruntime_shape_inference else None
        ),
        mark_all=marks_all,
        outputs=() if marks_all else load.onnx_outputs,
        mark_types=load.onnx_outputs_by_type,
        exclude_outputs=tuple(dict.fromkeys(every.exclude_outputs + load.onnx_exclude_outputs)),
        cast=cast,
        save=save.save_onnx,
        external_data_path=save.save_external_data if save.save_onnx else None,
        size_threshold=save.external_data_size_threshold if save.save_onnx else None,
        all_tensors_to_one_file=(
            False if save.save_onnx and save.no_save_all_tensors_to_one_file else None
        ),
    )
    if not is_loaded and not made.is_as_saved:
        raise CommandLineError(
            "no selected runner loads the ONNX model, so it can neither be changed nor saved."
            " Choose one that does, such as --onnxrt or --onnx.",
            usage,
        )
    _warn_about_unused(load, save, shape, marks_all=every.mark_all)
    return made


def _warn_about_unused(
    load: OnnxLoadOptions, save: OnnxSaveOptions, shape: OnnxShapeOptions, *, marks_all: bool
) -> None:
    if marks_all and load.onnx_outputs not in ((), EVERY_TENSOR):
        warn("--onnx-outputs: has no effect, because --mark-all makes every tensor an output.")
    if shape.no_onnxruntime_shape_inference and not shape.shape_inference:
        warn("--no-onnxruntime-shape-inference: has no effect without --shape-inference.")
    given = {
        "--save-external-data": save.save_external_data is not None,
        "--external-data-size-threshold": save.external_data_size_threshold is not None,
        "--no-save-all-tensors-to-one-file": save.no_save_all_tensors_to_one_file,
    }
    unused = [flag for flag, is_given in given.items() if is_given]
    if unused and save.save_onnx is None:
        warn(f"{', '.join(unused)}: without effect, because no model is saved: see --save-onnx.")
    elif unused and save.save_external_data is None:
        warn(
            f"{', '.join(unused)}: only matters with --save-external-data, or for models of 2 GB or"
            " more."
        )
