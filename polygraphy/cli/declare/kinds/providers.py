"""Execution providers of ONNX Runtime, each with its options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Union

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds.base import Kind

Provider = Union[str, "tuple[str, dict[str, str]]"]

_WITH_OPTIONS = re.compile(r"([^:=,]+):([^:=,]+=.*)", re.DOTALL)


class Providers(Kind):
    """One or more providers: ``cuda``, or with options ``cuda:device_id=1,use_tf32=0``.

    The value of an option goes on to the next ``,`` that a key and ``=`` follow.
    """

    nargs = "+"
    metavar = "PROVIDER[:KEY=VALUE,...]"

    def parse(self, words: Sequence[str]) -> tuple[Provider, ...]:
        """Return names, and pairs of a name and its options."""
        return tuple(map(_parsed, words))

    def unparse(self, value: Iterable[Provider]) -> list[str]:
        return [each if isinstance(each, str) else _word(*each) for each in value]

    def argument(self, value: Sequence[Provider]) -> Any:
        return list(value)


def _parsed(word: str) -> Provider:
    match = _WITH_OPTIONS.fullmatch(word)
    if match is None:
        return word
    options: dict[str, str] = {}
    for part in re.split(r",(?=[^:=,]+=)", match[2]):
        key, _, value = part.partition("=")
        if key in options:
            raise BadValue(f"{match[1]!r} has two values for {key!r}")
        options[key] = value
    return match[1], options


def _word(name: str, options: dict[str, str]) -> str:
    return f"{name}:" + ",".join(f"{key}={value}" for key, value in options.items())
