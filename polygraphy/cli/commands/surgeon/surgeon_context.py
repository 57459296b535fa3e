"""From options to the context of a program that edits an ONNX model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from polygraphy.cli.commands.surgeon.surgeon_options import (
    EditedModelOptions,
    EditSaveOptions,
    FallbackOptions,
    TrialShapeOptions,
    VerifyOptions,
)
from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import CommandLineError, inform, warn
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.data import DataOptions
from polygraphy.cli.shared.data_context import data_of
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.onnx import OnnxShapeOptions
from polygraphy.cli.shared.paths import check_paths
from polygraphy.codegen.parts.onnx_model import Cast
from polygraphy.codegen.scripts.data import Data
from polygraphy.codegen.scripts.surgeon import Step, SurgeonScript

LOADED = (EditedModelOptions,)
"""The groups about the model that is edited."""


def edit_of(
    values: Values,
    words: Sequence[str],
    usage: str,
    *,
    summary: str,
    ending: str,
    steps: Sequence[Step],
    verifies: bool = False,
    data: Data | None = None,
    read: Sequence[tuple[str, str | None]] = (),
) -> SurgeonScript:
    """Return the context of a program.

    Args:
        values: the options.
        words: the command line.
        usage: the command, for messages.
        summary: what the program does.
        ending: what the output is called after the model's name, unless it has a name.
        steps: what is done to the model.
        verifies: whether outputs are compared.
        data: the data with which the model is run.
        read: further files that are read.

    Raises:
        CommandLineError: a file is both read and written.
    """
    model, save = values[EditedModelOptions], values[EditSaveOptions]
    path = model.model_file or ""
    output = save.output or PurePath(path).stem + ending
    if save.output is None:
        inform(f"Saving to {output}, because no --output is given.")
    _check_files(values, output, usage, read)
    _warn_about_unused(save)
    return SurgeonScript(
        command=words,
        summary=summary,
        model=path,
        output=output,
        steps=steps,
        load=load_of(model),
        save=save_of(save),
        verifies=verifies,
        data=data or Data(),
        log=log_of(values[LogOptions]),
    )


def load_of(model: EditedModelOptions) -> dict[str, Any]:
    """Return the arguments of loading a model whose weights stay in its files."""
    return {
        "external_data_dir": model.external_data_dir,
        "ignore_external_data": model.ignore_external_data or None,
        "map_weights": True,
    }


def save_of(save: EditSaveOptions) -> dict[str, Any]:
    """Return the arguments of saving an edited model, without its path."""
    return {
        "external_data_path": save.save_external_data,
        "size_threshold": save.external_data_size_threshold,
        "all_tensors_to_one_file": False if save.no_save_all_tensors_to_one_file else None,
    }


def _check_files(
    values: Values, output: str, usage: str, read: Sequence[tuple[str, str | None]]
) -> None:
    has_data = any(isinstance(group, DataOptions) for group in values)
    loaded = values[DataOptions].load_inputs if has_data else ()
    check_paths(
        [
            ("MODEL", values[EditedModelOptions].model_file),
            *(("--load-inputs", path) for path in loaded),
            *read,
        ],
        [
            ("--output", output),
            ("--log-file", values[LogOptions].log_file),
            ("--gen-script", values[ScriptOptions].gen_script),
        ],
        usage,
    )


def _warn_about_unused(save: EditSaveOptions) -> None:
    unused = {
        "--external-data-size-threshold": save.external_data_size_threshold is not None,
        "--no-save-all-tensors-to-one-file": save.no_save_all_tensors_to_one_file,
    }
    flags = [flag for flag, is_given in unused.items() if is_given]
    if flags and save.save_external_data is None:
        warn(
            f"{', '.join(flags)}: only matters with --save-external-data, or for models of 2 GB or"
            " more."
        )


def trial_of(values: Values, usage: str) -> tuple[bool, Data]:
    """Return whether the model is run to verify the edit, and with which data.

    Raises:
        CommandLineError: the data have two sources.
    """
    if values[VerifyOptions].verify:
        shapes = values[TrialShapeOptions].model_input_shapes
        return True, data_of(values[DataOptions], shapes, usage)
    if unused := flags_given(values, [DataOptions, TrialShapeOptions]):
        warn(f"{', '.join(unused)}: without effect, because the model is not run: see --verify.")
    return False, Data()


def inference_steps(options: OnnxShapeOptions) -> list[Step]:
    """Return the step that infers shapes, where that is asked for."""
    if not options.shape_inference:
        if options.no_onnxruntime_shape_inference:
            warn("--no-onnxruntime-shape-inference: has no effect without --shape-inference.")
        return []
    allow = False if options.no_onnxruntime_shape_inference else None
    return [Step("infer_shapes", {"allow_onnxruntime": allow})]


def check_fallback(values: Values, usage: str) -> bool:
    """Return whether shapes are found out by running the model.

    Raises:
        CommandLineError: they are to be inferred as well.
    """
    forced = values[FallbackOptions].force_fallback_shape_inference
    if forced and values[OnnxShapeOptions].shape_inference:
        raise CommandLineError(
            "--shape-inference and --force-fallback-shape-inference exclude each other."
            " Choose one.",
            usage,
        )
    return forced


def cast_steps(cast: Cast | None) -> list[Step]:
    """Return the step that converts the model to another precision, if any."""
    return [] if cast is None else [Step(f"convert_to_{cast.dtype}", cast.arguments)]
