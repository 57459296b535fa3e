"""The command `run`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.command import Command, Values
from polygraphy.cli.compare_context import check_saved_verdicts, comparison_of
from polygraphy.cli.data_context import data_of
from polygraphy.cli.errors import CommandLineError
from polygraphy.cli.onnx_context import onnx_of
from polygraphy.cli.options.compare import CompareOptions, SimpleOptions
from polygraphy.cli.options.data import DataOptions
from polygraphy.cli.options.functions import FunctionOptions
from polygraphy.cli.options.log import LogOptions, severities
from polygraphy.cli.options.model import ModelOptions, model_type
from polygraphy.cli.options.onnx import (
    OnnxLoadOptions,
    OnnxSaveOptions,
    OnnxShapeOptions,
    OutputOptions,
)
from polygraphy.cli.options.runners import (
    OnnxrtOptions,
    OrderOptions,
    RunnerOptions,
    RunOptions,
)
from polygraphy.cli.options.script import ScriptOptions
from polygraphy.cli.paths import check_paths
from polygraphy.codegen.script import Log, RunScript

__all__ = ["RunCommand"]


class RunCommand(Command):
    """Runs a model in several backends and compares the outputs."""

    name = "run"
    description = (
        "Run a model in one or more backends on the same input data, and compare the outputs of"
        " each runner with those of the next. Exits with 0 when everything matched and with 1 when"
        " something did not."
    )
    groups = (
        RunnerOptions,
        ModelOptions,
        OutputOptions,
        OnnxLoadOptions,
        OnnxShapeOptions,
        OnnxSaveOptions,
        OnnxrtOptions,
        DataOptions,
        OrderOptions,
        RunOptions,
        CompareOptions,
        SimpleOptions,
        FunctionOptions,
        ScriptOptions,
        LogOptions,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that runs the model."""
        self._check(values)
        runs = values[RunOptions]
        order = values[OrderOptions]
        return RunScript(
            command=words,
            model=values[ModelOptions].model_file,
            runners=values[RunnerOptions].runners,
            providers=_listed(values[OnnxrtOptions].providers),
            graph_optimization_level=values[OnnxrtOptions].graph_optimization_level,
            onnx=onnx_of(
                values,
                f"polygraphy {self.name}",
                is_loaded=bool(values[RunnerOptions].runners),
            ),
            data=data_of(
                values[DataOptions], values[ModelOptions].input_shapes, f"polygraphy {self.name}"
            ),
            sequential=order.sequential_runners
            or order.use_subprocess
            or order.warm_up is not None,
            use_subprocess=order.use_subprocess,
            warm_up=order.warm_up,
            save_inputs=runs.save_inputs,
            save_outputs=runs.save_outputs,
            comparison=comparison_of(values, f"polygraphy {self.name}"),
            log=log_of(values[LogOptions]),
        ).render()

    def _check(self, values: Values) -> None:
        """Refuse what cannot be meant together."""
        runners, model = values[RunnerOptions].runners, values[ModelOptions]
        loaded, saved = values[CompareOptions].load_outputs, values[RunOptions]
        usage = f"polygraphy {self.name}"
        if not runners and not loaded:
            raise CommandLineError(
                "nothing is selected to run. Choose at least one of --onnxrt, --onnx.", usage
            )
        if runners and model.model_file is None:
            raise CommandLineError(
                "a runner is selected but no model is given. Name its path.", usage
            )
        if not runners and (saved.save_inputs or saved.save_outputs):
            raise CommandLineError(
                "without a runner there is nothing to save. Choose at least one of --onnxrt,"
                " --onnx.",
                usage,
            )
        kind = model_type(model)
        if runners and kind not in ("onnx", None):
            raise CommandLineError(
                f"{model.model_file} is a model of type {kind}, which none of the selected runners"
                " can run. They run ONNX models.",
                usage,
            )
        read = [
            ("MODEL", model.model_file if runners else None),
            *(("--load-inputs", path) for path in values[DataOptions].load_inputs),
            *(("--load-outputs", path) for path in loaded),
        ]
        written = [
            ("--save-inputs", saved.save_inputs),
            ("--save-outputs", saved.save_outputs),
            ("--save-onnx", values[OnnxSaveOptions].save_onnx),
            ("--save-accuracy-results", values[CompareOptions].save_accuracy_results),
            ("--log-file", values[LogOptions].log_file),
            ("--gen-script", values[ScriptOptions].gen_script),
        ]
        check_paths(read, written, usage)
        check_saved_verdicts(values, usage)


def _listed(texts: Sequence[str] | None) -> list[str] | None:
    return None if texts is None else list(texts)


def log_of(options: LogOptions) -> Log:
    """Return how the program is to log."""
    return Log(severities=severities(options), formats=options.log_format, file=options.log_file)
