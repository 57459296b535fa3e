"""The commands `check lint` and `check compatibility`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from polygraphy.cli.command import Command, Values
from polygraphy.cli.data_context import data_of
from polygraphy.cli.errors import CommandLineError, warn
from polygraphy.cli.log_context import log_of
from polygraphy.cli.options.data import DataOptions
from polygraphy.cli.options.log import LogOptions
from polygraphy.cli.options.model_checks import BackendOptions, CheckedModelOptions, LintOptions
from polygraphy.cli.options.model_inspection import ExternalDataOptions
from polygraphy.cli.options.runners import OnnxrtOptions
from polygraphy.cli.options.script import ScriptOptions
from polygraphy.cli.paths import check_paths
from polygraphy.codegen.models import CheckCompatibilityScript, CheckLintScript
from polygraphy.codegen.script import Data

__all__ = ["CheckCompatibilityCommand", "CheckLintCommand"]

_PACKAGES = {"onnxrt": "onnxruntime", "onnx": "onnx", "trt": "tensorrt"}
"""The packages of the backends that run ONNX models."""


class CheckLintCommand(Command):
    """Finds out what is wrong with a model."""

    name = "check lint"
    description = (
        "Find out what is wrong with an ONNX model: each node is checked against the definition of"
        " its operator and tried in ONNX Runtime, and what has no effect is named. Exits with 0"
        " when there are at most warnings, and with 1 when the model is not valid."
    )
    groups = (
        CheckedModelOptions,
        LintOptions,
        ExternalDataOptions,
        DataOptions,
        OnnxrtOptions,
        ScriptOptions,
        LogOptions,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that checks the model."""
        usage = f"polygraphy {self.name}"
        path, output = values[CheckedModelOptions].path, values[LintOptions].output
        check_paths(
            [("MODEL", path), *(("--load-inputs", one) for one in values[DataOptions].load_inputs)],
            [("-o/--output", output), ("--log-file", values[LogOptions].log_file)],
            usage,
        )
        files, sessions = values[ExternalDataOptions], values[OnnxrtOptions]
        return CheckLintScript(
            command=words,
            path=path,
            output=output,
            data=_data(values, usage),
            external_data_dir=files.external_data_dir,
            ignore_external_data=files.ignore_external_data or None,
            providers=None if sessions.providers is None else list(sessions.providers),
            graph_optimization_level=sessions.graph_optimization_level,
            log=log_of(values[LogOptions]),
        ).render()


class CheckCompatibilityCommand(Command):
    """Tells which backends can run a model."""

    name = "check compatibility"
    description = (
        "Load a model in one or more backends, run it once on synthetic data, and name the"
        " operators that a backend lacks. Exits with 0 when every backend can run the model, and"
        " with 1 when one cannot."
    )
    groups = (
        BackendOptions,
        CheckedModelOptions,
        DataOptions,
        OnnxrtOptions,
        ScriptOptions,
        LogOptions,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that tries the backends."""
        usage = f"polygraphy {self.name}"
        backends = tuple(dict.fromkeys(values[BackendOptions].backends)) or _installed()
        if not backends:
            raise CommandLineError("no backend is installed. Install onnxruntime.", usage)
        sessions = values[OnnxrtOptions]
        if "onnxrt" not in backends and sessions != OnnxrtOptions():
            warn("--providers, --graph-optimization-level: only used by --onnxrt.")
        return CheckCompatibilityScript(
            command=words,
            path=values[CheckedModelOptions].path,
            backends=backends,
            providers=None if sessions.providers is None else list(sessions.providers),
            graph_optimization_level=sessions.graph_optimization_level,
            data=_data(values, usage),
            log=log_of(values[LogOptions]),
        ).render()


def _installed() -> tuple[str, ...]:
    return tuple(name for name, package in _PACKAGES.items() if find_spec(package) is not None)


def _data(values: Values, usage: str) -> Data:
    options = values[DataOptions]
    if options.iterations is not None:
        warn("--iterations: has no effect, because the model is run once.")
    return data_of(options, values[CheckedModelOptions].input_shapes, usage)
