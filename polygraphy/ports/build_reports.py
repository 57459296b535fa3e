"""How a person reads what a command found out about the ways in which engines can be built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.capability import SupportReport
    from polygraphy.domain.tactics import Algorithm, TacticReplay

__all__ = ["BuildReports"]


class BuildReports(Protocol):
    """Takes reports, one at a time; each is complete."""

    def replay(self, replay: TacticReplay) -> None:
        """The tactic of each layer."""

    def replays_compared(
        self,
        name0: str,
        name1: str,
        difference: Mapping[str, tuple[Algorithm | None, Algorithm | None]],
    ) -> None:
        """The layers whose tactic differs between two builds, with both; None where a build does
        not have the layer.
        """

    def bad_tactics(
        self, good: int, bad: int, suspicious: Mapping[str, Sequence[Algorithm]]
    ) -> None:
        """The tactics that only builds that failed chose, per layer, out of so many `good` and
        `bad` builds.
        """

    def support(self, report: SupportReport) -> None:
        """Which parts of a model a backend supports."""
