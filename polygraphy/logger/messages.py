"""The messages that code logs: a method for each severity, and those that are composed."""

from __future__ import annotations

from polygraphy import config
from polygraphy.logger import errors
from polygraphy.logger import severity as levels
from polygraphy.logger.filter import SeverityFilter, caller_frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import NoReturn, ParamSpec, TypeAlias, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")
    Message: TypeAlias = "object | Callable[[], object]"


class LogMode:
    """How often a message is logged."""

    # Not an `enum.Enum`, because importing `enum` costs a tenth of an interpreter's start.
    EACH = 0
    """Each time."""

    ONCE = 1
    """The first time in this process; a time at which its severity hid it does not count."""


class Messages(SeverityFilter):
    """Logs messages of each severity through `log`, which derived classes have."""

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
        raise NotImplementedError

    @property
    def severity(self) -> int:
        """The severity of all modules that have none of their own; setting it leaves theirs, and is
        deprecated.
        """
        return self.module_severity.get()

    @severity.setter
    def severity(self, severity: int) -> None:
        self.module_severity = self.module_severity.with_default(severity)
        self.warning(
            "Logger.severity is deprecated and will be removed in Polygraphy 2.0. Use"
            " module_severity instead."
        )

    def flush(self) -> None:
        """Write the lines that wait to be written."""
        raise NotImplementedError

    # The comparison keeps what a hidden one costs far below a microsecond.

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

    def start(self, message: Message, mode: int = LogMode.EACH) -> None:
        """Log that something starts, with severity START."""
        if self._floor <= levels.START:
            self.log(message, levels.START, mode, 3)

    def finish(self, message: Message, mode: int = LogMode.EACH) -> None:
        """Log that something finished well, with severity FINISH."""
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
        """Log a message of severity CRITICAL, and raise it.

        Raises:
            PolygraphyException: Or in its place an `ExceptionType`, made from the message.
        """
        self._log_and_raise(message, ExceptionType or errors.named_class(errors.PUBLIC_ERROR))

    exit = critical

    def internal_error(self, message: Message) -> None:
        """Report that the package contradicts itself; does nothing without internal checks.

        Raises:
            PolygraphyInternalException: `config.INTERNAL_CORRECTNESS_CHECKS` is on.
        """
        if config.INTERNAL_CORRECTNESS_CHECKS:
            self._log_and_raise(message, errors.named_class(errors.INTERNAL_ERROR))

    def _log_and_raise(self, message: Message, error_class: type[BaseException]) -> NoReturn:
        text = text_of(message)
        self.log(text, levels.CRITICAL, stack_depth=4)
        error = error_class(text)
        errors.mark_as_logged(error)
        raise error

    def backtrace(
        self, depth: int = 0, limit: int | None = None, severity: int = levels.ERROR
    ) -> None:
        """Log the stack of calls that led here, the caller last.

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
        """Log once which version of a module is used, and from where.

        Args:
            module: An imported module.
            name: What to call it; by default its own name.
            severity: The severity of the message.
        """

        def message() -> str:
            version = getattr(module, "__version__", "UNKNOWN")
            path = list(getattr(module, "__path__", [])) or [getattr(module, "__file__", "UNKNOWN")]
            called = name or module.__name__
            return f"Loaded Module: {called} | Version: {version} | Path: {path}"

        self.log(message, severity, LogMode.ONCE, 3)

    def log_exception(self, func: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function so that an exception that leaves it is logged, unless it was before.

        The exception goes on.
        """
        from functools import wraps

        @wraps(func)
        def logged(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return func(*args, **kwargs)
            except Exception as error:
                if not errors.was_logged(error):
                    self.log(f"{type(error).__name__}: {error}", levels.ERROR, stack_depth=3)
                    errors.mark_as_logged(error)
                raise

        return logged


def text_of(message: Message) -> str:
    """Return the text of a message."""
    return str(message() if callable(message) else message)
