"""The backends of this package: their declarations, and a list in the order of the help."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import Options, Values, flags_in
from polygraphy.codegen.source import Call, Expression, Source, Step
from polygraphy.domain.catalog.formats import formats_of
from polygraphy.domain.tensors.naming import join_words

if TYPE_CHECKING:
    from polygraphy.cli.shared.model import ModelOptions, NamedModel
    from polygraphy.cli.shared.onnx import OnnxModel

Groups = tuple[type[Options], ...]


def _check_full_stop(instance: Backend, attribute: Any, text: str) -> None:
    """Raise ValueError if the help of a backend does not end with a period."""
    if not text.endswith("."):
        raise ValueError(f"the help of a backend must end with a period: {text!r}")


@frozen(kw_only=True)
class Backend:
    """A backend that another package adds.

    A package declares an object of this class in its entry-point group ``polygraphy.backends``. The
    name of the entry point is the name of the backend: ``polygraphy run --mine`` runs ``mine``.

    Attributes:
        title: the display name of the backend, as in "Compare model.onnx in ONNX Runtime and Mine".
        help: the purpose of the backend, in a sentence.
        options: the group of its own options, if it has any.
        runner: the class or function that creates the runner, as in ``my_package:MyRunner``. A
            program calls it with the model, and with the options that the user sets, by the names
            of their fields. The model is a path, an ONNX model, or a loader of one.
        partial: if a call is not sufficient, a Jinja2 template with the macro ``runner(options,
            model, is_path)``, next to the module of the entry point. The macro writes the
            expression that creates the runner. It receives the values of `options` (None without
            options), the expression for the model, and whether that is a path. If it is not, it is
            an ONNX model or a loader of one.
        model_types: the types of models that it runs, by their names for `--model-type`. Empty
            means any type; the runner then receives a path.
    """

    title: str
    help: str = field(validator=_check_full_stop)
    options: type[Options] | None = None
    runner: str = ""
    partial: str = "runner.py.j2"
    model_types: tuple[str, ...] = ("onnx",)


def flag_of(name: str) -> str:
    """Return the flag that chooses a backend."""
    return f"--{name.replace('_', '-')}"


@frozen
class RunnerModel:
    """The model of a runner, as expressions in a program.

    Attributes:
        source: the expression for the ONNX model.
        is_path: whether that is the path of a file; else an ONNX model, or a loader of one.
        text: the text after the flag of a runner that has its own model.
        is_part: whether it is one of several parts of a model that run in turn.
    """

    source: Source
    is_path: bool
    text: str = ""
    is_part: bool = False

    path = Source("MODEL")
    """The expression for the path of the model of the command line."""


@frozen(kw_only=True)
class BackendUsage:
    """The statements and calls with which one program uses a backend.

    Attributes:
        runner: returns the call that creates a runner for a model.
        steps: returns statements that come before the runners.
        needs_data: whether these need `data_loader`.
        builds: whether the backend builds an engine from the model, which takes time.
        excluded: names and patterns of tensors that it does not mark as outputs.
        marks: whether it marks tensors as outputs itself.
        unmarked_usage: the usage with no tensor marked as an output; None if it would not differ.
        of_parts: the usage for parts of a model, with every tensor as an output; None if the
            backend cannot run parts.
    """

    runner: Callable[[RunnerModel], Expression]
    steps: Callable[[RunnerModel], list[Step]] = lambda _model: []
    needs_data: bool = False
    builds: bool = False
    excluded: Sequence[str] = ()
    marks: bool = False
    unmarked_usage: BackendUsage | None = None
    of_parts: BackendUsage | None = None


@frozen
class Target:
    """A target format of `convert`.

    Attributes:
        becomes: the same in words.
        ending: the ending of its default file name.
        format: the format of that file.
    """

    becomes: str
    ending: str
    format: str


@frozen(kw_only=True)
class Conversion:
    """The way `convert` creates a format that only this backend reads.

    Attributes:
        targets: the conversion targets, by their names for ``--convert-to``.
        groups: the options about it.
        make: returns the statements before the last one, and the last one, which saves; its
            arguments are the options, the ONNX model (None for other models), the data, the target,
            and the path of the output.
        warn: logs which of the options have no effect on a target.
    """

    targets: Mapping[str, Target]
    groups: tuple[type[Options], ...]
    make: Callable[
        [Values, OnnxModel | None, Call, str, str], tuple[list[Step], Expression | Source]
    ]
    warn: Callable[[Values, str], None]


@frozen
class InspectedModel:
    """The description of a model for `inspect model`, after a backend has built it.

    Attributes:
        model: the path of the model.
        steps: the statements before.
        shown: the details to show.
    """

    model: str
    steps: Sequence[Step]
    shown: Expression | Source


@frozen(kw_only=True)
class Inspection:
    """The way `inspect model` shows a model that a backend builds.

    Attributes:
        groups: the options about it.
        besides: options among them that alone do not request a build.
        make: returns the inspected model for the options, the model, and whether it is converted.
        warn: logs which of the options have no effect on models of some paths.
    """

    groups: tuple[type[Options], ...]
    besides: tuple[str, ...]
    make: Callable[[Values, ModelOptions, bool], InspectedModel]
    warn: Callable[[Values, Sequence[str]], None]


@frozen(kw_only=True)
class BuiltInBackend(Backend):
    """A backend of this package, declared by a module of `polygraphy.cli.backends`.

    Attributes:
        name: its name in programs and templates.
        groups: returns the groups of its own options, imported if it is used.
        text: the name of the text after its flag; such a backend runs what the text names, and
            the others the model of the command line.
        shared: those of them about loading a model, for any backend.
        idle: the reason why its other options have no effect if it is not chosen; empty if others
            use them, too.
        runs_parts: whether it runs any part of an ONNX model, as layer-by-layer runs require.
        marks_outputs: whether it marks tensors as outputs itself, without an ONNX model.
        modules: the modules it imports that may be loaded before a process forks.
        rewrites: whether it rewrites models except marked outputs, so that the unmarked model must
            run too.
        call: returns the call that creates its runner, from the options and the model.
        party: returns the call that creates it as a backend of a diagnosis; None if it cannot be
            one.
        baseline: returns the call that creates a backend to compare with in a diagnosis, if the
            command names none; None if there is none.
        program: returns the call that creates a program from which models are exported, from the
            text after the flag; None if it has none.
        party_groups: returns the groups of options in a diagnosis (default: `groups`).
        warn: logs which of its options have no effect, from the options, the names of the backends
            that are chosen, and the type of the model.
        conversion: returns how `convert` uses it; None if it does not.
        inspection: returns how `inspect model` uses it; None if it does not.
        choose: returns how a program uses it, from the options and the type of the model, if `call`
            is not enough.
    """

    name: str
    groups: Callable[[], Groups] = tuple
    shared: tuple[type[Options], ...] = ()
    text: str = ""
    idle: str = ""
    runs_parts: bool = False
    marks_outputs: bool = False
    modules: tuple[str, ...] = ()
    rewrites: bool = False
    call: Callable[[Values, RunnerModel], Call] | None = None
    party: Callable[[Values], Call] | None = None
    baseline: Callable[[Values], Call | None] = lambda _values: None
    program: Callable[[str, str | None], Call] | None = None
    party_groups: Callable[[], Groups] | None = None
    warn: Callable[[Values, Collection[str], str], None] = lambda _values, _chosen, _kind: None
    conversion: Callable[[], Conversion] | None = None
    inspection: Callable[[], Inspection] | None = None
    choose: Callable[[Values, str], BackendUsage] | None = None

    @property
    def exclusive_groups(self) -> Groups:
        """Return the groups of options that belong to this backend only."""
        return tuple(group for group in self.groups() if group not in self.shared)

    def usage(self, values: Values, kind: str) -> BackendUsage:
        """Return how a program uses the backend: as a runner, and in a diagnosis.

        Args:
            values: the options.
            kind: the type of the model.

        Raises:
            CommandLineError: options do not fit together.
        """
        if self.choose is not None:
            return self.choose(values, kind)
        assert self.call is not None, "a backend has one or the other"
        plain = BackendUsage(runner=partial(self.call, values))
        return evolve(
            plain,
            unmarked_usage=plain if self.rewrites else None,
            of_parts=plain if self.runs_parts else None,
        )

    @property
    def flag(self) -> str:
        """Return the flag that selects it."""
        return flag_of(self.name)


_MODULES = ("onnxrt", "onnx", "openvino", "trt.backend", "tf", "pluginref", "torch")
"""The modules beside this one that declare backends; missing files are ignored."""

_NEEDED_BY_ALL = ("attrs", "jinja2", "numpy", "polygraphy.cli.main", "polygraphy.comparator")


@lru_cache(maxsize=1)
def backends_by_name() -> dict[str, BuiltInBackend]:
    """Return the built-in backends by name."""
    return {backend.name: backend for name in _MODULES for backend in _backends_of_module(name)}


def modules_for(words: Iterable[str]) -> list[str]:
    """Return the modules that the flags of a command line require.
    Importing them starts no threads.
    """
    flags = flags_in(list(words))
    backends = (backend for backend in backends_by_name().values() if backend.flag in flags)
    return [*_NEEDED_BY_ALL, *(module for backend in backends for module in backend.modules)]


def _backends_of_module(name: str) -> Sequence[BuiltInBackend]:
    """Return the backends that a module in this package declares; empty if it does not exist."""
    module = f"{__package__}.{name}"
    try:
        declared: tuple[BuiltInBackend, ...] = import_module(module).BACKENDS
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        return ()
    return declared


def backends_named_by(runners: Iterable[str]) -> dict[str, BuiltInBackend]:
    """Return the built-in backend of each runner text:
    the name of a backend, optionally with a colon and options."""
    names = {runner.partition(":")[0] for runner in runners}
    return {name: backend for name, backend in backends_by_name().items() if name in names}


def backends_for_parts() -> dict[str, str]:
    """Return the flags of the backends that can run part of an ONNX model, by backend."""
    return {
        name: backend.flag for name, backend in backends_by_name().items() if backend.runs_parts
    }


_REMOVED = formats_of("")
"""Formats that TensorRT no longer reads."""


def check_model_type(
    model: NamedModel, kind: str, names: Iterable[str], offered: Iterable[str] | None = None
) -> None:
    """Raise CommandLineError if a backend cannot run a model.
    `offered` are the backends of the command."""
    if kind in _REMOVED:
        raise CommandLineError(
            f"{model.model_file} is a model of type {kind}, which TensorRT no longer supports."
            " Convert it to ONNX with the tools of its framework, and use the ONNX model."
        )
    unable = [
        backend.flag
        for backend in backends_named_by(names).values()
        if backend.model_types and kind not in backend.model_types
    ]
    if unable:
        able = [
            backend.flag
            for backend in backends_named_by(
                backends_by_name() if offered is None else offered
            ).values()
            if kind in backend.model_types
        ]
        raise CommandLineError(
            f"{model.model_file} is a model of type {kind}, which {join_words(unable)} cannot"
            f" run; {join_words(able)} can. If the type is wrong, set --model-type."
        )
