"""What a technology knows about how it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.environment import Section

__all__ = ["Diagnosis"]


class Diagnosis(Protocol):
    """Looks at the machine, and never fails: what cannot be found out is said to be so."""

    def sections(self) -> list[Section]:
        """Return what is known, without changing anything."""
