"""How a model is reduced."""

from __future__ import annotations

from collections.abc import Mapping

from polygraphy.cli.declare.kinds import Choice, Integer
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.shared.model import model_shapes_option


@option_group
class ReducedModelOptions(Options):
    """Results: what the model is reduced to."""

    min_good: str | None = option(
        "--min-good",
        "--minimal-good",
        writes=True,
        help="Save a part that passes, too, with about as many nodes.",
    )
    save_inputs: str | None = option(
        "--save-inputs",
        "--save-input-data",
        writes=True,
        help="Save what the inputs of each part hold when the whole model is run, for the check to"
        " use with --load-inputs; in the end, those of the result.",
        feeds="reduce_model.save_inputs",
    )


@option_group
class ReduceOptions(Options):
    """Search: how a failing part is found."""

    mode: str | None = option(
        "--mode",
        kind=Choice("bisect", "linear", "ddmin"),
        help="bisect halves what may be to blame, in all branches; linear tries every node; ddmin"
        " halves, and then leaves out nodes in between.",
        feeds="reduce_model.mode",
    )
    no_reduce_inputs: bool = option(
        "--no-reduce-inputs",
        excludes="--no-reduce-outputs",
        help="Keep the inputs: cut nodes off at the end only.",
        as_=False,
        feeds="reduce_model.reduce_inputs",
    )
    no_reduce_outputs: bool = option(
        "--no-reduce-outputs",
        help="Keep the outputs: cut nodes off at the beginning only.",
        as_=False,
        feeds="reduce_model.reduce_outputs",
    )
    all: bool = option(
        "--all",
        help="Find all that fails on its own: also search the rest of the model, without what was"
        " found, until it passes. What else is found is saved to OUTPUT_2.onnx and so on.",
        feeds="reduce_model.find_all",
    )
    jobs: int | None = option(
        "--jobs",
        kind=Integer(minimum=1),
        help="How many checks run side by side, on what may be checked next; the result is the"
        " same. Each runs in a folder of its own, with links to all that is in the current one.",
        feeds="Iterations.jobs",
    )


@option_group
class ReducedShapeOptions(Options):
    """Shapes: those of the model that is reduced."""

    model_input_shapes: Mapping[str, tuple[tuple[int, ...], ...]] | None = model_shapes_option(
        "Give inputs these shapes, as in image:[1,3,224,224], also for generated data."
    )
    no_shape_inference: bool = option(
        "--no-shape-inference", help="Do not infer shapes when the model is loaded."
    )
    no_onnxruntime_shape_inference: bool = option(
        "--no-onnxruntime-shape-inference",
        help="Infer them with the onnx package alone. Otherwise ONNX Runtime's symbolic shape"
        " inference does, where it and sympy are installed.",
        as_=False,
        feeds="infer_shapes.allow_onnxruntime",
    )
