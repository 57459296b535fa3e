"""The end of every generated program: errors become exit codes, and a banner frames the run.

Exit codes: 0 passed; 1 a check failed; 2 wrong usage; 3 a backend, a build or a file failed; 4
inconclusive; 130 interrupted. `POLYGRAPHY_EXIT_CODES=legacy` makes them 0 passed and 1 anything
else, as NVIDIA's tool has it.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, NoReturn, cast

from polygraphy import config
from polygraphy.adapters.console.run_view import RunView
from polygraphy.binding import bind
from polygraphy.domain.catalog.reports import FAULTS_VARIABLE
from polygraphy.domain.errors import (
    CheckFailedError,
    PolygraphyException,
    PolygraphyInternalException,
    UsageError,
)
from polygraphy.domain.report.commands import crash_advice
from polygraphy.last_words import set_advice, watch_program
from polygraphy.logger import G_LOGGER, was_logged
from polygraphy.logger.errors import mark_as_logged
from polygraphy.ports.reporting import Console, Findings
from polygraphy.termination import (
    Termination,
    end_on_signals,
    remember_interrupts,
    was_interrupted,
)

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_PASSED", "before", "exit_code", "run"]

EXIT_PASSED = 0
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
_EXIT_BROKEN = 3
_EXIT_INCONCLUSIVE = 4
_UNUSABLE_NAMES = (errno.ENAMETOOLONG, errno.ELOOP)
_SMALLER = "Use a smaller batch, or fewer outputs at a time."
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)

Listen = Callable[[str, str, int], object]
"""Takes the kind of an error, what is said about it, and its exit code."""

before: list[Callable[[], object]] = []
"""Checks that run before a program's main function."""


def run(
    main: Callable[[], Any],
    *,
    banner: bool = True,
    format: str = "text",
    report: str | Sequence[str] | None = None,
    sources: Sequence[str] = (),
) -> NoReturn:
    """Run a program's main function and end the process with an exit code.

    Args:
        main: returns whether its check passed, or None if it checks nothing.
        banner: whether the command line is logged before, and verdict and duration after.
        format: the format of standard output: ``text``, the log; or ``json``, the verdict document,
            and the log goes to standard error.
        report: path for the verdict document, which is also written if the program fails: one path
            or several, each ending in .json, .html, .md (a summary), .xml (JUnit) or .sarif
            (findings of `check lint`, for code scanning).
        sources: the files that the program reads, for the document.
    """
    end_on_signals()
    remember_interrupts()
    # Saves time: at its end, the interpreter would run the garbage collector several times.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)

    _answer_arguments(main)
    checks = [before.pop(0) for _ in before[:]]

    def check_and_run() -> Any:
        """Return the result of the main function, after all checks."""
        for check in checks:
            check()
        return main()

    global_names = getattr(main, "__globals__", {})
    reports = [report] if isinstance(report, str) else report or ()
    command = _command_of(global_names.get("__doc__") or "")
    model = str(global_names.get("MODEL", ""))
    view = RunView(command, model, reports)
    with watch_program(), bind(Console, cast("Any", view)), bind(Findings, view), _fault_listener():
        set_advice(crash_advice(command, model))
        try:
            if format == "text" and not report:
                sys.exit(_run_with_banner(check_and_run, view, banner))
            sys.exit(_run_and_report(check_and_run, view, banner, (format, report, sources)))
        finally:
            view.show_all_lines()


def _answer_arguments(main: Callable[[], Any]) -> None:
    """Handle the arguments of a saved program that accepts none, and would ignore them."""
    words = sys.argv[1:]
    global_names = getattr(main, "__globals__", {})
    own_names = {"argparse", "sys", "click", "os"}
    path = global_names.get("__file__")
    if not words or path is None or own_names & global_names.keys():
        return
    if os.path.realpath(path) != os.path.realpath(sys.argv[0]):
        return
    description = (global_names.get("__doc__") or "").strip()
    if words[0] in ("-h", "--help"):
        sys.stdout.write(f"{description}\n")
        sys.exit(EXIT_PASSED)

    def refuse() -> None:
        """Raise a UsageError: the program accepts no arguments."""
        raise UsageError(
            f"{sys.argv[0]} accepts no arguments: {' '.join(words)}.",
            hint="Edit the script, or pass the arguments to its command (see -h).",
        )

    sys.exit(exit_code(refuse))


