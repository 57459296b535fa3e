"""From options to the context of a program: how it logs and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import Factory, frozen

import polygraphy
from polygraphy.cli.declare.errors import warn
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.log import (
    LogOptions,
    ReportOptions,
    logged,
    of_file_and_console,
    severities,
)
from polygraphy.cli.shared.paths import read_in


@frozen
class Log:
    """How the program logs and reports; empty values leave the defaults alone.

    Attributes:
        severities: log levels by path within the package, ``""`` for all others.
        formats: what log lines look like.
        file: the file that the log is also written to.
        file_level: the level of the file, where that is not all that is logged.
        console_level: the level of the console, where that is not all that is logged.
        format: what standard output holds; None for text.
        report: paths of reports.
        sources: the files that the program reads, for its report.
    """

    severities: Mapping[str, str] = Factory(dict)
    formats: Sequence[str] = ()
    file: str | None = None
    file_level: str = ""
    console_level: str = ""
    format: str | None = None
    report: Sequence[str] = ()
    sources: Sequence[str] = ()

    @property
    def closing(self) -> dict[str, Any]:
        """The arguments of `program.run` about the report; empty where there is none."""
        if self.format is None and not self.report:
            return {}
        paths = list(self.report)
        return {
            "format": self.format,
            "report": paths[0] if len(paths) == 1 else paths or None,
            "sources": list(dict.fromkeys(self.sources)) or None,
        }


def log_of(values: Values) -> Log:
    """Return how the program is to log and report; paths that are of no module are named."""
    options, reporting = values[LogOptions], values[ReportOptions]
    chosen = severities(options)
    unknown = [path for path in chosen if path and not _is_known(path)]
    if unknown:
        warn(
            f"--verbosity {', '.join(unknown)}: the package has no such file or folder; a script"
            " goes by its name alone, as in --verbosity compare.py:VERBOSE."
        )
    file, console = of_file_and_console(options, chosen)
    if options.log_file is None:
        file = console = ""
    else:
        chosen = logged(chosen, file, console)
    everything = chosen.get("", "INFO")
    return Log(
        severities=chosen,
        formats=options.log_format,
        file=options.log_file,
        file_level=file if file != everything else "",
        console_level=console if console != everything else "",
        format=None if reporting.format == "text" else reporting.format,
        report=reporting.report,
        sources=[path for _, path in read_in(values)],
    )


def _is_known(path: str) -> bool:
    """Return whether a path is one within the package, or may be the name of a user's script."""
    root = Path(polygraphy.__file__).parent
    try:
        is_inside = any((root / each).exists() for each in (path, f"{path}.py"))
    except OSError:  # The name is longer than any file's.
        is_inside = False
    return is_inside or ("/" not in path and path.endswith(".py"))
