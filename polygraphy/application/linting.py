"""Finds out what is wrong with a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from polygraphy.domain.describing import describe_model
from polygraphy.domain.errors import MissingDependencyError, ModelError, PolygraphyException
from polygraphy.domain.feed import fit_feed
from polygraphy.domain.lint import (
    EXCEPTION,
    INFO,
    Findings,
    LintEntry,
    LintReport,
    Source,
)
from polygraphy.domain.lint_rules import graph_findings
from polygraphy.domain.loading import ONLY_FIRST, has_more
from polygraphy.domain.metadata import TensorMetadata
from polygraphy.domain.model import EVERYTHING, Graph, ModelSource
from polygraphy.domain.synthesis import DataLoader
from polygraphy.ports.binding import resolve
from polygraphy.ports.console import Console
from polygraphy.ports.facts import FactFinder
from polygraphy.ports.lint import ModelLinter, ModelTrial
from polygraphy.ports.models import ModelReader, ModelReports
from polygraphy.ports.text import TextFiles

__all__ = ["check_lint", "lint"]


def check_lint(
    path: str,
    output: str | None = None,
    data_loader: Any = None,
    external_data_dir: str | None = None,
    ignore_external_data: bool = False,
    providers: Sequence[Any] | None = None,
    graph_optimization_level: str | None = None,
) -> bool:
    """Report everything that is wrong with an ONNX model.

    Args:
        path: the model.
        output: where the report is saved as JSON.
        data_loader: yields the input data with which the model is tried; synthetic data unless
            given.
        external_data_dir: where the files with its weights are, if not beside it.
        ignore_external_data: whether weights in other files are not looked at, and nothing is run.
        providers: execution providers of ONNX Runtime, by name or a unique part of it, each alone
            or as ``(name, options)``; the CPU provider unless given.
        graph_optimization_level: how much ONNX Runtime optimises; it decides unless given.

    Returns:
        Whether nothing is seriously wrong: warnings are allowed.

    Raises:
        FileError: a file is missing or cannot be read, or the report cannot be written.
    """
    reports = resolve(ModelReports)
    reports.loading(path)
    source = ModelSource(
        path, external_data_dir=external_data_dir, ignore_external_data=ignore_external_data
    )
    trial = resolve(ModelTrial, "onnxrt").configured(providers, graph_optimization_level)
    report = lint(source, trial, data_loader)
    reports.lint(report)
    if output is not None:
        resolve(TextFiles).write(output, json.dumps(report.document(), indent=4) + "\n")
    return report.passed


def lint(source: ModelSource, trial: ModelTrial, data_loader: Any = None) -> LintReport:
    """Return a report on a model; a file that is no model is one of its findings.

    Args:
        source: the model.
        trial: who runs its nodes.
        data_loader: yields the input data; synthetic data unless given.
    """
    try:
        model = resolve(ModelReader, "onnx").read(source, EVERYTHING)
    except ModelError as error:
        return LintReport.of(Findings(()), [LintEntry(EXCEPTION, Source.LOADER, str(error))])
    more = list(graph_findings(model))
    linter = resolve(ModelLinter, "onnx")
    feed = None
    if not source.ignore_external_data:
        feed = _feed(source.path, model.graph, data_loader, more)
    try:
        findings = linter.lint(source, feed, trial)
    except MissingDependencyError as error:
        more.append(LintEntry(INFO, Source.RUNTIME, str(error)))
        findings = linter.lint(source, None, None)
    return LintReport.of(findings, more)


def _feed(
    path: str, graph: Graph, data_loader: Any, more: list[LintEntry]
) -> Mapping[str, Any] | None:
    """Return input data for the graph of a model; None, with an entry that says why, where there
    are none.
    """
    metadata = TensorMetadata()
    for tensor in graph.inputs:
        if tensor.dtype is None or "(" in tensor.dtype:
            continue  # There are no data for what is no tensor.
        metadata.add(tensor.name, tensor.dtype, tensor.shape)
    loader = DataLoader() if data_loader is None else data_loader
    describe_model(loader, metadata, partial(resolve(FactFinder).find, path))
    if not metadata:
        return {}
    try:
        feeds = iter(loader)
        feed = next(feeds, None)
        if feed is None:
            more.append(LintEntry(INFO, Source.RUNTIME, "There are no input data to run it with."))
            return None
        notes = [*getattr(loader, "notes", ()), *([ONLY_FIRST] if has_more(loader, feeds) else ())]
        for note in notes:
            resolve(Console).note(note)
        fitted, _ = fit_feed(feed, metadata)
    except PolygraphyException as error:
        if data_loader is not None:
            raise
        more.append(LintEntry(INFO, Source.RUNTIME, f"Nothing was run: {error}"))
        return None
    return fitted
