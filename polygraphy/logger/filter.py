"""Which messages are logged: the severities that apply, and how they are changed."""

from __future__ import annotations

import sys

from polygraphy.logger import severity as levels
from polygraphy.logger.severity import SeverityTable, module_path

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from polygraphy.logger.severity import Levels

__all__ = ["Scope", "SeverityFilter", "caller_frame"]


class SeverityFilter:
    """Decides by its severity and by the module that logs it whether a message is logged.

    Args:
        severity: The least severity that is logged, or one per module; see `module_severity`.

    Attributes:
        logger_callbacks: Called with the `SeverityTable` that applies, each time that it is set.
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

    def __init__(self, severity: Levels) -> None:
        self.logger_callbacks: list[Callable[[SeverityTable], object]] = []
        # The first table is the configured one; each `verbosity` in force lays one over it.
        self._tables = [_Holder(SeverityTable(severity))]
        self._floor = self.module_severity.floor
        self._is_by_module = self.module_severity.has_paths

    @property
    def module_severity(self) -> SeverityTable:
        """The severities that apply now.

        May be set to one severity, to a mapping from paths to severities, or to what was read here
        before. The deepest entry that covers a module's path decides; see `SeverityTable`.
        """
        return self._tables[-1].table

    @module_severity.setter
    def module_severity(self, severity: Levels) -> None:
        self._tables[-1].table = SeverityTable(severity)
        self._table_changed()

    def _table_changed(self) -> None:
        table = self.module_severity
        self._floor = table.floor
        self._is_by_module = table.has_paths
        for callback in self.logger_callbacks:
            callback(table)

    def register_callback(self, callback: Callable[[SeverityTable], object]) -> None:
        """Call `callback` with the `SeverityTable` that applies, now and when another is set."""
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
        """Return a context manager within which other severities apply.

        Without an argument, nothing but critical messages is logged. Severities that are set within
        the context end with it.
        """
        holder = _Holder(SeverityTable(severity))

        def enter() -> None:
            self._tables.append(holder)
            self._table_changed()

        def leave() -> None:
            # Not simply the last one: contexts of several threads may overlap in any order.
            self._tables.remove(holder)
            self._table_changed()

        return Scope(enter, leave)


class _Holder:
    """Holds a table that may be replaced, and tells one use of `verbosity` from another."""

    __slots__ = ("table",)

    def __init__(self, table: SeverityTable) -> None:
        self.table = table


def caller_frame(stack_depth: int) -> FrameType:
    """Return the frame of the caller's caller for 2, of one call further out for each one more."""
    try:
        return sys._getframe(stack_depth)
    except ValueError:
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
        return frame


class Scope:
    """A context that calls `enter` at its start and `leave` at its end.

    (`contextlib` would do, if importing it did not cost a fifth of an interpreter's start.)
    """

    __slots__ = ("_enter", "_leave")

    def __init__(self, enter: Callable[[], object], leave: Callable[[], object]) -> None:
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> Scope:
        self._enter()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._leave()
