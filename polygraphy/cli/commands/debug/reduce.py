"""The command `debug reduce`."""

from __future__ import annotations

from pathlib import PurePath

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.debug.context import check_artifacts, check_of, iterations_of
from polygraphy.cli.commands.debug.options import (
    ArtifactOptions,
    CheckOptions,
    DebugReplayOptions,
    ModelIterationOptions,
)
from polygraphy.cli.commands.debug.reduce_options import (
    ReducedModelOptions,
    ReducedShapeOptions,
    ReduceOptions,
)
from polygraphy.cli.commands.surgeon.surgeon_context import data_loader_of, load_of
from polygraphy.cli.commands.surgeon.surgeon_options import (
    EditedModelOptions,
    EditSaveOptions,
    FallbackOptions,
)
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.errors import CommandLineError, inform, warn
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.data import DataOptions, data_of, data_step
from polygraphy.cli.shared.onnx import OnnxCastOptions
from polygraphy.cli.shared.onnx_model import cast_of
from polygraphy.cli.shared.paths import check_files
from polygraphy.codegen.call import Call
from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.source import Source


class DebugReduceCommand(Command):
    """Reduce an ONNX model that fails a check to a small part that still fails. What is cut off in
    front becomes an input; what other branches contribute becomes a constant, with the value that
    it has when the whole model is run.
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
        self._check(values)
        model, save = values[EditedModelOptions], values[EditSaveOptions]
        results, shapes = values[ReducedModelOptions], values[ReducedShapeOptions]
        path = model.model_file or ""
        name = path.replace("\\", "/").rpartition("/")[2]
        output = save.output
        if output is None and results.min_good is None:
            output = f"{PurePath(path).stem}_reduced.onnx"
            inform(f"Saving to {output}, because no --output is given.")
        check_files(values, written=[("--output", output)])
        check_artifacts(values)
        data = data_of(
            values[DataOptions], shapes.model_input_shapes, only_first=results.save_inputs is None
        )
        loader = data_loader_of(data)
        return Program(
            "debug_reduce.py.j2",
            f"Reduce {quoted(name)} to a part that still fails.",
            model=path,
            iterations=iterations_of(
                values,
                check_of(values),
                ModelIterationOptions,
                results=(output, results.min_good),
            ),
            output=output,
            finds_all=values[ReduceOptions].all,
            min_good=results.min_good,
            steps=[
                *self._steps(values, loader),
                *cast_of(values[OnnxCastOptions]),
            ],
            load=load_of(values),
            save=call_of("save_onnx", values),
            reduce=call_of("reduce_model", values),
            before=data_step(data),
            loader=loader,
        )

    def _check(self, values: Values) -> None:
        """Refuse what cannot be meant together."""
        chosen, shapes = values[ReduceOptions], values[ReducedShapeOptions]
        observes = values[FallbackOptions].force_fallback_shape_inference
        for flag, given in (
            ("--no-reduce-inputs", chosen.no_reduce_inputs),
            ("--no-reduce-outputs", chosen.no_reduce_outputs),
        ):
            if given and chosen.mode == "ddmin":
                raise CommandLineError(f"--mode ddmin and {flag} exclude each other. Choose one.")
        if shapes.no_onnxruntime_shape_inference and (shapes.no_shape_inference or observes):
            warn("--no-onnxruntime-shape-inference: without effect, because nothing is inferred.")

    def _steps(self, values: Values, loader: Source | None) -> list[Call]:
        """Return what is done to the model before."""
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
