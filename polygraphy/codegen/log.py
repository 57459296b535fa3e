"""How a program logs, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import Factory, frozen

__all__ = ["Log"]


@frozen
class Log:
    """How the program logs; empty values leave the defaults alone."""

    severities: Mapping[str, str] = Factory(dict)
    formats: Sequence[str] = ()
    file: str | None = None
