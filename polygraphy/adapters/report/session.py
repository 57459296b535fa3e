"""Records a program from its start, and writes its reports at the end, however that comes."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from pathlib import PurePath
from typing import Any, TextIO, cast

from polygraphy.adapters.report.detail import detail_of
from polygraphy.adapters.report.everyone import Everyone
from polygraphy.adapters.report.github import annotate
from polygraphy.adapters.report.junit import junit_of
from polygraphy.adapters.report.markdown import markdown_of
from polygraphy.adapters.report.reports_recorder import ReportsRecorder
from polygraphy.adapters.report.surroundings import environment, file_facts, first_model
from polygraphy.binding import bind, resolve
from polygraphy.domain.catalog.reports import FORMATS, REPORTS, format_of_report
from polygraphy.domain.errors import UsageError
from polygraphy.domain.model import Model
from polygraphy.domain.report.document import VERDICTS, Document, Problem, Recorder, with_nodes
from polygraphy.domain.report.summary import summary_of
from polygraphy.ports.models import ModelReports
from polygraphy.ports.reporting import BuildReports, Reports, report_page
from polygraphy.ports.storage import write_text


class Session:
    """One program that is recorded."""

    def __init__(
        self,
        recorder: Recorder,
        format: str = "text",
        report: str | Sequence[str] | None = None,
        sources: Sequence[str] = (),
    ) -> None:
        """Record from now on; see `polygraphy.program.run`. `recorder` takes what happens.

        Raises:
            UsageError: there is no such format, or no report of such an extension.
        """
        paths = [report] if isinstance(report, str) else list(report or ())
        if format not in FORMATS:
            raise UsageError(f"{format!r} is no format.", hint=f"Choose {' or '.join(FORMATS)}.")
        for path in paths:
            if format_of_report(path) is None:
                raise UsageError(
                    f"No report can be written to {path!r}.",
                    hint=f"Give it one of the extensions {', '.join(REPORTS)}.",
                )
        self._paths, self._sources = paths, list(sources)
        self._problems: list[Problem] = []
        self._code: int | None = None
        self._start = time.perf_counter()
        self._started = datetime.now(timezone.utc)
        is_looked_at = format == "json" or any(format_of_report(p) in _DETAILED for p in paths)
        self._recorder = recorder
        if is_looked_at:
            self._recorder.look_closer(detail_of)
        self._bound = ExitStack()
        self._stdout = _take_standard_output() if format == "json" else None
        self._bind(shows_reports=format == "text")

    def _bind(self, *, shows_reports: bool) -> None:
        """Record reports, which are not shown where the document is printed."""
        reports = ReportsRecorder(self._recorder)
        for port in (Reports, ModelReports, BuildReports):
            heard = _both(resolve(port), reports) if shows_reports else cast("Any", reports)
            self._bound.enter_context(bind(cast("Any", port), heard))

    def problem(self, kind: str, message: str, code: int) -> None:
        """Take an error that ends the program, and the exit code that it stands for."""
        self._problems.append(Problem(kind, message))
        self._code = code

    def close(self, code: int) -> None:
        """Write the reports of a program that ends with an exit code.

        Raises:
            FileError: one cannot be written.
        """
        self._bound.close()
        recorder = self._recorder
        is_of_model = recorder.comparisons or recorder.culprits
        model = first_model(self._sources) if is_of_model else None
        document = self._document(code, model)
        if self._stdout is not None:
            _print(self._stdout, json_of(document))
        annotate(document)
        for path in self._paths:
            write_text(path, _written(document, model, format_of_report(path)))

    def _document(self, code: int, model: Model | None) -> Document:
        recorder = self._recorder
        meant = code if self._code is None else self._code
        verdict = recorder.verdict or VERDICTS.get(meant, "error")
        comparisons = with_nodes(recorder.comparisons, None if model is None else model.graph)
        return Document(
            command=_command(sys.argv),
            started=self._started.isoformat(timespec="seconds"),
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
"""What JSON need not escape, but may do something to a terminal."""


_NUMBERS = re.compile(r"\[\n\s+-?[\d.e+-]+(,\n\s+-?[\d.e+-]+)*\n\s+\]")
"""A list of numbers, which is easier to read in one line; no text has a line break in it."""


def json_of(document: Document) -> str:
    """Return a document as JSON text, which any encoding has."""
    text = json.dumps(document.as_json(), indent=2, ensure_ascii=False, allow_nan=False)
    text = _NUMBERS.sub(lambda found: " ".join(found[0].split()), text)
    text = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    # A surrogate, which no encoding has, may come from any name in a model.
    return text.encode("utf-8", "backslashreplace").decode() + "\n"


def _written(document: Document, model: Model | None, format: str | None) -> str:
    """Return the text of a report."""
    if format == "html":
        return report_page(document, model)
    writers = {"json": json_of, "markdown": markdown_of, "junit": junit_of}
    return writers[format or ""](document)


def _command(words: Sequence[str]) -> str:
    """Return a command line as one would type it."""
    program = PurePath(words[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    return shlex.join([name, *words[1:]])


def _both(shown: Any, recorded: Any) -> Any:
    return Everyone([shown, recorded])


def _take_standard_output() -> TextIO | None:
    """Return standard output, for the document alone: what others write there, child processes and
    libraries of C among them, goes to standard error from now on.
    """
    taken: TextIO | None = sys.stdout  # None where it was closed before the start.
    if taken is None:
        return None
    taken.flush()
    sys.stdout = sys.stderr
    try:
        descriptor, error = taken.fileno(), sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return taken
    kept = os.dup(descriptor)
    os.dup2(error, descriptor)
    return os.fdopen(kept, "w", encoding="utf-8")


def _print(stream: TextIO, text: str) -> None:
    with suppress(BrokenPipeError):  # Who would have read it went away.
        stream.write(text)
        stream.flush()
