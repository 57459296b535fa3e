"""How a message looks: one tagged text with its continuation lines, or one line of JSON. And where
such lines go: the console's two streams, a file, or Python's own logging system; several of
them together, and none with what controls a terminal.
"""

from __future__ import annotations

import os
import sys
import time

from polygraphy.constants import TAB
from polygraphy.logger.severity import CRITICAL, color_of, letter_of, level_of, name_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from re import Match, Pattern

__all__ = [
    "LogFile",
    "PendingLines",
    "escape_controls",
    "forward_to_logging",
    "json_line",
    "lines_of_first_stream",
    "shows_colors",
    "text_lines",
    "without_commands",
    "write_console",
]


def text_lines(
    message: str,
    severity: int,
    depth: int = 0,
    letter: bool = True,
    timestamp: bool = False,
    place: str = "",
) -> str:
    """Return the text of a message: `[I] (HH:MM:SS) [place] message`.

    Args:
        message: One or more lines; one line break at the end is dropped.
        severity: Gives the letter.
        depth: Levels of indentation, which come after the tags; none if negative.
        letter: Whether to start with the severity's letter.
        timestamp: Whether to give the local time.
        place: Source file and line, empty for none.

    Continuation lines carry no tags; four spaces stand for them (none where there are no tags).
    """
    head = f"[{letter_of(severity)}] " if letter else ""
    if timestamp:
        head += time.strftime("(%H:%M:%S) ")
    if place:
        head += f"[{place}] "
    indent = TAB * depth
    if "\n" in message:
        break_ = "\n" + (TAB if head else "") + indent
        message = message.removesuffix("\n").replace("\n", break_)
    return head + indent + message


def json_line(message: str, severity: int, *, module: str, line: int) -> str:
    """Return the message as a JSON object on one line; `time` is ISO 8601, in UTC."""
    import json

    now = time.time()
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    return json.dumps(
        {
            "time": f"{seconds}.{int(now % 1 * 1000):03d}Z",
            "severity": name_of(severity),
            "module": module,
            "line": line,
            "message": message,
        }
    )


# Control characters (C0 and C1 without tab and line feed), other line breaks, and invisible
# characters that change the direction of text.
_CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
_pattern: list[Pattern[str]] = []


def escape_controls(text: str) -> str:
    """Return a text with terminal control characters escaped, except tabs and line breaks.
    In a GitHub job, commands to its runner are also escaped.
    """
    if os.environ.get("GITHUB_ACTIONS") == "true":
        text = without_commands(text)
    if text.isprintable():
        return text
    if not _pattern:
        import re

        _pattern.append(re.compile(_CONTROLS))
    return _pattern[0].sub(_escape, text.replace("\r\n", "\n"))


def without_commands(text: str, hash_sign: str = "\\x23") -> str:
    """Return a text without commands for GitHub's runner,
    which looks for ``::`` at the start of a line, after white space, and for ``##[`` anywhere.

    Args:
        text: the text to print.
        hash_sign: replaces the second number sign of ``##[``.
    """
    if "::" in text:
        import re

        text = re.sub(r"(?m)^(\s*):(?=:)", r"\1\\x3a", text)
    return text.replace("##[", f"#{hash_sign}[")


def _escape(match: Match[str]) -> str:
    """Return a matched character as an escape sequence."""
    return match[0].encode("unicode_escape").decode("ascii")


if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import TextIO, TypeAlias

    Line: TypeAlias = tuple[str, int]
    """The text of a message, without the final line break, and its severity."""


def lines_of_first_stream(lines: Sequence[Line]) -> list[Line]:
    """Return the first lines, as long as they go to the same stream."""
    is_critical = lines[0][1] >= CRITICAL
    for count, (_, severity) in enumerate(lines):
        if (severity >= CRITICAL) != is_critical:
            return list(lines[:count])
    return list(lines)


def write_console(lines: Sequence[Line], *, colors: bool) -> None:
    """Write messages for one stream: standard error for critical ones, else standard output.

    The streams are those of the moment, so that redirecting `sys.stdout` works. What cannot be
    encoded is escaped. A reader that went away (`polygraphy ... | head`) is not an error: what it
    would have read is dropped from then on.

    Args:
        lines: The messages; severities choose the stream and the colors.
        colors: Whether to color the text if the stream is a terminal.

    Raises:
        OSError: The stream cannot be written to (a full disk, for example).
    """
    stream: TextIO | None = sys.stderr if lines[0][1] >= CRITICAL else sys.stdout
    if stream is None or getattr(stream, "closed", False):
        return
    lines = [
        (escape_controls(text), severity) for text, severity in lines
    ]  # Names from files may contain control characters.
    if colors and shows_colors(stream):
        lines = [(_color(text, severity), severity) for text, severity in lines]
    try:
        _write(stream, _join_lines(lines))
    except BrokenPipeError:
        _discard_output(stream)


