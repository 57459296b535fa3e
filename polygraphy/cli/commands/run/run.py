"""The command `run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from attrs import evolve

from polygraphy.cli.backends.foreign import (
    PluggedBackend,
    all_backends,
    backends_in,
    warn_of_others,
)
from polygraphy.cli.backends.registry import built_in
from polygraphy.cli.backends.runners import RunnerOptions
from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.run.layers import by_layers, check_worst, chosen_for_parts
from polygraphy.cli.commands.run.run_backends import backends_of
from polygraphy.cli.commands.run.run_checks import check_run, compares_runs
from polygraphy.cli.commands.run.run_plugins import checked, titles_of, with_flags
from polygraphy.cli.commands.run.whole import Run, as_a_whole, one_after_the_other
from polygraphy.cli.declare.call import call_of, constants_of
from polygraphy.cli.declare.option import Option, Options, options_of
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.compare import (
    CompareOptions,
    FunctionOptions,
    JudgeOptions,
    PlotOptions,
    SimpleOptions,
    TopKOptions,
    check_average,
    compare_func_of,
    functions_of,
    postprocess_of,
)
from polygraphy.cli.shared.data import DataOptions, data_of
from polygraphy.cli.shared.graph import TfLoadOptions, TfOnnxOptions
from polygraphy.cli.shared.layerwise import LayerwiseOptions
from polygraphy.cli.shared.log_context import Log
from polygraphy.cli.shared.model import ModelOptions, split_symbol
from polygraphy.cli.shared.onnx import (
    OnnxCastOptions,
    OnnxLoadOptions,
    OnnxSaveOptions,
    OnnxShapeOptions,
    OutputOptions,
)
from polygraphy.cli.shared.runners import OrderOptions, RunOptions
from polygraphy.codegen.call import Call, Step
from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.source import Source
from polygraphy.domain.tensors.naming import enumerated


def summary_of(values: Values, titles: Mapping[str, str], *, compares: bool) -> str:
    """Return the sentence; `titles` are what people call the backends."""
    path = split_symbol(values[ModelOptions].model_file or "")[0]
    model = quoted(path.replace("\\", "/").rpartition("/")[2]) if path else ""
    runners = [each.partition(":")[::2] for each in values[RunnerOptions].runners]
    saved = {name for name, each in built_in().items() if each.text and not each.groups}
    backends = [titles[name] for name, _ in runners if name not in saved]
    engines = [quoted(text) for name, text in runners if name in saved]
    loaded = [quoted(path) for path in values[CompareOptions].load_outputs]
    if not backends and engines:
        model, backends = enumerated(engines), [titles[name] for name, _ in runners[:1]]
        engines = []
    elif not model:
        model = enumerated([quoted(text) for _, text in runners if text])
    if not backends:
        return f"Compare the saved outputs {enumerated(loaded)}."
    twice = [
        f"{name} (twice)" if backends.count(name) == 2 else name for name in dict.fromkeys(backends)
    ]
    where = f"{model} in {enumerated(twice)}"
    if loaded or engines:
        return f"Compare {where} with {enumerated([*engines, *loaded])}."
    return f"Compare {where}." if compares else f"Run {where}."


class RunCommand(Command):
    """Run a model in one or more backends on the same input data, and compare the outputs of each
    runner with those of the next. Exits with 0 when everything matched and with 1 when something
    did not.
    """

    name = "run"
    groups = (
        RunnerOptions,
        ModelOptions,
        OutputOptions,
        OnnxLoadOptions,
        OnnxCastOptions,
        OnnxShapeOptions,
        OnnxSaveOptions,
        *dict.fromkeys(
            (
                *(group for each in built_in().values() for group in each.groups),
                TfLoadOptions,
                TfOnnxOptions,
            )
        ),
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
    )
    plugins: Sequence[PluggedBackend] = ()
    """The backends of other packages that take part."""

    def extended(self, words: Sequence[str] | None = None) -> RunCommand:
        """Return the command with the backends of other packages: those that a command line names,
        or all.
        """
        if words is not None:
            warn_of_others()
        taken = self._flags()
        plugins = all_backends(taken) if words is None else backends_in(words, taken)
        command = RunCommand()
        command.plugins = plugins
        own = [plugin.declared.options for plugin in plugins if plugin.declared.options is not None]
        command.groups = (*self.groups, *own)
        return command

    def declared(self, group: type[Options]) -> Sequence[Option]:
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

    def program(self, values: Values) -> Program:
        check_run(values)
        backends = backends_of(values, self.plugins)
        compares = compares_runs(values)
        check_worst(values, compares=compares)
        data = data_of(values[DataOptions], values[ModelOptions].input_shapes)
        checks, verdicts = _checks(values, compares=compares)
        parts = chosen_for_parts(values, backends)
        if parts is not None:
            run = by_layers(values, backends, parts, data)
        elif backends.runners:
            also = not values[LayerwiseOptions].no_unmarked and _is_looked_at(values, compares)
            run = as_a_whole(values, backends, data, also_unmarked=also)
        else:
            run = Run()
        calls = [run.call, *([verdicts] if compares else [])]
        constants, [call, *compared] = constants_of(values, calls)
        if any(not text for _, text in backends.runners):
            constants.insert(
                0, Step("MODEL", split_symbol(values[ModelOptions].model_file or "")[0])
            )
        saved = values[CompareOptions].save_accuracy_results
        return Program(
            "run.py.j2",
            summary_of(values, titles_of(self.plugins), compares=compares),
            constants=constants,
            run=evolve(run, call=call),
            loaded=[
                Call("RunResults.load_streaming", [path])
                for path in values[CompareOptions].load_outputs
            ],
            checks=checks,
            verdicts=next(iter(compared), None),
            saved=None if values[CompareOptions].validate else saved,
            partials={each.template: each.partial for each in self.plugins},
        )

    def written(self, made: Program, words: Sequence[str], log: Log) -> str:
        """Return the source; partials of other packages may have made it anything."""
        return checked(partial(super().written, made, words, log), self.plugins)


def _is_looked_at(values: Values, compares: bool) -> bool:
    """Return whether anything is done with the outputs."""
    saves = values[RunOptions].save_outputs is not None
    return compares or saves or values[CompareOptions].validate


def _checks(values: Values, *, compares: bool) -> tuple[list[Step], Call]:
    """Return what is done with the results before they are compared, and what compares them."""
    options, worst = values[CompareOptions], values[LayerwiseOptions].save_worst
    functions = functions_of(values)
    check_average(values, functions)
    results = Source("runs" if options.load_outputs else "results")
    validate = call_of("Comparator.validate", values, results, check_inf=True)
    postprocess = postprocess_of(values)
    is_lazy = not one_after_the_other(values[OrderOptions])
    note = Source("Lazy: each iteration is checked when it is asked for." if is_lazy else "")
    checks = [Step(results, validate, note)] if options.validate else []
    if postprocess is not None:
        checks.append(Step(results, Call("Comparator.postprocess", [results, postprocess])))
    verdicts = call_of(
        "Comparator.compare_accuracy",
        values,
        results,
        compare_func=compare_func_of(functions),
        save_worst=None if worst is None else worst[0],
        save_worst_path=None if worst is None else worst[1],
        **({} if options.validate else {"save_accuracy_path": None}),
    )
    return checks, verdicts
