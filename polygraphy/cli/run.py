"""The command `run`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.command import Command, Values
from polygraphy.cli.errors import CommandLineError
from polygraphy.cli.options.compare import CompareOptions, SimpleOptions
from polygraphy.cli.options.data import DataOptions
from polygraphy.cli.options.log import LogOptions, severities
from polygraphy.cli.options.model import ModelOptions, model_type
from polygraphy.cli.options.runners import OnnxrtOptions, RunnerOptions, RunOptions
from polygraphy.cli.options.script import ScriptOptions
from polygraphy.codegen.script import Comparison, Data, Log, RunScript, SimpleFunction

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
        OnnxrtOptions,
        DataOptions,
        RunOptions,
        CompareOptions,
        SimpleOptions,
        ScriptOptions,
        LogOptions,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that runs the model."""
        self._check(values)
        runs, compare = values[RunOptions], values[CompareOptions]
        return RunScript(
            command=words,
            model=values[ModelOptions].model_file,
            runners=values[RunnerOptions].runners,
            providers=_listed(values[OnnxrtOptions].providers),
            data=_data(values),
            save_inputs=runs.save_inputs,
            save_outputs=runs.save_outputs,
            comparison=Comparison(
                validate=compare.validate,
                fail_fast=compare.fail_fast,
                load_outputs=compare.load_outputs,
                simple=_simple(values),
            ),
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
        for load, save, flags in (
            (values[DataOptions].load_inputs, saved.save_inputs, "--load-inputs and --save-inputs"),
            (loaded, saved.save_outputs, "--load-outputs and --save-outputs"),
        ):
            if save in load:
                raise CommandLineError(
                    f"{flags} name the same path, {save}. Save to another one.", usage
                )


def _data(values: Values) -> Data:
    options, shapes = values[DataOptions], values[ModelOptions].input_shapes
    if options.load_inputs:
        return Data(load=options.load_inputs)
    return Data(
        seed=options.seed,
        iterations=options.iterations,
        val_range=options.val_range,
        shapes=shapes or {},
    )


def _simple(values: Values) -> SimpleFunction:
    options = values[SimpleOptions]
    return SimpleFunction(
        check_shapes=False if options.no_shape_check else None,
        rtol=options.rtol,
        atol=options.atol,
        fail_fast=values[CompareOptions].fail_fast or None,
        check_error_stat=options.check_error_stat,
        infinities_compare_equal=options.infinities_compare_equal or None,
        error_quantile=options.error_quantile,
    )


def _listed(texts: Sequence[str] | None) -> list[str] | None:
    return None if texts is None else list(texts)


def log_of(options: LogOptions) -> Log:
    """Return how the program is to log."""
    return Log(severities=severities(options), formats=options.log_format, file=options.log_file)
