"""The commands `check lint` and `check compatibility`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from polygraphy.cli.backends.built_in import RunnerModel, backends_by_name, check_model_type
from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.inspect.model_options import ExternalDataOptions
from polygraphy.cli.declare.errors import CommandLineError, warn, warn_of_idle_flags
from polygraphy.cli.declare.kinds import OrderedFlags, Shapes, Texts
from polygraphy.cli.declare.option import (
    Options,
    Values,
    call_of,
    non_default_flags,
    option,
    option_group,
    with_values,
)
from polygraphy.cli.shared.data import DataOptions, data_loader_argument, data_of
from polygraphy.cli.shared.model import (
    TF_TYPES,
    ModelOptions,
    TfLoadOptions,
    graph_of,
    kind_of_model,
)
from polygraphy.cli.shared.onnx import OnnxModel, onnx_of
from polygraphy.codegen.source import Call, Source, Step, quote_command, quote_word
from polygraphy.domain.tensors.naming import join_words, path_word

_TRIED = {
    "onnxrt": "Try ONNX Runtime.",
    "onnx": "Try the reference evaluator of the onnx package.",
    "openvino": "Try OpenVINO.",
    "trt": "Try TensorRT.",
    "tf": "Try TensorFlow.",
}
_HELP = {
    backends_by_name()[name].flag: text
    for name, text in _TRIED.items()
    if name in backends_by_name()
}
_BACKENDS = {backend.flag: name for name, backend in backends_by_name().items() if name in _TRIED}


@option_group
class LintOptions(Options):
    """Report: contents of the report, and where to save it."""

    output: str | None = option(
        "-o",
        "--output",
        writes=True,
        help="Save the report to a JSON file.",
        feeds="check_lint.output",
    )
    ignore: tuple[str, ...] = option(
        "--ignore",
        kind=Texts("RULE"),
        help="Ignore these rules, by ID or pattern, as in --ignore 'graph/unused-*'.",
        feeds="check_lint.ignore",
    )


@option_group
class LintedModelOptions(Options):
    """Model: the models, and the shapes of the data for running them."""

    paths: tuple[str, ...] = option(
        reads="Model", kind=Texts("MODEL"), default=(), help="Paths of one or more models."
    )
    input_shapes: Mapping[str, tuple[tuple[int, ...], ...]] | None = option(
        "--input-shapes",
        "--inputs",
        kind=Shapes(),
        help="Shapes of inputs for generated data, as in --input-shapes image:1x3x224x224.",
    )


@option_group
class BackendOptions(Options):
    """Backends: the backends to try (default: all installed backends)."""

    backends: tuple[str, ...] = option(
        *_BACKENDS, kind=OrderedFlags(_BACKENDS, _HELP), help="Backends to try."
    )


_PACKAGES = {
    "onnxrt": "onnxruntime",
    "onnx": "onnx",
    "openvino": "openvino",
    "trt": "tensorrt",
}
"""The packages of the backends that run ONNX models."""
_SESSIONS = backends_by_name()["onnxrt"].groups()[:1] if "onnxrt" in backends_by_name() else ()
"""Options for ONNX Runtime; empty if it is not available."""
_UNCHECKED = ("engine", "trt-network-script")
"""Types of models that are TensorRT's already."""


class CheckLintCommand(Command):
    """Find problems in an ONNX model: check each node against the definition of its operator, try
    it in ONNX Runtime, and list nodes without effect. Exits with 0 if there are at most
    warnings, and with 1 if the model is invalid.
    """

    name = "check lint"
    groups = (LintedModelOptions, LintOptions, ExternalDataOptions, DataOptions, *_SESSIONS)

    def program(self, values: Values) -> Program:
        """Return the program that lints the models."""
        paths = values[LintedModelOptions].paths
        loader = _data(values, LintedModelOptions)
        what = paths[0] if len(paths) == 1 else [*paths]
        return Program(
            "check.py.j2",
            f"Find the problems of {join_words([quote_word(path) for path in paths])}.",
            call=call_of("check_lint", values, what, data_loader=loader),
        )


