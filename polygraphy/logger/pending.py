"""Lines that are written together, in place of one by one."""

from __future__ import annotations

from polygraphy.logger.sinks import of_one_stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from polygraphy.logger.sinks import Line

__all__ = ["PendingLines"]


class PendingLines:
    """Lines in their order, each written when it is added, or while they are held back, later.

    Callers hold a lock.

    Args:
        write: Writes lines that go to the same stream.
    """

    __slots__ = ("_holds", "_lines", "_write")

    def __init__(self, write: Callable[[list[Line]], None]) -> None:
        self._write = write
        self._lines: list[Line] = []
        self._holds = 0

    def add(self, line: Line) -> None:
        """Add a line."""
        self._lines.append(line)
        if not self._holds:
            self.flush()

    def hold(self) -> None:
        """Hold lines back until `release` is called as often as this."""
        self._holds += 1

    def release(self) -> None:
        """Write what there is; lines are not held back any more unless other code does."""
        self._holds = max(0, self._holds - 1)  # A forked child releases what its parent held.
        self.flush()

    def flush(self) -> None:
        """Write what there is; nothing that an error kept from being written is tried again.

        Raises:
            OSError: The lines cannot be written.
        """
        try:
            self._write_all()
        except KeyboardInterrupt:
            self._write_all()  # What ctrl-C kept from being written.
            raise

    def _write_all(self) -> None:
        while self._lines:
            # Taken out first: a signal handler that logs meanwhile would write them again.
            run = of_one_stream(self._lines)
            del self._lines[: len(run)]
            try:
                self._write(run)
            except KeyboardInterrupt:
                self._lines[:0] = run  # Better twice than never.
                raise
