"""The command `run`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial

from attrs import evolve, frozen

from polygraphy.cli.backends.built_in import (
    BackendUsage,
    BuiltInBackend,
    Groups,
    RunnerModel,
    backends_by_name,
    backends_for_parts,
    backends_named_by,
    flag_of,
)
from polygraphy.cli.backends.foreign import (
    PluggedBackend,
    all_backends,
    backends_with_flags,
    warn_of_unsupported_packages,
)
from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.named import (
    parse_named,
    select_runners,
)
from polygraphy.cli.commands.run.run_backends import (
    Backends,
    RunnerOptions,
    UsedRunner,
    backends_of,
)
from polygraphy.cli.commands.run.run_plugins import render_checked, with_flags
from polygraphy.cli.declare.errors import CommandLineError, warn_of_idle_flags
from polygraphy.cli.declare.option import (
    Option,
    Options,
    Values,
    call_of,
    constants_of,
    non_default_flags,
)
from polygraphy.cli.shared.compare import (
    CompareOptions,
    FunctionOptions,
    JudgeOptions,
    LayerwiseOptions,
    PlotOptions,
    SimpleOptions,
    TopKOptions,
    check_average,
    compare_func_of,
    functions_of,
    postprocess_of,
    samples_of,
)
from polygraphy.cli.shared.data import USUAL, DataOptions, data_of, data_step
from polygraphy.cli.shared.log import Log
from polygraphy.cli.shared.model import (
    ModelOptions,
    TfLoadOptions,
    TfOnnxOptions,
    kind_of_model,
    split_symbol,
)
from polygraphy.cli.shared.onnx import (
    OnnxCastOptions,
    OnnxLoadOptions,
    OnnxModel,
    OnnxSaveOptions,
    OnnxShapeOptions,
    OutputOptions,
)
from polygraphy.cli.shared.runners import OrderOptions, ProfileOptions, RunOptions
from polygraphy.cli.shared.steps import DATA_PROFILES, StepOptions, with_steps
from polygraphy.codegen.source import (
    Call,
    Expression,
    FunctionOfModel,
    Source,
    Step,
    literal,
    quote_word,
    rename_steps,
)
from polygraphy.domain.tensors.naming import join_words

_PATH = RunnerModel.path
_LOADER = Source("data_loader")
_PROFILING = Source("profiling")


@frozen
class Run:
    """The statements of a program that run a model; empty without runners.

    Attributes:
        before: statements before the list of runners.
        name: the name of that list.
        runners: its contents.
        after: statements after it.
        call: the call that runs them.
        is_lazy: whether that runs nothing until its results are read.
        is_split: whether the results are split by runner.
    """

    before: Sequence[Step] = ()
    name: Source = Source("runners")
    runners: Sequence[Expression] = ()
    after: Sequence[Step] = ()
    call: Call = Call("Comparator.run")
    is_lazy: bool = False
    is_split: bool = False


def run_as_a_whole(values: Values, backends: Backends, data: Call, *, also_unmarked: bool) -> Run:
    """Return the parts of a program that runs a model as a whole.

    Args:
        values: the options.
        backends: the backends that run it.
        data: the call that creates the data loader.
        also_unmarked: whether the unmarked model also runs, for runners with marked tensors.
    """
    first_model = values[StepOptions].first_model
    is_once = also_unmarked and first_model is None
    unmarked = _runners_without_marks(backends) if is_once else {}
    needs_data = any(runner.chosen.needs_data for runner in backends.runners)
    name = Source("model" if backends.shares_onnx else "load_model")
    before, model = _load_steps(backends.onnx, name, is_shared=backends.shares_onnx)
    before += data_step(data, calibrates=True) if needs_data else []
    for used_runner in backends.distinct_runners:
        before += used_runner.steps(used_runner.chosen, model)
    plain_model = model
    if unmarked:
        plain = backends.onnx.without("modify_outputs", "save_onnx")
        loads, plain_model = _load_steps(plain, Source("load_unmarked"))
        before += loads
    for used_runner in backends.distinct_runners:
        if (as_it_is := unmarked.get(id(used_runner.chosen))) is not None:
            before += used_runner.steps(as_it_is, plain_model)
    runners: list[Expression] = []
    for used_runner in backends.runners:
        runner = used_runner.of(used_runner.chosen, model)
        if (as_it_is := unmarked.get(id(used_runner.chosen))) is not None:
            runner = Call(
                "WithUnmarked",
                [runner, used_runner.of(as_it_is, plain_model)],
                {"exclude_outputs": backends.outputs_to_exclude or None},
            )
        runners.append(runner)
    if first_model is not None:
        loads, firsts = _runners_of_first_model(values, backends, first_model)
        before += loads
        runners = [Call("WithFirstModel", pair) for pair in zip(runners, firsts)]
    is_sequential = runs_in_sequence(values[OrderOptions])
    has_loader = needs_data or data != USUAL
    return Run(
        before=before,
        runners=runners,
        after=[
            *_naming_steps(backends, runners),
            *([] if needs_data else data_step(data)),
            *_profiling_steps(values, backends),
        ],
        call=call_of(
            "Comparator.run",
            values,
            Source("runners"),
            *([_LOADER] if has_loader else ()),
            streaming=None if is_sequential else True,
            profiling=None if values[ProfileOptions].profile is None else _PROFILING,
        ),
        is_lazy=not is_sequential,
        is_split=is_sequential and values[CompareOptions].validate,
    )


def _profiling_steps(values: Values, backends: Backends) -> list[Step]:
    """Return the statement that selects the profiled runs; empty without profiling."""
    if values[ProfileOptions].profile is None:
        return []
    onnx = backends.onnx.without("modify_outputs", "save_onnx")
    is_onnx = kind_of_model(values, unknown="onnx") == "onnx" and any(
        not runner.text for runner in backends.runners
    )
    model = [_PATH if onnx.is_as_saved else onnx.loader(_PATH)] if is_onnx else []
    return [Step(_PROFILING, call_of("ProfileNodes", values, *model))]


def runs_in_sequence(options: OrderOptions) -> bool:
    """Return whether runners run one after another, instead of side by side."""
    return options.sequential_runners or options.use_subprocess or options.warm_up is not None


def _runners_of_first_model(
    values: Values, backends: Backends, path: str
) -> tuple[list[Step], list[Expression]]:
    """Return the statements that create runners for the model of the first step, and the runners.

    Raises:
        CommandLineError: a backend runs a different model, or saves its build.
    """
    other_runner = next((runner for runner in backends.runners if runner.text), None)
    if other_runner is not None:
        raise CommandLineError(
            f"--first-model: {flag_of(other_runner.backend)} {other_runner.text} is a model by"
            " itself. Use backends that run both ONNX models."
        )
    if non_default_flags(values, [OnnxSaveOptions]):
        raise CommandLineError("--first-model cannot be combined with --save-onnx.")
    name = Source("first_model" if backends.shares_onnx else "load_first_model")
    before, model = _load_steps(
        backends.onnx, name, is_shared=backends.shares_onnx, path=literal(path)
    )
    names: dict[str, str] = {f"{DATA_PROFILES}": f"{_LOADER}.profiles(first_model=True)"}
    for used_runner in backends.distinct_runners:
        steps = used_runner.steps(used_runner.chosen, model)
        if any(step.name == "save_engine" for step in steps):
            raise CommandLineError(
                "--first-model cannot be combined with --save-engine: there are two engines."
            )
        names.update({step.name: f"{step.name}_first" for step in steps})
        before += [rename_steps(step, names) for step in steps]
    runners = (runner.of(runner.chosen, model) for runner in backends.runners)
    return before, [rename_steps(runner, names) for runner in runners]


def _load_steps(
    onnx: OnnxModel, name: Source, *, is_shared: bool = False, path: Source = _PATH
) -> tuple[list[Step], RunnerModel]:
    """Return the statement that loads a model, if needed, and the model for the backends."""
    if onnx.is_as_saved:
        return [], RunnerModel(path, is_path=True)
    loader = onnx.of(path) if is_shared else onnx.loader(path)
    return [Step(name, loader)], RunnerModel(name, is_path=False)


def _naming_steps(backends: Backends, runners: Sequence[Expression]) -> list[Step]:
    """Return the statements that name runners of other packages."""
    return [
        Step(f"runners[{position}].name", used_runner.name)
        for position, (used_runner, expression) in enumerate(zip(backends.runners, runners))
        if used_runner.name and not isinstance(expression, Call)
    ]


def _runners_without_marks(backends: Backends) -> dict[int, BackendUsage]:
    """Return, by position, how backends with marked tensors also run the unmarked model."""
    marks = bool(backends.onnx.outputs)
    return {
        id(chosen): chosen.unmarked_usage
        for chosen in (runner.chosen for runner in backends.runners)
        if chosen.unmarked_usage is not None and (chosen.marks or marks)
    }


_COMPARING: Groups = (
    CompareOptions, JudgeOptions, SimpleOptions, FunctionOptions, TopKOptions, PlotOptions
)  # fmt: skip
_ALSO_OF_ONE = (
    "--fail-fast",  # Validation also uses it.
    "--postprocess",
    "--postprocess-func-script",
    "--save-accuracy-results",
    "--validate",
)
"""Those of them that also apply to a single run."""


_CHOOSE_SECOND = "Choose a second runner, or load outputs with --load-outputs."


def _check_combinations(values: Values) -> None:
    """Raise CommandLineError for contradicting options."""
    order, saved, runners = values[OrderOptions], values[RunOptions], values[RunnerOptions].runners
    if order.subprocess_timeout is not None and not order.use_subprocess:
        raise CommandLineError("--subprocess-timeout requires --use-subprocess.")
    choose = (
        "" if runners else f"Choose at least one of {', '.join(backends_for_parts().values())}."
    )
    if not runners and not values[CompareOptions].load_outputs:
        raise CommandLineError(f"nothing to run. {choose}")
    if values[ProfileOptions].profile is not None and order.use_subprocess:
        raise CommandLineError("--profile cannot be combined with --use-subprocess.")
    runs_model = any(not runner.text for runner in select_runners(values, RunnerOptions))
    if runs_model and values[ModelOptions].model_file is None:
        raise CommandLineError("missing model for the selected runner: add its path.")
    if not runners and any((saved.save_inputs, saved.save_outputs, saved.save_input_blob)):
        raise CommandLineError(f"nothing to save without a runner. {choose}")
    loaded, layers = values[CompareOptions].load_outputs, values[LayerwiseOptions]
    if values[CompareOptions].save_accuracy_results is not None and len(runners) + len(loaded) == 1:
        raise CommandLineError(f"--save-accuracy-results needs a comparison. {_CHOOSE_SECOND}")
    given_rows = (
        ("--save-worst", layers.save_worst),
        ("--save-error-by-depth", layers.save_error_by_depth),
    )
    unusable = [flag for flag, value in given_rows if value is not None]
    if unusable and not compares_runs(values):
        raise CommandLineError(
            f"{' and '.join(unusable)}: there is no comparison. {_CHOOSE_SECOND}"
        )


def _groups_without_effect(
    values: Values, backends: Sequence[BuiltInBackend]
) -> Iterator[tuple[str, Groups, Sequence[str]]]:
    """Yield options without effect: the reason, their groups, and exceptions."""
    runners = values[RunnerOptions].runners
    single_backends = [backend for backend in backends if backend.idle]
    if not runners:
        own_groups = [group for backend in single_backends for group in backend.exclusive_groups]
        groups: Groups = (
            ModelOptions, *own_groups, DataOptions, StepOptions, OrderOptions, ProfileOptions
        )  # fmt: skip
        yield "nothing is run", groups, ()
        return
    chosen = backends_named_by(
        chosen_runner.backend for chosen_runner in select_runners(values, RunnerOptions)
    )
    for backend in single_backends:
        if backend.name not in chosen:
            yield backend.idle, backend.exclusive_groups, ()
    if _runs_nothing(values):
        yield "nothing is run: --iterations is 0", (*_COMPARING, ProfileOptions), ()
    elif not compares_runs(values):
        yield "nothing is compared: there is a single runner", _COMPARING, _ALSO_OF_ONE


def compares_runs(values: Values) -> bool:
    """Return whether there may be two runs to compare."""
    loaded = len(values[CompareOptions].load_outputs)
    runners = len(values[RunnerOptions].runners)
    return (runners + loaded > 1 or not runners) and not _runs_nothing(values)


def _runs_nothing(values: Values) -> bool:
    """Return whether models are only loaded or built, because of --iterations 0."""
    data = values[DataOptions]
    load_inputs = data.load_inputs or data.data_loader_script or values[CompareOptions].load_outputs
    return bool(values[RunnerOptions].runners) and data.iterations == 0 and not load_inputs


def layerwise_runners(
    values: Values, backends: Backends
) -> list[tuple[BackendUsage, UsedRunner]] | None:
    """Return how backends run the parts of a model layer by layer; None if it runs as a whole.

    Raises:
        CommandLineError: a layer-by-layer run is requested but not possible.
    """
    budget = values[LayerwiseOptions].memory_budget
    obstacle = _obstacle(values, backends)
    if obstacle is not None:
        if budget is not None:
            raise CommandLineError(f"--memory-budget: {obstacle}")
        return None
    if budget is None and any(runner.chosen.builds for runner in backends.runners):
        return None
    parts = [(runner.chosen.of_parts, runner) for runner in backends.runners]
    return [(part, used_runner) for part, used_runner in parts if part is not None]


def run_by_layers(
    values: Values, backends: Backends, parts: Sequence[tuple[BackendUsage, UsedRunner]], data: Call
) -> Run:
    """Return the parts of the program that runs a model layer by layer.

    Args:
        values: the options.
        backends: the backends that run it.
        parts: the runners, each as it runs a part.
        data: the call that creates the data loader.
    """
    part = RunnerModel(Source("model"), is_path=False, is_part=True)
    path, unmarked = RunnerModel.path, backends.onnx.without("modify_outputs")
    return Run(
        name=Source("make_runners"),
        runners=[FunctionOfModel(runner.of(chosen, part)) for chosen, runner in parts],
        after=data_step(data),
        call=call_of(
            "Comparator.run_layerwise",
            values,
            Source("make_runners"),
            path if unmarked.is_as_saved else unmarked.loader(path),
            *(() if data == USUAL else [Source("data_loader")]),
            exclude_outputs=backends.onnx.outputs.get("exclude_outputs"),
        ),
        is_lazy=True,
    )


def _obstacle(values: Values, backends: Backends) -> str | None:
    """Return why a model cannot be run layer by layer; None if it can."""
    able = backends_for_parts()
    names = {runner.backend for runner in backends.runners}
    for stands_in_the_way, text in (
        (
            not backends.onnx.is_marked,
            "requires a comparison of every tensor. Add --mark-all or --onnx-outputs '*'.",
        ),
        (
            len(backends.runners) < 2 or bool(values[CompareOptions].load_outputs),
            "requires at least two runners, and cannot be combined with saved outputs.",
        ),
        (
            not able.keys() >= names,
            f"requires runners of an ONNX model: {join_words(list(able.values()))}.",
        ),
        (
            values[RunOptions].save_outputs is not None,
            "cannot be combined with --save-outputs, because outputs are not kept. Use"
            " --save-worst.",
        ),
        (
            runs_in_sequence(values[OrderOptions]),
            "cannot be combined with --sequential-runners, --warm-up or --use-subprocess,"
            " because the runners take turns.",
        ),
        (
            values[ProfileOptions].profile is not None,
            "cannot be combined with --profile, which runs the model as a whole.",
        ),
        (
            values[StepOptions].steps is not None,
            "cannot be combined with --steps, which runs the model as a whole.",
        ),
        (
            values[OnnxSaveOptions].save_onnx is not None,
            "cannot be combined with --save-onnx, because the model runs in parts.",
        ),
        (
            any(runner.chosen.of_parts is None for runner in backends.runners),
            "each segment of layers is a separate engine, without calibration, profiles,"
            " network edits or a file to save to.",
        ),
    ):
        if stands_in_the_way:
            return text
    return None


def summary_of(values: Values, titles: Mapping[str, str], *, compares: bool) -> str:
    """Return the summary of the program; `titles` are the names of the backends."""
    model = values[ModelOptions].in_words
    runners = select_runners(values, RunnerOptions)
    of_text = backends_named_by(runner.backend for runner in runners).values()
    saved = {backend.name for backend in of_text if backend.text and not backend.groups()}
    backends = [
        f"{runner.name} ({titles[runner.backend]})" if runner.name else titles[runner.backend]
        for runner in runners
        if runner.backend not in saved or runner.name
    ]
    engines = [
        quote_word(runner.text) for runner in runners if runner.backend in saved and not runner.name
    ]
    loaded = [quote_word(path) for path in values[CompareOptions].load_outputs]
    if not backends and engines:
        model, backends = join_words(engines), [titles[runner.backend] for runner in runners[:1]]
        engines = []
    elif not model:
        model = join_words([quote_word(runner.text) for runner in runners if runner.text])
    if not backends:
        return f"Compare the saved outputs {join_words(loaded)}."
    twice = [
        f"{name} (twice)" if backends.count(name) == 2 else name for name in dict.fromkeys(backends)
    ]
    where = f"{model} in {join_words(twice)}"
    if loaded or engines:
        return f"Compare {where} with {join_words([*engines, *loaded])}."
    return f"Compare {where}." if compares else f"Run {where}."


_BEFORE: Groups = (
    RunnerOptions,
    ModelOptions,
    OutputOptions,
    OnnxLoadOptions,
    OnnxCastOptions,
    OnnxShapeOptions,
    OnnxSaveOptions,
)
_AFTER: Groups = (
    TfLoadOptions,
    TfOnnxOptions,
    DataOptions,
    StepOptions,
    OrderOptions,
    ProfileOptions,
    RunOptions,
    CompareOptions,
    JudgeOptions,
    SimpleOptions,
    FunctionOptions,
    TopKOptions,
    LayerwiseOptions,
    PlotOptions,
)
"""The options around those of backends."""


class RunCommand(Command):
    """Run a model in one or more backends on the same input data, and compare the outputs of each
    runner with those of the next one. Exits with 0 if everything matches, and with 1 otherwise.
    """

    name = "run"

    def __init__(
        self,
        backends: Sequence[BuiltInBackend] | None = None,
        plugins: Sequence[PluggedBackend] = (),
    ) -> None:
        """Set the backends, by default all of this package; `plugins` are those of others."""
        self.backends = [*backends_by_name().values()] if backends is None else backends
        self.plugins = plugins

    @cached_property
    def groups(self) -> Groups:  # type: ignore[override]
        """Return the groups of options, including those of the selected backends."""
        of_backends = [group for backend in self.backends for group in backend.groups()]
        options = [
            plugin.declared.options
            for plugin in self.plugins
            if plugin.declared.options is not None
        ]
        return tuple(dict.fromkeys((*_BEFORE, *of_backends, *_AFTER, *self.ending, *options)))

    def extend(self, flags: Collection[str] | None = None) -> RunCommand:
        """Return the command with the backends that flags name;
        with all of them for help or unknown flags.
        """
        if flags is None:
            return RunCommand(plugins=all_backends(self.flags))
        warn_of_unsupported_packages()
        few = RunCommand([backend for backend in self.backends if backend.flag in flags])
        if few.flags.issuperset(flags):
            return few
        return RunCommand(plugins=backends_with_flags(flags, self.flags))

    def options_of(self, group: type[Options]) -> Sequence[Option]:
        """Return the declarations of a group, with a flag for each backend."""
        options = super().options_of(group)
        is_extended = self.plugins and group is RunnerOptions
        return [with_flags(option, self.plugins) for option in options] if is_extended else options

    def missing_flags(self) -> dict[str, str]:
        """Return the flags of unused backends of other packages, each with a clause about what it
        requires.
        """
        return {
            flag: f"requires {plugin.flag}."
            for plugin in all_backends(RunCommand().flags)
            for flag in plugin.option_flags
        }

    def values_by_runner(self, values: Values) -> dict[str, Values]:
        """Return the options of named runners, by name."""
        own_nested = {
            plugin.name: (plugin.declared.options,)
            for plugin in self.plugins
            if plugin.declared.options is not None
        }

        def groups_of(name: str) -> Groups:
            """Return the groups of options of a named runner."""
            if name not in backends_by_name():
                return own_nested.get(name, ())
            backend = backends_by_name()[name]
            return tuple(group for group in backend.groups() if group not in backend.shared)

        return parse_named(self, RunnerOptions, values, groups_of)

    def program(self, values: Values) -> Program:
        """Return the program that runs and compares the model."""
        _check_combinations(values)
        for because, groups, besides in _groups_without_effect(values, self.backends):
            warn_of_idle_flags(
                non_default_flags(values, groups, besides=besides), f", because {because}"
            )
        backends = backends_of(values, self.backends, self.plugins)
        compares = compares_runs(values)
        data = data_of(values[DataOptions], values[ModelOptions].input_shapes)
        is_onnx = kind_of_model(values, unknown="onnx") == "onnx"
        has_path = is_onnx and any(not runner.text for runner in backends.runners)
        data = with_steps(values, data, _PATH if has_path else None)
        checks, verdicts = _checks(values)
        parts = layerwise_runners(values, backends)
        if parts is not None:
            run = run_by_layers(values, backends, parts, data)
        elif backends.runners:
            saves = values[RunOptions].save_outputs is not None
            is_looked_at = compares or saves or values[CompareOptions].validate
            also = is_looked_at and not values[LayerwiseOptions].no_unmarked
            also = also or values[ProfileOptions].profile is not None
            run = run_as_a_whole(values, backends, data, also_unmarked=also)
        else:
            run = Run()
        calls = [run.call, *([verdicts] if compares else [])]
        constants, [call, *compared] = constants_of(values, calls)
        if any(not runner.text for runner in backends.runners):
            constants.insert(
                0, Step("MODEL", split_symbol(values[ModelOptions].model_file or "")[0])
            )
        saved = values[CompareOptions].save_accuracy_results
        chosen = backends_named_by(runner.backend for runner in backends.runners)
        titles = {name: backend.title for name, backend in chosen.items()}
        titles |= {plugin.name: plugin.declared.title for plugin in self.plugins}
        return Program(
            "run.py.j2",
            summary_of(values, titles, compares=compares),
            constants=constants,
            run=evolve(run, call=call),
            loaded=[
                Call("RunResults.load_streaming", [path])
                for path in values[CompareOptions].load_outputs
            ],
            checks=checks,
            verdicts=next(iter(compared), None),
            profiled=_profile_calls(values, compares=compares) if backends.runners else (),
            saved=None if values[CompareOptions].validate else saved,
            partials={plugin.template: plugin.partial for plugin in self.plugins},
        )

    def program_source(self, program: Program, line: str, log: Log) -> str:
        """Return the source of the program.
        Raise an error if a template of another package made it invalid."""
        render = super().program_source
        if not self.plugins:
            return render(program, line, log)
        return render_checked(partial(render, program, line, log), self.plugins)


def _profile_calls(values: Values, *, compares: bool) -> list[Call]:
    """Return the statements that show and save a profile; empty without one."""
    options = values[ProfileOptions]
    if options.profile is None or _runs_nothing(values):
        return []
    verdicts = [Source("verdicts")] if compares else []
    calls = [call_of("ProfileNodes.report", values, *verdicts)]
    if options.save_profile is not None:
        calls.append(call_of("ProfileNodes.save", values))
    return [evolve(call, on=_PROFILING) for call in calls]


def _checks(values: Values) -> tuple[list[Step], Call]:
    """Return statements that change results, and the call that compares them."""
    options, worst = values[CompareOptions], values[LayerwiseOptions].save_worst
    functions = functions_of(values)
    check_average(values, functions)
    results = Source("runs" if options.load_outputs else "results")
    validate = call_of("Comparator.validate", values, results, check_inf=True)
    postprocess = postprocess_of(values)
    is_lazy = not runs_in_sequence(values[OrderOptions])
    note = Source("Lazy: each iteration is checked when it is requested." if is_lazy else "")
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
        samples=samples_of(values, values[DataOptions].load_inputs),
        **({} if options.validate else {"save_accuracy_path": None}),
    )
    return checks, verdicts
