"""The command `debug reduce`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.debug.context import (
    ArtifactOptions,
    CheckOptions,
    DebugReplayOptions,
    ModelIterationOptions,
    check_artifacts,
    check_of,
    iterations_of,
)
from polygraphy.cli.commands.surgeon.surgeon_context import data_loader_of, load_of
from polygraphy.cli.commands.surgeon.surgeon_options import (
    EditedModelOptions,
    EditSaveOptions,
    FallbackOptions,
)
from polygraphy.cli.declare.errors import CommandLineError, inform, warn
from polygraphy.cli.declare.kinds import Choice, Integer
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.cli.shared.data import DataOptions, data_of, data_step
from polygraphy.cli.shared.model import model_shapes_option
from polygraphy.cli.shared.onnx import OnnxCastOptions, cast_of
from polygraphy.cli.shared.paths import check_files
from polygraphy.codegen.source import Call, Source


@option_group
class ReducedModelOptions(Options):
    """Results: files of the reduced model."""

    min_good: str | None = option(
        "--min-good",
        "--minimal-good",
        writes=True,
        help="Path for a part that passes, with about as many nodes as the failing part.",
    )
    save_inputs: str | None = option(
        "--save-inputs",
        "--save-input-data",
        writes=True,
        help="Save the values that each part receives in the full model, for the check to use"
        " with --load-inputs. Afterwards the file holds the inputs of the reduced model.",
        feeds="reduce_model.save_inputs",
    )


@option_group
class ReduceOptions(Options):
    """Search: how to find the part that fails."""

    mode: str | None = option(
        "--mode",
        kind=Choice("bisect", "linear", "ddmin"),
        help="Search: bisect halves the candidates in all branches, linear tries every node,"
        " ddmin halves and then removes single nodes in between.",
        feeds="reduce_model.mode",
    )
    no_reduce_inputs: bool = option(
        "--no-reduce-inputs",
        excludes="--no-reduce-outputs",
        help="Keep the inputs, and remove nodes at the end only.",
        as_=False,
        feeds="reduce_model.reduce_inputs",
    )
    no_reduce_outputs: bool = option(
        "--no-reduce-outputs",
        help="Keep the outputs, and remove nodes at the start only.",
        as_=False,
        feeds="reduce_model.reduce_outputs",
    )
    all: bool = option(
        "--all",
        help="Find all independent failures: continue with the rest of the model until it"
        " passes. Further results are saved to OUTPUT_2.onnx and so on.",
        feeds="reduce_model.find_all",
    )
    jobs: int | None = option(
        "--jobs",
        kind=Integer(minimum=1),
        help="Number of checks to run in parallel, including checks that may turn out to be"
        " unnecessary. The result does not change. Each check runs in its own folder, with links"
        " to the files of the current one.",
        feeds="Iterations.jobs",
    )


@option_group
class ReducedShapeOptions(Options):
    """Shapes: shape inference for the model."""

    model_input_shapes: Mapping[str, tuple[tuple[int, ...], ...]] | None = model_shapes_option(
        "Set the shapes of inputs, as in image:1x3x224x224, also for generated data."
    )
    no_shape_inference: bool = option(
        "--no-shape-inference", help="Skip shape inference when the model is loaded."
    )
    no_onnxruntime_shape_inference: bool = option(
        "--no-onnxruntime-shape-inference",
        help="Infer shapes with the onnx package only. By default, ONNX Runtime's symbolic shape"
        " inference is used if ONNX Runtime and sympy are installed.",
        as_=False,
        feeds="infer_shapes.allow_onnxruntime",
    )


class DebugReduceCommand(Command):
    """Reduce an ONNX model that fails a check to a small part that still fails. Tensors at the cut
    become inputs. Tensors from other branches become constants with their values from a run of
    the full model.
    """

    name = "debug reduce"
    groups = (
        EditedModelOptions,
        ReduceOptions,
        CheckOptions,
        EditSaveOptions,
        ReducedModelOptions,
        ArtifactOptions,
        ModelIterationOptions,
        DebugReplayOptions,
        ReducedShapeOptions,
        FallbackOptions,
        OnnxCastOptions,
        DataOptions,
    )

    def program(self, values: Values) -> Program:
        """Return the program that reduces the model."""
        self._check(values)
        model, save = values[EditedModelOptions], values[EditSaveOptions]
        results, shapes = values[ReducedModelOptions], values[ReducedShapeOptions]
        path = model.model_file or ""
        output = save.output
        if output is None and results.min_good is None:
            output = f"{PurePath(path).stem}_reduced.onnx"
            inform(f"Saving to {output}, because --output is not set.")
        check_files(values, written=[("--output", output)])
        check_artifacts(values)
        data = data_of(
            values[DataOptions], shapes.model_input_shapes, only_first=results.save_inputs is None
        )
        loader = data_loader_of(data)
        return Program(
            "debug_reduce.py.j2",
            f"Reduce {model.in_words} to a part that still fails.",
            model=path,
            iterations=iterations_of(
                values, check_of(values), ModelIterationOptions, results=(output, results.min_good)
            ),
            output=output,
            finds_all=values[ReduceOptions].all,
            min_good=results.min_good,
            steps=[*self._steps(values, loader), *cast_of(values[OnnxCastOptions])],
            load=load_of(values),
            save=call_of("save_onnx", values),
            reduce=call_of("reduce_model", values),
            before=data_step(data),
            loader=loader,
        )

    def _check(self, values: Values) -> None:
        """Raise CommandLineError for contradicting options."""
        chosen, shapes = values[ReduceOptions], values[ReducedShapeOptions]
        observes = values[FallbackOptions].force_fallback_shape_inference
        for flag, is_given in (
            ("--no-reduce-inputs", chosen.no_reduce_inputs),
            ("--no-reduce-outputs", chosen.no_reduce_outputs),
        ):
            if is_given and chosen.mode == "ddmin":
                raise CommandLineError(f"--mode ddmin and {flag} cannot be combined. Choose one.")
        if shapes.no_onnxruntime_shape_inference and (shapes.no_shape_inference or observes):
            warn("--no-onnxruntime-shape-inference: has no effect, because shape inference is off.")

    def _steps(self, values: Values, loader: Source | None) -> list[Call]:
        """Return the calls that change the model before it is reduced."""
        shapes = values[ReducedShapeOptions]
        steps = []
        if shapes.model_input_shapes:
            first = {name: list(turns[0]) for name, turns in shapes.model_input_shapes.items()}
            steps.append(Call("override_input_shapes", kwargs={"shapes": first}))
        if values[FallbackOptions].force_fallback_shape_inference:
            steps.append(Call("observe_shapes", kwargs={"data_loader": loader}))
        elif not shapes.no_shape_inference:
            steps.append(call_of("infer_shapes", values))
        return steps
