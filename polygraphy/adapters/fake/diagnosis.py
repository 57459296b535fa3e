"""A diagnosis that is known beforehand."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.domain.environment import Section


class FixedDiagnosis:
    """Finds what it was made with."""

    def __init__(self, sections: Sequence[Section] = ()) -> None:
        """Take what is found."""
        self._sections = tuple(sections)

    def sections(self) -> list[Section]:
        """Return what is known."""
        return list(self._sections)