class CheckCompatibilityCommand(Command):
    """Load an ONNX or TensorFlow model in one or more backends, run it once on synthetic data, and
    list the operators that a backend does not support. Exits with 0 if every backend can run
    the model, and with 1 otherwise.
    """

    name = "check compatibility"
    groups = (BackendOptions, ModelOptions, TfLoadOptions, DataOptions, *_SESSIONS)

    def program(self, values: Values) -> Program:
        """Return the program that tries the model in each backend."""
        path = values[ModelOptions].model_file
        if path is None:
            raise CommandLineError("missing model: add its path.")
        backends = tuple(dict.fromkeys(values[BackendOptions].backends))
        kind = kind_of_model(values, unknown="frozen" if backends == ("tf",) else "onnx")
        _check_type(values[ModelOptions], kind, backends)
        is_tensorflow = kind in TF_TYPES
        backends = backends or _available_backends(is_tensorflow=is_tensorflow)
        if "onnxrt" not in backends and non_default_flags(values, _SESSIONS):
            warn(
                "--providers, --provider-library, --graph-optimization-level: only used by"
                " --onnxrt."
            )
        unused = [] if is_tensorflow else non_default_flags(values, [TfLoadOptions])
        warn_of_idle_flags(unused, ", because the model is not a TensorFlow model")
        loader = _data(values, ModelOptions)
        onnx = OnnxModel()
        if is_tensorflow:
            onnx = onnx_of(values, graph=graph_of(values, kind))
        converts = is_tensorflow and backends != ("tf",)
        ran = RunnerModel(Source("load_model") if converts else RunnerModel.path, not converts)
        model = with_values(
            values[ModelOptions], input_shapes=None
        )  # Not counted, because these options only affect the data.
        as_it_is = values.replace_groups(model)
        return Program(
            "check_compatibility.py.j2",
            f"Check whether {quote_word(path)} runs in {_backend_titles(backends)}.",
            model=path,
            before=[Step("load_model", onnx.loader(RunnerModel.path))] if converts else [],
            runners={
                name: backends_by_name()[name].usage(as_it_is, kind).runner(ran)
                for name in backends
            },
            check=call_of("check_compatibility", values, data_loader=loader),
        )


def _backend_titles(backends: Sequence[str]) -> str:
    """Return the titles of backends as an English list."""
    titles = backends_by_name()
    return join_words([titles[backend].title for backend in backends])


def _check_type(model: ModelOptions, kind: str, backends: Sequence[str]) -> None:
    """Raise CommandLineError if a backend does not support any form of a model."""
    if kind in _UNCHECKED:
        path = str(model.model_file)
        line = quote_command(["polygraphy", "run", path_word(path), "--trt"])
        raise CommandLineError(
            f"{path} is a model of type {kind}, which only TensorRT can run:"
            f" {line}. If the type is wrong, set --model-type."
        )
    check_model_type(model, kind, set(backends), offered=(*_PACKAGES, "tf"))


def _available_backends(*, is_tensorflow: bool) -> tuple[str, ...]:
    """Return the installed backends that run the model; for a TensorFlow model, always TensorFlow.

    Raises:
        CommandLineError: there is none.
    """
    accepting = tuple(
        name
        for name, package in _PACKAGES.items()
        if name in backends_by_name() and find_spec(package) is not None
    )
    if is_tensorflow:
        return ("tf", *accepting) if find_spec("tf2onnx") is not None else ("tf",)
    if not accepting:
        raise CommandLineError("no backend is installed. Install onnxruntime.")
    return accepting


def _data(values: Values, model: type[LintedModelOptions] | type[ModelOptions]) -> Call | None:
    """Return the call that creates the data of one iteration; None for the default."""
    return data_loader_argument(
        data_of(values[DataOptions], values[model].input_shapes, only_first=True)
    )
