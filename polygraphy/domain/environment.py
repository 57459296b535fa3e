"""Facts about the machine and its installed packages."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen


@frozen
class Section:
    """Facts of one kind by name, with advice as sentences."""

    title: str
    facts: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...] = ()


@frozen
class Environment:
    """Facts about packages and machine, in sections."""

    sections: tuple[Section, ...]

    @property
    def summary(self) -> str:
        """Return the sentence that lists the installed backends."""
        backends = [section for section in self.sections if section.title == "Backends"]
        return describe_installed(fact for backend in backends for fact in backend.facts)


def describe_installed(backends: Iterable[tuple[str, str]]) -> str:
    """Return a sentence with the installed backends, from their names and versions."""
    names = [name for name, version in backends if version != "not installed"]
    return f"Installed: {', '.join(names)}." if names else "No backend is installed."
