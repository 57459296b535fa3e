"""What is known about the machine and what is installed on it."""

from __future__ import annotations

from attrs import frozen


@frozen
class Section:
    """Some facts of one kind, by name, and what to do about them, in sentences."""

    title: str
    facts: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...] = ()


@frozen
class Environment:
    """What is known, in sections."""

    sections: tuple[Section, ...]