def _fault_listener() -> AbstractContextManager[None]:
    """Return a context in which the search that runs this program as its check learns about failed
    outputs."""
    path = os.environ.get(FAULTS_VARIABLE)
    if path is None:
        return nullcontext()
    from polygraphy.adapters.report.faults import write_faults

    return write_faults(path)


def _command_of(docstring: str) -> str:
    """Return the command line that a program was generated from, at the end of its docstring."""
    lines = docstring.partition("\n\n")[2].replace("\\\n", "\n").splitlines()
    return " ".join(filter(None, map(str.strip, lines)))


def _run_and_report(
    main: Callable[[], Any], view: RunView, banner: bool, arguments: tuple[Any, ...]
) -> int:
    """Run a main function and write its reports; return the exit code."""
    from polygraphy.adapters.report.session import Session

    view.records = True
    sessions: list[Session] = []
    code = exit_code(lambda: sessions.append(Session(view.recorder, *arguments)))
    if not sessions:
        return code
    [session] = sessions
    if unwritable := exit_code(session.open, session.problem):
        exit_code(lambda: session.close(unwritable))
        return unwritable
    try:
        code = _run_with_banner(main, view, banner, session.problem)
    except SystemExit as end:  # A signal, or the program itself, ends the process.
        ended = end.code if isinstance(end.code, int) else EXIT_FAILED
        exit_code(lambda: session.close(ended))
        raise
    written = exit_code(lambda: session.close(code))
    return code or written


def refuse(message: str, code: int, format: str, report: Sequence[str]) -> None:
    """Write the reports of an invalid command line, for which there is no program.

    Args:
        message: the problem.
        code: the exit code.
        format: see `run`.
        report: see `run`; each has one of its extensions.
    """
    from polygraphy.adapters.report.session import Session
    from polygraphy.domain.report.document import Recorder

    def write() -> None:
        """Write the problem to the reports."""
        session = Session(Recorder(), format, report)
        session.problem("UsageError", message, code)
        session.close(code)

    exit_code(write)


def _ignore_problem(kind: str, message: str, code: int) -> None:
    """Ignore a problem."""


def _run_with_banner(
    main: Callable[[], Any], view: RunView, banner: bool, listen: Listen = _ignore_problem
) -> int:
    """Run a main function between the first and last lines of a program; return the exit code."""
    command = " ".join(sys.argv)
    start = time.perf_counter()

    def run_main() -> Any:
        """Return the result of the main function; after a failed check, show the explanation."""
        view.open(lambda: G_LOGGER.start(lambda: f"RUNNING | Command: {command}"), banner=banner)
        try:
            return main()
        except CheckFailedError as error:
            if view.explains_failure():
                view.log_aside(partial(_log_critical, str(error)))
                mark_as_logged(error)
            raise

    def close(code: int) -> None:
        """Log the last line of the program."""
        seconds = time.perf_counter() - start
        verdict, severity = _VERDICTS.get(code, ("FAILED", G_LOGGER.ERROR))
        line = f"{verdict} | Runtime: {seconds:.3f}s | Command: {command}"
        view.close(lambda: G_LOGGER.log(line, severity), code, seconds)

    code = exit_code(run_main, listen)
    if code == EXIT_PASSED:
        return exit_code(lambda: close(code), listen)
    if code != EXIT_INTERRUPTED:
        with suppress(OSError):  # The program already failed, perhaps with the same error.
            close(code)
    return code


_VERDICTS = {
    EXIT_PASSED: ("PASSED", G_LOGGER.FINISH),
    _EXIT_INCONCLUSIVE: ("INCONCLUSIVE", G_LOGGER.ERROR),
}


