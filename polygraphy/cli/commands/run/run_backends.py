"""The backends of the command `run`: selection and usage."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import evolve, frozen

from polygraphy.cli.backends.built_in import (
    BackendUsage,
    BuiltInBackend,
    RunnerModel,
    backends_by_name,
    backends_named_by,
    check_model_type,
)
from polygraphy.cli.backends.foreign import (
    PluggedBackend,
)
from polygraphy.cli.commands.named import (
    ChosenRunner,
    RunnerFlags,
    select_runners,
)
from polygraphy.cli.commands.run.run_plugins import check_types
from polygraphy.cli.declare.errors import warn_of_idle_flags
from polygraphy.cli.declare.option import (
    NAMED_RUNNER,
    Options,
    Values,
    non_default_flags,
    option,
    option_group,
)
from polygraphy.cli.shared.model import (
    TF_TYPES,
    ModelOptions,
    TfLoadOptions,
    TfOnnxOptions,
    graph_of,
    kind_of_model,
)
from polygraphy.cli.shared.onnx import (
    OnnxModel,
    onnx_of,
)
from polygraphy.codegen.source import (
    Call,
    Expression,
    Step,
    rename_steps,
)
from polygraphy.domain.catalog.formats import formats_of

_BY_FLAG = {backend.flag: backend for backend in backends_by_name().values()}


@option_group
class RunnerOptions(Options):
    """Runners: the backends that run the model, in the order of the command line; a flag can be
    repeated.
    """

    runners: tuple[str, ...] = option(
        *_BY_FLAG,
        NAMED_RUNNER,
        reads="Model",
        kind=RunnerFlags(
            {flag: backend.name for flag, backend in _BY_FLAG.items()},
            {flag: backend.help for flag, backend in _BY_FLAG.items()},
            {flag: backend.text for flag, backend in _BY_FLAG.items() if backend.text},
        ),
        help="Backends that run the model, in the order of the command line.",
    )


@frozen
class UsedRunner:
    """A runner of a program.

    Attributes:
        backend: the name of its backend.
        text: the text after its flag, if any.
        name: the name that the user chose for it, if any.
        suffix: the suffix that makes the names of its statements unique.
        chosen: the way the program uses its backend; the same for all without a name.
    """

    backend: str
    text: str
    name: str
    suffix: str
    chosen: BackendUsage

    def of(self, chosen: BackendUsage, model: RunnerModel) -> Expression:
        """Return the expression that creates the runner, with its name if the call accepts one."""
        runner = chosen.runner(evolve(model, text=self.text))
        if not isinstance(runner, Call) or not self.name:
            return runner
        call: Call = rename_steps(runner.of(name=self.name), self._names(model))
        return call

    def steps(self, chosen: BackendUsage, model: RunnerModel) -> list[Step]:
        """Return the statements before the runner."""
        names = self._names(model)
        return [rename_steps(step, names) for step in chosen.steps(model)]

    def _names(self, model: RunnerModel) -> dict[str, str]:
        """Return new names for its statements that other runners also use."""
        if not self.suffix:
            return {}
        forms = [
            chosen for chosen in (self.chosen, self.chosen.unmarked_usage) if chosen is not None
        ]
        steps = [step for form in forms for step in form.steps(model)]
        return {step.name: f"{step.name}{self.suffix}" for step in steps}


@frozen
class Backends:
    """The backends of a program, and the model that they run.

    Attributes:
        runners: the runners, in order.
        onnx: the call that creates the ONNX model, for backends that run one.
        accepting: the names of the backends that run the ONNX model.
    """

    runners: Sequence[UsedRunner]
    onnx: OnnxModel
    accepting: Collection[str]

    @property
    def distinct_runners(self) -> list[UsedRunner]:
        """Return the runners without repetitions."""
        return list({id(runner.chosen): runner for runner in reversed(self.runners)}.values())[::-1]

    @property
    def shares_onnx(self) -> bool:
        """Return whether several runners use the ONNX model,
        so that it is loaded once before them."""
        runners = [runner for runner in self.runners if runner.backend in self.accepting]
        return len([runner for runner in runners if not runner.text]) > 1

    @property
    def outputs_to_exclude(self) -> list[str]:
        """Return the outputs that no runner compares."""
        names = [*self.onnx.outputs.get("exclude_outputs", ())]
        names += [name for runner in self.runners for name in runner.chosen.excluded]
        return list(dict.fromkeys(names))


def backends_of(
    values: Values, declared: Iterable[BuiltInBackend], plugins: Sequence[PluggedBackend] = ()
) -> Backends:
    """Return how the selected backends load, build and run the model.

    Args:
        values: the options.
        declared: the backends whose options are among them.
        plugins: the selected backends of other packages.

    Raises:
        CommandLineError: a backend cannot run this type of model, or options contradict each other.
    """
    runners = select_runners(values, RunnerOptions)
    chosen = backends_named_by(runner.backend for runner in runners)
    names = set(chosen)
    options = values[ModelOptions]
    takes_graphs = [set(backend.model_types) <= {*TF_TYPES} for backend in chosen.values()]
    is_graph = bool(takes_graphs) and all(takes_graphs)
    kind = kind_of_model(values, unknown="frozen" if is_graph else "onnx")
    is_tensorflow = kind in TF_TYPES
    if any(not backend.text for backend in chosen.values()):
        check_model_type(options, kind, names)
    if plugins:
        check_types(options, "onnx" if is_tensorflow else kind, plugins)
    accepting = {
        *(plugin.name for plugin in plugins if "onnx" in plugin.declared.model_types),
        *(name for name, backend in chosen.items() if "onnx" in backend.model_types),
    }
    is_loaded = bool(accepting) and kind in formats_of("onnx", "tensorflow")
    for backend in declared:
        backend.warn(values, names, kind)
    for runner in runners:
        if runner.own is not None and runner.backend in chosen:
            chosen[runner.backend].warn(runner.own, {runner.backend}, kind)
    if not is_tensorflow:
        unused = non_default_flags(values, [TfLoadOptions, TfOnnxOptions])
        warn_of_idle_flags(unused, ", because the model is not a TensorFlow model")
    used = _use_runners(runners, chosen, plugins, kind)
    onnx = onnx_of(
        values,
        is_loaded=is_loaded,
        has_others=any(backend.marks_outputs for backend in chosen.values())
        or (any(chosen_runner.chosen.builds for chosen_runner in used) and not is_loaded),
        graph=graph_of(values, kind) if is_tensorflow else (),
        opset=values[TfOnnxOptions].opset if is_tensorflow else None,
    )
    return Backends(used, onnx, accepting)


def _use_runners(
    runners: Sequence[ChosenRunner],
    chosen: Mapping[str, BuiltInBackend],
    plugins: Sequence[PluggedBackend],
    kind: str,
) -> list[UsedRunner]:
    """Return the runners as the program uses them; those without a name share their backend."""
    plugged_backends = {plugin.name: plugin for plugin in plugins}
    shared: dict[str, BackendUsage] = {}
    used: list[UsedRunner] = []
    for runner in runners:
        shared_runner = None if runner.name else shared.get(runner.backend)
        if shared_runner is None and runner.backend in chosen:
            shared_runner = chosen[runner.backend].usage(runner.values, kind)
        elif shared_runner is None:
            shared_runner = plugged_backends[runner.backend].usage(runner.values)
        if not runner.name:
            shared[runner.backend] = shared_runner
        suffix = re.sub(r"\W", "_", f"_{runner.name}") if runner.name else ""
        if suffix and suffix in {chosen_runner.suffix for chosen_runner in used}:
            suffix = f"{suffix}_{len(used)}"
        used.append(UsedRunner(runner.backend, runner.text, runner.name, suffix, shared_runner))
    return used
