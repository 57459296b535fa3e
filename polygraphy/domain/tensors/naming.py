"""Which names are meant by a list of names and patterns, which value by a setting of one value for
all outputs or one for each, and how names and numbers of things are put into words.

Wherever a setting may differ from output to output it is either the value itself or a dictionary
from names to values, in which the key ``""`` stands for every output that is not named.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar, Union, cast

from polygraphy.domain.errors import UnknownNameError


def is_pattern(word: str) -> bool:
    """Return whether a word contains a wildcard: ``*``, ``?`` or ``[``."""
    return any(character in word for character in "*?[")


def match_name(word: str, known_names: Collection[str]) -> str | None:
    """Return the known name that a word refers to: itself, or the only tensor of a TensorFlow
    operation, as ``image`` refers to ``image:0`` if there is no ``image:1``; None if there is
    none."""
    if word in known_names:
        return word
    start = f"{word}:"
    names = [
        name for name in known_names if name.startswith(start) and name[len(start) :].isdecimal()
    ]
    return names[0] if word and len(names) == 1 else None


def select_names(
    words: Iterable[str],
    known_names: Collection[str],
    *,
    unless: Collection[str] = (),
    text: str = "Tensor",
) -> set[str]:
    """Return the known names that match some words.

    A word that is a known name means that name, even if it looks like a pattern; so does a word
    that lacks only the number of the tensor (see `match_name`). Any other pattern means every known
    name that it matches, case-sensitively, except those in `unless`.

    Args:
        words: names and patterns, as of `fnmatch`.
        known_names: the names that there are.
        unless: names that only count when they are given in full.
        text: the kind of the named things, for messages.

    Raises:
        UnknownNameError: a word means none of the known names.
    """
    accepted: set[str] = set()
    for word in words:
        name = match_name(word, known_names)
        if name is not None:
            accepted.add(name)
            continue
        matches = {
            name
            for name in known_names
            if is_pattern(word) and name not in unless and fnmatchcase(name, word)
        }
        if not matches:
            raise UnknownNameError(text, word, known_names)
        accepted |= matches
    return accepted


def select_any_names(words: Iterable[str], known_names: Collection[str]) -> set[str]:
    """Return the known names that match some words.
    Unlike in `select_names`, a word may match none.
    """
    return {
        name for name in known_names for word in words if name == word or fnmatchcase(name, word)
    }


class Note(str):
    """A note on an assumption, as a sentence.

    Attributes:
        brief: the same for a reader in a hurry; empty where a table says it.
    """

    brief: str

    def __new__(cls, text: str, brief: str) -> Note:
        """Return a note with its long and its brief form."""
        note = super().__new__(cls, text)
        note.brief = brief
        return note

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle stores: both forms."""
        return Note, (str(self), self.brief)


def one_line(name: str) -> str:
    """Return a name as messages show it: on one line, with escapes."""
    if name.isprintable():
        return name
    return "".join(
        (
            letter
            if letter.isprintable() or letter == "\t"
            else letter.encode("unicode_escape").decode("ascii")
        )
        for letter in name
    )


def split_words(text: str) -> list[str]:
    """Return the words of options that a user wrote in one text, split as a shell splits them.
    On Windows, a backslash is part of a path.

    Raises:
        ValueError: a quotation mark is missing.
    """
    import shlex

    words = shlex.shlex(text, posix=True, punctuation_chars=False)
    words.whitespace_split, words.commenters = True, ""
    if sys.platform == "win32":
        words.escape = ""
    return list(words)


def read_command(command: str) -> list[str]:
    """Return the words of a command line as a shell reads them, including words like ``$'\\n'``.

    Raises:
        ValueError: a quotation mark is missing.
    """
    import re
    import shlex

    if "$'" not in command:
        return shlex.split(command)

    def word(match: re.Match[str]) -> str:
        """Return a word in quotes that `shlex` reads."""
        return match[0] if match[1] is None else shlex.quote(_read_escapes(match[1]))

    words = r"""\$'((?:\\.|[^\\'])*)'|(?:'[^']*'|"[^"]*"|[^\s'"])+"""
    return shlex.split(re.sub(words, word, command))


def _read_escapes(text: str) -> str:
    """Return a text whose escapes are replaced by their characters.
    ``\\xff`` is a byte of a file name that is not valid UTF-8."""
    import re

    letters = {"n": "\n", "t": "\t", "r": "\r"}

    def character(match: re.Match[str]) -> str:
        """Return the character of an escape."""
        code = match[1]
        if code[0] in "xU" and len(code) > 1:
            return chr(int(code[1:], 16) + (0xDC00 if code[0] == "x" else 0))
        return letters.get(code, code)

    return re.sub(r"\\(x[0-9a-f]{2}|U[0-9a-f]{8}|.)", character, text)


def escape_command(command: str) -> str:
    """Return a command line from ``shlex.join`` on one line of printable characters;
    a shell reads it as the same words."""
    if command.isprintable():
        return command
    import re
    import shlex

    def word(match: re.Match[str]) -> str:
        """Return a word of a command with escapes for characters that cannot be printed."""
        return match[0] if match[0].isprintable() else _escape_word(*shlex.split(match[0]))

    return re.sub(r"""(?:'[^']*'|"'"|[^\s'"])+""", word, command)


def _escape_word(word: str) -> str:
    """Return a shell word with escapes for characters that cannot be printed.
    Substituted commands lose final line breaks, so such words need a newer shell."""
    is_printed = not word.endswith("\n")
    other_names = {"\\": r"\\", "'": r"\047", "%": "%%" if is_printed else "%"}
    text = "".join(
        (
            other_names.get(name, name)
            if name.isprintable()
            else "".join(f"\\{byte:03o}" for byte in name.encode("utf-8", "surrogateescape"))
        )
        for name in word
    )
    return f"\"$(printf -- '{text}')\"" if is_printed else f"$'{text}'"


def format_time(seconds: float) -> str:
    """Return a time in milliseconds or, from one second on, in seconds: `48.6 ms`, `1.58 s`."""
    if seconds < _SECOND:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < _LONG else f"{seconds:,.0f} s"


_SECOND, _LONG = 0.9995, 999.5
"""Seconds, from which on three digits are 1 s and 1,000 s."""


def with_article(noun: str) -> str:
    """Return a noun with its article: ``a list``, ``an int``."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def count_text(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 node``, ``2 nodes``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def input_sets_text(count: int) -> str:
    """Return a number of input sets as text: ``1 input set``, ``3 input sets``."""
    return count_text(count, "input set")


def differing_text(count: int, total: int, noun: str = "output") -> str:
    """Return the number of items that differ as text:
    ``1 of 1 output differs``, ``2 of 3 outputs differ``."""
    return f"{count} of {count_text(total, noun)} differ{'s' if count == 1 else ''}"


def join_words(words: Sequence[str]) -> str:
    """Return words as an English list: ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def join_lines(text: object) -> str:
    """Return a text, such as the message of an error, with spaces instead of line breaks."""
    return " ".join(line.strip() for line in str(text).splitlines() if line.strip())


def list_some(names: Sequence[str], most: int = 4, worded: Callable[[str], str] = repr) -> str:
    """Return the first few names as an English list, with the number of the others:
    ``'a', 'b', 'c', 'd' and 2 more``.
    """
    shown_name = ", ".join(map(worded, names[:most]))
    return shown_name if len(names) <= most else f"{shown_name} and {len(names) - most} more"


def shorten_text(text: str, most: int = 48) -> str:
    """Return a text on one line.
    Long texts lose their middle, because names differ at their ends."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}\N{HORIZONTAL ELLIPSIS}{text[-(most - head - 1) :]}"


T = TypeVar("T")
PerOutput = Union[T, Mapping[str, T]]


def copy_setting(setting: T) -> T:
    """Return a copy of a setting, which later changes of its dictionary or list do not affect."""
    if isinstance(setting, Mapping):
        return cast("T", {name: copy_setting(value) for name, value in setting.items()})
    return cast("T", list(setting)) if isinstance(setting, list) else setting


def value_for(setting: PerOutput[T] | None, name: str, default: T) -> T:
    """Return the value of `setting` for the output `name`; `default` if it has none."""
    if setting is None:
        return default
    if isinstance(setting, Mapping):
        return cast("T", setting.get(name, setting.get("", default)))
    return setting


def in_percent(share: float) -> str:
    """Return a share in percent, with two digits."""
    value = 100 * share
    return f"{value:.0f}%" if value >= 10 else f"{value:.2g}%"


def in_bytes(size: int) -> str:
    """Return a number of bytes in MB, or in GB from one on."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


def path_word(path: str) -> str:
    """Return a path as a word of a command line, in a form that is not read as a flag."""
    return f"./{path}" if path.startswith("-") else path


def quote_all(names: Sequence[str]) -> str:
    """Return names in quotes, separated by commas."""
    return ", ".join(map(repr, names))
