"""The option that takes the rest of the command line, whatever it holds."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import Kind
from polygraphy.cli.declare.option import Option


class Rest(Kind):
    """All words that follow."""

    nargs = "..."

    def __init__(self, metavar: str) -> None:
        """Name what the words are."""
        self.metavar = f"{metavar} ..."

    def parse(self, words: Sequence[str]) -> tuple[str, ...]:
        if not words:
            raise BadValue("a command has to follow")
        return tuple(words)

    def unparse(self, value: Sequence[str]) -> list[str]:
        return list(value)


def flags_in(words: Sequence[str]) -> set[str]:
    """Return the flags of a command line, and what else begins as they do."""
    return {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}


def split_rest(
    words: Sequence[str], options: Sequence[Option]
) -> tuple[list[str], dict[str, list[str]]]:
    """Split a command line at the flag of an option that takes the rest.

    Returns:
        The words before, and the words after by the name of the option.
    """
    flags = {
        flag: each.name for each in options if isinstance(each.kind, Rest) for flag in each.flags
    }
    for position, word in enumerate(words):
        if word in flags:
            return list(words[:position]), {flags[word]: list(words[position + 1 :])}
    return list(words), {}


def with_options(words: Sequence[str], more: Sequence[str], options: Sequence[Option]) -> list[str]:
    """Return a command line with more options at its end, where none takes the words of another;
    but before what takes all words that follow.
    """
    if not more:
        return list(words)
    end = len(split_rest(words, options)[0])
    if "--" in words[:end]:
        end = words.index("--")
    return [*words[:end], *more, *words[end:]]
