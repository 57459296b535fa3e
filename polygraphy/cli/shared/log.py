"""Options for output: the log, the program, and the verdict as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import Factory, frozen

import polygraphy
from polygraphy.cli.declare.errors import BadValue, warn
from polygraphy.cli.declare.kinds import Choice, Choices, Count, PerName, Text
from polygraphy.cli.declare.kinds.base import Repeated
from polygraphy.cli.declare.option import Options, Values, option, option_group
from polygraphy.cli.shared.paths import files_read
from polygraphy.domain.catalog.reports import FORMATS, REPORTS, format_of_report

LEVELS = (
    "ULTRA_VERBOSE",
    "SUPER_VERBOSE",
    "EXTRA_VERBOSE",
    "VERBOSE",
    "INFO",
    "START",
    "FINISH",
    "WARNING",
    "ERROR",
    "CRITICAL",
)
_INFO = LEVELS.index("INFO")
_PLACES = {
    "backend/base": "adapters/base",
    "backend/common": "adapters/base",
    "backend/onnxrt": "adapters/onnxruntime",
    "backend/onnx": "adapters/onnx",
    "backend": "adapters",
    "comparator": "adapters/console",
    "json": "adapters/files",
}


_LEVEL = Choice(*LEVELS, metavar="LEVEL", in_any_case=True, what="log level")


@option_group
class LogOptions(Options):
    """Logging: verbosity, format and destination of the log."""

    verbose: int = option(
        "-v",
        "--verbose",
        kind=Count(),
        default=0,
        help="Print more; can be repeated up to four times, as in -vv.",
    )
    quiet: int = option(
        "-q", "--quiet", kind=Count(), default=0, help="Print less; can be" " repeated."
    )
    extra_verbose: bool = option("--extra-verbose", help="Print as much as with -vv.")
    verbosity: object = option(
        "--verbosity",
        kind=PerName(_LEVEL, "PATH"),
        help="Log level by name, for all modules or per path within the package, as in"
        " --verbosity INFO adapters/onnxruntime:VERBOSE. Overrides -v and -q.",
    )
    silent: bool = option(
        "--silent", help="Print critical messages only; a --log-file is still written."
    )
    log_format: tuple[str, ...] = option(
        "--log-format",
        kind=Choices("timestamp", "line-info", "no-colors", "json", "legacy"),
        help="Format of log lines: json writes one object per line; legacy prints every line to"
        " the console in place of tables and answers, like POLYGRAPHY_CONSOLE=log.",
    )
    log_file: str | None = option(
        "--log-file",
        writes=True,
        help="Write the log to this file in addition to the console.",
    )
    log_file_verbosity: str | None = option(
        "--log-file-verbosity",
        needs="--log-file",
        kind=_LEVEL,
        otherwise="INFO, or the level of the console if it shows more",
        help="Log level of the log file.",
    )


def severities(options: LogOptions) -> dict[str, str]:
    """Return log levels by path within the package, with ``""`` for the rest.
    The result is empty without options.

    The most specific option wins: `--silent` (without a log file), then `--verbosity`, then the
    highest level among `-v`, `-q` and `--extra-verbose`.
    """
    if options.silent and options.log_file is None:
        return {"": "CRITICAL"}
    extra = max(options.verbose, 2 if options.extra_verbose else 0)
    named = options.verbosity if isinstance(options.verbosity, dict) else {"": options.verbosity}
    chosen = {_code_path(path): str(level) for path, level in named.items() if level is not None}
    if "" not in chosen and extra != options.quiet:
        chosen[""] = _level_at(extra - options.quiet)
    return dict(sorted(chosen.items()))


def _code_path(path: str) -> str:
    """Return the path of the code behind a published module:
    `backend/onnxrt` is in `adapters/onnxruntime`."""
    for published, module_path in _PLACES.items():
        if path == published or path.startswith((f"{published}/", f"{published}.py")):
            return module_path
    return path


def _level_at(steps: int) -> str:
    """Return the level `steps` above INFO in detail, or below it if negative."""
    if steps < -4:
        return "CRITICAL"
    return LEVELS[max(0, min(len(LEVELS) - 1, _INFO - steps))]


@option_group
class ScriptOptions(Options):
    """Program: the Python program of the command."""

    gen_script: str | None = option(
        "--gen-script",
        "--gen",
        writes=True,
        help="Save the program instead of running it; - means standard output.",
    )


class ReportPath(Text):
    """The path of a report; its extension sets the format."""

    metavar = "PATH"

    def parse(self, words: Sequence[str]) -> str:
        """Return the path; raise CommandLineError if its extension is unknown."""
        if format_of_report(words[0]) is None:
            raise BadValue(
                f"cannot write a report to {words[0]!r}: the extension must be one of"
                f" {', '.join(REPORTS)}"
            )
        return words[0]


@option_group
class ReportOptions(Options):
    """Report: the verdict as a document."""

    format: str | None = option(
        "--format",
        kind=Choice(*FORMATS),
        help="Format of standard output: text, or json for one document with the verdict or the"
        " error. For json, the log goes to standard error.",
        otherwise="text",
    )
    report: tuple[str, ...] = option(
        "--report",
        writes=True,
        kind=Repeated(ReportPath()),
        help="Save a report, even after a failure. The extension selects the format: .html for a"
        " page, .json for the document of --format json, .md for a summary, .xml for JUnit, .sarif"
        " for code scanning. Can be repeated.",
    )


@frozen
class Log:
    """The log and report settings of the program; empty values keep the defaults.

    Attributes:
        severities: log levels by path within the package, ``""`` for all others.
        formats: the formats of log lines.
        file: the file that the log is also written to.
        file_level: the level of the file, if it does not get all messages.
        console_level: the level of the console, if it does not get all messages.
        format: the format of standard output; None for text.
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
        """Return the arguments of `program.run` for the report; empty without one."""
        if self.format is None and not self.report:
            return {}
        paths = list(self.report)
        return {
            "format": self.format,
            "report": paths[0] if len(paths) == 1 else paths or None,
            "sources": list(dict.fromkeys(self.sources)) or None,
        }


def log_of(values: Values) -> Log:
    """Return the log and report settings of the program.
    Warn of paths that are not in the package."""
    options, reporting = values[LogOptions], values[ReportOptions]
    chosen = severities(options)
    unknown = [path for path in chosen if path and not _is_known(path)]
    if unknown:
        warn(
            f"--verbosity {', '.join(unknown)}: the package has no such file or folder. For a"
            " script, use its name alone, as in --verbosity compare.py:VERBOSE."
        )
    both = file = console = chosen.get("", "INFO")
    if options.log_file is not None:
        file = options.log_file_verbosity or min("INFO", both, key=LEVELS.index)
        console = "CRITICAL" if options.silent else both
        both_name = min(file, console, key=LEVELS.index)
        if both_name != both:
            chosen = dict(sorted({**chosen, "": both_name}.items()))
            both = both_name
    return Log(
        severities=chosen,
        formats=options.log_format,
        file=options.log_file,
        file_level=file if file != both else "",
        console_level=console if console != both else "",
        format=None if reporting.format == "text" else reporting.format,
        report=reporting.report,
        sources=[path for _, path in files_read(values)],
    )


def _is_known(path: str) -> bool:
    """Return whether a path is in the package, or may be the name of a user's script."""
    root = Path(polygraphy.__file__).parent
    try:
        is_inside = any((root / name).exists() for name in (path, f"{path}.py"))
    except OSError:  # The name is longer than file systems allow.
        is_inside = False
    return is_inside or ("/" not in path and path.endswith(".py"))