def _join_lines(lines: Sequence[Line]) -> str:
    """Return lines as text; each ends with a line feed."""
    return "\n".join([*[text for text, _ in lines], ""])


def _write(stream: TextIO, text: str) -> None:
    """Write text to a stream; characters that its encoding lacks become escapes."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    # Flush each line, so that lines of both streams, and of child processes, keep their order.
    stream.flush()


def _discard_output(stream: TextIO) -> None:
    # The stream still contains unwritten data, and would fail again when the interpreter flushes it
    # at exit, so redirect its descriptor.
    """Discard all further output to a stream."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def shows_colors(stream: TextIO) -> bool:
    """Return whether to color a stream: the terminal supports it, and no setting forbids it.

    That setting is the variable NO_COLOR, set and not empty (https://no-color.org).
    """
    isatty = getattr(stream, "isatty", None)
    if isatty is None or not isatty():
        return False
    environ = os.environ
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def _color(text: str, severity: int) -> str:
    """Return text in the color of a severity."""
    color = color_of(severity)
    return f"\x1b[{color}m{text}\x1b[0m" if color else text


def _without_escapes(text: str) -> str:
    """Return `text` without terminal control sequences (CSI)."""
    if "\x1b" not in text:
        return text
    import re

    return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", text)


class LogFile:
    """A file that log lines are appended to, handed to the system at once.

    Creating it creates the parent folders and empties the file. It may be closed at any time: the
    next `write` opens it again and appends.

    Raises:
        OSError: The file or a folder cannot be created.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Set the path; the file is opened by the first line."""
        from pathlib import Path

        self.path = os.fspath(path)
        # The working directory may change before the file is opened again.
        self._absolute = Path(path).absolute()
        self._absolute.parent.mkdir(parents=True, exist_ok=True)
        self._stream: TextIO | None = self._open(os.O_TRUNC)

    def _open(self, extra_flags: int = 0) -> TextIO:
        # Appending, rather than writing at a position, keeps lines of forked processes apart.
        """Return the log file, opened for appending."""

        def opener(path: str, flags: int) -> int:
            """Return the descriptor of the file, opened with extra flags."""
            return os.open(path, flags | extra_flags, 0o666)

        return open(
            self._absolute,
            "a",
            buffering=1,
            encoding="utf-8",
            errors="backslashreplace",
            opener=opener,
        )

    def write(self, lines: Sequence[Line]) -> None:
        """Append messages, without terminal control sequences.

        Raises:
            OSError: The file cannot be written to.
        """
        if self._stream is None:
            self._stream = self._open()
        self._stream.write(escape_controls(_without_escapes(_join_lines(lines))))

    def close(self) -> None:
        """Close the file until the next `write`."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def forward_to_logging(text: str, severity: int, frame: FrameType) -> None:
    """Send a message to `logging.getLogger("Polygraphy")`,
    as a record with the level of its severity and the place of `frame`.
    """
    import logging

    level = level_of(severity)
    logger = logging.getLogger("Polygraphy")
    if logger.isEnabledFor(level):
        code = frame.f_code
        logger.handle(
            logger.makeRecord(
                logger.name,
                level,
                code.co_filename,
                frame.f_lineno,
                escape_controls(text),
                (),
                None,
                code.co_name,
            )
        )


class PendingLines:
    """Lines in their order, each written when it is added, or while they are held back, later.

    Callers hold a lock.

    Args:
        write: Writes lines that go to the same stream.
    """

    __slots__ = ("_holds", "_lines", "_write")

    def __init__(self, write: Callable[[list[Line]], None]) -> None:
        """Set the function that writes lines."""
        self._write = write
        self._lines: list[Line] = []
        self._holds = 0

    def add(self, line: Line) -> None:
        """Add a line to be written."""
        self._lines.append(line)
        if not self._holds:
            self.flush()

    def hold(self) -> None:
        """Delay lines until `release` was called equally often."""
        self._holds += 1

    def release(self) -> None:
        """Write the delayed lines, unless another caller delays them."""
        # In a forked child, the count may include blocks of its parent.
        self._holds = max(0, self._holds - 1)
        self.flush()

    def flush(self) -> None:
        """Write the pending lines; lines that fail to be written are dropped.

        Raises:
            OSError: The lines cannot be written.
        """
        try:
            self._write_all()
        except KeyboardInterrupt:
            self._write_all()  # Write lines that remained after Ctrl-C.
            raise

    def _write_all(self) -> None:
        """Write all pending lines; keep the rest after an interrupt."""
        while self._lines:
            # Remove them first: a signal handler that logs meanwhile would write them again.
            run = lines_of_first_stream(self._lines)
            del self._lines[: len(run)]
            try:
                self._write(run)
            except KeyboardInterrupt:
                # After an error, keep the lines: a repeated line is better than a lost one.
                self._lines[:0] = run
                raise
