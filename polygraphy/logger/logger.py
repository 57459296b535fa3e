"""The logger: filters messages by severity and module, lays them out, and writes them."""

from __future__ import annotations

import _thread
import os
import sys
from contextvars import ContextVar

from polygraphy import config
from polygraphy.logger import errors
from polygraphy.logger import severity as levels
from polygraphy.logger.severity import SeverityTable, module_path
from polygraphy.logger.sinks import (
    LogFile,
    PendingLines,
    forward_to_logging,
    json_line,
    shows_colors,
    text_lines,
    write_console,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from types import FrameType, ModuleType
    from typing import NoReturn, ParamSpec, TypeAlias, TypeVar

    from polygraphy.logger.severity import Levels
    from polygraphy.logger.sinks import Line

    P = ParamSpec("P")
    R = TypeVar("R")
    Message: TypeAlias = "object | Callable[[], object]"

__all__ = [
    "G_LOGGER",
    "LogMode",
    "Logger",
    "LoggerIndent",
    "LoggerVerbosity",
    "SeverityTrie",
    "has_colors",
]


class LogMode:
    """How often a message is logged."""

    # Not an `enum.Enum`, because importing `enum` costs a tenth of an interpreter's start.
    EACH = 0
    """Each time."""

    ONCE = 1
    """The first time in this process; a time at which its severity hid it does not count."""


class Scope:
    """A context that calls `enter` at its start and `leave` at its end.

    (`contextlib` would do, if importing it did not cost a fifth of an interpreter's start.)
    """

    __slots__ = ("_enter", "_leave")

    def __init__(self, enter: Callable[[], object], leave: Callable[[], object]) -> None:
        """Set the functions for start and end."""
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> Scope:
        """Call the function for the start, and return the context."""
        self._enter()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Call the function for the end."""
        self._leave()


class Logger:
    """Writes messages to the console, and to a file if one is set.

    A message is any object, whose `str` is logged, or a callable that returns one and is called
    only if the message is going to be logged. Any thread may log. Indentation belongs to the
    context that asked for it (a thread or an asyncio task), everything else to the process.

    Args:
        severity: The least severity that is logged, or one per module; see `module_severity`.
        colors: See the attribute of that name; so with the others.

    Attributes:
        logger_callbacks: Called with the `SeverityTable` that applies, each time that it is set.
        letter: Whether lines start with the letter of their severity, `[I]`.
        timestamp: Whether lines give the local time, `(HH:MM:SS)`.
        line_info: Whether lines give the source file and line, `[backend/trt/loader.py:12]`.
        colors: Whether to use colors, on terminals and unless NO_COLOR is set.
        console_severity: The least severity that the console shows of what is logged; the log file
            gets all of it.
        file_severity: The least severity that the log file gets of what is logged.
        console_gate: Called with the lines that the console is about to show; returns those that it
            shows now. None shows all.
        legacy: Whether every comparison of a run is logged line by line on the console, too.
        json: Whether each message is one line of JSON in place of text.
        use_python_logging_system: Whether messages go to `logging.getLogger("Polygraphy")` in place
            of the console: as lines, with their letters, at the level of their severity's number;
            2, 4 and 6 for the most verbose ones.
    """

    ULTRA_VERBOSE = levels.ULTRA_VERBOSE
    SUPER_VERBOSE = levels.SUPER_VERBOSE
    EXTRA_VERBOSE = levels.EXTRA_VERBOSE
    VERBOSE = levels.VERBOSE
    INFO = levels.INFO
    START = levels.START
    FINISH = levels.FINISH
    WARNING = levels.WARNING
    ERROR = levels.ERROR
    CRITICAL = levels.CRITICAL

    _STATE = (
        "letter",
        "timestamp",
        "line_info",
        "colors",
        "console_severity",
        "file_severity",
        "console_gate",
        "legacy",
        "json",
        "use_python_logging_system",
        "logger_callbacks",
        "_file",
        "_logged_once",
        "module_severity",
    )

    SEVERITY_LETTER_MAPPING = {
        value: f"[{levels.letter_of(value)}]" for value in levels.SEVERITIES.values()
    }
    """Beginning of a log line, by severity."""

    SEVERITY_COLOR_MAPPING = {
        value: levels.color_of(value) or None for value in levels.SEVERITIES.values()
    }
    """The SGR parameters of the color of each severity, None for the terminal's own."""

    def __init__(
        self,
        severity: Levels = levels.INFO,
        colors: bool = True,
        letter: bool = True,
        timestamp: bool = False,
        line_info: bool = False,
    ) -> None:
        """Set severities and the form of lines."""
        self.logger_callbacks: list[Callable[[SeverityTable], object]] = []
        # The first table is the configured one; each active `verbosity` context adds another.
        self._tables = [_Holder(SeverityTable(severity))]
        self._floor = self.module_severity.floor
        self._is_by_module = self.module_severity.has_paths
        self.letter = letter
        self.timestamp = timestamp
        self.line_info = line_info
        self.colors = colors
        self.console_severity: int = levels.ULTRA_VERBOSE
        self.file_severity: int = levels.ULTRA_VERBOSE
        self.console_gate: Callable[[list[Line]], list[Line]] | None = None
        self.legacy = False
        self.json = False
        self.use_python_logging_system = False
        self._file: LogFile | None = None
        self._logged_once: set[str] = set()
        self._indentation: ContextVar[int] = ContextVar("polygraphy_log_indentation", default=0)
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock, in the child of a fork: another thread may have held it there.
        Lines that wait to be written are the parent's.
        """
        # Re-entrant, because a signal handler may log in the middle of a write.
        self._lock = _thread.RLock()
        self._pending = PendingLines(self._write_lines)

    # Selection of messages.

    @property
    def module_severity(self) -> SeverityTable:
        """Return the least severities that are logged now, by module.

        May be set to one severity, to a mapping from paths to severities, or to what was read here
        before. The deepest entry that covers a module's path decides; see `SeverityTable`.
        """
        return self._tables[-1].table

    @module_severity.setter
    def module_severity(self, severity: Levels) -> None:
        self._tables[-1].table = SeverityTable(severity)
        self._apply_table()

    def _apply_table(self) -> None:
        """Update the settings that depend on the severities, and call the callbacks."""
        table = self.module_severity
        self._floor = table.floor
        self._is_by_module = table.has_paths
        for callback in self.logger_callbacks:
            callback(table)

    def register_callback(self, callback: Callable[[SeverityTable], object]) -> None:
        """Call `callback` with the current `SeverityTable`, now and after each change."""
        callback(self.module_severity)
        self.logger_callbacks.append(callback)

    def is_enabled_for(self, severity: int, stack_depth: int = 2) -> bool:
        """Return whether the caller's message of this severity would be logged.

        Args:
            severity: The severity of the message.
            stack_depth: 2 if the module that counts is the caller's, one more per call in between.
        """
        if severity < self._floor:
            return False
        table = self.module_severity
        if not table.has_paths:
            return True
        return severity >= table.get(module_path(caller_frame(stack_depth).f_code.co_filename))

    def verbosity(self, severity: Levels = levels.CRITICAL) -> Scope:
        """Return a context in which other severities apply.

        Without an argument, nothing but critical messages is logged. Severities that are set within
        the context end with it.
        """
        holder = _Holder(SeverityTable(severity))

        def enter() -> None:
            """Use the severities from now on."""
            self._tables.append(holder)
            self._apply_table()

        def leave() -> None:
            # Not simply the last one: contexts of several threads may overlap in any order.
            """Return to the severities before."""
            self._tables.remove(holder)
            self._apply_table()

        return Scope(enter, leave)

    @property
    def severity(self) -> int:
        """The severity of all modules that have none of their own.
        Setting it leaves theirs, and is deprecated.
        """
        return self.module_severity.get()

    @severity.setter
    def severity(self, severity: int) -> None:
        self.module_severity = self.module_severity.with_default(severity)
        self.warning(
            "Logger.severity is deprecated and will be removed in Polygraphy 2.0. Use"
            " module_severity instead."
        )

    # Format and destination of messages.

    def indent(self, level: int = 1) -> Scope:
        """Return a context in which messages are indented by `level` times four spaces."""
        depth = self._indentation
        return Scope(
            lambda: depth.set(depth.get() + level),
            lambda: depth.set(depth.get() - level),
        )

    def together(self) -> Scope:
        """Return a context whose messages are written together at its end.

        It is for many lines in a short time, of which each would cost system calls. All lines keep
        their order, those of other threads and of the other stream, too; and they are written when
        an exception or ctrl-C ends the context.
        """
        return Scope(
            lambda: self._run_locked(self._pending.hold),
            lambda: self._run_locked(self._pending.release),
        )

    def flush(self) -> None:
        """Write the lines that wait to be written."""
        self._run_locked(self._pending.flush)

    def _run_locked(self, work: Callable[[], object]) -> None:
        """Call a function while no other thread writes."""
        with self._lock:
            work()

    @property
    def log_file(self) -> str | None:
        """The path of the file that messages are also written to, without colors; None without one.

        Setting it creates the parent folders and empties the file; setting None closes the file.

        Raises:
            PolygraphyException: The file cannot be created.
        """
        return self._file.path if self._file is not None else None

    @log_file.setter
    def log_file(self, path: str | PathLike[str] | None) -> None:
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None
        if path is not None:
            try:
                self._file = LogFile(path)
            except OSError as error:
                self.critical(f"Could not create the log file {str(path)!r}: {error.strerror}")

    def module_path(self, path: str) -> str:
        """Return the name of a source file in log lines and in `module_severity`.

        That is its path below the package's folder, or for a file elsewhere its name.
        """
        return module_path(path)

    def state(self) -> dict[str, object]:
        """Return the configuration, for `restore`."""
        return {name: _copy(getattr(self, name)) for name in self._STATE}

    def restore(self, state: dict[str, object]) -> None:
        """Restore a configuration that `state` returned; a log file is appended to."""
        self.flush()
        if self._file is not None and self._file is not state["_file"]:
            self._file.close()
        for name in self._STATE:
            setattr(self, name, _copy(state[name]))

    def preserve(self) -> Scope:
        """Return a context at whose end the present configuration is restored."""
        state = self.state()
        return Scope(lambda: None, lambda: self.restore(state))

    def log(
        self,
        message: Message,
        severity: int,
        mode: int = LogMode.EACH,
        stack_depth: int = 2,
        error_ok: bool = False,
    ) -> None:
        """Log a message.

        Args:
            message: The message, or a callable that returns it.
            severity: One of the severities, or any integer in between.
            mode: `LogMode.EACH` or `LogMode.ONCE`.
            stack_depth: 2 if the message is the caller's, one more per call in between. It decides
                the line information, and which module's severity applies.
            error_ok: Log an exception that the callable raises, in place of its message.
        """
        # With thousands of lines, each function call here would be noticeable.
        if severity < self._floor or (
            self._is_by_module and not self.is_enabled_for(severity, stack_depth + 1)
        ):
            return
        try:
            text = message if type(message) is str else text_of(message)
        except Exception as error:
            if not error_ok:
                raise
            text = f"<Error while logging this message: {type(error).__name__}: {error}>"
        if mode == LogMode.ONCE:
            with self._lock:
                if text in self._logged_once:
                    return
                self._logged_once.add(text)
        self._write(text, severity, stack_depth + 1)

    def _write(self, text: str, severity: int, stack_depth: int) -> None:
        """Write a message to the console and the log file, at once or with the next ones."""
        if self.json or self.line_info:  # Finding the line takes longer than everything else.
            laid_out = self._with_place(text, severity, caller_frame(stack_depth))
        else:
            depth = self._indentation.get()
            laid_out = text_lines(text, severity, depth, self.letter, self.timestamp)
        with self._lock:
            if self.use_python_logging_system:
                self._pending.flush()
                name = text if self.json else laid_out
                forward_to_logging(name, severity, caller_frame(stack_depth))
                self._write_file([(laid_out, severity)])
                return
            self._pending.add((laid_out, severity))

    def _with_place(self, text: str, severity: int, frame: FrameType) -> str:
        """Return a message with the module and the line that logged it."""
        module, line = module_path(frame.f_code.co_filename), frame.f_lineno
        if self.json:
            return json_line(text, severity, module=module, line=line)
        location, depth = f"{module}:{line}", self._indentation.get()
        return text_lines(text, severity, depth, self.letter, self.timestamp, location)

    def _write_lines(self, lines: list[Line]) -> None:
        """Write lines to the console and to the log file, if their severity is high enough."""
        least = self.console_severity
        console_gate = lines
        if least > levels.ULTRA_VERBOSE:
            console_gate = [line for line in lines if line[1] >= least]
        if console_gate and self.console_gate is not None:
            console_gate = self.console_gate(console_gate)
        if console_gate:
            write_console(console_gate, colors=self.colors and not self.json)
        self._write_file(lines)

    def _write_file(self, lines: list[Line]) -> None:
        """Write lines to the log file, if there is one; stop using it if that fails."""
        file = self._file
        if file is None:
            return
        if self.file_severity > levels.ULTRA_VERBOSE:
            lines = [line for line in lines if line[1] >= self.file_severity]
        try:
            file.write(lines)
        except OSError as error:
            # The work matters more than its log: continue without the file, and report it.
            self._file = None
            gate, self.console_gate = self.console_gate, None  # It may hide the failed line.
            self.warning(f"Could not write to the log file {file.path!r}: {error.strerror}")
            self.console_gate = gate

    # Writing messages.

    # This comparison keeps the cost of a hidden message far below a microsecond.

    def ultra_verbose(self, message: Message, mode: int = LogMode.EACH) -> None:
        """Log a message of severity ULTRA_VERBOSE."""
        if self._floor <= levels.ULTRA_VERBOSE:
            self.log(message, levels.ULTRA_VERBOSE, mode, 3)

    def super_verbose(self, message: Message, mode: int = LogMode.EACH) -> None:
        """Log a message of severity SUPER_VERBOSE."""
        if self._floor <= levels.SUPER_VERBOSE:
            self.log(message, levels.SUPER_VERBOSE, mode, 3)

    def extra_verbose(self, message: Message, mode: int = LogMode.EACH) -> None:
        """Log a message of severity EXTRA_VERBOSE."""
        if self._floor <= levels.EXTRA_VERBOSE:
            self.log(message, levels.EXTRA_VERBOSE, mode, 3)

    def verbose(self, message: Message, mode: int = LogMode.EACH) -> None:
        """Log a message of severity VERBOSE."""
        if self._floor <= levels.VERBOSE:
            self.log(message, levels.VERBOSE, mode, 3)

    def info(self, message: Message, mode: int = LogMode.EACH) -> None:
        """Log a message of severity INFO."""
        if self._floor <= levels.INFO:
            self.log(message, levels.INFO, mode, 3)

    def progress(self, message: Message, mode: int = LogMode.EACH) -> None:
        """Log what the command is doing, such as loading a file, as INFO.
        A console that shows answers leaves it out.
        """
        if self._floor <= levels.PROGRESS:
            self.log(message, levels.PROGRESS, mode, 3)

    def start(self, message: Message, mode: int = LogMode.EACH) -> None:
        """Log that something starts, with severity START."""
        if self._floor <= levels.START:
            self.log(message, levels.START, mode, 3)

    def finish(self, message: Message, mode: int = LogMode.EACH) -> None:
        """Log that something finished successfully, with severity FINISH."""
        if self._floor <= levels.FINISH:
            self.log(message, levels.FINISH, mode, 3)

    def warning(self, message: Message, mode: int = LogMode.EACH) -> None:
        """Log a message of severity WARNING; under internal checks, as a Python warning too."""
        if config.INTERNAL_CORRECTNESS_CHECKS:
            import warnings

            message = text_of(message)
            self.flush()
            warnings.warn(message, stacklevel=2)
        if self._floor <= levels.WARNING:
            self.log(message, levels.WARNING, mode, 3)

    def error(self, message: Message, mode: int = LogMode.EACH) -> None:
        """Log a message of severity ERROR."""
        if self._floor <= levels.ERROR:
            self.log(message, levels.ERROR, mode, 3)

    def critical(
        self, message: Message, ExceptionType: type[BaseException] | None = None
    ) -> NoReturn:
        """Log a message of severity CRITICAL, and raise it as an exception.

        Raises:
            PolygraphyException: Or in its place an `ExceptionType`, made from the message.
        """
        self._log_and_raise(
            message, ExceptionType or errors.import_exception_class(errors.PUBLIC_ERROR)
        )

    exit = critical

    def internal_error(self, message: Message) -> None:
        """Raise an error about a contradiction in the package, if internal checks are on.

        Raises:
            PolygraphyInternalException: `config.INTERNAL_CORRECTNESS_CHECKS` is on.
        """
        if config.INTERNAL_CORRECTNESS_CHECKS:
            self._log_and_raise(message, errors.import_exception_class(errors.INTERNAL_ERROR))

    def _log_and_raise(self, message: Message, error_class: type[BaseException]) -> NoReturn:
        """Raise an error whose message is logged first."""
        text = text_of(message)
        self.log(text, levels.CRITICAL, stack_depth=4)
        error = error_class(text)
        errors.mark_as_logged(error)
        raise error

    def backtrace(
        self, depth: int = 0, limit: int | None = None, severity: int = levels.ERROR
    ) -> None:
        """Log the call stack, the caller last.

        Args:
            depth: How many of the innermost calls to leave out.
            limit: The most calls to show, the innermost ones; None for all.
            severity: The severity of the message.
        """
        if self.is_enabled_for(severity, 3):
            import traceback

            stack = traceback.format_stack(caller_frame(2 + depth), limit)
            self.log("".join(stack), severity, stack_depth=3)

    def module_info(
        self, module: ModuleType, name: str | None = None, severity: int = levels.VERBOSE
    ) -> None:
        """Log once the version and the path of a module.

        Args:
            module: An imported module.
            name: What to call it; by default its own name.
            severity: The severity of the message.
        """

        def message() -> str:
            """Return the message with the name, the version and the path of a module."""
            version = getattr(module, "__version__", "UNKNOWN")
            path = list(getattr(module, "__path__", [])) or [getattr(module, "__file__", "UNKNOWN")]
            called = name or module.__name__
            return f"Loaded Module: {called} | Version: {version} | Path: {path}"

        self.log(message, severity, LogMode.ONCE, 3)

    def log_exception(self, func: Callable[P, R]) -> Callable[P, R]:
        """Return a function that logs exceptions that leave `func`, unless they are logged already.

        The exception goes on.
        """
        from functools import wraps

        @wraps(func)
        def call_and_log(*args: P.args, **kwargs: P.kwargs) -> R:
            """Return the result of the function; log an exception that leaves it."""
            try:
                return func(*args, **kwargs)
            except Exception as error:
                if not errors.was_logged(error):
                    self.log(f"{type(error).__name__}: {error}", levels.ERROR, stack_depth=3)
                    errors.mark_as_logged(error)
                raise

        return call_and_log


class _Holder:
    """Holds the severity table of one `verbosity` block, which may replace it."""

    __slots__ = ("table",)

    def __init__(self, table: SeverityTable) -> None:
        """Set the table."""
        self.table = table


def caller_frame(stack_depth: int) -> FrameType:
    """Return a frame up the stack: that of the caller's caller for 2, one call further out for each
    number above.
    """
    try:
        return sys._getframe(stack_depth)
    except ValueError:
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
        return frame


def text_of(message: Message) -> str:
    """Return the text of a message."""
    return str(message() if callable(message) else message)


def _copy(value: object) -> object:
    """Return a copy of a list or a set; another value unchanged."""
    return value.copy() if isinstance(value, list | set) else value


class LoggerIndent(Scope):
    """A context in which a logger indents messages by `indent` times four spaces."""

    def __init__(self, logger: Logger, indent: int) -> None:
        """Set the logger and the indentation."""
        depth = logger._indentation
        before = depth.get()
        super().__init__(lambda: depth.set(indent), lambda: depth.set(before))


def LoggerVerbosity(logger: Logger, severity: Levels) -> Scope:
    """Return a context in which other severities apply; see `Logger.verbosity`."""
    return logger.verbosity(severity)


def has_colors() -> bool:
    """Return whether standard output is colored if colors are on."""
    return shows_colors(sys.stdout)


SeverityTrie = levels.SeverityTable

G_LOGGER = Logger()
"""The logger of the process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=G_LOGGER.renew_lock)

while config.PROBLEMS:
    G_LOGGER.warning(config.PROBLEMS.pop(0))
