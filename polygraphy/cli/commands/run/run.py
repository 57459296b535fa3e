"""The command `run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polygraphy.cli.backends.foreign import PluggedBackend, all_backends, backends_in
from polygraphy.cli.backends.onnxrt import OnnxrtOptions, OnnxrtThreadOptions
from polygraphy.cli.backends.registry import able_in_parts, built_in
from polygraphy.cli.backends.runners import RunnerOptions
from polygraphy.cli.commands.run.run_backends import backends_of
from polygraphy.cli.commands.run.run_checks import check_run
from polygraphy.cli.commands.run.run_plugins import plugged_of, rendered, titles_of, with_flags
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.option import Option, Options, options_of
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.compare import CompareOptions, JudgeOptions, SimpleOptions
from polygraphy.cli.shared.compare_context import comparison_of
from polygraphy.cli.shared.data import DataOptions
from polygraphy.cli.shared.data_context import data_of
from polygraphy.cli.shared.functions import FunctionOptions, TopKOptions
from polygraphy.cli.shared.layerwise import LayerwiseOptions
from polygraphy.cli.shared.layerwise_context import check_worst, with_layers, written_by_layers
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.model import ModelOptions
from polygraphy.cli.shared.onnx import (
    OnnxCastOptions,
    OnnxLoadOptions,
    OnnxSaveOptions,
    OnnxShapeOptions,
    OutputOptions,
)
from polygraphy.cli.shared.plots import PlotOptions
from polygraphy.cli.shared.report import ReportOptions
from polygraphy.cli.shared.runners import OrderOptions, RunOptions
from polygraphy.codegen.scripts.script import RunScript


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
        OnnxCastOptions,
        OnnxShapeOptions,
        OnnxSaveOptions,
        *(group for each in built_in().values() for group in each.groups),
        DataOptions,
        OrderOptions,
        RunOptions,
        CompareOptions,
        JudgeOptions,
        SimpleOptions,
        FunctionOptions,
        TopKOptions,
        LayerwiseOptions,
        PlotOptions,
        ScriptOptions,
        ReportOptions,
        LogOptions,
    )
    plugins: Sequence[PluggedBackend] = ()
    """The backends of other packages that take part."""

    def extended(self, words: Sequence[str] | None = None) -> RunCommand:
        """Return the command with the backends of other packages: those that a command line names,
        or all.
        """
        taken = self._flags()
        plugins = all_backends(taken) if words is None else backends_in(words, taken)
        command = RunCommand()
        command.plugins = plugins
        own = [plugin.declared.options for plugin in plugins if plugin.declared.options is not None]
        command.groups = (*self.groups, *own)
        return command

    def declared(self, group: type[Options]) -> list[Option]:
        """Return the declarations of a group; there is a flag for each backend."""
        options = super().declared(group)
        is_extended = self.plugins and group is RunnerOptions
        return [with_flags(option, self.plugins) for option in options] if is_extended else options

    def missing(self) -> dict[str, str]:
        """Return the flags of backends of other packages that are not used."""
        return {
            flag: f"is about {plugin.flag}, which is not given."
            for plugin in all_backends(self._flags())
            for flag in plugin.option_flags
        }

    def _flags(self) -> set[str]:
        own = (option for group in RunCommand.groups for option in options_of(group))
        return {"-h", "--help", *(flag for option in own for flag in option.flags)}

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that runs the model."""
        check_run(values, f"polygraphy {self.name}", written_by_layers(values))
        runs = values[RunOptions]
        order = values[OrderOptions]
        backends = backends_of(values, f"polygraphy {self.name}", self.plugins)
        script = RunScript(
            command=words,
            model=backends.model,
            runners=values[RunnerOptions].runners,
            titles=titles_of(self.plugins),
            providers=_listed(values[OnnxrtOptions].providers),
            graph_optimization_level=values[OnnxrtOptions].graph_optimization_level,
            threads=values[OnnxrtThreadOptions].threads,
            onnx=backends.onnx,
            trt=backends.trt,
            tf=backends.tf,
            calls=backends.calls,
            data=data_of(
                values[DataOptions], values[ModelOptions].input_shapes, f"polygraphy {self.name}"
            ),
            sequential=order.sequential_runners
            or order.use_subprocess
            or order.warm_up is not None,
            use_subprocess=order.use_subprocess,
            subprocess_timeout=order.subprocess_timeout,
            warm_up=order.warm_up,
            save_inputs=runs.save_inputs,
            save_outputs=runs.save_outputs,
            save_input_blob=runs.save_input_blob,
            comparison=comparison_of(values, f"polygraphy {self.name}"),
            log=log_of(values),
            plugged=plugged_of(values, self.plugins),
        )
        check_worst(values, script, f"polygraphy {self.name}")
        return rendered(
            with_layers(script, values, f"polygraphy {self.name}", able_in_parts()), self.plugins
        )


def _listed(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)
