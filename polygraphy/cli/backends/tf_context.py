"""From options to the context of a program: how it loads and runs a TensorFlow graph."""

from __future__ import annotations

from typing import Any

from polygraphy.cli.backends.tf import (
    TfLoadOptions,
    TfOnnxOptions,
    TfRunnerOptions,
    TfSaveOptions,
    TfTrtOptions,
)
from polygraphy.cli.backends.trt.config_options import TrtConfigOptions
from polygraphy.cli.backends.trt.precision_options import TrtPrecisionOptions
from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import Options
from polygraphy.cli.shared.onnx import EVERY_TENSOR, OutputOptions
from polygraphy.codegen.parts.tf_graph import TfGraph
from polygraphy.domain.catalog.formats import formats_of

TF_TYPES = formats_of("tensorflow")
"""Types of models that TensorFlow loads."""

GRAPH_GROUPS: tuple[type[Options], ...] = (TfLoadOptions,)
SESSION_GROUPS: tuple[type[Options], ...] = (TfTrtOptions, TfSaveOptions, TfRunnerOptions)


def graph_of(values: Values, kind: str, usage: str) -> TfGraph:
    """Return how a graph is loaded; `kind` is the type of the model, one of `TF_TYPES`.

    Raises:
        CommandLineError: a checkpoint is named, and the model is none.
    """
    load, every = values[TfLoadOptions], values[OutputOptions]
    if load.ckpt is not None and kind != "ckpt":
        raise CommandLineError(
            f"--ckpt names a checkpoint, but the model is of type {kind}. Give the folder of the"
            " checkpoint as MODEL.",
            usage,
        )
    marks_all = every.mark_all or load.tf_outputs == EVERY_TENSOR
    return TfGraph(
        kind=kind,
        checkpoint=load.ckpt,
        optimize=load.freeze_graph,
        mark_all=marks_all,
        outputs=() if marks_all else load.tf_outputs,
    )


def session_of(graph: TfGraph, values: Values, usage: str) -> TfGraph:
    """Return how a graph is run that is loaded so.

    Raises:
        CommandLineError: options about TensorRT in TensorFlow come without it.
    """
    from attrs import evolve

    save, run = values[TfSaveOptions], values[TfRunnerOptions]
    session = {
        "gpu_memory_fraction": run.gpu_memory_fraction,
        "allow_growth": run.allow_growth or None,
        "use_xla": run.xla or None,
    }
    return evolve(
        graph,
        tensorrt=_tensorrt(values, usage),
        save=save.save_pb,
        tensorboard_dir=save.save_tensorboard,
        session={name: value for name, value in session.items() if value is not None},
        timeline_dir=run.save_timeline,
    )


def _tensorrt(values: Values, usage: str) -> dict[str, Any] | None:
    options, precision = values[TfTrtOptions], values[TrtPrecisionOptions]
    if not options.tftrt:
        for flag, value in {
            "--minimum-segment-size": options.minimum_segment_size,
            "--dynamic-op": options.dynamic_op or None,
        }.items():
            if value is not None:
                raise CommandLineError(f"{flag} needs --tftrt, which it is about.", usage)
        return None
    build = values[TrtConfigOptions]
    pools = build.pool_limit or {}
    given = {
        "max_workspace_size": pools.get("workspace", build.workspace),
        "fp16": precision.fp16 or None,
        "int8": precision.int8 or None,
        "is_dynamic_op": options.dynamic_op or None,
        "minimum_segment_size": options.minimum_segment_size,
    }
    return {name: value for name, value in given.items() if value is not None}


def opset_of(values: Values) -> int | None:
    """Return the opset that a graph is converted to."""
    return values[TfOnnxOptions].opset
