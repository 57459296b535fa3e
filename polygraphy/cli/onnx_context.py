"""From options to the context of a program: how it loads and changes its ONNX model."""

from __future__ import annotations

from polygraphy.cli.command import Values
from polygraphy.cli.errors import CommandLineError, warn
from polygraphy.cli.options.onnx import (
    EVERY_TENSOR,
    OnnxLoadOptions,
    OnnxSaveOptions,
    OnnxShapeOptions,
    OutputOptions,
)
from polygraphy.codegen.onnx_model import OnnxModel

__all__ = ["onnx_of"]


def onnx_of(values: Values, usage: str, *, is_loaded: bool) -> OnnxModel:
    """Return how the model is loaded.

    Args:
        values: the options; those about outputs, and the three groups about ONNX models.
        usage: the command, for messages.
        is_loaded: whether a runner loads the model at all.

    Raises:
        CommandLineError: the model is asked to be changed or saved, and nothing loads it.
    """
    load, save, shape = values[OnnxLoadOptions], values[OnnxSaveOptions], values[OnnxShapeOptions]
    every = values[OutputOptions]
    marks_all = every.mark_all or load.onnx_outputs == EVERY_TENSOR
    made = OnnxModel(
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
            " Choose --onnxrt or --onnx.",
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
