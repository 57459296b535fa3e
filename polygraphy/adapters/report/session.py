"""Records a program from its start, and writes its reports at the end, also after an error."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TextIO, cast

import numpy as np
from attrs import evolve

from polygraphy.adapters.report.faults import Listeners
from polygraphy.adapters.report.markdown import annotate, junit_of, markdown_of
from polygraphy.adapters.report.sarif import sarif_of
from polygraphy.binding import bind, function_for, resolve
from polygraphy.domain.arithmetic import histogram
from polygraphy.domain.catalog.formats import format_named
from polygraphy.domain.catalog.reports import FORMATS, REPORTS, format_of_report
from polygraphy.domain.compare.result import CompareResult, OutputCompareResult
from polygraphy.domain.environment import Environment
from polygraphy.domain.errors import FileError, PolygraphyException, UsageError
from polygraphy.domain.model import Detail, Model, ModelSource
from polygraphy.domain.report.document import (
    VERDICTS,
    Document,
    FileFacts,
    Problem,
    Recorder,
    as_json_value,
    unfinished,
    with_nodes,
)
from polygraphy.domain.report.summary import summary_of
from polygraphy.last_words import last_document
from polygraphy.logger.sinks import without_commands
from polygraphy.ports.machine import sections_of
from polygraphy.ports.models import ModelReports, describe_file, find_quantized_tensors
from polygraphy.ports.reporting import Findings, Reports, report_page
from polygraphy.ports.storage import write_text

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.accuracy import AccuracyResults
    from polygraphy.domain.accuracy.inspection import DataReport
    from polygraphy.domain.checks.capability import Compatibility, SupportReport
    from polygraphy.domain.checks.lint import LintReport
    from polygraphy.domain.model.description import TensorUse
    from polygraphy.domain.model.difference import Difference, Edit, Outline
    from polygraphy.domain.model.sparsity import WeightSparsity
    from polygraphy.domain.profiling.table import ProfileTable
    from polygraphy.domain.quantization.listing import QuantizedTensor
    from polygraphy.domain.sweep.outcome import SweepOutcome
    from polygraphy.domain.tactics import Algorithm, TacticReplay


_BLOCK = 1 << 20
_SOURCES = ("packages", "machine")
"""Facts that are known without importing a backend."""


def environment() -> Environment:
    """Return versions of libraries and facts about the machine."""
    sections = (section for key in _SOURCES for section in function_for(sections_of, key)())
    kept_environment = (
        evolve(section, facts=tuple(fact for fact in section.facts if fact[1] != "not set"))
        for section in sections
    )
    return Environment(tuple(section for section in kept_environment if section.facts))


def file_facts(paths: Sequence[str]) -> list[FileFacts]:
    """Return size and hash of files; None for folders and unreadable files."""
    return [_facts_of(path) for path in dict.fromkeys(paths)]


def _facts_of(path: str) -> FileFacts:
    """Return size, digest and quantization of a file."""
    try:
        with Path(path).open("rb") as stream:
            digest, size = hashlib.sha256(), 0
            while block := stream.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except OSError:
        return FileFacts(path)
    quantization = None
    if format_named(path) == "onnx" and (tensors := find_quantized_tensors(path)):
        from polygraphy.domain.quantization.listing import summarize_quantization

        quantization = summarize_quantization(tensors)
    return FileFacts(path, size, digest.hexdigest(), quantization)


def first_model(paths: Sequence[str]) -> Model | None:
    """Return the description of the first readable ONNX model among files, or None.
    The result is None if there is none."""
    for path in paths:
        if format_named(path) == "onnx" and Path(path).is_file():
            source = ModelSource(path, ignore_external_data=True)
            detail = Detail(layers=True, attrs=True, origins=True)
            try:
                described = function_for(describe_file, "onnx")(source, detail)
            except PolygraphyException:  # The report is useful without the model.
                return None
            return described if isinstance(described, Model) else None
    return None


class ReportsRecorder:
    """Records every report as a finding."""

    def __init__(self, findings: Findings) -> None:
        """Set the recorder of the findings."""
        self._findings = findings
        self._path: str | None = None

    def _record_event(self, kind: str, **facts: Any) -> None:
        """Record an event of a kind with its facts."""
        self._findings.report_finding(kind, facts)

    # Saved data, and the machine.

    def source(self, path: str) -> None:
        """Record the path of the next file in a report on several."""

    def data(self, report: DataReport, *, num_items: int, line_width: int) -> None:
        """Record the report on data."""
        self._record_event("data", **as_json_value(report))

    def accuracy(self, results: AccuracyResults) -> None:
        """Record saved verdicts; comparisons are separate events."""
        rows = [
            {"function": result.label, "parties": pair, "iterations": len(iterations)}
            for result in results
            for pair, iterations in result.read()
        ]
        self._record_event("accuracy", comparisons=rows)

    def environment(self, environment: Environment) -> None:
        """Record the sections about the environment."""
        self._record_event("environment", sections=environment.sections)

    def profile(self, table: ProfileTable, *, sort: str, rows: int) -> None:
        """Record the table of profiled nodes."""
        self._record_event("profile", **as_json_value(table), sort=sort, shown=rows)

    def sweep(self, outcome: SweepOutcome) -> None:
        """Record the outcome of a sweep."""
        self._record_event("sweep", **as_json_value(outcome))

    # Models.

    def loading(self, path: str) -> None:
        """Record the path of the model that the next reports are about."""
        self._path = path

    def model(self, description: Any, detail: Detail) -> None:
        """Record the description of a model."""
        self._path = getattr(description, "path", self._path)
        self._record_event("model", path=self._path, model=description)

    def statistics(self, statistics: Any) -> None:
        """Record the statistics of a model or an engine."""
        self._record_event("statistics", path=self._path, statistics=statistics)

    def show_unbounded_tensors(self, names: Sequence[str]) -> None:
        """Record the tensors whose sizes depend on data without a bound."""
        self._record_event("unbounded_dds", path=self._path, tensors=list(names))

    def show_quantization(self, tensors: Sequence[QuantizedTensor], *, is_complete: bool) -> None:
        """Record the quantized tensors of a model."""
        self._record_event("quantization", path=self._path, tensors=tensors)

    def tensors(self, uses: Sequence[TensorUse]) -> None:
        """Record where tensors are produced and used."""
        self._record_event("tensors", path=self._path, tensors=uses)

    def sparsity(self, weights: Sequence[WeightSparsity]) -> None:
        """Record the sparsity of weights."""
        rows = [{**as_json_value(weight), "is_sparse": weight.is_sparse} for weight in weights]
        self._record_event("sparsity", path=self._path, weights=rows)

    def differences(self, differences: Sequence[Difference]) -> None:
        """Record the differences between two models."""
        self._record_event("differences", differences=differences)

    def outline(self, title: str, outline: Outline) -> None:
        """Record the outline of a model."""
        self._record_event("outline", title=title, outline=outline)

    def edit(self, edit: Edit) -> None:
        """Record the edit of a model."""
        self._record_event("edit", edit=edit)

    def lint(self, report: LintReport) -> None:
        """Record the findings of a linter."""
        self._record_event("lint", **as_json_value(report))

    def compatibility(self, result: Compatibility) -> None:
        """Record whether a model is compatible with an engine or backend."""
        self._record_event(
            "compatibility", is_compatible=result.is_compatible, **as_json_value(result)
        )

    def page_saved(self, path: str) -> None:
        """Record the path of a saved page."""
        self._record_event("page", path=path)

    def page_served(self, address: str) -> None:
        """Ignore the address of a page."""

    # Builds.

    def replay(self, replay: TacticReplay) -> None:
        """Record the tactic of each layer of a replay."""
        layers = {name: str(algorithm) for name, algorithm in replay.items()}
        self._record_event("tactics", layers=layers)

    def replays_compared(
        self,
        name0: str,
        name1: str,
        difference: Mapping[str, tuple[Algorithm | None, Algorithm | None]],
    ) -> None:
        """Record the layers whose tactics differ."""
        layers = {
            name: [None if algorithm is None else str(algorithm) for algorithm in both_pair]
            for name, both_pair in difference.items()
        }
        self._record_event("tactic_differences", replays=[name0, name1], layers=layers)

    def bad_tactics(
        self, good: int, bad: int, suspicious: Mapping[str, Sequence[Algorithm]]
    ) -> None:
        """Record the layers with potentially bad tactics."""
        layers = {name: [*map(str, algorithms)] for name, algorithms in suspicious.items()}
        self._record_event("bad_tactics", good=good, bad=bad, layers=layers)

    def support(self, report: SupportReport) -> None:
        """Record which parts of a model TensorRT supports."""
        self._record_event("capability", **as_json_value(report))


_BINS = 32
_AROUND = 2
_MOST = 1 << 20
"""Most elements of a histogram; of larger arrays, elements at equal distances are used."""

_Array = np.ndarray[Any, Any]


def detail_of(answer: CompareResult) -> Mapping[str, Any] | None:
    """Return histograms of both sides and the elements around the worst difference, or None.
    The result is None without numbers.
    """
    if not isinstance(answer, OutputCompareResult) or answer.arrays is None:
        return None
    array, expected = answer.arrays
    if array.dtype.kind in "OSUc" or expected.dtype.kind in "OSUc" or not array.size:
        return None
    worst = answer.mismatches.worst if answer.mismatches is not None else None
    detail: dict[str, Any] = {"is_sample": array.size > _MOST}
    detail |= _histograms(_thin_out(array), _thin_out(expected))
    if worst is not None and array.ndim:
        detail["around"] = _surrounding_elements(array, expected, worst.index)
    return detail


def _thin_out(array: _Array) -> _Array:
    """Return a sample of an array's elements in float64, evenly spaced."""
    flat = array.reshape(-1)
    return np.asarray(flat[:: max(1, -(-flat.size // _MOST))], np.float64)


def _histograms(array: _Array, expected: _Array) -> dict[str, Any]:
    """Return histograms of both sides, and of the differences by powers of ten."""
    finite = [side[np.isfinite(side)] for side in (array, expected)]
    ends = [(float(side.min()), float(side.max())) for side in finite if side.size]
    low, high = min((a for a, _ in ends), default=0.0), max((b for _, b in ends), default=1.0)
    if not low < high or not np.isfinite(high - low):
        low, high = low - 0.5, low + 0.5
    counts = [list(histogram(side, _BINS, (low, high)).counts) for side in finite]
    with np.errstate(all="ignore"):
        difference = np.abs(array - expected)
        sizes = difference[np.isfinite(difference) & (difference > 0)]
        decades = histogram(np.log10(sizes), _BINS)
    return {
        "range": [low, high],
        "found": counts[0],
        "expected": counts[1],
        "difference": {
            "decades": [decades.edges[0], decades.edges[-1]],
            "counts": list(decades.counts),
            "equal": int(np.count_nonzero(difference == 0)),
            "not_finite": int(np.count_nonzero(~np.isfinite(difference))),
        },
    }


def _surrounding_elements(
    array: _Array, expected: _Array, index: tuple[int, ...]
) -> dict[str, Any]:
    """Return the elements around an index in the last two dimensions."""
    starts = [max(0, at - _AROUND) for at in index[-2:]]
    window: tuple[Any, ...] = (
        *index[:-2],
        *(slice(start, at + _AROUND + 1) for start, at in zip(starts, index[-2:])),
    )
    return {
        "start": [*map(int, index[:-2]), *map(int, starts)],
        "found": as_json_value(np.atleast_2d(np.asarray(array[window], np.float64)).tolist()),
        "expected": as_json_value(np.atleast_2d(np.asarray(expected[window], np.float64)).tolist()),
    }


class Session:
    """The record of one program, with its reports."""

    def __init__(
        self,
        recorder: Recorder,
        format: str = "text",
        report: str | Sequence[str] | None = None,
        sources: Sequence[str] = (),
    ) -> None:
        """Record events in `recorder` from now on, for a document in a format.

        Raises:
            UsageError: the format, or the extension of a report, is unknown.
        """
        paths = [report] if isinstance(report, str) else list(report or ())
        if format not in FORMATS:
            raise UsageError(
                f"{format!r} is not a report format.", hint=f"Choose {' or '.join(FORMATS)}."
            )
        for path in paths:
            if format_of_report(path) is None:
                raise UsageError(
                    f"Cannot write a report to {path!r}.",
                    hint=f"Use one of the extensions {', '.join(REPORTS)}.",
                )
        self._paths, self._sources = paths, list(sources)
        self._problems: list[Problem] = []
        self._code: int | None = None
        self._start = time.perf_counter()
        self._start_time = datetime.now(timezone.utc).isoformat(timespec="seconds")
        is_looked_at = format == "json" or any(format_of_report(p) in _DETAILED for p in paths)
        self._recorder = recorder
        if is_looked_at:
            self._recorder.look_closer(detail_of)
        self._bound, self._watched = ExitStack(), ExitStack()
        self._stdout = _take_standard_output() if format == "json" else None
        self._bind(shows_reports=format == "text")

    def _bind(self, *, shows_reports: bool) -> None:
        """Route reports to the record and, if `shows_reports`, also to the console."""
        reports = ReportsRecorder(self._recorder)
        for port in (Reports, ModelReports):
            heard = Listeners([resolve(port), reports]) if shows_reports else cast("Any", reports)
            self._bound.enter_context(bind(cast("Any", port), heard))

    def open(self) -> None:
        """Make the reports state that the program has no result yet.
        Otherwise, the reports of an earlier program would remain if this one crashes. On a full
        disk, those are removed.

        Raises:
            FileError: a report cannot be written, and `close` will not write it.
        """
        document = unfinished(_command(sys.argv), self._start_time, environment())
        if self._stdout is not None and (descriptor := _descriptor_of(self._stdout)) is not None:
            self._watched.enter_context(last_document(json_of(document), descriptor))
        paths = [path for path in self._paths if _may_exist_early(path)]
        unwritable = self._write(document, None, paths)
        self._paths = [path for path in self._paths if path not in unwritable]
        for path in unwritable:
            if Path(path).is_file():
                with suppress(OSError):
                    Path(path).unlink()
        for error in unwritable.values():
            raise error

    def problem(self, kind: str, message: str, code: int) -> None:
        """Record an error that ends the program, and its exit code."""
        self._problems.append(Problem(kind, message))
        self._code = code

    def close(self, code: int) -> None:
        """Write the reports of a program that ends with an exit code.

        Raises:
            FileError: a report cannot be written.
        """
        self._bound.close()
        recorder = self._recorder
        is_of_model = recorder.comparisons or recorder.culprits
        model = first_model(self._sources) if is_of_model else None
        document = self._document(code, model)
        if self._stdout is not None:
            _print_text(self._stdout, json_of(document))
        self._watched.close()
        annotate(document)
        for error in self._write(document, model, self._paths).values():
            raise error

    @staticmethod
    def _write(
        document: Document, model: Model | None, paths: Sequence[str]
    ) -> dict[str, FileError]:
        """Write reports; return the paths of those that cannot be written, with the errors."""
        errors = {path: _write_report(document, model, path) for path in paths}
        return {path: error for path, error in errors.items() if error is not None}

    def _document(self, code: int, model: Model | None) -> Document:
        """Return the document of the command, for an exit code."""
        recorder = self._recorder
        intended_code = code if self._code is None else self._code
        verdict = recorder.verdict or VERDICTS.get(intended_code, "error")
        comparisons = with_nodes(recorder.comparisons, None if model is None else model.graph)
        return Document(
            command=_command(sys.argv),
            started=self._start_time,
            seconds=round(time.perf_counter() - self._start, 3),
            verdict=verdict,
            exit_code=code,
            summary=recorder.summary
            or summary_of(
                verdict,
                comparisons,
                self._problems,
                recorder.culprits,
                recorder.results,
            ),
            environment=environment(),
            files=file_facts(self._sources),
            data=recorder.data,
            parties=recorder.parties(),
            comparisons=comparisons,
            validation=recorder.validation,
            results=recorder.results,
            culprits=recorder.culprits,
            notes=recorder.notes,
            errors=self._problems,
        )


_DETAILED = ("json", "html")
"""Formats in which there is room for details of outputs that failed."""
_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that JSON need not escape, but that can affect a terminal."""


_NUMBERS = re.compile(r"\[\n\s+-?[\d.e+-]+(,\n\s+-?[\d.e+-]+)*\n\s+\]")
"""A list of numbers, which is easier to read in one line; no text has a line break in it."""


def json_of(document: Document) -> str:
    """Return a document as JSON text in ASCII."""
    text = json.dumps(document.as_json(), indent=2, ensure_ascii=False, allow_nan=False)
    text = _NUMBERS.sub(lambda match: " ".join(match[0].split()), text)
    text = _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    # A name in a model may contain a surrogate, which no encoding supports.
    return text.encode("utf-8", "backslashreplace").decode() + "\n"


def _write_report(document: Document, model: Model | None, path: str) -> FileError | None:
    """Write a report, and return the error if that fails."""
    try:
        write_text(path, _report_text(document, model, path))
    except FileError as error:
        return error
    return None


def _report_text(document: Document, model: Model | None, path: str) -> str:
    """Return the text of a report, in the format of the file extension."""
    format = format_of_report(path)
    if format == "html":
        return report_page(document, model, str(PurePath(path).parent))
    writers = {"json": json_of, "markdown": markdown_of, "junit": junit_of, "sarif": sarif_of}
    return writers[format or ""](document)


def _may_exist_early(path: str) -> bool:
    """Return whether a report can be written before the program runs: not to a pipe or a device,
    and not to an empty or missing folder, which the program itself may require to be empty.
    """
    file = Path(path)
    with suppress(OSError):
        if file.exists():
            return file.is_file() or file.is_dir()
        return any(file.parent.iterdir())
    return False


def _command(words: Sequence[str]) -> str:
    """Return a command line as a user types it."""
    program = PurePath(words[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    return shlex.join([name, *words[1:]])


def _take_standard_output() -> TextIO | None:
    """Return a stream for the document alone (None if standard output is closed);
    redirect all other output, also of child processes, to standard error.
    """
    stdout: TextIO | None = sys.stdout  # None if it was closed before the start.
    if stdout is None:
        return None
    stdout.flush()
    sys.stdout = sys.stderr
    try:
        descriptor, error = stdout.fileno(), sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return stdout
    dup = os.dup(descriptor)
    os.dup2(error, descriptor)
    return os.fdopen(dup, "w", encoding="utf-8")


def _descriptor_of(stream: TextIO) -> int | None:
    """Return the descriptor of a stream; None if it has none."""
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def _print_text(stream: TextIO, text: str) -> None:
    """Write a text to a stream, with GitHub's workflow commands in it disabled."""
    with suppress(BrokenPipeError):  # The reader closed the pipe.
        if os.environ.get("GITHUB_ACTIONS") == "true":
            # In JSON, this escape is the same character.
            text = without_commands(text, hash_sign="\\u0023")
        stream.write(text)
        stream.flush()
