"""Finds out what is wrong with a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from attrs import evolve

from polygraphy import config
from polygraphy.application.diagnose.subprocesses import run_in_subprocess
from polygraphy.binding import function_for, resolve
from polygraphy.domain.checks.lint import (
    EXCEPTION,
    INFO,
    WARNING,
    Findings,
    LintEntry,
    LintReport,
    Source,
    TrialValue,
    graph_findings,
    labels_of,
)
from polygraphy.domain.data.lengths import longer_inputs
from polygraphy.domain.data.loading import (
    ONLY_FIRST,
    describe_model,
    fit_feed,
    has_more,
    iterate_feeds,
    notes_of,
)
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.diagnosis.closeness import is_broken
from polygraphy.domain.errors import (
    BackendError,
    MissingDependencyError,
    ModelError,
    NotFetchedError,
    PolygraphyException,
    UnavailableError,
    UsageError,
)
from polygraphy.domain.model import EVERYTHING, Graph, ModelSource
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.shapes import (
    command_line_shape,
    format_shape,
    override_dynamic_shape,
)
from polygraphy.ports.models import (
    Lint,
    ModelReports,
    ModelTrial,
    describe_file,
    open_to_lint,
)
from polygraphy.ports.reporting import Console
from polygraphy.ports.running import find_facts
from polygraphy.ports.storage import write_text


def check_lint(
    path: str | Sequence[str],
    output: str | None = None,
    data_loader: Any = None,
    external_data_dir: str | None = None,
    ignore_external_data: bool = False,
    providers: Sequence[Any] | None = None,
    graph_optimization_level: str | None = None,
    ignore: Sequence[str] | None = None,
    provider_libraries: Mapping[str, str] | None = None,
) -> bool:
    """Return whether ONNX models have no problems, and report those that they have.

    Args:
        path: the model, or several.
        output: path for the report as JSON.
        data_loader: yields the input data with which the model is run (default: generated data).
        external_data_dir: folder of its external weights, if it is not the folder of the model.
        ignore_external_data: whether weights in other files are not read, and no node is run.
        providers: execution providers of ONNX Runtime, by name or a unique part of it, or as
            ``(name, options)`` (default: the CPU provider).
        graph_optimization_level: the optimization level of ONNX Runtime (default: its own).
        ignore: rules to skip, by id or pattern, such as ``graph/unused-*``.
        provider_libraries: plugins of ONNX Runtime with additional providers, by the names to use
            in `providers`: paths, or modules that return a path.

    Returns:
        Whether nothing is seriously wrong: warnings are allowed.

    Raises:
        FileError: a file is missing or cannot be read, or the report cannot be written.
        UsageError: a rule does not exist, or several models share one report path.
    """
    paths = [path] if isinstance(path, str) else list(path)
    if output is not None and len(paths) > 1:
        raise UsageError("A report in this format describes one model.", hint="Use --report.")
    reports = resolve(ModelReports)
    trial = resolve(ModelTrial).with_settings(
        providers, graph_optimization_level, provider_libraries
    )
    passed = True
    for name in paths:
        reports.loading(name)
        source = ModelSource(
            name, external_data_dir=external_data_dir, ignore_external_data=ignore_external_data
        )
        report = lint(source, trial, data_loader, ignore or ())
        reports.lint(evolve(report, is_one_of_several=len(paths) > 1))
        if output is not None:
            write_text(output, json.dumps(report.document(), indent=4) + "\n")
        passed = passed and report.passed
    return passed


def lint(
    source: ModelSource, trial: ModelTrial, data_loader: Any = None, ignore: Sequence[str] = ()
) -> LintReport:
    """Return the lint report of a model; an unreadable file is a finding.

    Args:
        source: the model.
        trial: the trial that runs its nodes.
        data_loader: yields the input data (default: generated data).
        ignore: rules to skip, by id or pattern.
    """
    try:
        model = function_for(describe_file, "onnx")(source, EVERYTHING)
    except NotFetchedError as error:
        entry = LintEntry(INFO, Source.LOADER, str(error), rule="model/lfs-pointer")
        return LintReport.of(Findings(()), [entry], path=source.path, ignore=ignore)
    except ModelError as error:
        entry = LintEntry(EXCEPTION, Source.LOADER, str(error))
        return LintReport.of(Findings(()), [entry], path=source.path, ignore=ignore)
    lint_entries = list(graph_findings(model))
    checked = open_to_lint(source)
    facts = find_facts(source.path)
    feed = None
    if not source.ignore_external_data:
        feed = _feed(facts, _inputs(model.graph), data_loader, lint_entries)
    try:
        findings = _lint_in_isolation(checked, feed, trial)
        if data_loader is None and feed is not None:
            findings = _with_other_lengths(checked, facts, model.graph, trial, findings)
            findings = _excuse_generated_values(findings, model.graph)
    except MissingDependencyError as error:
        lint_entries.append(LintEntry(INFO, Source.RUNTIME, str(error)))
        findings = checked(None, None)
    return LintReport.of(findings, lint_entries, path=source.path, ignore=ignore)


class _CarefulTrial:
    """Runs each model in a separate process; implements the port `ModelTrial`. Values that the
    process cannot return are missing."""

    def __init__(self, trial: ModelTrial) -> None:
        """Wrap a trial."""
        self._trial = trial

    def with_settings(
        self,
        providers: Sequence[Any] | None,
        graph_optimization_level: str | None,
        provider_libraries: Mapping[str, str] | None = None,
    ) -> ModelTrial:
        """Return a trial with these settings, in separate processes."""
        return _CarefulTrial(
            self._trial.with_settings(providers, graph_optimization_level, provider_libraries)
        )

    def run(
        self, model: bytes | str, feed: Mapping[str, Any], outputs: Sequence[str]
    ) -> Mapping[str, TrialValue]:
        """Return the requested tensors of a model, run in a separate process."""
        trial_values = run_in_subprocess(
            lambda: self._trial.run(model, feed, outputs), "The backend", is_silent=True
        )
        return {name: value for name, value in trial_values.items() if value.raw is not None}


def _lint_in_isolation(
    checked: Lint, feed: Mapping[str, Any] | None, trial: ModelTrial
) -> Findings:
    """Return the findings for a model that may crash its backend:
    on a crash, each node is tried in its own process.
    """
    if feed is None:
        return checked(None, None)
    try:
        return run_in_subprocess(lambda: checked(feed, trial), "The backend", is_silent=True)
    except UnavailableError:
        raise
    except BackendError:
        return checked(feed, _CarefulTrial(trial))


_DRAWN = 8  # Bytes per generated number: NumPy generates float64 or int64.


def _with_other_lengths(
    checked: Lint, facts: Facts, graph: Graph, trial: ModelTrial, findings: Findings
) -> Findings:
    """Return the findings with the dynamic dimensions for which the fewest nodes fail,
    if size 1 fails.
    """
    best, failures = findings, _failures(findings)
    for inputs in longer_inputs(_inputs(graph)):
        if not failures:
            return best
        feed = _feed(facts, inputs, None, [], notes=False)
        if feed is None:
            continue
        lint_report = _lint_in_isolation(checked, feed, trial)
        if _failures(lint_report) < failures:
            shapes = ", ".join(
                f"{name}:{command_line_shape(meta.shape)}"
                for name, meta in inputs.items()
                if meta.shape is not None
            )
            message = (
                f"The model was run with {shapes}. It fails if dynamic dimensions are 1; choose"
                " shapes with --input-shapes."
            )
            entry = LintEntry(INFO, Source.RUNTIME, message)
            best, failures = evolve(lint_report, entries=(*lint_report.entries, entry)), _failures(
                lint_report
            )
    return best


_HANDS_ON = frozenset({"Cast", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"})
"""Operators that hand on elements of their first input."""
_CONTROLS = {
    "CenterCropPad": (1,), "ConstantOfShape": (0,), "DFT": (1, 2), "Expand": (1,), "Gather": (1,),
    "GatherElements": (1,), "GatherND": (1,), "OneHot": (1,), "Pad": (1, 3), "Range": (0, 1, 2),
    "Reshape": (1,), "Resize": (2, 3), "ScatterElements": (1,), "ScatterND": (1,),
    "Slice": (1, 2, 3, 4), "Split": (1,), "STFT": (1, 3), "Tile": (1,), "TopK": (1,),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), (0,)),
}  # fmt: skip
"""The inputs of operators that hold sizes, axes, positions or lengths."""
_NO_KERNEL = "implementation"
"""What a message about an operator contains that a backend lacks, whatever the data are."""


def _excuse_generated_values(findings: Findings, graph: Graph) -> Findings:
    """Return the findings with warnings for nodes that fail, and read generated whole numbers, or
    sizes computed from generated elements: sizes, axes and lengths only make sense together.
    """
    computed = {tensor.name for tensor in graph.inputs if tensor.name not in graph.constants}
    drawn = {
        tensor.name
        for tensor in graph.inputs
        if (tensor.dtype or "").startswith(("int", "uint")) and tensor.name not in graph.constants
    }
    guessed: set[str] = set()
    sized: set[str] = set()
    for node, label in zip(graph.nodes, labels_of(graph)):
        controls = [node.inputs[at] for at in _CONTROLS.get(node.op, ()) if at < len(node.inputs)]
        is_sized = not computed.isdisjoint(controls)
        if is_sized or not drawn.isdisjoint(node.inputs):
            guessed.add(label)
        if is_sized or not sized.isdisjoint(node.reads):
            sized.update(node.makes)
        if node.op not in ("Shape", "Size") and not computed.isdisjoint(node.reads):
            computed.update(node.makes)
        handed = node.inputs if node.op == "Concat" else node.inputs[:1]
        if node.op in (*_HANDS_ON, "Concat") and not drawn.isdisjoint(handed):
            drawn.update(node.makes)
    wrong_shapes = tuple(
        f"The output {output.name!r} " for output in graph.outputs if output.name in sized
    )

    def is_guess(entry: LintEntry) -> bool:
        """Return whether generated data may be the reason of a finding."""
        if entry.source != Source.RUNTIME:
            return not entry.nodes and entry.message.startswith(wrong_shapes)
        is_failure = entry.level == EXCEPTION and _NO_KERNEL not in entry.message
        return is_failure and not guessed.isdisjoint(entry.nodes)

    entries = [
        (
            evolve(entry, level=WARNING, message=f"{entry.message}{_GENERATED}")
            if is_guess(entry)
            else entry
        )
        for entry in findings.entries
    ]
    return evolve(findings, entries=tuple(entries))


_GENERATED = " (with generated data; pass your own with --load-inputs)"


def _failures(findings: Findings) -> int:
    """Return the number of nodes that failed to run; 1 if the whole model failed."""
    failed = [
        entry
        for entry in findings.entries
        if entry.level == EXCEPTION and entry.source == Source.RUNTIME
    ]
    return len(failed) and len(failed) + len(findings.skipped)


def _inputs(graph: Graph) -> TensorMetadata:
    """Return the metadata of the tensor inputs of a graph."""
    metadata = TensorMetadata()
    for tensor in graph.inputs:
        if tensor.dtype is None or "(" in tensor.dtype:
            continue  # There is no data for inputs that are not tensors.
        metadata.add(tensor.name, tensor.dtype, tensor.shape)
    return metadata


def _memory_complaint(inputs: TensorMetadata) -> str:
    """Return a sentence about inputs that need too much memory; empty if they fit."""
    limit = config.EXPANSION_LIMIT_MB
    shapes = {name: override_dynamic_shape(meta.shape or ()) for name, meta in inputs.items()}
    nbytes = sum(_DRAWN * prod(shape) for shape in shapes.values())
    if limit < 0 or nbytes <= limit * 2**20:
        return ""
    largest = max(shapes, key=lambda name: prod(shapes[name]))
    return (
        f"data for its inputs would need {nbytes:,} bytes, more than the limit of"
        f" {limit * 2 ** 20:,}; the shape of {largest!r} is {format_shape(shapes[largest])}."
        " Choose a smaller shape with --input-shapes, or set POLYGRAPHY_EXPANSION_LIMIT_MB to a"
        " larger number, or to -1 for no limit."
    )


def _feed(
    facts: Facts,
    metadata: TensorMetadata,
    data_loader: Any,
    lint_entries: list[LintEntry],
    *,
    notes: bool = True,
) -> Mapping[str, Any] | None:
    """Return input data for a model; None, with a finding, if there are none.
    `notes` controls whether assumptions are logged.
    """
    loader = DataLoader() if data_loader is None else data_loader
    describe_model(loader, metadata, lambda: facts)
    if not metadata:
        return {}
    if data_loader is None and (problem := _memory_complaint(metadata)):
        lint_entries.append(LintEntry(INFO, Source.RUNTIME, f"Nothing was run: {problem}"))
        return None
    try:
        feeds = iterate_feeds(loader)
        feed = next(feeds, None)
        if feed is None:
            lint_entries.append(LintEntry(INFO, Source.RUNTIME, "There is no input data."))
            return None
        fitted, adaptations = fit_feed(feed, metadata)
        broken = [name for name, array in fitted.items() if is_broken(array)]
        adaptations += [f"Input {name!r} contains NaN or infinity." for name in broken]
        for note in (*notes_of(loader), *adaptations) if notes else ():
            resolve(Console).note(note)
        if has_more(loader, feeds):
            resolve(Console).note(ONLY_FIRST)
    except PolygraphyException as error:
        if data_loader is not None:
            raise
        lint_entries.append(LintEntry(INFO, Source.RUNTIME, f"Nothing was run: {error}"))
        return None
    return fitted
