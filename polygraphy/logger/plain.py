"""Text that controls no terminal, whatever the files are that it comes from."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match, Pattern

__all__ = ["plain"]

# Control characters of C0 and C1 but tabs and line breaks, other line breaks, and those that change
# in which direction a line is read, or that it is read at all.
_CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
_pattern: list[Pattern[str]] = []


def plain(text: str) -> str:
    """Return a text in which characters that control a terminal stand as escapes; tabs and line
    breaks stay.
    """
    if text.isprintable():
        return text
    if not _pattern:
        import re

        _pattern.append(re.compile(_CONTROLS))
    return _pattern[0].sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
