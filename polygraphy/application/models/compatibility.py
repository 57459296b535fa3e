"""Tells which backends can run a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygraphy.application.models.linting import lint
from polygraphy.application.run.feeding import Feeds, InputAdapter
from polygraphy.binding import Unbound, resolve
from polygraphy.domain.checks.capability import Compatibility, UnsupportedNode
from polygraphy.domain.checks.lint import EXCEPTION, INFO, Source
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import (
    FileError,
    InputError,
    MissingDependencyError,
    ModelError,
    PolygraphyException,
    UnknownNameError,
    UsageError,
)
from polygraphy.domain.model import ModelSource
from polygraphy.ports.models import ModelReports, ModelTrial, SupportChecker, load_onnx
from polygraphy.ports.reporting import Console
from polygraphy.ports.running import Runner


def check_compatibility(model: str, runners: Mapping[str, Runner], data_loader: Any = None) -> bool:
    """Load a model in each of some backends and run it once; where that fails, name the operators
    that the backend lacks.

    Args:
        model: the path of the model.
        runners: a runner of the model for each backend, by name: ``onnxrt``, ``onnx``, ``trt``,
            ``tf``.
        data_loader: yields the input data (default: synthetic data).

    Returns:
        Whether every backend can run the model.

    Raises:
        UsageError: there are no runners.
        InputError: the data do not fit the model.
        FileError: the model is missing or cannot be read.
        UnknownNameError: it has no checkpoint or tensor of a name.
        MissingDependencyError: a backend is not installed, which says nothing about the model.
    """
    if not runners:
        raise UsageError("No backend is there to be tried.")
    reports = resolve(ModelReports)
    results = []
    seen: set[str] = set()
    for backend, runner in runners.items():
        reason = _failure(runner, DataLoader() if data_loader is None else data_loader, seen)
        nodes = () if reason is None else _unsupported(model, backend)
        results.append(Compatibility(backend, reason, nodes))
        reports.compatibility(results[-1])
    return all(result.is_compatible for result in results)


def _failure(runner: Runner, data_loader: Any, seen: set[str]) -> str | None:
    """Return why a runner cannot run its model; None where it can. The notes in `seen`
    about the data are not repeated.
    """
    console = resolve(Console)
    try:
        with runner:
            feeds = Feeds(data_loader, console, seen)
            feeds.describe_model_inputs([runner])
            feeds.tell_if_more()
            runner.infer(InputAdapter(runner, console)(feeds.current))
    except (InputError, FileError, UnknownNameError, MissingDependencyError) as error:
        if isinstance(error, ModelError):
            return str(error)
        raise
    except PolygraphyException as error:
        return str(error)
    return None


def _unsupported(model: str, backend: str) -> tuple[UnsupportedNode, ...]:
    """Return the nodes that a backend does not support, where it can be asked, or cannot run by
    themselves, where that can be tried.
    """
    try:
        checker = resolve(SupportChecker, backend)
    except Unbound:
        return _not_run(model, backend)
    try:
        problems = checker.problems(load_onnx(model))
    except PolygraphyException:  # Why the model does not run is known already.
        return ()
    return tuple(
        UnsupportedNode(problem.name, problem.operator, problem.reason)
        for problem in problems
        if problem.operator
    )


def _not_run(model: str, backend: str) -> tuple[UnsupportedNode, ...]:
    try:
        trial = resolve(ModelTrial, backend)
    except Unbound:
        return ()
    try:
        report = lint(ModelSource(model), trial)
    except PolygraphyException:
        return ()
    failed = [entry for entry in report.entries if entry.nodes and entry.level != INFO]
    # What is against the standard would run nowhere, which says nothing about the backend.
    wrong = {
        name
        for entry in failed
        if entry.source != Source.RUNTIME and entry.level == EXCEPTION
        for name in entry.nodes
    }
    return tuple(
        UnsupportedNode(entry.nodes[0], entry.op, entry.message)
        for entry in failed
        if entry.source == Source.RUNTIME and entry.nodes[0] not in wrong
    )