def exit_code(main: Callable[[], Any], listen: Listen = _ignore_problem) -> int:
    """Run a main function and return its exit code.
    Errors are logged in one line, without a traceback, and `listen` is called with the kind, the
    message and the exit code of one.
    """
    try:
        passed = main()
    except KeyboardInterrupt:
        return _report_interruption(listen)
    except Termination as end:
        _report_termination(end, listen)
        raise
    except SystemExit as end:
        if end.code or not (place := _script_that_ended(end)):
            raise
        reason = f"A script ended the program with sys.exit{place}, so there is no result."
        return _report_failure(UsageError(reason, hint="Raise an exception instead."), listen)
    except BrokenPipeError:
        # Discard the remaining output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PASSED
    except Exception as error:  # At the end of the process, any error becomes one line.
        return _report_interruption(listen) if was_interrupted() else _report_failure(error, listen)
    return EXIT_PASSED if passed is None or passed else EXIT_FAILED


def _script_that_ended(end: SystemExit) -> str:
    """Return the line of a user's script that called sys.exit, in parentheses.
    The result is empty if the program itself did."""
    from polygraphy.mod.scripts import is_raised_in_package, user_frame

    # Generated programs end with `run`, which calls `sys.exit` in this module.
    place = "" if is_raised_in_package(end) else user_frame(end)
    program = os.path.basename(sys.argv[0])  # noqa: PTH119
    return "" if place.startswith(f" ({program},") else place


def _report_interruption(listen: Listen) -> int:
    """Report an interruption and return its exit code."""
    G_LOGGER.error("INTERRUPTED | Incomplete files were removed.")
    listen("KeyboardInterrupt", "Interrupted.", EXIT_INTERRUPTED)
    return EXIT_INTERRUPTED


def _report_termination(end: Termination, listen: Listen) -> None:
    """Report that a signal ends the program."""
    if end.is_reported:
        return
    end.is_reported = True
    message = f"The program was ended by {end.name}."
    listen("Termination", message, int(str(end.code)))
    with suppress(OSError):  # The terminal may be closed.
        G_LOGGER.error(f"INTERRUPTED | {message} Incomplete files were removed.")


def _report_failure(error: Exception, listen: Listen) -> int:
    """Log an error and return its exit code."""
    message, code = _describe_error(error)
    listen(type(error).__name__, message, code)
    if not was_logged(error):
        _log_critical(message)
    if not isinstance(error, MemoryError):
        G_LOGGER.verbose(lambda: _traceback(error))
    return EXIT_FAILED if config.EXIT_CODES == "legacy" else code


def _describe_error(error: Exception) -> tuple[str, int]:
    """Return the message about an error, and its exit code."""
    if isinstance(error, PolygraphyException):
        return str(error), error.exit_code
    if isinstance(error, PolygraphyInternalException):
        return f"Internal error: {error} Please report it.", error.exit_code
    if isinstance(error, OSError):
        return _describe_os_error(error), _EXIT_BROKEN
    if isinstance(error, MemoryError):
        size = f": {error}." if str(error) else "."  # NumPy states the size.
        return f"Out of memory{size} {_SMALLER}", _EXIT_BROKEN
    return _describe_unknown_error(error), _EXIT_BROKEN


def _log_critical(message: str) -> None:
    """Log a critical line; `G_LOGGER.critical` would raise."""
    G_LOGGER.log(message, G_LOGGER.CRITICAL, error_ok=True)


def _traceback(error: BaseException) -> str:
    """Return the traceback of an error as text."""
    import traceback

    return "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()


def _describe_os_error(error: OSError) -> str:
    """Return the message about an unhandled OSError:
    most often, the log or a program cannot be written to standard output.
    """
    if error.errno in _FULL and error.filename is None:
        return f"Could not write: {error.strerror}. Free some disk space."
    if error.errno in _UNUSABLE_NAMES and error.filename is not None:
        return f"{error.strerror}: {str(error.filename)!r}. Choose a different path."
    return _describe_unknown_error(error)


def _describe_unknown_error(error: Exception) -> str:
    """Return the message about an unexpected error, and its origin."""
    return f"{type(error).__name__}: {error} ({_origin(error)})"


def _origin(error: BaseException) -> str:
    """Return the place where an unexpected error was raised: the last line outside the standard
    library.
    """
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    return (
        f"{frames[-1].filename}, line {frames[-1].lineno}; -v shows the traceback"
        if frames
        else "-v shows more"
    )
