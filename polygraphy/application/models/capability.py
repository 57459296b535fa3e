"""Finds out which nodes of a model a backend supports, and why not the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from posixpath import basename, join, splitext
from typing import Any

from attrs import evolve

from polygraphy.application.models.linting import lint
from polygraphy.application.run.feeding import Feeds, InputAdapter
from polygraphy.binding import UnboundPortError, function_for, resolve
from polygraphy.domain.checks.capability import (
    Compatibility,
    ModelNode,
    ModelPart,
    Placements,
    Problem,
    SupportReport,
    UnsupportedNode,
    parts_of,
)
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
from polygraphy.domain.tensors.naming import count_text
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import open_model, save_to_file
from polygraphy.ports.models import (
    ModelReports,
    ModelTrial,
    group_by_support,
    load_onnx,
    place_nodes,
    support_problems,
)
from polygraphy.ports.reporting import Console, Reports
from polygraphy.ports.running import Runner
from polygraphy.ports.storage import write_text

_OUTPUT = "polygraphy_capability_dumps"
_EXTERNAL_SUFFIX = "_ext_data"


def inspect_capability(
    model: Any,
    output: str | None = None,
    with_partitioning: bool = False,
    external_data_suffix: str | None = None,
    size_threshold: int | None = None,
    all_tensors_to_one_file: bool | None = None,
    providers: Sequence[Any] | None = None,
    provider_libraries: Mapping[str, str] | None = None,
) -> bool:
    """Report, and save, the nodes of an ONNX model that TensorRT's parser does not support, or that
    an execution provider does not run; return whether there are no such nodes.

    Nothing is saved if the model is supported.

    Args:
        model: an ``onnx.ModelProto``, or a loader that returns one.
        output: the folder for ``results.txt`` and the parts of the model
            (default: ``polygraphy_capability_dumps``).
        with_partitioning: whether to divide the model into supported and unsupported parts, each
            saved as a model.
        external_data_suffix: a suffix for files of weights next to the parts, each named after its
            part; the empty string stands for ``_ext_data``. By default, weights are stored in the
            models unless they exceed 2 GB.
        size_threshold: weights with more bytes are stored in such files (default: 1024).
        all_tensors_to_one_file: whether a part has a single such file (default: True).
        providers: execution providers of ONNX Runtime in order of priority; the support by the
            first one is reported (default: TensorRT itself).
        provider_libraries: plugins with additional providers; see `SessionFromOnnx`.

    Returns:
        Whether the whole model is supported.

    Raises:
        BackendError: the backend is not installed.
        FileError: the folder cannot be written.
    """
    loaded = model() if callable(model) else model
    if providers:
        placements = place_nodes(loaded, providers, provider_libraries)
        report = _provider_support(placements, loaded, with_partitioning=with_partitioning)
    else:
        report = _partition_model(loaded) if with_partitioning else _report_on_whole(loaded)
    resolve(Reports).support(report)
    if report.is_supported:
        return True
    folder = output or _OUTPUT

    def save(part: ModelPart) -> None:
        """Save a supported part of the model to the folder."""
        name = part.file_name
        save_to_file(
            _part(loaded, part.nodes),
            join(folder, name),
            external_data_path=_external_file_name(name, external_data_suffix),
            size_threshold=size_threshold,
            all_tensors_to_one_file=all_tensors_to_one_file,
        )

    _save(report, folder, save)
    parts = f" and {count_text(len(report.parts), 'part')} of the model" if report.parts else ""
    G_LOGGER.info(f"Saved results.txt{parts} in the folder {folder}.")
    return False


def _save(report: SupportReport, folder: str, save: Callable[[ModelPart], None]) -> None:
    """Write the parts of a report, and its table."""
    for part in report.parts:
        save(part)
    write_text(join(folder, "results.txt"), report.table())


def _external_file_name(name: str, suffix: str | None) -> str | None:
    """Return the name of the file of external data; None if there is none."""
    if suffix is None:
        return None
    return splitext(basename(name))[0] + (suffix or _EXTERNAL_SUFFIX)


def _report_on_whole(model: Any) -> SupportReport:
    """Return the support report for the model as a whole."""
    problems = support_problems(model)
    operators = open_model(model, as_it_is=True).operators
    return SupportReport(not problems, tuple(map(ModelNode, operators)), tuple(problems))


def _provider_support(
    placements: Placements, model: Any, *, with_partitioning: bool
) -> SupportReport:
    """Return the nodes that an execution provider runs, with reasons for the others."""
    operators = open_model(model, as_it_is=True).operators
    nodes = tuple(map(ModelNode, operators))
    problems = {
        node.position: Problem(
            f"It runs on {node.provider}: {node.reason or 'ONNX Runtime gives no reason'}.",
            node.position,
            node.operator,
            node.name,
        )
        for node in placements.misplaced_nodes
        if node.position is not None
    }
    report = SupportReport(not problems, nodes, tuple(problems.values()))
    if not problems or not with_partitioning:
        return report
    parts = parts_of(len(nodes), [[i for i in range(len(nodes)) if i not in problems]])
    return evolve(
        report,
        parts=tuple(
            (
                part
                if part.is_supported
                else evolve(part, problems=tuple(problems[node] for node in part.nodes))
            )
            for part in parts
        ),
    )


def _part(model: Any, nodes: Sequence[int]) -> Any:
    """Return a model with some of the nodes."""
    opened = open_model(model, as_it_is=True)
    return opened.part(nodes, outputs=opened.results_read_outside(nodes), keeps_types=True)


def _partition_model(model: Any) -> SupportReport:
    """Return the model split into supported and unsupported parts, with reasons."""
    report = _report_on_whole(model)
    if report.is_supported:
        return report
    count = len(report.nodes)
    parts = parts_of(count, _group_supported(model, list(range(count))))
    return evolve(report, parts=tuple(_add_reasons(model, part, report.problems) for part in parts))


def _group_supported(model: Any, positions: list[int]) -> list[list[int]]:
    """Return groups of supported nodes.

    Args:
        model: some nodes of the model that was asked about.
        positions: the position in that of each node of `model`.
    """
    supported: list[list[int]] = []
    for group, is_supported in group_by_support(model):
        if is_supported:
            supported.append([positions[node] for node in group])
        elif 0 < len(group) < len(positions):
            supported += _group_supported(
                _part(model, group), [positions[node] for node in sorted(group)]
            )
    return supported


def _add_reasons(model: Any, part: ModelPart, known_problems: tuple[Problem, ...]) -> ModelPart:
    """Return an unsupported part with reasons: those for the whole model,
    else those for the part."""
    if part.is_supported:
        return part
    problems = [problem for problem in known_problems if problem.node in part.nodes]
    if not problems:
        single_problems = support_problems(_part(model, part.nodes))
        problems = [
            evolve(problem, node=None if problem.node is None else problem.node + part.start)
            for problem in single_problems
        ]
    return evolve(part, problems=tuple(problems))


def check_compatibility(model: str, runners: Mapping[str, Runner], data_loader: Any = None) -> bool:
    """Return whether a model loads and runs in each of several backends.
    For failures, the missing operators are listed.

    Args:
        model: the path of the model.
        runners: a runner of the model for each backend, by name: ``onnxrt``, ``onnx``, ``trt``,
            ``tf``.
        data_loader: yields the input data (default: generated data).

    Returns:
        Whether every backend can run the model.

    Raises:
        UsageError: there are no runners.
        InputError: the data does not fit the model.
        FileError: the model is missing or cannot be read.
        UnknownNameError: a checkpoint or tensor does not exist in the model.
        MissingDependencyError: a backend is not installed, so nothing is known about the model.
    """
    if not runners:
        raise UsageError("No backend is installed.")
    reports = resolve(ModelReports)
    results = []
    seen_notes: set[str] = set()
    for backend, runner in runners.items():
        reason = _failure(runner, DataLoader() if data_loader is None else data_loader, seen_notes)
        nodes = () if reason is None else _find_unsupported(model, backend)
        results.append(Compatibility(backend, reason, nodes))
        reports.compatibility(results[-1])
    return all(result.is_compatible for result in results)


def _failure(runner: Runner, data_loader: Any, seen_notes: set[str]) -> str | None:
    """Return why a runner cannot run its model; None if it can.
    Notes in `seen_notes` are not repeated.
    """
    console = resolve(Console)
    try:
        with runner:
            feeds = Feeds(data_loader, console, seen_notes)
            feeds.describe_model_inputs([runner])
            feeds.report_unused_data()
            runner.infer(InputAdapter(runner, console)(feeds.current))
    except (InputError, FileError, UnknownNameError, MissingDependencyError) as error:
        if isinstance(error, ModelError):
            return str(error)
        raise
    except PolygraphyException as error:
        return str(error)
    return None


def _find_unsupported(model: str, backend: str) -> tuple[UnsupportedNode, ...]:
    """Return the nodes that a backend does not support,
    as it reports or from running them in isolation.
    """
    try:
        problems_of = function_for(support_problems, backend)
    except UnboundPortError:
        return _nodes_refused_at_run_time(model, backend)
    try:
        problems = problems_of(load_onnx(model))
    except PolygraphyException:  # The reason why the model does not run is already known.
        return ()
    return tuple(
        UnsupportedNode(problem.name, problem.operator, problem.reason)
        for problem in problems
        if problem.operator
    )


def _nodes_refused_at_run_time(model: str, backend: str) -> tuple[UnsupportedNode, ...]:
    """Return the valid nodes that a backend refuses at run time."""
    try:
        trial = resolve(ModelTrial, backend)
    except UnboundPortError:
        return ()
    try:
        report = lint(ModelSource(model), trial)
    except PolygraphyException:
        return ()
    failed = [entry for entry in report.entries if entry.nodes and entry.level != INFO]
    # A model that violates the specification would not run anywhere, which says nothing about the
    # backend.
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
