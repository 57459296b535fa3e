"""Values as Python source: the only way for anything from outside into a program, also for the
command line in its docstring.

A template may write two kinds of things. What was made here is `Source` and goes into the program
as it is; a number or a container is written as a literal; a bare string is refused, because nobody
knows if it is code or data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Undefined
from markupsafe import Markup

Source = Markup
"""Text that is known to be Python source. Jinja2 never touches such text, and macros return it."""


class ByteCount(int):
    """A number of bytes, which a program writes as people do: ``2 << 30`` for 2 GiB."""


_ROUND = 1e6
"""From here on, zeros are hard to count."""
_SAFE_EXPONENT = re.compile(r"^(-?\d+(?:\.\d+)?)e([+-])0*(\d+)$")


def literal(value: Any) -> Source:
    """Return the literal of a checked value: evaluating it gives an equal value of the same type.

    Raises:
        TypeError: `value` is, or contains, something that has no literal.
    """
    return Source(_literal(value))


def _literal(value: Any) -> str:
    kind = type(value)
    if value is None or kind in (bool, int, bytes):
        return repr(value)
    if isinstance(value, Markup):
        raise TypeError("Source is not a value.")
    if isinstance(value, str):
        return repr(str(value))
    if kind is float:
        return _float(value)
    if kind is list:
        return f"[{', '.join(map(_literal, value))}]"
    if kind is tuple:
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        return _mapping(value)
    if kind is ByteCount:
        return _bytes(value)
    raise TypeError(f"A {kind.__name__} has no literal: {value!r}")


def _mapping(values: Mapping[Any, Any]) -> str:
    """Return a dictionary: its small numbers in one spelling, and what an empty name stands for."""
    written = {key: _literal(item) for key, item in values.items()}
    if any("e-" in text for key, text in written.items() if type(values[key]) is float):
        written.update(
            (key, _scientific(item))
            for key, item in values.items()
            if type(item) is float and 0 < abs(item) < 1
        )
    if "" not in written or len(written) < 2:
        return "{" + ", ".join(f"{_literal(key)}: {text}" for key, text in written.items()) + "}"
    # The last comma keeps black from joining the lines, so that the comment stays where it belongs.
    lines = [
        f"{_literal(key)}: {text},{'' if key else '  # All others.'}"
        for key, text in written.items()
    ]
    return "\n".join(["{", *lines, "}"])


def _bytes(value: int) -> str:
    """Return whole gibibytes and mebibytes as ``2 << 30`` and ``512 << 20``."""
    for shift in (30, 20):
        count, rest = divmod(value, 1 << shift)
        if count and not rest:
            return f"{count} << {shift}"
    return repr(int(value))


def _scientific(value: float) -> str:
    """Return the shortest spelling with an exponent: ``1e-2``."""
    for digits in range(17):
        scientific = f"{value:.{digits}e}"
        if float(scientific) == value:
            break
    match = _SAFE_EXPONENT.match(scientific)
    if match is None:
        return repr(value)
    return f"{match[1]}e{'-' if match[2] == '-' else ''}{match[3]}"


def _float(value: float) -> str:
    """Return the shortest common spelling: ``1e-3`` and ``1e-5``, but ``0.05`` and ``40.0``."""
    if not math.isfinite(value):
        return f'float("{value}")'
    plain = repr(value)
    if 1 <= abs(value) < _ROUND:
        return plain
    short = _scientific(value)
    return short if len(short) < len(plain) else plain


def finalize(value: Any) -> Source:
    """Let a value into a program; the hook through which everything passes that a template writes.

    Raises:
        TypeError: `value` is a bare string, or has no literal.
    """
    if isinstance(value, Markup):
        return value
    if isinstance(value, Undefined):
        str(value)  # Raises what StrictUndefined has to say.
    if isinstance(value, str):
        raise TypeError(f"A template wrote the bare string {value!r}: make it a literal.")
    return literal(value)


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
