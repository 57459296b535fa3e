"""How a program logs, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import Factory, frozen


@frozen
class Log:
    """How the program logs; empty values leave the defaults alone. Where `is_quiet`, only the file
    gets what is not critical.
    """

    severities: Mapping[str, str] = Factory(dict)
    formats: Sequence[str] = ()
    file: str | None = None
    is_quiet: bool = False
