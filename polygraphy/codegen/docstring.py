"""The docstring of a generated program: what it does, and the command line that it stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from polygraphy.codegen.source import Source

_PLAIN = re.compile(r"[\w@%+:,./-][\w@%+=:,./-]*", re.ASCII)
"""What no shell expands; a word that starts with ``=`` is a command for zsh."""
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


def quoted_command(words: Sequence[str]) -> str:
    """Return a command line in one printable line, as a shell takes it."""
    return " ".join(map(quoted, words))


def quoted(word: str) -> str:
    """Quote one word for a shell; what cannot be printed is written as ``$'\\n'``."""
    if _PLAIN.fullmatch(word):
        return word
    if all(character.isprintable() for character in word):
        return "'" + word.replace("'", "'\"'\"'") + "'"
    return "$'" + "".join(map(_escaped, word)) + "'"


def listed_paths(paths: Sequence[str]) -> str:
    """Return paths as part of a sentence: ``a, b and c``."""
    words = [quoted(path) for path in paths]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # A byte of a file name that is no UTF-8.
        return f"\\x{code - 0xDC00:02x}"
    return f"\\U{code:08x}"


def docstring(summary: str, command: str) -> Source:
    """Return the source of a docstring that holds `summary` and the command line, as
    `quoted_command` writes it: printable texts.
    """
    lines = f"{summary}\n\n{command}\n"
    return Source('"""' + lines.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') + '"""')
